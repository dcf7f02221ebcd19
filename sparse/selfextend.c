/* selfextend.c - far keys share positions, so that a longer text fits the trained ones.
 *
 * SelfExtend (Jin et al., arXiv:2401.01325). A query at i meets the keys of its last `window` tokens at their
 * true distances; a key at j before them stands at floor(j / group), and the query that meets it at floor(i /
 * group) + window - floor(window / group), where the two kinds of distance touch. One softmax covers both.
 * The largest distance is the last query's from the first key, and must be less than the trained length: its
 * distances end one before it. Every query still meets every key: this is a
 * position scheme, which is why no work is saved, and steps turn all far keys anew. */
#include "attend.h"
#include "causal.h"
#include "gathered.h"
#include "join.h"
#include "starts.h"

enum { GROUP, WINDOW };

static const sac_method_param params[] = {
    {"group", 8, 1, 1 << 20, "far tokens that share a position", SAC_WHOLE},
    {"window", 1024, 1, 1 << 24, "last tokens that a query meets at true distances, itself counted",
     SAC_WHOLE},
    {0}};

typedef struct selfextend {
    int64_t group, window;
    int32_t *at;       /* [n_ctx] where queries stand for far keys */
    int32_t *rows;     /* [n_ctx] 0, 1 .. where ops run */
    sac_buffer turn;   /* int32_t [n_ctx] how far each row lies from its group's position */
    bool has_turn;     /* the device has it, and rows */
    sac_starts starts; /* of the far rows */
    sac_gathered far;
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
                     const sac_memory *memory) {
    size_t n = (size_t)shape->n_ctx * sizeof(int32_t);
    s->group = (int64_t)p[GROUP];
    s->window = (int64_t)p[WINDOW];
    s->at = sac_take_host(memory, n);
    s->rows = sac_take_device(memory, n);
    s->turn = sac_take_both(memory, n);
    sac_starts_take(&s->starts, 1, memory);
    sac_gathered_take(&s->far, shape, shape->n_ctx, memory);
    sac_join_scratch_take(&s->join, shape, n_queries, memory);
}

static void take_prefill(void *state, const double *p, const sac_attention_shape *shape,
                         const sac_memory *memory) {
    take_for(state, sac_queries_at_once(shape), p, shape, memory);
}
static void take_decode(void *state, const double *p, const sac_attention_shape *shape,
                        const sac_memory *memory) {
    take_for(state, 1, p, shape, memory);
}

/* Of all rows that there may be. */
static sac_status send_turns(selfextend *s, const sac_layer_attention *a) {
    int64_t n = a->shape->n_ctx;
    int32_t *turn = s->turn.host;
    if (s->has_turn) return SAC_OK;
    for (int64_t i = 0; i < n; i++) turn[i] = (int32_t)(i - i / s->group);
    SAC_TRY(sac_send(a, s->turn, (size_t)n * sizeof *turn));
    SAC_TRY(a->ops->choice_rows(a->stream, &(sac_choice_rows_args){.rows = s->rows, .init = n, .n_rows = n}));
    s->has_turn = true;
    return SAC_OK;
}

/* Keys and values of rows [0, n), keys at the positions of their groups. */
static sac_status group_keys(selfextend *s, const sac_layer_attention *a, int64_t n, sac_kv_view *far) {
    *far = sac_gathered_view(&s->far, a, n);
    SAC_TRY(send_turns(s, a));
    SAC_TRY(sac_starts_set(&s->starts, a, 1, n));
    const sac_row_lists all = {s->rows, s->starts.at.device, 1};
    return a->ops->kv_gather(
        a->stream,
        &(sac_kv_gather_args){
            .dst = *far, .src = a->kv, .lists = &all, .turn_back = s->turn.device, .rotation = &a->rotation});
}

/* Where the layer's queries from `first` on stand for far keys. */
static sac_status place_queries(selfextend *s, const sac_layer_attention *a, int64_t first) {
    for (int64_t i = first; i < a->q.rows; i++)
        s->at[i] = (int32_t)((a->past + i) / s->group + s->window - s->window / s->group);
    return sac_join_place(&s->join, a, first, s->at, false);
}

/* Queries [first, first + n) of the layer's, whose windows begin after the first token. */
static sac_status attend_chunk(selfextend *s, const sac_layer_attention *a, int64_t first, int64_t n,
                               const sac_kv_view *far, bool steady) {
    const sac_layer_attention chunk = sac_prompt_chunk(a, first, n);
    sac_attention_args args = sac_causal_args(&chunk, chunk.q, chunk.past);
    args.lse = s->join.lse[0];
    args.n_kv = chunk.kv.n_rows;
    args.steady = steady;
    if (args.window == 0 || args.window > s->window) args.window = s->window;
    SAC_TRY(sac_join_copy_queries(&s->join, a, first, n));
    SAC_TRY(a->ops->attention(a->stream, &args));
    args.o = args.q = sac_join_queries(&s->join, a->shape, n);
    args.kv = *far;
    args.lse = s->join.lse[1];
    args.n_kv = chunk.kv.n_rows - s->window;
    args.first = chunk.past - s->window;
    args.window = 0;
    SAC_TRY(a->ops->attention(a->stream, &args));
    return sac_join(&s->join, a, chunk.q);
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
    SAC_TRY(place_queries(s, a, first));
    for (int64_t most = s->join.capacity; first < n; first += most)
        SAC_TRY(attend_chunk(s, a, first, n - first < most ? n - first : most, &far, true));
    return SAC_OK;
}

static sac_status attend_step(void *state, const sac_layer_attention *a) {
    selfextend *s = state;
    sac_kv_view far;
    sac_count_step(a, (double)a->kv.n_rows);
    if (a->kv.n_rows <= s->window) return sac_attend_dense(a, 0, 1);
    SAC_TRY(group_keys(s, a, a->kv.n_rows - s->window, &far));
    SAC_TRY(place_queries(s, a, 0));
    return attend_chunk(s, a, 0, 1, &far, false);
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
