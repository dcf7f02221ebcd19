#include "draft_model.h"

#include "clock.h"
#include "largest.h"

/* The text of rows [0, n) as the draft's tokens, into its room for a prompt: how many, or -1 where it has no room. */
static int64_t text_of(const sac_session *s, sac_session *draft, int64_t n) {
    const sac_decoder_state *d = &s->decoder;
    const int vocab = draft->model->loaded.decoder.config.vocab;
    int64_t n_text = 0;
    int span = 0;
    for (int64_t row = 0; row < n; row++) {
        while (span < d->n_visual && row >= d->visual[span].first + d->visual[span].n) span++;
        const bool shows = span < d->n_visual && row >= d->visual[span].first;
        if (shows || s->ids[row] < 0 || s->ids[row] >= vocab) continue;
        if (n_text == draft->memory.n_ctx) return -1;
        draft->prompt[n_text++] = s->ids[row];
    }
    return n_text;
}

/* Its sequence comes nearer to the first n of its room, by A_PIECE tokens at most: a prompt is run beside as many steps as it
 * takes. What is there already is kept. *n_run: tokens that it ran for that. */
enum { A_PIECE = 256 };
static sac_status follow(sac_session *draft, int64_t n, bool *is_behind, int64_t *n_run, sac_error *err) {
    const int64_t held = draft->decoder.cache.n_rows;
    int64_t same = 0;
    while (same < held && same < n - 1 && draft->ids[same] == draft->prompt[same]) same++;
    if (same < held) same = sac_decoder_rewind(&draft->decoder, same);
    *n_run = n - same < A_PIECE ? n - same : A_PIECE;
    *is_behind = *n_run < n - same;
    return sac_session_append(draft, draft->prompt + same, (size_t)*n_run, NULL, err);
}

sac_status sac_draft_model_guess(sac_session *s, int64_t past, int most, int32_t *out, int *n, double *behind_s, sac_error *err) {
    sac_session *draft = s->ahead.drafter;
    const int own = s->model->loaded.decoder.config.vocab, its = draft->model->loaded.decoder.config.vocab;
    const int64_t start_ns = sac_now_ns(), n_text = text_of(s, draft, past + 1);
    int64_t n_run;
    *n = 0;
    *behind_s = 0;
    if (n_text < 1) return SAC_OK;
    if (most > draft->memory.n_ctx - n_text) most = (int)(draft->memory.n_ctx - n_text);
    bool is_behind;
    SAC_TRY(follow(draft, n_text, &is_behind, &n_run, err));
    if (n_run > SAC_DRAFT_MOST + 1) *behind_s = sac_seconds_since(start_ns);
    if (is_behind) return SAC_OK;
    while (*n < most) {
        out[*n] = sac_largest_at(draft->decoder.logits, own < its ? own : its);
        if (++*n < most) SAC_TRY(sac_session_append(draft, &out[*n - 1], 1, NULL, err));
    }
    return SAC_OK;
}
