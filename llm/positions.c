#include "positions.h"

#include <stdbool.h>

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

/* The number of time of a grid's last step, whether or not it has rows. */
static int32_t last_time(const sac_prompt_span *s, int32_t start) {
    return start + (int32_t)((s->grid.t - 1) * s->time_step);
}

/* The cells of a grid from number `start` on; the largest number of the whole grid. */
static int32_t number_grid(const sac_prompt_span *s, int32_t start, int64_t n, int32_t *out) {
    int32_t *time = out + s->first, *row = time + n, *column = row + n, largest = s->cells ? last_time(s, start) : start;
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t cell = s->cells ? s->cells[i] % sac_grid_cells(s->grid) : i;
        int32_t step = (int32_t)(cell / ((int64_t)s->grid.h * s->grid.w));
        time[i] = start + (int32_t)(step * s->time_step);
        row[i] = start + (int32_t)(cell / s->grid.w % s->grid.h);
        column[i] = start + (int32_t)(cell % s->grid.w);
        if (time[i] > largest) largest = time[i];
    }
    int32_t side = s->grid.h > s->grid.w ? s->grid.h : s->grid.w;
    return largest > start + side - 1 ? largest : start + side - 1;
}

static int64_t number_rows(const sac_prompt_span *spans, int n_spans, int64_t n, bool by_time, int32_t *out) {
    int32_t next = 0, largest = -1;
    for (int64_t row = 0, k = 0; row < n || (k < n_spans && spans[k].first == row);) { /* a span may have lost all its rows */
        if (k < n_spans && spans[k].first == row) {
            const sac_prompt_span *s = &spans[k++];
            int32_t of_grid = number_grid(s, next, n, out);
            next = by_time ? of_grid + 1 : next + (s->grid.h > s->grid.w ? s->grid.h : s->grid.w);
            if (of_grid > largest) largest = of_grid;
            row += s->n;
            continue;
        }
        for (int axis = 0; axis < SAC_POSITION_AXES; axis++) out[axis * n + row] = next;
        if (next > largest) largest = next;
        row++, next++;
    }
    return largest + 1; /* steps go on behind the largest number in both */
}

int64_t sac_positions_mrope(const sac_prompt_span *spans, int n_spans, int64_t n, int32_t *out) {
    return number_rows(spans, n_spans, n, true, out);
}

int64_t sac_positions_mrope_grid(const sac_prompt_span *spans, int n_spans, int64_t n, int32_t *out) {
    return number_rows(spans, n_spans, n, false, out);
}
