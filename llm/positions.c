#include "positions.h"

int64_t sac_positions_plain(const sac_prompt_span *spans, int n_spans, int64_t n, int32_t *out) {
    (void)spans;
    (void)n_spans;
    for (int axis = 0; axis < SAC_POSITION_AXES; axis++)
        for (int64_t i = 0; i < n; i++) out[axis * n + i] = (int32_t)i;
    return n;
}

void sac_row_numbers_cut(sac_row_numbers *r, int64_t n) {
    if (!r->ids || n >= r->n) return;
    r->n = n;
    r->next = 0;
    for (int axis = 0; axis < SAC_POSITION_AXES; axis++)
        for (int64_t i = 0; i < n; i++)
            if (r->ids[axis * r->stride + i] >= r->next) r->next = r->ids[axis * r->stride + i] + 1;
}
