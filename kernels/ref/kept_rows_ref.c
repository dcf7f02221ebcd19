#include "ref.h"

/* Whether rows [first, end) of numbers keep place j; how many of them do is added to *n. */
static bool is_kept(const sac_kept_rows_args *a, int first, int end, int64_t j, int64_t *n) {
    bool any = false, forced = a->last && j == a->n - 1;
    for (int r = first; r < end; r++) {
        bool kept = forced || a->values[r * a->stride + j] >= a->threshold[r];
        *n += kept;
        any = any || kept;
    }
    return any;
}

sac_status sac_ref_kept_rows(const sac_stream *s, const sac_kept_rows_args *a) {
    (void)s;
    assert(a->n >= 0 && a->n <= a->stride && a->n_lists > 0 && a->n_rows % a->n_lists == 0);
    assert(!a->from || (a->n_from > 0 && a->n_lists % a->n_from == 0));
    int group = a->n_rows / a->n_lists;
    int64_t n = 0, n_own = 0;
    for (int l = 0; l < a->n_lists; l++) {
        const int32_t *from = a->from ? a->from + l / (a->n_lists / a->n_from) * a->n : NULL;
        a->start[l] = n;
        for (int64_t j = 0; j < a->n; j++)
            if (is_kept(a, l * group, (l + 1) * group, j, &n_own)) a->rows[n++] = from ? from[j] : (int32_t)j;
    }
    a->start[a->n_lists] = n;
    if (!a->sums) return SAC_OK;
    a->sums[0] += n;
    a->sums[1] += n_own;
    return SAC_OK;
}
