#include "cpu.h"

#define KEPT_BLOCK 1024

/* Which places of a block any of the list's rows of numbers keeps; returns what the rows keep on their own. */
static int64_t mark_block(const sac_kept_rows_args *a, int list, int64_t first, int n,
                          int32_t marks[KEPT_BLOCK]) {
    int group = a->n_rows / a->n_lists;
    int64_t n_own = 0;
    memset(marks, 0, (size_t)n * sizeof *marks);
    for (int r = list * group; r < (list + 1) * group; r++) {
        const float *values = a->values + r * a->stride + first, threshold = a->threshold[r];
        int32_t own = 0;
        for (int j = 0; j < n; j++) {
            int32_t kept = values[j] >= threshold;
            marks[j] |= kept;
            own += kept;
        }
        n_own += own;
        if (a->last && first + n == a->n) n_own += !(values[n - 1] >= threshold);
    }
    if (a->last && first + n == a->n) marks[n - 1] = 1;
    return n_own;
}

sac_status sac_cpu_kept_rows(const sac_stream *s, const sac_kept_rows_args *a) {
    int64_t n_all = 0, n_own = 0;
    (void)s;
    for (int list = 0; list < a->n_lists; list++) {
        const int32_t *from = a->from ? a->from + list / (a->n_lists / a->n_from) * a->n : NULL;
        a->start[list] = n_all;
        for (int64_t first = 0; first < a->n; first += KEPT_BLOCK) {
            int32_t marks[KEPT_BLOCK];
            int n = (int)sac_min_i64(a->n - first, KEPT_BLOCK);
            n_own += mark_block(a, list, first, n, marks);
            for (int j = 0; j < n; j++)
                if (marks[j]) a->rows[n_all++] = from ? from[first + j] : (int32_t)(first + j);
        }
    }
    a->start[a->n_lists] = n_all;
    if (!a->sums) return SAC_OK;
    a->sums[0] += n_all;
    a->sums[1] += n_own;
    return SAC_OK;
}
