/* kept_rows_tmpl.h - lists of what passes thresholds, a vector of places at a time. */
#include "cpu.h"
#include "simd.h"

#define KEPT_BLOCK 1024

/* Which of the n places from `place` on any of the list's rows of numbers keeps; *n_own grows by what the rows
 * keep on their own. */
SAC_INLINE vm kept_lanes(const sac_kept_rows_args *a, int list, int64_t place, int64_t n, int64_t *n_own) {
    const int group = a->n_rows / a->n_lists;
    const float *values = a->values + list * group * a->stride + place;
    vm inside = vm_first(n), any = vm_first(0), last = vm_first(0);
    if (a->last && place + n == a->n) last = vm_without(inside, vm_first(n - 1));
    for (int r = list * group; r < (list + 1) * group; r++, values += a->stride) {
        vm kept = vm_and(inside, vf_at_least(vf_load_part(values, n), vf_set1(a->threshold[r])));
        kept = vm_or(kept, last);
        *n_own += vm_count(kept);
        any = vm_or(any, kept);
    }
    return any;
}

/* The list's kept places of a block, or what stands there in `from`, together; returns their number. */
SAC_INLINE int64_t kept_block(const sac_kept_rows_args *a, int list, const int32_t *from, int64_t first,
                              int32_t *rows, int64_t *n_own) {
    int32_t found[KEPT_BLOCK + VF];
    int64_t m = 0, end = sac_min_i64(a->n, first + KEPT_BLOCK);
    for (int64_t j = first; j < end; j += VF) {
        int64_t n = sac_min_i64(end - j, VF);
        vi what = from ? vi_load_part(from + j, n) : vi_count_from((int32_t)j);
        m += vi_pack(found + m, what, kept_lanes(a, list, j, n, n_own));
    }
    memcpy(rows, found, (size_t)m * sizeof *rows);
    return m;
}

static sac_status SAC_ISA(kept_rows)(const sac_stream *s, const sac_kept_rows_args *a) {
    int64_t n_all = 0, n_own = 0;
    (void)s;
    for (int list = 0; list < a->n_lists; list++) {
        const int32_t *from = a->from ? a->from + list / (a->n_lists / a->n_from) * a->n : NULL;
        a->start[list] = n_all;
        for (int64_t first = 0; first < a->n; first += KEPT_BLOCK)
            n_all += kept_block(a, list, from, first, a->rows + n_all, &n_own);
    }
    a->start[a->n_lists] = n_all;
    if (!a->sums) return SAC_OK;
    a->sums[0] += n_all;
    a->sums[1] += n_own;
    return SAC_OK;
}
