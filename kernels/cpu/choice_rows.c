#include "cpu.h"

/* Ascending numbers from `first` on. */
static int32_t *count_up(int32_t *to, int64_t first, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = (int32_t)(first + i);
    return to + n;
}

static void list_rows(const sac_choice_rows_args *a, int64_t list, int64_t page, int32_t *rows) {
    const int32_t *chosen = a->chosen + list * a->n_chosen;
    rows = count_up(rows, 0, a->init);
    if (page == 1)
        for (int64_t i = 0; i < a->n_chosen; i++) *rows++ = (int32_t)a->init + chosen[i];
    else
        for (int64_t i = 0; i < a->n_chosen; i++) rows = count_up(rows, a->init + chosen[i] * page, page);
    count_up(rows, a->n_rows + list * a->n_more - a->local, a->local);
}

sac_status sac_cpu_choice_rows(const sac_stream *s, const sac_choice_rows_args *a) {
    int64_t page = a->page > 1 ? a->page : 1, n_lists = a->n_lists > 1 ? a->n_lists : 1;
    int64_t n = a->init + a->n_chosen * page + a->local;
    (void)s;
    for (int64_t list = 0; list < n_lists; list++) {
        list_rows(a, list, page, a->rows + list * n);
        for (int64_t i = 0; i < n && a->turn_back; i++)
            a->turn_back[list * n + i] = a->rows[list * n + i] - (int32_t)i;
    }
    for (int64_t list = 0; list <= n_lists && a->start; list++) a->start[list] = list * n;
    return SAC_OK;
}
