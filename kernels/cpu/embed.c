#include "cpu.h"
#include "quants.h"

static void embed_rows(const void *args, int64_t first, int64_t end) {
    const sac_embed_args *a = args;
    size_t row_bytes = sac_dtype_row_bytes(a->table.tensor.dtype, a->y.cols);
    for (int64_t i = first; i < end; i++)
        sac_dequantize_row(a->table.tensor.dtype,
                           (const char *)a->table.tensor.data + (size_t)a->ids[i] * row_bytes,
                           sac_mat_row_f32(a->y, i), a->y.cols);
}

sac_status sac_cpu_embed(const sac_stream *s, const sac_embed_args *a) {
    sac_for_rows(s, a->y.rows, a->y.cols * 16, embed_rows, a); /* decoding is plain C */
    return SAC_OK;
}
