/* cuda_faults.c - the real kernels, then something wrong: a checker that lets one pass cannot be trusted. */
#include "cuda_twin.h"
#include "even_tiles.h"
#include "faults.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Copies n bytes of the device here, or back. */
static void fetch(const sac_stream *s, void *to, const void *from, size_t n) {
    s->device->download(s, to, from, n);
    s->device->stream_sync(s, NULL);
}
static void put(const sac_stream *s, void *to, const void *from, size_t n) {
    s->device->upload(s, to, from, n);
    s->device->stream_sync(s, NULL);
}
static uint8_t *element_at(sac_mat m, int64_t row, int64_t col) {
    return (uint8_t *)m.data + (size_t)(row * m.stride + col) * sac_dtype_row_bytes(m.dtype, 1);
}
static float get(const sac_stream *s, sac_mat m, int64_t row, int64_t col) {
    uint8_t e[4];
    fetch(s, e, element_at(m, row, col), sac_dtype_row_bytes(m.dtype, 1));
    return (float)check_element(m.dtype, e, 0);
}
static void change(const sac_stream *s, sac_mat m, int64_t row, int64_t col, float f) {
    uint16_t h = m.dtype == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
    put(s, element_at(m, row, col), m.dtype == SAC_DTYPE_F32 ? (void *)&f : (void *)&h,
        sac_dtype_row_bytes(m.dtype, 1));
}

static sac_status linear_nan(const sac_stream *s, const sac_linear_args *a) {
    sac_status st = sac_cuda_linear(s, a);
    if (st == SAC_OK) change(s, a->y, a->y.rows - 1, a->y.cols - 1, NAN);
    return st;
}
static sac_status linear_drift(const sac_stream *s,
                               const sac_linear_args *a) { /* 5 %: more than bf16 rounds */
    sac_status st = sac_cuda_linear(s, a);
    if (st == SAC_OK) change(s, a->y, 0, 0, 1.05f * get(s, a->y, 0, 0));
    return st;
}
static sac_status linear_unsteady(const sac_stream *s, const sac_linear_args *a) {
    static int calls;
    uint8_t e;
    sac_status st = sac_cuda_linear(s, a);
    fetch(s, &e, element_at(a->y, 0, 0), 1);
    e ^= (uint8_t)(calls++ & 1);
    put(s, element_at(a->y, 0, 0), &e, 1);
    return st;
}
static sac_status rmsnorm_dropped_tail(const sac_stream *s, const sac_rmsnorm_args *a) {
    float before = get(s, a->y, a->y.rows - 1, a->y.cols - 1);
    sac_status st = sac_cuda_rmsnorm(s, a);
    change(s, a->y, a->y.rows - 1, a->y.cols - 1, before);
    return st;
}
static sac_status swiglu_one_past(const sac_stream *s, const sac_swiglu_args *a) {
    uint8_t e;
    sac_status st = sac_cuda_swiglu(s, a);
    uint8_t *end = element_at(a->y, a->y.rows - 1, a->y.cols);
    fetch(s, &e, end, 1);
    e ^= 1;
    put(s, end, &e, 1);
    return st;
}
static sac_status layernorm_in_gap(const sac_stream *s, const sac_layernorm_args *a) {
    sac_status st = sac_cuda_layernorm(s, a);
    if (a->y.stride > a->y.cols && a->y.rows > 1) change(s, a->y, 0, a->y.stride - 1, 0);
    return st;
}
static sac_status gather_changes_input(const sac_stream *s, const sac_gather_rows_args *a) {
    sac_status st = sac_cuda_gather_rows(s, a);
    change(s, a->x, 0, 0, 1 + get(s, a->x, 0, 0));
    return st;
}
/* Of the first tile only. */
static sac_status blend_first_tile(const sac_stream *s, const sac_blend_rows_args *a) {
    sac_blend_rows_args b = *a;
    b.y.rows /= a->n_tiles;
    if (!a->shared) b.x.rows /= a->n_tiles;
    b.n_tiles = 1;
    return sac_cuda_blend_rows(s, &b);
}
static sac_status blend_no_sum(const sac_stream *s, const sac_blend_rows_args *a) {
    sac_blend_rows_args b = *a;
    b.accumulate = false;
    return sac_cuda_blend_rows(s, &b);
}
static sac_status scale_add_last_column(const sac_stream *s, const sac_scale_add_args *a) {
    sac_scale_add_args b = *a;
    b.y.cols = --b.x.cols;
    if (!b.y.cols) return SAC_OK; /* of one column none is left */
    return sac_cuda_scale_add(s, &b);
}
/* Every part goes on from the first one's state. */
static sac_status conv_first_state(const sac_stream *s, const sac_causal_conv_args *a) {
    sac_causal_conv_args b = *a;
    sac_state_rows parts[CHECK_MAX_MANY];
    for (int i = 0; i < a->n_parts; i++) parts[i] = (sac_state_rows){a->parts[i].n, a->parts[0].state};
    b.parts = parts;
    return sac_cuda_causal_conv(s, &b);
}
static sac_status delta_gates_exchanged(const sac_stream *s, const sac_delta_rule_args *a) {
    sac_delta_rule_args b = *a;
    b.a = a->b, b.b = a->a;
    return sac_cuda_delta_rule(s, &b);
}
static sac_status delta_no_last_part(const sac_stream *s, const sac_delta_rule_args *a) {
    sac_delta_rule_args b = *a;
    b.n_parts--;
    return sac_cuda_delta_rule(s, &b);
}
static sac_status scatter_no_sum(const sac_stream *s, const sac_scatter_rows_args *a) {
    sac_scatter_rows_args b = *a;
    b.accumulate = false;
    return sac_cuda_scatter_rows(s, &b);
}
static sac_status attention_wrong_head(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a; /* heads in reverse */
    size_t last = (size_t)((a->kv.n_heads - 1) * a->kv.head_stride) * sac_dtype_row_bytes(a->kv.dtype, 1);
    b.kv.k = (char *)a->kv.k + last;
    b.kv.head_stride = -a->kv.head_stride;
    b.kv.v = (char *)a->kv.v + last;
    return sac_cuda_attention(s, &b);
}
static sac_status attention_sees_next(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    b.first++;
    return sac_cuda_attention(s, &b);
}
static sac_status attention_no_cap(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    b.softcap = 0;
    return sac_cuda_attention(s, &b);
}
static sac_status attention_other_cap(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    b.softcap *= 1.25f;
    return sac_cuda_attention(s, &b);
}
/* Only where heads have more than 128 channels. */
static sac_status attention_wide_wider_window(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    if (a->window && a->kv.head_dim > 128) b.window++;
    return sac_cuda_attention(s, &b);
}
static sac_status attention_no_spans(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    b.n_spans = 0;
    return sac_cuda_attention(s, &b);
}
/* In the kernel for Hopper, where the card is one and it takes the case. */
static sac_status attention_hopper_sees_next(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    b.first++;
    if (s->device->compute != 90) return sac_cuda_attention(s, &b);
    sac_status st = sac_cuda_attention_hopper(s, &b);
    return st == SAC_UNSUPPORTED ? sac_cuda_attention(s, a) : st;
}
static sac_status attention_hopper_no_last_tile(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    if (a->n_kv > 128 && !a->causal) b.n_kv = (a->n_kv - 1) / 128 * 128;
    if (s->device->compute != 90) return sac_cuda_attention(s, &b);
    sac_status st = sac_cuda_attention_hopper(s, &b);
    return st == SAC_UNSUPPORTED ? sac_cuda_attention(s, a) : st;
}
static sac_status attention_spread_sees_next(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    b.first++;
    if (s->device->compute != 90) return sac_cuda_attention(s, &b);
    sac_status st = sac_cuda_attention_spread(s, &b);
    return st == SAC_UNSUPPORTED ? sac_cuda_attention(s, a) : st;
}
static sac_status rope_no_rest(const sac_stream *s, const sac_rope_args *a) {
    sac_rope_args b = *a;
    b.rotation.rot_dim = a->rotation.rot_dim / 16 * 16;
    if (b.rotation.rot_dim == a->rotation.rot_dim || b.rotation.rot_dim == 0) return sac_cuda_rope(s, a);
    return SAC_OK;
}

static sac_status pack_no_channel(const sac_stream *s, const sac_pack_rows_args *a) {
    sac_pack_rows_args b = *a;
    b.p.v_channel = NULL;
    return sac_cuda_pack_rows(s, &b);
}
/* Sums in place of means. */
static sac_status mean_rows_undivided(const sac_stream *s, const sac_mean_rows_args *a) {
    sac_mean_rows_args b = *a;
    b.divisor = 0;
    return sac_cuda_mean_rows(s, &b);
}
/* Every row begins the part anew. */
static sac_status pack_always_to_0(const sac_stream *s, const sac_pack_rows_args *a) {
    sac_pack_rows_args b = *a;
    b.to = 0;
    b.p.n = a->rows.n;
    return sac_cuda_pack_rows(s, &b);
}
/* The first rows of the part in place of those from `from` on. */
static sac_status unpack_from_0(const sac_stream *s, const sac_unpack_rows_args *a) {
    sac_unpack_rows_args b = *a;
    b.from = 0;
    return sac_cuda_unpack_rows(s, &b);
}
static sac_status pack_channels_no_list(const sac_stream *s, const sac_pack_channels_args *a) {
    sac_pack_channels_args b = *a;
    b.rows.rows = NULL;
    return sac_cuda_pack_channels(s, &b);
}
/* Keys for values. */
static sac_status factors_exchanged(const sac_stream *s, const sac_even_factors_args *a) {
    sac_even_factors_args b = *a;
    b.kv.k = a->kv.v, b.kv.v = a->kv.k;
    return sac_cuda_even_factors(s, &b);
}

/* The first tile's rows for all tiles. */
static sac_status pack_even_first_rows(const sac_stream *s, const sac_pack_even_args *a) {
    const size_t bytes = sac_even_tile_bytes(a->tiles.n_heads, a->tiles.head_dim, a->tiles.k_bits, a->tiles.v_bits);
    sac_pack_even_args b = *a;
    b.tiles.n = 1;
    for (int64_t i = 0; i < a->tiles.n; i++, b.tiles.at += bytes) SAC_TRY(sac_cuda_pack_even(s, &b));
    return SAC_OK;
}

static sac_status unpack_even_no_last(const sac_stream *s, const sac_unpack_even_args *a) {
    sac_unpack_even_args b = *a;
    b.tiles.n--;
    return sac_cuda_unpack_even(s, &b);
}

static sac_status even_step_no_first(const sac_stream *s, const sac_even_step_args *a) {
    sac_even_step_args b = *a;
    if (b.tiles[1].n + b.tail.n_rows) b.tiles[0].n = 0;
    return sac_cuda_even_step(s, &b);
}

static sac_status even_step_no_last_row(const sac_stream *s, const sac_even_step_args *a) {
    sac_even_step_args b = *a;
    if (b.tail.n_rows > 1) b.tail.n_rows--;
    return sac_cuda_even_step(s, &b);
}

static sac_status packed_step_no_last_row(const sac_stream *s, const sac_packed_step_args *a) {
    sac_packed_step_args b = *a;
    if (b.tail.n_rows > 1) b.tail.n_rows--;
    return sac_cuda_packed_step(s, &b);
}

/* Every token stands where the first one does. */
static sac_status store_many_one_position(const sac_stream *s, const sac_store_many_args *a) {
    sac_token_store each[CHECK_MAX_MANY];
    for (int i = 0; i < a->n; i++) {
        each[i] = a->each[i];
        each[i].pos = a->each[0].pos;
    }
    return sac_cuda_store_many(s, &(sac_store_many_args){each, a->n});
}

/* Every sequence has the first one's keys. */
static sac_status attention_many_one_view(const sac_stream *s, const sac_attention_many_args *a) {
    sac_attention_args each[CHECK_MAX_MANY];
    for (int i = 0; i < a->n; i++) {
        each[i] = a->each[i];
        each[i].kv.k = a->each[0].kv.k;
    }
    return sac_cuda_attention_many(s, &(sac_attention_many_args){each, a->n});
}

/* Every sequence with lists reads those of the first. */
static sac_status attention_many_one_list(const sac_stream *s, const sac_attention_many_args *a) {
    sac_attention_args each[CHECK_MAX_MANY];
    for (int i = 0; i < a->n; i++) {
        each[i] = a->each[i];
        if (each[i].lists) each[i].lists = a->each[0].lists;
    }
    return sac_cuda_attention_many(s, &(sac_attention_many_args){each, a->n});
}

/* The last sequence has no key of its own token. */
static sac_status attention_many_no_last_row(const sac_stream *s, const sac_attention_many_args *a) {
    sac_attention_args each[CHECK_MAX_MANY];
    for (int i = 0; i < a->n; i++) each[i] = a->each[i];
    if (each[a->n - 1].n_kv > 1) each[a->n - 1].n_kv--, each[a->n - 1].first--;
    return sac_cuda_attention_many(s, &(sac_attention_many_args){each, a->n});
}

/* Takes the smallest weights for the parts' denominators. */
static sac_status packed_step_other_lse(const sac_stream *s, const sac_packed_step_args *a) {
    sac_packed_step_args b = *a;
    b.lse_parts = a->least;
    return sac_cuda_packed_step(s, &b);
}

/* Every sequence has as much of a tail as the first one. */
static sac_status packed_step_many_one_tail(const sac_stream *s, const sac_packed_step_many_args *a) {
    sac_packed_step_args each[CHECK_MAX_MANY];
    for (int i = 0; i < a->n; i++) {
        each[i] = a->each[i];
        each[i].tail.n_rows = a->each[0].tail.n_rows;
    }
    return sac_cuda_packed_step_many(s, &(sac_packed_step_many_args){each, a->n});
}

static sac_status attention_first_block(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    b.list_block = 0;
    return sac_cuda_attention(s, &b);
}
static sac_status keep_rows_one_less(const sac_stream *s, const sac_keep_rows_args *a) {
    sac_keep_rows_args b = *a;
    if (a->n_lists == 1) b.n--;
    return sac_cuda_keep_rows(s, &b);
}
static sac_status evict_row_of_any_age(const sac_stream *s, const sac_evict_row_args *a) {
    sac_evict_row_args b = *a;
    b.recent_from = INT32_MAX;
    return sac_cuda_evict_row(s, &b);
}
static sac_status pattern_rows_not_own(const sac_stream *s, const sac_pattern_rows_args *a) {
    sac_pattern_rows_args b = *a;
    b.own = false;
    return sac_cuda_pattern_rows(s, &b);
}
static sac_status antidiagonal_sums_undivided(const sac_stream *s, const sac_antidiagonal_sums_args *a) {
    sac_antidiagonal_sums_args b = *a;
    b.scale *= (float)a->step;
    return sac_cuda_antidiagonal_sums(s, &b);
}
/* Cards without such a kernel fail all the same. */
static sac_status block_attention_one_less(const sac_stream *s, const sac_block_attention_args *a) {
    sac_block_attention_args b = *a;
    if (a->first % a->block > 0) b.first--;
    sac_status st = sac_cuda_block_attention(s, &b);
    return st == SAC_UNSUPPORTED && s->device->compute != 90 ? SAC_INTERNAL : st;
}
static sac_status cover_blocks_own_only(const sac_stream *s, const sac_cover_blocks_args *a) {
    sac_cover_blocks_args b = *a;
    b.n_local = 1;
    return sac_cuda_cover_blocks(s, &b);
}
static sac_status packed_scores_as_packed(const sac_stream *s, const sac_packed_scores_args *a) {
    sac_packed_scores_args b = *a;
    b.turn_back = NULL;
    return sac_cuda_packed_scores(s, &b);
}
static sac_status packed_scores_from_row_0(const sac_stream *s, const sac_packed_scores_args *a) {
    sac_packed_scores_args b = *a;
    b.first = 0;
    return sac_cuda_packed_scores(s, &b);
}
/* Each head's vote is as if its last row were not there. */
static sac_status packed_vote_no_last_row(const sac_stream *s, const sac_packed_vote_args *a) {
    sac_packed_vote_args b = *a;
    SAC_TRY(sac_cuda_packed_vote(s, a));
    b.n = a->n - 1;
    return b.n > 0 ? sac_cuda_packed_vote(s, &b) : SAC_OK;
}
static sac_status packed_vote_from_row_0(const sac_stream *s, const sac_packed_vote_args *a) {
    sac_packed_vote_args b = *a;
    b.first = 0;
    return sac_cuda_packed_vote(s, &b);
}
static sac_status top_k_not_skipped(const sac_stream *s, const sac_top_k_args *a) {
    sac_top_k_args b = *a;
    b.skip = NULL;
    return sac_cuda_top_k(s, &b);
}
static sac_status largest_no_last(const sac_stream *s, const sac_largest_args *a) {
    sac_largest_args b = *a;
    if (b.n > 1) b.n--;
    return sac_cuda_largest(s, &b);
}
static sac_status largest_first_row(const sac_stream *s, const sac_largest_args *a) {
    sac_largest_args b = *a;
    b.stride = 0;
    return sac_cuda_largest(s, &b);
}
static sac_status edit_scores_no_mask(const sac_stream *s, const sac_edit_scores_args *a) {
    sac_edit_scores_args b = *a;
    b.is_masked = NULL;
    return sac_cuda_edit_scores(s, &b);
}
static sac_status edit_scores_one_list(const sac_stream *s, const sac_edit_scores_args *a) {
    sac_edit_scores_args b = *a;
    b.edit_stride = 0;
    return sac_cuda_edit_scores(s, &b);
}
static sac_status weigh_scores_no_last(const sac_stream *s, const sac_weigh_scores_args *a) {
    sac_weigh_scores_args b = *a;
    if (b.n > 1) b.n--;
    return sac_cuda_weigh_scores(s, &b);
}
static sac_status weigh_scores_one_best(const sac_stream *s, const sac_weigh_scores_args *a) {
    sac_weigh_scores_args b = *a;
    if (b.n_rows > 1) b.best++, b.n_rows--;
    return sac_cuda_weigh_scores(s, &b);
}
static sac_status choice_reuse_less_alike(const sac_stream *s, const sac_choice_reuse_args *a) {
    sac_choice_reuse_args b = *a;
    b.theta *= 0.9;
    return sac_cuda_choice_reuse(s, &b);
}
static sac_status kept_rows_places(const sac_stream *s, const sac_kept_rows_args *a) {
    sac_kept_rows_args b = *a; /* in place of the rows that stand there */
    b.from = NULL;
    return sac_cuda_kept_rows(s, &b);
}
static sac_status mask_scores_first_list(const sac_stream *s, const sac_mask_scores_args *a) {
    sac_mask_scores_args b = *a;
    b.lists.n_lists = 1;
    return sac_cuda_mask_scores(s, &b);
}
static sac_status top_p_scores_as_weights(const sac_stream *s, const sac_top_p_args *a) {
    sac_top_p_args b = *a;
    b.scores = false;
    return sac_cuda_top_p(s, &b);
}
static sac_status attention_first_list(const sac_stream *s, const sac_attention_args *a) {
    sac_attention_args b = *a;
    sac_row_lists first;
    if (a->lists) {
        first = (sac_row_lists){a->lists->rows, a->lists->start, 1};
        b.lists = &first;
    }
    return sac_cuda_attention(s, &b);
}

/* Sums over as many keys as the first query has. */
static sac_status key_scores_first_sums(const sac_stream *s, const sac_key_scores_args *a) {
    sac_softmax_args sums = {.scores = a->scores,
                             .stride = a->stride,
                             .n = a->n,
                             .n_rows = a->n_queries * a->n_heads,
                             .lse = a->lse,
                             .skip = a->skip};
    SAC_TRY(sac_cuda_key_scores(s, a));
    return a->lse && a->n_queries > 1 ? sac_cuda_softmax(s, &sums) : SAC_OK;
}

/* Rows of x that are rounded to an unchanging scale are cut off at a quarter of what they should be. */
static sac_status gate_other_scale(const sac_stream *s, const sac_gate_up_step_args *a) {
    sac_gate_up_step_args b = *a;
    b.gate.x_scale *= 0.25f, b.up.x_scale *= 0.25f;
    return sac_cuda_gate_up_step(s, &b);
}
static sac_status qkv_other_scale(const sac_stream *s, const sac_qkv_step_args *a) {
    sac_qkv_step_args b = *a;
    b.wq.x_scale *= 0.25f, b.wk.x_scale *= 0.25f, b.wv.x_scale *= 0.25f;
    return sac_cuda_qkv_step(s, &b);
}
static sac_status gate_no_last_row(const sac_stream *s, const sac_gate_up_step_args *a) {
    sac_gate_up_step_args b = *a;
    if (b.x.rows > 1) b.x.rows--, b.y.rows--;
    return sac_cuda_gate_up_step(s, &b);
}

/* The ops that it joins, where no kernel does it in one go. */
static sac_status out_step(const sac_stream *s, const sac_out_step_args *a) {
    const sac_status st = sac_cuda_out_step(s, a);
    if (st != SAC_UNSUPPORTED || a->wo.format == SAC_WEIGHT_FLOATS) return st;
    const sac_linear_args first = {.y = a->x, .x = a->o, .w = a->wo, .bias = a->o_bias, .accumulate = true},
                          last = {.y = a->x, .x = a->wide, .w = a->down, .accumulate = true};
    const sac_gate_up_step_args gate = {
        .y = a->wide, .x = a->x, .norm = a->norm, .eps = a->eps, .gate = a->gate, .up = a->up};
    SAC_TRY(sac_cuda_linear(s, &first));
    SAC_TRY(sac_cuda_gate_up_step(s, &gate));
    return sac_cuda_linear(s, &last);
}
static sac_status out_no_last_row(const sac_stream *s, const sac_out_step_args *a) {
    sac_out_step_args b = *a;
    if (b.x.rows > 1) b.x.rows--, b.o.rows--, b.wide.rows--;
    return out_step(s, &b);
}
static sac_status out_no_bias(const sac_stream *s, const sac_out_step_args *a) {
    sac_out_step_args b = *a;
    b.o_bias = NULL;
    return out_step(s, &b);
}
/* Squares of rows with outliers are about 70 in the mean. */
static sac_status out_other_eps(const sac_stream *s, const sac_out_step_args *a) {
    sac_out_step_args b = *a;
    b.eps += 100;
    return out_step(s, &b);
}
static sac_status out_one_scale(const sac_stream *s, const sac_out_step_args *a) {
    sac_out_step_args b = *a;
    b.gate.x_scale = b.up.x_scale = b.down.x_scale = a->wo.x_scale;
    return out_step(s, &b);
}

/* Weights in blocks begin 16 bytes late. */
static sac_status linear_moved_blocks(const sac_stream *s, const sac_linear_args *a) {
    sac_linear_args b = *a;
    if (a->w.format == SAC_WEIGHT_FLOATS) return sac_cuda_linear(s, a);
    b.w.tensor.data = (const uint8_t *)a->w.tensor.data + 16;
    return sac_cuda_linear(s, &b);
}
/* Rows of x as they are, where a checkpoint wants them rounded; inputs in the file's order, where weights are not. */
static sac_status linear_not_rounded(const sac_stream *s, const sac_linear_args *a) {
    sac_linear_args b = *a;
    b.w.x_rounding = SAC_X_EXACT;
    return sac_cuda_linear(s, &b);
}
static sac_status linear_not_ordered(const sac_stream *s, const sac_linear_args *a) {
    sac_linear_args b = *a;
    b.w.order.data = NULL;
    return sac_cuda_linear(s, &b);
}
static sac_status group_not_rounded(const sac_stream *s, const sac_linear_group_args *a) {
    sac_linear_group_args b = *a;
    for (int i = 0; i < b.n; i++) b.w[i].x_rounding = SAC_X_EXACT;
    return sac_cuda_linear_group(s, &b);
}
static sac_status embed_moved_blocks(const sac_stream *s, const sac_embed_args *a) {
    sac_embed_args b = *a;
    if (a->table.format == SAC_WEIGHT_FLOATS) return sac_cuda_embed(s, a);
    b.table.tensor.data = (const uint8_t *)a->table.tensor.data + 16;
    return sac_cuda_embed(s, &b);
}

static sac_status experts_first_of_all(const sac_stream *s, const sac_expert_linear_args *a) {
    sac_expert_linear_args b = *a;
    b.w_step = 0;
    return sac_cuda_expert_linear(s, &b);
}
static sac_status route_never_normed(const sac_stream *s, const sac_route_args *a) {
    sac_route_args b = *a;
    b.normed = false;
    return sac_cuda_route(s, &b);
}
static sac_status route_one_group(const sac_stream *s, const sac_route_args *a) {
    sac_route_args b = *a;
    b.n_groups = 0;
    return sac_cuda_route(s, &b);
}
static sac_status mix_forgets_y(const sac_stream *s, const sac_mix_rows_args *a) {
    sac_mix_rows_args b = *a;
    b.accumulate = false;
    return sac_cuda_mix_rows(s, &b);
}

static sac_status group_no_last_part(const sac_stream *s, const sac_linear_group_args *a) {
    sac_linear_group_args b = *a;
    b.n--;
    return sac_cuda_linear_group(s, &b);
}

#define FAULTS(X)                                                                                            \
    X("nan", linear, linear_nan)                                                                             \
    X("drift_5%", linear, linear_drift)                                                                      \
    X("unsteady_bits", linear, linear_unsteady)                                                              \
    X("moved_blocks", linear, linear_moved_blocks)                                                           \
    X("not_rounded", linear, linear_not_rounded)                                                             \
    X("not_ordered", linear, linear_not_ordered)                                                             \
    X("not_rounded", linear_group, group_not_rounded)                                                        \
    X("moved_blocks", embed, embed_moved_blocks)                                                             \
    X("dropped_tail", rmsnorm, rmsnorm_dropped_tail)                                                         \
    X("one_byte_past", swiglu, swiglu_one_past)                                                              \
    X("write_in_gap", layernorm, layernorm_in_gap)                                                           \
    X("input_changed", gather_rows, gather_changes_input)                                                    \
    X("first_tile", blend_rows, blend_first_tile)                                                            \
    X("no_sum", blend_rows, blend_no_sum)                                                                    \
    X("last_column", scale_add, scale_add_last_column)                                                       \
    X("no_sum", scatter_rows, scatter_no_sum)                                                                \
    X("first_state", causal_conv, conv_first_state)                                                          \
    X("gates_exchanged", delta_rule, delta_gates_exchanged)                                                  \
    X("no_last_part", delta_rule, delta_no_last_part)                                                        \
    X("wrong_kv_head", attention, attention_wrong_head)                                                      \
    X("sees_next_key", attention, attention_sees_next)                                                       \
    X("no_cap", attention, attention_no_cap)                                                                 \
    X("other_cap", attention, attention_other_cap)                                                           \
    X("wide_wider_window", attention, attention_wide_wider_window)                                           \
    X("no_spans", attention, attention_no_spans)                                                             \
    X("hopper_sees_next_key", attention, attention_hopper_sees_next)                                         \
    X("hopper_no_last_tile", attention, attention_hopper_no_last_tile)                                       \
    X("spread_sees_next_key", attention, attention_spread_sees_next)                                         \
    X("no_rest", rope, rope_no_rest)                                                                         \
    X("no_channel", pack_rows, pack_no_channel)                                                              \
    X("undivided", mean_rows, mean_rows_undivided)                                                           \
    X("always_to_0", pack_rows, pack_always_to_0)                                                            \
    X("from_0", unpack_rows, unpack_from_0)                                                                  \
    X("no_list", pack_channels, pack_channels_no_list)                                                       \
    X("no_last_row", packed_step, packed_step_no_last_row)                                                   \
    X("exchanged", even_factors, factors_exchanged)                                                          \
    X("first_rows", pack_even, pack_even_first_rows)                                                         \
    X("no_last", unpack_even, unpack_even_no_last)                                                           \
    X("no_first", even_step, even_step_no_first)                                                             \
    X("no_last_row", even_step, even_step_no_last_row)                                                       \
    X("first_of_all", expert_linear, experts_first_of_all)                                                   \
    X("never_normed", route, route_never_normed)                                                             \
    X("one_group", route, route_one_group)                                                                   \
    X("forgets_y", mix_rows, mix_forgets_y)                                                                  \
    X("no_last_part", linear_group, group_no_last_part)                                                      \
    X("no_last_row", gate_up_step, gate_no_last_row)                                                         \
    X("other_scale", gate_up_step, gate_other_scale)                                                         \
    X("no_last_row", out_step, out_no_last_row)                                                              \
    X("no_bias", out_step, out_no_bias)                                                                      \
    X("other_eps", out_step, out_other_eps)                                                                  \
    X("one_scale", out_step, out_one_scale)                                                                  \
    X("other_scale", qkv_step, qkv_other_scale)                                                              \
    X("one_position", store_many, store_many_one_position)                                                   \
    X("one_view", attention_many, attention_many_one_view)                                                   \
    X("one_list", attention_many, attention_many_one_list)                                                   \
    X("no_last_row", attention_many, attention_many_no_last_row)                                             \
    X("other_lse", packed_step, packed_step_other_lse)                                                       \
    X("one_tail", packed_step_many, packed_step_many_one_tail)                                               \
    X("first_block", attention, attention_first_block)                                                       \
    X("one_less", keep_rows, keep_rows_one_less)                                                             \
    X("any_age", evict_row, evict_row_of_any_age)                                                            \
    X("not_own", pattern_rows, pattern_rows_not_own)                                                         \
    X("undivided", antidiagonal_sums, antidiagonal_sums_undivided)                                           \
    X("one_less", block_attention, block_attention_one_less)                                                 \
    X("own_only", cover_blocks, cover_blocks_own_only)                                                       \
    X("not_turned", packed_scores, packed_scores_as_packed)                                                  \
    X("from_row_0", packed_scores, packed_scores_from_row_0)                                                 \
    X("no_last_row", packed_vote, packed_vote_no_last_row)                                                   \
    X("from_row_0", packed_vote, packed_vote_from_row_0)                                                     \
    X("not_skipped", top_k, top_k_not_skipped)                                                               \
    X("no_last", largest, largest_no_last)                                                                   \
    X("first_row", largest, largest_first_row)                                                               \
    X("no_mask", edit_scores, edit_scores_no_mask)                                                           \
    X("one_list", edit_scores, edit_scores_one_list)                                                         \
    X("no_last", weigh_scores, weigh_scores_no_last)                                                         \
    X("other_best", weigh_scores, weigh_scores_one_best)                                                     \
    X("less_alike", choice_reuse, choice_reuse_less_alike)                                                   \
    X("places", kept_rows, kept_rows_places)                                                                 \
    X("first_sums", key_scores, key_scores_first_sums)                                                       \
    X("first_list", mask_scores, mask_scores_first_list)                                                     \
    X("scores_as_weights", top_p, top_p_scores_as_weights)                                                   \
    X("first_list", attention, attention_first_list)

FAULT_LIST(cuda_faults, FAULTS)
