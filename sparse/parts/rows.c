/* Rows of a layer's keys and values that a method moves, once it has decided which of them stay. */
#include "rows.h"

#include <assert.h>
#include <string.h>

void sac_move_row(const sac_kv_view *kv, int head, int64_t from, int64_t to) {
    if (from == to) return;
    size_t row = sac_dtype_row_bytes(kv->dtype, kv->head_dim), element = sac_dtype_row_bytes(kv->dtype, 1);
    size_t source = (size_t)(head * kv->head_stride + from * kv->row_stride) * element;
    size_t target = (size_t)(head * kv->head_stride + to * kv->row_stride) * element;
    memcpy((uint8_t *)kv->k + target, (const uint8_t *)kv->k + source, row);
    memcpy((uint8_t *)kv->v + target, (const uint8_t *)kv->v + source, row);
}

int64_t sac_keep_rows(const sac_kv_view *kv, const sac_row_lists *lists) {
    assert(lists->n_lists == 1 || lists->n_lists == kv->n_heads);
    int64_t n = lists->start[1] - lists->start[0];
    for (int h = 0; h < kv->n_heads; h++) {
        int list = lists->n_lists == 1 ? 0 : h;
        const int32_t *rows = lists->rows + lists->start[list];
        assert(lists->start[list + 1] - lists->start[list] == n);
        for (int64_t i = 0; i < n; i++) sac_move_row(kv, h, rows[i], i); /* rows only move up */
    }
    return n;
}
