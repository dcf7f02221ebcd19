#include "measure.h"

#include <math.h>

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

sac_status sac_score_mass(const sac_layer_attention *a, float *scores) {
    if (a->kv.n_rows < a->n_seen) return SAC_OK;
    return a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = scores,
                                                                .stride = a->shape->n_ctx,
                                                                .q = sac_mat_row_f32(a->q, 0),
                                                                .kv = a->kv,
                                                                .n_heads = a->shape->n_heads,
                                                                .n = a->kv.n_rows,
                                                                .scale = a->scale});
}

/* Row number of entry i of the choice's lists. */
static int64_t row_at(const sac_choice *choice, int64_t i) {
    int32_t row = choice->lists.rows[i];
    return choice->kind == SAC_CHOICE_VIEW ? choice->view.rows[row] : row;
}

void sac_measure_mass(const sac_layer_attention *a, const sac_choice *choice, const float *scores) {
    const sac_attention_shape *s = a->shape;
    const sac_choice_lists *l = &choice->lists;
    const int64_t *start = l->start.device;
    double held = 0;
    if (a->kv.n_rows < a->n_seen) return;
    if (sac_choice_is_all(choice)) {
        sac_count_decode_mass(a, 1);
        return;
    }
    for (int h = 0; h < s->n_heads; h++) {
        const float *score = scores + h * s->n_ctx;
        double max = -INFINITY, all = 0, chosen = 0;
        for (int64_t j = 0; j < a->kv.n_rows; j++) max = (double)score[j] > max ? (double)score[j] : max;
        for (int64_t j = 0; j < a->kv.n_rows; j++) all += exp((double)score[j] - max);
        int list = (int)((int64_t)h * l->n_lists / s->n_heads);
        for (int64_t i = start[list]; i < start[list + 1]; i++)
            chosen += exp((double)score[row_at(choice, i)] - max);
        held += chosen / all;
    }
    sac_count_decode_mass(a, held / s->n_heads);
}
