/* faults.c - wrong on purpose. A checker that lets one of these pass cannot be trusted with the real ones. */
#include "check.h"

#include <math.h>
#include <stdlib.h>

static sac_ops ref(void) {
    sac_ops t;
    sac_ops_init_ref(&t);
    return t;
}

static sac_status rmsnorm_dropped_tail(const sac_stream *s, const sac_rmsnorm_args *a) {
    for (int64_t i = 0; i < a->x.rows; i++) {
        float last = sac_mat_row_f32(a->y, i)[a->y.cols - 1];
        sac_rmsnorm_args row = *a;
        row.x = sac_mat_rows(a->x, i, 1);
        row.y = sac_mat_rows(a->y, i, 1);
        ref().rmsnorm(s, &row);
        sac_mat_row_f32(a->y, i)[a->y.cols - 1] = last;
    }
    return SAC_OK;
}

static sac_status linear_nan(const sac_stream *s, const sac_linear_args *a) {
    sac_status st = ref().linear(s, a);
    sac_mat_row_f32(a->y, a->y.rows - 1)[a->y.cols - 1] = NAN;
    return st;
}

static sac_status linear_dropped_k(const sac_stream *s, const sac_linear_args *a) {
    sac_status st = ref().linear(s, a);
    if (sac_dtype_block(a->w.dtype) > 1 || a->act != SAC_ACT_NONE) return st;
    for (int64_t i = 0; i < a->y.rows; i++)
        for (int64_t j = 0; j < a->y.cols; j++) {
            uint8_t wk[4] = {0};
            float w;
            size_t element = sac_dtype_row_bytes(a->w.dtype, 1);
            memcpy(wk + 4 - element, (const char *)a->w.data + (size_t)((j + 1) * a->x.cols - 1) * element,
                   element);
            memcpy(&w, wk, 4);
            if (a->w.dtype == SAC_DTYPE_F16) w = sac_f16_to_f32((uint16_t)(wk[2] | wk[3] << 8));
            sac_mat_row_f32(a->y, i)[j] -= sac_mat_row_f32(a->x, i)[a->x.cols - 1] * w;
        }
    return st;
}

static sac_status linear_drift(const sac_stream *s, const sac_linear_args *a) {
    sac_status st = ref().linear(s, a);
    for (int64_t i = 0; i < a->y.rows; i++)
        for (int64_t j = 0; j < a->y.cols; j++) sac_mat_row_f32(a->y, i)[j] *= 1.0001f;
    return st;
}

static sac_status swiglu_one_past(const sac_stream *s, const sac_swiglu_args *a) {
    sac_status st = ref().swiglu(s, a);
    uint8_t *end = (uint8_t *)(sac_mat_row_f32(a->y, a->y.rows - 1) + a->y.cols);
    end[0] ^= 1;
    return st;
}

static sac_status layernorm_in_gap(const sac_stream *s, const sac_layernorm_args *a) {
    sac_status st = ref().layernorm(s, a);
    if (a->y.stride > a->y.cols && a->y.rows > 1) sac_mat_row_f32(a->y, 0)[a->y.stride - 1] = 0;
    return st;
}

static sac_status gather_changes_input(const sac_stream *s, const sac_gather_rows_args *a) {
    sac_status st = ref().gather_rows(s, a);
    sac_mat_row_f32(a->x, 0)[0] += 1;
    return st;
}

static sac_status scatter_no_sum(const sac_stream *s, const sac_scatter_rows_args *a) {
    sac_scatter_rows_args b = *a;
    b.accumulate = false;
    return ref().scatter_rows(s, &b);
}

/* Reads head h % n_kv_heads: right for one head, wrong for a group. Heads go one by one through the
 * reference. */
static sac_status attention_wrong_head(const sac_stream *s, const sac_attention_args *a) {
    int d = a->kv.head_dim;
    size_t element = sac_dtype_row_bytes(a->kv.dtype, 1);
    for (int h = 0; h < a->n_heads; h++) {
        sac_attention_args one = *a;
        size_t offset = (size_t)((h % a->kv.n_heads) * a->kv.head_stride) * element;
        one.kv.k = (char *)a->kv.k + offset;
        one.kv.v = (char *)a->kv.v + offset;
        one.n_heads = one.kv.n_heads = 1;
        one.q.data = (float *)a->q.data + h * d;
        one.o.data = (float *)a->o.data + h * d;
        one.q.cols = one.o.cols = d;
        ref().attention(s, &one);
    }
    return SAC_OK;
}

static sac_status attention_sees_next(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    b.first++;
    return ref().attention(s, &b);
}

static sac_status rope_no_rest(const sac_stream *s, const sac_rope_args *a) { /* whole vectors of 8 only */
    sac_rope_args b = *a;
    b.rotation.rot_dim = a->rotation.rot_dim / 16 * 16;
    if (b.rotation.rot_dim == a->rotation.rot_dim || b.rotation.rot_dim == 0) return ref().rope(s, a);
    return SAC_OK;
}

/* Right within tolerance, but other bits each time: as a sum whose order depends on who comes first. */
static sac_status linear_unsteady(const sac_stream *s, const sac_linear_args *a) {
    static int calls;
    sac_status st = ref().linear(s, a);
    float *y = sac_mat_row_f32(a->y, 0);
    if (calls++ & 1) y[0] = nextafterf(y[0], INFINITY);
    return st;
}

/* ---- keys, lists and selections ---- */

static sac_status attention_lse_log2(const sac_stream *s, const sac_attention_args *a) {
    sac_status st = ref().attention(s, a);
    for (int64_t i = 0; a->lse && i < a->n_q * a->n_heads; i++) a->lse[i] *= 1.44269504f;
    return st;
}

/* Every head reads the first list. */
static sac_status attention_first_list(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    sac_row_lists first;
    if (a->lists) {
        first = (sac_row_lists){a->lists->rows, a->lists->start, 1};
        b.lists = &first;
    }
    return ref().attention(s, &b);
}

static sac_status rope_back_with_factor(const sac_stream *s, const sac_rope_args *a) {
    sac_rope_args b = *a;
    b.rotation.factor = 1;
    return ref().rope(s, &b);
}

static sac_status key_scores_as_stored(const sac_stream *s, const sac_key_scores_args *a) {
    sac_key_scores_args b = *a;
    b.back = NULL;
    return ref().key_scores(s, &b);
}

/* The rows of a list as if they were the first ones. */
static sac_status key_scores_no_list(const sac_stream *s, const sac_key_scores_args *a) {
    sac_key_scores_args b = *a;
    if (a->lists) {
        b.lists = NULL;
        b.first = 0;
        b.n = a->lists->start[1];
    }
    return ref().key_scores(s, &b);
}

static sac_status attention_sums_one_late(const sac_stream *s, const sac_attention_sums_args *a) {
    sac_attention_sums_args b = *a;
    b.first--; /* the last key of each probe unseen */
    return ref().attention_sums(s, &b);
}

static sac_status attention_sums_all_probes(const sac_stream *s, const sac_attention_sums_args *a) {
    sac_attention_sums_args b = *a;
    b.probes = NULL;
    return ref().attention_sums(s, &b);
}

static sac_status attention_sums_shifted_diagonal(const sac_stream *s, const sac_attention_sums_args *a) {
    sac_status st = ref().attention_sums(s, a);
    for (int64_t i = a->n_sums * a->n_diagonals - 1; i > 0; i--) a->diagonals[i] = a->diagonals[i - 1];
    return st;
}

static sac_status kv_gather_turns_by_row(const sac_stream *s, const sac_kv_gather_args *a) {
    sac_kv_gather_args b = *a;
    if (a->turn_back && a->src.n_rows <= 60) b.turn_back = a->lists->rows;
    return ref().kv_gather(s, &b);
}

static sac_status kv_gather_keys_only(const sac_stream *s, const sac_kv_gather_args *a) {
    sac_kv_gather_args b = *a;
    b.keys_only = true;
    return ref().kv_gather(s, &b);
}

/* Of equals the last: the row from its end. */
static sac_status top_k_last_of_equals(const sac_stream *s, const sac_top_k_args *a) {
    int64_t k = a->k < a->n ? a->k : a->n;
    float *back = malloc((size_t)a->n * sizeof *back + 1);
    for (int row = 0; row < a->n_rows; row++) {
        for (int64_t i = 0; i < a->n; i++) back[i] = a->scores[row * a->stride + a->n - 1 - i];
        int32_t *found = a->indices + row * k, t;
        ref().top_k(s, &(sac_top_k_args){back, a->n, a->n, 1, k, found});
        for (int64_t i = 0; i < k; i++) found[i] = (int32_t)a->n - 1 - found[i];
        for (int64_t i = 0; i < k / 2; i++) {
            t = found[i];
            found[i] = found[k - 1 - i];
            found[k - 1 - i] = t;
        }
    }
    free(back);
    return SAC_OK;
}

static sac_status top_k_not_ascending(const sac_stream *s, const sac_top_k_args *a) {
    sac_status st = ref().top_k(s, a);
    if (a->k < 2 || a->n < 2 || a->n_rows == 0) return st;
    int32_t t = a->indices[0];
    a->indices[0] = a->indices[1];
    a->indices[1] = t;
    return st;
}

static sac_status top_p_ignores_counts(const sac_stream *s, const sac_top_p_args *a) {
    sac_top_p_args b = *a;
    b.counts = NULL;
    return ref().top_p(s, &b);
}

/* The threshold's class left out. */
static sac_status top_p_strictly_above(const sac_stream *s, const sac_top_p_args *a) {
    sac_status st = ref().top_p(s, a);
    for (int row = 0; row < a->n_rows; row++) a->threshold[row] = nextafterf(a->threshold[row], INFINITY);
    return st;
}

/* Forgets the channels' factors of values. */
static sac_status packed_no_channel(const sac_stream *s, const sac_packed_attention_args *a) {
    sac_packed_attention_args b = *a;
    sac_packed_rows parts[CHECK_MAX_PARTS];
    for (int i = 0; i < a->n_parts; i++) {
        parts[i] = a->parts[i];
        parts[i].v_channel = NULL;
    }
    b.parts = parts;
    return ref().packed_attention(s, &b);
}

static sac_status pack_no_channel(const sac_stream *s, const sac_pack_rows_args *a) {
    sac_pack_rows_args b = *a;
    b.p.v_channel = NULL;
    return ref().pack_rows(s, &b);
}

/* The first rows in place of the chosen ones. */
static sac_status pack_channels_no_list(const sac_stream *s, const sac_pack_channels_args *a) {
    sac_pack_channels_args b = *a;
    b.rows.rows = NULL;
    return ref().pack_channels(s, &b);
}

static sac_status packed_step_no_last_row(const sac_stream *s, const sac_packed_step_args *a) {
    sac_packed_step_args b = *a;
    if (b.tail.n_rows > 1) b.tail.n_rows--;
    return ref().packed_step(s, &b);
}

/* Weights of a row's counted scores only, but a sum over all of them. */
static sac_status softmax_ignores_counts(const sac_stream *s, const sac_softmax_args *a) {
    sac_softmax_args b = *a;
    b.counts = NULL;
    b.weights = NULL;
    sac_status st = ref().softmax(s, a);
    return st == SAC_OK ? ref().softmax(s, &b) : st;
}

/* The best row's share in place of the sum. */
static sac_status soft_vote_of_the_best(const sac_stream *s, const sac_soft_vote_args *a) {
    (void)s;
    for (int64_t j = 0; j < a->n; j++) {
        float best = -INFINITY;
        for (int r = 0; r < a->n_rows; r++) best = fmaxf(best, a->scores[r * a->stride + j] - a->lse[r]);
        a->votes[j] = best;
    }
    return SAC_OK;
}

/* All groups share the lse of the first. */
static sac_status soft_vote_one_lse(const sac_stream *s, const sac_soft_vote_args *a) {
    for (int g = 0; g < (a->n_groups > 1 ? a->n_groups : 1); g++) {
        sac_soft_vote_args b = *a;
        b.scores += (int64_t)g * a->n_rows * a->stride, b.votes += g * a->stride;
        b.n_groups = 1;
        SAC_TRY(ref().soft_vote(s, &b));
    }
    return SAC_OK;
}

/* Every query has the last one's keys. */
static sac_status key_scores_one_end(const sac_stream *s, const sac_key_scores_args *a) {
    sac_key_scores_args b = *a;
    if (a->n_queries > 1) b.n += (a->n_queries - 1) * a->n_more, b.n_more = 0;
    return ref().key_scores(s, &b);
}

/* Every batch reads the first one's keys. */
static sac_status attention_first_keys(const sac_stream *s, const sac_attention_args *a) {
    if (!a->kv_batch_rows) return ref().attention(s, a);
    for (int64_t i = 0; i < a->n_batch; i++) {
        sac_attention_args b = *a;
        b.q = sac_mat_rows(a->q, i * a->batch_rows, a->n_q);
        b.o = sac_mat_rows(a->o, i * a->batch_rows, a->n_q);
        b.n_batch = 1, b.batch_rows = b.kv_batch_rows = 0;
        SAC_TRY(ref().attention(s, &b));
    }
    return SAC_OK;
}

/* The mean of all rows for each group. */
static sac_status mean_rows_of_all(const sac_stream *s, const sac_mean_rows_args *a) {
    for (int64_t g = 0; g < (a->n_groups > 1 ? a->n_groups : 1); g++) {
        sac_mean_rows_args b = *a;
        b.y += g * a->x.cols;
        b.scale /= (float)(a->n_groups > 1 ? a->n_groups : 1);
        b.n_groups = 1;
        SAC_TRY(ref().mean_rows(s, &b));
    }
    return SAC_OK;
}

/* Every list ends where the first one does. */
static sac_status choice_rows_same_end(const sac_stream *s, const sac_choice_rows_args *a) {
    sac_choice_rows_args b = *a;
    b.n_more = 0;
    return ref().choice_rows(s, &b);
}

/* What the step before left is written again. */
static sac_status choice_step_writes_all(const sac_stream *s, const sac_choice_step_args *a) {
    sac_choice_step_args b = *a;
    b.kept = false;
    return ref().choice_step(s, &b);
}

/* The rows side by side are met by a query turned a position too far. */
static sac_status choice_attend_turned_more(const sac_stream *s, const sac_choice_attend_args *a) {
    sac_choice_attend_args b = *a;
    b.rotation.cos_sin += b.rotation.rot_dim;
    return ref().choice_attend(s, &b);
}

/* The query's own row is left out. */
static sac_status choice_attend_no_last_row(const sac_stream *s, const sac_choice_attend_args *a) {
    sac_choice_attend_args b = *a;
    if (b.local < 2) return ref().choice_attend(s, a);
    b.local--, b.n_rows--;
    return ref().choice_attend(s, &b);
}

#define FAULT(o, fn)                                                                                         \
    static void plant_##fn(sac_ops *t) {                                                                     \
        t->o = fn;                                                                                           \
    }
FAULT(rmsnorm, rmsnorm_dropped_tail)
FAULT(linear, linear_nan)
FAULT(linear, linear_dropped_k)
FAULT(linear, linear_drift)
FAULT(linear, linear_unsteady)
FAULT(swiglu, swiglu_one_past)
FAULT(layernorm, layernorm_in_gap)
FAULT(gather_rows, gather_changes_input)
FAULT(scatter_rows, scatter_no_sum)
FAULT(attention, attention_wrong_head)
FAULT(attention, attention_sees_next)
FAULT(rope, rope_no_rest)
FAULT(packed_attention, packed_no_channel)
FAULT(pack_rows, pack_no_channel)
FAULT(pack_channels, pack_channels_no_list)
FAULT(packed_step, packed_step_no_last_row)
FAULT(rope, rope_back_with_factor)
FAULT(attention, attention_lse_log2)
FAULT(attention, attention_first_list)
FAULT(key_scores, key_scores_as_stored)
FAULT(key_scores, key_scores_no_list)
FAULT(attention_sums, attention_sums_one_late)
FAULT(attention_sums, attention_sums_all_probes)
FAULT(attention_sums, attention_sums_shifted_diagonal)
FAULT(kv_gather, kv_gather_turns_by_row)
FAULT(kv_gather, kv_gather_keys_only)
FAULT(top_k, top_k_last_of_equals)
FAULT(top_k, top_k_not_ascending)
FAULT(top_p, top_p_ignores_counts)
FAULT(top_p, top_p_strictly_above)
FAULT(softmax, softmax_ignores_counts)
FAULT(soft_vote, soft_vote_of_the_best)
FAULT(soft_vote, soft_vote_one_lse)
FAULT(key_scores, key_scores_one_end)
FAULT(attention, attention_first_keys)
FAULT(mean_rows, mean_rows_of_all)
FAULT(choice_rows, choice_rows_same_end)
FAULT(choice_step, choice_step_writes_all)
FAULT(choice_attend, choice_attend_turned_more)
FAULT(choice_attend, choice_attend_no_last_row)

const check_fault check_faults[] = {
    {"dropped_tail", CHECK_rmsnorm, plant_rmsnorm_dropped_tail},
    {"nan", CHECK_linear, plant_linear_nan},
    {"dropped_k", CHECK_linear, plant_linear_dropped_k},
    {"drift_1e-4", CHECK_linear, plant_linear_drift},
    {"unsteady_bits", CHECK_linear, plant_linear_unsteady},
    {"one_byte_past", CHECK_swiglu, plant_swiglu_one_past},
    {"write_in_gap", CHECK_layernorm, plant_layernorm_in_gap},
    {"input_changed", CHECK_gather_rows, plant_gather_changes_input},
    {"no_sum", CHECK_scatter_rows, plant_scatter_no_sum},
    {"wrong_gqa_head", CHECK_attention, plant_attention_wrong_head},
    {"sees_next_key", CHECK_attention, plant_attention_sees_next},
    {"no_rest", CHECK_rope, plant_rope_no_rest},
    {"no_channel", CHECK_packed_attention, plant_packed_no_channel},
    {"no_channel", CHECK_pack_rows, plant_pack_no_channel},
    {"no_list", CHECK_pack_channels, plant_pack_channels_no_list},
    {"no_last_row", CHECK_packed_step, plant_packed_step_no_last_row},
    {"back_with_factor", CHECK_rope, plant_rope_back_with_factor},
    {"lse_log2", CHECK_attention, plant_attention_lse_log2},
    {"first_list", CHECK_attention, plant_attention_first_list},
    {"as_stored", CHECK_key_scores, plant_key_scores_as_stored},
    {"no_list", CHECK_key_scores, plant_key_scores_no_list},
    {"one_late", CHECK_attention_sums, plant_attention_sums_one_late},
    {"all_probes", CHECK_attention_sums, plant_attention_sums_all_probes},
    {"shifted_diagonal", CHECK_attention_sums, plant_attention_sums_shifted_diagonal},
    {"turns_by_row", CHECK_kv_gather, plant_kv_gather_turns_by_row},
    {"keys_only", CHECK_kv_gather, plant_kv_gather_keys_only},
    {"last_of_equals", CHECK_top_k, plant_top_k_last_of_equals},
    {"not_ascending", CHECK_top_k, plant_top_k_not_ascending},
    {"ignores_counts", CHECK_top_p, plant_top_p_ignores_counts},
    {"strictly_above", CHECK_top_p, plant_top_p_strictly_above},
    {"sums_past_counts", CHECK_softmax, plant_softmax_ignores_counts},
    {"vote_of_the_best", CHECK_soft_vote, plant_soft_vote_of_the_best},
    {"one_lse", CHECK_soft_vote, plant_soft_vote_one_lse},
    {"one_end", CHECK_key_scores, plant_key_scores_one_end},
    {"first_keys", CHECK_attention, plant_attention_first_keys},
    {"mean_of_all", CHECK_mean_rows, plant_mean_rows_of_all},
    {"writes_all", CHECK_choice_step, plant_choice_step_writes_all},
    {"turned_more", CHECK_choice_attend, plant_choice_attend_turned_more},
    {"no_last_row", CHECK_choice_attend, plant_choice_attend_no_last_row},
    {"same_end", CHECK_choice_rows, plant_choice_rows_same_end},
};
const int check_n_faults = (int)SAC_COUNT(check_faults);
