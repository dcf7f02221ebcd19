#include "ref.h"

static int64_t list_rows(const sac_choice_rows_args *a, int64_t list, int64_t page, int32_t *rows) {
    int64_t n = 0, n_rows = a->n_rows + list * a->n_more;
    assert(n_rows >= a->init + a->n_chosen * page + a->local);
    for (int64_t i = 0; i < a->init; i++) rows[n++] = (int32_t)i;
    for (int64_t i = 0; i < a->n_chosen * page; i++)
        rows[n++] = (int32_t)(a->init + a->chosen[list * a->n_chosen + i / page] * page + i % page);
    for (int64_t i = n_rows - a->local; i < n_rows; i++) rows[n++] = (int32_t)i;
    return n;
}

sac_status sac_ref_choice_rows(const sac_stream *s, const sac_choice_rows_args *a) {
    (void)s;
    int64_t page = a->page > 1 ? a->page : 1, n_lists = a->n_lists > 1 ? a->n_lists : 1;
    int64_t each = a->init + a->n_chosen * page + a->local;
    assert(a->rows && (a->chosen || a->n_chosen == 0) && a->init >= 0 && a->local >= 0 && a->n_more >= 0);
    for (int64_t list = 0; list < n_lists; list++) {
        int32_t *rows = a->rows + list * each;
        int64_t n = list_rows(a, list, page, rows);
        for (int64_t i = 0; i < n && a->turn_back; i++) a->turn_back[list * each + i] = rows[i] - (int32_t)i;
    }
    for (int64_t list = 0; list <= n_lists && a->start; list++) a->start[list] = list * each;
    return SAC_OK;
}
