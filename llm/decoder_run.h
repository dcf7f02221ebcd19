/* decoder_run.h - what the files of the decoder share: a call, its matrices, and a layer's linear parts. Of
 * the decoder alone. */
#ifndef SAC_LLM_DECODER_RUN_H
#define SAC_LLM_DECODER_RUN_H

#include "decoder.h"

static inline int64_t q_cols(const sac_decoder_config *c) {
    return (int64_t)c->n_heads * c->head_dim;
}
static inline int64_t kv_cols(const sac_decoder_config *c) {
    return (int64_t)c->n_kv_heads * c->head_dim;
}

static inline int64_t min_rows(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline size_t floats(int64_t rows, int64_t cols) {
    return (size_t)rows * (size_t)cols * sizeof(float);
}

/* What every step of a layer needs; rows are counted from the start of the sequence. */
typedef struct decoder_run {
    const sac_decoder *d;
    sac_decoder_state *s;
    const sac_ops *ops;
    const sac_stream *stream;
} decoder_run;

static inline sac_mat mat(const decoder_run *r, void *data, int64_t rows, int64_t cols) {
    return (sac_mat){data, rows, cols, cols, r->s->dtype};
}
static inline sac_mat hidden_rows(const decoder_run *r, int64_t first, int64_t n) {
    return sac_mat_rows(mat(r, r->s->hidden, r->s->n_ctx, r->d->config.hidden), first, n);
}
static inline sac_mat query_rows(const decoder_run *r, int64_t first, int64_t n) {
    return sac_mat_rows(mat(r, r->s->queries, r->s->n_ctx, q_cols(&r->d->config)), first, n);
}

static inline sac_status linear(const decoder_run *r, sac_mat y, sac_mat x, const sac_tensor *w,
                                const float *bias, bool accumulate) {
    return r->ops->linear(
        r->stream, &(sac_linear_args){
                       .y = y, .x = x, .w = *w, .bias = bias, .accumulate = accumulate, .fast = r->s->fast});
}

static inline sac_rotation rotation(const decoder_run *r) {
    return (sac_rotation){.cos_sin = r->s->device_cos_sin,
                          .rot_dim = r->s->rope.rot_dim,
                          .interleaved = r->s->rope.interleaved,
                          .factor = sac_rope_attention_factor(&r->s->rope)};
}

static inline sac_status rotate_to(const decoder_run *r, sac_mat x, int n_heads, const int32_t *positions) {
    return r->ops->rope(r->stream, &(sac_rope_args){.x = x,
                                                    .n_heads = n_heads,
                                                    .head_dim = r->d->config.head_dim,
                                                    .rotation = rotation(r),
                                                    .pos = positions});
}
static inline sac_status rotate(const decoder_run *r, sac_mat x, int n_heads, int64_t first) {
    return rotate_to(r, x, n_heads, r->s->device_positions + first);
}

/* To the device's copy of something; on the CPU there is no copy. */
static inline sac_status upload(const decoder_run *r, void *to, const void *from, size_t n_bytes) {
    return r->s->device ? r->s->device->upload(r->stream, to, from, n_bytes) : SAC_OK;
}

static inline void pause_for_others(const sac_decoder_state *s) {
    if (s->pause.fn) s->pause.fn(s->pause.ctx);
}

/* Hidden rows [first, first + n): norm, q, k, v, rope; q, unless it is made later, to the queries, k and v to
 * rows [at, at + n) of the view. */
sac_status sac_decoder_project_qkv(const decoder_run *r, int layer, int64_t first, int64_t n, bool q_later,
                                   const sac_kv_view *kv, int64_t at);

/* A layer's MLP over rows [first, first + n). */
sac_status sac_decoder_mlp(const decoder_run *r, int layer, int64_t first, int64_t n);

/* Rows [first, first + n): attention output into the hidden states, then the MLP. */
sac_status sac_decoder_project_out(const decoder_run *r, int layer, int64_t first, int64_t n);

/* Hidden rows [first, first + n), whose keys and values stand in the view from row `past` on. */
sac_layer_attention sac_decoder_layer_attention(const decoder_run *r, int layer, int64_t first, int64_t n,
                                                sac_kv_view kv, int64_t past, int64_t n_seen);

/* Attention of a step whose keys and values are stored. */
sac_status sac_decoder_attend_step(const decoder_run *r, const sac_layer_attention *a);

/* Dynamic scaling ties the frequencies to the length, so its rows are made anew for every call; only the new
 * tokens' rows are read, since keys are stored rotated. */
sac_status sac_decoder_prepare_rotations(const decoder_run *r, int64_t past, int64_t n_total);

/* Positions of hidden rows [first, first + n), as the host has them. */
sac_status sac_decoder_upload_positions(const decoder_run *r, int64_t first, int64_t n);

/* What a failed call leaves: layers that have met the new tokens and layers that have not. */
void sac_decoder_cut_back(sac_decoder_state *s, int64_t past);

/* Ops answer without words. */
sac_status sac_decoder_explain(const decoder_run *r, sac_status st, sac_error *err);

#endif
