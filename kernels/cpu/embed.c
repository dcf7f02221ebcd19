#include "cpu.h"
#include "ref/weights/ref_weights.h"

static void embed_rows(const void *args, int64_t first, int64_t end) {
    const sac_embed_args *a = args;
    const sac_ref_weight *format = sac_ref_weight_of(&a->table);
    for (int64_t i = first; i < end; i++)
        format->row(&a->table, a->ids[i], a->y.cols, sac_mat_row_f32(a->y, i));
}

sac_status sac_cpu_embed(const sac_stream *s, const sac_embed_args *a) {
    sac_for_rows(s, a->y.rows, a->y.cols * 16, embed_rows, a); /* decoding is plain C */
    return SAC_OK;
}
