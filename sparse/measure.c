/* How much of dense attention's weight a choice holds: for tables, not for speed. */
#include "sparse.h"

#include <math.h>
#include <string.h>

void sac_count_prefill_mass(const sac_layer_attention *a, double share) {
    if (!a->shape->measure_mass) return;
    a->stats->prefill_mass += share;
    a->stats->n_prefill_mass += 1;
}

void sac_count_decode_mass(const sac_layer_attention *a, double share) {
    if (!a->shape->measure_mass) return;
    a->stats->decode_mass += share;
    a->stats->n_decode_mass += 1;
}

sac_status sac_measure_mass(const sac_layer_attention *a, const sac_choice *choice, float *scratch) {
    const sac_attention_shape *s = a->shape;
    int64_t n = a->kv.n_rows;
    if (n < a->n_seen) return SAC_OK;
    if (choice->all) {
        sac_count_decode_mass(a, 1);
        return SAC_OK;
    }
    SAC_TRY(a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = scratch,
                                                                 .stride = s->n_ctx,
                                                                 .q = sac_mat_row_f32(a->q, 0),
                                                                 .kv = a->kv,
                                                                 .n_heads = s->n_heads,
                                                                 .n = n,
                                                                 .scale = a->scale}));
    const sac_row_lists *l = choice->place ? &choice->within : &choice->lists;
    double held = 0;
    for (int h = 0; h < s->n_heads; h++) {
        const float *score = scratch + h * s->n_ctx;
        double max = -INFINITY, all = 0, chosen = 0;
        for (int64_t j = 0; j < n; j++) max = (double)score[j] > max ? (double)score[j] : max;
        for (int64_t j = 0; j < n; j++) all += exp((double)score[j] - max);
        int list = (int)((int64_t)h * l->n_lists / s->n_heads);
        for (int64_t i = l->start[list]; i < l->start[list + 1]; i++)
            chosen += exp((double)score[choice->place ? choice->lists.rows[l->rows[i]] : l->rows[i]] - max);
        held += chosen / all;
    }
    sac_count_decode_mass(a, held / s->n_heads);
    return SAC_OK;
}
