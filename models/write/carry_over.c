/* carry_over.c - what is in a folder besides config.json and the weights: tokenizer, templates, processors, licences. Other
 * copies of the weights (pytorch_model.bin, consolidated.safetensors, GGUF) are not. */
#define _GNU_SOURCE
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

/* Folders that Saccade or transformers reads something from. */
static bool is_read(const sac_quantize_job *j, const char *name) {
    const char *tower = json_string_value(json_object_get(j->config_json, "mm_vision_tower"));
    return !strcmp(name, "additional_chat_templates") || !strcmp(name, "vision_tower") ||
           (tower && !strcmp(name, tower));
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
        if (depth > 4 || (depth == 0 && !is_read(j, name))) return SAC_OK;
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

sac_status sac_quantize_carry_over(sac_quantize_job *j, const char *to, uint64_t *n_bytes) {
    return carry(j, j->in, to, 0, n_bytes);
}
