#include "decoder_deep.h"

#include "decoder_pick.h"

#include <string.h>

sac_mat sac_decoder_deep(const sac_decoder_state *s, int64_t first, int64_t n) {
    int64_t cols = (int64_t)s->n_deep * s->shape.hidden;
    if (!s->deep) return (sac_mat){NULL, n, cols, cols, s->dtype};
    return sac_mat_rows((sac_mat){s->deep, s->n_ctx, cols, cols, s->dtype}, first - s->first_row, n);
}

/* Of those rows, what is added after one layer. */
static sac_mat deep_of_layer(const sac_decoder_state *s, int layer, int64_t first, int64_t n) {
    sac_mat m = sac_decoder_deep(s, first, n);
    m.cols = s->shape.hidden;
    m.data = (uint8_t *)m.data + sac_dtype_row_bytes(m.dtype, layer * m.cols);
    return m;
}

/* Whether a place of the sequence shows a picture. Places are asked for in order: *span moves along. */
static bool is_visual(const sac_decoder_state *s, int64_t place, int *span) {
    while (*span < s->n_visual && place >= s->visual[*span].first + s->visual[*span].n) ++*span;
    return *span < s->n_visual && place >= s->visual[*span].first;
}

sac_status sac_decoder_add_deep_to(const sac_prefill_work *w, const sac_stream *stream, int layer, int64_t first, sac_mat y) {
    const sac_decoder_state *s = w->s;
    const int64_t end = first + y.rows;
    int span = 0;
    if (layer >= s->n_deep) return SAC_OK;
    for (int64_t at = first; at < end;) {
        int64_t run = at;
        while (run < end && is_visual(s, s->positions[run], &span)) run++;
        if (run > at)
            SAC_TRY(w->ops->scatter_rows(stream, &(sac_scatter_rows_args){.y = sac_mat_rows(y, at - first, run - at),
                                                                          .x = deep_of_layer(s, layer, at, run - at),
                                                                          .accumulate = true}));
        at = run > at ? run : at + 1;
    }
    return SAC_OK;
}

sac_status sac_decoder_add_deep(const sac_prefill_work *w, int64_t first, int64_t n) {
    return sac_decoder_add_deep_to(w, w->stream, w->layer, first, sac_decoder_hidden(w->s, first, n));
}

/* Of one layer, a chunk at a time, through rows that nothing else needs here. */
static sac_status move_on_device(const sac_prefill_work *w, int layer, const int32_t *kept, int64_t n_kept) {
    const sac_decoder_state *s = w->s;
    const decoder_run r = decoder_run_of(w);
    const sac_mat from = deep_of_layer(s, layer, w->past, w->n);
    for (int64_t i = 0; i < n_kept; i += s->chunk) {
        int64_t n = decoder_min(n_kept - i, s->chunk);
        sac_mat part = decoder_mat(&r, s->norm, n, s->shape.hidden);
        SAC_TRY(decoder_upload(&r, s->device_ids, kept + i, (size_t)n * sizeof *kept));
        SAC_TRY(w->ops->gather_rows(w->stream, &(sac_gather_rows_args){part, from, s->device_ids, NULL}));
        SAC_TRY(w->ops->scatter_rows(w->stream,
                                     &(sac_scatter_rows_args){.y = sac_mat_rows(from, i, n), .x = part}));
    }
    return SAC_OK;
}

sac_status sac_decoder_move_deep(const sac_prefill_work *w, const int32_t *kept, int64_t n_kept) {
    const sac_decoder_state *s = w->s;
    if (w->layer + 1 >= s->n_deep) return SAC_OK;
    for (int layer = w->layer + 1; layer < s->n_deep && s->device; layer++)
        SAC_TRY(move_on_device(w, layer, kept, n_kept));
    if (s->device) return SAC_OK;
    const sac_mat rows = sac_decoder_deep(s, w->past, w->n);
    const size_t row = sac_dtype_row_bytes(rows.dtype, rows.cols);
    uint8_t *data = rows.data;
    for (int64_t i = 0; i < n_kept; i++)
        if (kept[i] != i) memcpy(data + (size_t)i * row, data + (size_t)kept[i] * row, row);
    return SAC_OK;
}
