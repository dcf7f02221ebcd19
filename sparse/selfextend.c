/* selfextend.c - far keys share positions, so that a longer text fits the trained ones.
 *
 * SelfExtend (Jin et al., arXiv:2401.01325). A query at i meets the keys of its last `window` tokens at their
 * true distances; a key at j before them stands at floor(j / group), and the query that meets it at floor(i /
 * group) + window - floor(window / group), where the two kinds of distance touch. One softmax covers both.
 * The largest distance is the last query's from the first key, and must be less than the trained length: its
 * distances end one before it. Every query still meets every key: this is a
 * position scheme, which is why no work is saved, and steps turn all far keys anew. */
#include "join.h"

enum { GROUP, WINDOW };

static const sac_method_param params[] = {
    {"group", 8, 1, 1 << 20, "far tokens that share a position", SAC_WHOLE},
    {"window", 1024, 1, 1 << 24, "last tokens that a query meets at true distances, itself counted",
     SAC_WHOLE},
    {0}};

#define CHUNK 256 /* queries of a prompt at a time */

typedef struct selfextend {
    int64_t group, window;
    int32_t *rows; /* [n_ctx] */
    sac_choice_scratch far;
    sac_join_scratch join;
} selfextend;

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return p[GROUP] <= 1 || p[WINDOW] >= (double)shape->n_ctx;
}

/* Of n tokens, more than the window. */
static int64_t furthest_of(int64_t n, int64_t group, int64_t window) {
    return (n - 1) / group + window - window / group;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    if (is_off(p, shape)) return SAC_OK;
    int64_t furthest = furthest_of(shape->n_ctx, (int64_t)p[GROUP], (int64_t)p[WINDOW]);
    if (!shape->fixed_rotation)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "selfextend moves keys to other positions, and this model's positions (dynamic rope "
                        "scaling, or numbers of their own) cannot "
                        "be taken back: use another method");
    if (furthest >= shape->max_position)
        return sac_fail(
            err, SAC_BAD_ARGUMENT,
            "selfextend: %lld tokens reach distance %lld, and the model was trained on %lld: give a "
            "larger group or a smaller window or --ctx",
            (long long)shape->n_ctx, (long long)furthest, (long long)shape->max_position);
    return SAC_OK;
}

static void take_for(selfextend *s, int64_t n_queries, const double *p, const sac_attention_shape *shape,
                     sac_arena *arena) {
    s->group = (int64_t)p[GROUP];
    s->window = (int64_t)p[WINDOW];
    s->rows = sac_arena_take(arena, (size_t)shape->n_ctx * sizeof *s->rows);
    sac_choice_scratch_take(&s->far, shape, shape->n_ctx, arena);
    sac_join_scratch_take(&s->join, shape, n_queries, arena);
}

static void take_prefill(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    take_for(state, CHUNK, p, shape, arena);
}
static void take_decode(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    take_for(state, 1, p, shape, arena);
}

/* Keys and values of rows [0, n), keys at the positions of their groups. */
static sac_status group_keys(selfextend *s, const sac_layer_attention *a, int64_t n, sac_kv_view *far) {
    int64_t d = a->shape->head_dim, start[2] = {0, n};
    for (int64_t i = 0; i < n; i++) {
        s->rows[i] = (int32_t)i;
        s->far.turn_back[i] = (int32_t)(i - i / s->group);
    }
    *far = (sac_kv_view){.k = s->far.k,
                         .v = s->far.v,
                         .dtype = SAC_DTYPE_F32,
                         .n_heads = a->shape->n_kv_heads,
                         .head_dim = (int)d,
                         .n_rows = n,
                         .row_stride = d,
                         .head_stride = n * d};
    return a->ops->kv_gather(a->stream, &(sac_kv_gather_args){.dst = *far,
                                                              .src = a->kv,
                                                              .lists = &(sac_row_lists){s->rows, start, 1},
                                                              .turn_back = s->far.turn_back,
                                                              .rotation = &a->rotation});
}

/* Queries whose windows begin after the first token. */
static sac_status attend_chunk(selfextend *s, const sac_layer_attention *chunk, const sac_kv_view *far) {
    int64_t n = chunk->q.rows, window = chunk->shape->window;
    sac_mat q = sac_mat_f32(s->join.q, n, chunk->q.cols);
    sac_attention_args args = {.o = chunk->q,
                               .q = chunk->q,
                               .kv = chunk->kv,
                               .lse = s->join.lse[0],
                               .n_q = n,
                               .n_kv = chunk->kv.n_rows,
                               .first = chunk->past,
                               .n_batch = 1,
                               .n_heads = chunk->shape->n_heads,
                               .scale = chunk->scale,
                               .causal = true,
                               .window = window && window < s->window ? window : s->window};
    int32_t at[CHUNK];
    for (int64_t i = 0; i < n; i++)
        at[i] = (int32_t)((chunk->past + i) / s->group + s->window - s->window / s->group);
    SAC_TRY(sac_join_copy_queries(&s->join, chunk, n, at));
    SAC_TRY(chunk->ops->attention(chunk->stream, &args));
    args.o = args.q = q;
    args.kv = *far;
    args.lse = s->join.lse[1];
    args.n_kv = chunk->kv.n_rows - s->window;
    args.first = chunk->past - s->window;
    args.window = 0;
    SAC_TRY(chunk->ops->attention(chunk->stream, &args));
    sac_join(&s->join, chunk->shape, chunk->q);
    return SAC_OK;
}

static sac_status attend_prompt(void *state, const sac_layer_attention *a) {
    selfextend *s = state;
    int64_t n = a->q.rows, first = s->window > a->past ? s->window - a->past : 0;
    sac_kv_view far;
    if (first >= n) return sac_attend_prompt_dense(a);
    if (first > 0) {
        sac_layer_attention beginning = sac_prompt_chunk(a, 0, first);
        SAC_TRY(sac_attend_prompt_dense(&beginning));
    }
    double queries = (double)(n - first), before = (double)(a->past + first);
    sac_count_prefill(a, queries, (queries * before + queries * (queries + 1) / 2) * a->shape->n_heads);
    SAC_TRY(group_keys(s, a, a->kv.n_rows - s->window, &far));
    for (; first < n; first += CHUNK) {
        sac_layer_attention chunk = sac_prompt_chunk(a, first, n - first < CHUNK ? n - first : CHUNK);
        SAC_TRY(attend_chunk(s, &chunk, &far));
    }
    return SAC_OK;
}

static sac_status attend_step(void *state, const sac_layer_attention *a) {
    selfextend *s = state;
    sac_kv_view far;
    sac_count_step(a, (double)a->kv.n_rows);
    if (a->kv.n_rows <= s->window) return sac_attend_dense(a, 0, 1);
    SAC_TRY(group_keys(s, a, a->kv.n_rows - s->window, &far));
    return attend_chunk(s, a, &far);
}

#define SOURCE "Jin et al., SelfExtend, arXiv:2401.01325"

const sac_prefill_policy sac_prefill_selfextend = {
    .name = "selfextend",
    .source = SOURCE,
    .params = params,
    .state_bytes = sizeof(selfextend),
    .check = check,
    .is_off = is_off,
    .take = take_prefill,
    .attend = attend_prompt,
    .turns_keys = true,
    .keeps_prefix = true,
};

const sac_decode_policy sac_decode_selfextend = {
    .name = "selfextend",
    .source = SOURCE,
    .params = params,
    .state_bytes = sizeof(selfextend),
    .check = check,
    .is_off = is_off,
    .take = take_decode,
    .attend = attend_step,
    .turns_keys = true,
    .keeps_prefix = true,
};
