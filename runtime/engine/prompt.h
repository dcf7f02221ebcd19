/* prompt.h - from a conversation to the sequence of tokens in the session. */
#ifndef SAC_ENGINE_PROMPT_H
#define SAC_ENGINE_PROMPT_H

#include "media.h"

typedef struct sac_prompt {
    int64_t n_ids;    /* in s->prompt: text tokens, and one mark for every span of visual tokens */
    int64_t n_tokens; /* with every mark widened to its visual tokens */
    int64_t n_visual;
    int64_t n_reused; /* leading tokens whose keys and values the session already holds; below n_tokens */
    bool shares;      /* some of them are another's, whose pages it has */
} sac_prompt;

/* Renders and tokenises the conversation into s->prompt and counts. The media are prepared before. TOO_LONG
 * when it does not fit the context together with at least one token of answer. */
sac_status sac_prompt_build(sac_session *s, const sac_message *messages, size_t n_messages,
                            sac_prompt *prompt, sac_error *err);

/* The same for text without chat format, with the begin token as the tokenizer defines it, and for token ids;
 * the session has no media then. */
sac_status sac_prompt_of_text(sac_session *s, const char *text, size_t n_bytes, sac_prompt *prompt,
                              sac_error *err);
sac_status sac_prompt_of_tokens(sac_session *s, const int32_t *ids, size_t n_ids, sac_prompt *prompt,
                                sac_error *err);

/* Writes the widened sequence over s->ids and s->identity, tells every span where its tokens stand, numbers
 * the rows (s->positions), and finds n_reused; rows of the cache past that are given up. */
sac_status sac_prompt_place(sac_session *s, sac_prompt *prompt, sac_error *err);

/* Of the first n rows of a placed prompt those before a picture that they end in, where its rows see one another: these are
 * run together, or kept together. */
int64_t sac_prompt_whole_spans(const sac_session *s, int64_t n);

/* Of the first n rows of a placed prompt of n_tokens as many as may be taken from a cache for the answer that it gets when
 * it is run from its first token, bit for bit on the CPU. The last row is always run: its logits are wanted. */
int64_t sac_prompt_exact_rows(const sac_session *s, int64_t n, int64_t n_tokens);

/* The cache has all rows of the prompt, of which it had `past` before: what they may serve from now on. */
void sac_prompt_count_rows(sac_session *s, int64_t past, int64_t n_tokens);

/* Row after the last visual token of item i. */
int64_t sac_prompt_media_end(const sac_session *s, size_t i);

#endif
