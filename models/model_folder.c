/* model_folder.c - a Hugging Face folder: config.json, safetensors, and the small JSON files beside them. */
#include "binder.h"
#include "config_values.h"
#include "expert_tensors.h"
#include "family.h"
#include "model_load.h"
#include "quantization.h"
#include "safetensors.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096

/* A folder inside the model's own. */
static bool inside(const char *name) {
    return name && *name && *name != '/' && !strstr(name, "..");
}

sac_status sac_load_find_tower(const char **name, const char *folder, const json_t *config, sac_error *err) {
    char path[PATH_BYTES];
    const char *named = json_string_value(json_object_get(config, "mm_vision_tower"));
    const char *tries[] = {inside(named) ? named : NULL, "vision_tower"};
    *name = NULL;
    for (int i = 0; named && i < 2 && !*name; i++) {
        if (!tries[i]) continue;
        SAC_TRY(sac_path_join(path, sizeof path, folder, tries[i], err));
        if (sac_folder_exists(path)) *name = tries[i];
    }
    return SAC_OK;
}

static sac_status find_tower_folder(const sac_load_context *l, const json_t *config, char path[PATH_BYTES],
                                    bool *found) {
    const char *name;
    SAC_TRY(sac_load_find_tower(&name, l->path, config, l->err));
    *found = name != NULL;
    return name ? sac_path_join(path, PATH_BYTES, l->path, name, l->err) : SAC_OK;
}

sac_status sac_load_adopt_tower_config(const char *folder, json_t *config, sac_error *err) {
    char path[PATH_BYTES];
    const char *name;
    json_t *tower;
    SAC_TRY(sac_load_find_tower(&name, folder, config, err));
    if (!name) return SAC_OK;
    SAC_TRY(sac_path_join(path, sizeof path, folder, name, err));
    SAC_TRY(sac_load_json(&tower, path, "config.json", err));
    if (!tower) return SAC_OK;
    json_t *vision = json_object_get(tower, "vision_config");
    json_object_set(config, "vision_config", json_is_object(vision) ? vision : tower);
    json_decref(tower);
    return SAC_OK;
}

/* ---- weights ---- */

/* Whether the folder has weights of a type that ModelOpt packs. */
static sac_status has_packed(const char *folder, bool *out, sac_error *err) {
    sac_checkpoint c = {0};
    *out = false;
    const sac_status st = sac_safetensors_open_folder(&c, folder, err);
    for (int i = 0; st == SAC_OK && i < c.n_tensors; i++) {
        const sac_checkpoint_tensor *t = &c.tensors[i];
        const bool is_type = !strcmp(t->dtype_name, "f8_e4m3") || !strcmp(t->dtype_name, "u8");
        *out = *out || (is_type && sac_quant_module(t, "weight"));
    }
    sac_checkpoint_free(&c);
    return st;
}

/* What ModelOpt says of its weights, in the file that it writes where config.json does not have it, as newer exports have it
 * there. One that was left beside weights in floats says nothing of them. */
static sac_status adopt_quantization(const char *folder, json_t *config, sac_error *err) {
    json_t *file;
    bool is_packed = false;
    if (sac_config_has(config, "quantization_config")) return SAC_OK;
    SAC_TRY(sac_load_json(&file, folder, "hf_quant_config.json", err));
    json_t *said = json_object_get(file, "quantization");
    sac_status st = SAC_OK;
    if (json_is_string(json_object_get(said, "quant_algo"))) st = has_packed(folder, &is_packed, err);
    if (is_packed) {
        json_object_set_new(said, "quant_method", json_string(SAC_QUANT_OF_FILE));
        json_object_set(config, "quantization_config", said);
        st = sac_weight_check_config(said, err);
        if (st != SAC_OK) st = sac_fail_prefix(err, st, "%s", folder);
    }
    json_decref(file);
    return st;
}

/* Quantised weights are refused, whichever half of the model they are in. */
static sac_status check_quantization(const json_t *config, sac_error *err) {
    SAC_TRY(sac_weight_check_config(json_object_get(config, "quantization_config"), err));
    static const char *const halves[] = {"text_config", "llm_config", "vision_config"};
    for (size_t i = 0; i < SAC_COUNT(halves); i++) {
        const json_t *half = json_object_get(config, halves[i]);
        const json_t *inner = json_object_get(half, "quantization_config");
        if (sac_weight_check_config(inner, err) != SAC_OK)
            return sac_fail_prefix(err, SAC_UNSUPPORTED, "%s", halves[i]);
        if (sac_config_has(half, "quantization_config"))
            return sac_fail(err, SAC_UNSUPPORTED,
                            "%s: \"quantization_config\" is not supported there; use the original checkpoint",
                            halves[i]);
    }
    return SAC_OK;
}

/* transformers 5: another file in the place of model.safetensors. */
static sac_status check_weights_name(const json_t *config, sac_error *err) {
    const char *name = NULL;
    SAC_TRY(sac_json_get_string(config, "transformers_weights", &name, err));
    if (!name || strcmp(name, "model.safetensors") == 0 || strcmp(name, "model.safetensors.index.json") == 0)
        return SAC_OK;
    return sac_fail(
        err, SAC_UNSUPPORTED,
        "\"transformers_weights\" is \"%.80s\"; rename that file to model.safetensors, or its index "
        "to model.safetensors.index.json, and remove the key",
        name);
}

static sac_status open_weights(sac_load_context *l, const json_t *config, sac_bind_source *source) {
    sac_model_files *f = l->files;
    SAC_TRY(sac_safetensors_open_folder(&f->weights, l->path, l->err));
    sac_status st =
        sac_weight_name_matrices(&f->weights, json_object_get(config, "quantization_config"), l->err);
    if (st != SAC_OK) return sac_fail_prefix(l->err, st, "%s", l->path);
    st = sac_expert_tensors_list(&f->weights, &l->config.decoder, l->err);
    if (st != SAC_OK) return sac_fail_prefix(l->err, st, "%s", l->path);
    const json_t *quantization = json_object_get(config, "quantization_config");
    SAC_TRY(sac_load_round_weights(l, &quantization, false));
    *source = (sac_bind_source){.weights = &f->weights,
                                .quantization = quantization,
                                .adapters = f->adapters.n ? &f->adapters : NULL,
                                .pool = l->options->pool,
                                .progress = l->options->progress,
                                .progress_ctx = l->options->progress_ctx};
    if (!l->config.tower_name) return SAC_OK;
    bool here;
    SAC_TRY(sac_bind_has(&here, &l->config, source, l->config.tower.kind->slots[0].name, l->err));
    if (here) return SAC_OK;
    char folder[PATH_BYTES];
    bool found;
    SAC_TRY(find_tower_folder(l, config, folder, &found));
    if (!found)
        return sac_fail(
            l->err, SAC_NOT_FOUND,
            "%s: the weights of its vision tower (%.80s) are not among the model's; put that model into "
            "%s/vision_tower",
            l->path, l->config.tower_name, l->path);
    SAC_TRY(sac_safetensors_open_folder(&f->tower, folder, l->err));
    source->tower = &f->tower;
    return SAC_OK;
}

static const char *cache_key(const json_t *quantization) {
    static const char *const keys[] = {"kv_cache_scheme", "kv_cache_quant_algo"};
    for (size_t i = 0; i < SAC_COUNT(keys); i++) {
        const json_t *said = json_object_get(quantization, keys[i]);
        if (json_is_string(said) || json_object_size(said)) return keys[i];
    }
    return NULL;
}

/* What a configuration asks of activations and of the cache and is not done, and scales for keys and values in 8 bits, as its maker
 * measured them: they are listed among the keys without effect. */
static sac_status list_unused_rounding(sac_load_context *l, const json_t *quantization) {
    const char *cache = cache_key(quantization);
    json_t *said = json_object();
    if (!said) return sac_fail(l->err, SAC_NO_MEMORY, "no memory for the names of keys");
    if (cache) json_object_set_new(said, cache, json_true());
    if (sac_quant_leaves_fp4_inputs(quantization)) json_object_set_new(said, "activations in 4 bits", json_true());
    const sac_status st =
        sac_config_keys_of_object(&l->m->keys, l->config.family, "weights", "quantization_config", said, l->err);
    json_decref(said);
    return st;
}
static sac_status list_cache_scales(sac_load_context *l, const json_t *quantization) {
    static const char *const parts[] = {"k_scale",    "v_scale", "q_scale", "prob_scale", "k_proj.output_scale",
                                        "v_proj.output_scale"};
    const sac_checkpoint *c = &l->files->weights;
    json_t *found = json_object();
    if (!found) return sac_fail(l->err, SAC_NO_MEMORY, "no memory for the names of scales");
    for (size_t p = 0; quantization && p < SAC_COUNT(parts); p++) {
        char name[64];
        int n = 0;
        for (int i = 0; i < c->n_tensors; i++) n += sac_quant_module(&c->tensors[i], parts[p]) != 0;
        snprintf(name, sizeof name, "*.%s (%d)", parts[p], n);
        if (n) json_object_set_new(found, name, json_true());
    }
    const sac_status st =
        sac_config_keys_of_object(&l->m->keys, l->config.family, "weights", "safetensors", found, l->err);
    json_decref(found);
    return st;
}

/* processor_config.json, or NULL, its keys listed beside the image processor's own, which may stand in it. */
static sac_status open_processor(sac_load_context *l, json_t **object, bool *holds_preprocessor) {
    static const char name[] = "processor_config.json";
    SAC_TRY(sac_load_json(object, l->path, name, l->err));
    *holds_preprocessor = json_is_object(json_object_get(*object, "image_processor"));
    sac_status st =
        sac_config_keys_of_object(&l->m->keys, l->config.family, "processor", name, *object, l->err);
    return st == SAC_OK ? st : sac_fail_prefix(l->err, st, "%s/%s", l->path, name);
}

/* Whether the key that a message begins with stands in config.json. */
static bool is_about_config(const char *text, const json_t *config) {
    char key[64];
    const char *end = *text == '"' ? strchr(text + 1, '"') : NULL;
    if (!end || (size_t)(end - text) > sizeof key) return false;
    snprintf(key, sizeof key, "%.*s", (int)(end - text - 1), text + 1);
    return sac_config_has(config, key);
}

/* Says which file a message of the processor is about: some of its keys may stand in config.json, and the aspect ratio does. */
static sac_status processor_failed(const sac_load_context *l, sac_status st, const json_t *config,
                                   const char *folder, const char *name) {
    bool ratio = strstr(l->err ? l->err->text : "", "_aspect_ratio\"") != NULL;
    if (ratio || is_about_config(l->err ? l->err->text : "", config))
        return sac_fail_prefix(l->err, st, "%s/config.json", l->path);
    return sac_fail_prefix(l->err, st, "%s/%s", folder, name);
}

/* The video processor's object, as transformers looks for it: in processor_config.json, else in a file of its own; *out is NULL
 * where there is neither. */
static sac_status load_video_processor(sac_load_context *l, json_t **out) {
    const char *name = "processor_config.json";
    json_t *outer;
    SAC_TRY(sac_load_json(&outer, l->path, name, l->err));
    json_t *inner = json_object_get(outer, "video_processor");
    *out = json_is_object(inner) ? json_incref(inner) : NULL;
    json_decref(outer);
    if (!*out) SAC_TRY(sac_load_json(out, l->path, name = "video_preprocessor_config.json", l->err));
    if (!*out) return SAC_OK;
    return sac_config_keys_of_object(&l->m->keys, l->config.family, "preprocessor", name, *out, l->err);
}

static sac_status read_processor(sac_load_context *l, const json_t *config, const json_t *processor, bool inside_other) {
    json_t *preprocessor, *video = NULL;
    const char *name = inside_other ? "processor_config.json" : "preprocessor_config.json";
    SAC_TRY(sac_processor_find(&preprocessor, l->path, l->err));
    char folder[PATH_BYTES];
    bool found = false;
    if (!preprocessor) SAC_TRY(find_tower_folder(l, config, folder, &found));
    if (found) SAC_TRY(sac_processor_find(&preprocessor, folder, l->err));
    sac_processor_model pm = {.dialect = l->config.dialect,
                              .image_size = l->config.tower.image_size,
                              .patch_size = l->config.tower.patch_size,
                              .keep_class = l->config.tower.keep_class,
                              .temporal_patch_size = l->config.tower.temporal_patch_size,
                              .merge_size = l->config.tower.merge_size,
                              .processor = processor,
                              .config = config};
    sac_status st = sac_config_keys_of_object(
        &l->m->keys, l->config.family, "preprocessor",
        inside_other ? "processor_config.json" : "preprocessor_config.json", preprocessor, l->err);
    if (st == SAC_OK) st = load_video_processor(l, &video);
    pm.video = video;
    if (st == SAC_OK) st = sac_processor_read(&l->m->processor, preprocessor, &pm, l->err);
    if (st == SAC_OK && preprocessor) st = sac_load_hash_json(l, preprocessor);
    if (st == SAC_OK && video) st = sac_load_hash_json(l, video);
    json_decref(preprocessor);
    json_decref(video);
    if (st != SAC_OK) return processor_failed(l, st, config, found ? folder : l->path, name);
    if (l->m->processor.tile_size != l->config.tower.image_size)
        return sac_fail(l->err, SAC_BAD_FILE,
                        "%s: pictures of %d pixels a side, but the vision tower takes %d", l->path,
                        l->m->processor.tile_size, l->config.tower.image_size);
    return SAC_OK;
}

static sac_status load_processor(sac_load_context *l, const json_t *config) {
    json_t *processor = NULL;
    bool inside_other = false;
    sac_status st = open_processor(l, &processor, &inside_other);
    if (st == SAC_OK) st = read_processor(l, config, processor, inside_other);
    json_decref(processor);
    return st;
}

/* ---- text ---- */

static sac_status load_tokenizer(sac_load_context *l) {
    char path[PATH_BYTES];
    SAC_TRY(sac_path_join(path, sizeof path, l->text_path, "tokenizer.json", l->err));
    if (!sac_file_exists(path)) {
        char config[PATH_BYTES];
        SAC_TRY(sac_path_join(config, sizeof config, l->text_path, "tokenizer_config.json", l->err));
        SAC_TRY(sac_path_join(path, sizeof path, l->text_path, "tiktoken.model", l->err));
        if (sac_file_exists(path) && l->options->tokenizer_rule == SAC_TOKENIZER_BY_FILE)
            return sac_fail(l->err, SAC_UNSUPPORTED,
                            "tokenizer \"file\" is for folders with tokenizer.json; %s has tiktoken.model, which is read in one way",
                            l->text_path);
        if (sac_file_exists(path)) return sac_tokenizer_open_tiktoken_file(&l->m->tokenizer, path, config, l->err);
        return sac_fail(l->err, SAC_NOT_FOUND,
                        "%s: no tokenizer.json; a folder with another kind of tokenizer must be converted "
                        "(transformers: AutoTokenizer.from_pretrained, save_pretrained)",
                        l->text_path);
    }
    return sac_tokenizer_open_file(&l->m->tokenizer, path, l->options->tokenizer_rule, l->err);
}

/* generation_config.json; without one config.json, and its text_config, as transformers does. */
static sac_status load_generation(sac_load_context *l, const json_t *config) {
    sac_loaded_model *m = l->m;
    sac_generation_config *g = &m->generation;
    json_t *object;
    SAC_TRY(sac_load_json(&object, l->path, "generation_config.json", l->err));
    if (!object) {
        const json_t *text = json_object_get(config, "text_config");
        sac_status st = text ? sac_config_read_generation(g, text, true, l->err) : SAC_OK;
        if (st == SAC_OK) st = sac_config_read_generation(g, config, true, l->err);
        if (st == SAC_OK) st = sac_controls_check(&g->controls, l->config.decoder.vocab, l->err);
        return st == SAC_OK ? st : sac_fail_prefix(l->err, st, "%s/config.json", l->path);
    }
    sac_status st = sac_config_read_generation(g, object, false, l->err);
    if (st == SAC_OK) st = sac_controls_check(&g->controls, l->config.decoder.vocab, l->err);
    if (st == SAC_OK)
        st = sac_config_add_stop_ids(m->stop_ids, &m->n_stop_ids, object, l->config.decoder.vocab, l->err);
    json_decref(object);
    return st == SAC_OK ? st : sac_fail_prefix(l->err, st, "%s/generation_config.json", l->path);
}

static sac_status load_parts(sac_load_context *l, json_t *config) {
    SAC_TRY(sac_load_adopt_tower_config(l->path, config, l->err));
    SAC_TRY(adopt_quantization(l->path, config, l->err));
    SAC_TRY(sac_load_hash_json(l, config));
    sac_status st = sac_model_config_read(&l->config, config, l->err);
    if (st == SAC_OK) st = sac_config_keys_of_config(&l->m->keys, l->config.family, config, l->err);
    if (st == SAC_OK) st = check_quantization(config, l->err);
    if (st == SAC_OK) st = check_weights_name(config, l->err);
    if (st != SAC_OK) return sac_fail_prefix(l->err, st, "%s/config.json", l->path);
    l->m->frame_layout = l->config.frame_layout;

    SAC_TRY(sac_load_open_adapters(l, NULL));
    SAC_TRY(sac_load_open_kept_adapters(l, NULL));
    sac_bind_source source;
    SAC_TRY(open_weights(l, config, &source));
    SAC_TRY(list_unused_rounding(l, source.quantization));
    SAC_TRY(list_cache_scales(l, source.quantization));
    st = sac_bind_model(l->m, &l->config, &source, l->err);
    if (st != SAC_OK) return sac_fail_prefix(l->err, st, "%s", l->path);
    SAC_TRY(sac_load_bind_kept_adapters(l, false));
    if (l->m->has_vision) SAC_TRY(load_processor(l, config));
    SAC_TRY(load_tokenizer(l));
    SAC_TRY(sac_load_folder_chat(l));
    SAC_TRY(sac_load_controller(l));
    SAC_TRY(sac_load_head_losses(l));
    return load_generation(l, config);
}

/* Without config.json: a folder of GGUF files is named with the file that was meant. */
static sac_status refuse_folder(sac_load_context *l) {
    char file[256] = "";
    DIR *folder = opendir(l->path);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        size_t n = strlen(e->d_name);
        bool is_model = n > 5 && !strcmp(e->d_name + n - 5, ".gguf") && !strstr(e->d_name, "mmproj");
        if (is_model && (!file[0] || strcmp(e->d_name, file) < 0)) snprintf(file, sizeof file, "%s", e->d_name);
    }
    if (folder) closedir(folder);
    if (file[0])
        return sac_fail(l->err, SAC_NOT_FOUND, "no config.json in %.200s: give the file in it, %.100s", l->path, file);
    return sac_fail(l->err, SAC_NOT_FOUND, "no config.json in %s: give a Hugging Face folder or a .gguf file", l->path);
}

sac_status sac_load_folder(sac_load_context *l) {
    json_t *config;
    SAC_TRY(sac_load_find_adapter(l));
    SAC_TRY(sac_load_json(&config, l->path, "config.json", l->err));
    if (!config) return refuse_folder(l);
    sac_status st = load_parts(l, config);
    l->config.tower_name = NULL; /* was the JSON's */
    json_decref(config);
    return st;
}
