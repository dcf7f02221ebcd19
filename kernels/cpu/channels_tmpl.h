/* channels_tmpl.h - how much each channel weighs, summed in f32 in the order of the tokens, then of the heads:
 * methods compare such sums, and lanes are channels. Before: simd.h. */

/* Row r is key-value head r. */
static void channel_sums_rows(const void *args, int64_t first, int64_t end) {
    const sac_channel_sums_args *a = args;
    const sac_kv_view *kv = &a->kv;
    const int64_t d = kv->head_dim, group = a->n_heads / kv->n_heads;
    const size_t element = sac_dtype_row_bytes(kv->dtype, 1);
    for (int64_t h = first; h < end; h++) {
        float *sums = a->sums + h * d;
        const char *keys =
            (const char *)kv->k + (size_t)(a->first * kv->row_stride + h * kv->head_stride) * element;
        memset(sums, 0, (size_t)d * sizeof *sums);
        for (int64_t i = 0; i < a->q.rows; i++) {
            const float *q = sac_mat_row_f32(a->q, i) + h * group * d;
            const char *key = keys + (size_t)(i * kv->row_stride) * element;
            for (int64_t c = 0; c < d; c += VF) {
                vf k = vf_load_as_part(kv->dtype, key, c, d - c), sum = vf_load_part(sums + c, d - c);
                for (int64_t g = 0; g < group; g++)
                    sum = vf_add(sum, vf_abs(vf_mul(vf_load_part(q + g * d + c, d - c), k)));
                vf_store_part(sums + c, sum, d - c);
            }
        }
    }
}

static sac_status SAC_ISA(channel_sums)(const sac_stream *s, const sac_channel_sums_args *a) {
    int64_t row_bytes = a->q.rows * a->kv.head_dim * (int64_t)sizeof(float);
    sac_for_rows(s, a->kv.n_heads, row_bytes, channel_sums_rows, a);
    return SAC_OK;
}
