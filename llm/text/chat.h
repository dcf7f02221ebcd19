/* chat.h - chat formats: how a conversation is written as one text for the model.
 *
 * Every format is one entry of the table in chat.c, equal to the template its models publish
 * (tests/golden/tokenizer/ chat.json has those templates' own output). A rendering is a list of text
 * segments: the format's own parts may contain control tokens ("<|im_end|>"), a user's text never does
 * (parse_special stays false there). A picture becomes its placeholder token itself. Tokenise with
 * add_special: a begin token that the format writes is not doubled. */
#ifndef SAC_LLM_CHAT_H
#define SAC_LLM_CHAT_H

#include "tokenizer.h"

#include <jansson.h>

typedef enum sac_system_place {
    SAC_SYSTEM_MESSAGE, /* a message of its own, the first */
    SAC_SYSTEM_FIRST,   /* inside the first user message */
    SAC_SYSTEM_LAST,    /* inside the last message, a user's */
    SAC_SYSTEM_NONE,    /* the format has none: refused */
} sac_system_place;

enum {
    SAC_TRIM_SYSTEM = 1,
    SAC_TRIM_USER = 2,
    SAC_TRIM_ASSISTANT = 4
}; /* white space around the content goes */

typedef struct sac_chat_format {
    const char *name;   /* "chatml" */
    const char *source; /* whose template it is */
    const char *begin;  /* once, before everything */
    /* Text around a message of each role; the generation prompt opens the model's turn. NULL = nothing. */
    const char *system_before, *system_after;
    const char *user_before, *user_after;
    const char *assistant_before, *assistant_after;
    const char *generation;
    const char *text_after;     /* after each text part */
    const char *media_before;   /* before each placeholder */
    const char *media_after;    /* after each */
    const char *default_system; /* used when a conversation has no system message */
    sac_system_place system;
    unsigned trim;
    bool alternates;            /* user and assistant must take turns, the user first */
    bool media_in_place;        /* otherwise all pictures of a message stand before its text */
    const char *const *stops;   /* texts that end an answer besides the end token; NULL-terminated, or NULL */
    const char *const *markers; /* a template that holds all of these is this format; NULL = never detected */
    const char *unless;         /* but not if it holds this */
} sac_chat_format;

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
    bool is_video;
} sac_chat_part;

typedef struct sac_chat_message {
    const char *role; /* "system", "user", "assistant"; a template may take others */
    const sac_chat_part *parts;
    size_t n_parts;
    const json_t
        *fields; /* an object: what else a template may look at, such as tool_calls; NULL = nothing */
} sac_chat_message;

/* Segments that are always enough for such a conversation. */
size_t sac_chat_max_segments(size_t n_messages, size_t n_parts, int64_t n_placeholders);

/* BAD_ARGUMENT for an unknown role, a system message that is not the first or that the format does not have,
 * and roles out of turn where the model's template refuses them. Segments borrow from messages and format;
 * placeholders come in the order of the media parts. */
sac_status sac_chat_render(const sac_chat_format *format, const sac_chat_message *messages, size_t n_messages,
                           bool add_generation_prompt, int32_t image_token, sac_text_segment *segments,
                           size_t capacity, size_t *n_segments, sac_error *err);

#endif
