#include "cuda_twin.h"

#include "cuda/weights/block_layout.h"
#include "cuda/weights/code_layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256 };

/* ---------------------------------------------------------------- which buffers are matrices */

enum { MOST_MATS = 3 * CHECK_MAX_MANY };

static int mats_of_many(check_case *c, sac_mat *m[MOST_MATS]) {
    int n = 0;
    if (c->op == CHECK_linear_group) m[n++] = &c->linear_group.x;
    for (int i = 0; c->op == CHECK_linear_group && i < c->linear_group.n; i++) m[n++] = &c->linear_group.y[i];
    for (int i = 0; c->op == CHECK_store_many && i < c->store_many.n; i++)
        m[n++] = &c->many.store[i].q, m[n++] = &c->many.store[i].k, m[n++] = &c->many.store[i].v;
    for (int i = 0; c->op == CHECK_attention_many && i < c->attention_many.n; i++)
        m[n++] = &c->many.attention[i].o, m[n++] = &c->many.attention[i].q;
    for (int i = 0; c->op == CHECK_packed_step_many && i < c->packed_step_many.n; i++)
        m[n++] = &c->many.packed_step[i].q;
    return n;
}

/* The matrices of a case's arguments; returns their number. */
static int mats_of(check_case *c, sac_mat *m[MOST_MATS]) {
    switch (c->op) {
    case CHECK_linear: m[0] = &c->linear.x, m[1] = &c->linear.y; return c->f32_result ? 1 : 2;
    case CHECK_embed: m[0] = &c->embed.y; return 1;
    case CHECK_rmsnorm: m[0] = &c->rmsnorm.y, m[1] = &c->rmsnorm.x; return 2;
    case CHECK_layernorm: m[0] = &c->layernorm.y, m[1] = &c->layernorm.x; return 2;
    case CHECK_rope: m[0] = &c->rope.x; return 1;
    case CHECK_swiglu: m[0] = &c->swiglu.y, m[1] = &c->swiglu.gate, m[2] = &c->swiglu.up; return c->swiglu.up.data ? 3 : 2;
    case CHECK_kv_store: m[0] = &c->kv_store.k, m[1] = &c->kv_store.v; return 2;
    case CHECK_attention: m[0] = &c->attention.o, m[1] = &c->attention.q; return 2;
    case CHECK_qkv_step: m[0] = &c->qkv_step.q, m[1] = &c->qkv_step.x; return 2;
    case CHECK_gate_up_step: m[0] = &c->gate_up_step.y, m[1] = &c->gate_up_step.x; return 2;
    case CHECK_out_step: m[0] = &c->out_step.x, m[1] = &c->out_step.o, m[2] = &c->out_step.wide; return 3;
    case CHECK_packed_scores: m[0] = &c->packed_scores.q; return 1;
    case CHECK_packed_vote: m[0] = &c->packed_vote.q; return 1;
    case CHECK_even_step: m[0] = &c->even_step.q; return 1;
    case CHECK_packed_step: m[0] = &c->packed_step.q; return 1;
    case CHECK_choice_step: m[0] = &c->choice_step.q; return 1;
    case CHECK_choice_attend: m[0] = &c->choice_attend.q; return 1;
    case CHECK_page_scores: m[0] = &c->page_scores.q; return 1;
    case CHECK_channel_sums: m[0] = &c->channel_sums.q; return 1;
    case CHECK_join_attention: m[0] = &c->join_attention.o, m[1] = &c->join_attention.other; return 2;
    case CHECK_mean_rows: m[0] = &c->mean_rows.x; return 1;
    case CHECK_block_attention: m[0] = &c->block_attention.o, m[1] = &c->block_attention.q; return 2;
    case CHECK_antidiagonal_sums: m[0] = &c->antidiagonal_sums.q; return 1;
    case CHECK_attention_sums: m[0] = &c->attention_sums.q; return 1;
    case CHECK_patchify: m[0] = &c->patchify.y; return 1;
    case CHECK_pool_tokens: m[0] = &c->pool_tokens.y, m[1] = &c->pool_tokens.x; return 2;
    case CHECK_blend_rows:
        m[0] = &c->blend_rows.y, m[1] = &c->blend_rows.x;
        return c->blend_rows.shared ? 1 : 2;
    case CHECK_scale_add: m[0] = &c->scale_add.y, m[1] = &c->scale_add.x; return 2;
    case CHECK_gather_rows: m[0] = &c->gather_rows.y, m[1] = &c->gather_rows.x; return 2;
    case CHECK_expert_linear: m[0] = &c->expert_linear.y, m[1] = &c->expert_linear.x; return 2;
    case CHECK_causal_conv: m[0] = &c->causal_conv.y, m[1] = &c->causal_conv.x; return 2;
    case CHECK_delta_rule:
        m[0] = &c->delta_rule.y, m[1] = &c->delta_rule.q, m[2] = &c->delta_rule.k;
        m[3] = &c->delta_rule.v, m[4] = &c->delta_rule.a, m[5] = &c->delta_rule.b;
        return 6;
    case CHECK_mix_rows: m[0] = &c->mix_rows.y, m[1] = &c->mix_rows.x; return 2;
    case CHECK_scatter_rows: m[0] = &c->scatter_rows.y, m[1] = &c->scatter_rows.x; return 2;
    default: return mats_of_many(c, m);
    }
}

static bool is_mat(check_case *c, const check_buffer *b) {
    sac_mat *m[MOST_MATS];
    int n = mats_of(c, m);
    for (int i = 0; i < n; i++)
        if (m[i]->data == b->data) return true;
    return false;
}

/* ---------------------------------------------------------------- elements */

static size_t bytes_of(sac_dtype t) {
    return t == SAC_DTYPE_F32 ? 4 : 2;
}
static void convert(uint8_t *to, sac_dtype t, const uint8_t *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, from + i * 4, 4);
        uint16_t h = t == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
        if (t == SAC_DTYPE_F32)
            memcpy(to + i * 4, &f, 4);
        else
            memcpy(to + i * 2, &h, 2);
    }
}

void cuda_round_inputs(check_case *c, sac_dtype t) {
    for (int i = 0; i < c->n_buffers && t != SAC_DTYPE_F32; i++) {
        const check_buffer *b = &c->buffer[i];
        if (!is_mat(c, b)) continue;
        for (int64_t r = 0; r < b->rows; r++)
            for (size_t at = 0; at < b->row_bytes; at += 4) {
                uint8_t *p = b->data + (size_t)r * b->stride_bytes + at, half[2];
                convert(half, t, p, 1);
                float f = (float)check_element(t, half, 0);
                memcpy(p, &f, 4);
            }
    }
}

/* ---------------------------------------------------------------- the twin */

/* NaN among halves. */
static void replace_nan(uint8_t *row, size_t n_bytes, sac_dtype t) {
    for (size_t at = 0; at < n_bytes; at += 2) {
        uint16_t h = t == SAC_DTYPE_F16 ? sac_f32_to_f16(30000) : sac_f32_to_bf16(30000);
        if (isnan(check_element(t, row + at, 0))) memcpy(row + at, &h, 2);
    }
}

static int64_t columns_of(const check_buffer *b) {
    return (int64_t)(b->row_bytes / (size_t)sac_dtype_block_bytes(b->dtype)) * sac_dtype_block(b->dtype);
}
/* Weights in blocks as the device has them. */
static bool has_own_layout(const check_buffer *b) {
    return sac_dtype_block(b->dtype) > 1 && !b->sparse && sac_block_layout_has(b->dtype, columns_of(b));
}
static size_t bytes_of_buffer(const check_buffer *b, const cuda_part *p) {
    if (has_own_layout(b)) return sac_block_layout_bytes(b->dtype, b->rows, columns_of(b));
    return b->rows ? (size_t)(b->rows - 1) * p->stride_bytes + p->row_bytes : 0;
}

static void fill_image(cuda_twin *w, const check_case *c, sac_dtype t) {
    for (size_t i = 0; i < w->used; i++) w->image[i] = check_canary(i);
    for (int i = 0; i < c->n_buffers; i++) {
        const check_buffer *b = &c->buffer[i];
        const cuda_part *p = &w->part[i];
        if (has_own_layout(b)) {
            sac_block_layout_pack(b->dtype, b->rows, columns_of(b), b->start, w->image + p->at);
            continue;
        }
        for (int64_t r = 0; !b->sparse && r < b->rows; r++) {
            uint8_t *to = w->image + p->at + (size_t)r * p->stride_bytes;
            const uint8_t *from = b->start + (size_t)r * b->row_bytes;
            if (p->mat)
                convert(to, t, from, (int64_t)(b->row_bytes / 4));
            else
                memcpy(to, from, b->row_bytes);
            if (w->numbers_only && !p->mat && b->dtype != SAC_DTYPE_F32 && c->op == CHECK_attention)
                replace_nan(to, b->row_bytes, b->dtype);
        }
    }
}

/* Rows far apart get memory of their own, of which only the rows are looked at. */
static bool place_sparse(cuda_twin *w, const check_buffer *b, cuda_part *p) {
    sac_error err;
    if (w->device->alloc(w->device, (size_t)b->rows * p->stride_bytes, (void **)&p->own, &err) == SAC_OK)
        return true;
    fprintf(stderr, "checkkernels: %s\n", err.text);
    return false;
}

static void send_sparse(cuda_twin *w, const check_buffer *b, const cuda_part *p, sac_dtype t) {
    uint8_t *row = malloc(b->row_bytes);
    for (int64_t r = 0; r < b->rows; r++) {
        memcpy(row, b->start + (size_t)r * b->row_bytes, b->row_bytes);
        if (p->mat) convert(row, t, b->start + (size_t)r * b->row_bytes, (int64_t)(b->row_bytes / 4));
        if (w->numbers_only && b->dtype != SAC_DTYPE_F32) replace_nan(row, b->row_bytes, b->dtype);
        w->device->upload(&w->stream, p->own + (size_t)r * p->stride_bytes, row, p->row_bytes);
    }
    free(row);
}

/* ---------------------------------------------------------------- weights whose scales lie apart */

static int weights_of(check_case *c, sac_weight *of[CUDA_MOST_WEIGHTS]) {
    int n = 0;
    if (c->op == CHECK_linear) of[n++] = &c->linear.w;
    if (c->op == CHECK_embed) of[n++] = &c->embed.table;
    if (c->op == CHECK_gate_up_step) of[n++] = &c->gate_up_step.gate, of[n++] = &c->gate_up_step.up;
    if (c->op == CHECK_out_step) {
        of[n++] = &c->out_step.wo, of[n++] = &c->out_step.down;
        of[n++] = &c->out_step.gate, of[n++] = &c->out_step.up;
    }
    if (c->op == CHECK_qkv_step)
        of[n++] = &c->qkv_step.wq, of[n++] = &c->qkv_step.wk, of[n++] = &c->qkv_step.wv;
    for (int i = 0; c->op == CHECK_linear_group && i < c->linear_group.n; i++)
        of[n++] = &c->linear_group.w[i];
    return n;
}

/* As sac_place_weight has them, each in memory of its own. */
static bool place_codes(cuda_twin *w, check_case *c) {
    sac_weight *of[CUDA_MOST_WEIGHTS];
    sac_error err;
    bool ok = true;
    for (int i = weights_of(c, of) - 1; ok && i >= 0; i--) {
        const sac_dtype t = of[i]->format == SAC_WEIGHT_FLOATS
                                ? SAC_N_DTYPES
                                : sac_code_layout_type(of[i], sac_code_layout_is_plain(w->device));
        if (t == SAC_N_DTYPES) continue;
        const int64_t n = of[i]->tensor.dim[0], k = of[i]->tensor.dim[1];
        const size_t n_bytes = sac_block_layout_bytes(t, n, k), order_bytes = (size_t)k * sizeof(int32_t);
        uint8_t *codes = malloc(n_bytes);
        int32_t *order = malloc(order_bytes);
        ok = codes && order &&
             sac_code_layout_pack(of[i], t, codes, of[i]->order.data ? order : NULL) == SAC_OK &&
             w->device->alloc(w->device, n_bytes + 256 /* a planted fault reads on */, &w->codes[i], &err) ==
                 SAC_OK &&
             w->device->alloc(w->device, order_bytes, &w->order[i], &err) == SAC_OK;
        if (ok) w->device->upload(&w->stream, w->codes[i], codes, n_bytes);
        if (ok && of[i]->order.data) w->device->upload(&w->stream, w->order[i], order, order_bytes);
        ok = ok && w->device->stream_sync(&w->stream, &err) == SAC_OK;
        free(codes);
        free(order);
    }
    return ok;
}

static void point_to_codes(const cuda_twin *w, check_case *c, check_case *d) {
    sac_weight *here[CUDA_MOST_WEIGHTS], *there[CUDA_MOST_WEIGHTS];
    const int n = weights_of(c, here);
    weights_of(d, there);
    for (int i = 0; i < n; i++) {
        if (!w->codes[i]) continue;
        there[i]->tensor.data = w->codes[i];
        there[i]->tensor.dtype = sac_code_layout_type(here[i], sac_code_layout_is_plain(w->device));
        there[i]->scales = there[i]->zeros = (sac_tensor){0};
        there[i]->order.data = here[i]->order.data ? w->order[i] : NULL;
    }
}

bool cuda_twin_place(cuda_twin *w, check_case *c, sac_dtype t, bool aligned) {
    size_t at = GUARD;
    for (int i = 0; i < c->n_buffers; i++) {
        const check_buffer *b = &c->buffer[i];
        cuda_part *p = &w->part[i];
        *p = (cuda_part){.mat = is_mat(c, b), .row_bytes = b->row_bytes, .stride_bytes = b->stride_bytes};
        size_t off = aligned ? 0 : (uintptr_t)b->data % 64;
        if (p->mat) {
            p->row_bytes = b->row_bytes / 4 * bytes_of(t);
            p->stride_bytes = b->stride_bytes / 4 * bytes_of(t);
            off = off / 4 * bytes_of(t);
        } else { /* elements lie on their own size, as memory of a device gives them */
            size_t element = sac_dtype_block(b->dtype) == 1 ? bytes_of(b->dtype) : 2;
            off = has_own_layout(b) ? off / 16 * 16 : off / element * element;
        }
        if (b->sparse) {
            if (!place_sparse(w, b, p)) return false;
            continue;
        }
        p->at = (at + 63) / 64 * 64 + off;
        at = p->at + GUARD + bytes_of_buffer(b, p);
        if (at > w->image_bytes) {
            fprintf(stderr, "checkkernels: a case of more than %zu bytes\n", w->image_bytes);
            return false;
        }
    }
    w->used = at;
    return place_codes(w, c);
}

void cuda_twin_release(cuda_twin *w, const check_case *c) {
    for (int i = 0; i < c->n_buffers; i++) {
        w->device->free(w->device, w->part[i].own);
        w->part[i].own = NULL;
    }
    for (int i = 0; i < CUDA_MOST_WEIGHTS; i++) {
        w->device->free(w->device, w->codes[i]);
        w->device->free(w->device, w->order[i]);
        w->codes[i] = w->order[i] = NULL;
    }
}

/* Every word of the arguments that points into a buffer, pointed into its twin. Sizes and counts are far
 * below any address. */
static void point_to_twin(const cuda_twin *w, const check_case *c, check_case *d, sac_dtype t, void *from,
                          size_t n_bytes) {
    for (size_t at = 0; at + sizeof(uintptr_t) <= n_bytes; at += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, (char *)from + at, sizeof word);
        if (word == (uintptr_t)&c->lists) word = (uintptr_t)&d->lists;
        if (word == (uintptr_t)&c->rotation) word = (uintptr_t)&d->rotation;
        if (word == (uintptr_t)&c->many) word = (uintptr_t)&d->many;
        if (word >= (uintptr_t)c->many_lists && word < (uintptr_t)(c->many_lists + CHECK_MAX_MANY))
            word += (uintptr_t)d->many_lists - (uintptr_t)c->many_lists;
        if (word >= (uintptr_t)c->parts && word < (uintptr_t)(c->parts + CHECK_MAX_PARTS))
            word += (uintptr_t)d->parts - (uintptr_t)c->parts;
        for (int i = 0; i < c->n_buffers; i++) {
            const check_buffer *b = &c->buffer[i];
            const cuda_part *p = &w->part[i];
            if (word < (uintptr_t)b->block || word >= (uintptr_t)b->block + b->block_bytes) continue;
            size_t off = word - (uintptr_t)b->data;
            if (p->mat) /* a row, and in it an element */
                off = off / b->stride_bytes * p->stride_bytes + off % b->stride_bytes / 4 * bytes_of(t);
            word = (uintptr_t)(b->sparse ? p->own : w->memory + p->at) + off;
            break;
        }
        memcpy((char *)from + at, &word, sizeof word);
    }
}

void cuda_twin_args(const cuda_twin *w, check_case *c, sac_dtype t, check_case *d) {
    sac_mat *m[MOST_MATS];
    *d = *c;
    int n = mats_of(d, m);
    for (int i = 0; i < n; i++) m[i]->dtype = t;
    point_to_twin(w, c, d, t, (char *)d + offsetof(check_case, linear),
                  offsetof(check_case, lists) - offsetof(check_case, linear));
    point_to_twin(w, c, d, t, &d->lists, sizeof d->lists);
    point_to_twin(w, c, d, t, d->many_lists, sizeof d->many_lists);
    point_to_twin(w, c, d, t, &d->rotation, sizeof d->rotation);
    point_to_twin(w, c, d, t, d->parts, sizeof d->parts);
    point_to_twin(w, c, d, t, &d->many, sizeof d->many);
    point_to_codes(w, c, d);
}

bool cuda_twin_run(cuda_twin *w, const check_case *c, check_case *d, const sac_ops *t, sac_dtype dtype,
                   sac_status *st, uint8_t *after, sac_error *err) {
    fill_image(w, c, dtype);
    w->device->upload(&w->stream, w->memory, w->image, w->used);
    for (int i = 0; i < c->n_buffers; i++)
        if (c->buffer[i].sparse) send_sparse(w, &c->buffer[i], &w->part[i], dtype);
    *st = check_call(t, &w->stream, d);
    w->device->download(&w->stream, after, w->memory, w->used);
    return w->device->stream_sync(&w->stream, err) == SAC_OK;
}

/* ---------------------------------------------------------------- comparing */

/* What halves add to the tolerance of a case: the rounding of the result, of a bias that is added in y's
 * type, of a value before its activation, of the weights of attention. */
static void half_allowance(const check_case *c, sac_dtype t, double *absolute, double *relative) {
    double u = t == SAC_DTYPE_F16 ? 0x1p-11 : t == SAC_DTYPE_BF16 ? 0x1p-8 : 0;
    *relative = 1.01 * u;
    *absolute = t == SAC_DTYPE_F16 ? 0x1p-25 : 0;
    if (u == 0) return;
    if (c->op == CHECK_linear) {
        *absolute += (c->linear.bias ? 1.2 * u : 0) + (c->linear.act ? 0.6 * u : 0);
        if (c->linear.act) *relative = 2.5 * u;
        if (c->linear.accumulate) { /* a library may round the product before it adds y, as frameworks do */
            *relative = 2.02 * u;
            *absolute += u;
        }
    }
    if (c->op == CHECK_linear_group) *absolute += 1.2 * u; /* a bias */
    if (c->op == CHECK_qkv_step) *absolute += 4 * u; /* the normalised token is rounded: see cases_step.c */
    if (c->op == CHECK_gate_up_step) {               /* so are both factors' token */
        *relative = 2.02 * u;
        *absolute += 10 * u;
    }
    if (c->op == CHECK_attention_many) *absolute += 2 * u;
    if (c->op == CHECK_choice_attend) *absolute += 3 * u; /* and of the query that is turned */
    const sac_dtype of_keys = c->op == CHECK_attention         ? c->attention.kv.dtype
                              : c->op == CHECK_block_attention ? c->block_attention.kv.dtype
                                                               : SAC_DTYPE_F32;
    if (of_keys != SAC_DTYPE_F32) *absolute += of_keys == SAC_DTYPE_F16 ? 0x1p-11 : 0x1p-8; /* |v| < 1 */
}

static void compare_row(const check_case *c, const check_buffer *b, const cuda_part *p, sac_dtype t,
                        int64_t row, const uint8_t *got_row, check_result *r) {
    int64_t n = (int64_t)(b->row_bytes / sac_dtype_row_bytes(b->dtype, 1));
    double absolute = 0, relative = 0;
    if (p->mat) half_allowance(c, t, &absolute, &relative);
    if (!p->mat && c->op == CHECK_store_many) /* keys are rounded as a matrix first */
        absolute = t == SAC_DTYPE_F16 ? 0x1p-10 : t == SAC_DTYPE_BF16 ? 0x1p-7 : 0;
    for (int64_t i = 0; i < n; i++) {
        double want = check_number(b, b->want, row * n + i);
        double got = p->mat ? check_element(t, got_row, i) : check_number(b, got_row, i);
        double allowed = 0;
        if (c->exact && p->mat) {
            uint8_t half[4];
            float f = (float)want;
            convert(half, t, (const uint8_t *)&f, 1);
            want = check_element(t, half, 0);
        } else if (!c->exact) {
            allowed =
                c->allowed[b->allowed_at + row * n + i] + (c->relative + relative) * fabs(want) + absolute;
        }
        if (c->op == CHECK_key_scores && c->key_scores.back && c->key_scores.kv.dtype != SAC_DTYPE_F32)
            allowed *= (c->key_scores.kv.dtype == SAC_DTYPE_F16 ? 0x1p-11 : 0x1p-8) / (8 * 0x1p-24);
        const sac_packed_rows *keys = c->op == CHECK_packed_vote     ? &c->packed_vote.keys
                                      : c->op == CHECK_packed_scores ? &c->packed_scores.keys
                                                                     : NULL;
        /* the query is rounded to halves; sums of codes without an exponent are cut off sooner */
        if (keys && keys->bits == 4) {
            if (t == SAC_DTYPE_F32)
                allowed *= 0x1p-11 / (8 * 0x1p-24);
            else if (keys->k_group == 0 && keys->head_dim % 64 == 0)
                allowed *= 2;
        }
        double diff = fabs(got - want);
        bool lost = isfinite(want) && !isfinite(got);
        if (lost && p->mat && t == SAC_DTYPE_F16 && fabs(want) > 65504) continue; /* beyond what it holds */
        double ratio = lost ? INFINITY : diff > 0 ? (allowed > 0 ? diff / allowed : INFINITY) : 0;
        r->n_nan += lost;
        if (ratio > r->worst) r->worst = ratio;
        if (diff <= allowed || (!isfinite(want) && memcmp(&want, &got, sizeof want) == 0)) continue;
        if (!r->n_bad++ && !r->text[0])
            snprintf(r->text, sizeof r->text, "[%lld,%lld] got %.9g want %.9g, allowed %.3g", (long long)row,
                     (long long)i, got, want, allowed);
    }
}

void cuda_twin_compare(cuda_twin *w, const check_case *c, sac_dtype t, const uint8_t *after,
                       check_result *r) {
    bool *is_output = calloc(w->used, 1);
    memset(r, 0, sizeof *r);
    for (int i = 0; i < c->n_buffers; i++) {
        const check_buffer *b = &c->buffer[i];
        const cuda_part *p = &w->part[i];
        uint8_t *far = b->sparse ? malloc(p->row_bytes) : NULL;
        for (int64_t row = 0; b->output && row < b->rows; row++) {
            size_t at = (size_t)row * p->stride_bytes;
            if (b->sparse) {
                w->device->download(&w->stream, far, p->own + at, p->row_bytes);
                w->device->stream_sync(&w->stream, NULL);
            } else {
                memset(is_output + p->at + at, 1, p->row_bytes);
            }
            compare_row(c, b, p, t, row, b->sparse ? far : after + p->at + at, r);
        }
        free(far);
    }
    for (size_t i = 0; i < w->used && !r->text[0]; i++)
        if (!is_output[i] && after[i] != w->image[i])
            snprintf(r->text, sizeof r->text,
                     "wrote outside of the output's rows, or changed an input (byte %zu)", i);
    free(is_output);
}

/* ---------------------------------------------------------------- life */

bool cuda_twin_open(cuda_twin *w, sac_device *device, sac_error *err) {
    *w = (cuda_twin){.device = device, .image_bytes = (size_t)256 << 20};
    w->image = malloc(w->image_bytes);
    w->after[0] = malloc(w->image_bytes);
    w->after[1] = malloc(w->image_bytes);
    return w->image && w->after[0] && w->after[1] &&
           device->alloc(device, w->image_bytes, (void **)&w->memory, err) == SAC_OK &&
           device->stream_open(device, &w->stream, SAC_CUDA_SCRATCH_BYTES, err) == SAC_OK;
}
void cuda_twin_close(cuda_twin *w) {
    sac_ops_close(&w->stream);
    w->device->stream_close(&w->stream);
    w->device->free(w->device, w->memory);
    free(w->image);
    free(w->after[0]);
    free(w->after[1]);
}
