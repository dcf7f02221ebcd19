/* decoder_state.c - a sequence: its choices, its memory, what may be kept of it. */
#include "decoder_draft.h"
#include "decoder_run.h"

#include <stdio.h>
#include <string.h>

static sac_attention_shape attention_shape(const sac_decoder *d, const sac_decoder_options *o,
                                           const sac_rope_config *rope, const sac_device *device) {
    const sac_decoder_config *c = &d->config;
    return (sac_attention_shape){
        .n_layers = sac_decoder_attending(c, c->n_layers),
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_dim = c->head_dim,
        .hidden = c->hidden,
        .n_ctx = o->n_ctx,
        .chunk = o->chunk,
        .max_position = c->max_position,
        .window = c->sliding_window,
        .sees_spans = c->sees_spans,
        .softcap = c->softcap,
        .measure_mass = o->measure_mass,
        .fixed_rotation = rope->scaling != SAC_ROPE_DYNAMIC && !o->own_numbers,
        .rotation_factor = sac_rope_attention_factor(rope),
        .controller = d->controller,
        .head_losses = d->head_losses,
        .device = device,
        .dtype = o->activations,
        .hidden_dtype = o->activations,
    };
}

/* Over heads of more than 128 channels, and of a number that is no multiple of 8, a device's fast kernels attend to all
 * rows at most; those that score, choose and pack rows are the plain ones. */
static sac_status check_dense(const sac_decoder_state *s, const sac_kv_choice *kv, sac_error *err) {
    const bool prefill = s->prefill.policy != &sac_prefill_dense, decode = s->decode.policy != &sac_decode_dense;
    if ((s->shape.head_dim <= 128 && s->shape.head_dim % 8 == 0) || (!prefill && !decode && !kv->format->packing)) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "%s %s is slow on a device over heads of %d channels, whose kernels for it take up to 128, a multiple "
                    "of 8: use dense attention over plain rows, or run on the CPU",
                    prefill  ? "prefill policy"
                    : decode ? "decode policy"
                             : "KV format",
                    prefill  ? s->prefill.policy->name
                    : decode ? s->decode.policy->name
                             : kv->format->name,
                    s->shape.head_dim);
}

/* What only a device's plain kernel of attention takes, which is many times slower than the others: for activations in
 * f32 alone, which were asked for by name. */
static sac_status check_kernels(const sac_decoder_state *s, const sac_kv_choice *kv, sac_error *err) {
    const int d = s->shape.head_dim, most = 256, small = 64; /* whose plain kernel is fast enough: models for tests */
    if (!s->device || s->dtype == SAC_DTYPE_F32) return SAC_OK;
    if (!kv->format->packing && kv->format->dtype == SAC_DTYPE_F32)
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "KV format %s under activations in %s is slow on a device: use --kv %s, or run on the CPU",
            kv->format->name, sac_dtype_name(s->dtype), sac_dtype_name(s->dtype));
    if (d <= small || (d % 8 == 0 && d <= most)) return check_dense(s, kv, err);
    return sac_fail(
        err, SAC_UNSUPPORTED,
        "heads of %d channels are slow on a device, whose kernels take up to %d, a multiple of 8, and any "
        "number up to %d: run on the CPU",
        d, most, small);
}

/* Of queries, and of what attention makes of them: see sac_block_query_type. The plain rows beside packed ones are
 * what activations are (kv_cache.h). */
static sac_dtype query_type(const sac_decoder_state *s, const sac_kv_choice *kv) {
    if (!s->device || kv->format->packing) return s->dtype;
    return sac_block_query_type(s->dtype, kv->format->dtype);
}

/* Models that only some methods know. */
static sac_status check_model(const sac_decoder_state *s, const sac_kv_choice *kv, sac_error *err) {
    const sac_decode_policy *d = s->decode.policy;
    const char *prefill = s->prefill.policy == &sac_prefill_dense ? NULL : s->prefill.policy->name,
               *decode = d == &sac_decode_dense ? NULL : d->name, *packed = kv->format->packing ? kv->format->name : NULL;
    if (s->shape.softcap > 0 && (prefill || decode || packed))
        return sac_fail(err, SAC_UNSUPPORTED,
                        "%s %s does not know scores of attention that are capped, as this model's are: only dense "
                        "attention over plain rows does",
                        prefill  ? "prefill policy"
                        : decode ? "decode policy"
                                 : "KV format",
                        prefill ? prefill : decode ? decode : packed);
    if (s->states.n_layers && d->rebuild && d->max_rebuild(s->decode.p) > 0)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "decode policy %s computes old tokens again, and in this model each changes the state of %d layers, "
                        "which a second time would be wrong: use r=0",
                        d->name, s->states.n_layers);
    if (!s->shape.sees_spans) return SAC_OK;
    if (prefill)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "prefill policy %s lets no token see a later one, and in this model the rows of a picture "
                        "see one another: use dense",
                        prefill);
    if (d->rebuild && d->max_rebuild(s->decode.p) > 0)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "decode policy %s computes old tokens again one by one, and in this model the rows of a "
                        "picture see one another: use r=0",
                        d->name);
    return SAC_OK;
}

/* Combinations that make no sense, with the reason. */
static sac_status check_choices(const sac_decoder_state *s, const sac_kv_choice *kv, sac_error *err) {
    const sac_decode_policy *d = s->decode.policy;
    SAC_TRY(check_kernels(s, kv, err));
    SAC_TRY(check_model(s, kv, err));
    if (kv->format->packing && d != &sac_decode_dense)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "decode policy %s reads plain rows and KV format %s packs them: use one of the two",
                        d->name, kv->format->name);
    if (s->n_deep && d->rebuild && d->max_rebuild(s->decode.p) > 0)
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "decode policy %s computes old tokens again from their embeddings, and this model adds more to "
            "those of pictures after its first %d layers: use r=0",
            d->name, s->n_deep);
    if (s->prefill.policy->keep && d->rebuild)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "prefill policy %s drops tokens that decode policy %s may rebuild",
                        s->prefill.policy->name, d->name);
    for (const sac_decode *m = &s->decode; m; m = m->base)
        if (s->prefill.policy->keep && m->policy->turns_keys)
            return sac_fail(err, SAC_UNSUPPORTED,
                            "prefill policy %s drops tokens, and decode policy %s needs the rows of all",
                            s->prefill.policy->name, m->policy->name);
    if (s->prefill.policy->keep && kv->format->packing && kv->format->packing->turns_keys &&
        kv->format->packing->turns_keys(kv->p))
        return sac_fail(err, SAC_UNSUPPORTED,
                        "prefill policy %s drops tokens, and KV format %s with rope=before turns rows by their numbers: use "
                        "rope=after",
                        s->prefill.policy->name, kv->format->name);
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

/* Rows run ahead must be forgotten where they are refused, and have a step's bits; on a device but for rounding (decoder_ahead.h). */
static sac_status check_ahead(const sac_decoder_state *s, const sac_decoder_config *c,
                                   const sac_kv_choice *kv, sac_error *err) {
    if (kv->format->packing)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "a draft and KV format %s: it packs rows, and those of refused tokens could not be "
                        "taken back; use "
                        "f32, f16 or bf16",
                        kv->format->name);
    if (s->decode.policy != &sac_decode_dense)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "a draft and decode policy %s: it would learn from refused tokens; use dense",
                        s->decode.policy->name);
    if (s->rope.scaling == SAC_ROPE_DYNAMIC || (c->two_ropes && c->second_rope.scaling == SAC_ROPE_DYNAMIC))
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "a draft and dynamic rope scaling: how a row is turned depends on the length of the sequence");
    if (s->rope.scaling == SAC_ROPE_LONG && (double)s->n_ctx > s->rope.original_max_position)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "a draft and LongRoPE: how a row is turned depends on the length of the sequence; use --ctx %.0f or less",
                        s->rope.original_max_position);
    if (s->states.n_layers)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "a draft and this model: %d of its %d layers keep one state of all tokens, and refused ones could not "
                        "be taken back; run without a draft",
                        s->states.n_layers, c->n_layers);
    if (s->shape.measure_mass)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "a draft and measure_mass: refused tokens would be measured too");
    return SAC_OK;
}

sac_status sac_decoder_state_open(sac_decoder_state *s, const sac_decoder *d, const sac_decoder_options *o,
                                  sac_error *err) {
    const sac_decoder_config *c = &d->config;
    *s = (sac_decoder_state){.n_ctx = o->n_ctx,
                             .chunk = o->chunk,
                             .n_deep = c->n_deep,
                             .n_ahead = o->n_ahead,
                             .vocab = c->vocab,
                             .states = {.shape = c->linear, .n_layers = c->n_layers - sac_decoder_attending(c, c->n_layers)},
                             .fast = o->fast,
                             .rope = c->rope,
                             .device = o->device && o->device->kind != SAC_DEVICE_CPU ? o->device : NULL,
                             .dtype = o->activations};
    sac_kv_choice kv;
    sac_status st;
    snprintf(s->rope_line, sizeof s->rope_line, "%s", o->rope ? o->rope : "model");
    if (c->most_context && o->n_ctx > c->most_context)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "a context of %lld tokens: this model scales queries behind %lld tokens, which is not supported: give "
                        "as many or fewer",
                        (long long)o->n_ctx, (long long)c->most_context);
    SAC_TRY(sac_rope_scheme(&s->rope, s->rope_line, c->max_position, o->n_ctx, err));
    if (c->two_ropes && c->second_rope.scaling != SAC_ROPE_NONE && strncmp(s->rope_line, "ntk", 3) == 0)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "position scheme ntk stretches one base, and this model's layers are turned by two: use model");
    s->shape = attention_shape(d, o, &s->rope, s->device);
    SAC_TRY_GOTO(st, sac_kv_choice_parse(&kv, o->kv ? o->kv : default_kv(s), &s->shape, err), fail);
    s->shape.dtype = query_type(s, &kv);
    SAC_TRY_GOTO(st, sac_prefill_open(&s->prefill, o->prefill ? o->prefill : "dense", &s->shape, err), fail);
    SAC_TRY_GOTO(st, sac_decode_open(&s->decode, o->decode ? o->decode : "dense", &s->shape, err), fail);
    SAC_TRY_GOTO(st, check_choices(s, &kv, err), fail);
    if (s->n_ahead) SAC_TRY_GOTO(st, check_ahead(s, c, &kv, err), fail);
    if (o->drafting) {
        SAC_TRY_GOTO(st, sac_decode_open(&s->drafting, o->drafting, &s->shape, err), fail);
        SAC_TRY_GOTO(st, sac_decoder_check_draft(s, o->drafting, err), fail);
    }
    s->window_sums.window = sac_shared_window(&s->prefill, &s->decode, &s->shape);
    if (s->decode.policy->max_rebuild) s->n_spare = s->decode.policy->max_rebuild(s->decode.p);
    SAC_TRY_GOTO(st, sac_kv_cache_open(&s->cache, &kv, &s->shape, s->n_spare, err), fail);
    if (o->pages) sac_kv_cache_use_pages(&s->cache, o->pages);
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
    sac_decode_free(&s->drafting);
    *s = (sac_decoder_state){0};
}

/* The bytes of each purpose go to the plans; only `on_device` is written when there is one memory. */
static void take(sac_decoder_state *s, const sac_decoder *d, const sac_memory *m, sac_decoder_plan *on_device,
                 sac_decoder_plan *on_host) {
    const sac_decoder_config *c = &d->config;
    size_t at = m->device->used_bytes, host_at = m->host->used_bytes;
#define ADD_TO(part)                                                                                         \
    (on_host->part = m->host->used_bytes - host_at, on_device->part = m->device->used_bytes - at,            \
     at = m->device->used_bytes, host_at = m->host->used_bytes)
    sac_kv_cache_take(&s->cache, m->device, m->host);
    ADD_TO(kv_bytes);
    sac_linear_states_take(&s->states, m->device);
    ADD_TO(state_bytes);
    sac_buffer positions = sac_take_both(m, (size_t)(s->n_ctx + s->n_spare) * sizeof *s->positions);
    sac_buffer table = sac_take_both(m, decoder_floats(s->n_ctx, c->rope.rot_dim));
    s->positions = positions.host, s->device_positions = positions.device;
    s->cos_sin = table.host, s->device_cos_sin = table.device;
    if (c->two_ropes) {
        table = sac_take_both(m, decoder_floats(s->n_ctx, c->second_rope.rot_dim));
        s->second_cos_sin = table.host, s->device_second_cos_sin = table.device;
    }
    ADD_TO(rope_bytes);
    if (!s->device) s->logits = sac_take_host(m, decoder_floats(1, c->vocab));
    if (s->n_ahead && !s->device) s->ahead_logits = sac_take_host(m, decoder_floats(1 + s->n_ahead, c->vocab));
    ADD_TO(logits_bytes);
    sac_prefill_take(&s->prefill, &s->shape, m);
    sac_decode_take(&s->decode, &s->shape, m);
    s->stats = sac_take_host(m, (size_t)s->shape.n_layers * sizeof *s->stats);
    if (s->window_sums.window) {
        bool diagonals = s->prefill.policy->observes_diagonals;
        sac_window_sums_take(&s->window_sums, &s->shape, diagonals, m->host);
    }
    if (s->shape.measure_mass) sac_mass_take(&s->mass, &s->shape, m);
    if (s->drafting.policy) {
        sac_decode_take(&s->drafting, &s->shape, m);
        s->drafting_stats = sac_take_host(m, (size_t)s->shape.n_layers * sizeof *s->drafting_stats);
    }
    ADD_TO(method_bytes);
#undef ADD_TO
}

void sac_decoder_state_plan(sac_decoder_state *s, const sac_decoder *d, sac_decoder_plan *device,
                            sac_decoder_plan *host) {
    sac_arena one = sac_arena_measure(), other = sac_arena_measure();
    *host = (sac_decoder_plan){0};
    take(s, d, &(sac_memory){&one, s->device ? &other : &one}, device, host);
    if (!s->device) *host = (sac_decoder_plan){0};
}

/* Rows of logits in the pinned block: of the last token, behind it those of a pass with drafts. */
static int64_t pinned_rows(const sac_decoder_state *s) {
    return s->n_ahead ? 2 + s->n_ahead : 1;
}

/* Of a step's tokens; with drafts also which of each row's logits is the largest, and that one. */
static size_t told_numbers(const sac_decoder_state *s) {
    return (size_t)(1 + s->n_ahead) * (s->n_ahead ? 3 : 1);
}

/* Of the pinned block: logits and these numbers; the room for what is told of rows comes behind them. */
static size_t logits_bytes(const sac_decoder_state *s, const sac_decoder *d) {
    return sac_arena_block_bytes(decoder_floats(pinned_rows(s), d->config.vocab) + told_numbers(s) * sizeof(int32_t));
}

size_t sac_decoder_pinned_bytes(const sac_decoder_state *s, const sac_decoder *d) {
    return s->device ? logits_bytes(s, d) + sac_told_room_bytes(1, d->config.vocab) : 0;
}

sac_status sac_decoder_state_take(sac_decoder_state *s, const sac_decoder *d, sac_arena *device,
                                  sac_arena *host, sac_error *err) {
    sac_decoder_plan planned, taken, planned_host, taken_host;
    sac_decoder_state_plan(s, d, &planned, &planned_host);
    take(s, d, &(sac_memory){host, device}, &taken, &taken_host);
    if (memcmp(&planned, &taken, sizeof planned) != 0 || !s->stats)
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for the decoder");
    SAC_TRY(sac_kv_cache_reserve(&s->cache, err));
    if (s->device) { /* pinned: logits come down after every step */
        SAC_TRY(s->device->host_alloc(s->device, sac_decoder_pinned_bytes(s, d), (void **)&s->logits, err));
        s->step_id = (int32_t *)(void *)((uint8_t *)s->logits + decoder_floats(pinned_rows(s), d->config.vocab));
        if (s->n_ahead) {
            s->ahead_logits = s->logits + d->config.vocab;
            s->ahead_largest_at = s->step_id + 1 + s->n_ahead;
            s->ahead_largest = (float *)(void *)(s->ahead_largest_at + 1 + s->n_ahead);
        }
        sac_told_room_lay(&s->told_room, (uint8_t *)s->logits + logits_bytes(s, d), 1, d->config.vocab);
    }
    sac_decoder_rewind(s, 0);
    return SAC_OK;
}

static bool outgrown(const sac_rope_config *rope, int64_t n_total) {
    return (rope->scaling == SAC_ROPE_DYNAMIC || rope->scaling == SAC_ROPE_LONG) && (double)n_total > rope->original_max_position;
}

bool sac_decoder_turns_anew(const sac_decoder_state *s, int64_t n_total) {
    return s->cache.n_rows > 0 && sac_rope_is_long(&s->rope, n_total) != s->is_long;
}

static bool keeps_prefix(const sac_decoder_state *s) {
    return s->prefill.policy->keeps_prefix && sac_decode_keeps_prefix(&s->decode);
}

int64_t sac_decoder_can_keep(const sac_decoder_state *s, int64_t n) {
    const sac_kv_cache *c = &s->cache;
    if (n > c->n_rows || !keeps_prefix(s)) return 0;
    if (s->states.n_layers && n < c->n_rows) n = n < s->states.saved_rows ? 0 : s->states.saved_rows;
    if (sac_kv_cache_is_packed(c)) return n == c->n_rows && !s->device ? n : 0;
    return n;
}

bool sac_decoder_shares(const sac_decoder_state *s) {
    return keeps_prefix(s) && !sac_kv_cache_is_packed(&s->cache) && !s->states.n_layers;
}

/* A scheme may stretch positions by the context's length, and rows are made in chunks (SAC_LINEAR_FEW_ROWS). */
bool sac_decoder_same_rows(const sac_decoder_state *a, const sac_decoder_state *b) {
    return a->prefill.policy == b->prefill.policy && !memcmp(a->prefill.p, b->prefill.p, sizeof a->prefill.p) &&
           a->cache.choice.format == b->cache.choice.format && a->cache.dtype == b->cache.dtype && a->cache.pool == b->cache.pool &&
           !strcmp(a->rope_line, b->rope_line) && (a->n_ctx == b->n_ctx || !strncmp(a->rope_line, "model", 5)) &&
           (a->device || a->chunk == b->chunk) && a->fast == b->fast;
}

bool sac_decoder_is_few(const sac_decoder_state *s, int64_t n) {
    return !s->device && s->chunk > SAC_LINEAR_FEW_ROWS && n <= SAC_LINEAR_FEW_ROWS;
}

int64_t sac_decoder_rows_to_share(const sac_decoder_state *s, int64_t n) {
    const int64_t few = SAC_LINEAR_FEW_ROWS;
    if (!sac_decoder_shares(s) || outgrown(&s->rope, n)) return 0;
    if (s->device || s->chunk <= few) return n;
    if (s->chunk <= 2 * few) return n / s->chunk * s->chunk;
    return n > few ? n : 0;
}

/* Of a sequence of so many rows. */
static void cut_layer_rows(sac_decoder_state *s, int64_t n) {
    if (s->layer_rows) sac_layer_rows_cut(s->layer_rows, n);
}

void sac_decoder_add_rows(sac_decoder_state *s, int64_t n) {
    cut_layer_rows(s, decoder_min(n, s->cache.n_rows));
    for (int i = 0; i < s->shape.n_layers; i++) s->cache.layer_rows[i] = n;
    s->cache.n_rows = n;
}

int64_t sac_decoder_rewind(sac_decoder_state *s, int64_t n) {
    sac_kv_cache *c = &s->cache;
    n = sac_decoder_can_keep(s, n);
    if (n > 0 && n == c->n_rows) return n;
    s->states.goes_back = n > 0;
    cut_layer_rows(s, n);
    if (n > 0) {
        for (int i = 0; i < s->shape.n_layers; i++) c->layer_rows[i] = n;
        sac_decode_cut(&s->decode, n, false);
        if (s->drafting.policy) sac_decode_cut(&s->drafting, n, false);
        return c->n_rows = n;
    }
    sac_kv_cache_clear(c);
    if (s->prefill.policy->begin) s->prefill.policy->begin(s->prefill.state);
    sac_decode_begin(&s->decode);
    if (s->drafting.policy) sac_decode_begin(&s->drafting);
    return 0;
}

bool sac_decoder_may_reuse(const sac_decoder_state *s, int64_t n_held, int64_t n_total) {
    if (s->rope.scaling == SAC_ROPE_LONG) return !sac_decoder_turns_anew(s, n_total);
    return !outgrown(&s->rope, n_held) && !outgrown(&s->rope, n_total);
}

bool sac_decoder_may_take(const sac_decoder_state *s, int64_t n_total) {
    return !outgrown(&s->rope, n_total);
}

int64_t sac_decoder_whole_rows(const sac_decoder_state *s, int64_t n, int64_t n_total) {
    const int64_t few = SAC_LINEAR_FEW_ROWS;
    if (s->device) return n;
    if (s->chunk > few && s->chunk <= 2 * few) return n / s->chunk * s->chunk; /* the same chunks */
    const int64_t most = n_total - (s->chunk > few ? few + 1 : 2); /* one row alone is a last layer's */
    return most < 0 ? 0 : decoder_min(n, most);
}

void sac_decoder_cut_back(sac_decoder_state *s, int64_t past) {
    s->cache.n_rows = past + 1; /* not `past`, so that rewinding cuts the layers */
    sac_decoder_rewind(s, past);
}

void sac_decoder_reset_stats(sac_decoder_state *s, const sac_stream *stream) {
    if (sac_decode_counted(&s->decode, &s->shape, stream, s->stats) == SAC_OK)
        memset(s->stats, 0, (size_t)s->shape.n_layers * sizeof *s->stats);
}
