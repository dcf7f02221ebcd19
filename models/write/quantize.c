#define _GNU_SOURCE
#include "quantize_job.h"

#include "model_load.h"
#include "safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

/* ---------------------------------------------------------------- where to */

static bool is_empty_folder(const char *path) {
    DIR *d = opendir(path);
    if (!d) return false;
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(d);
    return n == 0;
}

static sac_status check_out(const sac_quantize_job *j) {
    struct stat st;
    const bool named_gguf = ends_in(j->out, ".gguf");
    if (strlen(j->out) == 0 || strlen(j->out) > SAC_WRITE_PATH - 300)
        return sac_fail(j->err, SAC_BAD_ARGUMENT, "the name to write to is empty or too long");
    if (j->scheme.is_gguf && !named_gguf)
        return sac_fail(j->err, SAC_BAD_ARGUMENT, "%.200s: %s is a format of GGUF files: give a name that ends in .gguf",
                        j->out, j->scheme.name);
    if (!j->scheme.is_gguf && named_gguf)
        return sac_fail(j->err, SAC_BAD_ARGUMENT, "%.200s: %s is a format of Hugging Face folders: give a folder's name",
                        j->out, j->scheme.name);
    if (stat(j->out, &st) != 0) return SAC_OK;
    if (!j->scheme.is_gguf && S_ISDIR(st.st_mode) && is_empty_folder(j->out)) return SAC_OK;
    return sac_fail(j->err, SAC_BAD_ARGUMENT, "%.250s: there already; give another name, or remove it", j->out);
}

sac_status sac_quantize_begin(sac_quantize_job *j, const char *beside) {
    struct statvfs fs;
    char *folder = strdup(beside), *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash) slash[slash == folder] = 0;
    const bool known = folder && statvfs(slash ? folder : ".", &fs) == 0;
    const int why = errno;
    free(folder);
    if (!known) return sac_fail(j->err, SAC_IO, "%.250s: cannot be written: %s", j->out, strerror(why));
    sac_quantize_plan *p = &j->plan;
    p->bytes_free = (uint64_t)fs.f_bavail * fs.f_frsize;
    j->progress.total = p->n_bytes;
    j->progress.done = p->bytes_done;
    if (j->options->planned) j->options->planned(j->options->ctx, p);
    if (p->n_bytes - p->bytes_done <= p->bytes_free) return SAC_OK;
    return sac_fail(j->err, SAC_IO, "%.200s: %.2f GB are to be written, and %.2f GB are free on that disk", j->out,
                    (double)(p->n_bytes - p->bytes_done) / 1e9, (double)p->bytes_free / 1e9);
}

/* ---------------------------------------------------------------- the source */

static sac_status check_config(const sac_quantize_job *j) {
    static const char *const halves[] = {NULL, "text_config", "vision_config"};
    for (size_t i = 0; i < SAC_COUNT(halves); i++) {
        const json_t *half = halves[i] ? json_object_get(j->config_json, halves[i]) : j->config_json;
        const json_t *q = json_object_get(half, "quantization_config");
        if (!q) q = json_object_get(half, "compression_config");
        if (!q || json_is_null(q)) continue;
        const char *method = json_string_value(json_object_get(q, "quant_method"));
        return sac_fail(j->err, SAC_UNSUPPORTED,
                        "%.200s: quantised already (%.40s): give the original, in 16 or 32 bits", j->in,
                        method ? method : "an unnamed method");
    }
    return SAC_OK;
}

sac_status sac_quantize_open_folder(sac_quantize_job *j) {
    SAC_TRY(sac_load_json(&j->config_json, j->in, "config.json", j->err));
    if (!j->config_json) return sac_fail(j->err, SAC_NOT_FOUND, "no config.json in %.250s", j->in);
    SAC_TRY(check_config(j));
    sac_status st = sac_model_config_read(&j->config, j->config_json, j->err);
    if (st != SAC_OK) return sac_fail_prefix(j->err, st, "%s/config.json", j->in);
    SAC_TRY(sac_safetensors_open_folder(&j->weights, j->in, j->err));
    SAC_TRY(sac_tensor_table_open(&j->table, &j->config, j->err));
    st = sac_round_plan_open(&j->rounds, &j->scheme, &j->config, &j->table, &j->weights, false, j->err);
    if (st != SAC_OK) return sac_fail_prefix(j->err, st, "%s", j->in);
    for (int i = 0; i < j->rounds.n; i++) j->plan.n_rounded += j->rounds.entries[i].is_rounded;
    j->plan.n_kept = j->rounds.n_kept;
    if (j->rounds.n_kept) snprintf(j->plan.first_kept, sizeof j->plan.first_kept, "%.120s", j->rounds.first_kept->from->name);
    if (j->plan.n_rounded) return SAC_OK;
    return sac_fail(j->err, SAC_UNSUPPORTED, "%.200s: no matrix of its layers can be rounded to %s", j->in,
                    j->options->format);
}

/* A model that Saccade cannot load is not written anew: what it consists of is not known. */
static sac_status check_loads(const sac_quantize_job *j) {
    sac_loaded_model m;
    const sac_load_options load = {.tokenizer_rule = SAC_TOKENIZER_BY_CLASS, .mmproj = NULL, .pool = j->pool};
    sac_status st = sac_loaded_model_open_with(&m, j->in, &load, j->err);
    if (st == SAC_OK) sac_loaded_model_free(&m);
    return st;
}

static sac_status run(sac_quantize_job *j, char found[SAC_MODEL_PATH_BYTES]) {
    bool is_folder;
    SAC_TRY(sac_scheme_parse(&j->scheme, j->options->format, j->err));
    SAC_TRY(check_out(j));
    SAC_TRY(sac_pool_create(&j->pool, j->options->n_threads, j->err));
    SAC_TRY(sac_model_path_find(found, &is_folder, j->in, j->err));
    j->in = found;
    if (!is_folder && !j->scheme.is_gguf)
        return sac_fail(j->err, SAC_UNSUPPORTED,
                        "%.200s: %s is written from a Hugging Face folder, not from a GGUF file", j->in,
                        j->scheme.name);
    if (!is_folder) return sac_quantize_gguf(j);
    SAC_TRY(sac_quantize_open_folder(j));
    SAC_TRY(check_loads(j));
    return j->scheme.is_gguf ? sac_quantize_folder_to_gguf(j) : sac_quantize_to_folder(j);
}

sac_status sac_quantize(const char *in, const char *out, const sac_quantize_options *options, sac_error *err) {
    char found[SAC_MODEL_PATH_BYTES];
    char *name = strdup(out);
    sac_quantize_job *j = calloc(1, sizeof *j);
    sac_status st = SAC_OK;
    if (!j || !name)
        st = sac_fail_no_memory(err);
    else {
        for (size_t n = strlen(name); n > 1 && name[n - 1] == '/'; n--) name[n - 1] = 0;
        *j = (sac_quantize_job){.in = in, .out = name, .options = options, .err = err};
        j->progress = (sac_out_progress){.fn = options->progress, .ctx = options->ctx};
        st = run(j, found);
        sac_round_plan_close(&j->rounds);
        sac_tensor_table_close(&j->table);
        sac_checkpoint_free(&j->weights);
        json_decref(j->config_json);
        sac_pool_free(j->pool);
    }
    free(j);
    free(name);
    return st;
}
