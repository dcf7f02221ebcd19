/* quantize_folder.c - a Hugging Face folder in compressed-tensors' layout. It grows in OUT.part, whose file STATE says of
 * which source and format it is; a finished file of weights there is taken up by a later run. */
#define _GNU_SOURCE
#include "calibrated.h"
#include "out_resume.h"
#include "quantize_job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE "quantize.state"

typedef struct folder_job {
    sac_quantize_job *j;
    sac_out_shard *shards; /* [weights.n_files] */
    bool *done;            /* [weights.n_files]: finished by a run before */
    char part[SAC_WRITE_PATH], state[65];
    int lock; /* OUT.part; -1 while there is none */
    bool has_part, made_part; /* STATE in OUT.part is this run's; so is the folder */
    char *config, *weight_index; /* files' texts */
    sac_checkpoint calibrated;   /* the layers' files in OUT.part */
} folder_job;

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---------------------------------------------------------------- what is in the files */

static const char *upper_name(const char *dtype) {
    static const char *const names[][2] = {
        {"f64", "F64"}, {"f32", "F32"}, {"f16", "F16"}, {"bf16", "BF16"}, {"i64", "I64"}, {"i32", "I32"},
        {"i16", "I16"}, {"i8", "I8"},   {"u8", "U8"},   {"bool", "BOOL"}, {"u16", "U16"}, {"u32", "U32"},
        {"u64", "U64"}, {"f8_e4m3", "F8_E4M3"},         {"f8_e5m2", "F8_E5M2"}};
    for (size_t i = 0; i < SAC_COUNT(names); i++)
        if (strcmp(names[i][0], dtype) == 0) return names[i][1];
    return NULL;
}

static sac_status add_copy(sac_out_shard *s, const sac_checkpoint_tensor *t, sac_error *err) {
    sac_out_part p = {.dtype = upper_name(t->dtype_name), .n_dims = t->n_dims, .n_bytes = t->n_bytes, .copied = t};
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) p.dim[i] = t->dim[i];
    for (int i = 0; i < t->n_dims && t->n_bytes; i++) n *= t->dim[i];
    p.element_bytes = t->n_bytes ? (int)(t->n_bytes / (uint64_t)n) : 1;
    if (!p.dtype)
        return sac_fail(err, SAC_UNSUPPORTED, "tensor %.150s is %s, which cannot be copied", t->name, t->dtype_name);
    return sac_shard_add(s, &p, t->name, err);
}

/* "<module>.weight" + end of name; dims of a matrix, or of a vector where cols is 0. */
static sac_status add_part(sac_out_shard *s, const char *weight, const char *end, sac_out_part *p, int64_t rows,
                           int64_t cols, sac_error *err) {
    char name[SAC_TENSOR_NAME_BYTES + 16];
    snprintf(name, sizeof name, "%s%s", weight, end);
    p->dim[0] = rows, p->dim[1] = cols;
    p->n_dims = cols ? 2 : 1;
    if (p->source == SAC_PART_ROUNDED) p->n_bytes = (uint64_t)p->rounded.rows * sac_rounded_row_bytes(&p->rounded);
    return sac_shard_add(s, p, name, err);
}

/* A matrix as its format has it (packed_weights.c, int8_weights.c, fp8_weights.c read these). */
static sac_status add_rounded(sac_out_shard *s, const sac_scheme *scheme, const sac_plan_entry *e, sac_error *err) {
    sac_out_part codes = {.source = SAC_PART_ROUNDED, .rounded = sac_plan_part(scheme, e, SAC_ROW_CODES)};
    sac_out_part scales = {.source = SAC_PART_ROUNDED, .rounded = sac_plan_part(scheme, e, SAC_ROW_SCALES)};
    const int64_t n = codes.rounded.rows, k = codes.rounded.cols;
    const int in_word = scheme->type == SAC_DTYPE_PACKED_4 ? 8 : scheme->type == SAC_DTYPE_PACKED_8 ? 4 : 0;
    codes.element_bytes = in_word ? 4 : 1;
    codes.dtype = in_word ? "I32" : scheme->type == SAC_DTYPE_FP8 ? "F8_E4M3" : "I8";
    SAC_TRY(add_part(s, e->from->name, in_word ? "_packed" : "", &codes, n, in_word ? k / in_word : k, err));
    scales.dtype = upper_name(e->from->dtype_name);
    scales.element_bytes = sac_dtype_block_bytes(scales.rounded.code.scale_type);
    SAC_TRY(add_part(s, e->from->name, "_scale", &scales, n, sac_code_groups(&scales.rounded.code, k), err));
    if (!in_word) return SAC_OK;
    sac_out_part shape = {.source = SAC_PART_SHAPE, .dtype = "I64", .rounded = codes.rounded, .n_bytes = 16,
                          .element_bytes = 8};
    return add_part(s, e->from->name, "_shape", &shape, 2, 0, err);
}

static const sac_plan_entry *entry_of(const sac_quantize_job *j, const sac_checkpoint_tensor *t) {
    for (int i = 0; i < j->rounds.n; i++)
        if (j->rounds.entries[i].from == t) return &j->rounds.entries[i];
    return NULL;
}

static sac_status lay_out(folder_job *f) {
    sac_quantize_job *j = f->j;
    for (int i = 0; i < j->weights.n_tensors; i++) {
        const sac_checkpoint_tensor *t = &j->weights.tensors[i];
        const sac_plan_entry *e = entry_of(j, t);
        sac_out_shard *s = &f->shards[t->file];
        SAC_TRY(e && e->is_rounded ? add_rounded(s, &j->scheme, e, j->err) : add_copy(s, t, j->err));
        j->plan.weights_before += t->n_bytes;
    }
    for (int i = 0; i < j->weights.n_files; i++) SAC_TRY(sac_shard_lay_out(&f->shards[i], j->err));
    return SAC_OK;
}

/* ---------------------------------------------------------------- config.json */

typedef struct name_list {
    char **items;
    size_t n;
} name_list;

static sac_status list_name(name_list *l, const char *name, sac_error *err) {
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->items[i], name) == 0) return SAC_OK;
    char **grown = realloc(l->items, (l->n + 1) * sizeof *grown);
    if (grown) l->items = grown;
    char *copy = grown ? strdup(name) : NULL;
    if (!copy) return sac_fail_no_memory(err);
    l->items[l->n++] = copy;
    return SAC_OK;
}

/* A matrix that is left alone, by a pattern that holds whatever a library calls what is around it: of a tower or
 * projector its part of the model, of a layer of the decoder the module. */
static sac_status ignore(name_list *l, const char *module, bool is_layer, sac_error *err) {
    char pattern[2 * SAC_TENSOR_NAME_BYTES] = "re:.*";
    size_t used = strlen(pattern);
    const char *layer = is_layer ? strstr(module, "layers.") : NULL;
    while (!layer && (strncmp(module, "model.", 6) == 0 || strncmp(module, "language_model.", 15) == 0))
        module = strchr(module, '.') + 1;
    if (layer) module = layer;
    const size_t n = is_layer ? strlen(module) : strcspn(module, ".");
    for (size_t i = 0; i < n && used + 4 < sizeof pattern; i++) {
        if (module[i] == '.') pattern[used++] = '\\';
        pattern[used++] = module[i];
    }
    snprintf(pattern + used, sizeof pattern - used, "%s", is_layer ? "$" : ".*");
    return list_name(l, strcmp(module, "lm_head") == 0 ? "lm_head" : pattern, err);
}

static sac_status list_ignored(const sac_quantize_job *j, name_list *l) {
    SAC_TRY(list_name(l, "lm_head", j->err));
    for (int i = 0; i < j->weights.n_tensors; i++) {
        const sac_checkpoint_tensor *t = &j->weights.tensors[i];
        const sac_plan_entry *e = entry_of(j, t);
        char module[SAC_TENSOR_NAME_BYTES];
        const size_t n = strlen(t->name);
        if (t->n_dims != 2 || n < 8 || n >= sizeof module || strcmp(t->name + n - 7, ".weight")) continue;
        if (e && (e->is_rounded || strcmp(e->row->slot, "embed") == 0)) continue;
        snprintf(module, sizeof module, "%.*s", (int)(n - 7), t->name);
        SAC_TRY(ignore(l, module, e && strncmp(e->row->slot, "layer.", 6) == 0, j->err));
    }
    return SAC_OK;
}

static sac_status make_config(folder_job *f) {
    sac_quantize_job *j = f->j;
    name_list l = {0};
    sac_status st = list_ignored(j, &l);
    if (st == SAC_OK) {
        json_t *q = sac_scheme_config(&j->scheme, (const char *const *)l.items, l.n);
        if (q && json_object_set_new(j->config_json, "quantization_config", q) == 0)
            f->config = json_dumps(j->config_json, JSON_INDENT(2));
        if (!f->config) st = sac_fail_no_memory(j->err);
    }
    for (size_t i = 0; i < l.n; i++) free(l.items[i]);
    free(l.items);
    return st;
}

/* model.safetensors.index.json, where the source has one. */
static sac_status make_index(folder_job *f) {
    const sac_quantize_job *j = f->j;
    if (j->weights.n_files == 1 && !strcmp(base_name(j->weights.files[0].path), "model.safetensors")) return SAC_OK;
    json_t *map = json_object();
    uint64_t total = 0;
    for (int i = 0; i < j->weights.n_files; i++)
        for (int k = 0; k < f->shards[i].n; k++) {
            json_object_set_new(map, f->shards[i].parts[k].name, json_string(base_name(j->weights.files[i].path)));
            total += f->shards[i].parts[k].n_bytes;
        }
    json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
    f->weight_index = index ? json_dumps(index, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    json_decref(index);
    return f->weight_index ? SAC_OK : sac_fail_no_memory(j->err);
}

/* ---------------------------------------------------------------- the unfinished folder */

/* What a run is, reads and is told, and all heads: a finished file of another run is the same then. */
static sac_status make_state(folder_job *f) {
    sac_sha256 *h;
    SAC_TRY(sac_quantize_stamp_begin(f->j, &h));
    sac_sha256_update(h, f->config, strlen(f->config) + 1);
    for (int i = 0; i < f->j->weights.n_files; i++) sac_sha256_update(h, f->shards[i].header, f->shards[i].header_bytes);
    sac_quantize_stamp_end(h, f->state);
    return SAC_OK;
}

static sac_status write_text(const folder_job *f, const char *name, const char *text) {
    char path[SAC_WRITE_PATH];
    sac_out_file out = {0};
    SAC_TRY(sac_path_join(path, sizeof path, f->part, name, f->j->err));
    sac_status st = sac_out_open(&out, path, &f->j->progress, f->j->err);
    if (st == SAC_OK) st = sac_out_write(&out, text, strlen(text), f->j->err);
    if (st == SAC_OK) st = sac_out_close(&out, f->j->err);
    sac_out_abandon(&out);
    return st;
}

/* Bytes on the disk of what is in OUT.part besides the finished files of weights. */
static uint64_t bytes_to_write_over(const folder_job *f) {
    const sac_quantize_job *j = f->j;
    struct stat st;
    uint64_t n = 0;
    DIR *d = opendir(f->part);
    for (struct dirent *e; d && (e = readdir(d));) {
        bool is_done = false;
        for (int i = 0; i < j->weights.n_files; i++)
            is_done |= f->done[i] && !strcmp(base_name(j->weights.files[i].path), e->d_name);
        if (!is_done && fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            n += (uint64_t)st.st_blocks * 512;
    }
    if (d) closedir(d);
    return n;
}

/* Looks for what a run before has left, and keeps other runs from it. */
static sac_status find_done(folder_job *f) {
    sac_quantize_job *j = f->j;
    char path[SAC_WRITE_PATH];
    char *text = NULL;
    size_t n_bytes;
    SAC_TRY(sac_out_lock(&f->lock, f->part, O_RDONLY | O_DIRECTORY, j->err));
    if (f->lock < 0) return SAC_OK;
    SAC_TRY(sac_path_join(path, sizeof path, f->part, STATE, j->err));
    sac_status st = sac_file_exists(path) ? sac_file_read(&text, &n_bytes, path, 1 << 10, j->err) : SAC_OK;
    const bool is_same = text && strcmp(text, f->state) == 0;
    const bool is_new = !text && sac_folder_is_empty(f->part, STATE ".part");
    free(text);
    SAC_TRY(st);
    if (!is_same && !is_new)
        return sac_out_is_of_another(f->part, j->err);
    if (is_new) unlinkat(f->lock, STATE ".part", 0);
    for (int i = 0; i < j->weights.n_files && is_same; i++) {
        struct stat s;
        SAC_TRY(sac_path_join(path, sizeof path, f->part, base_name(j->weights.files[i].path), j->err));
        f->done[i] = stat(path, &s) == 0 && (uint64_t)s.st_size == f->shards[i].n_bytes;
        if (f->done[i]) j->plan.bytes_done += f->shards[i].n_bytes;
    }
    j->bytes_reused = bytes_to_write_over(f);
    return SAC_OK;
}

static sac_status make_part(folder_job *f) {
    if (f->lock < 0) {
        f->made_part = mkdir(f->part, 0777) == 0;
        if (f->made_part)
            SAC_TRY(sac_out_lock(&f->lock, f->part, O_RDONLY | O_DIRECTORY, f->j->err));
        else if (errno != EEXIST)
            return sac_fail(f->j->err, SAC_IO, "%.250s: cannot be made: %s", f->part, strerror(errno));
        if (f->lock < 0) return sac_fail(f->j->err, SAC_IO, "another run writes %.250s", f->part);
    }
    const uint64_t done = f->j->progress.done;
    f->has_part = true;
    SAC_TRY(write_text(f, STATE, f->state));
    f->j->progress.done = done; /* is no part of what is written for good */
    return SAC_OK;
}

static sac_status finish(const folder_job *f) {
    if (rename(f->part, f->j->out))
        return sac_fail(f->j->err, SAC_IO, "%.200s: whole, but cannot be renamed: %s", f->part, strerror(errno));
    unlinkat(f->lock, STATE, 0); /* only now: without it a later run would not go on with what is there */
    (void)fsync(f->lock);
    sac_sync_folder_of(f->j->out);
    return SAC_OK;
}

/* ---------------------------------------------------------------- calibration */

static sac_calibration_job calibration_of(const folder_job *f) {
    const sac_quantize_job *j = f->j;
    return (sac_calibration_job){.scheme = &j->scheme,
                                 .rounds = &j->rounds,
                                 .folder = f->part,
                                 .n_layers = j->config.decoder.n_layers,
                                 .pool = j->pool};
}

/* What the layers' files have nothing for is rounded to nearest, which is no calibration where it is all of it. */
static sac_status check_calibrated(const folder_job *f) {
    const char *first = NULL;
    for (int i = 0; i < f->j->weights.n_files; i++)
        for (int k = 0; k < f->shards[i].n; k++) {
            const sac_out_part *p = &f->shards[i].parts[k];
            if (p->source == SAC_PART_ROUNDED && p->made) return SAC_OK;
            if (p->source == SAC_PART_ROUNDED && !first) first = p->rounded.from->name;
        }
    return first ? sac_calibrated_none(first, f->j->err) : SAC_OK;
}

/* Where a file of weights is still to be written. */
static sac_status calibrate(folder_job *f) {
    const sac_calibrator *c = f->j->options->calibrator;
    bool is_done = true;
    for (int i = 0; i < f->j->weights.n_files; i++) is_done &= f->done[i];
    if (!c || is_done) return SAC_OK;
    const sac_calibration_job job = calibration_of(f);
    SAC_TRY(c->layers(c->ctx, &job, f->j->err));
    SAC_TRY(sac_calibrated_take(&f->calibrated, &job, f->shards, f->j->weights.n_files, f->j->err));
    return check_calibrated(f);
}

/* A run that fails leaves what a later one goes on with: finished files of weights, or layers. Where there is none, nothing. */
static void remove_where_nothing_is_done(const folder_job *f) {
    if (!f->has_part || !sac_folder_is_empty(f->part, STATE)) return;
    unlinkat(f->lock, STATE, 0);
    if (f->made_part) (void)rmdir(f->part);
}

/* ---------------------------------------------------------------- the whole */

static sac_status write_shards(const folder_job *f) {
    const sac_quantize_job *j = f->j;
    char path[SAC_WRITE_PATH];
    for (int i = 0; i < j->weights.n_files; i++) {
        if (f->done[i]) continue;
        SAC_TRY(sac_path_join(path, sizeof path, f->part, base_name(j->weights.files[i].path), j->err));
        SAC_TRY(sac_shard_write(&f->shards[i], path, j->pool, &f->j->progress, j->err));
    }
    return SAC_OK;
}

static sac_status plan_and_write(folder_job *f) {
    sac_quantize_job *j = f->j;
    snprintf(f->part, sizeof f->part, "%s.part", j->out);
    SAC_TRY(lay_out(f));
    SAC_TRY(make_config(f));
    SAC_TRY(make_index(f));
    SAC_TRY(make_state(f));
    SAC_TRY(find_done(f));
    for (int i = 0; i < j->weights.n_files; i++) j->plan.n_bytes += f->shards[i].n_bytes;
    j->plan.n_bytes += strlen(f->config) + (f->weight_index ? strlen(f->weight_index) : 0);
    SAC_TRY(sac_quantize_carry_over(j, NULL, &j->plan.n_bytes));
    if (j->options->calibrator) {
        const sac_calibration_job job = calibration_of(f);
        j->options->calibrator->plan(j->options->calibrator->ctx, &job, &j->plan.calibration);
    }
    SAC_TRY(sac_quantize_begin(j, f->part));
    SAC_TRY(make_part(f));
    SAC_TRY(calibrate(f));
    SAC_TRY(write_shards(f));
    if (j->options->calibrator) sac_calibrated_remove(f->part, j->config.decoder.n_layers);
    SAC_TRY(write_text(f, "config.json", f->config));
    if (f->weight_index) SAC_TRY(write_text(f, "model.safetensors.index.json", f->weight_index));
    uint64_t carried = 0;
    SAC_TRY(sac_quantize_carry_over(j, f->part, &carried));
    return finish(f);
}

sac_status sac_quantize_to_folder(sac_quantize_job *j) {
    folder_job *f = calloc(1, sizeof *f);
    const size_t n = (size_t)j->weights.n_files + 1;
    sac_status st = SAC_OK;
    if (f) {
        f->j = j;
        f->lock = -1;
        f->shards = calloc(n, sizeof *f->shards);
        f->done = calloc(n, sizeof *f->done);
    }
    st = f && f->shards && f->done ? plan_and_write(f) : sac_fail_no_memory(j->err);
    if (st != SAC_OK && f) remove_where_nothing_is_done(f);
    for (size_t i = 0; f && f->shards && i < n; i++) sac_shard_free(&f->shards[i]);
    if (f) {
        if (f->lock >= 0) close(f->lock);
        sac_checkpoint_free(&f->calibrated);
        free(f->shards);
        free(f->done);
        free(f->config);
        free(f->weight_index);
    }
    free(f);
    return st;
}
