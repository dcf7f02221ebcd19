#define _DEFAULT_SOURCE
#include "family.h"
#include "model_load.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void sac_loaded_model_free(sac_loaded_model *m) {
    sac_model_files *files = m->checkpoint;
    sac_chat_templates_free(m->templates);
    sac_tokenizer_free(m->tokenizer);
    sac_arena_free(&m->arena);
    sac_processor_free(&m->processor);
    sac_generation_config_clear(&m->generation);
    sac_config_keys_free(&m->keys);
    if (files) {
        sac_checkpoint_free(&files->weights);
        sac_checkpoint_free(&files->tower);
        sac_checkpoint_free(&files->joined);
        for (int i = 0; i < files->adapters.n; i++) sac_adapter_close(&files->adapters.item[i]);
        sac_kept_adapters_close(&files->kept);
        free(files->tensors);
        free(files->controller_block);
        free(files->head_losses);
        json_decref(files->quantization);
        free(files);
    }
    memset(m, 0, sizeof *m);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const sac_tensor_entry *)a)->name, ((const sac_tensor_entry *)b)->name);
}

static sac_tensor_entry entry_of(const sac_checkpoint_tensor *t) {
    sac_tensor_entry e = {.name = t->name, .dtype_name = t->dtype_name, .n_bytes = t->n_bytes};
    e.tensor.n_dims = t->n_dims < SAC_MAX_DIMS ? t->n_dims : SAC_MAX_DIMS;
    for (int i = 0; i < t->n_dims; i++) {
        if (i < SAC_MAX_DIMS)
            e.tensor.dim[i] = t->dim[i];
        else
            e.tensor.dim[SAC_MAX_DIMS - 1] *= t->dim[i];
    }
    if (t->dtype >= 0) {
        e.tensor.dtype = (sac_dtype)t->dtype;
        e.tensor.data = t->data;
    }
    return e;
}

/* The list for inspect, and the sums over it. */
static sac_status list_tensors(sac_load_context *l) {
    const sac_checkpoint *parts[] = {&l->files->weights, &l->files->tower};
    sac_loaded_model *m = l->m;
    int n = parts[0]->n_tensors + parts[1]->n_tensors;
    size_t bytes_of[SAC_N_DTYPES] = {0};
    sac_tensor_entry *entries = malloc((size_t)(n ? n : 1) * sizeof *entries);
    if (!entries) return sac_fail(l->err, SAC_NO_MEMORY, "no memory for a list of %d tensors", n);
    l->files->tensors = entries;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < parts[k]->n_tensors; i++) {
            const sac_checkpoint_tensor *t = &parts[k]->tensors[i];
            entries[m->n_tensors++] = entry_of(t);
            m->weight_bytes += t->n_bytes;
            if (t->dtype < 0) continue;
            bytes_of[t->dtype] += t->n_bytes;
            m->n_parameters += (int64_t)(t->n_bytes / (size_t)sac_dtype_block_bytes((sac_dtype)t->dtype)) *
                               sac_dtype_block((sac_dtype)t->dtype);
        }
    qsort(entries, (size_t)n, sizeof *entries, by_name);
    m->tensors = entries;
    for (int t = 1; t < SAC_N_DTYPES; t++)
        if (bytes_of[t] > bytes_of[m->dtype]) m->dtype = (sac_dtype)t;
    return SAC_OK;
}

/* Reading ahead helps when the page cache is cold; where memory is short it would only push out what it has
 * read. */
static void read_ahead(const sac_checkpoint *c) {
    long pages = sysconf(_SC_AVPHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    size_t free_bytes = pages > 0 && page_bytes > 0 ? (size_t)pages * (size_t)page_bytes : 0, total = 0;
    for (int i = 0; i < c->n_files; i++) total += c->files[i].map.n_bytes;
    if (total > free_bytes) return;
    for (int i = 0; i < c->n_files; i++)
        if (c->files[i].map.data)
            madvise((void *)(uintptr_t)c->files[i].map.data, c->files[i].map.n_bytes, MADV_WILLNEED);
}

/* Ids that end an answer, as the files have them; sac_loaded_model_set_chat adds what ends a turn. */
static void finish_stop_ids(sac_load_context *l) {
    sac_loaded_model *m = l->m;
    if (m->n_stop_ids == 0)
        for (int i = 0; i < l->config.n_stop_ids; i++) sac_load_stop_id(m, l->config.stop_ids[i]);
    if (m->n_stop_ids == 0) sac_load_stop_id(m, sac_tokenizer_eos(m->tokenizer));
    if (m->n_stop_ids == 0 && l->config.default_stop_id < m->decoder.config.vocab)
        sac_load_stop_id(m, l->config.default_stop_id);
}

static sac_status load(sac_load_context *l) {
    SAC_TRY(sac_sha256_open(&l->hash, l->err));
    bool is_folder;
    const char *mmproj = l->options->mmproj;
    SAC_TRY(sac_model_path_find(l->found, &is_folder, l->path, l->err));
    if (is_folder && mmproj && strcmp(mmproj, "none") != 0)
        return sac_fail(l->err, SAC_BAD_ARGUMENT,
                        "--mmproj %.200s: %.200s is a folder, whose vision half is in it; a GGUF language "
                        "model takes one",
                        mmproj, l->path);
    l->path = l->text_path = l->found;
    SAC_TRY(is_folder ? sac_load_folder(l) : sac_load_gguf(l));
    l->m->family = l->config.family->name;
    finish_stop_ids(l);
    if (!l->options->weights) read_ahead(&l->files->weights);
    read_ahead(&l->files->tower);
    SAC_TRY(list_tensors(l));
    return sac_load_fingerprint(l);
}

sac_status sac_loaded_model_open(sac_loaded_model *m, const char *path, sac_load_progress progress, void *ctx,
                                 sac_error *err) {
    const sac_load_options options = {
        .tokenizer_rule = SAC_TOKENIZER_BY_CLASS, .progress = progress, .progress_ctx = ctx};
    return sac_loaded_model_open_with(m, path, &options, err);
}

sac_status sac_loaded_model_open_with(sac_loaded_model *m, const char *path, const sac_load_options *options,
                                      sac_error *err) {
    memset(m, 0, sizeof *m);
    m->generation.temperature = m->generation.top_p = m->generation.repetition_penalty = 1;
    m->generation.top_k = 50; /* transformers' defaults, used only with do_sample */
    sac_load_context *l = calloc(1, sizeof *l);
    m->checkpoint = calloc(1, sizeof(sac_model_files));
    sac_status st = SAC_OK;
    if (!l || !m->checkpoint)
        st = sac_fail(err, SAC_NO_MEMORY, "no memory to load a model");
    else {
        *l = (sac_load_context){.m = m, .files = m->checkpoint, .path = path, .options = options, .err = err};
        st = load(l);
        uint8_t unused[32];
        if (l->hash) sac_sha256_finish(l->hash, unused);
    }
    free(l);
    if (st != SAC_OK) sac_loaded_model_free(m);
    return st;
}
