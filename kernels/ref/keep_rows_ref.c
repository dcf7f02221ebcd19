#include "ref.h"

#include <string.h>

static void move(const sac_kv_view *kv, int head, int64_t from, int64_t to) {
    size_t row = sac_dtype_row_bytes(kv->dtype, kv->head_dim), element = sac_dtype_row_bytes(kv->dtype, 1);
    size_t source = (size_t)(head * kv->head_stride + from * kv->row_stride) * element;
    size_t target = (size_t)(head * kv->head_stride + to * kv->row_stride) * element;
    if (from == to) return;
    memcpy((uint8_t *)kv->k + target, (const uint8_t *)kv->k + source, row);
    memcpy((uint8_t *)kv->v + target, (const uint8_t *)kv->v + source, row);
}

sac_status sac_ref_keep_rows(const sac_stream *s, const sac_keep_rows_args *a) {
    (void)s;
    assert(sac_ref_is_kv(&a->kv) && a->n >= 0 && (a->n_lists == 1 || a->n_lists == a->kv.n_heads));
    for (int head = 0; head < a->kv.n_heads; head++) {
        const int32_t *rows = a->rows + (a->n_lists == 1 ? 0 : head * a->n);
        for (int64_t i = 0; i < a->n;
             i++) { /* rows only move up: nothing that is still wanted is overwritten */
            assert(rows[i] >= (i ? rows[i - 1] + 1 : 0) && rows[i] < a->kv.n_rows);
            move(&a->kv, head, rows[i], i);
        }
    }
    return SAC_OK;
}

/* The row that leaves. */
static int64_t find_lightest(const sac_evict_row_args *a, const float *score, const int32_t *ages) {
    int64_t worst = -1;
    for (int64_t i = 0; i < a->kv.n_rows; i++) {
        if (ages[i] >= a->recent_from) continue;
        if (worst < 0 || score[i] < score[worst] || (score[i] == score[worst] && ages[i] > ages[worst]))
            worst = i;
    }
    return worst;
}

sac_status sac_ref_evict_row(const sac_stream *s, const sac_evict_row_args *a) {
    int64_t last = a->kv.n_rows - 1;
    (void)s;
    assert(sac_ref_is_kv(&a->kv) && last >= 0 && a->stride > last && a->weights_stride > last);
    for (int head = 0; head < a->kv.n_heads; head++) {
        float *score = a->score + head * a->stride;
        int32_t *ages = a->ages + head * a->stride;
        score[last] = 0;
        ages[last] = a->age;
        for (int64_t i = 0; i <= last; i++) score[i] += a->weights[head * a->weights_stride + i];
        if (!a->evict) continue;
        int64_t lightest = find_lightest(a, score, ages);
        assert(lightest >= 0);
        move(&a->kv, head, last, lightest);
        score[lightest] = score[last];
        ages[lightest] = ages[last];
    }
    return SAC_OK;
}
