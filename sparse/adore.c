/* ADORE: a cache of m tokens, the same in all layers; tokens that left it are computed again when wanted.
 *
 * Source: Zhang et al., ACL 2024, arXiv:2407.02328, sections 2.2 and 2.3 (its repository holds no code). A
 * controller (controller.h) scores every token once. The cache keeps the m best; each step adds its token and
 * releases the worst of the others. Of the released tokens the R best go through the whole model again beside
 * the step's own token, at their own positions, and are forgotten again after the step.
 *
 * What the paper leaves open, and how it is here: a rebuilt token sees the cached and rebuilt tokens before
 * it (causal by position); a prompt is attended densely and cut to m afterwards; the scalar that the
 * controller sees as position is that which it was trained with, as its file says: i / unit (feature=abs) or
 * (n - i) / unit, which ages (feature=rel); where it does not, abs, and the trained length of the model; up
 * to the trained length tokens keep their positions, beyond it those that take part stand at 0, 1 .. in order
 * (pos). A later prompt of a conversation meets the cached tokens, not the released ones.
 *
 * sigma=attention needs no controller: a token's score is the attention it was given so far by all layers and
 * heads. That is not ADORE but what the paper's tables call H2O (Rebuilt). Since the score of a prompt's
 * token is known after the last layer only, the cut is then made by the first step.
 *
 * A released token's row is overwritten by the newest one, so rows are in no order; which token each holds is
 * kept beside. */
#include "adore_plan.h"
#include "attend.h"
#include "gathered.h"

#include <assert.h>
#include <string.h>

enum { M, R, SIGMA, POS, FEATURE, RECENT, SINK };

static const char *const sigmas[] = {"gru", "attention", NULL};
static const char *const positions[] = {"auto", "orig", "compact", NULL};
static const char *const features[] = {"auto", "abs", "rel", NULL}; /* as sac_controller_feature */
static const sac_method_param params[] = {
    [M] = {"m", 192, 2, 1 << 30, "tokens that the cache holds", SAC_WHOLE},
    [R] = {"r", 8, 0, 4096, "released tokens that are computed again with each step", SAC_WHOLE},
    [SIGMA] = {"sigma", SIGMA_GRU, 0, 1, "what scores tokens: gru (the model's controller), attention",
               sigmas},
    [POS] = {"pos", POS_AUTO, 0, 2, "positions: orig, compact, auto (compact beyond the trained length)",
             positions},
    [FEATURE] = {"feature", SAC_FEATURE_UNKNOWN, 0, 2,
                 "position that the controller sees: abs, rel, auto (what it was trained with)", features},
    [RECENT] = {"recent", 0, 0, 1 << 30, "newest tokens that are never released", SAC_WHOLE},
    [SINK] = {"sink", 0, 0, 1 << 30, "first tokens that are never released", SAC_WHOLE},
    {0}};

typedef sac_adore_state adore;

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    if ((int)p[SIGMA] == SIGMA_GRU && !shape->controller)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "decode policy adore: the model's folder has no controller, adore.safetensors: use "
                        "sigma=attention (H2O with rebuilt tokens) or train one");
    int feature = (int)p[FEATURE], trained = shape->controller ? (int)shape->controller->feature : SAC_FEATURE_UNKNOWN;
    if ((int)p[SIGMA] == SIGMA_GRU && feature && trained && feature != trained)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "decode policy adore: feature=%s, and adore.safetensors says that the controller was trained "
                        "with %s: leave it out",
                        features[feature], features[trained]);
    if (p[RECENT] + p[SINK] >= p[M])
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "decode policy adore: recent=%g and sink=%g leave nothing of m=%g to choose",
                        p[RECENT], p[SINK], p[M]);
    if (p[R] + 1 > (double)shape->chunk)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "decode policy adore: r=%g rebuilt tokens and the step's own need a prefill chunk of "
                        "that many, not %lld",
                        p[R], (long long)shape->chunk);
    bool may_compact =
        (int)p[POS] == POS_COMPACT || ((int)p[POS] == POS_AUTO && shape->n_ctx > shape->max_position);
    if (may_compact && !shape->fixed_rotation)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "decode policy adore: this model's rotary frequencies change with the length, or its "
                        "rows have numbers of their own, so "
                        "keys cannot be moved: use pos=orig");
    return SAC_OK;
}

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return p[M] >= (double)shape->n_ctx;
}

static int64_t max_rebuild(const double *p) {
    return (int64_t)p[R];
}

static void take_scores(adore *s, const sac_attention_shape *shape, const sac_memory *memory) {
    size_t n = (size_t)shape->n_ctx, n_rows = n + (size_t)s->r + 1, n_heads = (size_t)shape->n_heads;
    if (s->sigma == SIGMA_GRU) {
        s->controller = shape->controller;
        s->z = sac_take_both(memory, (n + 1) * (size_t)s->controller->hidden * sizeof(float));
        sac_controller_scratch_take(&s->scratch, s->controller, shape->chunk, memory);
    } else {
        s->weights = sac_take_both(memory, n_heads * (size_t)(s->m + s->r + 1) * sizeof(float));
        s->lse = sac_take_device(memory, n_heads * sizeof *s->lse);
        s->q = sac_take_device(memory, n_heads * (size_t)shape->head_dim * sizeof *s->q);
    }
    s->score = sac_take_both(memory, n * sizeof(float));
    s->ranks = sac_take_both(memory, n_rows * sizeof(float));
}

/* What a step plans once for all layers. */
static void take_part(adore *s, const sac_memory *memory) {
    size_t part = (size_t)(s->m + s->r + 1), n_queries = (size_t)s->r + 1;
    s->stay = sac_take_both(memory, (size_t)s->m * sizeof(int32_t));
    s->part_row = sac_take_both(memory, part * sizeof(int32_t));
    s->part_token = sac_take_both(memory, part * sizeof(int32_t));
    s->part_rank = sac_take_host(memory, part * sizeof *s->part_rank);
    s->part_start = sac_take_both(memory, 2 * sizeof(int64_t));
    s->turn = sac_take_both(memory, part * sizeof(int32_t));
    s->visible = sac_take_both(memory, n_queries * part * sizeof(int32_t));
    s->visible_start = sac_take_both(memory, (n_queries + 1) * sizeof(int64_t));
    s->own_row = sac_take_both(memory, sizeof(int32_t));
}

/* What the controller sees as position; what its file does not say is as if the file had been made for i / trained
 * length. */
static void take_positions(adore *s, const double *p, const sac_attention_shape *shape) {
    const sac_controller *c = shape->controller;
    s->feature = (sac_controller_feature)p[FEATURE];
    if (s->feature == SAC_FEATURE_UNKNOWN && c) s->feature = c->feature;
    if (s->feature == SAC_FEATURE_UNKNOWN) s->feature = SAC_FEATURE_ABS;
    s->unit = c && c->unit > 0 ? c->unit : (double)shape->max_position;
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    adore *s = state;
    *s = (adore){.m = (int64_t)p[M],
                 .r = (int64_t)p[R],
                 .recent = (int64_t)p[RECENT],
                 .sink = (int64_t)p[SINK],
                 .sigma = (int)p[SIGMA],
                 .pos = (int)p[POS],
                 .n_ctx = shape->n_ctx,
                 .max_position = shape->max_position,
                 .hidden = shape->hidden,
                 .n_layers = shape->n_layers,
                 .dtype = shape->device ? shape->hidden_dtype : SAC_DTYPE_F32};
    size_t n = (size_t)shape->n_ctx;
    take_positions(s, p, shape);
    take_scores(s, shape, memory);
    s->x = sac_take_device(memory, n * sac_dtype_row_bytes(s->dtype, s->hidden));
    s->row_token = sac_take_host(memory, (n + (size_t)s->r) * sizeof *s->row_token);
    s->in_order = sac_take_device(memory, n * sizeof *s->in_order);
    take_part(s, memory);
    if (s->pos != POS_ORIG) sac_gathered_take(&s->turned, shape, s->m + s->r + 1, memory);
}

static void begin(void *state) {
    adore *s = state;
    s->n_seen = s->n_cached = s->n_rebuilt = 0;
    s->in_step = false;
}

/* ---------------------------------------------------------------- scores */

static sac_status score_tokens(adore *s, const sac_ops *ops, const sac_stream *stream, int64_t first,
                               int64_t n) {
    double unit = 1 / s->unit;
    const float *z = (const float *)s->z.host + s->controller->hidden;
    if (s->feature == SAC_FEATURE_ABS)
        return sac_controller_score(ops, stream, z + first * s->controller->hidden, n, (double)first * unit,
                                    unit, sac_buffer_from(s->score, (size_t)first * sizeof(float)),
                                    &s->scratch);
    return sac_controller_score(ops, stream, z, s->n_seen, (double)s->n_seen * unit, -unit, s->score,
                                &s->scratch);
}

/* Rows of the store of embeddings. */
static sac_mat embeddings(const adore *s, int64_t first, int64_t n) {
    return sac_mat_rows((sac_mat){s->x, s->n_ctx, s->hidden, s->hidden, s->dtype}, first, n);
}

static sac_status keep_embeddings(adore *s, const sac_ops *ops, const sac_stream *stream, sac_mat x,
                                  int64_t position) {
    if (!s->is_in_order)
        SAC_TRY(ops->choice_rows(
            stream, &(sac_choice_rows_args){.rows = s->in_order, .init = s->n_ctx, .n_rows = s->n_ctx}));
    s->is_in_order = true;
    return ops->gather_rows(
        stream, &(sac_gather_rows_args){.y = embeddings(s, position, x.rows), .x = x, .source = s->in_order});
}

static sac_status inputs(void *state, const sac_ops *ops, const sac_stream *stream, sac_mat x,
                         int64_t position) {
    adore *s = state;
    SAC_TRY(keep_embeddings(s, ops, stream, x, position));
    memset((float *)s->score.host + position, 0, (size_t)x.rows * sizeof(float));
    s->n_seen = position + x.rows;
    if (s->sigma == SIGMA_ATTENTION) return SAC_OK;
    size_t z_bytes = (size_t)s->controller->hidden * sizeof(float); /* row 0 is "before the first" */
    SAC_TRY(sac_controller_follow(ops, stream, x, sac_buffer_from(s->z, (size_t)position * z_bytes),
                                  &s->scratch));
    return score_tokens(s, ops, stream, position, x.rows);
}

/* ---------------------------------------------------------------- a prompt */

static int32_t token_of_row(const adore *s, const sac_layer_attention *a, int64_t row) {
    return row < a->past ? s->row_token[row] : a->position[row - a->past];
}

/* sigma=attention: what the prompt's queries give to each token. */
static sac_status add_prompt_weights(adore *s, const sac_layer_attention *a) {
    const float *sums = s->ranks.host;
    float *score = s->score.host;
    SAC_TRY(a->ops->attention_sums(a->stream, &(sac_attention_sums_args){.sums = s->ranks.device,
                                                                         .stride = s->n_ctx,
                                                                         .n_sums = 1,
                                                                         .q = a->q,
                                                                         .first = a->past,
                                                                         .kv = a->kv,
                                                                         .n_kv = a->kv.n_rows,
                                                                         .n_heads = a->shape->n_heads,
                                                                         .scale = a->scale}));
    SAC_TRY(sac_fetch(a, s->ranks, (size_t)a->kv.n_rows * sizeof *sums));
    for (int64_t row = 0; row < a->kv.n_rows; row++) score[token_of_row(s, a, row)] += sums[row];
    return SAC_OK;
}

static sac_status prompt(void *state, const sac_layer_attention *a) {
    adore *s = state;
    s->in_step = false;
    a->stats->n_selections++;
    if (s->sigma == SIGMA_ATTENTION) return add_prompt_weights(s, a);
    if (a->layer > 0) return SAC_OK;
    s->n_stay = a->kv.n_rows < s->m ? a->kv.n_rows : s->m;
    float *ranks = s->ranks.host;
    for (int64_t row = 0; row < a->kv.n_rows; row++) ranks[row] = sac_adore_rank(s, token_of_row(s, a, row));
    return sac_adore_best(s, a->ops, a->stream, a->kv.n_rows, s->m, s->stay);
}

/* All layers have done the same; says which token is where now. */
static void commit_prompt(adore *s, const sac_layer_attention *a, const int32_t *stay, int64_t n) {
    for (int64_t i = 0; i < n; i++) /* rows only move up */
        s->row_token[i] = token_of_row(s, a, stay ? stay[i] : i);
    s->n_cached = n;
}

/* The rows that stay move together. */
static sac_status keep_stay(const adore *s, const sac_layer_attention *a) {
    return a->ops->keep_rows(a->stream, &(sac_keep_rows_args){a->kv, s->stay.device, s->n_stay, 1});
}

static sac_status settle_prompt(adore *s, const sac_layer_attention *a, int64_t *n_left) {
    bool is_last = a->layer == s->n_layers - 1, all = s->sigma == SIGMA_ATTENTION || a->kv.n_rows <= s->m;
    *n_left = all ? a->kv.n_rows : s->n_stay;
    if (is_last) commit_prompt(s, a, all ? NULL : s->stay.host, *n_left);
    return all ? SAC_OK : keep_stay(s, a);
}

/* ---------------------------------------------------------------- a step */

static sac_status rebuild(void *state, const sac_ops *ops, const sac_stream *stream, sac_mat x,
                          int32_t *position, int64_t *n) {
    adore *s = state;
    SAC_TRY(sac_adore_plan_step(s, ops, stream));
    *n = s->n_rebuilt;
    const int32_t *token = (const int32_t *)s->part_token.host + s->n_stay;
    for (int64_t i = 0; i < *n; i++) position[i] = token[i];
    if (*n == 0) return SAC_OK;
    return ops->gather_rows(
        stream, &(sac_gather_rows_args){.y = sac_mat_rows(x, 0, *n),
                                        .x = embeddings(s, 0, s->n_ctx),
                                        .source = (const int32_t *)s->part_token.device + s->n_stay});
}

/* Keys and values of all that take part, at positions 0, 1 .. in order of their tokens; queries likewise. */
static sac_status turn_to_ranks(adore *s, const sac_layer_attention *a, sac_kv_view *kv) {
    const sac_row_lists list = {s->part_row.device, s->part_start.device, 1};
    const int32_t *turn = s->turn.device;
    *kv = sac_gathered_view(&s->turned, a, s->n_part);
    SAC_TRY(a->ops->kv_gather(
        a->stream,
        &(sac_kv_gather_args){
            .dst = *kv, .src = a->kv, .lists = &list, .turn_back = turn, .rotation = &a->rotation}));
    return sac_turn_queries(a, a->q, turn + s->n_stay);
}

/* sigma=attention: what the step's own token gives to all that take part. */
static sac_status add_step_weights(adore *s, const sac_layer_attention *a, const sac_kv_view *kv) {
    int64_t stride = s->m + s->r + 1;
    int n_heads = a->shape->n_heads;
    const sac_row_lists lists = {s->part_row.device, s->part_start.device, 1};
    const int32_t *token = s->part_token.host;
    const float *weights = s->weights.host;
    float *score = s->score.host;
    const sac_mat q = sac_mat_rows(a->q, s->n_rebuilt, 1);
    SAC_TRY(a->ops->mean_rows(a->stream, &(sac_mean_rows_args){.y = s->q, .x = q, .scale = 1}));
    SAC_TRY(a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = s->weights.device,
                                                                 .stride = stride,
                                                                 .q = s->q,
                                                                 .kv = *kv,
                                                                 .n_heads = n_heads,
                                                                 .lists = s->compact ? NULL : &lists,
                                                                 .n = s->n_part,
                                                                 .scale = a->scale}));
    SAC_TRY(a->ops->softmax(a->stream, &(sac_softmax_args){.scores = s->weights.device,
                                                           .stride = stride,
                                                           .n = s->n_part,
                                                           .n_rows = n_heads,
                                                           .lse = s->lse,
                                                           .weights = s->weights.device}));
    SAC_TRY(sac_fetch(a, s->weights, (size_t)(n_heads * stride) * sizeof *weights));
    for (int64_t i = 0; i < s->n_part; i++)
        for (int h = 0; h < n_heads; h++) score[token[i]] += weights[h * stride + i];
    return SAC_OK;
}

/* Query i over what takes part and does not come after it. */
static sac_status attend_query(adore *s, const sac_layer_attention *a, const sac_kv_view *kv, int64_t i) {
    const int64_t *start = s->visible_start.host;
    const sac_row_lists list = {s->visible.device, (const int64_t *)s->visible_start.device + i, 1};
    sac_mat q = sac_mat_rows(a->q, i, 1);
    return a->ops->attention(a->stream, &(sac_attention_args){.o = q,
                                                              .q = q,
                                                              .kv = *kv,
                                                              .lists = &list,
                                                              .n_q = 1,
                                                              .n_kv = start[i + 1] - start[i],
                                                              .n_batch = 1,
                                                              .n_heads = a->shape->n_heads,
                                                              .scale = a->scale});
}

static sac_status attend(void *state, const sac_layer_attention *a) {
    adore *s = state;
    int64_t own = s->n_rebuilt;
    assert(a->past == s->n_cached && a->q.rows == own + 1);
    sac_count_step(a, (double)s->n_part);
    a->stats->n_selections++;
    if (a->observer.read)
        a->observer.read(a->observer.read_ctx, a->layer, 0, 1, s->part_token.host, s->n_part, a->n_seen);
    sac_kv_view kv = a->kv;
    if (s->compact) SAC_TRY(turn_to_ranks(s, a, &kv));
    if (s->sigma == SIGMA_ATTENTION) SAC_TRY(add_step_weights(s, a, &kv));
    for (int64_t i = 0; i < own && a->layer < s->n_layers - 1; i++) /* behind the last layer nobody asks for them */
        SAC_TRY(attend_query(s, a, &kv, i));
    bool sees_all = !s->compact && s->n_stay == s->n_cached; /* dense, and dense's bits */
    return sees_all ? sac_attend_dense(a, own, 1) : attend_query(s, a, &kv, own);
}

/* The view from row `row` on. */
static sac_kv_view rows_from(sac_kv_view kv, int64_t row) {
    size_t n_bytes = (size_t)(row * kv.row_stride) * sac_dtype_row_bytes(kv.dtype, 1);
    kv.k = (char *)kv.k + n_bytes;
    kv.v = (char *)kv.v + n_bytes;
    kv.n_rows -= row;
    return kv;
}

/* The step's own row takes the place of the evicted one, or the next. */
static sac_status settle_step(adore *s, const sac_layer_attention *a, int64_t *n_left) {
    *n_left = s->evicted >= 0 ? s->n_stay : s->n_stay + 1;
    if (s->n_stay < s->n_cached) SAC_TRY(keep_stay(s, a));
    SAC_TRY(a->ops->keep_rows(a->stream,
                              &(sac_keep_rows_args){rows_from(a->kv, s->place), s->own_row.device, 1, 1}));
    if (a->layer == s->n_layers - 1) sac_adore_commit_step(s);
    return SAC_OK;
}

static sac_status settle(void *state, const sac_layer_attention *a, int64_t *n_left) {
    adore *s = state;
    return s->in_step ? settle_step(s, a, n_left) : settle_prompt(s, a, n_left);
}

const sac_decode_policy sac_decode_adore = {
    .name = "adore",
    .source = "Zhang et al., ACL 2024, arXiv:2407.02328",
    .params = params,
    .state_bytes = sizeof(adore),
    .check = check,
    .is_off = is_off,
    .take = take,
    .begin = begin,
    .prompt = prompt,
    .attend = attend,
    .settle = settle,
    .inputs = inputs,
    .rebuild = rebuild,
    .max_rebuild = max_rebuild,
};
