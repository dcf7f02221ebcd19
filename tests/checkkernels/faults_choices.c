/* faults_choices.c - faults of ops that score, choose, gather and move rows. */
#include "faults.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* What only a head's first list reads. */
static sac_status kv_gather_first_list(const sac_stream *s, const sac_kv_gather_args *a) {
    int each = a->read ? a->read->n_lists / a->src.n_heads : 1;
    sac_kv_gather_args b = *a;
    if (each == 1) return ref().kv_gather(s, a);
    int64_t start[65] = {0}, n = 0;
    int32_t *rows = malloc((size_t)a->read->start[a->read->n_lists] * sizeof *rows + 1);
    if (!rows || a->src.n_heads > 64) abort();
    for (int h = 0; h < a->src.n_heads; h++) {
        for (int64_t j = a->read->start[h * each]; j < a->read->start[h * each + 1]; j++)
            rows[n++] = a->read->rows[j];
        start[h + 1] = n;
    }
    sac_row_lists first = {rows, start, a->src.n_heads};
    b.read = &first;
    sac_status st = ref().kv_gather(s, &b);
    free(rows);
    return st;
}

/* Of equals the last: the row from its end. */
static sac_status top_k_last_of_equals(const sac_stream *s, const sac_top_k_args *a) {
    int64_t k = a->k < a->n ? a->k : a->n;
    float *back = malloc((size_t)a->n * sizeof *back + 1);
    for (int row = 0; row < a->n_rows; row++) {
        for (int64_t i = 0; i < a->n; i++) back[i] = a->scores[row * a->stride + a->n - 1 - i];
        int32_t *found = a->indices + row * k, t;
        ref().top_k(s, &(sac_top_k_args){back, a->n, a->n, 1, k, found, NULL});
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

/* Of equals the last one. */
static sac_status largest_last_of_equals(const sac_stream *s, const sac_largest_args *a) {
    sac_status st = ref().largest(s, a);
    for (int row = 0; row < a->n_rows; row++)
        for (int64_t i = a->at[row]; i < a->n; i++)
            if (a->x[row * a->stride + i] == a->value[row]) a->at[row] = (int32_t)i;
    return st;
}

/* 0 above -0, as their bits are. */
static sac_status largest_by_bits(const sac_stream *s, const sac_largest_args *a) {
    sac_status st = ref().largest(s, a);
    for (int row = 0; row < a->n_rows; row++) {
        const float *x = a->x + row * a->stride;
        int64_t i = a->at[row];
        if (a->value[row] != 0 || !signbit(a->value[row])) continue;
        while (i < a->n && !(x[i] == 0 && !signbit(x[i]))) i++;
        if (i < a->n) a->at[row] = (int32_t)i;
    }
    return st;
}

static sac_status largest_no_last(const sac_stream *s, const sac_largest_args *a) {
    sac_largest_args b = *a;
    if (b.n > 1) b.n--;
    return ref().largest(s, &b);
}

/* What begins with NaN is as any other row. */
static sac_status largest_past_nan(const sac_stream *s, const sac_largest_args *a) {
    sac_status st = ref().largest(s, a);
    for (int row = 0; row < a->n_rows; row++) {
        const float *x = a->x + row * a->stride;
        for (int64_t i = 1; i < a->n && isnan(x[0]); i++)
            if (x[i] > a->value[row]) a->value[row] = x[i], a->at[row] = (int32_t)i;
    }
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

/* Scores as if they were weights. */
static sac_status top_p_scores_as_weights(const sac_stream *s, const sac_top_p_args *a) {
    sac_top_p_args b = *a;
    b.scores = false;
    return ref().top_p(s, &b);
}

/* Of p in single precision: with what is one there, scores that weigh nothing are kept. */
static sac_status top_p_of_float(const sac_stream *s, const sac_top_p_args *a) {
    sac_top_p_args b = *a;
    b.p = (double)(float)a->p;
    return ref().top_p(s, &b);
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

/* What the first list lacks. */
static sac_status mask_scores_first_list(const sac_stream *s, const sac_mask_scores_args *a) {
    sac_mask_scores_args b = *a;
    b.lists.n_lists = 1;
    return ref().mask_scores(s, &b);
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

/* Sums of the first query's softmaxes for all. */
static sac_status key_scores_first_sums(const sac_stream *s, const sac_key_scores_args *a) {
    SAC_TRY(ref().key_scores(s, a));
    for (int i = a->n_heads; a->lse && i < a->n_queries * a->n_heads; i++) a->lse[i] = a->lse[i - a->n_heads];
    return SAC_OK;
}

/* Sums in place of means. */
static sac_status mean_rows_undivided(const sac_stream *s, const sac_mean_rows_args *a) {
    sac_mean_rows_args b = *a;
    b.divisor = 0;
    return ref().mean_rows(s, &b);
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

/* Pairs on the diagonals of the units, which lie beside one another, in place of the antidiagonals. */
static sac_status antidiagonal_sums_of_diagonals(const sac_stream *s, const sac_antidiagonal_sums_args *a) {
    int64_t cols = a->q.cols, n = a->q.rows / a->step * a->step;
    float *turned = calloc((size_t)(a->q.rows * cols), sizeof *turned);
    sac_antidiagonal_sums_args b = *a;
    b.q = sac_mat_f32(turned, a->q.rows, cols);
    for (int64_t r = 0; r < a->q.rows; r++) {
        int64_t from = r < n ? r / a->step * a->step + a->step - 1 - r % a->step : r;
        memcpy(turned + r * cols, sac_mat_row_f32(a->q, from), (size_t)cols * sizeof *turned);
    }
    sac_status st = ref().antidiagonal_sums(s, &b);
    free(turned);
    return st;
}
static sac_status antidiagonal_sums_undivided(const sac_stream *s, const sac_antidiagonal_sums_args *a) {
    sac_antidiagonal_sums_args b = *a;
    b.scale *= (float)a->step;
    return ref().antidiagonal_sums(s, &b);
}
/* A column that the last block of the call alone does not have is left as it was. */
static sac_status antidiagonal_sums_one_less(const sac_stream *s, const sac_antidiagonal_sums_args *a) {
    sac_antidiagonal_sums_args b = *a;
    b.q.rows = a->q.rows > 1 ? a->q.rows - 1 : 1;
    return ref().antidiagonal_sums(s, &b);
}
/* The mask is of the query before. */
static sac_status block_attention_one_less(const sac_stream *s, const sac_block_attention_args *a) {
    sac_block_attention_args b = *a;
    if (a->first % a->block > 0) b.first--;
    return ref().block_attention(s, &b);
}
/* All heads read the first one's lists. */
static sac_status block_attention_one_list(const sac_stream *s, const sac_block_attention_args *a) {
    int64_t n = (a->q.rows + a->block - 1) / a->block, bytes = a->stride * (int64_t)sizeof *a->columns;
    sac_block_attention_args b = *a;
    int32_t *columns = malloc((size_t)(n * a->n_heads * bytes));
    if (!columns) return SAC_NO_MEMORY;
    for (int64_t i = 0; i < n * a->n_heads; i++)
        memcpy(columns + i * a->stride, a->columns + i / a->n_heads * a->n_heads * a->stride, (size_t)bytes);
    b.columns = columns;
    sac_status st = ref().block_attention(s, &b);
    free(columns);
    return st;
}
static sac_status cover_blocks_union(const sac_stream *s, const sac_cover_blocks_args *a) {
    sac_cover_blocks_args b = *a; /* what is always taken comes on top */
    b.n_first = 0;
    sac_status st = ref().cover_blocks(s, &b);
    for (int64_t i = 0; i < a->n_blocks * a->n_heads; i++) {
        int32_t *columns = a->columns + i * a->stride;
        for (int32_t j = 0; j < a->n_first && j < a->stride && columns[j] >= 0; j++)
            if (columns[j] > j) {
                memmove(columns + j + 1, columns + j, (size_t)(a->stride - j - 1) * sizeof *columns);
                columns[j] = j;
            }
    }
    return st;
}
static sac_status cover_blocks_own_only(const sac_stream *s, const sac_cover_blocks_args *a) {
    sac_cover_blocks_args b = *a;
    b.n_local = 1;
    return ref().cover_blocks(s, &b);
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

#define FAULTS(X)                                                                                            \
    X("as_stored", key_scores, key_scores_as_stored)                                                         \
    X("no_list", key_scores, key_scores_no_list)                                                             \
    X("turns_by_row", kv_gather, kv_gather_turns_by_row)                                                     \
    X("first_list", kv_gather, kv_gather_first_list)                                                         \
    X("keys_only", kv_gather, kv_gather_keys_only)                                                           \
    X("last_of_equals", top_k, top_k_last_of_equals)                                                         \
    X("not_ascending", top_k, top_k_not_ascending)                                                           \
    X("last_of_equals", largest, largest_last_of_equals)                                                     \
    X("by_bits", largest, largest_by_bits)                                                                   \
    X("no_last", largest, largest_no_last)                                                                   \
    X("past_nan", largest, largest_past_nan)                                                                 \
    X("ignores_counts", top_p, top_p_ignores_counts)                                                         \
    X("strictly_above", top_p, top_p_strictly_above)                                                         \
    X("scores_as_weights", top_p, top_p_scores_as_weights)                                                   \
    X("of_float", top_p, top_p_of_float)                                                                     \
    X("first_list", mask_scores, mask_scores_first_list)                                                     \
    X("no_union", kept_rows, kept_rows_no_union)                                                             \
    X("lists_apart", kept_rows, kept_rows_apart)                                                             \
    X("sums_past_counts", softmax, softmax_ignores_counts)                                                   \
    X("vote_of_the_best", soft_vote, soft_vote_of_the_best)                                                  \
    X("one_lse", soft_vote, soft_vote_one_lse)                                                               \
    X("first_sums", key_scores, key_scores_first_sums)                                                       \
    X("one_end", key_scores, key_scores_one_end)                                                             \
    X("undivided", mean_rows, mean_rows_undivided)                                                           \
    X("mean_of_all", mean_rows, mean_rows_of_all)                                                            \
    X("writes_all", choice_step, choice_step_writes_all)                                                     \
    X("turned_more", choice_attend, choice_attend_turned_more)                                               \
    X("no_last_row", choice_attend, choice_attend_no_last_row)                                               \
    X("same_end", choice_rows, choice_rows_same_end)                                                         \
    X("one_list", keep_rows, keep_rows_one_list)                                                             \
    X("from_the_end", keep_rows, keep_rows_from_the_end)                                                     \
    X("any_age", evict_row, evict_row_of_any_age)                                                            \
    X("before_weights", evict_row, evict_row_before_weights)                                                 \
    X("one_strip", pattern_rows, pattern_rows_one_strip)                                                     \
    X("not_own", pattern_rows, pattern_rows_not_own)                                                         \
    X("of_diagonals", antidiagonal_sums, antidiagonal_sums_of_diagonals)                                     \
    X("undivided", antidiagonal_sums, antidiagonal_sums_undivided)                                           \
    X("one_less", antidiagonal_sums, antidiagonal_sums_one_less)                                             \
    X("one_less", block_attention, block_attention_one_less)                                                 \
    X("one_list", block_attention, block_attention_one_list)                                                 \
    X("union", cover_blocks, cover_blocks_union)                                                             \
    X("own_only", cover_blocks, cover_blocks_own_only)                                                       \
    X("page_late", choice_rows, choice_rows_page_late)                                                       \
    X("no_end", choice_rows, choice_rows_no_end)                                                             \
    X("no_last_key", page_bounds, page_bounds_no_last_key)                                                   \
    X("of_all", page_bounds, page_bounds_of_all)                                                             \
    X("one_head", page_scores, page_scores_one_head)                                                         \
    X("from_row_0", channel_sums, channel_sums_from_row_0)                                                   \
    X("one_set", pick_channels, pick_channels_one_set)

FAULT_LIST(check_faults_choices, FAULTS)
