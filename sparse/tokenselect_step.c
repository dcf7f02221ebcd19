/* tokenselect_step.c - TokenSelect in steps: the Selection Cache (arXiv:2411.02886, Algorithm 1), and the rows
 * of a choice side by side, where a step that reuses it finds them.
 *
 * Ops compare queries and skip what a new choice takes where the old one stays, so the host asks for all of it
 * and need not wait. Only where p decides how many are chosen it must know. */
#include "tokenselect.h"

#include "attend.h"

#include <string.h>

#define MOST_GATHERED_BYTES ((int64_t)1 << 30)

static int64_t layer_bytes(const sac_tokenselect *s, const sac_attention_shape *shape) {
    return s->capacity * shape->n_kv_heads * (int64_t)sac_dtype_row_bytes(shape->dtype, shape->head_dim);
}

/* No query is like another, so that a choice never stays. */
static bool stays_never(const sac_tokenselect *s) {
    return s->p[TS_THETA] > 1;
}

static void take_gathered(sac_tokenselect *s, const sac_attention_shape *shape, const sac_memory *memory) {
    int64_t bytes = layer_bytes(s, shape);
    bool each = !stays_never(s) && 2 * bytes * shape->n_layers <= MOST_GATHERED_BYTES;
    s->n_gathered = each ? shape->n_layers : 1;
    s->gathered_k = sac_take_device(memory, (size_t)(s->n_gathered * bytes));
    s->gathered_v = sac_take_device(memory, (size_t)(s->n_gathered * bytes));
    s->is_gathered = sac_take_host(memory, (size_t)shape->n_layers * sizeof *s->is_gathered);
}

void sac_tokenselect_take_steps(void *state, const double *p, const sac_attention_shape *shape,
                                const sac_memory *memory) {
    sac_tokenselect *s = state;
    size_t n_layers = (size_t)shape->n_layers, query = (size_t)(shape->n_heads * shape->head_dim);
    double of_step[sizeof s->p / sizeof *s->p];
    memcpy(of_step, p, sizeof of_step);
    of_step[TS_MEANS] = 1; /* a step has one query */
    sac_tokenselect_take(state, of_step, shape, memory);
    s->n_layers = shape->n_layers;
    s->cached_query = sac_take_device(memory, n_layers * query * sizeof *s->cached_query);
    s->cached = sac_take_device(memory, n_layers * (size_t)s->capacity * sizeof *s->cached);
    s->n_cached = sac_take_host(memory, n_layers * sizeof *s->n_cached);
    s->cached_at = sac_take_host(memory, n_layers * sizeof *s->cached_at);
    s->skip = sac_take_both(memory, sizeof(int32_t));
    s->hits = sac_take_both(memory, 2 * n_layers * sizeof(int64_t));
    s->known_hits = sac_take_host(memory, n_layers * sizeof *s->known_hits);
    s->n_decided = sac_take_host(memory, n_layers * sizeof *s->n_decided);
    if (p[TS_POS] == 0) take_gathered(s, shape, memory);
    sac_tokenselect_take_copy(s, shape, memory);
}

void sac_tokenselect_begin(void *state) {
    sac_tokenselect *s = state;
    for (int i = 0; i < s->n_layers; i++) s->n_cached[i] = -1;
    sac_tokenselect_cut(s, 0, false);
}

/* The next step has n + 1 rows at least. A choice among more would have rows that are gone, or among the last ones, which are
 * read anyway; one among as many was made by the query of the token behind the first n. Counted hits are of tokens that may be gone. */
static void drop_choices(sac_tokenselect *s, int64_t n, bool own_stays) {
    const int64_t most = own_stays && s->p[TS_MAX_HITS] <= 0 ? n + 1 : n;
    for (int i = 0; i < s->n_layers; i++)
        if (s->cached_at[i] > most) s->n_cached[i] = -1;
}

void sac_tokenselect_cut(void *state, int64_t n, bool own_stays) {
    sac_tokenselect *s = state;
    drop_choices(s, n, own_stays);
    for (int i = 0; s->copy && i < s->n_layers; i++)
        if (s->copy[i].n > n) s->copy[i].n = n;
}

/* A new prompt asks new questions. */
sac_status sac_tokenselect_forget(void *state, const sac_layer_attention *a) {
    sac_tokenselect *s = state;
    s->n_cached[a->layer] = -1;
    return sac_tokenselect_pack(s, a, a->kv.n_rows);
}

/* ---------------------------------------------------------------- a choice's rows, side by side */

/* The list's keys and values in one go, unless they are there since a step before, so that only the last ones
 * lack: these are read where they lie. Ops decide which it is unless the choice is known to stay. UNSUPPORTED
 * where they have no kernel for it. */
static sac_status gather_rows(sac_tokenselect *s, const sac_layer_attention *a, bool stays,
                              const int32_t *chosen, int64_t n_chosen, sac_choice *choice) {
    int64_t init = (int64_t)s->p[TS_INIT], local = (int64_t)s->p[TS_LOCAL], n = init + n_chosen + local,
            d = a->shape->head_dim, bytes = layer_bytes(s, a->shape);
    bool keeps = !stays_never(s) && s->n_gathered == a->shape->n_layers,
         *is_gathered = &s->is_gathered[a->layer];
    if (a->shape->measure_mass) return SAC_UNSUPPORTED;
    sac_kv_view view = {.k = s->gathered_k + (keeps ? a->layer * bytes : 0),
                        .v = s->gathered_v + (keeps ? a->layer * bytes : 0),
                        .dtype = a->shape->dtype,
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
                                 .skip = keeps && *is_gathered ? s->skip.device : NULL};
    if (!(keeps && *is_gathered && stays)) {
        *is_gathered = false; /* should this fail */
        SAC_TRY(a->ops->choice_step(a->stream, &step));
        *is_gathered = true;
    }
    choice->kind = SAC_CHOICE_VIEW;
    choice->view = (sac_choice_view){.kv = view, .n_near = keeps ? local : 0};
    return SAC_OK;
}

/* ---------------------------------------------------------------- the Selection Cache */

static int64_t n_candidates(const sac_tokenselect *s, const sac_layer_attention *a) {
    return a->kv.n_rows - (int64_t)(s->p[TS_INIT] + s->p[TS_LOCAL]);
}

static sac_status compare_queries(sac_tokenselect *s, const sac_layer_attention *a, bool empty) {
    SAC_TRY(sac_tokenselect_query(s, a));
    SAC_TRY(a->ops->choice_reuse(a->stream,
                                 &(sac_choice_reuse_args){.q = s->query.device,
                                                          .cached = s->cached_query + a->layer * a->q.cols,
                                                          .n = a->q.cols,
                                                          .theta = s->p[TS_THETA],
                                                          .empty = empty,
                                                          .max_hits = (int64_t)s->p[TS_MAX_HITS],
                                                          .hits = (int64_t *)s->hits.device + 2 * a->layer,
                                                          .skip = s->skip.device}));
    s->n_decided[a->layer]++;
    s->is_ahead = true;
    return SAC_OK;
}

/* Whether the choice stays, where the host must know. A device is not waited for to learn whether a choice is new. */
static sac_status fetch_stays(sac_tokenselect *s, const sac_layer_attention *a, bool *stays) {
    const bool must = s->p[TS_P] > 0; /* else the ops that choose know it */
    *stays = false;
    if (must) SAC_TRY(sac_fetch(a, s->skip, sizeof(int32_t)));
    const bool known = must || s->skip.host == s->skip.device, same = known && *(const int32_t *)s->skip.host != 0;
    if (!same) s->cached_at[a->layer] = a->kv.n_rows;
    *stays = must && same;
    return SAC_OK;
}

/* Every query is like every other, so that a choice stays for good: no op is asked. */
static bool stays_always(const sac_tokenselect *s) {
    return s->p[TS_THETA] <= -1 && s->p[TS_MAX_HITS] <= 0;
}

/* The layer's choice is the one of now, or stays, which the host need not know: then stays is false. */
static sac_status decide(sac_tokenselect *s, const sac_layer_attention *a, int32_t *cached, bool *stays) {
    int64_t *n_cached = &s->n_cached[a->layer], n_before = *n_cached;
    *stays = n_before >= 0 && stays_always(s);
    if (*stays) {
        a->stats->n_cache_hits++;
        return SAC_OK;
    }
    *n_cached = -1; /* should something fail */
    if (stays_never(s)) {
        SAC_TRY(sac_tokenselect_query(s, a));
        a->stats->n_selections++;
        return sac_tokenselect_choose(s, a, n_candidates(s, a), cached, n_cached);
    }
    SAC_TRY(compare_queries(s, a, n_before < 0));
    SAC_TRY(fetch_stays(s, a, stays));
    if (!*stays) return sac_tokenselect_choose(s, a, n_candidates(s, a), cached, n_cached);
    *n_cached = n_before;
    return SAC_OK;
}

sac_status sac_tokenselect_select(void *state, const sac_layer_attention *a, sac_choice *choice) {
    sac_tokenselect *s = state;
    int32_t *cached = s->cached + a->layer * s->capacity;
    if (a->kv.n_rows <= sac_tokenselect_dense_up_to(s->p)) return SAC_OK; /* all */
    bool stays;
    SAC_TRY(decide(s, a, cached, &stays));
    int64_t n_chosen = s->n_cached[a->layer];
    if (s->n_gathered > 0 && !choice->wants_rows) {
        sac_status st = gather_rows(s, a, stays, cached, n_chosen, choice);
        if (st != SAC_UNSUPPORTED) return st;
    }
    if (s->n_gathered > 0) s->is_gathered[a->layer] = false; /* what lies there may be of a choice before */
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
