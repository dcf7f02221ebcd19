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

/* Every token stands where the first one does. */
static sac_status store_many_one_position(const sac_stream *s, const sac_store_many_args *a) {
    sac_token_store each[CHECK_MAX_MANY];
    for (int i = 0; i < a->n; i++) {
        each[i] = a->each[i];
        each[i].pos = a->each[0].pos;
    }
    return ref().store_many(s, &(sac_store_many_args){each, a->n});
}

/* Every sequence has the first one's keys. */
static sac_status attention_many_one_view(const sac_stream *s, const sac_attention_many_args *a) {
    sac_attention_args each[CHECK_MAX_MANY];
    for (int i = 0; i < a->n; i++) {
        each[i] = a->each[i];
        each[i].kv.k = a->each[0].kv.k;
    }
    return ref().attention_many(s, &(sac_attention_many_args){each, a->n});
}

/* The last sequence has no key of its own token. */
static sac_status attention_many_no_last_row(const sac_stream *s, const sac_attention_many_args *a) {
    sac_attention_args each[CHECK_MAX_MANY];
    for (int i = 0; i < a->n; i++) each[i] = a->each[i];
    if (each[a->n - 1].n_kv > 1) each[a->n - 1].n_kv--, each[a->n - 1].first--;
    return ref().attention_many(s, &(sac_attention_many_args){each, a->n});
}

/* Every sequence has as much of a tail as the first one. */
static sac_status packed_step_many_one_tail(const sac_stream *s, const sac_packed_step_many_args *a) {
    sac_packed_step_args each[CHECK_MAX_MANY];
    for (int i = 0; i < a->n; i++) {
        each[i] = a->each[i];
        each[i].tail.n_rows = a->each[0].tail.n_rows;
    }
    return ref().packed_step_many(s, &(sac_packed_step_many_args){each, a->n});
}

/* Scores as if they were weights. */
static sac_status top_p_scores_as_weights(const sac_stream *s, const sac_top_p_args *a) {
    sac_top_p_args b = *a;
    b.scores = false;
    return ref().top_p(s, &b);
}

/* Every row begins the copy anew. */
static sac_status pack_always_to_0(const sac_stream *s, const sac_pack_rows_args *a) {
    sac_pack_rows_args b = *a;
    b.to = 0;
    b.p.n = a->rows.n;
    return ref().pack_rows(s, &b);
}

static sac_status packed_scores_as_packed(const sac_stream *s, const sac_packed_scores_args *a) {
    sac_packed_scores_args b = *a;
    b.turn_back = NULL;
    return ref().packed_scores(s, &b);
}

/* Every head reads the first list. */
static sac_status packed_scores_first_list(const sac_stream *s, const sac_packed_scores_args *a) {
    sac_packed_scores_args b = *a;
    b.n_lists = 1;
    return ref().packed_scores(s, &b);
}

/* What the first head of a group keeps. */
static sac_status kept_rows_no_union(const sac_stream *s, const sac_kept_rows_args *a) {
    sac_kept_rows_args b = *a;
    int group = a->n_rows / a->n_lists;
    float threshold[64];
    for (int r = 0; r < a->n_rows && r < 64; r++) threshold[r] = r % group ? INFINITY : a->threshold[r];
    b.threshold = threshold;
    return ref().kept_rows(s, &b);
}

/* Lists that begin where they would if all were full. */
static sac_status kept_rows_apart(const sac_stream *s, const sac_kept_rows_args *a) {
    sac_status st = ref().kept_rows(s, a);
    for (int l = 1; l < a->n_lists; l++) a->start[l] = l * a->n;
    return st;
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

static sac_status keep_rows_one_list(const sac_stream *s, const sac_keep_rows_args *a) {
    sac_keep_rows_args b = *a;
    b.n_lists = 1;
    return ref().keep_rows(s, &b);
}

/* In the wrong order: rows are overwritten before they have moved. */
static sac_status keep_rows_from_the_end(const sac_stream *s, const sac_keep_rows_args *a) {
    for (int head = 0; head < a->kv.n_heads; head++)
        for (int64_t i = a->n - 1; i >= 0; i--) {
            size_t element = sac_dtype_row_bytes(a->kv.dtype, 1);
            sac_keep_rows_args b = *a;
            b.kv.n_heads = b.n_lists = 1, b.n = 1;
            b.kv.k = (char *)a->kv.k + (size_t)(head * a->kv.head_stride + i * a->kv.row_stride) * element;
            b.kv.v = (char *)a->kv.v + (size_t)(head * a->kv.head_stride + i * a->kv.row_stride) * element;
            int32_t row = a->rows[(a->n_lists > 1 ? head * a->n : 0) + i] - (int32_t)i;
            b.rows = &row;
            ref().keep_rows(s, &b);
        }
    return SAC_OK;
}

static sac_status evict_row_of_any_age(const sac_stream *s, const sac_evict_row_args *a) {
    sac_evict_row_args b = *a;
    b.recent_from = INT32_MAX;
    return ref().evict_row(s, &b);
}

/* Blocks of queries read the lists of the first. */
static sac_status attention_first_block(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    b.list_block = 0;
    return ref().attention(s, &b);
}

static sac_status pattern_rows_one_strip(const sac_stream *s, const sac_pattern_rows_args *a) {
    sac_pattern_rows_args b = *a;
    if (b.n_diagonals > 1) b.n_diagonals = 1;
    return ref().pattern_rows(s, &b);
}
static sac_status pattern_rows_not_own(const sac_stream *s, const sac_pattern_rows_args *a) {
    sac_pattern_rows_args b = *a;
    b.own = false;
    return ref().pattern_rows(s, &b);
}

/* Chooses before the step's weights are added. */
static sac_status evict_row_before_weights(const sac_stream *s, const sac_evict_row_args *a) {
    float *none = calloc((size_t)(a->kv.n_heads * a->weights_stride), sizeof *none);
    sac_evict_row_args b = *a;
    b.weights = none;
    ref().evict_row(s, &b);
    free(none);
    b = *a;
    b.evict = false;
    return ref().evict_row(s, &b);
}

/* Each page's rows one row late. */
static sac_status choice_rows_page_late(const sac_stream *s, const sac_choice_rows_args *a) {
    int64_t page = a->page > 1 ? a->page : 1, n_lists = a->n_lists > 1 ? a->n_lists : 1;
    int64_t each = a->init + a->n_chosen * page + a->local;
    sac_status st = ref().choice_rows(s, a);
    for (int64_t i = 0; i < each * n_lists && page > 1; i++)
        if (i % each >= a->init && i % each < each - a->local) a->rows[i]++;
    return st;
}
static sac_status choice_rows_no_end(const sac_stream *s, const sac_choice_rows_args *a) {
    sac_status st = ref().choice_rows(s, a);
    if (a->start) a->start[a->n_lists > 1 ? a->n_lists : 1] = 0;
    return st;
}

/* The last key of a page is not looked at. */
static sac_status page_bounds_no_last_key(const sac_stream *s, const sac_page_bounds_args *a) {
    if (a->page == 1 || a->n == 0) return ref().page_bounds(s, a);
    for (int64_t i = 0; i < a->n; i++) {
        sac_page_bounds_args b = *a;
        size_t rows = sac_dtype_row_bytes(a->kv.dtype, 1) * (size_t)a->kv.row_stride,
               pages = sac_dtype_row_bytes(a->bounds.dtype, 1) * (size_t)a->bounds.row_stride;
        b.kv.k = (char *)a->kv.k + rows * (size_t)((a->first + i) * a->page);
        b.bounds.k = (char *)a->bounds.k + pages * (size_t)(a->first + i);
        b.page--, b.first = 0, b.n = 1;
        SAC_TRY(ref().page_bounds(s, &b));
    }
    return SAC_OK;
}
/* All pages from the first, where nobody asked for them. */
static sac_status page_bounds_of_all(const sac_stream *s, const sac_page_bounds_args *a) {
    sac_page_bounds_args b = *a;
    b.first = 0, b.n = a->first + a->n;
    return ref().page_bounds(s, &b);
}

/* The bound of one head for its group. */
static sac_status page_scores_one_head(const sac_stream *s, const sac_page_scores_args *a) {
    int group = a->n_heads / a->n_sums;
    sac_page_scores_args b = *a;
    if (group == 1) return ref().page_scores(s, a);
    float *scores = calloc((size_t)(a->n_heads * a->stride), sizeof *scores);
    b.scores = scores, b.n_sums = a->n_heads;
    sac_status st = ref().page_scores(s, &b);
    for (int i = 0; i < a->n_sums; i++)
        for (int64_t p = 0; p < a->n; p++) a->scores[i * a->stride + p] = scores[i * group * a->stride + p];
    free(scores);
    return st;
}

static sac_status channel_sums_from_row_0(const sac_stream *s, const sac_channel_sums_args *a) {
    sac_channel_sums_args b = *a;
    b.first = 0;
    return ref().channel_sums(s, &b);
}

static sac_status pick_channels_one_set(const sac_stream *s, const sac_pick_channels_args *a) {
    sac_pick_channels_args b = *a;
    b.n_sets = 1;
    return ref().pick_channels(s, &b);
}

/* The mean, whatever weighs more. */
static sac_status join_attention_evenly(const sac_stream *s, const sac_join_attention_args *a) {
    sac_join_attention_args b = *a;
    b.other_lse = a->lse;
    return ref().join_attention(s, &b);
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
FAULT(store_many, store_many_one_position)
FAULT(attention_many, attention_many_one_view)
FAULT(attention_many, attention_many_no_last_row)
FAULT(packed_step_many, packed_step_many_one_tail)
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
FAULT(top_p, top_p_scores_as_weights)
FAULT(pack_rows, pack_always_to_0)
FAULT(packed_scores, packed_scores_as_packed)
FAULT(packed_scores, packed_scores_first_list)
FAULT(kept_rows, kept_rows_no_union)
FAULT(kept_rows, kept_rows_apart)
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
FAULT(keep_rows, keep_rows_one_list)
FAULT(keep_rows, keep_rows_from_the_end)
FAULT(evict_row, evict_row_of_any_age)
FAULT(evict_row, evict_row_before_weights)
FAULT(attention, attention_first_block)
FAULT(pattern_rows, pattern_rows_one_strip)
FAULT(pattern_rows, pattern_rows_not_own)
FAULT(choice_rows, choice_rows_page_late)
FAULT(choice_rows, choice_rows_no_end)
FAULT(page_bounds, page_bounds_no_last_key)
FAULT(page_bounds, page_bounds_of_all)
FAULT(page_scores, page_scores_one_head)
FAULT(channel_sums, channel_sums_from_row_0)
FAULT(pick_channels, pick_channels_one_set)
FAULT(join_attention, join_attention_evenly)

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
    {"one_position", CHECK_store_many, plant_store_many_one_position},
    {"one_view", CHECK_attention_many, plant_attention_many_one_view},
    {"no_last_row", CHECK_attention_many, plant_attention_many_no_last_row},
    {"one_tail", CHECK_packed_step_many, plant_packed_step_many_one_tail},
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
    {"scores_as_weights", CHECK_top_p, plant_top_p_scores_as_weights},
    {"always_to_0", CHECK_pack_rows, plant_pack_always_to_0},
    {"not_turned", CHECK_packed_scores, plant_packed_scores_as_packed},
    {"first_list", CHECK_packed_scores, plant_packed_scores_first_list},
    {"no_union", CHECK_kept_rows, plant_kept_rows_no_union},
    {"lists_apart", CHECK_kept_rows, plant_kept_rows_apart},
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
    {"one_list", CHECK_keep_rows, plant_keep_rows_one_list},
    {"from_the_end", CHECK_keep_rows, plant_keep_rows_from_the_end},
    {"any_age", CHECK_evict_row, plant_evict_row_of_any_age},
    {"before_weights", CHECK_evict_row, plant_evict_row_before_weights},
    {"first_block", CHECK_attention, plant_attention_first_block},
    {"one_strip", CHECK_pattern_rows, plant_pattern_rows_one_strip},
    {"not_own", CHECK_pattern_rows, plant_pattern_rows_not_own},
    {"page_late", CHECK_choice_rows, plant_choice_rows_page_late},
    {"no_end", CHECK_choice_rows, plant_choice_rows_no_end},
    {"no_last_key", CHECK_page_bounds, plant_page_bounds_no_last_key},
    {"of_all", CHECK_page_bounds, plant_page_bounds_of_all},
    {"one_head", CHECK_page_scores, plant_page_scores_one_head},
    {"from_row_0", CHECK_channel_sums, plant_channel_sums_from_row_0},
    {"one_set", CHECK_pick_channels, plant_pick_channels_one_set},
    {"evenly", CHECK_join_attention, plant_join_attention_evenly},
};
const int check_n_faults = (int)SAC_COUNT(check_faults);
