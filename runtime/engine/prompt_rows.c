/* prompt_rows.c - which leading rows of a placed prompt may come from a cache, and which a prompt leaves there. */
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

void sac_prompt_count_rows(sac_session *s, int64_t past, int64_t n_tokens) {
    if (past == 0) s->begins_few = sac_decoder_is_few(&s->decoder, n_tokens);
    if (s->n_prompted == past) s->n_prompted = n_tokens;
    if (s->n_exact == past) s->n_exact = sac_decoder_rows_to_share(&s->decoder, n_tokens);
}
