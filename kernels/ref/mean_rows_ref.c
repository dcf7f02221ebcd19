#include "ref.h"

/* Row i as floats: where it lies, or in `room`. */
static const float *row_of(sac_mat x, int64_t i, float *room) {
    const void *row = (char *)x.data + (size_t)i * sac_dtype_row_bytes(x.dtype, x.stride);
    if (x.dtype == SAC_DTYPE_F32) return row;
    for (int64_t c = 0; c < x.cols; c++) room[c] = sac_ref_load(x.dtype, row, c);
    return room;
}

static void add_row(float *y, const float *x, int64_t cols, float divisor, bool is_first) {
    for (int64_t c = 0; c < cols; c++) {
        float f = divisor != 0 ? x[c] / divisor : x[c];
        y[c] = is_first ? f : y[c] + f;
    }
}

/* In f32, in the order of the rows: methods compare such means, so their bits are part of
 * the contract here. */
sac_status sac_ref_mean_rows(const sac_stream *s, const sac_mean_rows_args *a) {
    float *room = sac_stream_thread_scratch(s, 0);
    int64_t n_groups = a->n_groups > 1 ? a->n_groups : 1, each = a->x.rows / n_groups;
    assert(a->x.data && a->x.cols > 0 && a->x.stride >= a->x.cols);
    assert(each > 0 && each * n_groups == a->x.rows && a->y);
    assert((size_t)a->x.cols * sizeof *room <= SAC_THREAD_SCRATCH_BYTES);
    for (int64_t g = 0; g < n_groups; g++) {
        float *y = a->y + g * a->x.cols;
        for (int64_t i = g * each; i < (g + 1) * each; i++)
            add_row(y, row_of(a->x, i, room), a->x.cols, a->divisor, i == g * each);
        for (int64_t c = 0; c < a->x.cols; c++) y[c] *= a->scale;
    }
    return SAC_OK;
}
