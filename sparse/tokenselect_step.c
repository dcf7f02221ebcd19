/* tokenselect_step.c - TokenSelect in steps: the Selection Cache (arXiv:2411.02886, Algorithm 1), and on a
 * device the rows of a choice side by side, where a step that reuses it finds them. */
#include "tokenselect.h"

#include <math.h>
#include <string.h>

#define MOST_GATHERED_BYTES ((int64_t)1 << 30)

void sac_tokenselect_take_steps(void *state, const double *p, const sac_attention_shape *shape,
                                sac_arena *arena) {
    sac_tokenselect *s = state;
    size_t n_layers = (size_t)shape->n_layers;
    sac_tokenselect_take(state, p, shape, arena);
    s->n_layers = shape->n_layers;
    s->cached_query = sac_arena_take(arena, n_layers * (size_t)shape->n_heads * (size_t)shape->head_dim *
                                                sizeof *s->cached_query);
    if (!shape->device) s->cached = sac_arena_take(arena, n_layers * (size_t)s->capacity * sizeof *s->cached);
    s->n_cached = sac_arena_take(arena, n_layers * sizeof *s->n_cached);
    s->n_hits = sac_arena_take(arena, n_layers * sizeof *s->n_hits);
    s->is_gathered = sac_arena_take(arena, n_layers * sizeof *s->is_gathered);
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
}

void sac_tokenselect_begin(void *state) {
    sac_tokenselect *s = state;
    for (int i = 0; i < s->n_layers; i++) s->n_cached[i] = -1;
}

/* A new prompt asks new questions. */
sac_status sac_tokenselect_forget(void *state, const sac_layer_attention *a) {
    ((sac_tokenselect *)state)->n_cached[a->layer] = -1;
    return SAC_OK;
}

/* The list's keys and values side by side, in one go, unless they are already; UNSUPPORTED where the device
 * has no kernel for it. */
static sac_status gather_rows(sac_tokenselect *s, const sac_layer_attention *a, const int32_t *chosen,
                              int64_t n_chosen, sac_choice *choice) {
    int64_t init = (int64_t)s->p[TS_INIT], local = (int64_t)s->p[TS_LOCAL], n = init + n_chosen + local,
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

static bool is_like_cached(const sac_tokenselect *s, const sac_layer_attention *a) {
    const float *cached = s->cached_query + a->layer * a->q.cols;
    double dot = 0, own = 0, theirs = 0;
    if (s->n_cached[a->layer] < 0) return false;
    if (s->p[TS_MAX_HITS] > 0 && s->n_hits[a->layer] >= (int64_t)s->p[TS_MAX_HITS]) return false;
    if (s->p[TS_THETA] <= -1) return true; /* whatever rounding says */
    for (int64_t c = 0; c < a->q.cols; c++) {
        dot += (double)s->query[c] * (double)cached[c];
        own += (double)s->query[c] * (double)s->query[c];
        theirs += (double)cached[c] * (double)cached[c];
    }
    return s->p[TS_THETA] <= 1 && dot >= s->p[TS_THETA] * sqrt(own * theirs);
}

sac_status sac_tokenselect_select(void *state, const sac_layer_attention *a, sac_choice *choice) {
    sac_tokenselect *s = state;
    int64_t n_rows = a->kv.n_rows, *n_cached = &s->n_cached[a->layer];
    int32_t *cached = s->cached + a->layer * s->capacity;
    size_t query_bytes = (size_t)a->q.cols * sizeof(float);
    if (n_rows <= sac_tokenselect_dense_up_to(s->p)) {
        choice->all = true;
        return SAC_OK;
    }
    bool sure = s->p[TS_THETA] <= -1 && is_like_cached(s, a); /* then nobody asks for the query */
    if (!sure) SAC_TRY(sac_tokenselect_query(s, a));
    if (s->p[TS_THETA] > -1 && s->p[TS_THETA] <= 1) /* else nobody looks */
        SAC_TRY(sac_to_host(a, s->query, s->query_there, query_bytes));
    if (sure || is_like_cached(s, a)) {
        s->n_hits[a->layer]++;
        a->stats->n_cache_hits++;
    } else {
        SAC_TRY(sac_tokenselect_choose(s, a, n_rows - (int64_t)(s->p[TS_INIT] + s->p[TS_LOCAL]), cached,
                                       n_cached));
        memcpy(s->cached_query + a->layer * a->q.cols, s->query, query_bytes);
        s->n_hits[a->layer] = 0;
        s->is_gathered[a->layer] = false;
    }
    if (a->shape->device && !choice->wants_rows) {
        sac_status st = gather_rows(s, a, cached, *n_cached, choice);
        if (st != SAC_UNSUPPORTED) return st;
    }
    return sac_tokenselect_list(s, a, cached, *n_cached, choice);
}
