#include "block_parts.h"
#include "heads.h"

#include <stddef.h>

static sac_mat rows_from(sac_mat m, int64_t first, int64_t n) {
    return m.data ? sac_mat_rows(m, first, n) : m;
}

sac_block_rows sac_block_rows_from(const sac_block_rows *r, int64_t first, int64_t n) {
    sac_block_rows s = *r;
    sac_mat *const all[] = {&s.hidden, &s.q, &s.k, &s.v, &s.norm, &s.query_gate, &s.wide, &s.gate, &s.up, &s.low};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = rows_from(*all[i], first, n);
    s.n_prompt = 0;
    if (r->row_adapters) s.row_adapters = r->row_adapters + first;
    return s;
}

/* ---------------------------------------------------------------- adapters */

static int adapter_of(const sac_block_rows *r, int64_t row) {
    return r->row_adapters ? r->row_adapters[row] : r->adapter;
}

/* Whether any of the rows has an adapter. */
static bool has_adapters(const sac_block_rows *r) {
    if (!r->row_adapters) return r->adapter != 0;
    for (int64_t i = 0; i < r->hidden.rows; i++)
        if (r->row_adapters[i]) return true;
    return false;
}

static sac_status add_low_rank(const sac_block_rows *r, sac_mat y, sac_mat x, const sac_low_rank *l) {
    if (!l->a.tensor.data) return SAC_OK;
    sac_mat low = r->low;
    low.rows = x.rows;
    low.cols = l->a.tensor.dim[0];
    SAC_TRY(product(r, low, x, &l->a, NULL, false));
    return product(r, y, low, &l->b, NULL, true);
}

/* y += what each row's adapter makes of x. `part`: offset of the matrix's field in sac_adapted_layer. Rows that follow
 * one another and have the same adapter go together. */
static sac_status adapt(const sac_block_rows *r, const sac_decoder_layer *w, size_t part, sac_mat y,
                        sac_mat x) {
    if (!w->adapted) return SAC_OK;
    for (int64_t i = 0, end; i < x.rows; i = end) {
        int adapter = adapter_of(r, i);
        end = r->row_adapters ? i + 1 : x.rows;
        while (end < x.rows && adapter_of(r, end) == adapter) end++;
        if (!adapter) continue;
        const uint8_t *layer = (const uint8_t *)&w->adapted[adapter - 1];
        SAC_TRY(add_low_rank(r, sac_mat_rows(y, i, end - i), sac_mat_rows(x, i, end - i),
                             (const sac_low_rank *)(const void *)(layer + part)));
    }
    return SAC_OK;
}

#define ADAPT(r, w, part, y, x) adapt(r, w, offsetof(sac_adapted_layer, part), y, x)

/* ---------------------------------------------------------------- in */

/* Every head of the rows by itself, from x to y, which may be x. */
static sac_status norm_heads(const sac_block_rows *r, head_view y, head_view x, const float *w) {
    const int64_t dim = r->shape.head_dim, n_heads = y.rows.cols / dim;
    const head_cut cut = cut_heads(y, x, n_heads);
    for (int64_t i = 0; i < cut.n; i++)
        SAC_TRY(r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){heads_of(y, cut, i, n_heads, dim),
                                                               heads_of(x, cut, i, n_heads, dim), w, r->shape.rms_eps}));
    return SAC_OK;
}

static sac_status norm_in_place(const sac_block_rows *r, sac_mat x, const float *w) {
    const head_view v = {x, r->shape.head_dim};
    if (!w) return SAC_OK;
    if (r->shape.whole_qk_norm)
        return r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){x, x, w, r->shape.rms_eps});
    return norm_heads(r, v, v, w);
}

/* Where the product of q goes. */
static sac_mat queries_to(const sac_block_rows *r) {
    return r->shape.gated_attention ? r->wide : r->q;
}

/* Queries of their product, normed; gates to where they wait for attention. */
static sac_status end_queries(const sac_block_rows *r, const sac_decoder_layer *w) {
    if (!r->shape.gated_attention) return norm_in_place(r, r->q, w->q_norm);
    const int64_t dim = r->shape.head_dim, n_heads = r->shape.n_heads;
    const head_view q = {r->q, dim}, to = {r->query_gate, dim}, wide = {r->wide, 2 * dim};
    head_view gate = wide;
    gate.rows.data = (uint8_t *)wide.rows.data + sac_dtype_row_bytes(wide.rows.dtype, dim);
    SAC_TRY(norm_heads(r, q, wide, w->q_norm));
    const head_cut cut = cut_heads(to, gate, n_heads);
    for (int64_t i = 0; i < cut.n; i++)
        SAC_TRY(r->ops->convert_rows(r->stream, &(sac_convert_rows_args){heads_of(to, cut, i, n_heads, dim),
                                                                         heads_of(gate, cut, i, n_heads, dim)}));
    return SAC_OK;
}

static sac_status turn(const sac_block_rows *r, sac_mat x, int n_heads, const sac_rotation *rotation,
                       const int32_t *pos) {
    return r->ops->rope(
        r->stream,
        &(sac_rope_args){
            .x = x, .n_heads = n_heads, .head_dim = r->shape.head_dim, .rotation = *rotation, .pos = pos});
}

sac_dtype sac_block_query_type(sac_dtype activations, sac_dtype rows) {
    const bool are_half = activations != SAC_DTYPE_F32 && rows != SAC_DTYPE_F32;
    return are_half ? rows : activations;
}

sac_status sac_block_convert(const sac_block_rows *r, sac_mat q, sac_dtype to) {
    sac_mat y = q;
    y.dtype = to;
    return to == q.dtype ? SAC_OK : r->ops->convert_rows(r->stream, &(sac_convert_rows_args){.y = y, .x = q});
}

/* Turned queries of the parts, whose rows begin at row `at`, to the types of their caches' rows. */
static sac_status convert_queries(const sac_block_rows *r, int64_t at, const sac_block_part *parts,
                                  int n_parts) {
    for (int i = 0; i < n_parts;) {
        const sac_dtype to = sac_block_query_type(r->q.dtype, parts[i].kv.dtype);
        int64_t n = 0;
        while (i < n_parts && sac_block_query_type(r->q.dtype, parts[i].kv.dtype) == to) n += parts[i++].n;
        SAC_TRY(sac_block_convert(r, sac_mat_rows(r->q, at, n), to));
        at += n;
    }
    return SAC_OK;
}

/* Everything of `in` for one row, where a device does it in one go. */
static sac_status step_in(const sac_block_rows *r, const sac_decoder_layer *w, const sac_block_part *part) {
    sac_mat q = r->q;
    q.dtype = sac_block_query_type(q.dtype, part->kv.dtype);
    return r->ops->qkv_step(r->stream, &(sac_qkv_step_args){.q = q,
                                                            .x = r->hidden,
                                                            .norm = w->attn_norm,
                                                            .eps = r->shape.rms_eps,
                                                            .wq = w->q,
                                                            .wk = w->k,
                                                            .wv = w->v,
                                                            .q_bias = w->q_bias,
                                                            .k_bias = w->k_bias,
                                                            .v_bias = w->v_bias,
                                                            .rotation = part->rotation,
                                                            .pos = part->pos,
                                                            .kv = part->kv,
                                                            .first = part->first,
                                                            .n_heads = r->shape.n_heads});
}

static sac_status project(const sac_block_rows *r, const sac_decoder_layer *w) {
    const sac_mat x = input_of(r, w->attn_norm);
    if (r->shape.latent.kv_rank) {
        SAC_TRY(sac_block_latent_queries(r, w));
        return sac_block_latent_keys(r, w);
    }
    SAC_TRY(
        r->ops->linear_group(r->stream, &(sac_linear_group_args){.n = 3,
                                                                 .x = x,
                                                                 .y = {queries_to(r), r->k, r->v},
                                                                 .w = {w->q, w->k, w->v},
                                                                 .bias = {w->q_bias, w->k_bias, w->v_bias},
                                                                 .fast = r->fast,
                                                                 .steady = r->steps,
                                                                 .n_unsteady = r->n_prompt}));
    SAC_TRY(ADAPT(r, w, q, queries_to(r), x));
    SAC_TRY(ADAPT(r, w, k, r->k, x));
    SAC_TRY(ADAPT(r, w, v, r->v, x));
    SAC_TRY(end_queries(r, w));
    return norm_in_place(r, r->k, w->k_norm);
}

static sac_status store_keys(const sac_block_rows *r, int64_t at, const sac_block_part *part) {
    sac_mat k = sac_mat_rows(r->k, at, part->n), v = sac_mat_rows(r->v, at, part->n);
    SAC_TRY(turn(r, k, r->shape.n_kv_heads, &part->rotation, part->pos));
    return r->ops->kv_store(r->stream,
                            &(sac_kv_store_args){.kv = part->kv, .k = k, .v = v, .first = part->first});
}

static sac_status store_each(const sac_block_rows *r, int64_t at, const sac_block_part *parts, int n_parts) {
    for (int i = 0; i < n_parts; at += parts[i++].n) {
        sac_mat q = sac_mat_rows(r->q, at, parts[i].n);
        SAC_TRY(turn(r, q, r->shape.n_heads, &parts[i].rotation, parts[i].pos));
        SAC_TRY(store_keys(r, at, &parts[i]));
    }
    return SAC_OK;
}

/* One row each of several sequences, so many at a time: their arguments lie on the stack. */
enum { TOGETHER = 32 };

static sac_status store_together(const sac_block_rows *r, int64_t at, const sac_block_part *parts, int n) {
    sac_token_store each[TOGETHER];
    for (int i = 0; i < n; i++)
        each[i] = (sac_token_store){.q = sac_mat_rows(r->q, at + i, 1),
                                    .k = sac_mat_rows(r->k, at + i, 1),
                                    .v = sac_mat_rows(r->v, at + i, 1),
                                    .rotation = parts[i].rotation,
                                    .pos = parts[i].pos,
                                    .kv = parts[i].kv,
                                    .first = parts[i].first,
                                    .n_heads = r->shape.n_heads};
    return r->ops->store_many(r->stream, &(sac_store_many_args){each, n});
}

static sac_status turn_and_store(const sac_block_rows *r, int64_t at, const sac_block_part *parts,
                                 int n_parts) {
    if (!r->ops->fuses || (!r->steps && r->hidden.rows != 1)) return store_each(r, at, parts, n_parts);
    for (int i = 0, n; i < n_parts; i += n) {
        for (n = 0; i + n < n_parts && n < TOGETHER && parts[i + n].n == 1;) n++;
        sac_status st = n > 0 ? store_together(r, at, parts + i, n) : SAC_UNSUPPORTED;
        if (n == 0) n = 1; /* a sequence with more rows */
        if (st == SAC_UNSUPPORTED) st = store_each(r, at, parts + i, n);
        SAC_TRY(st);
        for (int k = i; k < i + n; k++) at += parts[k].n;
    }
    return SAC_OK;
}

sac_status sac_block_store(const sac_block_rows *r, int64_t at, const sac_block_part *parts, int n_parts) {
    SAC_TRY(turn_and_store(r, at, parts, n_parts));
    return convert_queries(r, at, parts, n_parts);
}

sac_status sac_block_in(const sac_block_rows *r, const sac_decoder_layer *w, const sac_block_part *parts,
                        int n_parts) {
    if (r->ops->fuses && r->hidden.rows == 1 && w->attn_norm && !w->q_norm && !w->k_norm && !r->shape.latent.kv_rank &&
        !has_adapters(r)) {
        sac_status st = step_in(r, w, parts);
        if (st != SAC_UNSUPPORTED) return st;
    }
    SAC_TRY(normed(r, w->attn_norm));
    SAC_TRY(project(r, w));
    return sac_block_store(r, 0, parts, n_parts);
}

sac_status sac_block_in_without_queries(const sac_block_rows *r, const sac_decoder_layer *w,
                                        const sac_block_part *part) {
    const sac_mat x = input_of(r, w->attn_norm);
    SAC_TRY(normed(r, w->attn_norm));
    if (r->shape.latent.kv_rank) {
        SAC_TRY(sac_block_latent_keys(r, w));
        return store_keys(r, 0, part);
    }
    SAC_TRY(product(r, r->k, x, &w->k, w->k_bias, false));
    SAC_TRY(product(r, r->v, x, &w->v, w->v_bias, false));
    SAC_TRY(ADAPT(r, w, k, r->k, x));
    SAC_TRY(ADAPT(r, w, v, r->v, x));
    SAC_TRY(norm_in_place(r, r->k, w->k_norm));
    return store_keys(r, 0, part);
}

sac_status sac_block_queries(const sac_block_rows *r, const sac_decoder_layer *w,
                             const sac_rotation *rotation, const int32_t *pos) {
    const sac_mat x = input_of(r, w->attn_norm);
    SAC_TRY(normed(r, w->attn_norm));
    if (r->shape.latent.kv_rank) {
        SAC_TRY(sac_block_latent_queries(r, w));
        return turn(r, r->q, r->shape.n_heads, rotation, pos);
    }
    SAC_TRY(product(r, r->q, x, &w->q, w->q_bias, false));
    SAC_TRY(ADAPT(r, w, q, r->q, x));
    SAC_TRY(norm_in_place(r, r->q, w->q_norm));
    return turn(r, r->q, r->shape.n_heads, rotation, pos);
}

/* ---------------------------------------------------------------- out */

/* Scratch as wide as the layer's MLP; where gate and up lie side by side, they still do. */
static sac_block_rows of_width(const sac_block_rows *r, int64_t width) {
    sac_block_rows s = *r;
    const uint8_t *end = (const uint8_t *)r->gate.data + sac_dtype_row_bytes(r->gate.dtype, r->gate.cols);
    s.gate.cols = s.up.cols = width;
    if (r->up.data == end && (r->gate.rows == 1 || r->gate.stride >= 2 * r->gate.cols))
        s.up.data = (uint8_t *)r->gate.data + sac_dtype_row_bytes(r->gate.dtype, width);
    return s;
}

/* Whether norm, gate and up of these rows may be one op with what is beside them. */
static bool may_fuse(const sac_block_rows *r, const sac_decoder_layer *w) {
    const bool is_plain = sac_gate_activation(r->shape.gate_act) == SAC_ACT_SILU && w->mlp_norm;
    return r->ops->fuses && is_plain && (r->steps || r->hidden.rows == 1) && !r->n_prompt && !has_adapters(r);
}

/* act(gate) * up of the normalised rows, to r->gate. */
static sac_status gate(const sac_block_rows *r, const sac_decoder_layer *w) {
    const sac_mat x = input_of(r, w->mlp_norm);
    if (may_fuse(r, w)) {
        sac_status st = r->ops->gate_up_step(r->stream, &(sac_gate_up_step_args){.y = r->gate,
                                                                                 .x = r->hidden,
                                                                                 .norm = w->mlp_norm,
                                                                                 .eps = r->shape.rms_eps,
                                                                                 .gate = w->gate,
                                                                                 .up = w->up});
        if (st != SAC_UNSUPPORTED) return st;
    }
    SAC_TRY(normed(r, w->mlp_norm));
    SAC_TRY(r->ops->linear_group(r->stream, &(sac_linear_group_args){.n = 2,
                                                                     .x = x,
                                                                     .y = {r->gate, r->up},
                                                                     .w = {w->gate, w->up},
                                                                     .fast = r->fast,
                                                                     .steady = r->steps,
                                                                     .n_unsteady = r->n_prompt}));
    SAC_TRY(ADAPT(r, w, gate, r->gate, x));
    SAC_TRY(ADAPT(r, w, up, r->up, x));
    return r->ops->swiglu(
        r->stream,
        &(sac_swiglu_args){.y = r->gate, .gate = r->gate, .up = r->up, .act = r->shape.gate_act});
}

/* hidden += what lies in r->norm, scaled. */
static sac_status add_norm(const sac_block_rows *r) {
    return r->ops->scale_add(
        r->stream,
        &(sac_scale_add_args){.y = r->hidden, .x = r->norm, .factor = r->shape.residual_scale});
}

/* Whether what a part makes is changed before it is added. */
static bool adds_apart(const sac_block_rows *r, const float *post_norm) {
    return post_norm || r->shape.residual_scale != 0;
}

/* What lies in r->norm, normed before it is added, where the layer has a norm for that. */
static sac_status post_norm(const sac_block_rows *r, const float *norm) {
    if (!norm) return SAC_OK;
    return r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){r->norm, r->norm, norm, r->shape.rms_eps});
}

static sac_status dense_mlp(const sac_block_rows *r, const sac_decoder_layer *w, sac_mat y, bool accumulate) {
    SAC_TRY(gate(r, w));
    SAC_TRY(product(r, y, r->gate, &w->down, NULL, accumulate));
    return ADAPT(r, w, down, y, r->gate);
}

static sac_experts_call experts_call(const sac_block_rows *r, const sac_decoder_layer *w, sac_mat y, bool accumulate) {
    return (sac_experts_call){.ops = r->ops,
                              .stream = r->stream,
                              .shape = &r->shape.experts,
                              .rows = &r->experts,
                              .router = &w->router,
                              .router_bias = w->router_bias,
                              .experts = w->experts,
                              .act = r->shape.gate_act,
                              .y = y,
                              .x = input_of(r, w->mlp_norm),
                              .accumulate = accumulate,
                              .fast = r->fast};
}

static sac_status expert_mlp(const sac_block_rows *r, const sac_decoder_layer *w, sac_mat y,
                             bool accumulate) {
    const sac_experts_call c = experts_call(r, w, y, accumulate);
    SAC_TRY(normed(r, w->mlp_norm));
    return sac_experts_run(&c);
}

/* Both; what the MLP makes of the rows lies in r->gate, or gated in r->up, before the experts may overwrite them. */
static sac_status shared_mlp(const sac_block_rows *r, const sac_decoder_layer *w, sac_mat y, bool accumulate) {
    const sac_experts_call c = experts_call(r, w, y, accumulate);
    const sac_mat own = r->shape.experts.shared_gated ? r->up : r->gate;
    SAC_TRY(gate(r, w));
    SAC_TRY(normed(r, w->mlp_norm)); /* fused ops leave no normed rows */
    if (r->shape.experts.shared_gated) SAC_TRY(sac_experts_gate_shared(&c, &w->shared_router, own, r->gate));
    SAC_TRY(sac_experts_run(&c));
    SAC_TRY(product(r, y, own, &w->down, NULL, true));
    return ADAPT(r, w, down, y, own);
}

sac_status sac_block_mlp(const sac_block_rows *r, const sac_decoder_layer *w) {
    const bool apart = adds_apart(r, w->mlp_post_norm);
    const sac_block_rows own = of_width(r, sac_block_mlp_width(&r->shape, w));
    SAC_TRY((!w->experts ? dense_mlp : r->shape.experts.shared ? shared_mlp : expert_mlp)(&own, w, apart ? r->norm : r->hidden, !apart));
    if (!apart) return SAC_OK;
    SAC_TRY(post_norm(r, w->mlp_post_norm));
    return add_norm(r);
}

/* What attention gives, gated where it is. */
static sac_status gate_attention(const sac_block_rows *r) {
    if (!r->shape.gated_attention) return SAC_OK;
    return r->ops->swiglu(
        r->stream, &(sac_swiglu_args){.y = r->q, .gate = r->query_gate, .up = r->q, .act = SAC_ACT_SIGMOID});
}

sac_status sac_block_attended(const sac_block_rows *r, const sac_decoder_layer *w) {
    SAC_TRY(product(r, r->norm, r->q, &w->o, w->o_bias, false));
    SAC_TRY(ADAPT(r, w, o, r->norm, r->q));
    return post_norm(r, w->attn_post_norm);
}

/* Everything of `out`, where a device does it in one go. */
static sac_status step_out(const sac_block_rows *r, const sac_decoder_layer *w) {
    const sac_block_rows own = of_width(r, sac_block_mlp_width(&r->shape, w));
    return r->ops->out_step(r->stream, &(sac_out_step_args){.x = r->hidden,
                                                            .o = r->q,
                                                            .wide = own.gate,
                                                            .wo = w->o,
                                                            .o_bias = w->o_bias,
                                                            .norm = w->mlp_norm,
                                                            .eps = r->shape.rms_eps,
                                                            .gate = w->gate,
                                                            .up = w->up,
                                                            .down = w->down});
}

sac_status sac_block_out(const sac_block_rows *r, const sac_decoder_layer *w) {
    const bool apart = adds_apart(r, w->attn_post_norm) || adds_apart(r, w->mlp_post_norm);
    if (may_fuse(r, w) && !apart && !r->shape.gated_attention && !w->experts) {
        const sac_status st = step_out(r, w);
        if (st != SAC_UNSUPPORTED) return st;
    }
    SAC_TRY(gate_attention(r));
    if (adds_apart(r, w->attn_post_norm)) {
        SAC_TRY(sac_block_attended(r, w));
        SAC_TRY(add_norm(r));
        return sac_block_mlp(r, w);
    }
    SAC_TRY(product(r, r->hidden, r->q, &w->o, w->o_bias, true));
    SAC_TRY(ADAPT(r, w, o, r->hidden, r->q));
    return sac_block_mlp(r, w);
}

sac_status sac_block_head(const sac_block_rows *r, const float *norm, const sac_weight *w, sac_mat y) {
    SAC_TRY(normed(r, norm));
    return product(r, y, r->norm, w, NULL, false);
}
