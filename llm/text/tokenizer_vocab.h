/* tokenizer_vocab.h - token texts by id and ids by text. Inside the tokenizer only.
 *
 * All texts lie in one block; a token is 8 bytes that point into it; texts are found through an
 * open-addressing table with linear probing, at most 3/4 full, of 32-bit words: 10 bits of the hash, 22 bits
 * of id + 1. What costs time here is memory latency, so small tables win: 151,000 tokens (Qwen2.5) take 3.3
 * MB in all. A file made to collide is refused instead of searched (MAX_PROBES in the .c file). */
#ifndef SAC_LLM_TOKENIZER_VOCAB_H
#define SAC_LLM_TOKENIZER_VOCAB_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SAC_VOCAB_PRESENT = 1, /* the id has a token */
    SAC_VOCAB_MODEL = 2,   /* it belongs to the model, not only to the added tokens */
    SAC_VOCAB_ADDED = 4,
    SAC_VOCAB_SPECIAL = 8,  /* control token: skipped in answers, and plain text never becomes it */
    SAC_VOCAB_RENAMED = 16, /* an added token whose name the normalisers change: sac_added_name */
};

typedef struct sac_vocab_token {
    uint32_t offset;
    uint16_t n_bytes;
    uint16_t flags;
} sac_vocab_token;

typedef struct sac_vocab {
    char *text;
    size_t text_bytes, text_capacity;
    sac_vocab_token *token; /* [n_ids] */
    int32_t n_ids;          /* highest id + 1 */
    int32_t token_capacity;
    int32_t n_tokens;   /* ids that have a token */
    uint32_t *slot;     /* 0 = empty */
    uint32_t slot_mask; /* number of slots - 1 */
    size_t longest_bytes;
} sac_vocab;

/* Makes room for about n_tokens. */
sac_status sac_vocab_reserve(sac_vocab *v, size_t n_tokens, size_t text_bytes, sac_error *err);
void sac_vocab_free(sac_vocab *v);

/* BAD_FILE when the id is out of range or taken, or the text empty or too long. The token is not found by its
 * text until sac_vocab_index is called. */
sac_status sac_vocab_add(sac_vocab *v, int64_t id, const char *text, size_t n_bytes, unsigned flags,
                         sac_error *err);
/* BAD_FILE when two tokens have the same text. */
sac_status sac_vocab_index(sac_vocab *v, sac_error *err);
/* The same for a token that comes later. */
sac_status sac_vocab_add_indexed(sac_vocab *v, int64_t id, const char *text, size_t n_bytes, unsigned flags,
                                 sac_error *err);

int32_t sac_vocab_find(const sac_vocab *v, const char *text, size_t n_bytes); /* -1 = none */

/* The same in two parts, with time between them for the memory to answer. */
uint64_t sac_vocab_ask(const sac_vocab *v, const char *text, size_t n_bytes);
int32_t sac_vocab_answer(const sac_vocab *v, uint64_t asked, const char *text, size_t n_bytes);

static inline bool sac_vocab_has(const sac_vocab *v, int64_t id) {
    return id >= 0 && id < v->n_ids && v->token[id].flags;
}
/* Text may become this token by the model's rules: it is the model's own, and no control token. */
static inline bool sac_vocab_is_text(const sac_vocab *v, int32_t id) {
    return (v->token[id].flags & (SAC_VOCAB_MODEL | SAC_VOCAB_SPECIAL)) == SAC_VOCAB_MODEL;
}
static inline const char *sac_vocab_text(const sac_vocab *v, int32_t id) {
    return v->text + v->token[id].offset;
}

#endif
