/* carry_over.c - what is in a folder besides config.json and the weights: tokenizer, templates, processors, licences. Other
 * copies of the weights (pytorch_model.bin, consolidated.safetensors, GGUF) are not. */
#define _GNU_SOURCE
#include "model_load.h"
#include "quantize_job.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

static bool is_of_weights(const sac_quantize_job *j, const char *path, const char *name) {
    static const char *const others[] = {".bin", ".pt",  ".pth",     ".h5",   ".msgpack",
                                         ".ot",  ".ckpt", ".gguf", ".onnx", ".onnx_data"};
    for (int i = 0; i < j->weights.n_files; i++)
        if (strcmp(j->weights.files[i].path, path) == 0) return true;
    for (size_t i = 0; i < SAC_COUNT(others); i++)
        if (ends_in(name, others[i])) return true;
    if (ends_in(name, ".safetensors"))
        return !strncmp(name, "model", 5) || !strncmp(name, "consolidated", 12) || !strncmp(name, "pytorch", 7);
    return !strcmp(name, "config.json") || ends_in(name, ".index.json") || ends_in(name, ".part");
}

static sac_status copy_file(sac_quantize_job *j, const char *from, const char *to) {
    FILE *f = fopen(from, "rbe");
    if (!f) return sac_fail(j->err, SAC_IO, "%.250s: %s", from, strerror(errno));
    const size_t room = (size_t)1 << 20;
    uint8_t *piece = malloc(room);
    sac_out_file out = {0};
    sac_status st = piece ? sac_out_open(&out, to, &j->progress, j->err) : sac_fail_no_memory(j->err);
    for (size_t n; st == SAC_OK && (n = fread(piece, 1, room, f)) > 0;) st = sac_out_write(&out, piece, n, j->err);
    if (st == SAC_OK && ferror(f)) st = sac_fail(j->err, SAC_IO, "%.250s: cannot be read", from);
    if (st == SAC_OK) st = sac_out_close(&out, j->err);
    sac_out_abandon(&out);
    free(piece);
    fclose(f);
    return st;
}

static sac_status carry(sac_quantize_job *j, const char *from, const char *to, int depth, uint64_t *n_bytes);

static sac_status carry_entry(sac_quantize_job *j, const char *from, const char *to, const char *name, int depth,
                              uint64_t *n_bytes) {
    char source[SAC_WRITE_PATH], target[SAC_WRITE_PATH];
    struct stat st;
    if (name[0] == '.') return SAC_OK;
    SAC_TRY(sac_path_join(source, sizeof source, from, name, j->err));
    if (to) SAC_TRY(sac_path_join(target, sizeof target, to, name, j->err));
    if (stat(source, &st)) return sac_fail(j->err, SAC_IO, "%.250s: %s", source, strerror(errno));
    if (S_ISDIR(st.st_mode)) {
        if (depth > 4 || (depth == 0 && strcmp(name, "additional_chat_templates"))) return SAC_OK;
        if (to && mkdir(target, 0777) && errno != EEXIST)
            return sac_fail(j->err, SAC_IO, "%.250s: cannot be made: %s", target, strerror(errno));
        return carry(j, source, to ? target : NULL, depth + 1, n_bytes);
    }
    if (!S_ISREG(st.st_mode) || (depth == 0 && is_of_weights(j, source, name))) return SAC_OK;
    *n_bytes += (uint64_t)st.st_size;
    return to ? copy_file(j, source, target) : SAC_OK;
}

static sac_status carry(sac_quantize_job *j, const char *from, const char *to, int depth, uint64_t *n_bytes) {
    DIR *d = opendir(from);
    if (!d) return sac_fail(j->err, SAC_IO, "%.250s: cannot be read: %s", from, strerror(errno));
    sac_status st = SAC_OK;
    for (struct dirent *e; st == SAC_OK && (e = readdir(d));) st = carry_entry(j, from, to, e->d_name, depth, n_bytes);
    closedir(d);
    return st;
}

static sac_status make_folders(const sac_quantize_job *j, const char *to, const char *name) {
    char path[SAC_WRITE_PATH], part[SAC_WRITE_PATH];
    for (const char *end = name + strcspn(name, "/");; end += 1 + strcspn(end + 1, "/")) {
        snprintf(part, sizeof part, "%.*s", (int)(end - name), name);
        SAC_TRY(sac_path_join(path, sizeof path, to, part, j->err));
        if (mkdir(path, 0777) && errno != EEXIST)
            return sac_fail(j->err, SAC_IO, "%.250s: cannot be made: %s", path, strerror(errno));
        if (!*end) return SAC_OK;
    }
}

/* A tower with files of its own, by the name that the loader finds it by, "vision_tower" or "openai/clip-...". */
static sac_status carry_tower(sac_quantize_job *j, const char *to, uint64_t *n_bytes) {
    char from[SAC_WRITE_PATH], target[SAC_WRITE_PATH];
    const char *name;
    SAC_TRY(sac_load_find_tower(&name, j->in, j->config_json, j->err));
    if (!name || name[strspn(name, "./")] == 0) return SAC_OK; /* the folder itself has been carried */
    SAC_TRY(sac_path_join(from, sizeof from, j->in, name, j->err));
    if (to) SAC_TRY(make_folders(j, to, name));
    if (to) SAC_TRY(sac_path_join(target, sizeof target, to, name, j->err));
    return carry(j, from, to ? target : NULL, 1, n_bytes);
}

sac_status sac_quantize_carry_over(sac_quantize_job *j, const char *to, uint64_t *n_bytes) {
    SAC_TRY(carry(j, j->in, to, 0, n_bytes));
    return carry_tower(j, to, n_bytes);
}
