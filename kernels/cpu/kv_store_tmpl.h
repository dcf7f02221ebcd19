#include "cpu.h"
#include "simd.h"

SAC_INLINE void kv_store_head(sac_dtype t, void *to, int64_t at, const float *from, int64_t n) {
    for (int64_t c = 0; c < n; c += VF) {
        vf v = vf_load_part(from + c, n - c);
        if (t == SAC_DTYPE_F32)
            vf_store_part((float *)to + at + c, v, n - c);
        else if (t == SAC_DTYPE_F16)
            vf_store_f16_part((uint16_t *)to + at + c, v, n - c);
        else
            vf_store_bf16_part((uint16_t *)to + at + c, v, n - c);
    }
}

static void kv_store_rows(const void *args, int64_t first, int64_t end) {
    const sac_kv_store_args *a = args;
    const sac_kv_view *kv = &a->kv;
    for (int64_t row = first; row < end; row++) {
        for (int64_t head = 0; head < kv->n_heads; head++) {
            int64_t to = (a->first + row) * kv->row_stride + head * kv->head_stride;
            int64_t from = head * kv->head_dim;
            kv_store_head(kv->dtype, kv->k, to, sac_mat_row_f32(a->k, row) + from, kv->head_dim);
            kv_store_head(kv->dtype, kv->v, to, sac_mat_row_f32(a->v, row) + from, kv->head_dim);
        }
    }
}

static sac_status SAC_ISA(kv_store)(const sac_stream *s, const sac_kv_store_args *a) {
    sac_for_rows(s, a->k.rows, a->k.cols * 16, kv_store_rows, a);
    return SAC_OK;
}
