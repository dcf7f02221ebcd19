#define _GNU_SOURCE
#include "device_tower.h"
#include "work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_DEFAULT_CTX    32768
#define DEFAULT_CHUNK      256
#define DEVICE_CHUNK       16384 /* rows that fill a card: the last wave of a product's tiles counts */
#define HOST_BATCH_TILES   16
#define DEVICE_BATCH_TILES 32

void sac_session_config_default(sac_session_config *c) {
    *c = (sac_session_config){.prefill = "dense", .decode = "dense"};
}

/* ---------------------------------------------------------------- the plan */

/* The configuration with every default filled in. */
static sac_status resolve(const sac_model *m, const sac_session_config *c, sac_decoder_options *out,
                          sac_error *err) {
    const sac_decoder_config *d = &m->loaded.decoder.config;
    int64_t default_ctx = d->max_position < MAX_DEFAULT_CTX ? d->max_position : MAX_DEFAULT_CTX;
    *out = (sac_decoder_options){.n_ctx = c->n_ctx ? c->n_ctx : default_ctx,
                                 .chunk = c->prefill_chunk         ? c->prefill_chunk
                                          : sac_model_on_device(m) ? DEVICE_CHUNK
                                                                   : DEFAULT_CHUNK,
                                 .prefill = c->prefill,
                                 .decode = c->decode,
                                 .kv = c->kv,
                                 .rope = c->rope,
                                 .fast = m->fast,
                                 .measure_mass = c->measure_mass,
                                 .own_numbers = m->loaded.positions != sac_positions_plain,
                                 .device = &m->device,
                                 .activations = m->activations};
    if (out->n_ctx < 1 || out->n_ctx > INT32_MAX / 2)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a context of %lld tokens: give 1 to %d",
                        (long long)out->n_ctx, INT32_MAX / 2);
    if (out->chunk < 1 || out->chunk > 65536)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a prefill chunk of %lld tokens: give 1 to 65536",
                        (long long)out->chunk);
    if (out->chunk > out->n_ctx) out->chunk = out->n_ctx;
    return SAC_OK;
}

/* The reducer, where this model's pictures can be reduced: by the attention of a class token to tokens that
 * reach the language model one by one. */
static sac_status resolve_reduce(const sac_model *m, const char *line, sac_reduce *r, sac_error *err) {
    const sac_processor_config *p = &m->loaded.processor;
    const sac_tower_config *v = &m->loaded.tower.config;
    SAC_TRY(sac_reduce_parse(r, line ? line : "none", err));
    if (!r->is_on) return SAC_OK;
    if (!m->loaded.has_vision)
        return sac_fail(err, SAC_UNSUPPORTED, "reducer \"%s\": this model reads text only", line);
    bool one_by_one = p->pool_image == 1 && !v->keep_class && v->kind->has_class;
    if (one_by_one && (v->n_feature_layers > 1 || v->feature_layer[0] > 0)) return SAC_OK;
    return sac_fail(
        err, SAC_UNSUPPORTED,
        "reducer \"%s\": the visual tokens of this model's pictures are pooled, or its tower keeps "
        "the class token",
        line);
}

/* Tiles encoded at a time. */
static int batch_tiles(const sac_model *m) {
    return m->device_tower.block ? DEVICE_BATCH_TILES : HOST_BATCH_TILES;
}

sac_vision_sizes sac_vision_measure(const sac_model *model) {
    const sac_loaded_model *m = &model->loaded;
    const sac_tower_plan tile = sac_tower_plan_square(&m->tower.config);
    int64_t rows = tile.n_features, patch_bytes = sac_tower_patch_bytes(&m->tower.config);
    sac_vision_sizes z = {.max_tiles = sac_processor_most_tiles(&m->processor),
                          .batch_tiles = batch_tiles(model)};
    size_t most = (size_t)(z.max_tiles > z.batch_tiles ? z.max_tiles : z.batch_tiles);
    size_t batch_rows = (size_t)z.batch_tiles * (size_t)rows;
    z.batch_segments = z.batch_tiles * tile.n_segments;
    z.segment_start = ((size_t)z.batch_segments + 1) * sizeof(int32_t);
    z.tile = (size_t)(tile.n_patches * patch_bytes);
    z.patches = most * z.tile;
    z.batch_patches = (size_t)z.batch_tiles * z.tile;
    z.features = batch_rows * (size_t)sac_tower_cols(&m->tower.config) * sizeof(float);
    z.mid = batch_rows * (size_t)m->merger.hidden * sizeof(float);
    z.raw = batch_rows * (size_t)m->merger.out * sizeof(float);
    z.pooled = most * (size_t)rows * (size_t)m->merger.out * sizeof(float);
    /* Newlines at most double a row of one token: twice the tokens is always enough. */
    z.layout = 2 * most * (size_t)rows * sizeof(int32_t);
    z.class_attention = 2 * most * (size_t)(rows + 1) * sizeof(float);
    z.pools = m->processor.pool_image > 1 || m->processor.pool_video > 1;
    return z;
}

static bool tower_on_device(const sac_model *m, const sac_reduce *reduce) {
    return m->device_tower.block && !reduce->is_on; /* reducers look into the tower, on the host */
}

/* What the tower on a device takes of it, and of the host. */
static void device_vision_bytes(const sac_model *m, const sac_reduce *reduce, sac_dtype rows, size_t *device,
                                size_t *host) {
    sac_arena on_device = sac_arena_measure(), on_host = sac_arena_measure();
    sac_device_vision v;
    *device = *host = 0;
    if (!tower_on_device(m, reduce)) return;
    sac_vision_sizes z = sac_vision_measure(m);
    if (sac_device_vision_take(&v, &m->device_tower, &z, rows, NULL, &on_device, &on_host, NULL) != SAC_OK)
        return;
    *device = on_device.used_bytes;
    *host = on_host.used_bytes + sac_device_vision_host_bytes(&z);
}

static size_t vision_bytes(const sac_model *model) {
    const sac_loaded_model *m = &model->loaded;
    sac_arena measure = sac_arena_measure();
    sac_tower_state tower;
    if (!m->has_vision) return 0;
    sac_vision_sizes z = sac_vision_measure(model);
    const size_t all[] = {z.patches, z.segment_start, z.tile,   z.features,       z.mid,
                          z.raw,     z.pooled,        z.layout, z.class_attention};
    size_t n_bytes = 0;
    for (size_t i = 0; i < SAC_COUNT(all); i++) n_bytes += sac_arena_block_bytes(all[i]);
    sac_status st = sac_tower_state_take(&tower, &m->tower.config, z.batch_segments, &measure, NULL);
    return st == SAC_OK ? n_bytes + measure.used_bytes : 0;
}

static int64_t widest_row(const sac_loaded_model *m) {
    const sac_decoder_config *d = &m->decoder.config;
    int64_t k = d->intermediate;
    if (d->hidden > k) k = d->hidden;
    if ((int64_t)d->n_heads * d->head_dim > k) k = (int64_t)d->n_heads * d->head_dim;
    if (m->has_vision) {
        const sac_tower_config *v = &m->tower.config;
        int64_t sides[] = {v->intermediate, v->hidden, sac_tower_patch_bytes(v), sac_tower_cols(v),
                           m->merger.hidden};
        for (size_t i = 0; i < SAC_COUNT(sides); i++)
            if (sides[i] > k) k = sides[i];
    }
    return k;
}

/* Rows of the largest linear call: a chunk of prefill, or a batch of tiles. */
static int64_t most_rows(const sac_model *model, int64_t chunk) {
    const sac_loaded_model *m = &model->loaded;
    int64_t tower = m->has_vision ? batch_tiles(model) * sac_tower_plan_square(&m->tower.config).n_inside : 0;
    return tower > chunk ? tower : chunk;
}

static size_t shared_scratch(const sac_model *m, int64_t chunk) {
    if (sac_model_on_device(m)) chunk = 1; /* the decoder's rows are not on the host */
    return m->ops.linear_scratch_bytes(most_rows(m, chunk), widest_row(&m->loaded)) + 64;
}

static size_t text_capacity(int64_t n_ctx) {
    return (size_t)n_ctx * 64 + 4096;
}

static size_t sequence_bytes(int64_t n_ctx) {
    return 3 * sac_arena_block_bytes((size_t)n_ctx * sizeof(int32_t)) +
           sac_arena_block_bytes((size_t)n_ctx * sizeof(uint64_t)) +
           sac_arena_block_bytes((size_t)n_ctx * sizeof(sac_visual_span)) +
           sac_arena_block_bytes(SAC_POSITION_AXES * (size_t)n_ctx * sizeof(int32_t)) +
           sac_arena_block_bytes(text_capacity(n_ctx)) + sac_arena_block_bytes(sizeof(sac_work));
}

static void add_part(sac_memory_report *r, const char *tag, size_t n_bytes) {
    if (n_bytes == 0) return;
    r->parts[r->n_parts++] = (sac_memory_part){tag, n_bytes};
    r->total_bytes += n_bytes;
}

/* On a device the decoder's memory is not of the process; what it keeps on the host is one part. */
static void add_decoder(sac_memory_report *r, const sac_decoder_state *s, const sac_decoder_plan *p,
                        const sac_decoder_plan *host) {
    const struct {
        const char *tag;
        size_t n_bytes, on_host;
    } parts[] = {
        {"kv cache", p->kv_bytes, host->kv_bytes},
        {"attention methods", p->method_bytes, host->method_bytes},
        {"hidden states and queries", p->hidden_bytes, host->hidden_bytes},
        {"activations of a chunk", p->activation_bytes, host->activation_bytes},
        {"rotary table", p->rope_bytes, host->rope_bytes},
        {"logits", p->logits_bytes, host->logits_bytes},
    };
    size_t on_host = 0, on_device = 0;
    for (size_t i = 0; i < SAC_COUNT(parts); i++) {
        if (!s->device) add_part(r, parts[i].tag, parts[i].n_bytes);
        on_host += parts[i].on_host;
        on_device += parts[i].n_bytes;
    }
    if (!s->device) return;
    add_part(r, "decoder, on the host", on_host);
    r->device_bytes = on_device;
}

static void plan(const sac_model *m, sac_decoder_state *decoder, const sac_reduce *reduce,
                 sac_memory_report *r) {
    const sac_decoder_config *d = &m->loaded.decoder.config;
    int64_t n_ctx = decoder->n_ctx, chunk = decoder->chunk;
    sac_decoder_plan p, host;
    sac_decoder_state_plan(decoder, sac_model_decoder(m), &p, &host);
    *r = (sac_memory_report){.n_ctx = n_ctx, .weight_bytes = m->loaded.weight_bytes};
    r->kv_bytes_per_token = p.kv_bytes / (size_t)n_ctx;
    add_decoder(r, decoder, &p, &host);
    size_t vision_on_host;
    device_vision_bytes(m, reduce, decoder->dtype, &r->device_vision_bytes, &vision_on_host);
    r->device_bytes += r->device_vision_bytes;
    if (sac_model_on_device(m)) r->device_cache_bytes = m->vision_cache->capacity_bytes;
    add_part(r, "sampler", sac_sampler_bytes(d->vocab));
    add_part(r, "vision", vision_bytes(m) + vision_on_host);
    add_part(r, "tokens and text", sequence_bytes(n_ctx));
    add_part(r, "op scratch", sac_stream_bytes(sac_pool_n_threads(m->pool), shared_scratch(m, chunk)));
}

sac_status sac_session_plan(const sac_model *m, const sac_session_config *config, sac_memory_report *report,
                            sac_error *err) {
    sac_session_config defaults;
    sac_session_config_default(&defaults);
    sac_decoder_options o;
    sac_decoder_state decoder;
    sac_reduce reduce;
    SAC_TRY(resolve(m, config ? config : &defaults, &o, err));
    SAC_TRY(resolve_reduce(m, config ? config->reduce : NULL, &reduce, err));
    SAC_TRY(sac_decoder_state_open(&decoder, sac_model_decoder(m), &o, err));
    plan(m, &decoder, &reduce, report);
    sac_decoder_state_free(&decoder);
    return SAC_OK;
}

/* ---------------------------------------------------------------- create and free */

static sac_status take_device_vision(sac_session *s, const sac_vision_sizes *z, sac_error *err) {
    sac_device_vision *v = &s->device_vision;
    SAC_TRY(sac_device_vision_take(v, &s->model->device_tower, z, s->decoder.dtype, &s->device_stream,
                                   &s->device_arena, &s->arena, err));
    SAC_TRY(sac_device_vision_open(v, z, &s->model->device, err));
    s->vision.patches = v->slot[0].patches; /* the arena's pages are never touched then */
    return SAC_OK;
}

static sac_status take_vision(sac_session *s, sac_error *err) {
    const sac_loaded_model *m = &s->model->loaded;
    if (!m->has_vision) return SAC_OK;
    sac_vision_sizes z = sac_vision_measure(s->model);
    sac_vision_state *v = &s->vision;
    v->batch_tiles = z.batch_tiles;
    v->max_tiles = z.max_tiles;
    v->max_tokens = (int64_t)(z.layout / sizeof(int32_t));
    SAC_TRY(sac_tower_state_take(&v->tower, &m->tower.config, z.batch_segments, &s->arena, err));
    v->tower.fast = s->model->fast;
    v->patches = sac_arena_take(&s->arena, z.patches);
    v->segment_start = sac_arena_take(&s->arena, z.segment_start);
    v->tile = sac_arena_take(&s->arena, z.tile);
    v->features = sac_arena_take(&s->arena, z.features);
    v->mid = sac_arena_take(&s->arena, z.mid);
    v->raw = sac_arena_take(&s->arena, z.raw);
    v->pooled = sac_arena_take(&s->arena, z.pooled);
    v->layout = sac_arena_take(&s->arena, z.layout);
    v->class_attention = sac_arena_take(&s->arena, z.class_attention);
    if (!v->patches || !v->segment_start || !v->tile || !v->features || !v->mid || !v->raw || !v->pooled ||
        !v->layout || !v->class_attention)
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for vision");
    return tower_on_device(s->model, &s->reduce) ? take_device_vision(s, &z, err) : SAC_OK;
}

static sac_status take_sequence(sac_session *s, int64_t n_ctx, sac_error *err) {
    s->ids = sac_arena_take(&s->arena, (size_t)n_ctx * sizeof *s->ids);
    s->prompt = sac_arena_take(&s->arena, (size_t)n_ctx * sizeof *s->prompt);
    s->answer = sac_arena_take(&s->arena, (size_t)n_ctx * sizeof *s->answer);
    s->identity = sac_arena_take(&s->arena, (size_t)n_ctx * sizeof *s->identity);
    s->visual = sac_arena_take(&s->arena, (size_t)n_ctx * sizeof *s->visual);
    s->positions = sac_arena_take(&s->arena, SAC_POSITION_AXES * (size_t)n_ctx * sizeof *s->positions);
    s->text_capacity = text_capacity(n_ctx);
    s->text = sac_arena_take(&s->arena, s->text_capacity);
    s->work = sac_arena_take(&s->arena, sizeof *s->work);
    if (!s->ids || !s->work || !s->prompt || !s->answer || !s->identity || !s->visual || !s->positions ||
        !s->text)
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for the sequence");
    return SAC_OK;
}

/* The arena is mapped lazily, so a plan beyond all memory would only be noticed by the kernel's killer, half
 * way. */
static sac_status check_memory(const sac_memory_report *r, sac_error *err) {
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    size_t machine = pages > 0 && page_bytes > 0 ? (size_t)pages * (size_t)page_bytes : SIZE_MAX;
    if (r->total_bytes <= machine) return SAC_OK;
    return sac_fail(err, SAC_NO_MEMORY,
                    "a context of %lld tokens takes %.1f GiB, this machine has %.1f: give a smaller context",
                    (long long)r->n_ctx, (double)r->total_bytes / (1 << 30), (double)machine / (1 << 30));
}

/* The decoder's memory; on a device a block and a stream of its own. */
static sac_status take_decoder(sac_session *s, sac_error *err) {
    const sac_model *m = s->model;
    sac_arena *device_arena = &s->arena;
    if (sac_model_on_device(m)) {
        const sac_device *d = &m->device;
        size_t left = d->memory_left(d);
        if (left && s->memory.device_bytes > left)
            return sac_fail(
                err, SAC_NO_MEMORY,
                "a context of %lld tokens takes %.1f GiB of %s, %.1f are left: give a smaller context",
                (long long)s->memory.n_ctx, (double)s->memory.device_bytes / (1 << 30), d->name,
                (double)left / (1 << 30));
        SAC_TRY(d->stream_open(d, &s->device_stream, sac_ops_scratch_bytes(d), err));
        SAC_TRY(sac_ops_open(&s->device_ops, &s->device_stream, err));
        SAC_TRY(d->alloc(d, s->memory.device_bytes, &s->device_memory, err));
        /* attention may multiply rows that nobody has written yet by 0 */
        if (d->zero(&s->device_stream, s->device_memory, s->memory.device_bytes) != SAC_OK)
            return sac_fail(err, SAC_DEVICE, "%s: clearing a session's memory failed", d->name);
        s->device_arena = sac_arena_over(s->device_memory, s->memory.device_bytes);
        device_arena = &s->device_arena;
    }
    return sac_decoder_state_take(&s->decoder, sac_model_decoder(m), device_arena, &s->arena, err);
}

sac_status sac_session_create(sac_session **out, const sac_model *m, const sac_session_config *config,
                              sac_error *err) {
    *out = NULL;
    sac_session_config defaults;
    sac_session_config_default(&defaults);
    sac_decoder_options o;
    SAC_TRY(resolve(m, config ? config : &defaults, &o, err));
    sac_session *s = calloc(1, sizeof *s);
    if (!s) return sac_fail(err, SAC_NO_MEMORY, "no memory for a session");
    s->model = m;
    atomic_init(&s->cancel, false);
    sac_status st;
    SAC_TRY_GOTO(st, resolve_reduce(m, config ? config->reduce : NULL, &s->reduce, err), fail);
    SAC_TRY_GOTO(st, sac_decoder_state_open(&s->decoder, sac_model_decoder(m), &o, err), fail);
    plan(m, &s->decoder, &s->reduce, &s->memory);
    SAC_TRY_GOTO(st, check_memory(&s->memory, err), fail);
    SAC_TRY_GOTO(st, sac_arena_open(&s->arena, s->memory.total_bytes, err), fail);
    SAC_TRY_GOTO(st, sac_stream_init(&s->stream, m->pool, &s->arena, shared_scratch(m, o.chunk), err), fail);
    SAC_TRY_GOTO(st, take_decoder(s, err), fail);
    SAC_TRY_GOTO(st, sac_sampler_init(&s->sampler, m->loaded.decoder.config.vocab, &s->arena, err), fail);
    SAC_TRY_GOTO(st, sac_detokenizer_open(&s->detokenizer, m->loaded.tokenizer, true, err), fail);
    SAC_TRY_GOTO(st, take_vision(s, err), fail);
    SAC_TRY_GOTO(st, take_sequence(s, o.n_ctx, err), fail);
    *s->work = (sac_work){0};
    sac_reply_drop(s);
    *out = s;
    return SAC_OK;
fail:
    sac_session_free(s);
    return st;
}

void sac_session_free(sac_session *s) {
    if (!s) return;
    if (s->device_stream.device) /* work that was left in the middle reads and writes what is freed here */
        s->model->device.stream_sync(&s->device_stream, NULL);
    free(s->reply.owned);
    sac_media_release(s);
    sac_detokenizer_free(s->detokenizer);
    sac_decoder_state_free(&s->decoder);
    if (s->device_stream.device) {
        sac_device_vision_close(&s->device_vision, &s->model->device);
        sac_ops_close(&s->device_stream);
        s->model->device.stream_close(&s->device_stream);
        s->model->device.free(&s->model->device, s->device_memory);
    }
    sac_arena_free(&s->arena);
    free(s);
}

void sac_session_memory(const sac_session *s, sac_memory_report *report) {
    *report = s->memory;
}

/* ---------------------------------------------------------------- state */

void sac_session_cancel(sac_session *s) {
    atomic_store(&s->cancel, true);
}

void sac_session_reset(sac_session *s) {
    sac_work_drop(s->work);
    sac_reply_drop(s);
    sac_media_release(s);
    sac_decoder_rewind(&s->decoder, 0);
    s->has_logits = false;
}

void sac_session_reset_stats(sac_session *s) {
    sac_decoder_reset_stats(&s->decoder, sac_decoder_stream(s));
}

static double ratio(double part, double whole) {
    return whole > 0 ? part / whole : 1;
}

bool sac_session_layer_stats(const sac_session *s, int layer, sac_layer_report *report) {
    if (layer < 0 || layer >= s->decoder.shape.n_layers) return false;
    const sac_layer_stats *l = &s->decoder.stats[layer];
    if (sac_decode_counted(&s->decoder.decode, &s->decoder.shape, sac_decoder_stream(s), s->decoder.stats) !=
        SAC_OK)
        return false;
    *report = (sac_layer_report){
        .prefill_kept = ratio(l->prefill_kept, l->prefill_tokens),
        .prefill_work = ratio(l->prefill_pairs, l->prefill_pairs_dense),
        .decode_read = ratio(l->decode_rows, l->decode_rows_dense),
        .decode_rows = l->n_steps > 0 ? l->decode_rows / (l->n_steps * s->decoder.shape.n_kv_heads) : 0,
        .decode_budget = l->n_steps > 0 ? l->decode_budget / (l->n_steps * s->decoder.shape.n_heads) : 0,
        .prefill_mass = l->n_prefill_mass > 0 ? l->prefill_mass / l->n_prefill_mass : (double)NAN,
        .decode_mass = l->n_decode_mass > 0 ? l->decode_mass / l->n_decode_mass : (double)NAN,
        .select_seconds = (double)l->select_ns * 1e-9,
        .attend_seconds = (double)l->attend_ns * 1e-9,
        .selections = l->n_selections,
        .selection_cache_hits = l->n_cache_hits,
    };
    return true;
}

const double *sac_session_head_losses(const sac_session *s) {
    const sac_decode *d = &s->decoder.decode;
    return d->policy->head_losses ? d->policy->head_losses(d->state) : NULL;
}

size_t sac_session_kv_bytes(const sac_session *s) {
    return sac_kv_cache_bytes_used(&s->decoder.cache);
}

void sac_session_methods(const sac_session *s, sac_session_method_lines *lines) {
    const sac_decoder_state *d = &s->decoder;
    const sac_kv_choice *kv = &d->cache.choice;
    sac_method_print(d->prefill.policy->name, d->prefill.policy->params, d->prefill.p, lines->prefill,
                     sizeof lines->prefill);
    sac_decode_print(&d->decode, lines->decode, sizeof lines->decode);
    snprintf(lines->rope, sizeof lines->rope, "%s", d->rope_line);
    sac_reduce_print(&s->reduce, lines->reduce, sizeof lines->reduce);
    sac_method_print(kv->format->name, kv->format->params, kv->p, lines->kv, sizeof lines->kv);
}

void sac_session_observe_kept(sac_session *s, sac_kept_fn fn, void *ctx) {
    s->decoder.observer = (sac_kept_observer){fn, ctx};
}

const float *sac_session_logits(const sac_session *s) {
    return s->has_logits ? s->decoder.logits : NULL;
}

int64_t sac_session_n_tokens(const sac_session *s) {
    return s->decoder.cache.n_rows;
}
