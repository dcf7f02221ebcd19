/* linear_blocks.cu - products and rows of GGUF's blocks and of code_layout.h's types: up to 32 rows of x from the stored bytes,
 * more by unpacking some of w's rows at a time, to the type of x for the products of floats, or to e4m3 (linear_e4m3.cu). */
#include "blocks.cuh"

namespace sac::blocks {

sac_status product(const sac_stream *s, sac_dtype t, const product_job &j) {
    switch (t) {
#define X(constant, name)                                                                                    \
    case SAC_DTYPE_##constant: return product_##name(s, j);
        SAC_BLOCK_FORMATS(X)
        SAC_CODE_FORMATS(X)
#undef X
    default: return SAC_UNSUPPORTED;
    }
}

sac_status qkv(const sac_stream *s, sac_dtype t, const qkv_product &j) {
    switch (t) {
#define X(constant, name)                                                                                    \
    case SAC_DTYPE_##constant: return qkv_##name(s, j);
        SAC_BLOCK_FORMATS(X)
        SAC_CODE_FORMATS(X)
#undef X
    default: return SAC_UNSUPPORTED;
    }
}

sac_status unpack(const sac_stream *s, sac_dtype t, const unpack_job &j) {
    switch (t) {
#define X(constant, name)                                                                                    \
    case SAC_DTYPE_##constant: return unpack_##name(s, j);
        SAC_BLOCK_FORMATS(X)
        SAC_CODE_FORMATS(X)
#undef X
    default: return SAC_UNSUPPORTED;
    }
}

/* Whether rows lie as kernels read and write four neighbours. */
static bool fits(sac_mat m) {
    return is_half(m.dtype) && (uintptr_t)m.data % 8 == 0 && (m.rows <= 1 || m.stride % 4 == 0);
}
static bool fits(const sac_weight *w, int64_t k) {
    return sac_block_layout_has(w->tensor.dtype, k) && w->tensor.dim[1] == k &&
           (uintptr_t)w->tensor.data % 16 == 0;
}

/* Whether two weights want the same of x. */
static bool same_rows(const sac_weight *a, const sac_weight *b) {
    return a->x_rounding == b->x_rounding && (a->x_rounding != SAC_X_FP8_GROUPS || a->group == b->group) &&
           a->x_scale == b->x_scale && a->order.data == b->order.data;
}
static bool changes_rows(const sac_weight *w) {
    return w->x_rounding != SAC_X_EXACT || w->order.data;
}
/* Whether the product of one row may normalise it on the way, and round it. */
static bool norms_itself(const sac_weight *w, sac_mat x, const float *norm) {
    return x.rows == 1 && !w->order.data && mat_aligned(x) && (uintptr_t)norm % 16 == 0;
}
/* Rows of x as w wants them, to y. */
static sac_status change_rows(const sac_stream *s, const sac_weight *w, sac_mat x, sac_mat y) {
    const rounded_job j = {y, x, (const int32_t *)w->order.data, w->x_rounding, w->group, w->x_scale};
    return rounded_rows(s, j);
}

extern "C" sac_status sac_cuda_linear_blocks(const sac_stream *s, const sac_linear_args *a) {
    const sac_linear_group_args one = {1, a->x, {a->y}, {a->w}, {a->bias}, a->fast, a->steady, a->n_unsteady};
    return sac_cuda_linear_group_blocks(s, &one, a->act, a->accumulate);
}

extern "C" sac_status sac_cuda_linear_group_blocks(const sac_stream *s, const sac_linear_group_args *a,
                                                   sac_activation act, bool accumulate) {
    const sac_dtype t = a->w[0].tensor.dtype;
    const int64_t k = a->x.cols;
    product_job j = {};
    int64_t n_outputs = 0;
    if (sac_dtype_block(t) == 1 || !is_half(a->x.dtype) || !mat_aligned(a->x) ||
        (a->x.rows > MOST_ROWS && t != SAC_DTYPE_E4M3_ROWS))
        return SAC_UNSUPPORTED;
    for (int i = 0; i < a->n; i++) {
        const sac_weight *w = &a->w[i];
        if (w->tensor.dtype != t || !fits(w, k) || !is_float(a->y[i].dtype) || !same_rows(w, &a->w[0]))
            return SAC_UNSUPPORTED;
        j.part[i] = {w->tensor.data, sac_block_layout_of(t, w->tensor.dim[0], k), a->y[i], a->bias[i], 0};
        n_outputs += a->y[i].cols;
    }
    j.n_parts = a->n, j.x = a->x, j.act = act, j.accumulate = accumulate;
    if (!a->x.rows || !n_outputs) return SAC_OK;
    if (t == SAC_DTYPE_E4M3_ROWS) {
        j.rounding = rounding_of(&a->w[0], k);
        const sac_status st = product(s, t, j);
        return st == SAC_UNSUPPORTED && act == SAC_ACT_NONE && !accumulate && a->n > 1 ? linear_e4m3_group(s, a) : st;
    }
    if (changes_rows(&a->w[0])) {
        size_t room;
        if (a->x.rows == 1 && !a->w[0].order.data) {
            j.rounding = rounding_of(&a->w[0], k);
            const sac_status st = product(s, t, j);
            if (st != SAC_UNSUPPORTED) return st;
            j.rounding = {};
        }
        j.x.data = scratch_rest(s, &room), j.x.stride = k;
        if ((size_t)(j.x.rows * k) * 2 > room) return SAC_UNSUPPORTED;
        SAC_TRY(change_rows(s, &a->w[0], a->x, j.x));
    }
    return product(s, t, j);
}

extern "C" sac_status sac_cuda_gate_up_blocks(const sac_stream *s, const sac_gate_up_step_args *a) {
    const sac_dtype t = a->gate.tensor.dtype;
    const int64_t k = a->x.cols;
    size_t room;
    sac_mat x = a->x;
    x.data = scratch_rest(s, &room), x.stride = k;
    if (sac_dtype_block(t) == 1 || a->up.tensor.dtype != t || !fits(&a->gate, k) || !fits(&a->up, k) ||
        !same_rows(&a->gate, &a->up) || a->gate.order.data || !is_half(x.dtype) || a->y.dtype != x.dtype ||
        !mat_aligned(x) || (x.rows > MOST_ROWS && t != SAC_DTYPE_E4M3_ROWS) || (size_t)(x.rows * k) * 2 > room)
        return SAC_UNSUPPORTED;
    if (!x.rows || !a->y.cols) return SAC_OK;
    product_job j = {};
    const sac_tensor *w[] = {&a->gate.tensor, &a->up.tensor};
    for (int i = 0; i < 2; i++)
        j.part[i] = {w[i]->data, sac_block_layout_of(t, w[i]->dim[0], k), a->y, NULL, 0};
    j.n_parts = 2, j.gated = true;
    if (t == SAC_DTYPE_E4M3_ROWS || norms_itself(&a->gate, a->x, a->norm)) {
        j.x = a->x, j.norm = a->norm, j.eps = a->eps, j.rounding = rounding_of(&a->gate, k);
        const sac_status st = product(s, t, j);
        if (st != SAC_UNSUPPORTED || t == SAC_DTYPE_E4M3_ROWS) return st;
        j.norm = NULL, j.rounding = {};
    }
    const sac_rmsnorm_args norm = {x, a->x, a->norm, a->eps};
    SAC_TRY(sac_cuda_rmsnorm(s, &norm));
    if (changes_rows(&a->gate)) SAC_TRY(change_rows(s, &a->gate, x, x));
    j.x = x;
    return product(s, t, j);
}

/* A launch for each type among the matrices: Q4_K_M's files have half of their v in Q6_K. Where a later type is refused the separate ops
 * write what the earlier ones did. */
static sac_status qkv_by_types(const sac_stream *s, const sac_weight *const w[3], const qkv_product &j) {
    qkv_product both = j;
    int n_q4_k = 0;
    for (int i = 0; i < 3; i++) {
        n_q4_k += w[i]->tensor.dtype == SAC_DTYPE_Q4_K;
        if (w[i]->tensor.dtype == SAC_DTYPE_Q6_K) both.second |= 1 << i;
    }
    if (n_q4_k && both.second && n_q4_k + __builtin_popcount((unsigned)both.second) == 3) {
        const sac_status st = qkv_q4_k_q6_k(s, both);
        if (st != SAC_UNSUPPORTED) return st;
    }
    for (int i = 0; i < 3; i++) {
        const sac_dtype t = w[i]->tensor.dtype;
        qkv_product of = j;
        bool is_done = false;
        for (int m = 0; m < 3; m++) {
            if (w[m]->tensor.dtype == t)
                is_done |= m < i;
            else
                of.heads[m] = 0;
        }
        if (!is_done) SAC_TRY(qkv(s, t, of));
    }
    return SAC_OK;
}

extern "C" sac_status sac_cuda_qkv_blocks(const sac_stream *s, const sac_qkv_step_args *a) {
    const sac_weight *w[] = {&a->wq, &a->wk, &a->wv};
    const float *bias[] = {a->q_bias, a->k_bias, a->v_bias};
    const sac_kv_view *kv = &a->kv;
    const int64_t k = a->x.cols;
    if (!is_half(a->x.dtype) || !is_half(kv->dtype) || a->q.dtype != kv->dtype ||
        kv->head_dim % (2 * SAC_BLOCK_TILE) || a->rotation.rot_dim != kv->head_dim ||
        !norms_itself(w[0], a->x, a->norm))
        return SAC_UNSUPPORTED;
    qkv_product j = {};
    for (int i = 0; i < 3; i++) {
        const sac_dtype t = w[i]->tensor.dtype;
        if (sac_dtype_block(t) == 1 || !fits(w[i], k) || !same_rows(w[i], w[0])) return SAC_UNSUPPORTED;
        j.w[i] = w[i]->tensor.data, j.bias[i] = bias[i];
        j.layout[i] = sac_block_layout_of(t, w[i]->tensor.dim[0], k);
    }
    j.x = a->x.data, j.norm = a->norm, j.eps = a->eps, j.n_cols = (int)k;
    j.rounding = rounding_of(w[0], k);
    j.cos_sin = a->rotation.cos_sin, j.pos = a->pos;
    j.q = a->q.data, j.k = kv->k, j.v = kv->v;
    j.row_at = a->first * kv->row_stride, j.head_stride = kv->head_stride;
    j.head_dim = kv->head_dim, j.interleaved = a->rotation.interleaved;
    j.heads[0] = a->n_heads, j.heads[1] = j.heads[2] = kv->n_heads;
    j.x_type = a->x.dtype, j.out = kv->dtype;
    return qkv_by_types(s, w, j);
}

/* The end of a stream's scratch, and the stream with what is left. */
static uint8_t *cut_scratch(sac_stream *s, size_t n_bytes) {
    s->shared_scratch_bytes = (s->shared_scratch_bytes - n_bytes) / 256 * 256;
    return s->shared_scratch + s->shared_scratch_bytes;
}

/* Panel by panel. */
static sac_status multiply_unpacked(const sac_stream *s, const sac_linear_args *a, uint8_t *panel,
                                    int64_t rows) {
    const int64_t k = a->x.cols, n = a->y.cols;
    const sac_tensor *w = &a->w.tensor;
    for (int64_t i = 0; i < n; i += rows) {
        const int64_t some = min_of(rows, n - i);
        const unpack_job j = {w->data, sac_block_layout_of(w->dtype, w->dim[0], k),
                              NULL,    (const int32_t *)a->w.order.data,
                              i,       {panel, some, k, k, a->x.dtype},
                              true,    1,
                              a->w.group_rows > 1};
        SAC_TRY(unpack(s, w->dtype, j));
        sac_linear_args part = *a;
        part.y.cols = some;
        part.y.data = (uint8_t *)a->y.data + i * element_bytes(a->y.dtype);
        part.w = sac_weight_of(sac_tensor{panel, a->x.dtype, 2, {some, k}});
        if (a->bias) part.bias = a->bias + i;
        SAC_TRY(sac_cuda_linear(s, &part));
    }
    return SAC_OK;
}

extern "C" sac_status sac_cuda_linear_unpacked(const sac_stream *s, const sac_linear_args *a) {
    const bool rounds = a->w.x_rounding != SAC_X_EXACT;
    const int64_t k = a->x.cols, rows = panel_rows(a->y.cols, k, rounds);
    if (!is_half(a->x.dtype) || !is_float(a->y.dtype) || !fits(&a->w, k)) return SAC_UNSUPPORTED;
    const sac_status st = linear_e4m3_rows(s, a);
    if (st != SAC_UNSUPPORTED) return st;
    const size_t panel_bytes = (size_t)ceil_div(rows * 2 * k, 256) * 256,
                 used = panel_bytes + (SAC_CUDA_SCRATCH_BYTES >> 2);
    if (used > s->shared_scratch_bytes) return SAC_UNSUPPORTED;
    sac_stream rest = *s;
    uint8_t *panel = cut_scratch(&rest, panel_bytes);
    if (!rounds) return multiply_unpacked(&rest, a, panel, rows);
    /* as many rows of x at a time as there is room for */
    const int64_t most = (int64_t)((s->shared_scratch_bytes - used) / 256 * 256) / (2 * k);
    const int64_t x_rows = min_of(most, a->x.rows);
    if (x_rows < min_of(a->x.rows, 64)) return SAC_UNSUPPORTED;
    sac_mat x = {cut_scratch(&rest, (size_t)ceil_div(x_rows * 2 * k, 256) * 256), x_rows, k, k, a->x.dtype};
    for (int64_t i = 0; i < a->x.rows; i += x_rows) {
        sac_linear_args some = *a;
        const int64_t n = min_of(x_rows, a->x.rows - i);
        some.x = sac_mat_rows(x, 0, n);
        some.y = sac_mat_rows(a->y, i, n);
        SAC_TRY(change_rows(s, &a->w, sac_mat_rows(a->x, i, n), some.x));
        SAC_TRY(multiply_unpacked(&rest, &some, panel, rows));
    }
    return SAC_OK;
}

extern "C" sac_status sac_cuda_embed_blocks(const sac_stream *s, const sac_embed_args *a) {
    const sac_tensor *w = &a->table.tensor;
    if (!is_half(a->y.dtype) || !fits(&a->table, a->y.cols) || a->table.order.data) return SAC_UNSUPPORTED;
    const unpack_job j = {w->data,    sac_block_layout_of(w->dtype, w->dim[0], a->y.cols),
                          a->ids,     NULL,
                          0,          a->y,
                          fits(a->y), a->scale != 0 ? a->scale : 1,
                          a->table.group_rows > 1};
    return a->y.rows ? unpack(s, w->dtype, j) : SAC_OK;
}

extern "C" sac_status sac_cuda_out_blocks(const sac_stream *s, const sac_out_step_args *a) {
    (void)s, (void)a;
    return SAC_UNSUPPORTED;
}

} // namespace sac::blocks
