/* tokenselect_step.c - TokenSelect in steps: the Selection Cache (arXiv:2411.02886, Algorithm 1), and on a
 * device the rows of a choice side by side, where a step that reuses it finds them. */
#include "tokenselect.h"

#include <math.h>
#include <string.h>

#define MOST_GATHERED_BYTES ((int64_t)1 << 30)

static void take_queries(sac_tokenselect *s, const sac_attention_shape *shape, sac_arena *arena) {
    s->cached_query = sac_arena_take(arena, (size_t)shape->n_layers * (size_t)shape->n_heads *
                                                (size_t)shape->head_dim * sizeof *s->cached_query);
}

void sac_tokenselect_take_steps(void *state, const double *p, const sac_attention_shape *shape,
                                sac_arena *arena) {
    sac_tokenselect *s = state;
    size_t n_layers = (size_t)shape->n_layers;
    sac_tokenselect_take(state, p, shape, arena);
    s->n_layers = shape->n_layers;
    s->decides_there = shape->device && p[TS_THETA] > -1 && p[TS_THETA] <= 1 && p[TS_P] <= 0;
    if (!s->decides_there) take_queries(s, shape, arena);
    if (!shape->device) s->cached = sac_arena_take(arena, n_layers * (size_t)s->capacity * sizeof *s->cached);
    s->n_cached = sac_arena_take(arena, n_layers * sizeof *s->n_cached);
    s->n_hits = sac_arena_take(arena, n_layers * sizeof *s->n_hits);
    s->is_gathered = sac_arena_take(arena, n_layers * sizeof *s->is_gathered);
    if (s->decides_there) {
        s->known_hits = sac_arena_take(arena, n_layers * sizeof *s->known_hits);
        s->fetch = sac_arena_take(arena, 2 * n_layers * sizeof *s->fetch);
        s->n_decided = sac_arena_take(arena, n_layers * sizeof *s->n_decided);
    }
    sac_tokenselect_take_copy(s, shape, arena);
}

static int64_t layer_bytes(const sac_tokenselect *s, const sac_attention_shape *shape) {
    return s->capacity * shape->n_kv_heads * (int64_t)sac_dtype_row_bytes(shape->dtype, shape->head_dim);
}

void sac_tokenselect_take_steps_device(void *state, const double *p, const sac_attention_shape *shape,
                                       sac_arena *arena) {
    sac_tokenselect *s = state;
    sac_tokenselect_take_device(state, p, shape, arena);
    int64_t bytes = layer_bytes(s, shape);
    s->n_gathered = 2 * bytes * shape->n_layers <= MOST_GATHERED_BYTES ? shape->n_layers : 1;
    s->gathered_k = sac_arena_take(arena, (size_t)(s->n_gathered * bytes));
    s->gathered_v = sac_arena_take(arena, (size_t)(s->n_gathered * bytes));
    s->cached = sac_arena_take(arena, (size_t)shape->n_layers * (size_t)s->capacity * sizeof *s->cached);
    if (s->decides_there) {
        take_queries(s, shape, arena);
        s->skip = sac_arena_take(arena, sizeof *s->skip);
        s->hits_there = sac_arena_take(arena, 2 * (size_t)shape->n_layers * sizeof *s->hits_there);
    }
    sac_tokenselect_take_codes(s, shape, arena);
}

void sac_tokenselect_begin(void *state) {
    sac_tokenselect *s = state;
    for (int i = 0; i < s->n_layers; i++) s->n_cached[i] = -1;
    sac_tokenselect_cut(s, 0);
}

void sac_tokenselect_cut(void *state, int64_t n) {
    sac_tokenselect *s = state;
    for (int i = 0; s->copy && i < s->n_layers; i++)
        if (s->copy[i].n > n) s->copy[i].n = n;
}

/* A new prompt asks new questions. */
sac_status sac_tokenselect_forget(void *state, const sac_layer_attention *a) {
    sac_tokenselect *s = state;
    s->n_cached[a->layer] = -1;
    return sac_tokenselect_pack(s, a, a->kv.n_rows);
}

/* ---------------------------------------------------------------- a choice's rows, where a device reads them
 */

/* The rows of the choice unless they are there since a step before, so that only the last ones lack: these
 * are read where they lie. The host need not know which. */
static sac_status gather_unless_kept(sac_tokenselect *s, const sac_layer_attention *a, sac_choice *choice) {
    bool *is_gathered = &s->is_gathered[a->layer];
    sac_choice_step_args far = s->step;
    far.n_heads = 0;
    far.local = 0;
    far.skip = *is_gathered ? s->skip : NULL;
    *is_gathered = false; /* should this fail */
    SAC_TRY(a->ops->choice_step(a->stream, &far));
    *is_gathered = true;
    s->step.kept = true;
    choice->rest = &s->step;
    return SAC_OK;
}

static sac_status gather_or_keep(sac_tokenselect *s, const sac_layer_attention *a, bool has_own,
                                 sac_choice *choice) {
    s->step.kept = has_own && s->is_gathered[a->layer];
    if (!s->step.kept) SAC_TRY(a->ops->choice_step(a->stream, &s->step));
    s->is_gathered[a->layer] = true;
    if (s->step.kept) choice->rest = &s->step;
    return SAC_OK;
}

/* The list's keys and values side by side, in one go, unless they are already; UNSUPPORTED where the device
 * has no kernel for it. */
static sac_status gather_rows(sac_tokenselect *s, const sac_layer_attention *a, const int32_t *chosen,
                              int64_t n_chosen, sac_choice *choice) {
    int64_t init = (int64_t)s->p[TS_INIT], local = (int64_t)s->p[TS_LOCAL], n = init + n_chosen + local,
            d = a->shape->head_dim, bytes = layer_bytes(s, a->shape);
    bool has_own = s->n_gathered > 1 || a->shape->n_layers == 1;
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
                                     .n_heads = a->shape->n_heads};
    s->start[0] = 0;
    s->start[1] = n;
    sac_choice gathered = {.lists = {NULL, s->start, 1}, .compact = true, .gathered = &s->view};
    SAC_TRY(s->decides_there && has_own ? gather_unless_kept(s, a, &gathered)
                                        : gather_or_keep(s, a, has_own, &gathered));
    *choice = gathered;
    return SAC_OK;
}

/* ---------------------------------------------------------------- the Selection Cache */

static bool is_like_cached(const sac_tokenselect *s, const sac_layer_attention *a) {
    const float *cached = s->cached_query + a->layer * a->q.cols;
    double dot = 0, own = 0, theirs = 0;
    if (s->n_cached[a->layer] < 0 || s->p[TS_THETA] > 1) return false;
    if (s->p[TS_MAX_HITS] > 0 && s->n_hits[a->layer] >= (int64_t)s->p[TS_MAX_HITS]) return false;
    if (s->p[TS_THETA] <= -1) return true; /* whatever rounding says */
    for (int64_t c = 0; c < a->q.cols; c++) {
        dot += (double)s->query[c] * (double)cached[c];
        own += (double)s->query[c] * (double)s->query[c];
        theirs += (double)cached[c] * (double)cached[c];
    }
    return dot >= s->p[TS_THETA] * sqrt(own * theirs);
}

static int64_t n_candidates(const sac_tokenselect *s, const sac_layer_attention *a) {
    return a->kv.n_rows - (int64_t)(s->p[TS_INIT] + s->p[TS_LOCAL]);
}

/* The layer's choice is the one of now, or stays. */
static sac_status decide(sac_tokenselect *s, const sac_layer_attention *a, int32_t *cached) {
    bool sure = s->p[TS_THETA] <= -1 && is_like_cached(s, a); /* then nobody asks for the query */
    if (!sure) SAC_TRY(sac_tokenselect_query(s, a));
    if (s->p[TS_THETA] > -1 && s->p[TS_THETA] <= 1) /* else nobody looks */
        SAC_TRY(sac_to_host(a, s->query, s->query_there, (size_t)a->q.cols * sizeof(float)));
    if (sure || is_like_cached(s, a)) {
        s->n_hits[a->layer]++;
        a->stats->n_cache_hits++;
        return SAC_OK;
    }
    SAC_TRY(sac_tokenselect_choose(s, a, n_candidates(s, a), cached, &s->n_cached[a->layer]));
    memcpy(s->cached_query + a->layer * a->q.cols, s->query, (size_t)a->q.cols * sizeof(float));
    s->n_hits[a->layer] = 0;
    s->is_gathered[a->layer] = false;
    a->stats->n_selections++;
    return SAC_OK;
}

/* The same where the device compares: all is asked for that a new choice takes, and it skips that when the
 * query is like the cached one. */
static sac_status decide_there(sac_tokenselect *s, const sac_layer_attention *a, int32_t *cached) {
    int64_t *n_cached = &s->n_cached[a->layer];
    bool empty = *n_cached < 0;
    *n_cached = -1; /* should something fail */
    SAC_TRY(sac_tokenselect_query(s, a));
    SAC_TRY(a->ops->choice_reuse(a->stream,
                                 &(sac_choice_reuse_args){.q = s->query_there,
                                                          .cached = s->cached_query + a->layer * a->q.cols,
                                                          .n = a->q.cols,
                                                          .theta = s->p[TS_THETA],
                                                          .empty = empty,
                                                          .max_hits = (int64_t)s->p[TS_MAX_HITS],
                                                          .hits = s->hits_there + 2 * a->layer,
                                                          .skip = s->skip}));
    s->n_decided[a->layer]++;
    s->is_ahead = true;
    return sac_tokenselect_choose(s, a, n_candidates(s, a), cached, n_cached);
}

sac_status sac_tokenselect_select(void *state, const sac_layer_attention *a, sac_choice *choice) {
    sac_tokenselect *s = state;
    int32_t *cached = s->cached + a->layer * s->capacity;
    if (a->kv.n_rows <= sac_tokenselect_dense_up_to(s->p)) {
        choice->all = true;
        return SAC_OK;
    }
    SAC_TRY(s->decides_there ? decide_there(s, a, cached) : decide(s, a, cached));
    int64_t n_chosen = s->n_cached[a->layer];
    if (a->shape->device && !choice->wants_rows) {
        sac_status st = gather_rows(s, a, cached, n_chosen, choice);
        if (st != SAC_UNSUPPORTED) return st;
    }
    return sac_tokenselect_list(s, a, cached, n_chosen, choice);
}

sac_status sac_tokenselect_counted(void *state, const sac_attention_shape *shape, const sac_stream *stream,
                                   sac_layer_stats *stats) {
    sac_tokenselect *s = state;
    if (!s->is_ahead) return SAC_OK;
    size_t n_bytes = 2 * (size_t)s->n_layers * sizeof *s->fetch;
    SAC_TRY(shape->device->download(stream, s->fetch, s->hits_there, n_bytes));
    SAC_TRY(shape->device->stream_sync(stream, NULL));
    for (int i = 0; i < s->n_layers; i++) {
        int64_t n_hits = s->fetch[2 * i + 1] - s->known_hits[i];
        stats[i].n_cache_hits += n_hits;
        stats[i].n_selections += s->n_decided[i] - n_hits;
        s->known_hits[i] += n_hits;
        s->n_decided[i] = 0;
    }
    s->is_ahead = false;
    return SAC_OK;
}
