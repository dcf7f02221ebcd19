/* choice_step_tmpl.h - rows of a choice at their places: kv_gather of a list that is written here, and rope. */
#include "cpu.h"
#include "ref/ref.h"

/* Rows of places [begin, begin + n), and how far each lies from its place. */
static void choice_step_list(const sac_choice_step_args *a, int64_t begin, int64_t n, int32_t *rows,
                             int32_t *turn) {
    int64_t n_first = a->init + a->n_chosen, old = a->n_rows - a->local - n_first;
    for (int64_t i = begin; i < begin + n; i++) {
        int64_t row = i < a->init ? i : i < n_first ? a->init + a->chosen[i - a->init] : old + i;
        rows[i - begin] = (int32_t)row;
        turn[i - begin] = (int32_t)(row - i);
    }
}

static sac_status SAC_ISA(choice_step)(const sac_stream *s, const sac_choice_step_args *a) {
    int64_t n_first = a->init + a->n_chosen, begin = a->kept || sac_is_skipped(a->skip) ? n_first : 0,
            n = n_first + a->local - begin;
    const int64_t start[2] = {0, n};
    int32_t *rows = sac_stream_thread_scratch(s, 0), back = (int32_t)(a->n_rows - n_first - a->local);
    sac_kv_view to = a->dst;
    size_t skipped = (size_t)(begin * to.row_stride) * sac_dtype_row_bytes(to.dtype, 1);
    if (2 * (size_t)n * sizeof *rows > SAC_THREAD_SCRATCH_BYTES) return sac_ref_choice_step(s, a);
    to.k = (char *)to.k + skipped;
    to.v = (char *)to.v + skipped;
    choice_step_list(a, begin, n, rows, rows + n);
    SAC_TRY(SAC_ISA(kv_gather)(s, &(sac_kv_gather_args){.dst = to,
                                                        .src = a->src,
                                                        .lists = &(sac_row_lists){rows, start, 1},
                                                        .turn_back = rows + n,
                                                        .rotation = &a->rotation}));
    if (!a->n_heads) return SAC_OK;
    return SAC_ISA(rope)(s, &(sac_rope_args){a->q, a->n_heads, a->src.head_dim, a->rotation, &back, true});
}
