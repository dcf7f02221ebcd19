#include "ref.h"

sac_status sac_ref_choice_rows(const sac_stream *s, const sac_choice_rows_args *a) {
    (void)s;
    int64_t n = 0;
    assert(a->rows && (a->chosen || a->n_chosen == 0) && a->init >= 0 && a->local >= 0);
    assert(a->n_rows >= a->init + a->n_chosen + a->local);
    for (int64_t i = 0; i < a->init; i++) a->rows[n++] = (int32_t)i;
    for (int64_t i = 0; i < a->n_chosen; i++) a->rows[n++] = (int32_t)a->init + a->chosen[i];
    for (int64_t i = a->n_rows - a->local; i < a->n_rows; i++) a->rows[n++] = (int32_t)i;
    for (int64_t i = 0; i < n && a->turn_back; i++) a->turn_back[i] = a->rows[i] - (int32_t)i;
    return SAC_OK;
}
