/* session_report.c - what a session says of itself: what its methods did, what its cache holds, which settings are in use; and who
 * looks on. */
#include "workspace.h"

#include <math.h>
#include <stdio.h>

/* A device counts what methods do, too. */
static sac_status count(const sac_session *s, const sac_stream *stream) {
    const sac_decoder_state *d = &s->decoder;
    return sac_decode_counted(&d->decode, &d->shape, stream, d->stats);
}

static sac_status reset_counts(const sac_session *s, const sac_stream *stream) {
    sac_decoder_state *d = &((sac_session *)s)->decoder;
    sac_decoder_reset_stats(d, stream);
    return SAC_OK;
}

void sac_session_reset_stats(sac_session *s) {
    sac_session_with_stream(s, reset_counts);
}

static double ratio(double part, double whole) {
    return whole > 0 ? part / whole : 1;
}

bool sac_session_layer_stats(const sac_session *s, int layer, sac_layer_report *report) {
    if (layer < 0 || layer >= s->decoder.shape.n_layers) return false;
    const sac_layer_stats *l = &s->decoder.stats[layer];
    if (sac_session_with_stream(s, count) != SAC_OK) return false;
    *report = (sac_layer_report){
        .prefill_kept = ratio(l->prefill_kept, l->prefill_tokens),
        .prefill_work = ratio(l->prefill_pairs, l->prefill_pairs_dense),
        .decode_read = ratio(l->decode_rows, l->decode_rows_dense),
        .decode_rows = l->n_steps > 0 ? l->decode_rows / (l->n_steps * s->decoder.shape.n_kv_heads) : 0,
        .decode_budget = l->n_steps > 0 ? l->decode_budget / (l->n_steps * s->decoder.shape.n_heads) : 0,
        .prefill_mass = l->n_prefill_mass > 0 ? l->prefill_mass / l->n_prefill_mass : (double)NAN,
        .decode_mass = l->n_decode_mass > 0 ? l->decode_mass / l->n_decode_mass : (double)NAN,
        .select_seconds = (double)l->select_ns * 1e-9,
        .attend_seconds = (double)l->attend_ns * 1e-9,
        .selections = l->n_selections,
        .selection_cache_hits = l->n_cache_hits,
    };
    return true;
}

const double *sac_session_head_losses(const sac_session *s) {
    const sac_decode *d = &s->decoder.decode;
    return d->policy->head_losses ? d->policy->head_losses(d->state) : NULL;
}

int64_t sac_session_accepted_at(const sac_session *s, int place) {
    return place >= 0 && place < SAC_DRAFT_MOST ? s->ahead.n_taken[place] : 0;
}

size_t sac_session_kv_bytes(const sac_session *s) {
    return sac_kv_cache_bytes_used(&s->decoder.cache);
}

void sac_session_methods(const sac_session *s, sac_session_method_lines *lines) {
    const sac_decoder_state *d = &s->decoder;
    const sac_kv_choice *kv = &d->cache.choice;
    sac_method_print(d->prefill.policy->name, d->prefill.policy->params, d->prefill.p, lines->prefill,
                     sizeof lines->prefill);
    sac_decode_print(&d->decode, lines->decode, sizeof lines->decode);
    snprintf(lines->rope, sizeof lines->rope, "%s", d->rope_line);
    sac_reduce_print(&s->reduce, lines->reduce, sizeof lines->reduce);
    sac_method_print(kv->format->name, kv->format->params, kv->p, lines->kv, sizeof lines->kv);
    sac_draft_print(&s->ahead.draft, lines->draft, sizeof lines->draft);
}

void sac_session_observe_kept(sac_session *s, sac_kept_fn fn, void *ctx) {
    s->decoder.observer.fn = fn;
    s->decoder.observer.ctx = ctx;
}

void sac_session_observe_read(sac_session *s, sac_read_fn fn, void *ctx) {
    s->decoder.observer.read = fn;
    s->decoder.observer.read_ctx = ctx;
}

void sac_session_keep_hidden(sac_session *s, float *out) {
    s->kept_hidden = out;
}

const float *sac_session_logits(const sac_session *s) {
    const sac_token_told *t = &s->decoder.told;
    return s->has_logits && !t->is_told && !t->is_edited ? s->decoder.logits : NULL;
}

void sac_session_leave_logits(sac_session *s, bool leave) {
    s->leaves_logits = leave;
}

int64_t sac_session_n_tokens(const sac_session *s) {
    return s->decoder.cache.n_rows;
}
