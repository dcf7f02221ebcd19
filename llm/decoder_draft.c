#include "decoder_draft.h"

#include "decoder_run.h"
#include "largest.h"

#include <assert.h>

/* The policy takes the place of the sequence's own, and counts for itself; and back. */
static void exchange(sac_decoder_state *s) {
    const sac_decode own = s->decode;
    sac_layer_stats *stats = s->stats;
    s->decode = s->drafting, s->drafting = own;
    s->stats = s->drafting_stats, s->drafting_stats = stats;
}

/* Rows of drafted tokens, which the policy has seen. The one before them, of row `past`, is the sequence's own. */
static void forget(sac_decoder_state *s, int64_t past) {
    for (int i = 0; i < s->shape.n_layers; i++) s->cache.layer_rows[i] = past;
    s->cache.n_rows = past;
    sac_decode_cut(&s->drafting, past, true);
}

/* What is wanted of the logits behind a guess, whatever the answer wants of its own. */
static const sac_token_wanted a_guess = {.n_best = 1, .n_top = -1};

/* Of the tokens below vocab. A device tells of all of them, and is not asked by those that may have fewer. */
static int32_t likeliest(const sac_decoder_state *s, int vocab) {
    assert(!s->told.is_told || vocab == s->vocab);
    return s->told.is_told ? s->told.largest_at : sac_largest_at(s->logits, vocab);
}

sac_status sac_decoder_draft(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops, const sac_stream *stream,
                             int64_t past, int32_t id, int most, int32_t *out, int *n, sac_error *err) {
    sac_status st = SAC_OK;
    assert(s->drafting.policy && past == s->cache.n_rows && most <= s->n_ahead && past + most <= s->n_ctx);
    const sac_token_wanted wanted = s->wanted;
    s->wanted = a_guess;
    exchange(s);
    for (*n = 0; *n < most; ++*n) {
        st = sac_decoder_step(d, s, ops, stream, past + *n, id, err);
        if (st != SAC_OK) break;
        id = out[*n] = likeliest(s, s->vocab);
    }
    exchange(s);
    s->wanted = wanted;
    if (st != SAC_OK) {
        sac_decoder_cut_back(s, past); /* to before the first of them */
        return st;
    }
    forget(s, past);
    return SAC_OK;
}

/* ---------------------------------------------------------------- of several together */

enum { TOGETHER = 32 }; /* sequences whose lists lie on the stack */

/* All that have one to run. Returns how many these are, 0: all are done. */
static int64_t list_next(sac_draft_lane *lanes, const int *n_run, int64_t n, sac_decoder_state **states, int32_t *ids, int64_t *of) {
    int64_t n_next = 0;
    for (int64_t i = 0; i < n; i++) {
        const sac_draft_lane *l = &lanes[i];
        if (l->n == l->most) continue;
        states[n_next] = l->s;
        ids[n_next] = n_run[i] < l->n_given ? l->given[n_run[i]] : l->out[l->n - 1];
        of[n_next++] = i;
    }
    return n_next;
}

static sac_status go_on(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops, const sac_stream *stream,
                        sac_draft_lane *lanes, int64_t n, sac_error *err) {
    sac_decoder_state *states[TOGETHER];
    int32_t ids[TOGETHER];
    int64_t of[TOGETHER];
    int n_run[TOGETHER] = {0};
    for (int64_t m; (m = list_next(lanes, n_run, n, states, ids, of)) > 0;) {
        SAC_TRY(sac_decoder_batch_step(d, b, ops, stream, states, ids, m, err));
        for (int64_t i = 0; i < m; i++) {
            sac_draft_lane *l = &lanes[of[i]];
            if (++n_run[of[i]] >= l->n_given) l->out[l->n++] = likeliest(l->s, l->vocab);
        }
    }
    return SAC_OK;
}

sac_status sac_decoder_go_on_together(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops, const sac_stream *stream,
                                      sac_draft_lane *lanes, int64_t n, sac_error *err) {
    for (int64_t i = 0; i < n; i++) lanes[i].n = 0;
    for (int64_t i = 0; i < n; i += TOGETHER)
        SAC_TRY(go_on(d, b, ops, stream, lanes + i, decoder_min(n - i, TOGETHER), err));
    return SAC_OK;
}

static sac_status draft(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops, const sac_stream *stream,
                        sac_draft_lane *lanes, int64_t n, sac_error *err) {
    int64_t past[TOGETHER];
    for (int64_t i = 0; i < n; i++) {
        sac_decoder_state *s = lanes[i].s;
        assert(s->drafting.policy && lanes[i].n_given == 1 && s->cache.n_rows + lanes[i].most <= s->n_ctx);
        past[i] = s->cache.n_rows;
        exchange(s);
    }
    const sac_status st = sac_decoder_go_on_together(d, b, ops, stream, lanes, n, err);
    for (int64_t i = 0; i < n; i++) {
        exchange(lanes[i].s);
        if (st == SAC_OK)
            forget(lanes[i].s, past[i]);
        else
            sac_decoder_cut_back(lanes[i].s, past[i]);
    }
    return st;
}

sac_status sac_decoder_draft_together(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops, const sac_stream *stream,
                                      sac_draft_lane *lanes, int64_t n, sac_error *err) {
    for (int64_t i = 0; i < n; i += TOGETHER)
        SAC_TRY(draft(d, b, ops, stream, lanes + i, decoder_min(n - i, TOGETHER), err));
    return SAC_OK;
}
