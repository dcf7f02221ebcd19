/* decoder_run.h - what the files of the decoder share: a call, and its rows. Of the decoder alone. */
#ifndef SAC_LLM_DECODER_RUN_H
#define SAC_LLM_DECODER_RUN_H

#include "decoder.h"

static inline int64_t decoder_q_cols(const sac_decoder_config *c) {
    return (int64_t)c->n_heads * c->head_dim;
}
static inline int64_t decoder_kv_cols(const sac_decoder_config *c) {
    return (int64_t)c->n_kv_heads * c->head_dim;
}

static inline int64_t decoder_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline size_t decoder_floats(int64_t rows, int64_t cols) {
    return (size_t)rows * (size_t)cols * sizeof(float);
}

/* What every step of a layer needs; rows are counted from the start of the sequence. */
typedef struct decoder_run {
    const sac_decoder *d;
    sac_decoder_state *s;
    const sac_ops *ops;
    const sac_stream *stream;
} decoder_run;

static inline sac_mat decoder_mat(const decoder_run *r, void *data, int64_t rows, int64_t cols) {
    return (sac_mat){data, rows, cols, cols, r->s->dtype};
}
static inline sac_mat decoder_hidden_rows(const decoder_run *r, int64_t first, int64_t n) {
    return sac_decoder_hidden(r->s, first, n);
}
/* In the type of queries (block.h). */
static inline sac_mat decoder_query_rows(const decoder_run *r, int64_t first, int64_t n) {
    const sac_decoder_state *s = r->s;
    int64_t cols = decoder_q_cols(&r->d->config);
    sac_mat all = {s->queries, s->n_ctx, cols, cols, s->shape.dtype};
    return sac_mat_rows(all, first - s->first_row, n);
}

/* Gates of queries, where attention is gated. */
static inline sac_mat decoder_gate_rows(const decoder_run *r, int64_t first, int64_t n) {
    const sac_decoder_state *s = r->s;
    const int64_t cols = decoder_q_cols(&r->d->config);
    if (!s->query_gates) return (sac_mat){0};
    return sac_mat_rows((sac_mat){s->query_gates, s->n_ctx, cols, cols, s->dtype}, first - s->first_row, n);
}

/* The same memory with elements of another type of the same size. */
static inline sac_mat decoder_as(sac_mat m, sac_dtype t) {
    m.dtype = t;
    return m;
}

static inline sac_block_shape decoder_block_shape(const sac_decoder_config *c) {
    return (sac_block_shape){.n_heads = c->n_heads,
                             .n_kv_heads = c->n_kv_heads,
                             .head_dim = c->head_dim,
                             .intermediate = c->intermediate,
                             .rms_eps = c->rms_eps,
                             .gate_act = c->gate_act,
                             .whole_qk_norm = c->whole_qk_norm,
                             .gated_attention = c->gated_attention,
                             .residual_scale = c->residual_scale,
                             .experts = c->experts,
                             .linear = c->linear,
                             .latent = c->latent};
}

/* Hidden rows [first, first + n) of the sequence, at most a chunk, with its scratch. */
sac_block_rows sac_decoder_rows(const decoder_run *r, int64_t first, int64_t n);

static inline sac_rotation decoder_rotation(const decoder_run *r, int layer) {
    const sac_decoder_state *s = r->s;
    const sac_decoder_config *c = &r->d->config;
    const bool own = c->two_ropes && sac_layer_set_has(&c->second, layer);
    const sac_rope_config *rope = own ? &c->second_rope : &s->rope;
    return (sac_rotation){.cos_sin = own ? s->device_second_cos_sin : s->device_cos_sin,
                          .rot_dim = rope->rot_dim,
                          .interleaved = rope->interleaved,
                          .factor = sac_rope_attention_factor(rope)};
}

/* Embeddings of ids, which ops read where they lie, to rows y. */
static inline sac_status decoder_embed(const sac_decoder *d, const sac_ops *ops, const sac_stream *stream,
                                       sac_mat y, const int32_t *ids) {
    return ops->embed(stream, &(sac_embed_args){
                                  .y = y, .table = d->embed, .ids = ids, .scale = d->config.embed_scale});
}

/* Logits [n] as they come of the head, on the host: divided and capped where the model does that. */
void sac_decoder_end_logits(const sac_decoder *d, float *logits, int64_t n);

/* Hidden rows of the sequence's rows from `at` on, which the layer is about to run, to who reads them. */
static inline void decoder_show_rows(const sac_decoder_state *s, int layer, int64_t at, sac_mat x) {
    if (s->layer_rows) sac_layer_rows_keep(s->layer_rows, layer, at, x);
}

/* To the device's copy of something; on the CPU there is no copy. */
static inline sac_status decoder_upload(const decoder_run *r, void *to, const void *from, size_t n_bytes) {
    return r->s->device ? r->s->device->upload(r->stream, to, from, n_bytes) : SAC_OK;
}

/* What attention of the queries of hidden rows `first` and after is told, whose keys and values stand in the view
 * from row `past` on. */
sac_layer_attention sac_decoder_layer_attention(const decoder_run *r, int layer, int64_t first, sac_mat q,
                                                sac_kv_view kv, int64_t past, int64_t n_seen);

/* A token each of n sequences, with tokens before it that are computed again. Rows of a sequence follow one another,
 * the token's own is the last. */
typedef struct decoder_steps {
    const sac_decoder *d;
    sac_decoder_state *const *states; /* [n] */
    int64_t n;
    const int64_t *first; /* [n + 1] where the rows of each begin and the last ones end; NULL: a row each */
    sac_block_rows rows;
    const struct sac_pass_chunk *chunks; /* [n_chunks] of prompts, whose rows stand before all others (decoder_pass.h) */
    int64_t n_chunks, n_before;          /* and how many rows these are */
} decoder_steps;

static inline int64_t decoder_first_row(const decoder_steps *t, int64_t i) {
    return t->first ? t->first[i] : t->n_before + i;
}

/* Whether there is a row for one more token, turned as those before it. */
sac_status sac_decoder_check_room(const sac_decoder_state *s, sac_error *err);
/* The same, and memory for the rows of n tokens (kv_cache.h). */
sac_status sac_decoder_make_room(sac_decoder_state *s, const sac_stream *stream, int64_t n, sac_error *err);

/* Where keys and values of sequence i go in a layer, and what attention of its queries is told; then, when they are stored, that
 * attention, of a sequence by itself. a->q, in the type of queries, has what it makes. */
sac_layer_attention sac_decoder_step_open(const decoder_steps *t, int layer, int64_t i, sac_block_part *part);
sac_status sac_decoder_step_attend_one(const decoder_run *r, const sac_layer_attention *a);

/* One layer of a step. Attention is each sequence's own; on a device in one go, as far as ops and methods
 * go. */
sac_status sac_decoder_step_layer(const decoder_steps *t, int layer);
/* Its attention alone: queries, keys and values are made but not stored. */
sac_status sac_decoder_step_attend(const decoder_steps *t, int layer);

/* Makes the cos/sin rows of positions [past, n_total) ready. Dynamic scaling ties the frequencies to the
 * length, so its rows are made anew for every call; only the new tokens' rows are read, since keys are stored
 * rotated. */
sac_status sac_decoder_prepare_rotations(const decoder_run *r, int64_t past, int64_t n_total);

/* To the device: positions of hidden rows [first, first + n), as the host has them. */
sac_status sac_decoder_upload_positions(const decoder_run *r, int64_t first, int64_t n);

/* What a step at `past` needs of tables, on a device for some steps to come. `n_before`: rows computed again
 * that stand before the step's own. */
sac_status sac_decoder_prepare_step_rotations(const decoder_run *r, int64_t past);
sac_status sac_decoder_prepare_step_positions(const decoder_run *r, int64_t past, int64_t n_before);

/* Logits of one hidden row, on the host. */
sac_status sac_decoder_fetch_logits(const decoder_run *r, int64_t row, float *out);
/* Likewise to s->logits, or what is wanted of them where the device can tell it (decoder_told.h). */
sac_status sac_decoder_step_logits(const decoder_run *r, int64_t row);

/* What a failed call leaves: layers that have met the new tokens and layers that have not. */
void sac_decoder_cut_back(sac_decoder_state *s, int64_t past);

/* Ops answer without words: says what a failure of theirs means. */
sac_status sac_decoder_explain(const decoder_run *r, sac_status st, sac_error *err);

#endif
