#include "engine.h"

#include "clock.h"
#include "cpu_flags.h"
#include "device_weights.h"
#include "draft_head.h"
#include "draft_model.h"
#include "scheme.h"
#include "workspace.h"

#include <stdlib.h>
#include <string.h>

void sac_model_options_default(sac_model_options *o) {
    *o = (sac_model_options){.vision_cache_bytes = (size_t)256 << 20};
}

typedef struct load_progress {
    const sac_model_options *options;
} load_progress;

static void on_load(void *ctx, int64_t done, int64_t total) {
    const sac_model_options *o = ((load_progress *)ctx)->options;
    if (o->progress) o->progress(o->progress_ctx, "load", done, total);
}

/* The type of activations where the model runs. */
static sac_status choose_activations(sac_model *m, const char *name, sac_dtype otherwise, sac_error *err) {
    static const sac_dtype types[] = {SAC_DTYPE_F32, SAC_DTYPE_F16, SAC_DTYPE_BF16};
    m->activations = otherwise;
    if (!name) return SAC_OK;
    size_t i = 0;
    while (i < SAC_COUNT(types) && strcmp(name, sac_dtype_name(types[i]))) i++;
    if (i == SAC_COUNT(types))
        return sac_fail(err, SAC_BAD_ARGUMENT, "activations \"%.80s\": give f32, f16 or bf16", name);
    m->activations = types[i];
    if (m->device.kind != SAC_DEVICE_CPU || m->activations == SAC_DTYPE_F32) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "activations in %s: on the CPU they are f32", name);
}

/* "cuda" or "cuda:1" */
static sac_status open_device(sac_model *m, const sac_model_options *o, sac_error *err) {
    const char *name = o->device ? o->device : "cpu";
    char *end;
    long index = 0;
    sac_cpu_device_open(&m->device);
    if (!strcmp(name, "cpu")) return choose_activations(m, o->activations, SAC_DTYPE_F32, err);
    if (!strncmp(name, "cuda:", 5))
        index = strtol(name + 5, &end, 10);
    else
        end = (char *)name + 4 * !strcmp(name, "cuda");
    if (*end || end == name || (name[4] && end == name + 5) || index < 0 || index > 1023)
        return sac_fail(err, SAC_BAD_ARGUMENT, "device \"%s\": give cpu, cuda or cuda:N", name);
    SAC_TRY(sac_device_open(&m->device, SAC_DEVICE_CUDA, (int)index, err));
    SAC_TRY(sac_ops_check(&m->device, err));
    SAC_TRY(choose_activations(m, o->activations, sac_device_activations(&m->loaded), err));
    if (!o->activations && m->activations == SAC_DTYPE_F32)
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "weights in f32 on a card: give --activations bf16, which rounds them, or f32, which is "
            "exact and many times slower");
    SAC_TRY(m->device.stream_open(&m->device, &m->load_stream, 0, err));
    SAC_TRY(sac_decoder_to_device(&m->loaded, m->activations, &m->load_stream, &m->device_decoder, on_load,
                                  &(load_progress){o}, err));
    if (!m->loaded.has_vision) return SAC_OK;
    return sac_tower_to_device(&m->loaded, m->activations, &m->load_stream, &m->device_tower, err);
}

const char *const *sac_weight_format_names(void) {
    return sac_scheme_names();
}

static sac_status choose_tokenizer(sac_tokenizer_rule *rule, const char *name, sac_error *err) {
    *rule = name && !strcmp(name, "file") ? SAC_TOKENIZER_BY_FILE : SAC_TOKENIZER_BY_CLASS;
    if (!name || !strcmp(name, "file") || !strcmp(name, "class")) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "tokenizer \"%.40s\": give class or file", name);
}

sac_status sac_model_open(sac_model **out, const char *path, const sac_model_options *options,
                          sac_error *err) {
    *out = NULL;
    sac_model_options defaults;
    sac_model_options_default(&defaults);
    if (!options) options = &defaults;
    sac_model *m = calloc(1, sizeof *m);
    if (!m) return sac_fail(err, SAC_NO_MEMORY, "no memory for a model");
    sac_status st;
    SAC_TRY_GOTO(st, sac_pool_create(&m->pool, options->n_threads, err), fail);
    load_progress progress = {options};
    sac_load_options load = {.adapters = options->adapters,
                             .n_adapters = options->n_adapters,
                             .kept_adapters = options->kept_adapters,
                             .n_kept_adapters = options->n_kept_adapters,
                             .mmproj = options->mmproj,
                             .weights = options->weights,
                             .pool = m->pool,
                             .progress = on_load,
                             .progress_ctx = &progress};
    SAC_TRY_GOTO(st, choose_tokenizer(&load.tokenizer_rule, options->tokenizer, err), fail);
    SAC_TRY_GOTO(st, sac_loaded_model_open_with(&m->loaded, path, &load, err), fail);
    SAC_TRY_GOTO(
        st,
        sac_processor_limit(&m->loaded.processor, options->image_min_pixels, options->image_max_pixels, err),
        fail);
    SAC_TRY_GOTO(st, sac_loaded_model_set_chat(&m->loaded, options->chat_format, err), fail);
    SAC_TRY_GOTO(st, open_device(m, options, err), fail);
    SAC_TRY_GOTO(st, sac_workspaces_create(&m->workspaces, err), fail);
    SAC_TRY_GOTO(st, sac_draft_models_create(&m->draft_models, err), fail);
    SAC_TRY_GOTO(st, sac_draft_heads_create(&m->draft_heads, err), fail);
    m->vision_cache = malloc(sizeof *m->vision_cache);
    m->memo = malloc(sizeof *m->memo);
    if (!m->vision_cache || !m->memo) {
        st = sac_fail(err, SAC_NO_MEMORY, "no memory for a model");
        free(m->vision_cache);
        free(m->memo);
        m->vision_cache = NULL;
        m->memo = NULL;
        goto fail;
    }
    sac_memo_init(m->memo);
    const sac_device *rows_on = sac_model_on_device(m) ? &m->device : NULL;
    size_t cache_bytes = m->loaded.has_vision ? options->vision_cache_bytes : 0;
    SAC_TRY_GOTO(st, sac_vision_cache_init(m->vision_cache, cache_bytes, rows_on, err), fail);
    m->fast = options->fast;
    unsigned flags = sac_cpu_flags();
    sac_ops_init_cpu(&m->ops, flags);
    sac_cpu_flags_text(flags, m->cpu_text, sizeof m->cpu_text);
    *out = m;
    return SAC_OK;
fail:
    sac_model_free(m);
    return st;
}

void sac_model_free(sac_model *m) {
    if (!m) return;
    for (sac_model *d; (d = sac_draft_models_take(m->draft_models));) {
        d->pool = NULL;
        sac_model_free(d);
    }
    sac_draft_models_free(m->draft_models);
    sac_draft_heads_free(m->draft_heads);
    sac_workspaces_free(m->workspaces, m);
    if (m->vision_cache) sac_vision_cache_free(m->vision_cache);
    free(m->vision_cache);
    if (m->memo) sac_memo_free(m->memo);
    free(m->memo);
    if (m->load_stream.device) m->device.stream_close(&m->load_stream);
    sac_device_decoder_free(&m->device_decoder, &m->device);
    sac_device_tower_free(&m->device_tower, &m->device);
    sac_loaded_model_free(&m->loaded);
    sac_pool_free(m->pool);
    free(m);
}

static int tokens_per_frame(const sac_loaded_model *m) {
    sac_visual_plan plan;
    return sac_processor_usual_frame(&m->processor, &plan, NULL) == SAC_OK
               ? (int)(plan.n_tokens / plan.frames)
               : 0;
}

void sac_model_get_info(const sac_model *model, sac_model_info *info) {
    const sac_loaded_model *m = &model->loaded;
    const sac_decoder_config *c = &m->decoder.config;
    *info = (sac_model_info){
        .family = m->family,
        .dtype = sac_dtype_name(m->dtype),
        .chat_format = m->chat.format ? m->chat.format->name : "template",
        .chat_source = m->chat.format ? NULL : sac_chat_template_source(m->chat.plain),
        .tokenizer = sac_tokenizer_kind(m->tokenizer),
        .n_parameters = m->n_parameters,
        .weight_bytes = m->weight_bytes,
        .n_layers = c->n_layers,
        .hidden = c->hidden,
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_dim = c->head_dim,
        .intermediate = c->intermediate,
        .vocab = c->vocab,
        .max_context = c->max_position,
        .rope_theta = c->rope.theta,
        .has_vision = m->has_vision,
        .n_threads = sac_pool_n_threads(model->pool),
        .cpu = model->cpu_text,
        .unknown_tokenizer = sac_tokenizer_unknown_class(m->tokenizer),
        .unknown_setting = m->generation.unknown[0] ? m->generation.unknown : NULL,
        .mmproj = m->mmproj,
        .n_experts = c->experts.n,
        .n_experts_used = c->experts.n ? c->experts.n_used : 0,
        .expert_intermediate = c->experts.n ? c->experts.intermediate : 0,
        .n_unrounded = m->unrounded.n,
        .first_unrounded = m->unrounded.n ? m->unrounded.first : NULL,
    };
    if (!m->has_vision) return;
    info->vision_layers = m->tower.config.n_layers;
    info->vision_hidden = m->tower.config.hidden;
    info->vision_heads = m->tower.config.n_heads;
    info->image_size = m->processor.dialect->largest ? 0 : m->tower.config.image_size;
    info->patch_size = m->tower.config.patch_size;
    info->tokens_per_frame = tokens_per_frame(m);
    info->processor = m->processor.dialect->name;
}

bool sac_model_get_setting(const sac_model *model, int64_t i, sac_setting_info *info) {
    const sac_generation_config *g = &model->loaded.generation;
    if (i < 0 || i >= g->n_keys) return false;
    const sac_generation_key *k = &g->keys[i];
    bool is_null = strcmp(k->value, "null") == 0;
    *info =
        (sac_setting_info){.name = k->name,
                           .value = k->value,
                           .has_effect = !is_null && (k->kind == SAC_SETTING_HONOURED ||
                                                      (k->kind == SAC_SETTING_OF_SAMPLING && g->do_sample)),
                           .is_known = k->kind != SAC_SETTING_UNKNOWN};
    return true;
}

bool sac_model_get_key(const sac_model *model, int64_t i, sac_key_info *info) {
    const sac_config_keys *keys = &model->loaded.keys;
    if (i < 0 || i >= keys->n) return false;
    const sac_config_key *k = &keys->item[i];
    *info = (sac_key_info){k->file, k->name,
                           k->use == SAC_KEY_UNKNOWN     ? SAC_KEY_IS_UNKNOWN
                           : k->use == SAC_KEY_NO_EFFECT ? SAC_KEY_IS_WITHOUT_EFFECT
                                                         : SAC_KEY_IS_HONOURED};
    return true;
}

bool sac_model_get_adapter(const sac_model *model, int64_t i, sac_adapter_info *info) {
    sac_adapter_entry e;
    if (!sac_loaded_model_adapter(&model->loaded, i, &e)) return false;
    *info = (sac_adapter_info){.name = e.name,
                               .folder = e.folder,
                               .kind = e.is_dora ? "dora" : "lora",
                               .scale = e.scale,
                               .rank = e.rank,
                               .n_tensors = e.n_tensors,
                               .n_bytes = e.n_bytes};
    return true;
}

bool sac_model_get_tensor(const sac_model *model, int64_t i, sac_tensor_info *info) {
    const sac_loaded_model *m = &model->loaded;
    if (i < 0 || i >= m->n_tensors) return false;
    const sac_tensor_entry *e = &m->tensors[i];
    *info = (sac_tensor_info){
        .name = e->name, .dtype = e->dtype_name, .n_dims = e->tensor.n_dims, .n_bytes = e->n_bytes};
    for (int d = 0; d < e->tensor.n_dims && d < 4; d++) info->dim[d] = e->tensor.dim[d];
    return true;
}

size_t sac_model_stop_ids(const sac_model *m, const int32_t **ids) {
    *ids = m->loaded.stop_ids;
    return (size_t)m->loaded.n_stop_ids;
}

const char *const *sac_prefill_names(void) {
    return sac_prefill_policy_names();
}

const char *const *sac_decode_names(void) {
    return sac_decode_policy_names();
}

const char *const *sac_reduce_names(void) {
    return sac_reducer_names();
}

const char *const *sac_kv_names(void) {
    return sac_kv_format_names();
}

/* ---------------------------------------------------------------- read bandwidth */

typedef struct read_job {
    const uint64_t *data;
    int64_t words_per_task;
    uint64_t sums[SAC_MAX_THREADS];
} read_job;

static void read_block(void *ctx, int64_t task, int thread) {
    read_job *job = ctx;
    const uint64_t *p = job->data + task * job->words_per_task;
    uint64_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int64_t i = 0; i + 4 <= job->words_per_task; i += 4) {
        s0 += p[i];
        s1 += p[i + 1];
        s2 += p[i + 2];
        s3 += p[i + 3];
    }
    job->sums[thread] += s0 + s1 + s2 + s3;
}

double sac_measure_read_bandwidth(const sac_model *m) {
    const size_t n_bytes = (size_t)512 << 20; /* larger than any cache that decode could hide in */
    sac_arena arena;
    if (sac_arena_open(&arena, sac_arena_block_bytes(n_bytes), NULL) != SAC_OK) return 0;
    uint64_t *data = sac_arena_take(&arena, n_bytes);
    for (size_t i = 0; i < n_bytes / 8; i += 64) data[i] = i; /* every page has to exist to be read */
    read_job job = {.data = data, .words_per_task = 1 << 17};
    double best = 0;
    for (int round = 0; round < 4; round++) {
        int64_t start = sac_now_ns();
        sac_pool_run(m->pool, (int64_t)(n_bytes / 8) / job.words_per_task, read_block, &job);
        double rate = (double)n_bytes / sac_seconds_since(start);
        if (rate > best) best = rate;
    }
    sac_arena_free(&arena);
    return best;
}
