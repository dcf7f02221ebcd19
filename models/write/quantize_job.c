#define _GNU_SOURCE
#include "quantize_job.h"

#include "model_load.h"
#include "safetensors.h"

#include <saccade/saccade.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

bool sac_folder_is_empty(const char *path, const char *but) {
    DIR *d = opendir(path);
    if (!d) return false;
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && (!but || strcmp(e->d_name, but));
    closedir(d);
    return n == 0;
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
    p->bytes_free = (uint64_t)fs.f_bavail * fs.f_frsize + j->bytes_reused;
    j->progress.total = p->n_bytes;
    j->progress.done = p->bytes_done;
    if (j->options->planned) j->options->planned(j->options->ctx, p);
    const uint64_t needed = p->n_bytes - p->bytes_done + p->calibration.disk_bytes;
    if (needed <= p->bytes_free) return SAC_OK;
    return sac_fail(j->err, SAC_IO, "%.200s: %.2f GB are to be written, and %.2f GB are free on that disk", j->out,
                    (double)needed / 1e9, (double)p->bytes_free / 1e9);
}

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

/* What the loader makes of config.json, which itself is to be written as it is. */
static sac_status read_config(sac_quantize_job *j) {
    json_t *copy = json_deep_copy(j->config_json);
    if (!copy) return sac_fail_no_memory(j->err);
    sac_status st = sac_load_adopt_tower_config(j->in, copy, j->err);
    if (st == SAC_OK) {
        st = sac_model_config_read(&j->config, copy, j->err);
        if (st != SAC_OK) sac_fail_prefix(j->err, st, "%s/config.json", j->in);
    }
    j->config.tower_name = NULL; /* was the copy's */
    json_decref(copy);
    return st;
}

sac_status sac_quantize_open_folder(sac_quantize_job *j) {
    SAC_TRY(sac_load_json(&j->config_json, j->in, "config.json", j->err));
    if (!j->config_json) return sac_fail(j->err, SAC_NOT_FOUND, "no config.json in %.250s", j->in);
    SAC_TRY(check_config(j));
    SAC_TRY(read_config(j));
    SAC_TRY(sac_safetensors_open_folder(&j->weights, j->in, j->err));
    SAC_TRY(sac_tensor_table_init(&j->table, &j->config, j->err));
    sac_status st = sac_round_plan_open(&j->rounds, &j->scheme, &j->config, &j->table, &j->weights, false, j->err);
    if (st != SAC_OK) return sac_fail_prefix(j->err, st, "%s", j->in);
    j->plan.n_rounded = j->rounds.n_rounded;
    j->plan.n_kept = j->rounds.n_kept;
    if (j->rounds.n_kept) snprintf(j->plan.first_kept, sizeof j->plan.first_kept, "%.120s", j->rounds.first_kept->from->name);
    return SAC_OK;
}

sac_status sac_quantize_stamp_begin(const sac_quantize_job *j, sac_sha256 **h) {
    SAC_TRY(sac_sha256_open(h, j->err));
    const char *program = j->options->program ? j->options->program : SAC_VERSION; /* another may round otherwise */
    sac_sha256_update(*h, program, strlen(program) + 1);
    sac_sha256_update(*h, j->options->format, strlen(j->options->format) + 1);
    if (j->options->calibrator) sac_sha256_update(*h, j->options->calibrator->stamp, sizeof j->options->calibrator->stamp);
    for (int i = 0; i < j->weights.n_files; i++) {
        struct stat st = {0};
        (void)stat(j->weights.files[i].path, &st);
        const int64_t stamp[3] = {(int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec, (int64_t)st.st_mtim.tv_nsec};
        sac_sha256_update(*h, stamp, sizeof stamp);
    }
    return SAC_OK;
}

void sac_quantize_stamp_end(sac_sha256 *h, char *text) {
    uint8_t hash[32];
    sac_sha256_finish(h, hash);
    for (int i = 0; i < 32; i++) snprintf(text + 2 * i, 3, "%02x", hash[i]);
}
