/* faults.c - wrong on purpose. A checker that lets one of these pass cannot be trusted with the real ones.
 * Here: what every layer needs. */
#include "faults.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    if (a->w.format != SAC_WEIGHT_FLOATS || a->act != SAC_ACT_NONE) return st;
    for (int64_t i = 0; i < a->y.rows; i++)
        for (int64_t j = 0; j < a->y.cols; j++) {
            uint8_t wk[4] = {0};
            float w;
            size_t element = sac_dtype_row_bytes(a->w.tensor.dtype, 1);
            memcpy(wk + 4 - element,
                   (const char *)a->w.tensor.data + (size_t)((j + 1) * a->x.cols - 1) * element, element);
            memcpy(&w, wk, 4);
            if (a->w.tensor.dtype == SAC_DTYPE_F16) w = sac_f16_to_f32((uint16_t)(wk[2] | wk[3] << 8));
            sac_mat_row_f32(a->y, i)[j] -= sac_mat_row_f32(a->x, i)[a->x.cols - 1] * w;
        }
    return st;
}

/* int8 weights whose zeros are forgotten; groups that are taken for longer than they are. */
static sac_status linear_no_zeros(const sac_stream *s, const sac_linear_args *a) {
    sac_linear_args b = *a;
    b.w.zeros = (sac_tensor){0};
    return ref().linear(s, &b);
}

static sac_status linear_long_groups(const sac_stream *s, const sac_linear_args *a) {
    sac_linear_args b = *a;
    int64_t k = a->x.cols, n_groups = a->w.scales.dim[1];
    if (n_groups > 1 && (k + a->w.group) / (a->w.group + 1) == n_groups) b.w.group++;
    return ref().linear(s, &b);
}

/* Blocks whose third or fifth bits, which lie apart, are forgotten. */
static sac_status linear_no_bits_apart(const sac_stream *s, const sac_linear_args *a) {
    static const struct {
        sac_dtype type;
        size_t at, n;
    } apart[] = {
        {SAC_DTYPE_Q5_0, 2, 4}, {SAC_DTYPE_Q5_1, 4, 4}, {SAC_DTYPE_Q3_K, 0, 32}, {SAC_DTYPE_Q5_K, 16, 32}};
    const sac_tensor *w = &a->w.tensor;
    const size_t n_bytes = sac_weight_part_bytes(w), block = (size_t)sac_dtype_block_bytes(w->dtype);
    size_t i = 0;
    while (i < SAC_COUNT(apart) && apart[i].type != w->dtype) i++;
    uint8_t *copy = i < SAC_COUNT(apart) ? malloc(n_bytes) : NULL;
    if (!copy) return ref().linear(s, a);
    memcpy(copy, w->data, n_bytes);
    for (size_t at = apart[i].at; at < n_bytes; at += block) memset(copy + at, 0, apart[i].n);
    sac_linear_args b = *a;
    b.w.tensor.data = copy;
    sac_status st = ref().linear(s, &b);
    free(copy);
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

static sac_status swiglu_always_silu(const sac_stream *s, const sac_swiglu_args *a) {
    sac_swiglu_args b = *a;
    b.act = SAC_ACT_NONE;
    return ref().swiglu(s, &b);
}
static sac_status swiglu_gate_for_up(const sac_stream *s, const sac_swiglu_args *a) {
    sac_swiglu_args b = *a;
    if (!a->up.data) b.up = a->gate;
    return ref().swiglu(s, &b);
}
static sac_status embed_unscaled(const sac_stream *s, const sac_embed_args *a) {
    sac_embed_args b = *a;
    b.scale = 0;
    return ref().embed(s, &b);
}
static sac_status scale_add_no_factor(const sac_stream *s, const sac_scale_add_args *a) {
    sac_scale_add_args b = *a;
    b.factor = 0;
    return ref().scale_add(s, &b);
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

/* Of the first tile only. */
static sac_status blend_first_tile(const sac_stream *s, const sac_blend_rows_args *a) {
    sac_blend_rows_args b = *a;
    b.y.rows /= a->n_tiles;
    if (!a->shared) b.x.rows /= a->n_tiles;
    b.n_tiles = 1;
    return ref().blend_rows(s, &b);
}
static sac_status blend_no_sum(const sac_stream *s, const sac_blend_rows_args *a) {
    sac_blend_rows_args b = *a;
    b.accumulate = false;
    return ref().blend_rows(s, &b);
}
static sac_status scale_add_last_column(const sac_stream *s, const sac_scale_add_args *a) {
    sac_scale_add_args b = *a;
    b.y.cols = --b.x.cols;
    if (!b.y.cols) return SAC_OK; /* of one column none is left */
    return ref().scale_add(s, &b);
}
static sac_status scatter_no_sum(const sac_stream *s, const sac_scatter_rows_args *a) {
    sac_scatter_rows_args b = *a;
    b.accumulate = false;
    return ref().scatter_rows(s, &b);
}

/* Reads head h % n_kv_heads: right for one head, wrong for a group. Heads go one by one through the
 * reference. */
/* The other 16-bit type. */
static sac_status convert_other_type(const sac_stream *s, const sac_convert_rows_args *a) {
    sac_convert_rows_args b = *a;
    if (b.y.dtype != SAC_DTYPE_F32) b.y.dtype = b.y.dtype == SAC_DTYPE_F16 ? SAC_DTYPE_BF16 : SAC_DTYPE_F16;
    return ref().convert_rows(s, &b);
}
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

static sac_status attention_no_spans(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    b.n_spans = 0;
    return ref().attention(s, &b);
}
static sac_status attention_last_span(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    b.n_spans = a->n_spans ? a->n_spans - 1 : 0;
    return ref().attention(s, &b);
}
static sac_status attention_no_cap(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    b.softcap = 0;
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

/* Every sequence with lists reads those of the first. */
static sac_status attention_many_one_list(const sac_stream *s, const sac_attention_many_args *a) {
    sac_attention_args each[CHECK_MAX_MANY];
    for (int i = 0; i < a->n; i++) {
        each[i] = a->each[i];
        if (each[i].lists) each[i].lists = a->each[0].lists;
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

/* Every segment is as long as the first. */
static sac_status attention_first_length(const sac_stream *s, const sac_attention_args *a) {
    int32_t start[CHECK_MAX_SEGMENTS + 1];
    sac_attention_args b = *a;
    for (int64_t i = 0; a->segment_start && i <= a->n_segments; i++) {
        start[i] = a->segment_start[0] + (int32_t)i * (a->segment_start[1] - a->segment_start[0]);
        if (start[i] > a->q.rows) start[i] = (int32_t)a->q.rows;
    }
    if (a->segment_start) b.segment_start = start;
    return ref().attention(s, &b);
}

/* The rows of all segments see one another. */
static sac_status attention_one_segment(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    int32_t whole[2] = {0};
    if (a->segment_start) {
        whole[0] = a->segment_start[0], whole[1] = a->segment_start[a->n_segments];
        b.segment_start = whole, b.n_segments = 1;
    }
    return ref().attention(s, &b);
}

/* Blocks of queries read the lists of the first. */
static sac_status attention_first_block(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    b.list_block = 0;
    return ref().attention(s, &b);
}

/* Pages one after another, whatever the table says. */
static sac_status attention_pages_in_order(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    int32_t in_order[2048];
    for (int i = 0; i < 2048; i++) in_order[i] = i;
    if (a->kv.pages) b.kv.pages = in_order;
    return ref().attention(s, &b);
}

/* The mean, whatever weighs more. */
static sac_status join_attention_evenly(const sac_stream *s, const sac_join_attention_args *a) {
    sac_join_attention_args b = *a;
    b.other_lse = a->lse;
    return ref().join_attention(s, &b);
}

static sac_status gate_no_last_row(const sac_stream *s, const sac_gate_up_step_args *a) {
    sac_gate_up_step_args b = *a;
    if (b.x.rows > 1) b.x.rows--, b.y.rows--;
    return ref().gate_up_step(s, &b);
}

static sac_status out_no_last_row(const sac_stream *s, const sac_out_step_args *a) {
    sac_out_step_args b = *a;
    if (b.x.rows > 1) b.x.rows--, b.o.rows--, b.wide.rows--;
    return ref().out_step(s, &b);
}
static sac_status out_no_bias(const sac_stream *s, const sac_out_step_args *a) {
    sac_out_step_args b = *a;
    b.o_bias = NULL;
    return ref().out_step(s, &b);
}
static sac_status out_other_eps(const sac_stream *s, const sac_out_step_args *a) {
    sac_out_step_args b = *a;
    b.eps += 0.1f;
    return ref().out_step(s, &b);
}
/* The MLP sees the rows as they were before attention was added. */
static sac_status out_norm_too_early(const sac_stream *s, const sac_out_step_args *a) {
    sac_weight none = a->wo;
    float *zeros = calloc((size_t)(none.tensor.dim[0] * none.tensor.dim[1]), sizeof *zeros);
    if (!zeros) return SAC_NO_MEMORY;
    none.tensor.data = zeros;
    sac_out_step_args early = *a;
    early.wo = none, early.o_bias = NULL;
    sac_status st = ref().out_step(s, &early);
    free(zeros);
    if (st != SAC_OK) return st;
    return ref().linear(
        s, &(sac_linear_args){.y = a->x, .x = a->o, .w = a->wo, .bias = a->o_bias, .accumulate = true});
}

static sac_status group_no_last_part(const sac_stream *s, const sac_linear_group_args *a) {
    sac_linear_group_args b = *a;
    b.n--;
    return ref().linear_group(s, &b);
}

#define FAULTS(X)                                                                                            \
    X("dropped_tail", rmsnorm, rmsnorm_dropped_tail)                                                         \
    X("nan", linear, linear_nan)                                                                             \
    X("no_zeros", linear, linear_no_zeros)                                                                   \
    X("long_groups", linear, linear_long_groups)                                                             \
    X("dropped_k", linear, linear_dropped_k)                                                                 \
    X("no_bits_apart", linear, linear_no_bits_apart)                                                         \
    X("drift_1e-4", linear, linear_drift)                                                                    \
    X("unsteady_bits", linear, linear_unsteady)                                                              \
    X("one_byte_past", swiglu, swiglu_one_past)                                                              \
    X("write_in_gap", layernorm, layernorm_in_gap)                                                           \
    X("input_changed", gather_rows, gather_changes_input)                                                    \
    X("first_tile", blend_rows, blend_first_tile)                                                            \
    X("no_sum", blend_rows, blend_no_sum)                                                                    \
    X("last_column", scale_add, scale_add_last_column)                                                       \
    X("no_sum", scatter_rows, scatter_no_sum)                                                                \
    X("other_type", convert_rows, convert_other_type)                                                        \
    X("wrong_gqa_head", attention, attention_wrong_head)                                                     \
    X("sees_next_key", attention, attention_sees_next)                                                       \
    X("gate_times_itself", swiglu, swiglu_gate_for_up)                                                  \
    X("always_silu", swiglu, swiglu_always_silu)                                                             \
    X("unscaled", embed, embed_unscaled)                                                                     \
    X("no_factor", scale_add, scale_add_no_factor)                                                           \
    X("no_spans", attention, attention_no_spans)                                                             \
    X("last_span", attention, attention_last_span)                                                           \
    X("no_cap", attention, attention_no_cap)                                                                 \
    X("no_rest", rope, rope_no_rest)                                                                         \
    X("no_last_part", linear_group, group_no_last_part)                                                      \
    X("no_last_row", gate_up_step, gate_no_last_row)                                                         \
    X("no_last_row", out_step, out_no_last_row)                                                              \
    X("no_bias", out_step, out_no_bias)                                                                      \
    X("other_eps", out_step, out_other_eps)                                                                  \
    X("norm_too_early", out_step, out_norm_too_early)                                                        \
    X("one_position", store_many, store_many_one_position)                                                   \
    X("one_view", attention_many, attention_many_one_view)                                                   \
    X("one_list", attention_many, attention_many_one_list)                                                   \
    X("no_last_row", attention_many, attention_many_no_last_row)                                             \
    X("back_with_factor", rope, rope_back_with_factor)                                                       \
    X("lse_log2", attention, attention_lse_log2)                                                             \
    X("first_list", attention, attention_first_list)                                                         \
    X("one_late", attention_sums, attention_sums_one_late)                                                   \
    X("all_probes", attention_sums, attention_sums_all_probes)                                               \
    X("shifted_diagonal", attention_sums, attention_sums_shifted_diagonal)                                   \
    X("first_keys", attention, attention_first_keys)                                                         \
    X("first_block", attention, attention_first_block)                                                       \
    X("first_length", attention, attention_first_length)                                                     \
    X("one_segment", attention, attention_one_segment)                                                       \
    X("pages_in_order", attention, attention_pages_in_order)                                                 \
    X("evenly", join_attention, join_attention_evenly)

FAULT_LIST(check_faults_layers, FAULTS)
