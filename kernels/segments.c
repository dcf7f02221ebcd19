#include "segments.h"

/* Segments [first, end), which have one length, as batches. */
static sac_attention_args as_batches(const sac_attention_args *a, int64_t first, int64_t end) {
    int64_t row = a->segment_start[first], n = a->segment_start[first + 1] - row;
    size_t skipped = (size_t)row * sac_dtype_row_bytes(a->kv.dtype, a->kv.row_stride);
    sac_attention_args b = *a;
    b.segment_start = NULL;
    b.n_segments = 0;
    b.q = sac_mat_rows(a->q, row, (end - first) * n);
    b.o = sac_mat_rows(a->o, row, (end - first) * n);
    b.kv.k = (uint8_t *)a->kv.k + skipped;
    b.kv.v = (uint8_t *)a->kv.v + skipped;
    b.kv.n_rows = a->kv.n_rows - row;
    b.n_q = b.n_kv = b.batch_rows = n;
    b.n_batch = end - first;
    return b;
}

sac_status sac_attention_by_segments(const sac_stream *s, const sac_attention_args *a,
                                     sac_status (*fn)(const sac_stream *s, const sac_attention_args *a)) {
    const int32_t *start = a->segment_start;
    for (int64_t first = 0, end; first < a->n_segments; first = end) {
        int32_t n = start[first + 1] - start[first];
        for (end = first + 1; end < a->n_segments && start[end + 1] - start[end] == n; end++) {
        }
        sac_attention_args b = as_batches(a, first, end);
        if (n > 0) SAC_TRY(fn(s, &b));
    }
    return SAC_OK;
}

/* Queries [at, end) without spans; inside: they lie in one that ends before row `limit`. */
static sac_attention_args stretch(const sac_attention_args *a, int64_t at, int64_t end, int64_t limit, bool inside) {
    sac_attention_args b = *a;
    b.spans = NULL;
    b.n_spans = 0;
    b.n_q = end - at;
    b.q = sac_mat_rows(a->q, at, b.n_q);
    b.o = sac_mat_rows(a->o, at, b.n_q);
    b.first = a->first + at;
    if (a->lse) b.lse = a->lse + at * a->n_heads;
    b.causal = !inside;
    if (inside && limit < a->n_kv) b.n_kv = limit;
    if (!inside && b.first + b.n_q < a->n_kv) b.n_kv = b.first + b.n_q;
    return b;
}

sac_status sac_attention_by_spans(const sac_stream *s, const sac_attention_args *a,
                                  sac_status (*fn)(const sac_stream *s, const sac_attention_args *a)) {
    int64_t at = 0, span = 0;
    if (!a->causal) { /* all see all */
        sac_attention_args b = *a;
        b.n_spans = 0;
        return fn(s, &b);
    }
    while (at < a->n_q) {
        const int64_t row = a->first + at;
        while (span < a->n_spans && a->spans[span].first + a->spans[span].n <= row) span++;
        const sac_row_span *next = span < a->n_spans ? &a->spans[span] : NULL;
        const bool inside = next && next->first <= row;
        const int64_t limit = !next ? a->first + a->n_q : inside ? next->first + next->n : next->first;
        const int64_t end = limit - a->first < a->n_q ? limit - a->first : a->n_q;
        sac_attention_args b = stretch(a, at, end, limit, inside);
        SAC_TRY(fn(s, &b));
        at = end;
    }
    return SAC_OK;
}
