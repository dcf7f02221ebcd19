#include "ref.h"

/* One channel of one part: the rows before a row are those of the state, then x's own. */
static void run(const sac_causal_conv_args *a, const sac_state_rows *part, int64_t first, int64_t c) {
    const int64_t channels = a->x.cols, before = a->width - 1;
    float seen[SAC_CONV_MOST]; /* of rows t - width + 1 to t */
    for (int64_t j = 0; j < before; j++) seen[j] = part->state[j * channels + c];
    for (int64_t t = first; t < first + part->n; t++) {
        double sum = 0;
        seen[before] = sac_mat_row_f32(a->x, t)[c];
        for (int j = 0; j < a->width; j++) sum += (double)a->w[j * channels + c] * (double)seen[j];
        sac_mat_row_f32(a->y, t)[c] = (float)sac_ref_activation(SAC_ACT_SILU, sum);
        for (int64_t j = 0; j < before; j++) seen[j] = seen[j + 1];
    }
    for (int64_t j = 0; j < before; j++) part->state[j * channels + c] = seen[j];
}

sac_status sac_ref_causal_conv(const sac_stream *s, const sac_causal_conv_args *a) {
    (void)s;
    int64_t first = 0;
    assert(sac_ref_is_mat(a->y) && sac_ref_is_mat(a->x) && sac_ref_same_shape(a->y, a->x));
    assert(a->width >= 1 && a->width <= SAC_CONV_MOST);
    for (int i = 0; i < a->n_parts; first += a->parts[i++].n)
        for (int64_t c = 0; c < a->x.cols; c++) run(a, &a->parts[i], first, c);
    assert(first == a->x.rows);
    return SAC_OK;
}
