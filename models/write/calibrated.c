#define _GNU_SOURCE
#include "calibrated.h"

#include "safetensors.h"
#include "tensor_table.h"

#include <stdio.h>
#include <unistd.h>

#define PATH_BYTES 4200 /* a folder's name, which sac_quantize has checked, and a file's */

sac_status sac_calibrated_write(const char *path, const sac_calibrated_tensor *tensors, int n, sac_error *err) {
    sac_out_shard s = {0};
    sac_status st = SAC_OK;
    for (int i = 0; i < n && st == SAC_OK; i++) {
        const sac_calibrated_tensor *t = &tensors[i];
        sac_out_part p = {.dtype = t->cols ? "F32" : "U8", .element_bytes = t->cols ? 4 : 1, .n_bytes = t->n_bytes,
                          .source = SAC_PART_MEMORY, .memory = t->data, .n_dims = t->cols ? 2 : 1};
        p.dim[0] = t->cols ? (int64_t)(t->n_bytes / 4) / t->cols : (int64_t)t->n_bytes;
        p.dim[1] = t->cols;
        st = sac_shard_add(&s, &p, t->name, err);
    }
    if (st == SAC_OK) st = sac_shard_lay_out(&s, err);
    if (st == SAC_OK) st = sac_shard_write(&s, path, NULL, NULL, err);
    sac_shard_free(&s);
    return st;
}

sac_status sac_calibrated_none(const char *first, sac_error *err) {
    return sac_fail(err, SAC_UNSUPPORTED, "no matrix is read where the files have it: nothing is calibrated (%.200s)", first);
}

static const sac_checkpoint_tensor *find_made(const sac_checkpoint *files, const sac_out_part *p) {
    const bool is_rounded = p->source == SAC_PART_ROUNDED;
    char name[SAC_TENSOR_NAME_BYTES + 16];
    if (!is_rounded && p->source != SAC_PART_COPY) return NULL;
    const char *what = !is_rounded ? "whole" : p->rounded.part == SAC_ROW_CODES ? "codes" : "scales";
    snprintf(name, sizeof name, "%s.%s", is_rounded ? p->rounded.from->name : p->copied->name, what);
    return sac_checkpoint_find(files, name);
}

static void path_of(char path[PATH_BYTES], const char *folder, int layer) {
    snprintf(path, PATH_BYTES, "%s/" SAC_CALIBRATED_NAME, folder, layer);
}

static sac_status open_layers(sac_checkpoint *files, const sac_calibration_job *job, sac_error *err) {
    char path[PATH_BYTES];
    for (int i = 0; i < job->n_layers; i++) {
        path_of(path, job->folder, i);
        SAC_TRY(sac_checkpoint_add_file(files, path, err));
        const sac_file_map *map = &files->files[i].map;
        const sac_status st = sac_safetensors_parse(files, i, map->data, map->n_bytes, NULL, err);
        if (st != SAC_OK) return sac_fail_prefix(err, st, "%s", path);
    }
    return sac_checkpoint_seal(files, err);
}

sac_status sac_calibrated_take(sac_checkpoint *files, const sac_calibration_job *job, sac_out_shard *shards, int n_shards, sac_error *err) {
    SAC_TRY(open_layers(files, job, err));
    for (int i = 0; i < n_shards; i++)
        for (int k = 0; k < shards[i].n; k++) {
            sac_out_part *p = &shards[i].parts[k];
            p->made = find_made(files, p);
            if (p->made && p->made->n_bytes != p->n_bytes)
                return sac_fail(err, SAC_BAD_FILE, "%.200s: %.100s has %zu bytes, expected %llu: remove the folder", job->folder,
                                p->made->name, p->made->n_bytes, (unsigned long long)p->n_bytes);
        }
    return SAC_OK;
}

void sac_calibrated_remove(const char *folder, int n_layers) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, SAC_CALIBRATED_ROWS);
    unlink(path);
    for (int i = 0; i < n_layers; i++) {
        path_of(path, folder, i);
        unlink(path);
    }
}
