/* tokenselect_step.c - TokenSelect in steps: the Selection Cache (arXiv:2411.02886, Algorithm 1), and on a
 * device the rows of a choice side by side, where a step that reuses it finds them. */
#include "tokenselect.h"

#include "attend.h"

#include <math.h>
#include <string.h>

#define MOST_GATHERED_BYTES ((int64_t)1 << 30)

static int64_t layer_bytes(const sac_tokenselect *s, const sac_attention_shape *shape) {
    return s->capacity * shape->n_kv_heads * (int64_t)sac_dtype_row_bytes(shape->dtype, shape->head_dim);
}

/* What only a GPU has: its own comparing, and the rows of choices that it keeps. */
static void take_kept(sac_tokenselect *s, const sac_attention_shape *shape, const sac_memory *memory) {
    size_t n_layers = (size_t)shape->n_layers;
    int64_t bytes = layer_bytes(s, shape);
    if (s->decides_there) {
        s->skip = sac_take_device(memory, sizeof *s->skip);
        s->hits = sac_take_both(memory, 2 * n_layers * sizeof(int64_t));
        s->known_hits = sac_take_host(memory, n_layers * sizeof *s->known_hits);
        s->n_decided = sac_take_host(memory, n_layers * sizeof *s->n_decided);
    }
    if (s->p[TS_POS] != 0) return;
    s->n_gathered = 2 * bytes * shape->n_layers <= MOST_GATHERED_BYTES ? shape->n_layers : 1;
    s->gathered_k = sac_take_device(memory, (size_t)(s->n_gathered * bytes));
    s->gathered_v = sac_take_device(memory, (size_t)(s->n_gathered * bytes));
}

void sac_tokenselect_take_steps(void *state, const double *p, const sac_attention_shape *shape,
                                const sac_memory *memory) {
    sac_tokenselect *s = state;
    size_t n_layers = (size_t)shape->n_layers, n_heads = (size_t)shape->n_heads;
    size_t query_bytes = n_layers * n_heads * (size_t)shape->head_dim * sizeof *s->cached_query;
    sac_tokenselect_take(state, p, shape, memory);
    s->n_layers = shape->n_layers;
    s->decides_there = shape->device && p[TS_THETA] > -1 && p[TS_THETA] <= 1 && p[TS_P] <= 0;
    s->cached_query =
        s->decides_there ? sac_take_device(memory, query_bytes) : sac_take_host(memory, query_bytes);
    s->cached = sac_take_device(memory, n_layers * (size_t)s->capacity * sizeof *s->cached);
    s->n_cached = sac_take_host(memory, n_layers * sizeof *s->n_cached);
    s->n_hits = sac_take_host(memory, n_layers * sizeof *s->n_hits);
    s->is_gathered = sac_take_host(memory, n_layers * sizeof *s->is_gathered);
    if (shape->device) take_kept(s, shape, memory);
    sac_tokenselect_take_copy(s, shape, memory);
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

/* ---------------------------------------------------------------- a choice's rows, where a GPU keeps them */

/* The list's keys and values side by side, in one go, unless they are there since a step before, so that only
 * the last ones lack: these are read where they lie. Where the device decides, the host need not know which.
 * UNSUPPORTED where the device has no kernel for it. */
static sac_status gather_rows(sac_tokenselect *s, const sac_layer_attention *a, const int32_t *chosen,
                              int64_t n_chosen, sac_choice *choice) {
    int64_t init = (int64_t)s->p[TS_INIT], local = (int64_t)s->p[TS_LOCAL], n = init + n_chosen + local,
            d = a->shape->head_dim, bytes = layer_bytes(s, a->shape);
    bool has_own = s->n_gathered > 1 || a->shape->n_layers == 1, *is_gathered = &s->is_gathered[a->layer];
    bool keeps = has_own && (s->decides_there || *is_gathered); /* only the last rows will lack */
    if (a->shape->measure_mass || a->kv.dtype != a->shape->dtype) return SAC_UNSUPPORTED;
    sac_kv_view view = {.k = s->gathered_k + (has_own ? a->layer * bytes : 0),
                        .v = s->gathered_v + (has_own ? a->layer * bytes : 0),
                        .dtype = a->kv.dtype,
                        .n_heads = a->shape->n_kv_heads,
                        .head_dim = a->shape->head_dim,
                        .n_rows = n,
                        .row_stride = d,
                        .head_stride = s->capacity * d};
    sac_choice_step_args step = {.q = a->q,
                                 .dst = view,
                                 .src = a->kv,
                                 .chosen = chosen,
                                 .n_chosen = n_chosen,
                                 .init = init,
                                 .local = keeps ? 0 : local,
                                 .n_rows = a->kv.n_rows,
                                 .rotation = a->rotation,
                                 .n_heads = keeps ? 0 : a->shape->n_heads,
                                 .skip = keeps && *is_gathered ? s->skip : NULL};
    bool is_there = keeps && !s->decides_there;
    *is_gathered = false; /* should this fail */
    if (!is_there) SAC_TRY(a->ops->choice_step(a->stream, &step));
    *is_gathered = true;
    choice->kind = SAC_CHOICE_VIEW;
    choice->view = (sac_choice_view){.kv = view, .n_near = keeps ? local : 0};
    return SAC_OK;
}

/* ---------------------------------------------------------------- the Selection Cache */

static bool is_like_cached(const sac_tokenselect *s, const sac_layer_attention *a) {
    const float *cached = s->cached_query + a->layer * a->q.cols, *query = s->query.host;
    double dot = 0, own = 0, theirs = 0;
    if (s->n_cached[a->layer] < 0 || s->p[TS_THETA] > 1) return false;
    if (s->p[TS_MAX_HITS] > 0 && s->n_hits[a->layer] >= (int64_t)s->p[TS_MAX_HITS]) return false;
    if (s->p[TS_THETA] <= -1) return true; /* whatever rounding says */
    for (int64_t c = 0; c < a->q.cols; c++) {
        dot += (double)query[c] * (double)cached[c];
        own += (double)query[c] * (double)query[c];
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
        SAC_TRY(sac_fetch(a, s->query, (size_t)a->q.cols * sizeof(float)));
    if (sure || is_like_cached(s, a)) {
        s->n_hits[a->layer]++;
        a->stats->n_cache_hits++;
        return SAC_OK;
    }
    SAC_TRY(sac_tokenselect_choose(s, a, n_candidates(s, a), cached, &s->n_cached[a->layer]));
    memcpy(s->cached_query + a->layer * a->q.cols, s->query.host, (size_t)a->q.cols * sizeof(float));
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
                                 &(sac_choice_reuse_args){.q = s->query.device,
                                                          .cached = s->cached_query + a->layer * a->q.cols,
                                                          .n = a->q.cols,
                                                          .theta = s->p[TS_THETA],
                                                          .empty = empty,
                                                          .max_hits = (int64_t)s->p[TS_MAX_HITS],
                                                          .hits = (int64_t *)s->hits.device + 2 * a->layer,
                                                          .skip = s->skip}));
    s->n_decided[a->layer]++;
    s->is_ahead = true;
    return sac_tokenselect_choose(s, a, n_candidates(s, a), cached, n_cached);
}

sac_status sac_tokenselect_select(void *state, const sac_layer_attention *a, sac_choice *choice) {
    sac_tokenselect *s = state;
    int32_t *cached = s->cached + a->layer * s->capacity;
    if (a->kv.n_rows <= sac_tokenselect_dense_up_to(s->p)) return SAC_OK; /* all */
    SAC_TRY(s->decides_there ? decide_there(s, a, cached) : decide(s, a, cached));
    int64_t n_chosen = s->n_cached[a->layer];
    if (s->n_gathered > 0 && !choice->wants_rows) {
        sac_status st = gather_rows(s, a, cached, n_chosen, choice);
        if (st != SAC_UNSUPPORTED) return st;
    }
    return sac_tokenselect_list(s, a, cached, n_chosen, choice);
}

sac_status sac_tokenselect_counted(void *state, const sac_attention_shape *shape, const sac_stream *stream,
                                   sac_layer_stats *stats) {
    sac_tokenselect *s = state;
    if (!s->is_ahead) return SAC_OK;
    const int64_t *hits = s->hits.host;
    SAC_TRY(sac_buffer_fetch(shape->device, stream, s->hits, 2 * (size_t)s->n_layers * sizeof *hits));
    for (int i = 0; i < s->n_layers; i++) {
        int64_t n_hits = hits[2 * i + 1] - s->known_hits[i];
        stats[i].n_cache_hits += n_hits;
        stats[i].n_selections += s->n_decided[i] - n_hits;
        s->known_hits[i] += n_hits;
        s->n_decided[i] = 0;
    }
    s->is_ahead = false;
    return SAC_OK;
}
