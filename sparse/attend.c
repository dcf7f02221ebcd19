/* What every method shares: dense attention, attention over chosen rows, and the counting of both. */
#include "sparse.h"

#include "clock.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static sac_attention_args causal_args(const sac_layer_attention *a, sac_mat q, int64_t first) {
    return (sac_attention_args){.o = q,
                                .q = q,
                                .kv = a->kv,
                                .n_q = q.rows,
                                .n_kv = first + q.rows,
                                .first = first,
                                .n_batch = 1,
                                .n_heads = a->shape->n_heads,
                                .scale = a->scale,
                                .causal = true,
                                .window = a->shape->window};
}

sac_status sac_attend_dense(const sac_layer_attention *a, int64_t first, int64_t n) {
    sac_attention_args args = causal_args(a, sac_mat_rows(a->q, first, n), a->past + first);
    return a->ops->attention(a->stream, &args);
}

sac_attention_args sac_dense_step(const sac_layer_attention *a) {
    sac_count_step(a, (double)a->kv.n_rows);
    return causal_args(a, a->q, a->past);
}

sac_layer_attention sac_prompt_chunk(const sac_layer_attention *a, int64_t first, int64_t n) {
    sac_layer_attention chunk = *a;
    chunk.q = sac_mat_rows(a->q, first, n);
    chunk.past = a->past + first;
    chunk.position = a->position + first;
    chunk.kv.n_rows = chunk.past + n;
    chunk.n_unread = a->n_unread < first ? 0 : a->n_unread - first < n ? a->n_unread - first : n;
    return chunk;
}

/* Pairs of causal attention of n queries over what came before and themselves. */
static double causal_pairs(const sac_layer_attention *a, int64_t n_before, int64_t n_queries) {
    double n = (double)n_queries;
    return (n * (n + 1) / 2 + n * (double)n_before) * a->shape->n_heads;
}

void sac_count_prefill(const sac_layer_attention *a, double n_kept, double n_pairs) {
    a->stats->prefill_kept += n_kept;
    a->stats->prefill_pairs += n_pairs;
}

sac_status sac_attend_prompt_dense(const sac_layer_attention *a) {
    if (a->make_queries.fn) SAC_TRY(a->make_queries.fn(a->make_queries.ctx, a->q, NULL));
    sac_count_prefill(a, (double)a->q.rows, causal_pairs(a, a->past, a->q.rows));
    if (a->past + a->q.rows == a->n_seen) sac_count_prefill_mass(a, 1);
    return a->n_unread < a->q.rows ? sac_attend_dense(a, a->n_unread, a->q.rows - a->n_unread) : SAC_OK;
}

/* ---------------------------------------------------------------- a choice of rows */

static void take_gathered(sac_choice_scratch *s, const sac_attention_shape *shape, int64_t capacity,
                          sac_arena *arena) {
    size_t row = (size_t)shape->n_kv_heads * (size_t)shape->head_dim * sizeof(float);
    s->k = sac_arena_take(arena, (size_t)capacity * row);
    s->v = sac_arena_take(arena, (size_t)capacity * row);
}

void sac_choice_scratch_take(sac_choice_scratch *s, const sac_attention_shape *shape, int64_t capacity,
                             sac_arena *arena) {
    s->capacity = capacity;
    if (!shape->device) take_gathered(s, shape, capacity, arena);
    s->turn_back = sac_arena_take(arena, (size_t)capacity * sizeof *s->turn_back);
}

void sac_choice_scratch_take_device(sac_choice_scratch *s, const sac_attention_shape *shape, int64_t capacity,
                                    sac_arena *arena) {
    take_gathered(s, shape, capacity, arena);
    s->device_turn = sac_arena_take(arena, (size_t)capacity * sizeof *s->device_turn);
    s->device_turn_keys = sac_arena_take(arena, (size_t)capacity * sizeof *s->device_turn_keys);
    s->device_start = sac_arena_take(arena, 2 * sizeof *s->device_start); /* [0] stays 0 */
    s->sent = -1;
}

sac_status sac_to_device(const sac_layer_attention *a, void *device, const void *host, size_t n_bytes) {
    if (!a->shape->device || device == host) return SAC_OK;
    return a->shape->device->upload(a->stream, device, host, n_bytes);
}

sac_status sac_to_host(const sac_layer_attention *a, void *host, const void *device, size_t n_bytes) {
    if (!a->shape->device || device == host) return SAC_OK;
    SAC_TRY(a->shape->device->download(a->stream, host, device, n_bytes));
    return a->shape->device->stream_sync(a->stream, NULL);
}

/* The list's keys and values side by side, keys turned back by scratch->turn_back. */
static sac_status gather_turned(const sac_layer_attention *a, const sac_row_lists *list,
                                const sac_choice_scratch *s, sac_kv_view *dense) {
    int64_t n = list->start[1] - list->start[0], d = a->shape->head_dim;
    assert(list->n_lists == 1 && n <= s->capacity && a->shape->fixed_rotation);
    *dense = (sac_kv_view){.k = s->k,
                           .v = s->v,
                           .dtype = SAC_DTYPE_F32,
                           .n_heads = a->shape->n_kv_heads,
                           .head_dim = (int)d,
                           .n_rows = n,
                           .row_stride = d,
                           .head_stride = n * d};
    return a->ops->kv_gather(
        a->stream,
        &(sac_kv_gather_args){
            .dst = *dense, .src = a->kv, .lists = list, .turn_back = s->turn_back, .rotation = &a->rotation});
}

static sac_status turn_queries(const sac_layer_attention *a, sac_mat q, const int32_t *turn_back) {
    return a->ops->rope(a->stream, &(sac_rope_args){.x = q,
                                                    .n_heads = a->shape->n_heads,
                                                    .head_dim = a->shape->head_dim,
                                                    .rotation = a->rotation,
                                                    .pos = turn_back,
                                                    .back = true});
}

/* The same where the list, and what its keys are turned back by, are on the device: to s->view; and the
 * queries turned. */
static sac_status gather_on_device(const sac_layer_attention *a, sac_mat q, const int32_t *position,
                                   const sac_row_lists *list, sac_choice_scratch *s) {
    const int64_t start[2] = {0, list->start[1] - list->start[0]}, d = a->shape->head_dim;
    if (s->sent != start[1]) SAC_TRY(sac_to_device(a, s->device_start, start, sizeof start));
    s->sent = start[1];
    s->view = (sac_kv_view){.k = s->k,
                            .v = s->v,
                            .dtype = a->kv.dtype,
                            .n_heads = a->shape->n_kv_heads,
                            .head_dim = (int)d,
                            .n_rows = start[1],
                            .row_stride = d,
                            .head_stride = start[1] * d};
    SAC_TRY(a->ops->kv_gather(a->stream,
                              &(sac_kv_gather_args){.dst = s->view,
                                                    .src = a->kv,
                                                    .lists = &(sac_row_lists){list->rows, s->device_start, 1},
                                                    .turn_back = s->device_turn_keys,
                                                    .rotation = &a->rotation}));
    bool same = s->n_turn_sent == q.rows; /* as in the layer before */
    for (int64_t i = 0; i < q.rows; i++) {
        int32_t turn = position[i] - (int32_t)(start[1] - q.rows + i);
        same = same && s->turn_back[i] == turn;
        s->turn_back[i] = turn;
    }
    s->n_turn_sent = 0; /* until it is there */
    if (!same) SAC_TRY(sac_to_device(a, s->device_turn, s->turn_back, (size_t)q.rows * sizeof(int32_t)));
    s->n_turn_sent = q.rows;
    return turn_queries(a, q, s->device_turn);
}

sac_status sac_gather_choice(const sac_layer_attention *a, sac_choice *choice) {
    if (choice->gathered) return SAC_OK;
    choice->gathered = &choice->scratch->view;
    return gather_on_device(a, a->q, a->position, &choice->lists, choice->scratch);
}

static sac_status attend_compact_on_device(const sac_layer_attention *a, sac_mat q, const int32_t *position,
                                           const sac_row_lists *list, sac_choice_scratch *s) {
    SAC_TRY(gather_on_device(a, q, position, list, s));
    sac_attention_args args = causal_args(a, q, s->view.n_rows - q.rows);
    args.kv = s->view;
    return a->ops->attention(a->stream, &args);
}

/* Keys and queries are turned back by the difference of positions, and the rest is dense. */
sac_status sac_attend_compact(const sac_layer_attention *a, sac_mat q, const int32_t *position,
                              const sac_row_lists *list, sac_choice_scratch *s) {
    int64_t n = list->start[1] - list->start[0];
    const int32_t *rows = list->rows + list->start[0];
    sac_kv_view dense;
    assert(n >= q.rows);
    if (a->shape->device) return attend_compact_on_device(a, q, position, list, s);
    for (int64_t i = 0; i < n; i++) s->turn_back[i] = rows[i] - (int32_t)i;
    SAC_TRY(gather_turned(a, list, s, &dense));
    for (int64_t i = 0; i < q.rows; i++) s->turn_back[i] = position[i] - (int32_t)(n - q.rows + i);
    SAC_TRY(turn_queries(a, q, s->turn_back));
    sac_attention_args args = causal_args(a, q, n - q.rows);
    args.kv = dense;
    return a->ops->attention(a->stream, &args);
}

/* A step over a part of a compact list. */
static sac_status attend_part_of_compact(const sac_layer_attention *a, const sac_choice *choice) {
    const int32_t *rows = choice->lists.rows + choice->lists.start[0];
    int64_t n = choice->lists.start[1] - choice->lists.start[0];
    sac_choice_scratch *s = choice->scratch;
    sac_kv_view dense;
    for (int64_t i = 0; i < n; i++) s->turn_back[i] = rows[i] - choice->place[i];
    SAC_TRY(gather_turned(a, &choice->lists, s, &dense));
    s->turn_back[0] = a->position[0] - (int32_t)choice->query_place;
    SAC_TRY(turn_queries(a, a->q, s->turn_back));
    return a->ops->attention(a->stream, &(sac_attention_args){.o = a->q,
                                                              .q = a->q,
                                                              .kv = dense,
                                                              .lists = &choice->within,
                                                              .n_q = 1,
                                                              .n_batch = 1,
                                                              .n_heads = a->shape->n_heads,
                                                              .scale = a->scale});
}

static int64_t longest(const sac_row_lists *l) {
    int64_t n = 0;
    for (int i = 0; i < l->n_lists; i++)
        if (l->start[i + 1] - l->start[i] > n) n = l->start[i + 1] - l->start[i];
    return n;
}

/* A step over lists that only the device knows: of rows or, where rows were gathered, of places. */
static sac_status attend_there(const sac_layer_attention *a, const sac_choice *choice) {
    const sac_row_lists lists = {choice->lists.rows, choice->device_start, choice->lists.n_lists};
    sac_attention_args args = causal_args(a, a->q, a->past);
    if (choice->gathered) {
        args.kv = *choice->gathered;
        args.causal = false; /* places have no window, and all come before the query */
        args.window = 0;
    }
    args.lists = &lists;
    args.n_kv = args.kv.n_rows;
    args.uneven = true;
    return a->ops->attention(a->stream, &args);
}

/* Rows that lie side by side since a step before, and the last ones of the sequence. */
static sac_status attend_kept(const sac_layer_attention *a, const sac_choice *choice) {
    const sac_choice_step_args *rest = choice->rest;
    if (a->shape->window) return SAC_UNSUPPORTED;
    return a->ops->choice_attend(a->stream, &(sac_choice_attend_args){.q = a->q,
                                                                      .far = *choice->gathered,
                                                                      .src = a->kv,
                                                                      .n_far = rest->init + rest->n_chosen,
                                                                      .local = rest->local,
                                                                      .n_rows = rest->n_rows,
                                                                      .rotation = a->rotation,
                                                                      .n_heads = a->shape->n_heads,
                                                                      .scale = a->scale});
}

sac_status sac_attend_choice(const sac_layer_attention *a, const sac_choice *choice) {
    if (choice->all) return sac_attend_dense(a, 0, a->q.rows);
    if (choice->counted_there) return attend_there(a, choice);
    if (choice->rest) {
        sac_status st = attend_kept(a, choice);
        if (st != SAC_UNSUPPORTED) return st;
        SAC_TRY(a->ops->choice_step(a->stream, choice->rest));
    }
    if (choice->gathered) {
        sac_attention_args args = causal_args(a, a->q, choice->gathered->n_rows - 1);
        args.kv = *choice->gathered;
        return a->ops->attention(a->stream, &args);
    }
    if (choice->place) return attend_part_of_compact(a, choice);
    if (choice->compact) return sac_attend_compact(a, a->q, a->position, &choice->lists, choice->scratch);
    sac_attention_args args = causal_args(a, a->q, a->past);
    sac_row_lists lists = choice->lists;
    args.lists = &lists;
    args.n_kv = longest(&lists);
    if (a->shape->device) lists.start = choice->device_start;
    return a->ops->attention(a->stream, &args);
}

/* ---------------------------------------------------------------- counting */

static void count_dense(const sac_layer_attention *a) {
    a->stats->n_steps += 1;
    a->stats->decode_rows_dense += (double)a->n_seen * a->shape->n_kv_heads; /* dropped ones too */
}

void sac_count_step(const sac_layer_attention *a, double n_rows) {
    count_dense(a);
    a->stats->decode_rows += n_rows * a->shape->n_kv_heads;
    a->stats->decode_budget += n_rows * a->shape->n_heads;
}

static void count_step(const sac_layer_attention *a, const sac_choice *choice) {
    const sac_row_lists *l = &choice->lists; /* of query heads: the mean of a group */
    if (choice->counted_there) {
        count_dense(a);
        return;
    }
    double n_rows =
        choice->all ? (double)a->kv.n_rows : (double)(l->start[l->n_lists] - l->start[0]) / l->n_lists;
    sac_count_step(a, n_rows);
    if (choice->n_chosen > 0) a->stats->decode_budget += choice->n_chosen - n_rows * a->shape->n_heads;
}

sac_status sac_decode_attend(sac_decode *m, const sac_layer_attention *a, float *mass_scratch) {
    int64_t start = sac_now_ns();
    if (m->policy->attend) {
        SAC_TRY(m->policy->attend(m->state, a));
        a->stats->attend_ns += sac_now_ns() - start;
        return SAC_OK;
    }
    sac_choice choice = {0};
    SAC_TRY(m->policy->select(m->state, a, &choice));
    count_step(a, &choice);
    int64_t selected = sac_now_ns();
    a->stats->select_ns += selected - start;
    if (a->shape->measure_mass) SAC_TRY(sac_measure_mass(a, &choice, mass_scratch));
    selected = sac_now_ns();
    SAC_TRY(sac_attend_choice(a, &choice));
    a->stats->attend_ns += sac_now_ns() - selected;
    return SAC_OK;
}

bool sac_prefill_is_short(const sac_prefill *m, int64_t n_seen) {
    return m->policy->break_even && n_seen < m->policy->break_even(m->p);
}

sac_status sac_prefill_attend(sac_prefill *m, const sac_layer_attention *a) {
    int64_t n_new =
        a->n_seen - a->n_before; /* more than the queries when an earlier layer has dropped some */
    a->stats->prefill_tokens += (double)n_new;
    a->stats->prefill_pairs_dense += causal_pairs(a, a->n_before, n_new);
    m->is_short = sac_prefill_is_short(m, a->n_seen);
    int64_t start = sac_now_ns();
    SAC_TRY(m->is_short ? sac_attend_prompt_dense(a) : m->policy->attend(m->state, a));
    a->stats->attend_ns += sac_now_ns() - start; /* methods move their share to select_ns */
    return SAC_OK;
}

sac_important sac_prefill_important(const sac_prefill *m) {
    if (m->is_short || !m->policy->important) return (sac_important){0};
    return m->policy->important(m->state);
}

uint32_t sac_random_u32(uint64_t seed, uint64_t stream, uint64_t i) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + stream * 0xd1342543de82ef95u + i;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u; /* Stafford's mix 13 of splitmix64, twice */
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((x ^ (x >> 31)) >> 32);
}
