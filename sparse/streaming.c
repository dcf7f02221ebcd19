/* streaming.c - the first tokens and the last ones, as if there were no others.
 *
 * StreamingLLM (Xiao et al., arXiv:2309.17453). A step reads `start` first tokens, the sinks that a softmax
 * puts weight on for want of anything better, and `recent` last ones, its own counted; keys stand at their
 * places in this list and the query at its end, so positions never exceed start + recent. In a prompt
 * (prefill policy) every query does the same: its recent tokens are a sliding window, where places in the
 * list and true positions lie equally far apart, and the sinks are met by the query turned back to position
 * start + recent - 1; the two are joined by their denominators.
 *
 * What is in the middle stays stored and unread, so this is a bound for what a method without a memory of the
 * middle can do, not a way to save memory. pos=orig leaves all positions as they are. */
#include "attend.h"
#include "gathered.h"
#include "join.h"
#include "starts.h"

enum { START, RECENT, POS };

static const char *const positions[] = {"compact", "orig", NULL};

static const sac_method_param params[] = {
    {"start", 4, 0, 1 << 24, "first tokens that are read", SAC_WHOLE},
    {"recent", 2000, 1, 1 << 24, "last tokens that are read", SAC_WHOLE},
    {"pos", 0, 0, 1, "positions in attention: in the list, or the tokens' own", positions},
    {0}};

typedef struct streaming {
    int64_t start, recent;
    bool compact;
    int32_t *rows;    /* a step's, where ops run */
    int64_t n_listed; /* rows of the layer that the list was made for, and with it its turns; 0: of none */
    sac_starts starts;
    sac_gathered gathered; /* of a step */
    sac_join_scratch join; /* of a prompt */
} streaming;

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return p[START] + p[RECENT] >= (double)shape->n_ctx;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    if (p[POS] != 0 || is_off(p, shape)) return SAC_OK;
    if (!shape->fixed_rotation)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "streaming moves keys to other positions, and this model's positions (dynamic rope "
                        "scaling, or numbers of their own) cannot "
                        "be taken back: use pos=orig");
    if (p[START] + p[RECENT] > (double)shape->max_position)
        return sac_fail(
            err, SAC_BAD_ARGUMENT,
            "streaming: start + recent = %g tokens at once, and the model was trained on %lld: lower "
            "them, or use pos=orig",
            p[START] + p[RECENT], (long long)shape->max_position);
    return SAC_OK;
}

static void take_settings(streaming *s, const double *p) {
    s->start = (int64_t)p[START];
    s->recent = (int64_t)p[RECENT];
    s->compact = p[POS] == 0;
}

/* ---------------------------------------------------------------- steps */

static void take_decode(void *state, const double *p, const sac_attention_shape *shape,
                        const sac_memory *memory) {
    streaming *s = state;
    take_settings(s, p);
    s->rows = sac_take_device(memory, (size_t)(s->start + s->recent) * sizeof *s->rows);
    sac_starts_take(&s->starts, 1, memory);
    if (s->compact) sac_gathered_take(&s->gathered, shape, s->start + s->recent, memory);
}

static sac_status select_rows(void *state, const sac_layer_attention *a, sac_choice *choice) {
    streaming *s = state;
    if (a->kv.n_rows <= s->start + s->recent) return SAC_OK; /* all */
    sac_starts_expect(&s->starts, 1, s->start + s->recent);
    choice->kind = s->compact ? SAC_CHOICE_PLACES : SAC_CHOICE_ROWS;
    choice->lists = (sac_choice_lists){s->rows, s->starts.at, 1};
    choice->room = &s->gathered;
    if (s->n_listed == a->kv.n_rows) return SAC_OK; /* as in the layer before */
    s->n_listed = 0;                                /* should it fail */
    SAC_TRY(a->ops->choice_rows(a->stream, &(sac_choice_rows_args){.rows = s->rows,
                                                                   .turn_back = s->gathered.turn_keys,
                                                                   .start = s->starts.at.device,
                                                                   .init = s->start,
                                                                   .local = s->recent,
                                                                   .n_rows = a->kv.n_rows}));
    s->n_listed = a->kv.n_rows;
    return SAC_OK;
}

/* ---------------------------------------------------------------- prompts */

static void take_prefill(void *state, const double *p, const sac_attention_shape *shape,
                         const sac_memory *memory) {
    streaming *s = state;
    take_settings(s, p);
    sac_join_scratch_take(&s->join, shape, sac_queries_at_once(shape), memory);
}

/* The last tokens of queries whose windows begin after the sinks. */
static sac_status attend_recent(streaming *s, const sac_layer_attention *chunk) {
    int64_t window = chunk->window;
    return chunk->ops->attention(
        chunk->stream, &(sac_attention_args){.o = chunk->q,
                                             .q = chunk->q,
                                             .kv = chunk->kv,
                                             .lse = s->join.lse[0],
                                             .n_q = chunk->q.rows,
                                             .n_kv = chunk->kv.n_rows,
                                             .first = chunk->past,
                                             .n_batch = 1,
                                             .n_heads = chunk->shape->n_heads,
                                             .scale = chunk->scale,
                                             .causal = true,
                                             .steady = true,
                                             .window = window && window < s->recent ? window : s->recent});
}

static sac_status attend_sinks(streaming *s, const sac_layer_attention *chunk) {
    sac_mat q = sac_join_queries(&s->join, chunk->shape, chunk->q.rows);
    return chunk->ops->attention(chunk->stream, &(sac_attention_args){.o = q,
                                                                      .q = q,
                                                                      .kv = chunk->kv,
                                                                      .lse = s->join.lse[1],
                                                                      .n_q = q.rows,
                                                                      .n_kv = s->start,
                                                                      .n_batch = 1,
                                                                      .n_heads = chunk->shape->n_heads,
                                                                      .scale = chunk->scale,
                                                                      .steady = true});
}

/* Queries [first, first + n) of a prompt. */
static sac_status attend_chunk(streaming *s, const sac_layer_attention *a, int64_t first, int64_t n) {
    sac_layer_attention chunk = sac_prompt_chunk(a, first, n);
    if (s->start == 0) return attend_recent(s, &chunk);
    SAC_TRY(sac_join_copy_queries(&s->join, a, first, n));
    SAC_TRY(attend_recent(s, &chunk));
    SAC_TRY(attend_sinks(s, &chunk));
    return sac_join(&s->join, a, chunk.q);
}

static sac_status attend_prompt(void *state, const sac_layer_attention *a) {
    streaming *s = state;
    int64_t n_read = s->start + s->recent, n = a->q.rows, first = n_read - a->past;
    if (first >= n) return sac_attend_prompt_dense(a);
    if (first > 0) {
        sac_layer_attention beginning = sac_prompt_chunk(a, 0, first);
        SAC_TRY(sac_attend_prompt_dense(&beginning));
    } else {
        first = 0;
    }
    double kept = 0;
    for (int64_t i = first; i < n; i++) kept += (double)n_read / (double)(a->past + i + 1);
    sac_count_prefill(a, kept, (double)(n - first) * (double)n_read * a->shape->n_heads);
    const int32_t place = (int32_t)(n_read - 1);
    if (s->start > 0)
        SAC_TRY(sac_join_place(&s->join, a, first, s->compact ? &place : a->position, s->compact));
    for (; first < n; first += s->join.capacity)
        SAC_TRY(attend_chunk(s, a, first, n - first < s->join.capacity ? n - first : s->join.capacity));
    return SAC_OK;
}

#define SOURCE "Xiao et al., StreamingLLM, arXiv:2309.17453"

const sac_prefill_policy sac_prefill_streaming = {
    .name = "streaming",
    .source = SOURCE,
    .params = params,
    .state_bytes = sizeof(streaming),
    .check = check,
    .is_off = is_off,
    .take = take_prefill,
    .attend = attend_prompt,
    .turns_keys = true,
    .keeps_prefix = true,
};

/* What the trained length leaves beside the first tokens, where the list stands in it. */
static int64_t most_budget(const double *p, const sac_attention_shape *shape) {
    return p[POS] == 0 ? shape->max_position - (int64_t)p[START] : shape->n_ctx;
}

const sac_decode_policy sac_decode_streaming = {
    .name = "streaming",
    .source = SOURCE,
    .params = params,
    .budget = "recent",
    .most_budget = most_budget,
    .state_bytes = sizeof(streaming),
    .check = check,
    .is_off = is_off,
    .take = take_decode,
    .select = select_rows,
    .turns_keys = true,
    .keeps_prefix = true,
};
