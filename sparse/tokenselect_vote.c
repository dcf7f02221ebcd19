/* tokenselect_vote.c - the query that votes, the vote, and the rows that it chooses (TokenSelect,
 * arXiv:2411.02886, section 3; see tokenselect.c). */
#include "tokenselect.h"

#include "attend.h"

#include <math.h>
#include <string.h>

void sac_tokenselect_take(void *state, const double *p, const sac_attention_shape *shape,
                          const sac_memory *memory) {
    sac_tokenselect *s = state;
    size_t n_heads = (size_t)shape->n_heads, n_ctx = (size_t)shape->n_ctx, means = (size_t)p[TS_MEANS];
    size_t query_bytes = n_heads * (size_t)shape->head_dim * sizeof(float);
    memcpy(s->p, p, sizeof s->p);
    s->capacity = (int64_t)(p[TS_INIT] + p[TS_LOCAL]) + sac_tokenselect_max_chosen(p, shape);
    if (s->capacity > shape->n_ctx) s->capacity = shape->n_ctx;
    s->scores = sac_take_device(memory, means * n_heads * n_ctx * sizeof *s->scores);
    s->votes = sac_take_device(memory, n_ctx * sizeof *s->votes);
    s->lse = sac_take_device(memory, means * n_heads * sizeof *s->lse);
    s->chosen = sac_take_device(memory, (size_t)s->capacity * sizeof *s->chosen);
    s->rows = sac_take_both(memory, (size_t)s->capacity * sizeof(int32_t));
    s->query = sac_take_both(memory, means * query_bytes);
    s->turn = sac_take_both(memory, means * sizeof(int32_t));
    s->found = sac_take_both(memory, 2 * sizeof(int64_t));
    sac_starts_take(&s->starts, 1, memory);
    if (p[TS_GQA] != 0) {
        s->paired = sac_take_device(memory, means * query_bytes);
        s->pairing = sac_take_both(memory, means * n_heads * sizeof(int32_t));
    }
    if (p[TS_SELECT] == TS_HEAD) {
        s->head_best = sac_take_device(memory, n_heads * (size_t)s->capacity * sizeof *s->head_best);
        s->none = sac_take_device(memory, n_ctx * sizeof *s->none); /* zeros, as a session's memory is */
        s->one = sac_take_both(memory, n_ctx * sizeof(float));
    }
    if (p[TS_POS] == 0) sac_gathered_take(&s->gathered, shape, s->capacity, memory);
}

/* Means of equal runs of the queries, at their own positions; the last run may be shorter. `factor`: of all. */
static sac_status mean_queries(sac_tokenselect *s, const sac_layer_attention *a, float factor) {
    int64_t n = a->q.rows, means = (int64_t)s->p[TS_MEANS], each = (n + means - 1) / means, whole = n / each,
            rest = n - whole * each;
    s->n_means = (int)(whole + (rest > 0));
    SAC_TRY(a->ops->mean_rows(a->stream, &(sac_mean_rows_args){.y = s->query.device,
                                                               .x = sac_mat_rows(a->q, 0, whole * each),
                                                               .scale = factor / (float)each,
                                                               .n_groups = whole}));
    if (rest == 0) return SAC_OK;
    return a->ops->mean_rows(a->stream, &(sac_mean_rows_args){.y = (float *)s->query.device + whole * a->q.cols,
                                                              .x = sac_mat_rows(a->q, whole * each, rest),
                                                              .scale = factor / (float)rest});
}

/* The means of queries at positions local, local + 1 .. : rotations are linear, so means at the true positions are
 * turned back by what they lie apart. */
sac_status sac_tokenselect_query(sac_tokenselect *s, const sac_layer_attention *a) {
    if (sac_tokenselect_votes_true(s->p)) return mean_queries(s, a, 1);
    int64_t means = (int64_t)s->p[TS_MEANS], apart = a->position[0] - (int64_t)s->p[TS_LOCAL];
    /* A table of rope holds its factor, which turning back leaves out. */
    float factor = apart < 0 ? 1.0f / a->rotation.factor : 1.0f;
    int32_t turn = (int32_t)(apart < 0 ? -apart : apart), *turns = s->turn.host;
    SAC_TRY(mean_queries(s, a, factor));
    for (int64_t i = 0; i < means; i++) turns[i] = turn;
    if (s->turn_sent != turn + 1) SAC_TRY(sac_send(a, s->turn, (size_t)means * sizeof turn));
    s->turn_sent = turn + 1;
    return a->ops->rope(a->stream, &(sac_rope_args){.x = sac_mat_f32(s->query.device, s->n_means, a->q.cols),
                                                    .n_heads = a->shape->n_heads,
                                                    .head_dim = a->shape->head_dim,
                                                    .rotation = a->rotation,
                                                    .pos = s->turn.device,
                                                    .back = apart >= 0});
}

/* The heads of each query in the order in which key_scores pairs them with key heads. Under gqa=mod key head m's
 * group is the query heads m, m + n_kv_heads, ... */
static sac_status pair_query(sac_tokenselect *s, const sac_layer_attention *a, const float **paired) {
    int d = a->shape->head_dim, n_heads = a->shape->n_heads, n_kv = a->shape->n_kv_heads,
        n_all = (int)s->p[TS_MEANS] * n_heads, n_rows = s->n_means * n_heads;
    int32_t *source = s->pairing.host;
    *paired = s->query.device;
    if (s->p[TS_GQA] == 0) return SAC_OK;
    *paired = s->paired;
    if (!s->has_pairing) {
        for (int i = 0; i < n_all; i++) {
            int h = i % n_heads;
            source[i - h + h % n_kv * (n_heads / n_kv) + h / n_kv] = i;
        }
        SAC_TRY(sac_send(a, s->pairing, (size_t)n_all * sizeof *source));
        s->has_pairing = true;
    }
    return a->ops->gather_rows(a->stream,
                               &(sac_gather_rows_args){.y = sac_mat_f32(s->paired, n_rows, d),
                                                       .x = sac_mat_f32(s->query.device, n_rows, d),
                                                       .source = s->pairing.device});
}

/* ---------------------------------------------------------------- the vote */

/* n columns of floats, one number a row. */
static sac_mat column(void *x, int64_t n) {
    return sac_mat_f32(x, n, 1);
}

static sac_status clear_votes(sac_tokenselect *s, const sac_layer_attention *a, int64_t n) {
    float *one = s->one.host;
    int64_t n_ctx = a->shape->n_ctx;
    if (!s->has_one) {
        for (int64_t i = 1; i < n_ctx; i++) one[i] = 1; /* but for the first, which clears */
        SAC_TRY(sac_send(a, s->one, (size_t)n_ctx * sizeof *one));
        s->has_one = true;
    }
    return a->ops->gather_rows(
        a->stream,
        &(sac_gather_rows_args){.y = column(s->votes, n), .x = column(s->one.device, 1), .source = s->none});
}

/* Each head's k best get one vote each (eq. 6). */
static sac_status head_vote(sac_tokenselect *s, const sac_layer_attention *a, int64_t n, int64_t k) {
    int64_t n_best = k < n ? k : n;
    SAC_TRY(a->ops->top_k(a->stream, &(sac_top_k_args){.scores = s->scores,
                                                       .stride = a->shape->n_ctx,
                                                       .n = n,
                                                       .n_rows = a->shape->n_heads,
                                                       .k = k,
                                                       .indices = s->head_best}));
    SAC_TRY(clear_votes(s, a, n));
    for (int h = 0; h < a->shape->n_heads; h++) /* each adds to rows that differ */
        SAC_TRY(a->ops->scatter_rows(a->stream,
                                     &(sac_scatter_rows_args){.y = column(s->votes, n),
                                                              .x = column((float *)s->one.device + 1, n_best),
                                                              .target = s->head_best + h * n_best,
                                                              .accumulate = true}));
    return SAC_OK;
}

/* The sum of all heads' scores (eq. 5). */
static sac_status sum_scores(sac_tokenselect *s, const sac_layer_attention *a, int64_t n) {
    sac_mat x = {s->scores, a->shape->n_heads, n, a->shape->n_ctx, SAC_DTYPE_F32};
    return a->ops->mean_rows(a->stream, &(sac_mean_rows_args){.y = s->votes, .x = x, .scale = 1});
}

/* The sum of their softmaxes (eq. 7), and over the means. */
static sac_status soft_vote(sac_tokenselect *s, const sac_layer_attention *a, int64_t n) {
    const int n_rows = s->n_means * a->shape->n_heads;
    SAC_TRY(a->ops->softmax(a->stream, &(sac_softmax_args){.scores = s->scores,
                                                           .stride = a->shape->n_ctx,
                                                           .n = n,
                                                           .n_rows = n_rows,
                                                           .lse = s->lse,
                                                           .skip = s->skip.device}));
    return a->ops->soft_vote(a->stream, &(sac_soft_vote_args){.scores = s->scores,
                                                              .stride = a->shape->n_ctx,
                                                              .n = n,
                                                              .n_rows = n_rows,
                                                              .lse = s->lse,
                                                              .votes = s->votes,
                                                              .skip = s->skip.device});
}

/* How many of the best hold p of the vote. */
static sac_status count_by_mass(sac_tokenselect *s, const sac_layer_attention *a, int64_t n, int64_t *k) {
    float *mass = s->scores;
    SAC_TRY(a->ops->softmax(
        a->stream,
        &(sac_softmax_args){
            .scores = s->votes, .stride = n, .n = n, .n_rows = 1, .lse = s->lse, .weights = mass}));
    SAC_TRY(a->ops->top_p(a->stream, &(sac_top_p_args){.weights = mass,
                                                       .stride = n,
                                                       .n = n,
                                                       .n_rows = 1,
                                                       .p = s->p[TS_P],
                                                       .threshold = s->found.device,
                                                       .n_kept = (int64_t *)s->found.device + 1}));
    SAC_TRY(sac_fetch(a, s->found, 2 * sizeof(int64_t)));
    *k = ((const int64_t *)s->found.host)[1];
    if (*k < (int64_t)s->p[TS_KMIN]) *k = (int64_t)s->p[TS_KMIN];
    int64_t most = sac_tokenselect_max_chosen(s->p, a->shape);
    if (*k > most) *k = most;
    return SAC_OK;
}

/* Of the candidates, for the heads of the mean queries q. */
static sac_status score(sac_tokenselect *s, const sac_layer_attention *a, int64_t n, const float *q) {
    if (s->copy) return sac_tokenselect_copy_scores(s, a, n, q);
    return a->ops->key_scores(a->stream,
                              &(sac_key_scores_args){.scores = s->scores,
                                                     .stride = a->shape->n_ctx,
                                                     .q = q,
                                                     .kv = a->kv,
                                                     .n_heads = a->shape->n_heads,
                                                     .first = (int64_t)s->p[TS_INIT],
                                                     .n = n,
                                                     .scale = s->p[TS_SCALE] == 0 ? 1.0f : a->scale,
                                                     .back = sac_tokenselect_votes_true(s->p) ? NULL : &a->rotation,
                                                     .n_queries = s->n_means,
                                                     .skip = s->skip.device});
}

/* What all heads say of the n candidates, to s->votes. */
static sac_status vote(sac_tokenselect *s, const sac_layer_attention *a, int64_t n, int64_t k) {
    const float *q;
    int select = (int)s->p[TS_SELECT];
    SAC_TRY(pair_query(s, a, &q));
    SAC_TRY(sac_tokenselect_pack(s, a, (int64_t)s->p[TS_INIT] + n));
    if (s->copy && select == TS_SOFT) {
        sac_status st = sac_tokenselect_copy_vote(s, a, n, q);
        if (st != SAC_UNSUPPORTED) return st; /* a model of other heads than the op knows */
    }
    SAC_TRY(score(s, a, n, q));
    return select == TS_HEAD   ? head_vote(s, a, n, k)
           : select == TS_TOPK ? sum_scores(s, a, n)
                               : soft_vote(s, a, n);
}

sac_status sac_tokenselect_choose(sac_tokenselect *s, const sac_layer_attention *a, int64_t n,
                                  int32_t *chosen, int64_t *n_chosen) {
    int64_t k = (int64_t)s->p[TS_K];
    SAC_TRY(vote(s, a, n, k));
    if (s->p[TS_P] > 0) SAC_TRY(count_by_mass(s, a, n, &k));
    SAC_TRY(a->ops->top_k(a->stream, &(sac_top_k_args){.scores = s->votes,
                                                       .stride = n,
                                                       .n = n,
                                                       .n_rows = 1,
                                                       .k = k,
                                                       .indices = chosen,
                                                       .skip = s->skip.device}));
    *n_chosen = k < n ? k : n;
    return SAC_OK;
}

sac_status sac_tokenselect_list(sac_tokenselect *s, const sac_layer_attention *a, const int32_t *chosen,
                                int64_t n_chosen, sac_choice *choice) {
    int64_t init = (int64_t)s->p[TS_INIT], local = (int64_t)s->p[TS_LOCAL];
    sac_starts_expect(&s->starts, 1, init + n_chosen + local);
    choice->kind = s->p[TS_POS] == 0 ? SAC_CHOICE_PLACES : SAC_CHOICE_ROWS;
    choice->lists = (sac_choice_lists){s->rows.device, s->starts.at, 1};
    choice->room = &s->gathered;
    return a->ops->choice_rows(a->stream, &(sac_choice_rows_args){.rows = s->rows.device,
                                                                  .turn_back = s->gathered.turn_keys,
                                                                  .start = s->starts.at.device,
                                                                  .chosen = chosen,
                                                                  .n_chosen = n_chosen,
                                                                  .init = init,
                                                                  .local = local,
                                                                  .n_rows = a->kv.n_rows});
}
