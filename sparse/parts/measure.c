#include "measure.h"

#include "attend.h"

#include <math.h>

void sac_mass_take(sac_mass *m, const sac_attention_shape *shape, const sac_memory *memory) {
    size_t n_heads = (size_t)shape->n_heads, n_ctx = (size_t)shape->n_ctx;
    m->scores = sac_take_both(memory, n_heads * n_ctx * sizeof(float));
    m->q = sac_take_device(memory, n_heads * (size_t)shape->head_dim * sizeof *m->q);
    if (!shape->device) return;
    m->start = sac_take_host(memory, (n_heads + 1) * sizeof *m->start);
    m->rows = sac_take_host(memory, n_heads * n_ctx * sizeof *m->rows);
    m->shown = sac_take_host(memory, n_ctx * sizeof *m->shown);
}

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

sac_status sac_score_mass(const sac_layer_attention *a, const sac_mass *m) {
    if (a->kv.n_rows < a->n_seen) return SAC_OK;
    SAC_TRY(a->ops->mean_rows(a->stream,
                              &(sac_mean_rows_args){.y = m->q, .x = sac_mat_rows(a->q, 0, 1), .scale = 1}));
    return a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = m->scores.device,
                                                                .stride = a->kv.n_rows,
                                                                .q = m->q,
                                                                .kv = a->kv,
                                                                .n_heads = a->shape->n_heads,
                                                                .n = a->kv.n_rows,
                                                                .scale = a->scale});
}

/* A choice's lists as the host reads them. */
typedef struct listed {
    const int64_t *start;
    const int32_t *rows, *shown; /* shown NULL: lists are of stored rows */
} listed;

/* n_bytes of *at, which ops have written, brought to a room of the host. */
static sac_status bring(const sac_layer_attention *a, const void **at, void *room, size_t n_bytes) {
    if (!a->shape->device || !*at) return SAC_OK;
    SAC_TRY(sac_to_host(a, room, *at, n_bytes));
    *at = room;
    return SAC_OK;
}

static sac_status bring_lists(const sac_layer_attention *a, const sac_choice *choice, const sac_mass *m,
                              listed *l) {
    const sac_choice_lists *of = &choice->lists;
    const bool is_view = choice->kind == SAC_CHOICE_VIEW;
    const void *start = of->start.device, *rows = of->rows, *shown = is_view ? choice->view.rows : NULL;
    SAC_TRY(bring(a, &start, m->start, (size_t)(of->n_lists + 1) * sizeof *l->start));
    l->start = start;
    SAC_TRY(bring(a, &rows, m->rows, (size_t)l->start[of->n_lists] * sizeof *l->rows));
    if (is_view) SAC_TRY(bring(a, &shown, m->shown, (size_t)choice->view.kv.n_rows * sizeof *l->shown));
    l->rows = rows, l->shown = shown;
    return SAC_OK;
}

/* Of one head's scores [n]: what the chosen rows weigh, of all. */
static double share_of(const float *score, int64_t n, const listed *l, int list) {
    double max = -INFINITY, all = 0, chosen = 0;
    for (int64_t j = 0; j < n; j++) max = (double)score[j] > max ? (double)score[j] : max;
    for (int64_t j = 0; j < n; j++) all += exp((double)score[j] - max);
    for (int64_t i = l->start[list]; i < l->start[list + 1]; i++) {
        int32_t row = l->shown ? l->shown[l->rows[i]] : l->rows[i];
        chosen += exp((double)score[row] - max);
    }
    return chosen / all;
}

sac_status sac_measure_mass(const sac_layer_attention *a, const sac_choice *choice, const sac_mass *m) {
    const int n_heads = a->shape->n_heads;
    const int64_t n = a->kv.n_rows;
    listed l;
    double held = 0;
    if (n < a->n_seen) return SAC_OK;
    if (sac_choice_is_all(choice)) {
        sac_count_decode_mass(a, 1);
        return SAC_OK;
    }
    SAC_TRY(bring_lists(a, choice, m, &l));
    SAC_TRY(sac_fetch(a, m->scores, (size_t)(n_heads * n) * sizeof(float)));
    for (int h = 0; h < n_heads; h++) {
        int list = (int)((int64_t)h * choice->lists.n_lists / n_heads);
        held += share_of((const float *)m->scores.host + h * n, n, &l, list);
    }
    sac_count_decode_mass(a, held / n_heads);
    return SAC_OK;
}
