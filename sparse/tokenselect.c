/* tokenselect.c - a constant number of tokens, chosen token by token by a vote of all heads.
 *
 * TokenSelect (arXiv:2411.02886). The queries of a chunk of the prompt, or of one step, are averaged; every
 * key between the first `init` and the last `local` tokens gets the sum over heads of softmax(q_h . k_h) over
 * these candidates (eq. 7, no 1/sqrt(d)); the k best, the first and the last tokens are attended to as if
 * they were the whole sequence: key i of the list at position i, the queries at its end. So a model sees no
 * longer text than it was trained on. In steps a query like the last selecting one (cosine >= theta over all
 * heads) reuses that one's choice: the Selection Cache (Algorithm 1).
 *
 * From the released code, where the paper is silent: query i of a chunk votes from position local + i, keys
 * from position 0; positions in the attention are those in the list. Ours: the vote is ranked by its
 * logarithm (same order, no underflow); query head h meets key head h / group in the vote too (gqa=mod gives
 * Algorithm 2's reading); the cache compares queries at the voting position, so that a turn of the head by
 * rope does not count as a new query; p replaces the k best by the smallest set that holds p of the vote
 * (Twilight's rule over TokenSelect's vote). */
#include "clock.h"
#include "sparse.h"
#include "vote_chunks.h"

#include <math.h>
#include <string.h>

enum { INIT, K, LOCAL, CHUNK, THETA, SCALE, SELECT, GQA, POS, MAX_HITS, P, KMIN, KMAX };

static const char *const scales[] = {"1", "rsqrt_d", NULL};
static const char *const selects[] = {"soft", "head", "topk", NULL};
static const char *const pairings[] = {"div", "mod", NULL};
static const char *const positions[] = {"compact", "orig", NULL};
enum { SOFT, HEAD, TOPK };
#define MOST_GATHERED_BYTES ((int64_t)1 << 30)

static const sac_method_param params[] = {
    {"init", 128, 0, 1 << 24, "first tokens, always read", SAC_WHOLE},
    {"k", 2048, 1, 1 << 24, "tokens that the vote chooses", SAC_WHOLE},
    {"local", 512, 1, 1 << 24, "last tokens, always read", SAC_WHOLE},
    {"chunk", 512, 1, 1 << 24, "tokens of a prompt that choose together, at most local", SAC_WHOLE},
    {"theta", 0.9, -1, 2, "cosine from which a step reuses the last choice; above 1 never", NULL},
    {"scale", 0, 0, 1, "of scores in the vote", scales},
    {"select", SOFT, 0, 2, "vote: softmaxes summed, each head's k best counted, or scores summed", selects},
    {"gqa", 0, 0, 1, "key head of query head h in the vote: h / group, or h mod key heads", pairings},
    {"pos", 0, 0, 1, "positions in attention: in the list, or the tokens' own", positions},
    {"max_hits", 0, 0, 1 << 24, "steps that may reuse a choice; 0 = any number", SAC_WHOLE},
    {"p", 0, 0, 1, "share of the vote to choose instead of k tokens; 0 = k tokens", NULL},
    {"kmin", 128, 1, 1 << 24, "with p: tokens, at least", SAC_WHOLE},
    {"kmax", 0, 0, 1 << 24, "with p: tokens, at most; 0 = any number", SAC_WHOLE},
    {0}};

typedef struct tokenselect {
    double p[SAC_METHOD_MAX_PARAMS];
    int64_t capacity;           /* rows of a choice */
    float *scores;              /* [n_heads][n_ctx] */
    float *votes;               /* [n_ctx] */
    float *lse;                 /* [n_heads] */
    float *query, *paired;      /* [n_heads * head_dim] on the host; all else that ops use is on the device */
    int32_t *head_best;         /* [n_heads][k], for select=head */
    int32_t *chosen;            /* [capacity], counted from the first candidate */
    int32_t *rows;              /* [capacity], all that are read */
    int64_t start[2];           /* of rows */
    sac_choice_scratch scratch; /* for pos=compact */
    float *query_there;         /* where ops read and write it: query itself, or the device's */
    int32_t *turn, turn_sent;   /* [1] there; what it is, and 1 */
    sac_vote_chunks chunks;     /* of a prompt on a device, together */
    /* Selection Cache, a slot a layer; a prefill policy has none. */
    int n_layers;
    float *cached_query;        /* [n_layers][n_heads * head_dim] */
    int32_t *cached;            /* [n_layers][capacity] */
    int64_t *n_cached, *n_hits; /* [n_layers]; n_cached -1: empty */
    /* On a device, what the cached choice reads: a hit reads the last tokens where they lie. */
    uint8_t *gathered_k, *gathered_v; /* [n_gathered][n_kv_heads][capacity][head_dim] in the queries' type */
    int n_gathered;    /* n_layers, or 1 where that would take too much: then nothing is kept */
    bool *is_gathered; /* [n_layers] */
    sac_kv_view view;  /* of the step's layer */
    sac_choice_step_args step;
} tokenselect;

/* Tokens that the vote may choose at least and at most. */
static int64_t min_chosen(const double *p) {
    return (int64_t)(p[P] > 0 ? p[KMIN] : p[K]);
}
static int64_t max_chosen(const double *p, const sac_attention_shape *shape) {
    if (p[P] <= 0) return (int64_t)p[K];
    return p[KMAX] > 0 ? (int64_t)fmax(p[KMIN], p[KMAX]) : shape->n_ctx;
}

/* Sequences up to here are attended to whole. */
static int64_t dense_up_to(const double *p) {
    return (int64_t)(p[INIT] + p[LOCAL]) + min_chosen(p);
}

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return dense_up_to(p) >= shape->n_ctx || (p[P] >= 1 && p[KMAX] <= 0);
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    int64_t longest = (int64_t)(p[INIT] + p[LOCAL]) + max_chosen(p, shape);
    if (longest > shape->n_ctx) longest = shape->n_ctx;
    if (shape->device && (p[SELECT] != SOFT || p[GQA] != 0 || p[POS] != 0 || p[P] > 0))
        return sac_fail(err, SAC_UNSUPPORTED,
                        "tokenselect with select, gqa, pos or p runs on the CPU only so far: leave them out");
    if (!shape->fixed_rotation)
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "tokenselect needs keys without their positions, and this model's dynamic rope scaling "
            "cannot be taken back: use another method");
    if (p[P] > 0 && p[SELECT] != SOFT)
        return sac_fail(err, SAC_BAD_ARGUMENT, "tokenselect: p is a share of the soft vote: use select=soft");
    if (p[POS] == 0 && longest > shape->max_position && !is_off(p, shape))
        return sac_fail(
            err, SAC_BAD_ARGUMENT,
            "tokenselect: init + local + %s = %lld tokens at once, and the model was trained on %lld: "
            "lower them, or use pos=orig",
            p[P] > 0 ? "kmax" : "k", (long long)longest, (long long)shape->max_position);
    return SAC_OK;
}

static sac_status check_prefill(const double *p, const sac_attention_shape *shape, sac_error *err) {
    if (p[CHUNK] > p[LOCAL])
        return sac_fail(
            err, SAC_BAD_ARGUMENT,
            "tokenselect: chunk=%g is more than local=%g, so a chunk would have to choose among its "
            "own tokens: give chunk <= local",
            p[CHUNK], p[LOCAL]);
    return check(p, shape, err);
}

/* What ops read and write. */
static void take_work(tokenselect *s, const sac_attention_shape *shape, sac_arena *arena) {
    size_t n_heads = (size_t)shape->n_heads, n_ctx = (size_t)shape->n_ctx;
    s->scores = sac_arena_take(arena, n_heads * n_ctx * sizeof *s->scores);
    s->votes = sac_arena_take(arena, n_ctx * sizeof *s->votes);
    s->lse = sac_arena_take(arena, n_heads * sizeof *s->lse);
    s->chosen = sac_arena_take(arena, (size_t)s->capacity * sizeof *s->chosen);
    s->rows = sac_arena_take(arena, (size_t)s->capacity * sizeof *s->rows);
}

static void take(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    tokenselect *s = state;
    size_t query_bytes = (size_t)shape->n_heads * (size_t)shape->head_dim * sizeof(float);
    memcpy(s->p, p, sizeof s->p);
    s->capacity = (int64_t)(p[INIT] + p[LOCAL]) + max_chosen(p, shape);
    if (s->capacity > shape->n_ctx) s->capacity = shape->n_ctx;
    if (!shape->device) take_work(s, shape, arena);
    s->query = s->query_there = sac_arena_take(arena, query_bytes);
    s->paired = sac_arena_take(arena, query_bytes);
    if (p[SELECT] == HEAD)
        s->head_best = sac_arena_take(arena, (size_t)shape->n_heads * (size_t)s->capacity * sizeof(int32_t));
    if (p[POS] == 0) sac_choice_scratch_take(&s->scratch, shape, s->capacity, arena);
}

static void take_device(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    tokenselect *s = state;
    (void)p;
    take_work(s, shape, arena);
    s->query_there = sac_arena_take(arena, (size_t)shape->n_heads * (size_t)shape->head_dim * sizeof(float));
    s->turn = sac_arena_take(arena, sizeof *s->turn);
    sac_choice_scratch_take_device(&s->scratch, shape, s->capacity, arena);
}

static void set_chunks(tokenselect *s, const double *p) {
    s->chunks.init = (int64_t)p[INIT], s->chunks.k = (int64_t)p[K], s->chunks.local = (int64_t)p[LOCAL];
    s->chunks.chunk = (int64_t)p[CHUNK], s->chunks.rsqrt_d = p[SCALE] != 0;
}

static void take_prefill(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    tokenselect *s = state;
    take(state, p, shape, arena);
    set_chunks(s, p);
    if (shape->device) sac_vote_chunks_take(&s->chunks, shape, arena);
}

static void take_prefill_device(void *state, const double *p, const sac_attention_shape *shape,
                                sac_arena *arena) {
    tokenselect *s = state;
    take_device(state, p, shape, arena);
    set_chunks(s, p);
    sac_vote_chunks_take_device(&s->chunks, shape, arena);
}

static void take_decode(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    tokenselect *s = state;
    size_t n_layers = (size_t)shape->n_layers;
    take(state, p, shape, arena);
    s->n_layers = shape->n_layers;
    s->cached_query = sac_arena_take(arena, n_layers * (size_t)shape->n_heads * (size_t)shape->head_dim *
                                                sizeof *s->cached_query);
    if (!shape->device) s->cached = sac_arena_take(arena, n_layers * (size_t)s->capacity * sizeof *s->cached);
    s->n_cached = sac_arena_take(arena, n_layers * sizeof *s->n_cached);
    s->n_hits = sac_arena_take(arena, n_layers * sizeof *s->n_hits);
    s->is_gathered = sac_arena_take(arena, n_layers * sizeof *s->is_gathered);
}

static int64_t layer_bytes(const tokenselect *s, const sac_attention_shape *shape) {
    return s->capacity * shape->n_kv_heads * (int64_t)sac_dtype_row_bytes(shape->dtype, shape->head_dim);
}

static void take_decode_device(void *state, const double *p, const sac_attention_shape *shape,
                               sac_arena *arena) {
    tokenselect *s = state;
    take_device(state, p, shape, arena);
    int64_t bytes = layer_bytes(s, shape);
    s->n_gathered = 2 * bytes * shape->n_layers <= MOST_GATHERED_BYTES ? shape->n_layers : 1;
    s->gathered_k = sac_arena_take(arena, (size_t)(s->n_gathered * bytes));
    s->gathered_v = sac_arena_take(arena, (size_t)(s->n_gathered * bytes));
    s->cached = sac_arena_take(arena, (size_t)shape->n_layers * (size_t)s->capacity * sizeof *s->cached);
}

static void begin_decode(void *state) {
    tokenselect *s = state;
    for (int i = 0; i < s->n_layers; i++) s->n_cached[i] = -1;
}

/* A new prompt asks new questions. */
static sac_status forget(void *state, const sac_layer_attention *a) {
    ((tokenselect *)state)->n_cached[a->layer] = -1;
    return SAC_OK;
}

/* ---------------------------------------------------------------- the query that votes */

/* The mean of queries at positions local, local + 1 .. : rotations are linear, so the mean at the true
 * positions is turned back by what they lie apart. */
static sac_status average_query(tokenselect *s, const sac_layer_attention *a) {
    int64_t n = a->q.rows, cols = a->q.cols, apart = a->position[0] - (int64_t)s->p[LOCAL];
    /* A table of rope holds its factor, which turning back leaves out. */
    float scale = (apart < 0 ? 1.0f / a->rotation.factor : 1.0f) / (float)n;
    int32_t turn = (int32_t)(apart < 0 ? -apart : apart), *turn_there = a->shape->device ? s->turn : &turn;
    SAC_TRY(
        a->ops->mean_rows(a->stream, &(sac_mean_rows_args){.y = s->query_there, .x = a->q, .scale = scale}));
    if (s->turn_sent != turn + 1) SAC_TRY(sac_to_device(a, turn_there, &turn, sizeof turn));
    s->turn_sent = turn + 1;
    return a->ops->rope(a->stream, &(sac_rope_args){.x = sac_mat_f32(s->query_there, 1, cols),
                                                    .n_heads = a->shape->n_heads,
                                                    .head_dim = a->shape->head_dim,
                                                    .rotation = a->rotation,
                                                    .pos = turn_there,
                                                    .back = apart >= 0});
}

/* The query heads in the order in which key_scores pairs them with key heads. Under gqa=mod key head m's
 * group is the query heads m, m + n_kv_heads, ... */
static const float *paired_query(tokenselect *s, const sac_attention_shape *shape) {
    if (s->p[GQA] == 0) return s->query_there;
    int d = shape->head_dim, group = shape->n_heads / shape->n_kv_heads;
    for (int h = 0; h < shape->n_heads; h++) {
        int slot = h % shape->n_kv_heads * group + h / shape->n_kv_heads;
        memcpy(s->paired + slot * d, s->query + h * d, (size_t)d * sizeof(float));
    }
    return s->paired;
}

/* ---------------------------------------------------------------- the vote */

/* Each head's k best get one vote each (eq. 6). */
static sac_status head_vote(tokenselect *s, const sac_layer_attention *a, int64_t n, int64_t k) {
    SAC_TRY(a->ops->top_k(a->stream, &(sac_top_k_args){.scores = s->scores,
                                                       .stride = a->shape->n_ctx,
                                                       .n = n,
                                                       .n_rows = a->shape->n_heads,
                                                       .k = k,
                                                       .indices = s->head_best}));
    memset(s->votes, 0, (size_t)n * sizeof *s->votes);
    for (int64_t i = 0; i < k * a->shape->n_heads; i++) s->votes[s->head_best[i]] += 1;
    return SAC_OK;
}

/* The sum of all heads' scores (eq. 5). */
static void sum_scores(tokenselect *s, const sac_attention_shape *shape, int64_t n) {
    memcpy(s->votes, s->scores, (size_t)n * sizeof *s->votes);
    for (int h = 1; h < shape->n_heads; h++)
        for (int64_t j = 0; j < n; j++) s->votes[j] += s->scores[h * shape->n_ctx + j];
}

static sac_status vote(tokenselect *s, const sac_layer_attention *a, int64_t n, int64_t k) {
    int n_heads = a->shape->n_heads;
    int64_t stride = a->shape->n_ctx;
    if (s->p[SELECT] == HEAD) return head_vote(s, a, n, k);
    if (s->p[SELECT] == TOPK) {
        sum_scores(s, a->shape, n);
        return SAC_OK;
    }
    SAC_TRY(a->ops->softmax(
        a->stream, &(sac_softmax_args){
                       .scores = s->scores, .stride = stride, .n = n, .n_rows = n_heads, .lse = s->lse}));
    return a->ops->soft_vote(a->stream, &(sac_soft_vote_args){.scores = s->scores,
                                                              .stride = stride,
                                                              .n = n,
                                                              .n_rows = n_heads,
                                                              .lse = s->lse,
                                                              .votes = s->votes});
}

/* How many of the best hold p of the vote. */
static sac_status count_by_mass(tokenselect *s, const sac_layer_attention *a, int64_t n, int64_t *k) {
    float threshold, lse, *mass = s->scores;
    SAC_TRY(a->ops->softmax(
        a->stream, &(sac_softmax_args){
                       .scores = s->votes, .stride = n, .n = n, .n_rows = 1, .lse = &lse, .weights = mass}));
    SAC_TRY(a->ops->top_p(a->stream, &(sac_top_p_args){.weights = mass,
                                                       .stride = n,
                                                       .n = n,
                                                       .n_rows = 1,
                                                       .p = s->p[P],
                                                       .threshold = &threshold,
                                                       .n_kept = k}));
    if (*k < (int64_t)s->p[KMIN]) *k = (int64_t)s->p[KMIN];
    int64_t most = max_chosen(s->p, a->shape);
    if (*k > most) *k = most;
    return SAC_OK;
}

/* Candidates [init, init + n): the chosen ones' numbers, counted from init, ascending; how many. */
static sac_status choose(tokenselect *s, const sac_layer_attention *a, int64_t n, int32_t *chosen,
                         int64_t *n_chosen) {
    int64_t k = (int64_t)s->p[K];
    SAC_TRY(a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = s->scores,
                                                                 .stride = a->shape->n_ctx,
                                                                 .q = paired_query(s, a->shape),
                                                                 .kv = a->kv,
                                                                 .n_heads = a->shape->n_heads,
                                                                 .first = (int64_t)s->p[INIT],
                                                                 .n = n,
                                                                 .scale = s->p[SCALE] == 0 ? 1.0f : a->scale,
                                                                 .back = &a->rotation}));
    SAC_TRY(vote(s, a, n, k));
    if (s->p[P] > 0) SAC_TRY(count_by_mass(s, a, n, &k));
    SAC_TRY(a->ops->top_k(
        a->stream,
        &(sac_top_k_args){.scores = s->votes, .stride = n, .n = n, .n_rows = 1, .k = k, .indices = chosen}));
    *n_chosen = k < n ? k : n;
    a->stats->n_selections++;
    return SAC_OK;
}

/* First tokens, chosen ones, last tokens of the rows. */
static sac_status list_rows(tokenselect *s, const sac_layer_attention *a, const int32_t *chosen,
                            int64_t n_chosen, sac_choice *choice) {
    int64_t init = (int64_t)s->p[INIT], local = (int64_t)s->p[LOCAL];
    s->start[0] = 0;
    s->start[1] = init + n_chosen + local;
    *choice =
        (sac_choice){.lists = {s->rows, s->start, 1}, .compact = s->p[POS] == 0, .scratch = &s->scratch};
    return a->ops->choice_rows(a->stream, &(sac_choice_rows_args){.rows = s->rows,
                                                                  .turn_back = s->scratch.device_turn_keys,
                                                                  .chosen = chosen,
                                                                  .n_chosen = n_chosen,
                                                                  .init = init,
                                                                  .local = local,
                                                                  .n_rows = a->kv.n_rows});
}

/* ---------------------------------------------------------------- steps */

/* The list's keys and values side by side, in one go, unless they are already; UNSUPPORTED where the device
 * has no kernel for it. */
static sac_status gather_rows(tokenselect *s, const sac_layer_attention *a, const int32_t *chosen,
                              int64_t n_chosen, sac_choice *choice) {
    int64_t init = (int64_t)s->p[INIT], local = (int64_t)s->p[LOCAL], n = init + n_chosen + local,
            d = a->shape->head_dim, bytes = layer_bytes(s, a->shape);
    bool has_own = s->n_gathered > 1 || a->shape->n_layers == 1, *is_gathered = &s->is_gathered[a->layer];
    if (a->shape->measure_mass || a->kv.dtype != a->shape->dtype) return SAC_UNSUPPORTED;
    s->view = (sac_kv_view){.k = s->gathered_k + (has_own ? a->layer * bytes : 0),
                            .v = s->gathered_v + (has_own ? a->layer * bytes : 0),
                            .dtype = a->kv.dtype,
                            .n_heads = a->shape->n_kv_heads,
                            .head_dim = a->shape->head_dim,
                            .n_rows = n,
                            .row_stride = d,
                            .head_stride = s->capacity * d};
    s->step = (sac_choice_step_args){.q = a->q,
                                     .dst = s->view,
                                     .src = a->kv,
                                     .chosen = chosen,
                                     .n_chosen = n_chosen,
                                     .init = init,
                                     .local = local,
                                     .n_rows = a->kv.n_rows,
                                     .rotation = a->rotation,
                                     .n_heads = a->shape->n_heads,
                                     .kept = has_own && *is_gathered};
    if (!s->step.kept) SAC_TRY(a->ops->choice_step(a->stream, &s->step));
    *is_gathered = true;
    s->start[0] = 0;
    s->start[1] = n;
    *choice = (sac_choice){.lists = {NULL, s->start, 1}, .compact = true, .gathered = &s->view};
    if (s->step.kept) choice->rest = &s->step;
    return SAC_OK;
}

static bool is_like_cached(const tokenselect *s, const sac_layer_attention *a) {
    const float *cached = s->cached_query + a->layer * a->q.cols;
    double dot = 0, own = 0, theirs = 0;
    if (s->n_cached[a->layer] < 0) return false;
    if (s->p[MAX_HITS] > 0 && s->n_hits[a->layer] >= (int64_t)s->p[MAX_HITS]) return false;
    if (s->p[THETA] <= -1) return true; /* whatever rounding says */
    for (int64_t c = 0; c < a->q.cols; c++) {
        dot += (double)s->query[c] * (double)cached[c];
        own += (double)s->query[c] * (double)s->query[c];
        theirs += (double)cached[c] * (double)cached[c];
    }
    return s->p[THETA] <= 1 && dot >= s->p[THETA] * sqrt(own * theirs);
}

static sac_status select_rows(void *state, const sac_layer_attention *a, sac_choice *choice) {
    tokenselect *s = state;
    int64_t n_rows = a->kv.n_rows, *n_cached = &s->n_cached[a->layer];
    int32_t *cached = s->cached + a->layer * s->capacity;
    size_t query_bytes = (size_t)a->q.cols * sizeof(float);
    if (n_rows <= dense_up_to(s->p)) {
        choice->all = true;
        return SAC_OK;
    }
    bool sure = s->p[THETA] <= -1 && is_like_cached(s, a); /* then nobody asks for the query */
    if (!sure) SAC_TRY(average_query(s, a));
    if (s->p[THETA] > -1 && s->p[THETA] <= 1) /* else nobody looks */
        SAC_TRY(sac_to_host(a, s->query, s->query_there, query_bytes));
    if (sure || is_like_cached(s, a)) {
        s->n_hits[a->layer]++;
        a->stats->n_cache_hits++;
    } else {
        SAC_TRY(choose(s, a, n_rows - (int64_t)(s->p[INIT] + s->p[LOCAL]), cached, n_cached));
        memcpy(s->cached_query + a->layer * a->q.cols, s->query, query_bytes);
        s->n_hits[a->layer] = 0;
        s->is_gathered[a->layer] = false;
    }
    if (a->shape->device && !choice->wants_rows) {
        sac_status st = gather_rows(s, a, cached, *n_cached, choice);
        if (st != SAC_UNSUPPORTED) return st;
    }
    return list_rows(s, a, cached, *n_cached, choice);
}

/* ---------------------------------------------------------------- prompts */

/* One chunk, as a prompt of its own after all that precedes it. */
static sac_status attend_chunk(tokenselect *s, const sac_layer_attention *chunk, bool is_last) {
    double n = (double)chunk->q.rows, n_rows = (double)chunk->kv.n_rows;
    int64_t start = sac_now_ns(), n_chosen;
    sac_choice choice;
    SAC_TRY(average_query(s, chunk));
    SAC_TRY(choose(s, chunk, chunk->kv.n_rows - (int64_t)(s->p[INIT] + s->p[LOCAL]), s->chosen, &n_chosen));
    SAC_TRY(list_rows(s, chunk, s->chosen, n_chosen, &choice));
    int64_t spent = sac_now_ns() - start;
    chunk->stats->select_ns += spent;
    chunk->stats->attend_ns -= spent;
    double n_read = (double)s->start[1];
    sac_count_prefill(chunk, n * n_read / n_rows,
                      (n * (n_read - n) + n * (n + 1) / 2) * chunk->shape->n_heads);
    if (is_last && chunk->observer.fn) {
        s->scratch.n_turn_sent = 0;
        const int32_t *rows = chunk->shape->device ? s->scratch.turn_back : s->rows;
        SAC_TRY(sac_to_host(chunk, s->scratch.turn_back, s->rows, (size_t)s->start[1] * sizeof *s->rows));
        chunk->observer.fn(chunk->observer.ctx, chunk->layer, rows, s->start[1], chunk->kv.n_rows);
    }
    return sac_attend_choice(chunk, &choice);
}

static sac_status attend_prompt(void *state, const sac_layer_attention *a) {
    tokenselect *s = state;
    int64_t chunk = (int64_t)s->p[CHUNK], n = a->q.rows, first = 0;
    while (first < n && a->past + (first + chunk < n ? first + chunk : n) <= dense_up_to(s->p))
        first += chunk;
    if (first > 0) { /* the short beginning, all at once */
        sac_layer_attention beginning = sac_prompt_chunk(a, 0, first < n ? first : n);
        SAC_TRY(sac_attend_prompt_dense(&beginning));
    }
    /* whoever wants to see the last choice gets it from a chunk alone */
    int64_t together = sac_vote_chunks_fit(&s->chunks, a, first, a->observer.fn ? n - 1 : n);
    if (together > 1) {
        SAC_TRY(sac_vote_chunks_attend(&s->chunks, a, first, together));
        first += together * chunk;
    }
    for (; first < n; first += chunk) {
        sac_layer_attention part = sac_prompt_chunk(a, first, n - first < chunk ? n - first : chunk);
        SAC_TRY(attend_chunk(s, &part, first + chunk >= n));
    }
    return SAC_OK;
}

#define SOURCE "Wu et al., TokenSelect, arXiv:2411.02886"

const sac_prefill_policy sac_prefill_tokenselect = {
    .name = "tokenselect",
    .source = SOURCE,
    .params = params,
    .state_bytes = sizeof(tokenselect),
    .check = check_prefill,
    .is_off = is_off,
    .take = take_prefill,
    .take_device = take_prefill_device,
    .attend = attend_prompt,
    .turns_keys = true,
};

const sac_decode_policy sac_decode_tokenselect = {
    .name = "tokenselect",
    .source = SOURCE,
    .params = params,
    .state_bytes = sizeof(tokenselect),
    .check = check,
    .is_off = is_off,
    .take = take_decode,
    .take_device = take_decode_device,
    .begin = begin_decode,
    .prompt = forget,
    .prompt_without_queries = true,
    .select = select_rows,
    .turns_keys = true,
    .keeps_prefix = true, /* a prompt, which follows a cut, empties the selection cache */
};
