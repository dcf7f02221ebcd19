#include "decoder.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- memory */

static int64_t q_cols(const sac_decoder_config *c) {
    return (int64_t)c->n_heads * c->head_dim;
}
static int64_t kv_cols(const sac_decoder_config *c) {
    return (int64_t)c->n_kv_heads * c->head_dim;
}

static size_t floats(int64_t rows, int64_t cols) {
    return (size_t)rows * (size_t)cols * sizeof(float);
}

void sac_decoder_plan_bytes(const sac_decoder_config *c, int64_t n_ctx, int64_t chunk,
                            const sac_kv_format *format, sac_decoder_plan *plan) {
    *plan = (sac_decoder_plan){
        .kv_bytes =
            sac_arena_block_bytes(sac_kv_cache_bytes(c->n_layers, c->n_kv_heads, c->head_dim, n_ctx, format)),
        .hidden_bytes =
            sac_arena_block_bytes(floats(n_ctx, c->hidden)) + sac_arena_block_bytes(floats(n_ctx, q_cols(c))),
        .activation_bytes = sac_arena_block_bytes(floats(chunk, c->hidden)) +
                            2 * sac_arena_block_bytes(floats(chunk, kv_cols(c))) +
                            2 * sac_arena_block_bytes(floats(chunk, c->intermediate)),
        .rope_bytes = sac_arena_block_bytes(floats(n_ctx, c->rope.rot_dim)) +
                      sac_arena_block_bytes((size_t)n_ctx * sizeof(int32_t)),
        .logits_bytes = sac_arena_block_bytes(floats(1, c->vocab)),
    };
}

sac_status sac_decoder_state_init(sac_decoder_state *s, const sac_decoder *d, int64_t n_ctx, int64_t chunk,
                                  const sac_kv_format *format, sac_arena *arena, sac_error *err) {
    const sac_decoder_config *c = &d->config;
    *s = (sac_decoder_state){
        .n_ctx = n_ctx, .chunk = chunk, .prefill = &sac_prefill_dense, .decode = &sac_decode_dense};
    SAC_TRY(sac_kv_cache_init(&s->cache, c->n_layers, c->n_kv_heads, c->head_dim, n_ctx, format, arena, err));
    s->hidden = sac_arena_take(arena, floats(n_ctx, c->hidden));
    s->queries = sac_arena_take(arena, floats(n_ctx, q_cols(c)));
    s->norm = sac_arena_take(arena, floats(chunk, c->hidden));
    s->k = sac_arena_take(arena, floats(chunk, kv_cols(c)));
    s->v = sac_arena_take(arena, floats(chunk, kv_cols(c)));
    s->gate = sac_arena_take(arena, floats(chunk, c->intermediate));
    s->up = sac_arena_take(arena, floats(chunk, c->intermediate));
    s->cos_sin = sac_arena_take(arena, floats(n_ctx, c->rope.rot_dim));
    s->positions = sac_arena_take(arena, (size_t)n_ctx * sizeof(int32_t));
    s->logits = sac_arena_take(arena, floats(1, c->vocab));
    if (!s->hidden || !s->queries || !s->norm || !s->k || !s->v || !s->gate || !s->up || !s->cos_sin ||
        !s->positions || !s->logits)
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for the decoder's activations");
    return SAC_OK;
}

/* ---------------------------------------------------------------- one layer */

/* What every step of a layer needs; rows are counted from the start of the sequence. */
typedef struct run {
    const sac_decoder *d;
    sac_decoder_state *s;
    const sac_ops *ops;
    const sac_stream *stream;
} run;

static sac_mat hidden_rows(const run *r, int64_t first, int64_t n) {
    return sac_mat_rows(sac_mat_f32(r->s->hidden, r->s->n_ctx, r->d->config.hidden), first, n);
}
static sac_mat query_rows(const run *r, int64_t first, int64_t n) {
    return sac_mat_rows(sac_mat_f32(r->s->queries, r->s->n_ctx, q_cols(&r->d->config)), first, n);
}

static sac_status linear(const run *r, sac_mat y, sac_mat x, const sac_tensor *w, const float *bias,
                         bool accumulate) {
    return r->ops->linear(
        r->stream, &(sac_linear_args){
                       .y = y, .x = x, .w = *w, .bias = bias, .accumulate = accumulate, .fast = r->s->fast});
}

static sac_status rotate(const run *r, sac_mat x, int n_heads, int64_t first) {
    const sac_decoder_config *c = &r->d->config;
    return r->ops->rope(r->stream, &(sac_rope_args){
                                       .x = x,
                                       .n_heads = n_heads,
                                       .head_dim = c->head_dim,
                                       .rot_dim = c->rope.rot_dim,
                                       .interleaved = c->rope.interleaved,
                                       .cos_sin = r->s->cos_sin,
                                       .pos = r->s->positions + first,
                                   });
}

/* Rows [first, first + n): norm, q, k, v, rope; q to the queries, k and v to the cache. */
static sac_status project_qkv(const run *r, int layer, int64_t first, int64_t n) {
    const sac_decoder_config *c = &r->d->config;
    const sac_decoder_layer *w = &r->d->layers[layer];
    sac_mat norm = sac_mat_f32(r->s->norm, n, c->hidden), q = query_rows(r, first, n);
    sac_mat k = sac_mat_f32(r->s->k, n, kv_cols(c)), v = sac_mat_f32(r->s->v, n, kv_cols(c));
    SAC_TRY(r->ops->rmsnorm(r->stream,
                            &(sac_rmsnorm_args){norm, hidden_rows(r, first, n), w->attn_norm, c->rms_eps}));
    SAC_TRY(linear(r, q, norm, &w->q, w->q_bias, false));
    SAC_TRY(linear(r, k, norm, &w->k, w->k_bias, false));
    SAC_TRY(linear(r, v, norm, &w->v, w->v_bias, false));
    SAC_TRY(rotate(r, q, c->n_heads, first));
    SAC_TRY(rotate(r, k, c->n_kv_heads, first));
    return r->ops->kv_store(
        r->stream, &(sac_kv_store_args){sac_kv_cache_view(&r->s->cache, layer, first + n), k, v, first});
}

/* Rows [first, first + n): attention output into the hidden states, then the MLP. */
static sac_status project_out(const run *r, int layer, int64_t first, int64_t n) {
    const sac_decoder_config *c = &r->d->config;
    const sac_decoder_layer *w = &r->d->layers[layer];
    sac_mat h = hidden_rows(r, first, n), norm = sac_mat_f32(r->s->norm, n, c->hidden);
    sac_mat gate = sac_mat_f32(r->s->gate, n, c->intermediate),
            up = sac_mat_f32(r->s->up, n, c->intermediate);
    SAC_TRY(linear(r, h, query_rows(r, first, n), &w->o, w->o_bias, true));
    SAC_TRY(r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){norm, h, w->mlp_norm, c->rms_eps}));
    SAC_TRY(linear(r, gate, norm, &w->gate, NULL, false));
    SAC_TRY(linear(r, up, norm, &w->up, NULL, false));
    SAC_TRY(r->ops->swiglu(r->stream, &(sac_swiglu_args){gate, gate, up}));
    return linear(r, h, gate, &w->down, NULL, true);
}

static sac_layer_attention layer_attention(const run *r, int layer, int64_t past, int64_t n) {
    const sac_decoder_config *c = &r->d->config;
    return (sac_layer_attention){
        .ops = r->ops,
        .stream = r->stream,
        .layer = layer,
        .n_layers = c->n_layers,
        .n_heads = c->n_heads,
        .q = query_rows(r, past, n),
        .kv = sac_kv_cache_view(&r->s->cache, layer, past + n),
        .past = past,
        .window = c->sliding_window,
        .scale = 1.0f / sqrtf((float)c->head_dim),
    };
}

/* ---------------------------------------------------------------- the sequence */

static bool outgrown(const sac_rope_config *rope, int64_t n_total) {
    return rope->scaling == SAC_ROPE_DYNAMIC && (double)n_total > rope->original_max_position;
}

bool sac_decoder_may_reuse(const sac_decoder_config *c, int64_t n_held, int64_t n_total) {
    return !outgrown(&c->rope, n_held) && !outgrown(&c->rope, n_total);
}

/* Dynamic scaling ties the frequencies to the length, so its rows are made anew for every call; only the new
 * tokens' rows are read, since keys are stored rotated. */
static void prepare_positions(const run *r, int64_t past, int64_t n_total) {
    sac_decoder_state *s = r->s;
    const sac_rope_config *rope = &r->d->config.rope;
    int64_t first = rope->scaling == SAC_ROPE_DYNAMIC ? past : s->n_cos_sin;
    if (first >= n_total) return;
    sac_rope_fill(rope, first, n_total - first, n_total, s->cos_sin);
    for (int64_t p = first; p < n_total; p++) s->positions[p] = (int32_t)p;
    s->n_cos_sin = n_total;
}

sac_status sac_decoder_prefill(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                               const sac_stream *stream, int64_t past, int64_t n, sac_layer_fn on_layer,
                               void *ctx, sac_error *err) {
    assert(past >= 0 && n > 0 && past == s->cache.n_rows);
    if (n > s->n_ctx - past)
        return sac_fail(
            err, SAC_TOO_LONG,
            "%lld tokens after %lld do not fit a context of %lld: ask with fewer frames or a larger --ctx",
            (long long)n, (long long)past, (long long)s->n_ctx);
    run r = {d, s, ops, stream};
    int64_t end = past + n;
    prepare_positions(&r, past, end);
    for (int layer = 0; layer < d->config.n_layers; layer++) {
        if (on_layer) SAC_TRY(on_layer(ctx, layer, d->config.n_layers));
        for (int64_t i = past; i < end; i += s->chunk)
            SAC_TRY(project_qkv(&r, layer, i, end - i < s->chunk ? end - i : s->chunk));
        sac_layer_attention a = layer_attention(&r, layer, past, n);
        SAC_TRY(n == 1 ? s->decode->attend(NULL, &a) : s->prefill->attend(NULL, &a));
        for (int64_t i = past; i < end; i += s->chunk)
            SAC_TRY(project_out(&r, layer, i, end - i < s->chunk ? end - i : s->chunk));
    }
    if (on_layer) SAC_TRY(on_layer(ctx, d->config.n_layers, d->config.n_layers));
    s->cache.n_rows = end;
    return SAC_OK;
}

sac_status sac_decoder_logits(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                              const sac_stream *stream, int64_t first, int64_t n, float *out) {
    const sac_decoder_config *c = &d->config;
    run r = {d, s, ops, stream};
    assert(out || n == 1);
    for (int64_t i = 0; i < n; i += s->chunk) {
        int64_t rows = n - i < s->chunk ? n - i : s->chunk;
        sac_mat norm = sac_mat_f32(s->norm, rows, c->hidden);
        sac_mat y = sac_mat_f32(out ? out + i * c->vocab : s->logits, rows, c->vocab);
        SAC_TRY(ops->rmsnorm(
            stream, &(sac_rmsnorm_args){norm, hidden_rows(&r, first + i, rows), d->final_norm, c->rms_eps}));
        SAC_TRY(linear(&r, y, norm, &d->head, NULL, false));
    }
    return SAC_OK;
}

sac_status sac_decoder_step(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                            const sac_stream *stream, int64_t past, int32_t id, sac_error *err) {
    run r = {d, s, ops, stream};
    if (past >= s->n_ctx)
        return sac_fail(err, SAC_TOO_LONG, "the context of %lld tokens is full", (long long)s->n_ctx);
    SAC_TRY(ops->embed(stream, &(sac_embed_args){hidden_rows(&r, past, 1), d->embed, &id}));
    SAC_TRY(sac_decoder_prefill(d, s, ops, stream, past, 1, NULL, NULL, err));
    return sac_decoder_logits(d, s, ops, stream, past, 1, NULL);
}
