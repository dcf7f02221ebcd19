#include "adore_plan.h"

#include <math.h>

float sac_adore_rank(const sac_adore_state *s, int64_t token) {
    int64_t n = s->in_step ? s->n_seen + 1 : s->n_seen;
    bool is_safe = token < s->sink || token >= n - s->recent;
    return is_safe ? INFINITY : s->score[token];
}

/* The m best of the cached rows stay; only a prompt under sigma=attention leaves more. */
static sac_status choose_stay(sac_adore_state *s, const sac_ops *ops, const sac_stream *stream) {
    s->n_stay = s->n_cached < s->m ? s->n_cached : s->m;
    for (int64_t row = 0; row < s->n_cached; row++) s->ranks[row] = sac_adore_rank(s, s->row_token[row]);
    return ops->top_k(stream, &(sac_top_k_args){.scores = s->ranks,
                                                .stride = s->n_cached,
                                                .n = s->n_cached,
                                                .n_rows = 1,
                                                .k = s->m,
                                                .indices = s->stay});
}

/* The place of the worst of the rows that stay, when the step's token needs one. */
static int64_t find_evicted(const sac_adore_state *s) {
    int64_t worst = -1;
    float least = 0;
    for (int64_t i = 0; i < s->n_stay && s->n_stay == s->m; i++) {
        float rank = sac_adore_rank(s, s->row_token[s->stay[i]]);
        if (worst >= 0 && rank >= least) continue;
        worst = i;
        least = rank;
    }
    return worst;
}

/* The R best tokens that are not in the cache, ascending, into part_token from n_stay on. */
static sac_status choose_rebuilt(sac_adore_state *s, const sac_ops *ops, const sac_stream *stream) {
    int64_t n_released = s->n_seen - s->n_stay;
    s->n_rebuilt = n_released < s->r ? n_released : s->r;
    for (int64_t i = 0; i < s->n_seen; i++) s->ranks[i] = s->score[i];
    for (int64_t i = 0; i < s->n_stay; i++) s->ranks[s->row_token[s->stay[i]]] = -INFINITY;
    return ops->top_k(stream, &(sac_top_k_args){.scores = s->ranks,
                                                .stride = s->n_seen,
                                                .n = s->n_seen,
                                                .n_rows = 1,
                                                .k = s->n_rebuilt,
                                                .indices = s->part_token + s->n_stay});
}

/* Rows and tokens of all that take part: those that stay, then rebuilt ones and the step's own, whose rows
 * follow those of the cache. A token's rank is its place among them in order of position. */
static void list_part(sac_adore_state *s) {
    for (int64_t i = 0; i < s->n_stay; i++) {
        s->part_row[i] = s->stay[i];
        s->part_token[i] = s->row_token[s->stay[i]];
    }
    for (int64_t i = 0; i <= s->n_rebuilt; i++) s->part_row[s->n_stay + i] = (int32_t)(s->n_cached + i);
    s->n_part = s->n_stay + s->n_rebuilt + 1;
    s->part_token[s->n_part - 1] = (int32_t)s->n_seen;
    int64_t n_tokens = s->n_seen + 1;
    for (int64_t i = 0; i < n_tokens; i++) s->ranks[i] = 0;
    for (int64_t i = 0; i < s->n_part; i++) s->ranks[s->part_token[i]] = 1;
    int32_t rank = 0;
    for (int64_t i = 0; i < n_tokens; i++)
        if (s->ranks[i] > 0) s->ranks[i] = (float)rank++;
    for (int64_t i = 0; i < s->n_part; i++) s->part_rank[i] = (int32_t)s->ranks[s->part_token[i]];
}

sac_status sac_adore_plan_step(sac_adore_state *s, const sac_ops *ops, const sac_stream *stream) {
    s->in_step = true;
    SAC_TRY(choose_stay(s, ops, stream));
    SAC_TRY(choose_rebuilt(s, ops, stream));
    s->evicted = find_evicted(s);
    list_part(s);
    bool is_long = s->n_seen + 1 > s->max_position, leaves_out = s->n_part < s->n_seen + 1;
    s->compact = leaves_out && (s->pos == POS_COMPACT || (s->pos == POS_AUTO && is_long));
    return SAC_OK;
}

void sac_adore_commit_step(sac_adore_state *s, int64_t own_place) {
    for (int64_t i = 0; i < s->n_stay; i++) s->row_token[i] = s->part_token[i];
    s->row_token[own_place] = s->part_token[s->n_part - 1];
    s->n_cached = own_place < s->n_stay ? s->n_stay : s->n_stay + 1;
}
