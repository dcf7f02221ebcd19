#define _GNU_SOURCE
#include "quantize_job.h"

#include "model_path.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

/* ---------------------------------------------------------------- where to */

/* Another disk than that of the folder around it: nothing can be renamed over it. */
static bool is_mount_point(const char *path, const struct stat *st) {
    char around[SAC_WRITE_PATH];
    struct stat up;
    snprintf(around, sizeof around, "%s/..", path);
    return stat(around, &up) == 0 && up.st_dev != st->st_dev;
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
    const char *slash = strrchr(j->out, '/'), *last = slash ? slash + 1 : j->out;
    if (!strcmp(last, ".") || !strcmp(last, ".."))
        return sac_fail(j->err, SAC_BAD_ARGUMENT, "%.200s: cannot be replaced; name a folder inside it, as %.200s/NAME",
                        j->out, j->out);
    if (lstat(j->out, &st) != 0) return SAC_OK;
    if (S_ISLNK(st.st_mode))
        return sac_fail(j->err, SAC_BAD_ARGUMENT,
                        "%.200s: a symbolic link, which is not replaced; remove it, or name a folder inside it, as "
                        "%.200s/NAME", j->out, j->out);
    if (S_ISDIR(st.st_mode) && is_mount_point(j->out, &st))
        return sac_fail(j->err, SAC_BAD_ARGUMENT,
                        "%.200s: a mount point, which cannot be replaced; name a folder inside it, as %.200s/NAME",
                        j->out, j->out);
    if (!j->scheme.is_gguf && S_ISDIR(st.st_mode) && sac_folder_is_empty(j->out, NULL)) return SAC_OK;
    return sac_fail(j->err, SAC_BAD_ARGUMENT, "%.250s: there already; give another name, or remove it", j->out);
}

static bool is_file(const char *path, const struct stat *other) {
    struct stat st;
    return stat(path, &st) == 0 && st.st_dev == other->st_dev && st.st_ino == other->st_ino;
}

/* What is read is not written over, whatever name it has. */
static sac_status check_part(sac_quantize_job *j) {
    char part[SAC_WRITE_PATH];
    struct stat st;
    snprintf(part, sizeof part, "%s.part", j->out);
    if (stat(part, &st) != 0) return SAC_OK;
    bool is_source = is_file(j->in, &st);
    for (int i = 0; i < j->weights.n_files; i++) is_source |= is_file(j->weights.files[i].path, &st);
    if (S_ISREG(st.st_mode)) j->bytes_reused = (uint64_t)st.st_blocks * 512;
    if (!is_source) return SAC_OK;
    return sac_fail(j->err, SAC_BAD_ARGUMENT,
                    "%.200s is the source, and what is written bears this name until it is whole: give another name", part);
}

/* ---------------------------------------------------------------- the whole */

/* A model that Saccade cannot load is not written anew: what it consists of is not known. */
static sac_status check_loads(const sac_quantize_job *j) {
    sac_loaded_model m;
    const sac_load_options load = {.tokenizer_rule = SAC_TOKENIZER_BY_CLASS, .mmproj = NULL, .pool = j->pool};
    sac_status st = sac_loaded_model_open_with(&m, j->in, &load, j->err);
    if (st == SAC_OK) sac_loaded_model_free(&m);
    return st;
}

static bool is_calibrated(const sac_quantize_job *j) {
    return j->options->calibrator || j->options->is_calibrated;
}

/* An adapter in the folder is merged when the model is loaded: prompts would meet other matrices than are written. */
static sac_status check_adapter(const sac_quantize_job *j) {
    char path[SAC_WRITE_PATH];
    SAC_TRY(sac_path_join(path, sizeof path, j->in, "adapter_config.json", j->err));
    if (!is_calibrated(j) || !sac_file_exists(path)) return SAC_OK;
    return sac_fail(j->err, SAC_UNSUPPORTED,
                    "%.250s: the model is not calibrated with an adapter beside it: merge it into the model first (peft: "
                    "merge_and_unload), or remove it",
                    path);
}

/* Of j->in, which becomes `found`. */
static sac_status check(sac_quantize_job *j, char found[SAC_MODEL_PATH_BYTES], bool *is_folder) {
    SAC_TRY(sac_scheme_parse(&j->scheme, j->options->format, j->err));
    SAC_TRY(check_out(j));
    SAC_TRY(sac_model_path_find(found, is_folder, j->in, j->err));
    j->in = found;
    SAC_TRY(check_part(j));
    if (!*is_folder && !j->scheme.is_gguf)
        return sac_fail(j->err, SAC_UNSUPPORTED,
                        "%.200s: %s is written from a Hugging Face folder, not from a GGUF file", j->in,
                        j->scheme.name);
    if (is_calibrated(j) && j->scheme.is_gguf && !sac_can_weigh(j->scheme.type))
        return sac_fail(j->err, SAC_UNSUPPORTED, "%s has no numbers to choose by prompts: leave --calibrate out", j->scheme.name);
    if (!*is_folder) return SAC_OK;
    SAC_TRY(sac_quantize_open_folder(j));
    SAC_TRY(check_part(j)); /* with its files of weights */
    return check_adapter(j);
}

static sac_status run(sac_quantize_job *j, char found[SAC_MODEL_PATH_BYTES]) {
    bool is_folder;
    SAC_TRY(check(j, found, &is_folder));
    SAC_TRY(sac_pool_create(&j->pool, j->options->n_threads, j->err));
    if (!is_folder) return sac_quantize_gguf(j);
    SAC_TRY(check_loads(j));
    return j->scheme.is_gguf ? sac_quantize_folder_to_gguf(j) : sac_quantize_to_folder(j);
}

/* OUT.part is no other run's. */
static sac_status check_free(const sac_quantize_job *j) {
    char part[SAC_WRITE_PATH];
    int fd = -1;
    snprintf(part, sizeof part, "%s.part", j->out);
    SAC_TRY(sac_out_lock(&fd, part, j->scheme.is_gguf ? O_WRONLY : O_RDONLY | O_DIRECTORY, j->err));
    if (fd >= 0) close(fd);
    return SAC_OK;
}

static sac_status run_checks(sac_quantize_job *j, char found[SAC_MODEL_PATH_BYTES]) {
    bool is_folder;
    SAC_TRY(check(j, found, &is_folder));
    if (!is_folder) SAC_TRY(sac_quantize_check_gguf(j));
    return check_free(j);
}

typedef sac_status (*run_fn)(sac_quantize_job *j, char found[SAC_MODEL_PATH_BYTES]);

static sac_status with_job(run_fn fn, const char *in, const char *out, const sac_quantize_options *options, sac_error *err) {
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
        st = fn(j, found);
        sac_round_plan_close(&j->rounds);
        sac_checkpoint_free(&j->weights);
        json_decref(j->config_json);
        sac_pool_free(j->pool);
    }
    free(j);
    free(name);
    return st;
}

sac_status sac_quantize(const char *in, const char *out, const sac_quantize_options *options, sac_error *err) {
    return with_job(run, in, out, options, err);
}

sac_status sac_quantize_check(const char *in, const char *out, const sac_quantize_options *options, sac_error *err) {
    return with_job(run_checks, in, out, options, err);
}
