#include "decoder_batch.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------- memory */

static int64_t q_cols(const sac_decoder_config *c) {
    return (int64_t)c->n_heads * c->head_dim;
}
static int64_t kv_cols(const sac_decoder_config *c) {
    return (int64_t)c->n_kv_heads * c->head_dim;
}

static int64_t min_rows(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static size_t floats(int64_t rows, int64_t cols) {
    return (size_t)rows * (size_t)cols * sizeof(float);
}

static sac_attention_shape attention_shape(const sac_decoder *d, const sac_decoder_options *o,
                                           const sac_rope_config *rope, const sac_device *device) {
    const sac_decoder_config *c = &d->config;
    return (sac_attention_shape){
        .n_layers = c->n_layers,
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_dim = c->head_dim,
        .hidden = c->hidden,
        .n_ctx = o->n_ctx,
        .chunk = o->chunk,
        .max_position = c->max_position,
        .window = c->sliding_window,
        .measure_mass = o->measure_mass,
        .fixed_rotation = rope->scaling != SAC_ROPE_DYNAMIC,
        .controller = d->controller,
        .device = device,
        .dtype = device ? d->embed.dtype : SAC_DTYPE_F32,
    };
}

/* What runs on the CPU only. */
static sac_status check_device(const sac_decoder_state *s, const sac_kv_choice *kv, sac_error *err) {
    const sac_prefill_policy *prefill = s->prefill.policy;
    const sac_decode_policy *decode = s->decode.policy;
    const char *what = NULL;
    if (!s->device) return SAC_OK;
    if (kv->format->packing && !kv->format->packing->take_device) what = kv->format->name;
    if (prefill != &sac_prefill_dense && !prefill->take_device) what = prefill->name;
    if (decode != &sac_decode_dense && !decode->take_device) what = decode->name;
    if (s->shape.measure_mass) what = "measuring of attention mass";
    return what ? sac_fail(err, SAC_UNSUPPORTED, "%s runs on the CPU only so far: leave out --device", what)
                : SAC_OK;
}

/* Combinations that make no sense, with the reason. */
static sac_status check_choices(const sac_decoder_state *s, const sac_kv_choice *kv, sac_error *err) {
    const sac_decode_policy *d = s->decode.policy;
    SAC_TRY(check_device(s, kv, err));
    if (kv->format->packing && d != &sac_decode_dense)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "decode policy %s reads plain rows and KV format %s packs them: use one of the two",
                        d->name, kv->format->name);
    if (s->prefill.policy->keep && d->rebuild)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "prefill policy %s drops tokens that decode policy %s may rebuild",
                        s->prefill.policy->name, d->name);
    for (const sac_decode *m = &s->decode; m; m = m->base)
        if (s->prefill.policy->keep && m->policy->turns_keys)
            return sac_fail(err, SAC_UNSUPPORTED,
                            "prefill policy %s drops tokens, and decode policy %s needs the rows of all",
                            s->prefill.policy->name, m->policy->name);
    if (s->prefill.policy->turns_keys && d->settle)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "decode policy %s drops rows, and prefill policy %s needs those of all tokens",
                        d->name, s->prefill.policy->name);
    if (s->prefill.policy->turns_keys && kv->format->packing && kv->format->packing->drops_rows &&
        kv->format->packing->drops_rows(kv->p))
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "KV format %s drops rows by these settings, and prefill policy %s needs those of all tokens",
            kv->format->name, s->prefill.policy->name);
    if (s->shape.window && s->shape.window < s->n_ctx && (d->settle || s->prefill.policy->keep))
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "%s drops rows, and this model's sliding window of %lld counts rows: use --ctx %lld or less",
            d->settle ? d->name : s->prefill.policy->name, (long long)s->shape.window,
            (long long)s->shape.window);
    return SAC_OK;
}

/* On a device attention is fastest where queries, keys and values are of one type. */
static const char *default_kv(const sac_decoder_state *s) {
    return s->device ? sac_dtype_name(s->dtype) : "f16";
}

sac_status sac_decoder_state_open(sac_decoder_state *s, const sac_decoder *d, const sac_decoder_options *o,
                                  sac_error *err) {
    const sac_decoder_config *c = &d->config;
    *s = (sac_decoder_state){.n_ctx = o->n_ctx,
                             .chunk = o->chunk,
                             .fast = o->fast,
                             .rope = c->rope,
                             .device = o->device && o->device->kind != SAC_DEVICE_CPU ? o->device : NULL,
                             .outside_rows = o->outside_rows,
                             .dtype = SAC_DTYPE_F32};
    if (s->device) s->dtype = d->embed.dtype;
    sac_kv_choice kv;
    sac_status st;
    snprintf(s->rope_line, sizeof s->rope_line, "%s", o->rope ? o->rope : "model");
    SAC_TRY(sac_rope_scheme(&s->rope, s->rope_line, c->max_position, o->n_ctx, err));
    s->shape = attention_shape(d, o, &s->rope, s->device);
    SAC_TRY_GOTO(st, sac_kv_choice_parse(&kv, o->kv ? o->kv : default_kv(s), &s->shape, err), fail);
    SAC_TRY_GOTO(st, sac_prefill_open(&s->prefill, o->prefill ? o->prefill : "dense", &s->shape, err), fail);
    SAC_TRY_GOTO(st, sac_decode_open(&s->decode, o->decode ? o->decode : "dense", &s->shape, err), fail);
    SAC_TRY_GOTO(st, check_choices(s, &kv, err), fail);
    s->window_sums.window = sac_shared_window(&s->prefill, &s->decode, &s->shape);
    if (s->decode.policy->max_rebuild) s->n_spare = s->decode.policy->max_rebuild(s->decode.p);
    SAC_TRY_GOTO(st, sac_kv_cache_open(&s->cache, &kv, &s->shape, s->n_spare, err), fail);
    return SAC_OK;
fail:
    sac_decoder_state_free(s);
    return st;
}

void sac_decoder_state_free(sac_decoder_state *s) {
    if (s->device && s->logits) s->device->host_free(s->device, s->logits);
    sac_kv_cache_free(&s->cache);
    sac_prefill_free(&s->prefill);
    sac_decode_free(&s->decode);
    *s = (sac_decoder_state){0};
}

/* The two kinds of memory; on the CPU both pointers are the same. */
typedef struct arenas {
    sac_arena *device, *host;
} arenas;

static void *rows_on_device(const sac_decoder_state *s, arenas a, int64_t rows, int64_t cols) {
    return sac_arena_take(a.device, (size_t)rows * sac_dtype_row_bytes(s->dtype, cols));
}

/* What the host reads or writes and ops read too: twice, or the same memory on the CPU. */
static void take_both(arenas a, size_t n_bytes, void **host, void **device) {
    *host = sac_arena_take(a.host, n_bytes);
    *device = a.host == a.device ? *host : sac_arena_take(a.device, n_bytes);
}

/* Takes everything. */
static void take_activations(sac_decoder_state *s, const sac_decoder_config *c, arenas a) {
    s->norm = rows_on_device(s, a, s->chunk, c->hidden);
    s->k = rows_on_device(s, a, s->chunk, kv_cols(c));
    s->v = rows_on_device(s, a, s->chunk, kv_cols(c));
    s->gate = rows_on_device(s, a, s->chunk, c->intermediate);
    s->up = rows_on_device(s, a, s->chunk, c->intermediate);
    s->device_ids = a.host == a.device ? NULL : sac_arena_take(a.device, (size_t)s->chunk * sizeof(int32_t));
    if (s->prefill.policy->picks_queries)
        s->picked_positions = sac_arena_take(a.device, (size_t)s->chunk * sizeof(int32_t));
}

/* The bytes of each purpose go to the plans; only `on_device` is written when there is one memory. */
static void take(sac_decoder_state *s, const sac_decoder *d, arenas a, sac_decoder_plan *on_device,
                 sac_decoder_plan *on_host) {
    const sac_decoder_config *c = &d->config;
    int64_t n_rows = s->n_ctx + s->n_spare;
    size_t at = a.device->used_bytes, host_at = a.host->used_bytes;
#define ADD_TO(part)                                                                                         \
    (on_host->part = a.host->used_bytes - host_at, on_device->part = a.device->used_bytes - at,              \
     at = a.device->used_bytes, host_at = a.host->used_bytes)
    sac_kv_cache_take(&s->cache, a.device, a.host);
    ADD_TO(kv_bytes);
    s->hidden = rows_on_device(s, a, n_rows, c->hidden);
    s->queries = rows_on_device(s, a, n_rows, q_cols(c));
    take_both(a, (size_t)n_rows * sizeof(int32_t), (void **)&s->positions, (void **)&s->device_positions);
    s->embeddings = s->hidden;
    if (s->device)
        s->embeddings = s->outside_rows ? sac_arena_take(a.host, floats(s->n_ctx, c->hidden)) : NULL;
    ADD_TO(hidden_bytes);
    take_activations(s, c, a);
    ADD_TO(activation_bytes);
    take_both(a, floats(s->n_ctx, c->rope.rot_dim), (void **)&s->cos_sin, (void **)&s->device_cos_sin);
    ADD_TO(rope_bytes);
    if (s->device) /* the host's copy is pinned: it comes down after every step */
        s->device_logits = sac_arena_take(a.device, floats(1, c->vocab));
    else
        s->logits = s->device_logits = sac_arena_take(a.host, floats(1, c->vocab));
    ADD_TO(logits_bytes);
    sac_prefill_take(&s->prefill, &s->shape, a.host, a.device);
    sac_decode_take(&s->decode, &s->shape, a.host, a.device);
    s->stats = sac_arena_take(a.host, (size_t)c->n_layers * sizeof *s->stats);
    if (s->window_sums.window) {
        bool diagonals = s->prefill.policy->observes_diagonals;
        sac_window_sums_take(&s->window_sums, &s->shape, diagonals, a.host);
    }
    if (s->shape.measure_mass) s->mass = sac_arena_take(a.host, floats(c->n_heads, s->n_ctx));
    ADD_TO(method_bytes);
#undef ADD_TO
}

void sac_decoder_state_plan(sac_decoder_state *s, const sac_decoder *d, sac_decoder_plan *device,
                            sac_decoder_plan *host) {
    sac_arena one = sac_arena_measure(), other = sac_arena_measure();
    *host = (sac_decoder_plan){0};
    take(s, d, (arenas){&one, s->device ? &other : &one}, device, host);
    if (!s->device) *host = (sac_decoder_plan){0};
}

sac_status sac_decoder_state_take(sac_decoder_state *s, const sac_decoder *d, sac_arena *device,
                                  sac_arena *host, sac_error *err) {
    sac_decoder_plan planned, taken, planned_host, taken_host;
    sac_decoder_state_plan(s, d, &planned, &planned_host);
    take(s, d, (arenas){device, host}, &taken, &taken_host);
    if (memcmp(&planned, &taken, sizeof planned) != 0 || !s->stats)
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for the decoder");
    if (s->device) {
        size_t n_bytes = floats(1, d->config.vocab);
        SAC_TRY(s->device->host_alloc(s->device, n_bytes + sizeof *s->step_id, (void **)&s->logits, err));
        s->step_id = (int32_t *)(void *)((uint8_t *)s->logits + n_bytes);
    }
    sac_decoder_rewind(s, 0);
    return SAC_OK;
}

int64_t sac_decoder_can_keep(const sac_decoder_state *s, int64_t n) {
    const sac_kv_cache *c = &s->cache;
    if (n > c->n_rows || !s->prefill.policy->keeps_prefix || !sac_decode_keeps_prefix(&s->decode)) return 0;
    if (sac_kv_cache_is_packed(c)) return n == c->n_rows && !s->device ? n : 0;
    return n;
}

int64_t sac_decoder_rewind(sac_decoder_state *s, int64_t n) {
    sac_kv_cache *c = &s->cache;
    n = sac_decoder_can_keep(s, n);
    if (n > 0 && n == c->n_rows) return n;
    if (n > 0) {
        for (int i = 0; i < s->shape.n_layers; i++) c->layer_rows[i] = n;
        sac_decode_cut(&s->decode, n);
        return c->n_rows = n;
    }
    sac_kv_cache_clear(c);
    if (s->prefill.policy->begin) s->prefill.policy->begin(s->prefill.state);
    sac_decode_begin(&s->decode);
    return 0;
}

/* ---------------------------------------------------------------- one layer */

/* What every step of a layer needs; rows are counted from the start of the sequence. */
typedef struct run {
    const sac_decoder *d;
    sac_decoder_state *s;
    const sac_ops *ops;
    const sac_stream *stream;
} run;

static sac_mat mat(const run *r, void *data, int64_t rows, int64_t cols) {
    return (sac_mat){data, rows, cols, cols, r->s->dtype};
}
static sac_mat hidden_rows(const run *r, int64_t first, int64_t n) {
    return sac_mat_rows(mat(r, r->s->hidden, r->s->n_ctx, r->d->config.hidden), first, n);
}
static sac_mat query_rows(const run *r, int64_t first, int64_t n) {
    return sac_mat_rows(mat(r, r->s->queries, r->s->n_ctx, q_cols(&r->d->config)), first, n);
}

static sac_status linear(const run *r, sac_mat y, sac_mat x, const sac_tensor *w, const float *bias,
                         bool accumulate) {
    return r->ops->linear(
        r->stream, &(sac_linear_args){
                       .y = y, .x = x, .w = *w, .bias = bias, .accumulate = accumulate, .fast = r->s->fast});
}

static sac_rotation rotation(const run *r) {
    return (sac_rotation){.cos_sin = r->s->device_cos_sin,
                          .rot_dim = r->s->rope.rot_dim,
                          .interleaved = r->s->rope.interleaved,
                          .factor = sac_rope_attention_factor(&r->s->rope)};
}

static sac_status rotate_to(const run *r, sac_mat x, int n_heads, const int32_t *positions) {
    return r->ops->rope(r->stream, &(sac_rope_args){.x = x,
                                                    .n_heads = n_heads,
                                                    .head_dim = r->d->config.head_dim,
                                                    .rotation = rotation(r),
                                                    .pos = positions});
}
static sac_status rotate(const run *r, sac_mat x, int n_heads, int64_t first) {
    return rotate_to(r, x, n_heads, r->s->device_positions + first);
}

/* The following for one row in one go, where the device has a kernel for it. */
static sac_status project_one(const run *r, const sac_decoder_layer *w, int64_t row, const sac_kv_view *kv,
                              int64_t at) {
    return r->ops->qkv_step(r->stream, &(sac_qkv_step_args){.q = query_rows(r, row, 1),
                                                            .x = hidden_rows(r, row, 1),
                                                            .norm = w->attn_norm,
                                                            .eps = r->d->config.rms_eps,
                                                            .wq = w->q,
                                                            .wk = w->k,
                                                            .wv = w->v,
                                                            .q_bias = w->q_bias,
                                                            .k_bias = w->k_bias,
                                                            .v_bias = w->v_bias,
                                                            .rotation = rotation(r),
                                                            .pos = r->s->device_positions + row,
                                                            .kv = *kv,
                                                            .first = at,
                                                            .n_heads = r->d->config.n_heads});
}

/* Hidden rows [first, first + n): norm, q, k, v, rope; q, unless it is made later, to the queries, k and v to
 * rows [at, at + n) of the view. */
static sac_status project_qkv(const run *r, int layer, int64_t first, int64_t n, bool q_later,
                              const sac_kv_view *kv, int64_t at) {
    const sac_decoder_config *c = &r->d->config;
    const sac_decoder_layer *w = &r->d->layers[layer];
    sac_mat norm = mat(r, r->s->norm, n, c->hidden), q = query_rows(r, first, n);
    sac_mat k = mat(r, r->s->k, n, kv_cols(c)), v = mat(r, r->s->v, n, kv_cols(c));
    if (r->s->device && n == 1 && !q_later) {
        sac_status st = project_one(r, w, first, kv, at);
        if (st != SAC_UNSUPPORTED) return st;
    }
    SAC_TRY(r->ops->rmsnorm(r->stream,
                            &(sac_rmsnorm_args){norm, hidden_rows(r, first, n), w->attn_norm, c->rms_eps}));
    if (!q_later) SAC_TRY(linear(r, q, norm, &w->q, w->q_bias, false));
    SAC_TRY(linear(r, k, norm, &w->k, w->k_bias, false));
    SAC_TRY(linear(r, v, norm, &w->v, w->v_bias, false));
    if (!q_later) SAC_TRY(rotate(r, q, c->n_heads, first));
    SAC_TRY(rotate(r, k, c->n_kv_heads, first));
    return r->ops->kv_store(r->stream, &(sac_kv_store_args){*kv, k, v, at});
}

/* A layer's MLP over rows [first, first + n). */
static sac_status mlp(const run *r, int layer, int64_t first, int64_t n) {
    const sac_decoder_config *c = &r->d->config;
    const sac_decoder_layer *w = &r->d->layers[layer];
    sac_mat h = hidden_rows(r, first, n), norm = mat(r, r->s->norm, n, c->hidden);
    sac_mat gate = mat(r, r->s->gate, n, c->intermediate), up = mat(r, r->s->up, n, c->intermediate);
    sac_status st = SAC_UNSUPPORTED;
    if (r->s->device && n == 1)
        st = r->ops->gate_up_step(r->stream,
                                  &(sac_gate_up_step_args){gate, h, w->mlp_norm, c->rms_eps, w->gate, w->up});
    if (st == SAC_UNSUPPORTED) {
        SAC_TRY(r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){norm, h, w->mlp_norm, c->rms_eps}));
        SAC_TRY(linear(r, gate, norm, &w->gate, NULL, false));
        SAC_TRY(linear(r, up, norm, &w->up, NULL, false));
        SAC_TRY(r->ops->swiglu(r->stream, &(sac_swiglu_args){gate, gate, up}));
    } else if (st != SAC_OK) {
        return st;
    }
    return linear(r, h, gate, &w->down, NULL, true);
}

/* Rows [first, first + n): attention output into the hidden states, then the MLP. */
static sac_status project_out(const run *r, int layer, int64_t first, int64_t n) {
    const sac_decoder_layer *w = &r->d->layers[layer];
    SAC_TRY(linear(r, hidden_rows(r, first, n), query_rows(r, first, n), &w->o, w->o_bias, true));
    return mlp(r, layer, first, n);
}

/* Hidden rows [first, first + n), whose keys and values stand in the view from row `past` on. */
static sac_layer_attention layer_attention(const run *r, int layer, int64_t first, int64_t n, sac_kv_view kv,
                                           int64_t past, int64_t n_seen) {
    sac_decoder_state *s = r->s;
    return (sac_layer_attention){
        .ops = r->ops,
        .stream = r->stream,
        .shape = &s->shape,
        .layer = layer,
        .q = query_rows(r, first, n),
        .kv = kv,
        .past = past,
        .position = s->positions + first,
        .n_before = first, /* a call's hidden rows begin at its first token's number */
        .n_seen = n_seen,
        .scale = 1.0f / sqrtf((float)s->shape.head_dim),
        .rotation = rotation(r),
        .visual = s->visual,
        .n_visual = s->n_visual,
        .window_sums = s->window_sums.window ? &s->window_sums : NULL,
        .observer = s->observer,
        .stats = &s->stats[layer],
    };
}

/* ---------------------------------------------------------------- the sequence */

static bool outgrown(const sac_rope_config *rope, int64_t n_total) {
    return rope->scaling == SAC_ROPE_DYNAMIC && (double)n_total > rope->original_max_position;
}

bool sac_decoder_may_reuse(const sac_decoder_config *c, int64_t n_held, int64_t n_total) {
    return !outgrown(&c->rope, n_held) && !outgrown(&c->rope, n_total);
}

/* To the device's copy of something; on the CPU there is no copy. */
static sac_status upload(const run *r, void *to, const void *from, size_t n_bytes) {
    return r->s->device ? r->s->device->upload(r->stream, to, from, n_bytes) : SAC_OK;
}

/* Dynamic scaling ties the frequencies to the length, so its rows are made anew for every call; only the new
 * tokens' rows are read, since keys are stored rotated. */
static sac_status prepare_rotations(const run *r, int64_t past, int64_t n_total) {
    sac_decoder_state *s = r->s;
    int64_t first = s->rope.scaling == SAC_ROPE_DYNAMIC ? past : s->n_cos_sin;
    if (first >= n_total) return SAC_OK;
    sac_rope_fill(&s->rope, first, n_total - first, n_total, s->cos_sin);
    s->n_cos_sin = n_total;
    size_t row = (size_t)s->rope.rot_dim;
    return upload(r, s->device_cos_sin + (size_t)first * row, s->cos_sin + (size_t)first * row,
                  (size_t)(n_total - first) * row * sizeof(float));
}

/* Positions of hidden rows [first, first + n), as the host has them. */
static sac_status upload_positions(const run *r, int64_t first, int64_t n) {
    return upload(r, r->s->device_positions + first, r->s->positions + first, (size_t)n * sizeof(int32_t));
}

/* What a step at `past` needs of tables, on a device for some steps to come: an upload costs it as much for
 * one row as for these. `n_before`: rows computed again that stand before the step's own. */
enum { STEPS_AHEAD = 64 };

static sac_status prepare_step_rotations(const run *r, int64_t past) {
    const sac_decoder_state *s = r->s;
    bool ahead = s->device && s->rope.scaling != SAC_ROPE_DYNAMIC && s->n_cos_sin <= past;
    return prepare_rotations(r, past, ahead ? min_rows(past + STEPS_AHEAD, s->n_ctx) : past + 1);
}

static sac_status prepare_step_positions(const run *r, int64_t past, int64_t n_before) {
    sac_decoder_state *s = r->s;
    s->positions[past + n_before] = (int32_t)past;
    if (!s->device || n_before > 0) {
        s->n_positions = 0;
        return upload_positions(r, past, n_before + 1);
    }
    if (past < s->n_positions) return SAC_OK;
    int64_t end = min_rows(past + STEPS_AHEAD, s->n_ctx);
    for (int64_t i = past; i < end; i++) s->positions[i] = (int32_t)i;
    SAC_TRY(upload_positions(r, past, end - past));
    s->n_positions = end;
    return SAC_OK;
}

/* Hidden rows and positions of [first, first + *n) without those that the prefill method drops here. */
static sac_status drop_tokens(const run *r, const sac_layer_attention *a, int64_t first, int64_t *n) {
    sac_decoder_state *s = r->s;
    int64_t n_kept;
    size_t row = sac_dtype_row_bytes(s->dtype, r->d->config.hidden);
    uint8_t *rows = (uint8_t *)s->hidden + (size_t)first * row;
    const int32_t *kept = s->prefill.policy->keep(s->prefill.state, a, &n_kept);
    if (!kept) return SAC_OK;
    for (int64_t i = 0; i < n_kept; i++) { /* rows only move up, to where nothing is still wanted */
        if (kept[i] == i) continue;
        memcpy(rows + (size_t)i * row, rows + (size_t)kept[i] * row, row);
        s->positions[first + i] = s->positions[first + kept[i]];
    }
    *n = n_kept;
    return SAC_OK;
}

static void pause_for_others(const sac_decoder_state *s) {
    if (s->pause.fn) s->pause.fn(s->pause.ctx);
}

/* A layer's hidden rows from `first` on, by which their queries are made. */
typedef struct layer_rows {
    const run *r;
    int layer;
    int64_t first, n;
} layer_rows;

/* Rows at a time, so that n fall into equal parts: a few left over would be slow. */
static int64_t even_part(int64_t n, int64_t most) {
    int64_t n_parts = (n + most - 1) / most;
    return n_parts ? (n + n_parts - 1) / n_parts : 1;
}

/* Hidden rows and positions of the listed tokens, side by side; positions are moved as rows of one number. */
static sac_status pick_rows(const layer_rows *l, const int32_t *rows, sac_mat x) {
    const sac_decoder_state *s = l->r->s;
    sac_mat all = {s->device_positions + l->first, l->n, 1, 1, SAC_DTYPE_F32};
    sac_mat picked = {s->picked_positions, x.rows, 1, 1, SAC_DTYPE_F32};
    SAC_TRY(l->r->ops->gather_rows(
        l->r->stream, &(sac_gather_rows_args){x, hidden_rows(l->r, l->first, l->n), rows, NULL}));
    return l->r->ops->gather_rows(l->r->stream, &(sac_gather_rows_args){picked, all, rows, NULL});
}

/* Queries [first, first + q.rows) of those that are asked for. */
static sac_status make_some(const layer_rows *l, sac_mat q, const int32_t *rows, int64_t first) {
    const run *r = l->r;
    const sac_decoder_config *c = &r->d->config;
    const sac_decoder_layer *w = &r->d->layers[l->layer];
    sac_mat norm = mat(r, r->s->norm, q.rows, c->hidden);
    if (rows) SAC_TRY(pick_rows(l, rows + first, norm));
    sac_mat x = rows ? norm : hidden_rows(r, l->first + first, q.rows);
    SAC_TRY(r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){norm, x, w->attn_norm, c->rms_eps}));
    SAC_TRY(linear(r, q, norm, &w->q, w->q_bias, false));
    return rows ? rotate_to(r, q, c->n_heads, r->s->picked_positions)
                : rotate(r, q, c->n_heads, l->first + first);
}

static sac_status make_queries(void *ctx, sac_mat q, const int32_t *rows) {
    const layer_rows *l = ctx;
    int64_t most = l->r->s->chunk, part = rows ? even_part(q.rows, most) : most;
    for (int64_t i = 0; i < q.rows; i += part) {
        int64_t n = min_rows(q.rows - i, part);
        SAC_TRY(make_some(l, sac_mat_rows(q, i, n), rows, i));
    }
    return SAC_OK;
}

/* Whether a layer's prefill picks queries: outputs may then be those of some tokens. A bias of o would be the
 * others'. */
static bool picks_queries(const run *r, int layer, int64_t n, int64_t n_seen) {
    const sac_prefill *p = &r->s->prefill;
    return p->policy->picks_queries && p->policy->picks_queries(p->p) && n > 1 &&
           !sac_prefill_is_short(p, n_seen) && !r->d->layers[layer].o_bias;
}

/* The outputs of some tokens into their hidden states. */
static sac_status add_attended(const layer_rows *l, const sac_attended *some) {
    const run *r = l->r;
    int64_t part = even_part(some->o.rows, r->s->chunk);
    for (int64_t i = 0; i < some->o.rows; i += part) {
        int64_t n = min_rows(some->o.rows - i, part);
        sac_mat y = mat(r, r->s->norm, n, r->d->config.hidden), h = hidden_rows(r, l->first, l->n);
        pause_for_others(r->s);
        SAC_TRY(linear(r, y, sac_mat_rows(some->o, i, n), &r->d->layers[l->layer].o, NULL, false));
        SAC_TRY(r->ops->scatter_rows(r->stream, &(sac_scatter_rows_args){h, y, some->rows + i, true}));
    }
    return SAC_OK;
}

/* Outputs of the last n_out rows are wanted. */
static sac_status prefill_layer(const run *r, int layer, int64_t first, int64_t *n, int64_t n_seen,
                                int64_t n_out) {
    sac_decoder_state *s = r->s;
    const sac_decode_policy *decode = s->decode.policy;
    int64_t past, end = first + *n;
    layer_rows rows = {r, layer, first, *n};
    sac_attended some = {0};
    bool picks = picks_queries(r, layer, *n, n_seen);
    bool q_later = picks && (!decode->prompt || decode->prompt_without_queries);
    sac_kv_view kv = sac_kv_cache_begin_layer(&s->cache, layer, *n, false, &past);
    for (int64_t i = first; i < end; i += s->chunk) {
        if (i > first) pause_for_others(s);
        SAC_TRY(project_qkv(r, layer, i, min_rows(end - i, s->chunk), q_later, &kv, past + i - first));
    }
    sac_layer_attention a = layer_attention(r, layer, first, *n, kv, past, n_seen);
    a.n_unread = *n - min_rows(*n, n_out);
    if (picks) a.attended = &some;
    if (q_later) a.make_queries = (sac_query_maker){make_queries, &rows};
    sac_window_sums_begin(&s->window_sums);
    if (decode->prompt) SAC_TRY(decode->prompt(s->decode.state, &a));
    SAC_TRY(sac_prefill_attend(&s->prefill, &a));
    sac_important important = sac_prefill_important(&s->prefill);
    int64_t left = decode->settle ? decode->settle(s->decode.state, &a) : past + *n;
    SAC_TRY(sac_kv_cache_end_layer(&s->cache, &a, left, &important));
    if (some.rows) SAC_TRY(add_attended(&rows, &some));
    for (int64_t i = first + a.n_unread; i < end; i += s->chunk) {
        int64_t n_rows = min_rows(end - i, s->chunk);
        pause_for_others(s);
        SAC_TRY(some.rows ? mlp(r, layer, i, n_rows) : project_out(r, layer, i, n_rows));
    }
    return s->prefill.policy->keep ? drop_tokens(r, &a, first, n) : SAC_OK;
}

static sac_status prefill(const run *r, int64_t past, int64_t n, int64_t n_out, sac_layer_fn on_layer,
                          void *ctx) {
    sac_decoder_state *s = r->s;
    const sac_decode_policy *decode = s->decode.policy;
    int64_t end = past + n;
    SAC_TRY(prepare_rotations(r, past, end));
    for (int64_t i = past; i < end; i++) s->positions[i] = (int32_t)i;
    s->n_positions = 0;
    SAC_TRY(upload_positions(r, past, n));
    if (decode->inputs)
        SAC_TRY(decode->inputs(s->decode.state, r->ops, r->stream, hidden_rows(r, past, n), past));
    for (int layer = 0; layer < s->shape.n_layers; layer++) {
        if (on_layer) SAC_TRY(on_layer(ctx, layer, s->shape.n_layers));
        SAC_TRY(prefill_layer(r, layer, past, &n, end, layer + 1 < s->shape.n_layers ? n : n_out));
    }
    if (on_layer) SAC_TRY(on_layer(ctx, s->shape.n_layers, s->shape.n_layers));
    s->last_row = past + n - 1;
    s->cache.n_rows = end;
    return SAC_OK;
}

/* What a failed call leaves: layers that have met the new tokens and layers that have not. */
static void cut_back(sac_decoder_state *s, int64_t past) {
    s->cache.n_rows = past + 1; /* not `past`, so that rewinding cuts the layers */
    sac_decoder_rewind(s, past);
}

/* Ops answer without words. */
static sac_status explain(const run *r, sac_status st, sac_error *err) {
    if (!r->s->device) return st;
    if (st == SAC_UNSUPPORTED)
        return sac_fail(err, st, "%s has no kernel for this model's types or sizes: run on the CPU",
                        r->s->device->name);
    if (st != SAC_DEVICE) return st;
    sac_status sync = r->s->device->stream_sync(r->stream, err); /* says what went wrong */
    return sync == SAC_OK ? sac_fail(err, st, "%s refused a kernel or a copy", r->s->device->name) : sync;
}

sac_status sac_decoder_prefill(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                               const sac_stream *stream, int64_t past, int64_t n, int64_t n_out,
                               sac_layer_fn on_layer, void *ctx, sac_error *err) {
    assert(past >= 0 && n > 0 && n_out > 0 && past == s->cache.n_rows);
    if (n > s->n_ctx - past)
        return sac_fail(
            err, SAC_TOO_LONG,
            "%lld tokens after %lld do not fit a context of %lld: ask with fewer frames or a larger --ctx",
            (long long)n, (long long)past, (long long)s->n_ctx);
    if (past > 0 && s->device && sac_kv_cache_is_packed(&s->cache))
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "KV format %s takes one prompt on a device: no more tokens at a time than one after it, "
            "or a session begun anew",
            s->cache.choice.format->name);
    run r = {d, s, ops, stream};
    sac_status st = prefill(&r, past, n, n_out, on_layer, ctx);
    if (st == SAC_OK) return st;
    cut_back(s, past);
    return explain(&r, st, err);
}

/* Logits of hidden rows [first, first + n), at most a chunk, to device memory. */
static sac_status project_logits(const run *r, int64_t first, int64_t n, float *out) {
    const sac_decoder_config *c = &r->d->config;
    sac_mat norm = mat(r, r->s->norm, n, c->hidden);
    SAC_TRY(r->ops->rmsnorm(
        r->stream, &(sac_rmsnorm_args){norm, hidden_rows(r, first, n), r->d->final_norm, c->rms_eps}));
    return linear(r, sac_mat_f32(out, n, c->vocab), norm, &r->d->head, NULL, false);
}

/* Logits of one hidden row on the host. */
static sac_status fetch_logits(const run *r, int64_t row, float *out) {
    sac_decoder_state *s = r->s;
    SAC_TRY(project_logits(r, row, 1, s->device ? s->device_logits : out));
    if (!s->device) return SAC_OK;
    SAC_TRY(s->device->download(r->stream, out, s->device_logits, floats(1, r->d->config.vocab)));
    return s->device->stream_sync(r->stream, NULL);
}

sac_status sac_decoder_logits(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                              const sac_stream *stream, int64_t first, int64_t n, float *out) {
    run r = {d, s, ops, stream};
    for (int64_t i = 0; i < n && s->device; i++)
        SAC_TRY(fetch_logits(&r, first + i, out + i * d->config.vocab));
    for (int64_t i = 0; i < n && !s->device; i += s->chunk)
        SAC_TRY(project_logits(&r, first + i, min_rows(n - i, s->chunk), out + i * d->config.vocab));
    return SAC_OK;
}

sac_status sac_decoder_last_logits(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                                   const sac_stream *stream) {
    run r = {d, s, ops, stream};
    return fetch_logits(&r, s->last_row, s->logits);
}

sac_status sac_decoder_embed(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                             const sac_stream *stream, int64_t first, int64_t n, const int32_t *ids) {
    run r = {d, s, ops, stream};
    for (int64_t i = 0; i < n; i += s->chunk) {
        int64_t rows = min_rows(n - i, s->chunk);
        SAC_TRY(upload(&r, s->device_ids, ids + i, (size_t)rows * sizeof *ids));
        SAC_TRY(ops->embed(stream, &(sac_embed_args){hidden_rows(&r, first + i, rows), d->embed,
                                                     s->device ? s->device_ids : ids + i}));
    }
    return SAC_OK;
}

/* Rows are rounded to the device's type in place: each is at most as wide afterwards as before. */
static void round_rows(sac_dtype t, float *rows, size_t n) {
    uint16_t *to = (uint16_t *)(void *)rows;
    if (t == SAC_DTYPE_F32) return;
    for (size_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, rows + i, sizeof f);
        uint16_t h = t == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
        memcpy(to + i, &h, sizeof h);
    }
}

sac_status sac_decoder_load_rows(const sac_decoder *d, sac_decoder_state *s, const sac_stream *stream,
                                 int64_t first, int64_t n) {
    if (!s->device) return SAC_OK;
    run r = {d, s, NULL, stream};
    float *from = s->embeddings + first * d->config.hidden;
    round_rows(s->dtype, from, (size_t)(n * d->config.hidden));
    return upload(&r, hidden_rows(&r, first, n).data, from,
                  (size_t)n * sac_dtype_row_bytes(s->dtype, d->config.hidden));
}

/* Attention of a step whose keys and values are stored. */
static sac_status step_attend(const run *r, const sac_layer_attention *a) {
    sac_decoder_state *s = r->s;
    const sac_kv_packing *packing = s->cache.choice.format->packing;
    int64_t left = a->kv.n_rows;
    if (packing) {
        SAC_TRY(packing->attend(s->cache.packing, a, &left));
    } else {
        SAC_TRY(sac_decode_attend(&s->decode, a, s->mass));
        if (s->decode.policy->settle) left = s->decode.policy->settle(s->decode.state, a);
    }
    s->cache.layer_rows[a->layer] = left;
    return SAC_OK;
}

static sac_status step_layer(const run *r, int layer, int64_t first, int64_t n, int64_t n_seen) {
    int64_t past;
    sac_kv_view kv = sac_kv_cache_begin_layer(&r->s->cache, layer, n, true, &past);
    SAC_TRY(project_qkv(r, layer, first, n, false, &kv, past));
    sac_layer_attention a = layer_attention(r, layer, first, n, kv, past, n_seen);
    SAC_TRY(step_attend(r, &a));
    return project_out(r, layer, first, n);
}

/* Tokens that are computed again stand before the step's own. */
static sac_status step(const run *r, int64_t past, int32_t id) {
    sac_decoder_state *s = r->s;
    const sac_decode_policy *decode = s->decode.policy;
    int64_t n = 0;
    SAC_TRY(prepare_step_rotations(r, past));
    if (decode->rebuild)
        SAC_TRY(decode->rebuild(s->decode.state, r->ops, r->stream, hidden_rows(r, past, s->n_spare),
                                s->positions + past, &n));
    sac_mat own = hidden_rows(r, past + n, 1);
    SAC_TRY(prepare_step_positions(r, past, n));
    if (s->device) *s->step_id = id;
    SAC_TRY(r->ops->embed(r->stream, &(sac_embed_args){own, r->d->embed, s->device ? s->step_id : &id}));
    if (decode->inputs) SAC_TRY(decode->inputs(s->decode.state, r->ops, r->stream, own, past));
    for (int layer = 0; layer < s->shape.n_layers; layer++)
        SAC_TRY(step_layer(r, layer, past, n + 1, past + 1));
    s->last_row = past + n;
    s->cache.n_rows = past + 1;
    return fetch_logits(r, s->last_row, s->logits);
}

static sac_status check_room(const sac_decoder_state *s, sac_error *err) {
    if (s->cache.n_rows < s->n_ctx) return SAC_OK;
    return sac_fail(err, SAC_TOO_LONG, "the context of %lld tokens is full", (long long)s->n_ctx);
}

sac_status sac_decoder_step(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                            const sac_stream *stream, int64_t past, int32_t id, sac_error *err) {
    run r = {d, s, ops, stream};
    assert(past == s->cache.n_rows);
    SAC_TRY(check_room(s, err));
    sac_status st = step(&r, past, id);
    if (st == SAC_OK) return st;
    cut_back(s, past);
    return explain(&r, st, err);
}

/* ---------------------------------------------------------------- a step in parts */

sac_status sac_decoder_step_start(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                                  const sac_stream *stream, sac_mat x, sac_error *err) {
    run r = {d, s, ops, stream};
    int64_t past = s->cache.n_rows;
    SAC_TRY(check_room(s, err));
    SAC_TRY(prepare_step_rotations(&r, past));
    SAC_TRY(prepare_step_positions(&r, past, 0));
    if (!s->decode.policy->inputs) return SAC_OK;
    return s->decode.policy->inputs(s->decode.state, ops, stream, x, past);
}

sac_status sac_decoder_step_attend(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                                   const sac_stream *stream, int layer, sac_mat q, sac_mat k, sac_mat v) {
    run r = {d, s, ops, stream};
    int64_t first = s->cache.n_rows, past;
    sac_kv_view kv = sac_kv_cache_begin_layer(&s->cache, layer, 1, true, &past);
    SAC_TRY(rotate(&r, q, d->config.n_heads, first));
    SAC_TRY(rotate(&r, k, d->config.n_kv_heads, first));
    SAC_TRY(ops->kv_store(stream, &(sac_kv_store_args){kv, k, v, past}));
    sac_layer_attention a = layer_attention(&r, layer, first, 1, kv, past, first + 1);
    a.q = q;
    return step_attend(&r, &a);
}

void sac_decoder_step_finish(sac_decoder_state *s) {
    s->last_row = s->cache.n_rows++;
}

void sac_decoder_step_undo(sac_decoder_state *s) {
    cut_back(s, s->cache.n_rows);
}
