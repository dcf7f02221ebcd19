/* chat_template.h - conversations through a checkpoint's own chat template, with what transformers'
 * apply_chat_template gives it (5.23): messages, tools, documents, add_generation_prompt, the special tokens by
 * name, and variables of the caller's.
 *
 * Content is a text or a list of parts, {"type": "text", "text": ...}, {"type": "image"}, {"type": "video"}, as the
 * template wants it. That is found out when it is opened, by small conversations, for each role:
 * - A message of texts is a string for a model that reads text only, unless the template shows only lists, and a list
 *   for one with pictures, unless it shows only strings. Several texts are a list where it shows lists; otherwise they
 *   are joined by line ends.
 * - A tool's message follows the first rule by what the template makes of one that answers a call.
 * - A message with pictures is a list, where the template writes a placeholder for a part of that type. Where it does
 *   not but takes strings, the placeholders stand before the text, each on a line of its own.
 *
 * Of the rendered text each byte is the template's or the user's. Control tokens and placeholders count in the
 * template's part only, unless the request says parse_special. */
#ifndef SAC_LLM_CHAT_TEMPLATE_H
#define SAC_LLM_CHAT_TEMPLATE_H

#include "chat.h"

#define SAC_CHAT_TEMPLATE_MAX_BYTES ((size_t)1 << 20)

typedef struct sac_chat_template sac_chat_template;   /* one, open; read-only */
typedef struct sac_chat_templates sac_chat_templates; /* those of a checkpoint, by name */

/* ---- the templates of a checkpoint */

sac_status sac_chat_templates_create(sac_chat_templates **out, sac_error *err);
void sac_chat_templates_free(sac_chat_templates *t); /* NULL is fine */

/* Only kept, not read. `source` is what errors call it: a path. A name that is there already is replaced. */
sac_status sac_chat_templates_add(sac_chat_templates *t, const char *name, const char *source,
                                  const char *text, size_t n_bytes, sac_error *err);
/* A variable of every template: "bos_token" is "<s>"; NULL: it is not defined. */
sac_status sac_chat_templates_set_token(sac_chat_templates *t, const char *name, const char *text,
                                        sac_error *err);
/* The variable's text, or NULL. */
const char *sac_chat_templates_token(const sac_chat_templates *t, const char *name);
/* What the templates write where a picture's and a video's rows stand. video NULL: frames are pictures. */
sac_status sac_chat_templates_set_placeholders(sac_chat_templates *t, const char *image, const char *video,
                                               sac_error *err);

size_t sac_chat_templates_count(const sac_chat_templates *t);
const char *sac_chat_templates_name(const sac_chat_templates *t, size_t i);
sac_text_span sac_chat_templates_text(const sac_chat_templates *t, size_t i); /* as it was added */

/* The template of that name, opened by the first call. *out NULL: there is none. What cannot be run is BAD_FILE:
 * file, line, what, and what to do. */
sac_status sac_chat_templates_open(sac_chat_templates *t, const char *name, const sac_chat_template **out,
                                   sac_error *err);

const char *sac_chat_template_source(const sac_chat_template *t);
/* What the template writes behind an answer, less white space around it: "<|im_end|>"; "" when nothing. */
const char *sac_chat_template_end(const sac_chat_template *t);

/* ---- rendering */

typedef struct sac_chat_request {
    const sac_chat_message *messages;
    size_t n_messages;
    const json_t *tools, *documents; /* arrays, or NULL */
    const json_t *variables;         /* an object, or NULL; stands before special tokens of the same name */
    bool add_generation_prompt;
    bool
        continue_final_message; /* the text ends with the last message's, without what the template puts behind */
    bool parse_special;         /* control tokens in the user's texts are such */
    int32_t image_token, video_token; /* ids of is_token segments for the placeholders */
} sac_chat_request;

typedef struct sac_chat_text {
    sac_text_segment *segments; /* into the rendering's memory */
    size_t n_segments;
    bool has_begin; /* the text begins with the begin token: none is to be added */
    struct sac_rendering *rendering;
} sac_chat_text;

/* BAD_ARGUMENT when the template refuses the conversation (raise_exception) or fails over it, when its placeholders are
 * not those of the parts in number and order, for a role that it would write as an answer, and for
 * continue_final_message with a last message that is not in the text. */
sac_status sac_chat_template_render(const sac_chat_template *t, const sac_chat_request *request,
                                    sac_chat_text *out, sac_error *err);
void sac_chat_text_free(sac_chat_text *text); /* a zeroed one is fine */

#endif
