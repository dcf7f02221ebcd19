/* columns.c - for GGUF's blocks: how much each column of a matrix meets, as sums of x^2 over all rows of all prompts. */
#include "observer.h"
#include "prompts.h"

#include <stdlib.h>
#include <string.h>

static sac_status add(sac_observer *o, const sac_watched *w, sac_mat x, const sac_stream *stream) {
    sac_calibration *c = o->ctx;
    (void)stream;
    float *sums = c->sums[w->tag];
    if (!sums) sums = c->sums[w->tag] = calloc((size_t)w->cols, sizeof *sums);
    if (!sums) return SAC_NO_MEMORY;
    for (int64_t r = 0; r < x.rows; r++) {
        const float *row = sac_mat_row_f32(x, r);
        for (int64_t i = 0; i < w->cols; i++) sums[i] += row[i] * row[i];
    }
    return SAC_OK;
}

static sac_status watch_all(sac_calibration *c, sac_observer *o, sac_error *err) {
    const sac_loaded_model *m = &c->model->loaded;
    c->n_sums = m->n_tensors;
    c->sums = calloc((size_t)m->n_tensors + 1, sizeof *c->sums);
    o->watched = calloc((size_t)m->n_tensors + 1, sizeof *o->watched);
    if (!c->sums || !o->watched) return sac_fail_no_memory(err);
    for (int i = 0; i < m->n_tensors; i++) {
        const sac_tensor *t = &m->tensors[i].tensor;
        if (!t->data || t->n_dims != 2 || t->dim[0] < 1) continue;
        o->watched[o->n++] = (sac_watched){.data = t->data,
                                           .n_bytes = m->tensors[i].n_bytes,
                                           .row_bytes = m->tensors[i].n_bytes / (size_t)t->dim[0],
                                           .rows = t->dim[0],
                                           .cols = t->dim[1],
                                           .tag = i};
    }
    sac_observer_sort(o);
    return SAC_OK;
}

sac_status sac_calibration_columns(void *ctx, sac_error *err) {
    sac_calibration *c = ctx;
    sac_observer o = {.met = add, .ctx = c};
    if (c->sums) return SAC_OK;
    sac_status st = watch_all(c, &o, err);
    sac_observer_begin(&o, &c->model->ops);
    for (size_t i = 0; i < c->n && st == SAC_OK; i++) {
        sac_calibration_tell(c, "calibrate", (int64_t)i, (int64_t)c->n);
        st = sac_calibration_run(c, i, err);
    }
    sac_observer_end(&o, &c->model->ops);
    free(o.watched);
    return st;
}

const float *sac_calibration_column_sums(void *ctx, const char *name, int64_t n) {
    sac_calibration *c = ctx;
    const sac_tensor_entry *t = sac_calibration_tensor(c, name);
    const bool is_it = t && c->sums && t->tensor.dim[1] == n;
    const float *sums = is_it ? c->sums[t - c->model->loaded.tensors] : NULL;
    if (sums)
        c->report.n_calibrated++;
    else
        sac_calibration_note_unseen(c, name);
    return sums;
}

void sac_calibration_free_columns(sac_calibration *c) {
    for (int i = 0; c->sums && i < c->n_sums; i++) free(c->sums[i]);
    free(c->sums);
    c->sums = NULL;
}
