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
