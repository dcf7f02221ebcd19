#include "cpu.h"

#include <assert.h>

/* Marks are bits, so that a strip of 64 rows is two words. */
#define MOST_ROWS ((int64_t)SAC_THREAD_SCRATCH_BYTES * 8)

static void mark(uint64_t *seen, int64_t from, int64_t to, int64_t end) {
    from = sac_max_i64(from, 0);
    to = sac_min_i64(to, end);
    if (from >= to) return;
    int64_t first = from / 64, last = (to - 1) / 64;
    uint64_t head = ~(uint64_t)0 << from % 64, tail = ~(uint64_t)0 >> (63 - (to - 1) % 64);
    if (first == last) {
        seen[first] |= head & tail;
        return;
    }
    seen[first] |= head;
    for (int64_t i = first + 1; i < last; i++) seen[i] = ~(uint64_t)0;
    seen[last] |= tail;
}

static void mark_list(const sac_pattern_rows_args *a, int64_t block, int list, int64_t begin, int64_t end,
                      uint64_t *seen) {
    const int32_t *columns = a->columns + ((a->by_block ? block * a->n_lists : 0) + list) * a->n_columns;
    const int32_t *diagonals = a->diagonals + list * a->n_diagonals;
    memset(seen, 0, (size_t)sac_div_up(end, 64) * sizeof *seen);
    for (int64_t i = 0; i < a->n_columns; i++)
        if (columns[i] >= 0) mark(seen, a->width * columns[i], a->width * (columns[i] + 1), end);
    for (int64_t i = 0; i < a->n_diagonals; i++)
        mark(seen, begin - diagonals[i], begin + a->block - diagonals[i], end);
    if (a->own) mark(seen, begin / a->width * a->width, end, end);
}

/* Marked rows below `end`; how many. */
static int64_t list_marked(const uint64_t *seen, int64_t end, int32_t *rows) {
    int64_t n = 0;
    for (int64_t i = 0; i < sac_div_up(end, 64); i++) {
        if (seen[i] == ~(uint64_t)0) {
            for (int64_t j = 0; j < 64; j++) rows[n + j] = (int32_t)(i * 64 + j);
            n += 64;
            continue;
        }
        for (uint64_t left = seen[i]; left; left &= left - 1)
            rows[n++] = (int32_t)(i * 64 + __builtin_ctzll(left));
    }
    return n;
}

/* Pairs of the queries at rows [begin, end) with n ascending rows no later than they. */
static int64_t count_pairs(const int32_t *rows, int64_t n, int64_t begin, int64_t end) {
    int64_t pairs = 0;
    for (; n > 0 && rows[n - 1] > begin; n--) pairs += end - rows[n - 1];
    return pairs + n * (end - begin);
}

sac_status sac_cpu_pattern_rows(const sac_stream *s, const sac_pattern_rows_args *a) {
    uint64_t *seen = sac_stream_thread_scratch(s, 0);
    int64_t number = 0;
    assert(a->n_rows <= MOST_ROWS);
    a->start[0] = 0;
    for (int64_t b = 0; b < a->n_blocks; b++)
        for (int list = 0; list < a->n_lists; list++) {
            int64_t begin = a->first + b * a->block, end = sac_min_i64(begin + a->block, a->n_rows);
            int32_t *rows = a->rows + a->start[number];
            mark_list(a, b, list, begin, end, seen);
            int64_t n = list_marked(seen, end, rows);
            a->pairs[number++] = count_pairs(rows, n, begin, end);
            a->start[number] = a->start[number - 1] + n;
        }
    return SAC_OK;
}
