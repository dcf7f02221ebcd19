/* answers_record.h - what one case of answers_probe says, as a line of text.
 *
 *   answer a;
 *   answer_open(&a, "demo tokens threads=%d", 2);
 *   answer_hear(&a, session, vocab);        logits of the last token run
 *   answer_token(&a, 17);
 *   answer_other(&a, "tiles", hash);        further bits that must not change
 *   answer_fact(&a, "kv_bytes=%zu", n);     figures that may change while the answer does not
 *   answer_print(&a);                       name, logits, tokens, others, facts; TABs between them
 *
 * Logits are kept as 64-bit hashes of their bits, one for the prompt and one for each step, so that the first
 * step that differs can be named. */
#ifndef ANSWERS_RECORD_H
#define ANSWERS_RECORD_H

#include "saccade/saccade.h"

enum { ANSWER_NAME = 512, ANSWER_STEPS = 128, ANSWER_TEXT = 4096 };

typedef struct answer {
    char name[ANSWER_NAME];
    uint64_t step[ANSWER_STEPS];
    int32_t token[ANSWER_STEPS];
    size_t n_steps, n_tokens;
    char other[ANSWER_TEXT], facts[ANSWER_TEXT];
    sac_status status; /* of the first call that failed; nothing is heard after it */
} answer;

/* FNV's mixing over 32-bit words; bytes behind the last whole word are taken one by one. */
uint64_t answer_hash(uint64_t seed, const void *data, size_t n_bytes);

void answer_open(answer *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
void answer_hear(answer *a, const sac_session *s, int vocab);
void answer_token(answer *a, int32_t token);
void answer_other(answer *a, const char *name, uint64_t hash);
void answer_fact(answer *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Remembers the first failure; its text is a fact, that it failed is the answer. */
void answer_fail(answer *a, sac_status st, const sac_error *err);

/* What the session's methods did and what its cache takes. */
void answer_statistics(answer *a, const sac_session *s);
void answer_result(answer *a, const sac_result *r);

/* All logits and tokens in one number. */
uint64_t answer_sum(const answer *a);

void answer_print(const answer *a);

#endif
