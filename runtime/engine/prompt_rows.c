/* prompt_rows.c - which leading rows of a placed prompt may come from a cache. */
#include "prompt.h"

int64_t sac_prompt_whole_spans(const sac_session *s, int64_t n) {
    if (!s->model->loaded.decoder.config.sees_spans) return n;
    for (int i = 0; i < s->n_spans; i++)
        if (s->spans[i].first < n && n < s->spans[i].first + s->spans[i].n) n = s->spans[i].first;
    return n;
}

int64_t sac_prompt_exact_rows(const sac_session *s, int64_t n, int64_t n_tokens) {
    if (n > n_tokens - 1) n = n_tokens - 1;
    for (;;) { /* each may undo the other, downwards */
        int64_t whole = sac_prompt_whole_spans(s, sac_decoder_whole_rows(&s->decoder, n, n_tokens));
        if (whole == n) return n;
        n = whole;
    }
}
