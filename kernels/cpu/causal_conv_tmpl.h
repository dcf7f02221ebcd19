/* causal_conv_tmpl.h - a vector of channels goes down the rows of a part, with the rows before in registers. */
#include "cpu.h"
#include "simd_math.h"

SAC_INLINE void conv_channels(const sac_causal_conv_args *a, int width, const sac_state_rows *part, int64_t first,
                              int64_t c) {
    const int64_t channels = a->x.cols, n = channels - c;
    vf w[SAC_CONV_MOST], seen[SAC_CONV_MOST];
    for (int j = 0; j < width; j++) w[j] = vf_load_part(a->w + j * channels + c, n);
    for (int j = 0; j + 1 < width; j++) seen[j] = vf_load_part(part->state + j * channels + c, n);
    for (int64_t t = first; t < first + part->n; t++) {
        vf sum = vf_zero();
        seen[width - 1] = vf_load_part(sac_mat_row_f32(a->x, t) + c, n);
        for (int j = 0; j < width; j++) sum = vf_fma(w[j], seen[j], sum);
        vf_store_part(sac_mat_row_f32(a->y, t) + c, vf_x_sigmoid(sum, sum), n);
        for (int j = 0; j + 1 < width; j++) seen[j] = seen[j + 1];
    }
    for (int j = 0; j + 1 < width; j++) vf_store_part(part->state + j * channels + c, seen[j], n);
}

/* Row i of the job: one vector of channels of one part. */
static void causal_conv_rows(const void *args, int64_t begin, int64_t end) {
    const sac_causal_conv_args *a = args;
    const int64_t n_vectors = sac_div_up(a->x.cols, VF);
    for (int64_t i = begin; i < end; i++) {
        const int p = (int)(i / n_vectors);
        int64_t first = 0;
        for (int j = 0; j < p; j++) first += a->parts[j].n;
        if (a->width == 4) /* the one that models have */
            conv_channels(a, 4, &a->parts[p], first, i % n_vectors * VF);
        else
            conv_channels(a, a->width, &a->parts[p], first, i % n_vectors * VF);
    }
}

static sac_status SAC_ISA(causal_conv)(const sac_stream *s, const sac_causal_conv_args *a) {
    if (!a->n_parts) return SAC_OK;
    const int64_t cost = (a->x.rows / a->n_parts + a->width) * VF * 24; /* as swiglu, for the exponential */
    sac_for_rows(s, a->n_parts * sac_div_up(a->x.cols, VF), cost, causal_conv_rows, a);
    return SAC_OK;
}
