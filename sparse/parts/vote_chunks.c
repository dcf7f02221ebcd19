#include "vote_chunks.h"

#include "attend.h"
#include "gathered.h"

#include <assert.h>
#include <string.h>

#define MOST_SCORE_BYTES ((int64_t)512 << 20) /* however long the context */

static int64_t list_length(const sac_vote_chunks *s) {
    return s->init + s->k + s->local;
}
static int64_t most_chunks(const sac_vote_chunks *s, const sac_attention_shape *shape) {
    return shape->n_ctx / s->chunk + 1;
}

static int64_t how_many(const sac_vote_chunks *s, const sac_attention_shape *shape) {
    int64_t n = MOST_SCORE_BYTES / (shape->n_heads * s->stride * (int64_t)sizeof(float)),
            most = sac_ops_traits_of(shape->device)->chunks_at_once;
    if (n > most) n = most;
    if (n > most_chunks(s, shape)) n = most_chunks(s, shape);
    return list_length(s) < shape->n_ctx && n >= 2 ? n : 0;
}

void sac_vote_chunks_take(sac_vote_chunks *s, const sac_attention_shape *shape, const sac_memory *memory) {
    size_t n_heads = (size_t)shape->n_heads, n_ctx = (size_t)shape->n_ctx;
    size_t row_bytes = sac_dtype_row_bytes(shape->dtype, shape->head_dim) * (size_t)shape->n_kv_heads;
    s->stride = (shape->n_ctx + 3) / 4 * 4;
    s->n_at_once = how_many(s, shape);
    if (s->n_at_once == 0) return;
    size_t n = (size_t)s->n_at_once, stride = (size_t)s->stride, listed = n * (size_t)list_length(s);
    s->scores = sac_take_device(memory, n * n_heads * stride * sizeof *s->scores);
    s->votes = sac_take_device(memory, n * stride * sizeof *s->votes);
    s->lse = sac_take_device(memory, n * n_heads * sizeof *s->lse);
    s->query = sac_take_device(memory, n * n_heads * (size_t)shape->head_dim * sizeof *s->query);
    s->chosen = sac_take_device(memory, n * (size_t)s->k * sizeof *s->chosen);
    s->rows = sac_take_device(memory, listed * sizeof *s->rows);
    s->keys = sac_take_device(memory, listed * row_bytes);
    s->values = sac_take_device(memory, listed * row_bytes);
    if (!s->reads_true) s->turn_keys = sac_take_device(memory, listed * sizeof *s->turn_keys);
    if (!s->votes_true) {
        s->unturned = sac_take_device(memory, n_ctx * row_bytes);
        s->all_rows = sac_take_device(memory, n_ctx * sizeof *s->all_rows);
    }
    if (!s->reads_true || !s->votes_true)
        s->turns = sac_take_both(memory, (n_ctx + (size_t)most_chunks(s, shape)) * sizeof(int32_t));
    s->starts = sac_take_both(memory, (n + 2) * 2 * sizeof(int64_t));
}

int64_t sac_vote_chunks_fit(const sac_vote_chunks *s, const sac_layer_attention *a, int64_t first,
                            int64_t end) {
    if (s->n_at_once < 2 || first >= end || (!s->votes_true && a->position[first] < s->local)) return 0;
    if (s->reads_true && a->window) return 0; /* which is counted in positions, and a list's are gone once it is gathered */
    if (a->past + first + s->chunk <= list_length(s) || a->kv.dtype != a->shape->dtype) return 0;
    return (end - first) / s->chunk;
}

/* Where the lists begin. The same for all layers, so mostly it is there already. */
static sac_status send_starts(sac_vote_chunks *s, const sac_layer_attention *a) {
    int64_t *starts = s->starts.host, *all_rows = starts + 2 * (s->n_at_once + 1);
    if (all_rows[1] == a->kv.n_rows) return SAC_OK;
    for (int64_t i = 0; i <= s->n_at_once; i++) {
        starts[2 * i] = 0;
        starts[2 * i + 1] = i * list_length(s);
    }
    all_rows[0] = 0;
    all_rows[1] = a->kv.n_rows;
    return sac_send(a, s->starts, (size_t)(s->n_at_once + 2) * 2 * sizeof *starts);
}

/* What queries are turned back by: each from its position to its place at the end of its list, and each mean
 * to position `local`. The same in every layer as well. */
static sac_status send_turns(sac_vote_chunks *s, const sac_layer_attention *a, int64_t first, int64_t n) {
    int64_t n_queries = n * s->chunk;
    int32_t *turns = s->turns.host;
    bool same = s->n_turns == n_queries;
    if (s->reads_true && s->votes_true) return SAC_OK;
    for (int64_t i = 0; i < n_queries; i++) {
        int64_t place = list_length(s) - s->chunk + i % s->chunk;
        int32_t turn = a->position[first + i] - (int32_t)place;
        same = same && turns[i] == turn;
        turns[i] = turn;
    }
    if (same) return SAC_OK;
    for (int64_t i = 0; i < n; i++)
        turns[n_queries + i] = a->position[first + i * s->chunk] - (int32_t)s->local;
    s->n_turns = n_queries;
    return sac_send(a, s->turns, (size_t)(n_queries + n) * sizeof *turns);
}

/* Keys and values of n rows side by side, a head's after the other's. */
static sac_kv_view side_by_side(const sac_layer_attention *a, void *k, void *v, int64_t n) {
    int64_t d = a->shape->head_dim;
    return (sac_kv_view){.k = k,
                         .v = v,
                         .dtype = a->kv.dtype,
                         .n_heads = a->shape->n_kv_heads,
                         .head_dim = (int)d,
                         .n_rows = n,
                         .row_stride = d,
                         .head_stride = n * d};
}

/* The layer's keys that are voted on: as they were before rope, or as they are. */
static sac_status voted_keys(sac_vote_chunks *s, const sac_layer_attention *a, sac_kv_view *keys) {
    *keys = a->kv;
    if (s->votes_true) return SAC_OK;
    *keys = side_by_side(a, s->unturned, s->unturned, a->kv.n_rows);
    SAC_TRY(a->ops->choice_rows(
        a->stream,
        &(sac_choice_rows_args){.rows = s->all_rows, .init = a->kv.n_rows, .n_rows = a->kv.n_rows}));
    const int64_t *all = (int64_t *)s->starts.device + 2 * (s->n_at_once + 1);
    return a->ops->kv_gather(a->stream, &(sac_kv_gather_args){.dst = *keys,
                                                              .src = a->kv,
                                                              .lists = &(sac_row_lists){s->all_rows, all, 1},
                                                              .turn_back = s->all_rows,
                                                              .rotation = &a->rotation,
                                                              .keys_only = true});
}

/* The mean queries of the part's n chunks against all keys but the first and each chunk's last: scores, vote,
 * lists. */
static sac_status choose(sac_vote_chunks *s, const sac_layer_attention *part, int64_t n,
                         const int32_t *turn_means, sac_kv_view keys) {
    const sac_ops *ops = part->ops;
    const sac_stream *stream = part->stream;
    int n_heads = part->shape->n_heads;
    int64_t n_rows = part->past + s->chunk, n_first = n_rows - s->init - s->local,
            n_last = n_first + (n - 1) * s->chunk;
    assert(n <= s->n_at_once && n_first >= s->k && n_last <= s->stride);
    SAC_TRY(ops->mean_rows(stream,
                           &(sac_mean_rows_args){s->query, part->q, 1.0f / (float)s->chunk, .n_groups = n}));
    if (!s->votes_true) SAC_TRY(sac_turn_queries(part, sac_mat_f32(s->query, n, part->q.cols), turn_means));
    SAC_TRY(ops->key_scores(stream, &(sac_key_scores_args){.scores = s->scores,
                                                           .stride = s->stride,
                                                           .q = s->query,
                                                           .kv = keys,
                                                           .n_heads = n_heads,
                                                           .first = s->init,
                                                           .n = n_first,
                                                           .scale = s->rsqrt_d ? part->scale : 1.0f,
                                                           .n_queries = (int)n,
                                                           .n_more = s->chunk,
                                                           .lse = s->lse}));
    SAC_TRY(ops->soft_vote(stream, &(sac_soft_vote_args){.scores = s->scores,
                                                         .stride = s->stride,
                                                         .n = n_last,
                                                         .n_rows = n_heads,
                                                         .lse = s->lse,
                                                         .votes = s->votes,
                                                         .n_groups = (int)n}));
    SAC_TRY(ops->top_k(stream, &(sac_top_k_args){.scores = s->votes,
                                                 .stride = s->stride,
                                                 .n = n_last,
                                                 .n_rows = (int)n,
                                                 .k = s->k,
                                                 .indices = s->chosen}));
    return ops->choice_rows(stream, &(sac_choice_rows_args){.rows = s->rows,
                                                            .turn_back = s->turn_keys,
                                                            .chosen = s->chosen,
                                                            .n_chosen = s->k,
                                                            .init = s->init,
                                                            .local = s->local,
                                                            .n_rows = n_rows,
                                                            .n_lists = n,
                                                            .n_more = s->chunk});
}

/* Each chunk over its list, whose last rows are its own. Unless keys keep their positions it is as if that list were all
 * there ever was. */
static sac_status attend(sac_vote_chunks *s, const sac_layer_attention *part, int64_t n,
                         const int32_t *turn_queries) {
    int64_t length = list_length(s);
    sac_kv_view lists = side_by_side(part, s->keys, s->values, n * length);
    const sac_row_lists rows = {s->rows, (int64_t *)s->starts.device + 2 * n, 1};
    SAC_TRY(part->ops->kv_gather(part->stream, &(sac_kv_gather_args){.dst = lists,
                                                                     .src = part->kv,
                                                                     .lists = &rows,
                                                                     .turn_back = s->turn_keys,
                                                                     .rotation = &part->rotation}));
    if (!s->reads_true) SAC_TRY(sac_turn_queries(part, part->q, turn_queries));
    return part->ops->attention(part->stream, &(sac_attention_args){.o = part->q,
                                                                    .q = part->q,
                                                                    .kv = lists,
                                                                    .n_q = s->chunk,
                                                                    .n_kv = length,
                                                                    .first = length - s->chunk,
                                                                    .n_batch = n,
                                                                    .batch_rows = s->chunk,
                                                                    .kv_batch_rows = length,
                                                                    .n_heads = part->shape->n_heads,
                                                                    .scale = part->scale,
                                                                    .causal = true,
                                                                    .window = part->window});
}

sac_status sac_vote_chunks_attend(sac_vote_chunks *s, const sac_layer_attention *a, int64_t first,
                                  int64_t n) {
    sac_kv_view keys;
    double q = (double)s->chunk, read = (double)list_length(s);
    const int32_t *turns = s->turns.device; /* NULL where nothing is turned */
    SAC_TRY(send_starts(s, a));
    SAC_TRY(send_turns(s, a, first, n));
    SAC_TRY(voted_keys(s, a, &keys));
    for (int64_t i = 0, m; i < n; i += m) {
        m = n - i < s->n_at_once ? n - i : s->n_at_once;
        sac_layer_attention part = sac_prompt_chunk(a, first + i * s->chunk, m * s->chunk);
        SAC_TRY(choose(s, &part, m, turns ? turns + n * s->chunk + i : NULL, keys));
        SAC_TRY(attend(s, &part, m, turns ? turns + i * s->chunk : NULL));
    }
    for (int64_t i = 0; i < n; i++)
        sac_count_prefill(a, q * read / (double)(a->past + first + (i + 1) * s->chunk),
                          (q * (read - q) + q * (q + 1) / 2) * a->shape->n_heads);
    a->stats->n_selections += n;
    return SAC_OK;
}
