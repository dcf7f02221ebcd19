#include "ref.h"

#include <string.h>

static void mark(uint8_t *seen, int64_t from, int64_t to, int64_t end) {
    for (int64_t row = from > 0 ? from : 0; row < to && row < end; row++) seen[row] = 1;
}

/* The rows of one list. */
static void mark_list(const sac_pattern_rows_args *a, int64_t block, int list, int64_t begin, int64_t end,
                      uint8_t *seen) {
    const int32_t *columns = a->columns + ((a->by_block ? block * a->n_lists : 0) + list) * a->n_columns;
    const int32_t *diagonals = a->diagonals + list * a->n_diagonals;
    memset(seen, 0, (size_t)end);
    for (int64_t i = 0; i < a->n_columns; i++)
        if (columns[i] >= 0) mark(seen, a->width * columns[i], a->width * (columns[i] + 1), end);
    for (int64_t i = 0; i < a->n_diagonals; i++)
        mark(seen, begin - diagonals[i], begin + a->block - diagonals[i], end);
    if (a->own) mark(seen, begin / a->width * a->width, end, end);
}

sac_status sac_ref_pattern_rows(const sac_stream *s, const sac_pattern_rows_args *a) {
    uint8_t *seen = sac_stream_thread_scratch(s, 0);
    int64_t n = 0, number = 0;
    assert(a->rows && a->start && a->pairs && a->n_blocks > 0 && a->n_lists > 0 && a->block > 0);
    assert(a->first >= 0 && a->width > 0 && a->first + (a->n_blocks - 1) * a->block < a->n_rows);
    assert((size_t)a->n_rows <= SAC_THREAD_SCRATCH_BYTES);
    a->start[0] = 0;
    for (int64_t b = 0; b < a->n_blocks; b++)
        for (int list = 0; list < a->n_lists; list++) {
            int64_t begin = a->first + b * a->block;
            int64_t end = begin + a->block < a->n_rows ? begin + a->block : a->n_rows, pairs = 0;
            mark_list(a, b, list, begin, end, seen);
            for (int64_t row = 0; row < end; row++) {
                if (!seen[row]) continue;
                a->rows[n++] = (int32_t)row;
                pairs += row <= begin ? end - begin : end - row;
            }
            a->pairs[number++] = pairs;
            a->start[number] = n;
        }
    return SAC_OK;
}
