/* decoder_pick.c - queries that a prefill policy picks, and tokens that it drops. */
#include "decoder_pick.h"

#include "decoder_deep.h"

#include <string.h>

/* ---------------------------------------------------------------- queries */

/* Rows at a time, so that n fall into equal parts: a few left over would be slow. */
static int64_t even_part(int64_t n, int64_t most) {
    int64_t n_parts = (n + most - 1) / most;
    return n_parts ? (n + n_parts - 1) / n_parts : 1;
}

/* A bias of o would have to go to the tokens without outputs, too; what is added is not scaled on that way, and gates are
 * those of all queries. */
bool sac_decoder_picks_queries(const sac_prefill_work *w) {
    const sac_prefill *p = &w->s->prefill;
    return p->policy->picks_queries && p->policy->picks_queries(p->p) && w->n > 1 &&
           !sac_prefill_is_short(p, w->n_seen) && !w->d->config.gated_attention && !w->d->layers[w->layer].o_bias &&
           w->d->config.residual_scale == 0;
}

/* Hidden rows and positions of the listed tokens, side by side; positions are moved as rows of one number. */
static sac_status pick_rows(const sac_prefill_work *w, const int32_t *rows, sac_mat x) {
    const decoder_run r = decoder_run_of(w);
    const sac_decoder_state *s = w->s;
    sac_mat all = {s->device_positions + w->past, w->n, 1, 1, SAC_DTYPE_F32};
    sac_mat picked = {s->picked_positions, x.rows, 1, 1, SAC_DTYPE_F32};
    SAC_TRY(w->ops->gather_rows(
        w->stream,
        &(sac_gather_rows_args){.y = x, .x = decoder_hidden_rows(&r, w->past, w->n), .source = rows}));
    return w->ops->gather_rows(w->stream, &(sac_gather_rows_args){.y = picked, .x = all, .source = rows});
}

/* Queries [first, first + q.rows) of those that are asked for. */
static sac_status make_some(const sac_prefill_work *w, sac_mat q, const int32_t *rows, int64_t first) {
    const decoder_run r = decoder_run_of(w);
    const sac_decoder_state *s = w->s;
    sac_block_rows x = sac_decoder_rows(&r, w->past + (rows ? 0 : first), q.rows);
    sac_rotation rotation = decoder_rotation(&r, w->layer);
    x.q = decoder_as(q, s->dtype);
    if (rows) {
        SAC_TRY(pick_rows(w, rows + first, x.norm));
        x.hidden = x.norm;
    }
    SAC_TRY(sac_block_queries(&x, &w->d->layers[w->layer], &rotation,
                              rows ? s->picked_positions : s->device_positions + w->past + first));
    return sac_block_convert(&x, x.q, q.dtype);
}

sac_status sac_decoder_make_queries(void *ctx, sac_mat q, const int32_t *rows) {
    const sac_prefill_work *w = ctx;
    int64_t most = w->s->chunk, part = rows ? even_part(q.rows, most) : most;
    for (int64_t i = 0; i < q.rows; i += part) {
        int64_t n = decoder_min(q.rows - i, part);
        SAC_TRY(make_some(w, sac_mat_rows(q, i, n), rows, i));
    }
    return SAC_OK;
}

int64_t sac_decoder_attended_part(const sac_prefill_work *w) {
    return decoder_min(w->some.o.rows - w->at, even_part(w->some.o.rows, w->s->chunk));
}

sac_status sac_decoder_add_attended(const sac_prefill_work *w, int64_t n) {
    const decoder_run r = decoder_run_of(w);
    sac_block_rows x = sac_decoder_rows(&r, w->past, n);
    x.q = decoder_as(sac_mat_rows(w->some.o, w->at, n), r.s->dtype);
    SAC_TRY(sac_block_convert(&x, sac_mat_rows(w->some.o, w->at, n), x.q.dtype));
    SAC_TRY(sac_block_attended(&x, &w->d->layers[w->layer]));
    return w->ops->scatter_rows(w->stream,
                                &(sac_scatter_rows_args){.y = decoder_hidden_rows(&r, w->past, w->n),
                                                         .x = x.norm,
                                                         .target = w->some.rows + w->at,
                                                         .accumulate = true});
}

/* ---------------------------------------------------------------- tokens */

/* Hidden rows from `first` on, n_kept of them: the next go where nothing is still wanted. */
static sac_status drop_on_device(const decoder_run *r, int64_t first, const int32_t *kept, int64_t n_kept) {
    const sac_decoder_state *s = r->s;
    int64_t hidden = r->d->config.hidden, n_rows = kept[n_kept - 1] + 1;
    for (int64_t i = 0; i < n_kept; i += s->chunk) {
        int64_t n = decoder_min(n_kept - i, s->chunk);
        sac_mat part = decoder_mat(r, s->norm, n, hidden), to = decoder_hidden_rows(r, first + i, n);
        SAC_TRY(decoder_upload(r, s->device_ids, kept + i, (size_t)n * sizeof *kept));
        SAC_TRY(r->ops->gather_rows(
            r->stream,
            &(sac_gather_rows_args){part, decoder_hidden_rows(r, first, n_rows), s->device_ids, NULL}));
        SAC_TRY(s->device->copy(r->stream, to.data, part.data,
                                (size_t)n * sac_dtype_row_bytes(s->dtype, hidden)));
    }
    return sac_decoder_upload_positions(r, first, n_kept);
}

sac_status sac_decoder_drop_tokens(sac_prefill_work *w) {
    const decoder_run r = decoder_run_of(w);
    sac_decoder_state *s = w->s;
    int64_t n_kept;
    size_t row = sac_dtype_row_bytes(s->dtype, w->d->config.hidden);
    uint8_t *rows = decoder_hidden_rows(&r, w->past, w->n).data;
    const int32_t *kept = s->prefill.policy->keep(s->prefill.state, &w->attention, &n_kept);
    if (!kept) return SAC_OK;
    for (int64_t i = 0; i < n_kept; i++) { /* rows only move up, to where nothing is still wanted */
        if (kept[i] == i) continue;
        if (!s->device) memcpy(rows + (size_t)i * row, rows + (size_t)kept[i] * row, row);
        s->positions[w->past + i] = s->positions[w->past + kept[i]];
    }
    SAC_TRY(sac_decoder_move_deep(w, kept, n_kept));
    w->n = n_kept;
    return s->device ? drop_on_device(&r, w->past, kept, n_kept) : SAC_OK;
}
