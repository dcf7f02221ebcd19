/* calibrate_layers.c - a folder, layer by layer: gather, round, run again with what is left; and where an interrupted run was. */
#include "fold.h"

#include "safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096

void sac_calibration_plan_layers(void *ctx, const sac_calibration_job *job, sac_calibration_plan *plan) {
    sac_calibration *c = ctx;
    const sac_calibration_report report = c->report; /* nothing is calibrated here */
    sac_error err;
    *plan = (sac_calibration_plan){.n_prompts = (int64_t)c->n, .n_rows = sac_calibration_n_rows(c)};
    const uint64_t rows = (uint64_t)(plan->n_rows * c->hidden) * sizeof(float);
    for (int i = 0; job && i < job->n_layers; i++) {
        sac_layer_job l;
        uint64_t layer = 0;
        if (sac_layer_open(&l, c, job, i, &err) == SAC_OK) layer = sac_layer_bytes(&l);
        for (int m = 0; m < l.n_matrices; m++) {
            const sac_rounded r = sac_plan_part(job->scheme, l.matrices[m].entry, SAC_ROW_CODES);
            plan->disk_bytes += (uint64_t)r.rows * sac_rounded_row_bytes(&r);
        }
        sac_layer_close(&l);
        plan->memory_bytes = layer > plan->memory_bytes ? layer : plan->memory_bytes;
    }
    plan->memory_bytes += rows;
    if (job) plan->disk_bytes += 2 * rows; /* the old ones are there until the new ones are */
    c->report = report;
}

/* ---------------------------------------------------------------- where it is */

static sac_status path_of(char path[PATH_BYTES], const sac_calibration_job *job, const char *name, sac_error *err) {
    if (snprintf(path, PATH_BYTES, "%s/%s", job->folder, name) < PATH_BYTES) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "%.200s: the name is too long", job->folder);
}

/* What an interrupted run left: c->layer and c->rows. */
static sac_status take_up(sac_calibration *c, const sac_calibration_job *job, sac_error *err) {
    char path[PATH_BYTES];
    int layer = 0;
    sac_checkpoint rows = {0};
    c->layer = 0;
    SAC_TRY(path_of(path, job, SAC_CALIBRATED_ROWS, err));
    if (!sac_file_exists(path)) return SAC_OK;
    sac_status st = sac_safetensors_open_file(&rows, path, err);
    const sac_checkpoint_tensor *t = st == SAC_OK && rows.n_tensors == 1 ? &rows.tensors[0] : NULL;
    const size_t n_bytes = (size_t)(sac_calibration_n_rows(c) * c->hidden) * sizeof(float);
    const bool is_it = t && t->dtype == SAC_DTYPE_F32 && sscanf(t->name, "layer.%d", &layer) == 1 && layer > 0 &&
                       (layer == job->n_layers || (layer < job->n_layers && t->n_bytes == n_bytes));
    if (st == SAC_OK && !is_it) st = sac_fail(err, SAC_BAD_FILE, "%.250s: not of this calibration; remove the folder", path);
    if (is_it) c->layer = layer;
    if (is_it && layer < job->n_layers) memcpy(c->rows, t->data, n_bytes);
    sac_checkpoint_free(&rows);
    return st;
}

/* What the next layer meets; behind the last one a row tells that there is none. */
static sac_status keep_rows(const sac_calibration *c, const sac_calibration_job *job, int next, sac_error *err) {
    char path[PATH_BYTES];
    const int64_t n = next < job->n_layers ? sac_calibration_n_rows(c) : 1;
    sac_calibrated_tensor t = {.data = c->rows, .n_bytes = (size_t)(n * c->hidden) * sizeof(float), .cols = c->hidden};
    snprintf(t.name, sizeof t.name, "layer.%d", next);
    SAC_TRY(path_of(path, job, SAC_CALIBRATED_ROWS, err));
    return sac_calibrated_write(path, &t, 1, err);
}

static sac_calibrated_tensor *add(sac_calibrated_tensor *t, const char *name, const char *what, const void *data, size_t n_bytes) {
    *t = (sac_calibrated_tensor){.data = data, .n_bytes = n_bytes};
    snprintf(t->name, sizeof t->name, "%.500s.%s", name, what);
    return t + 1;
}

static sac_status keep_layer(const sac_layer_job *l, sac_error *err) {
    char path[PATH_BYTES], name[40];
    sac_calibrated_tensor *tensors = calloc(2 * (size_t)l->n_matrices + SAC_COUNT(l->wholes) + 1, sizeof *tensors), *end = tensors;
    if (!tensors) return sac_fail_no_memory(err);
    for (int i = 0; i < l->n_matrices; i++) {
        const sac_layer_matrix *m = &l->matrices[i];
        if (!m->w) continue;
        end = add(end, m->entry->from->name, "codes", m->codes, m->codes_bytes);
        end = add(end, m->entry->from->name, "scales", m->scales, m->scales_bytes);
    }
    for (int i = 0; i < l->n_wholes; i++)
        end = add(end, l->wholes[i].from->name, "whole", l->wholes[i].bytes, l->wholes[i].from->n_bytes);
    snprintf(name, sizeof name, SAC_CALIBRATED_NAME, l->layer);
    sac_status st = path_of(path, l->job, name, err);
    if (st == SAC_OK) st = sac_calibrated_write(path, tensors, (int)(end - tensors), err);
    free(tensors);
    return st;
}

/* ---------------------------------------------------------------- a layer */

static sac_status run_all(sac_layer_job *l, bool keeps, int pass, sac_error *err) {
    sac_calibration *c = l->c;
    sac_status st = SAC_OK;
    sac_observer_begin(&l->observer, &c->model->ops);
    for (size_t i = 0; i < c->n && st == SAC_OK; i++) {
        sac_calibration_tell(c, "calibrate", (2 * (int64_t)l->layer + pass) * (int64_t)c->n + (int64_t)i,
                             2 * (int64_t)l->job->n_layers * (int64_t)c->n);
        st = sac_calibration_run_layer(c, i, l->layer, keeps ? c->rows + c->first[i] * c->hidden : NULL, err);
    }
    sac_observer_end(&l->observer, &c->model->ops);
    return st;
}

static sac_status gather_and_round(sac_layer_job *l, sac_error *err) {
    for (l->first = 0; l->first < l->n_inputs; l->first = l->end) {
        l->end = sac_layer_batch(l, l->first);
        for (int i = l->first; i < l->end; i++) SAC_TRY(sac_input_sums_begin(&l->inputs[i].sums, l->inputs[i].cols, err));
        SAC_TRY(run_all(l, false, 0, err));
        for (int i = l->first; i < l->end; i++) SAC_TRY(sac_layer_factor(l, i, err));
        for (int i = l->first; i < l->end; i++) SAC_TRY(sac_layer_scale(l, i, err)); /* which may divide rows of any of them */
        for (int i = l->first; i < l->end; i++) SAC_TRY(sac_layer_round(l, i, err));
    }
    return SAC_OK;
}

static sac_status calibrate(sac_layer_job *l, sac_error *err) {
    SAC_TRY(gather_and_round(l, err));
    l->observer.met = NULL;
    if (l->layer + 1 < l->job->n_layers) SAC_TRY(run_all(l, true, 1, err));
    SAC_TRY(keep_layer(l, err));
    return keep_rows(l->c, l->job, l->layer + 1, err);
}

sac_status sac_calibration_layers(void *ctx, const sac_calibration_job *job, sac_error *err) {
    sac_calibration *c = ctx;
    SAC_TRY(take_up(c, job, err));
    for (; c->layer < job->n_layers; c->layer++) {
        sac_layer_job l;
        sac_status st = sac_layer_open(&l, c, job, c->layer, err);
        if (st == SAC_OK) st = calibrate(&l, err);
        sac_layer_close(&l);
        SAC_TRY(st);
    }
    return SAC_OK;
}
