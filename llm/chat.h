/* chat.h - chat formats: how a conversation is written as one text for the model.
 *
 * Every format is one entry of the table in chat.c. A rendering is a list of text segments: the format's own
 * parts may contain control tokens ("<|im_end|>"), a user's text never does (parse_special stays false
 * there). A picture becomes its placeholder token itself. */
#ifndef SAC_LLM_CHAT_H
#define SAC_LLM_CHAT_H

#include "tokenizer.h"

typedef struct sac_chat_format sac_chat_format;

struct sac_chat_format {
    const char *name;   /* "chatml" */
    const char *source; /* whose template it is */
    /* Text around a message of each role; the generation prompt opens the model's turn. */
    const char *system_before, *system_after;
    const char *user_before, *user_after;
    const char *assistant_before, *assistant_after;
    const char *generation;
    const char *media_after;    /* after each placeholder: "\n" */
    const char *default_system; /* used when a conversation has no system message; NULL = none */
    bool system_in_user;        /* the system text stands inside the first user message (llama-2, mistral) */
    bool media_first;           /* all pictures of a message before its text, as these models were trained */
    const char *const *stops;   /* texts that end an answer besides the end token; NULL-terminated, or NULL */
    const char *const *markers; /* a template that holds all of these is this format; NULL-terminated */
};

const sac_chat_format *sac_chat_find(const char *name); /* NULL when there is none */
const char *const *sac_chat_names(void);                /* NULL-terminated */

/* The format whose markers stand in a chat template (Jinja text), or NULL. */
const sac_chat_format *sac_chat_detect(const char *template_text);

static inline const char *const *sac_chat_stops(const sac_chat_format *f) {
    return f->stops;
}

/* Text, or, with n_placeholders > 0, a picture or video that takes that many placeholders. Borrowed. */
typedef struct sac_chat_part {
    const char *text;
    size_t n_bytes;
    int64_t n_placeholders;
} sac_chat_part;

typedef struct sac_chat_message {
    const char *role; /* "system", "user", "assistant" */
    const sac_chat_part *parts;
    size_t n_parts;
} sac_chat_message;

/* Segments that are always enough for such a conversation. */
size_t sac_chat_max_segments(size_t n_messages, size_t n_parts, int64_t n_placeholders);

/* BAD_ARGUMENT for an unknown role, or a system message that is not the first. Segments borrow from messages
 * and format. */
sac_status sac_chat_render(const sac_chat_format *format, const sac_chat_message *messages, size_t n_messages,
                           bool add_generation_prompt, int32_t image_token, sac_text_segment *segments,
                           size_t capacity, size_t *n_segments, sac_error *err);

#endif
