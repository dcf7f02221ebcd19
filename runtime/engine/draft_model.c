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

/* What its sequence has of the first n of its room. */
static int64_t keep_same(sac_session *draft, int64_t n) {
    const int64_t held = draft->decoder.cache.n_rows;
    int64_t same = 0;
    while (same < held && same < n && draft->ids[same] == draft->prompt[same]) same++;
    return same < held ? sac_decoder_rewind(&draft->decoder, same) : same;
}

/* Its sequence comes nearer to the first n of its room, by A_PIECE tokens at most: a prompt is run beside as many steps as it
 * takes. What is there already is kept. *n_run: tokens that it ran for that. */
enum { A_PIECE = 256 };
static sac_status follow(sac_session *draft, int64_t n, bool *is_behind, int64_t *n_run, sac_error *err) {
    const int64_t same = keep_same(draft, n - 1);
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

sac_status sac_draft_model_ready(sac_session *s, int64_t past, int most, int32_t *out, sac_draft_lane *lane, double *behind_s,
                                 sac_error *err) {
    sac_session *draft = s->ahead.drafter;
    const int own = s->model->loaded.decoder.config.vocab, its = draft->model->loaded.decoder.config.vocab;
    const int64_t start_ns = sac_now_ns(), n_text = text_of(s, draft, past + 1), few = SAC_DRAFT_MOST + 1;
    *behind_s = 0;
    if (most > draft->memory.n_ctx - n_text) most = (int)(draft->memory.n_ctx - n_text);
    *lane = (sac_draft_lane){.s = &draft->decoder, .out = out, .vocab = own < its ? own : its};
    if (n_text < 2 || most < 1) return SAC_OK;
    if (sac_decoder_turns_anew(&draft->decoder, n_text + most)) {
        lane->s = NULL;
        return SAC_OK;
    }
    int64_t same = keep_same(draft, n_text - 1);
    if (!same || n_text - same > few) { /* as a prompt */
        const int64_t n = n_text - 1 - same < A_PIECE ? n_text - 1 - same : A_PIECE;
        SAC_TRY(sac_session_append(draft, draft->prompt + same, (size_t)n, NULL, err));
        *behind_s = sac_seconds_since(start_ns);
        same += n;
    }
    if (n_text - same > few) return SAC_OK;
    lane->given = draft->prompt + same, lane->n_given = (int)(n_text - same);
    lane->most = most;
    return SAC_OK;
}

void sac_draft_model_ran(sac_session *s, const sac_draft_lane *lane) {
    sac_session *draft = s->ahead.drafter;
    int64_t row = lane->given - draft->prompt;
    for (int i = 0; i < lane->n_given; i++) draft->ids[row++] = lane->given[i];
    for (int i = 0; i + 1 < lane->n; i++) draft->ids[row++] = lane->out[i];
    for (row = lane->given - draft->prompt; row < draft->decoder.cache.n_rows; row++)
        draft->identity[row] = sac_token_identity(draft, draft->ids[row]);
    draft->has_logits = false;
}
