#include "adore_plan.h"

#include <math.h>
#include <string.h>

float sac_adore_rank(const sac_adore_state *s, int64_t token) {
    int64_t n = s->in_step ? s->n_seen + 1 : s->n_seen;
    bool is_safe = token < s->sink || token >= n - s->recent;
    return is_safe ? INFINITY : ((const float *)s->score.host)[token];
}

static sac_status send(const sac_stream *stream, sac_buffer b, int64_t n, size_t element_bytes) {
    return sac_buffer_send(stream->device, stream, b, (size_t)n * element_bytes);
}

sac_status sac_adore_best(sac_adore_state *s, const sac_ops *ops, const sac_stream *stream, int64_t n,
                          int64_t k, sac_buffer best) {
    if (k > n) k = n;
    if (k == 0) return SAC_OK;
    SAC_TRY(send(stream, s->ranks, n, sizeof(float)));
    SAC_TRY(ops->top_k(
        stream,
        &(sac_top_k_args){
            .scores = s->ranks.device, .stride = n, .n = n, .n_rows = 1, .k = k, .indices = best.device}));
    return sac_buffer_fetch(stream->device, stream, best, (size_t)k * sizeof(int32_t));
}

/* The m best of the cached rows stay; only a prompt under sigma=attention leaves more. */
static sac_status choose_stay(sac_adore_state *s, const sac_ops *ops, const sac_stream *stream) {
    float *ranks = s->ranks.host;
    s->n_stay = s->n_cached < s->m ? s->n_cached : s->m;
    for (int64_t row = 0; row < s->n_cached; row++) ranks[row] = sac_adore_rank(s, s->row_token[row]);
    return sac_adore_best(s, ops, stream, s->n_cached, s->m, s->stay);
}

/* The place of the worst of the rows that stay, when the step's token needs one. */
static int64_t find_evicted(const sac_adore_state *s) {
    const int32_t *stay = s->stay.host;
    int64_t worst = -1;
    float least = 0;
    for (int64_t i = 0; i < s->n_stay && s->n_stay == s->m; i++) {
        float rank = sac_adore_rank(s, s->row_token[stay[i]]);
        if (worst >= 0 && rank >= least) continue;
        worst = i;
        least = rank;
    }
    return worst;
}

/* The R best tokens that are not in the cache, ascending, into part_token from n_stay on. */
static sac_status choose_rebuilt(sac_adore_state *s, const sac_ops *ops, const sac_stream *stream) {
    int64_t n_released = s->n_seen - s->n_stay;
    const int32_t *stay = s->stay.host;
    float *ranks = s->ranks.host;
    s->n_rebuilt = n_released < s->r ? n_released : s->r;
    memcpy(ranks, s->score.host, (size_t)s->n_seen * sizeof *ranks);
    for (int64_t i = 0; i < s->n_stay; i++) ranks[s->row_token[stay[i]]] = -INFINITY;
    return sac_adore_best(s, ops, stream, s->n_seen, s->n_rebuilt,
                          sac_buffer_from(s->part_token, (size_t)s->n_stay * sizeof(int32_t)));
}

/* Rows and tokens of all that take part: those that stay, then rebuilt ones and the step's own, whose rows
 * follow those of the cache. A token's rank is its place among them in order of position. */
static void list_part(sac_adore_state *s) {
    const int32_t *stay = s->stay.host;
    int32_t *row = s->part_row.host, *token = s->part_token.host, rank = 0;
    float *ranks = s->ranks.host;
    for (int64_t i = 0; i < s->n_stay; i++) {
        row[i] = stay[i];
        token[i] = s->row_token[stay[i]];
    }
    for (int64_t i = 0; i <= s->n_rebuilt; i++) row[s->n_stay + i] = (int32_t)(s->n_cached + i);
    s->n_part = s->n_stay + s->n_rebuilt + 1;
    token[s->n_part - 1] = (int32_t)s->n_seen;
    int64_t n_tokens = s->n_seen + 1;
    for (int64_t i = 0; i < n_tokens; i++) ranks[i] = 0;
    for (int64_t i = 0; i < s->n_part; i++) ranks[token[i]] = 1;
    for (int64_t i = 0; i < n_tokens; i++)
        if (ranks[i] > 0) ranks[i] = (float)rank++;
    for (int64_t i = 0; i < s->n_part; i++) s->part_rank[i] = (int32_t)ranks[token[i]];
}

/* Of every query of the step, those rebuilt and its own, what takes part and does not come after it: rows, or
 * places of the compact view. */
static void list_visible(sac_adore_state *s) {
    const int32_t *row = s->part_row.host, *token = s->part_token.host;
    int32_t *visible = s->visible.host;
    int64_t *start = s->visible_start.host, n = 0;
    for (int64_t i = s->n_stay; i < s->n_part; i++) {
        start[i - s->n_stay] = n;
        for (int64_t k = 0; k < s->n_part; k++)
            if (token[k] <= token[i]) visible[n++] = s->compact ? (int32_t)k : row[k];
    }
    start[s->n_part - s->n_stay] = n;
}

static sac_status send_part(sac_adore_state *s, const sac_stream *stream) {
    const int32_t *token = s->part_token.host;
    int32_t *turn = s->turn.host;
    int64_t *start = s->part_start.host, n_queries = s->n_part - s->n_stay;
    start[0] = 0;
    start[1] = s->n_part;
    for (int64_t i = 0; i < s->n_part; i++) turn[i] = token[i] - s->part_rank[i];
    *(int32_t *)s->own_row.host = (int32_t)(s->n_cached + s->n_rebuilt - s->place);
    SAC_TRY(send(stream, s->part_row, s->n_part, sizeof(int32_t)));
    SAC_TRY(send(stream, s->part_start, 2, sizeof *start));
    SAC_TRY(send(stream, s->turn, s->n_part, sizeof *turn));
    SAC_TRY(send(stream, s->visible, ((const int64_t *)s->visible_start.host)[n_queries], sizeof(int32_t)));
    SAC_TRY(send(stream, s->visible_start, n_queries + 1, sizeof *start));
    return send(stream, s->own_row, 1, sizeof(int32_t));
}

sac_status sac_adore_plan_step(sac_adore_state *s, const sac_ops *ops, const sac_stream *stream) {
    s->in_step = true;
    SAC_TRY(choose_stay(s, ops, stream));
    SAC_TRY(choose_rebuilt(s, ops, stream));
    s->evicted = find_evicted(s);
    s->place = s->evicted >= 0 ? s->evicted : s->n_stay;
    list_part(s);
    bool is_long = s->n_seen + 1 > s->max_position, leaves_out = s->n_part < s->n_seen + 1;
    s->compact = leaves_out && (s->pos == POS_COMPACT || (s->pos == POS_AUTO && is_long));
    list_visible(s);
    return send_part(s, stream);
}

void sac_adore_commit_step(sac_adore_state *s) {
    const int32_t *token = s->part_token.host;
    for (int64_t i = 0; i < s->n_stay; i++) s->row_token[i] = token[i];
    s->row_token[s->place] = token[s->n_part - 1];
    s->n_cached = s->place < s->n_stay ? s->n_stay : s->n_stay + 1;
}
