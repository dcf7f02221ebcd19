/* model_adapters.c - which adapters a model has: those named with it, and one that lies in its folder. */
#include "config_keys.h"
#include "family.h"
#include "model_load.h"

#include <stdio.h>
#include <stdlib.h>

static const char config_name[] = "adapter_config.json";

static sac_status has_file(const char *folder, const char *name, bool *there, sac_error *err) {
    char path[SAC_MODEL_PATH_BYTES];
    SAC_TRY(sac_path_join(path, sizeof path, folder, name, err));
    *there = sac_file_exists(path);
    return SAC_OK;
}

static sac_status has_weights(const char *folder, bool *there, sac_error *err) {
    SAC_TRY(has_file(folder, "model.safetensors", there, err));
    return *there ? SAC_OK : has_file(folder, "model.safetensors.index.json", there, err);
}

/* The base as the adapter names it: a path, or a name on the hub that nothing here can stand for. */
static sac_status read_base(const char *folder, const json_t *config, char base[SAC_MODEL_PATH_BYTES],
                            sac_error *err) {
    const char *name = NULL;
    SAC_TRY(sac_json_get_string(config, "base_model_name_or_path", &name, err));
    if (!name || !*name)
        return sac_fail(
            err, SAC_NOT_FOUND,
            "\"base_model_name_or_path\" names no base: give the base as the model, and \"--adapter %s\"",
            folder);
    if (strlen(name) >= SAC_MODEL_PATH_BYTES || !sac_folder_exists(name))
        return sac_fail(err, SAC_NOT_FOUND,
                        "the base %.100s is no folder here: fetch it (\"hf download %.100s --local-dir "
                        "DIR\"), and give it as "
                        "the model, with \"--adapter %s\"",
                        name, name, folder);
    snprintf(base, SAC_MODEL_PATH_BYTES, "%s", name);
    return SAC_OK;
}

/* The base that a folder with nothing but an adapter names. */
static sac_status follow_base(sac_load_context *l) {
    char base[SAC_MODEL_PATH_BYTES];
    bool is_folder, is_adapter, has_tokenizer;
    json_t *config;
    SAC_TRY(sac_load_json(&config, l->path, config_name, l->err));
    sac_status st = read_base(l->path, config, base, l->err);
    json_decref(config);
    if (st != SAC_OK) return sac_fail_prefix(l->err, st, "%s/%s", l->path, config_name);
    SAC_TRY(has_file(l->path, "tokenizer.json", &has_tokenizer, l->err));
    snprintf(l->own_adapter, sizeof l->own_adapter, "%s", l->path);
    SAC_TRY(sac_model_path_find(l->found, &is_folder, base, l->err));
    l->path = l->found;
    l->text_path =
        has_tokenizer ? l->own_adapter : l->path; /* as transformers' AutoTokenizer takes the folder's */
    SAC_TRY(has_weights(l->path, &is_adapter, l->err));
    if (is_adapter) return SAC_OK;
    SAC_TRY(has_file(l->path, config_name, &is_adapter, l->err));
    if (!is_adapter) return SAC_OK;
    return sac_fail(
        l->err, SAC_UNSUPPORTED,
        "%s/%s: the base %.100s is an adapter too: give the model that it stands on, and both with --adapter",
        l->own_adapter, config_name, base);
}

sac_status sac_load_find_adapter(sac_load_context *l) {
    bool is_adapter, is_model;
    SAC_TRY(has_file(l->path, config_name, &is_adapter, l->err));
    if (!is_adapter) return SAC_OK;
    SAC_TRY(has_weights(l->path, &is_model, l->err));
    if (!is_model) return follow_base(l);
    snprintf(l->own_adapter, sizeof l->own_adapter, "%s", l->path);
    return SAC_OK;
}

static sac_status open_one(sac_load_context *l, const char *spec) {
    sac_adapters *list = &l->files->adapters;
    if (list->n == SAC_MAX_ADAPTERS)
        return sac_fail(l->err, SAC_BAD_ARGUMENT,
                        "more than %d adapters: merge some of them into the base (peft: "
                        "merge_and_unload)",
                        SAC_MAX_ADAPTERS);
    SAC_TRY(sac_adapter_open(&list->item[list->n], spec, l->err));
    list->n++;
    return SAC_OK;
}

/* A key that the family's tables refuse, and what to do. */
static sac_status refused(const sac_load_context *l, sac_status st, const sac_adapter *a) {
    char what[160];
    snprintf(what, sizeof what, "%s", l->err ? l->err->text : "");
    return sac_fail(l->err, st,
                    "%s/%s: %s; merge it into its base with peft (merge_and_unload, save_pretrained)",
                    a->folder, config_name, what);
}

/* Folders go with folders, GGUF files with GGUF files: their names, and the order of their rows, differ. */
static sac_status check_kind(const sac_load_context *l, const sac_adapter *a, const char *architecture) {
    if (a->is_gguf && !architecture)
        return sac_fail(l->err, SAC_UNSUPPORTED,
                        "%s: a GGUF adapter goes with a GGUF model; give the folder that peft saved",
                        a->folder);
    if (!a->is_gguf && architecture)
        return sac_fail(
            l->err, SAC_UNSUPPORTED,
            "%s: this adapter goes with Hugging Face folders; give the folder of the model that it was "
            "trained on, or convert it to GGUF (llama.cpp: convert_lora_to_gguf.py)",
            a->folder);
    if (!architecture || strcmp(a->architecture, architecture) == 0) return SAC_OK;
    return sac_fail(l->err, SAC_BAD_FILE,
                    "%s: an adapter for the architecture \"%s\", and the model is \"%s\": give its own base",
                    a->folder, a->architecture, architecture);
}

static sac_status read_keys(sac_load_context *l, const sac_adapter *a) {
    if (a->is_gguf) return SAC_OK;
    sac_status st =
        sac_config_keys_of_object(&l->m->keys, l->config.family, "adapter", config_name, a->config, l->err);
    return st == SAC_OK ? st : refused(l, st, a);
}

sac_status sac_load_open_adapters(sac_load_context *l, const char *architecture) {
    if (l->own_adapter[0]) SAC_TRY(open_one(l, l->own_adapter));
    for (size_t i = 0; i < l->options->n_adapters; i++) SAC_TRY(open_one(l, l->options->adapters[i]));
    const sac_adapters *list = &l->files->adapters;
    for (int i = 0; i < list->n; i++) {
        SAC_TRY(check_kind(l, &list->item[i], architecture));
        SAC_TRY(read_keys(l, &list->item[i]));
        if (list->item[i].config) SAC_TRY(sac_load_hash_json(l, list->item[i].config));
    }
    return SAC_OK;
}

/* ---- kept apart ---- */

sac_status sac_load_open_kept_adapters(sac_load_context *l, const char *architecture) {
    sac_kept_adapters *kept = &l->files->kept;
    for (size_t i = 0; i < l->options->n_kept_adapters; i++) {
        SAC_TRY(sac_kept_adapters_add(kept, l->options->kept_adapters[i], l->err));
        const sac_adapter *a = &kept->item[kept->n - 1].adapter;
        SAC_TRY(check_kind(l, a, architecture));
        SAC_TRY(read_keys(l, a));
    }
    return SAC_OK;
}

sac_status sac_loaded_model_find_adapter(const sac_loaded_model *m, const char *name, int *number,
                                         sac_error *err) {
    const sac_model_files *files = m->checkpoint;
    *number = m->own_adapter;
    return name ? sac_kept_adapters_find(&files->kept, name, number, err) : SAC_OK;
}

/* ---- what is told of them ---- */

bool sac_loaded_model_adapter(const sac_loaded_model *m, int64_t i, sac_adapter_entry *out) {
    const sac_model_files *files = m->checkpoint;
    if (!files || i < 0 || i >= files->adapters.n + files->kept.n) return false;
    const sac_kept_adapter *kept = i < files->adapters.n ? NULL : &files->kept.item[i - files->adapters.n];
    const sac_adapter *a = kept ? &kept->adapter : &files->adapters.item[i];
    int64_t rank = 0;
    double alpha;
    *out = (sac_adapter_entry){.name = kept ? kept->name : NULL,
                               .folder = a->folder,
                               .scale = a->scale,
                               .n_tensors = a->tensors.n_tensors};
    (void)sac_adapter_rank_alpha(a->config, "", &rank, &alpha, NULL); /* its patterns have run before */
    const sac_checkpoint_tensor *first =
        &a->tensors.tensors[0]; /* of a GGUF file a lora_a: they are sorted */
    if (a->is_gguf) rank = first->dim[strcmp(first->name, "token_embd.weight.lora_a") == 0];
    (void)sac_json_get_bool(a->config, "use_dora", &out->is_dora, NULL);
    out->rank = (int)rank;
    for (int k = 0; k < a->tensors.n_tensors; k++) out->n_bytes += a->tensors.tensors[k].n_bytes;
    return true;
}
