#include "cpu.h"
#include "ref/weights/ref_weights.h"

static void embed_rows(const void *args, int64_t first, int64_t end) {
    const sac_embed_args *a = args;
    const sac_ref_weight *format = sac_ref_weight_of(&a->table);
    for (int64_t i = first; i < end; i++) {
        float *y = sac_mat_row_f32(a->y, i);
        format->row(&a->table, a->ids[i], a->y.cols, y);
        for (int64_t c = 0; c < a->y.cols && a->scale != 0; c++) y[c] *= a->scale;
    }
}

sac_status sac_cpu_embed(const sac_stream *s, const sac_embed_args *a) {
    sac_for_rows(s, a->y.rows, a->y.cols * 16, embed_rows, a); /* decoding is plain C */
    return SAC_OK;
}
