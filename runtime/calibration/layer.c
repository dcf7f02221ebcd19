#include "layer.h"

#include "gptq.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 64 }; /* rows of a matrix that its error is told by */
static const double damping = 0.01; /* the paper's */
static const uint64_t room_for_sums = (uint64_t)2 << 30;

/* ---------------------------------------------------------------- what there is */

static sac_inputs_kind kind_of(const char *slot) {
    static const struct {
        const char *slot;
        sac_inputs_kind kind;
    } known[] = {{"layer.q", SAC_INPUTS_ATTENTION}, {"layer.k", SAC_INPUTS_ATTENTION}, {"layer.v", SAC_INPUTS_ATTENTION},
                 {"layer.o", SAC_INPUTS_O},         {"layer.gate", SAC_INPUTS_MLP},    {"layer.up", SAC_INPUTS_MLP},
                 {"layer.down", SAC_INPUTS_DOWN}};
    for (size_t i = 0; i < SAC_COUNT(known); i++)
        if (strcmp(slot, known[i].slot) == 0) return known[i].kind;
    return SAC_INPUTS_OTHER;
}

static int inputs_of(sac_layer_job *l, const sac_layer_matrix *m) {
    const sac_inputs_kind kind = kind_of(m->entry->row->slot);
    for (int i = 0; i < l->n_inputs && kind != SAC_INPUTS_OTHER; i++)
        if (l->inputs[i].kind == kind && l->inputs[i].cols == m->cols) return i;
    l->inputs[l->n_inputs] = (sac_layer_inputs){.kind = kind, .cols = m->cols, .leader = l->n_matrices};
    return l->n_inputs++;
}

/* False where the model has no such tensor. One that is read from a copy (bind_latent.c, bind_linear.c, or where it lies at no
 * aligned place) is watched in vain: no row meets it. */
static bool watch(sac_layer_job *l, const sac_plan_entry *e) {
    const sac_tensor_entry *t = sac_calibration_tensor(l->c, e->from->name);
    if (!t || !t->tensor.data || t->n_bytes != e->from->n_bytes) return false;
    sac_layer_matrix *m = &l->matrices[l->n_matrices];
    const sac_rounded r = sac_plan_part(l->job->scheme, e, SAC_ROW_CODES);
    *m = (sac_layer_matrix){.entry = e, .format = r.code, .rows = r.rows, .cols = r.cols};
    m->inputs = inputs_of(l, m);
    l->observer.watched[l->observer.n++] = (sac_watched){.data = t->tensor.data,
                                                         .n_bytes = t->n_bytes,
                                                         .row_bytes = t->n_bytes / (size_t)r.rows,
                                                         .rows = r.rows,
                                                         .cols = r.cols,
                                                         .tag = l->n_matrices};
    l->n_matrices++;
    return true;
}

static sac_status met(sac_observer *o, const sac_watched *w, sac_mat x, const sac_stream *stream) {
    sac_layer_job *l = o->ctx;
    const int i = l->matrices[w->tag].inputs;
    if (i < l->first || i >= l->end || l->inputs[i].leader != w->tag) return SAC_OK;
    return sac_input_sums_add(&l->inputs[i].sums, &o->real, stream, x);
}

sac_status sac_layer_open(sac_layer_job *l, sac_calibration *c, const sac_calibration_job *job, int layer, sac_error *err) {
    const sac_round_plan *p = job->rounds;
    *l = (sac_layer_job){.c = c, .job = job, .layer = layer};
    const size_t room = (size_t)p->n + 1;
    l->matrices = calloc(room, sizeof *l->matrices);
    l->inputs = calloc(room, sizeof *l->inputs);
    l->observer = (sac_observer){.watched = calloc(room, sizeof *l->observer.watched), .met = met, .ctx = l};
    if (!l->matrices || !l->inputs || !l->observer.watched) return sac_fail_no_memory(err);
    for (int i = 0; i < p->n; i++) {
        const sac_plan_entry *e = &p->entries[i];
        const bool is_of_it = e->is_rounded && e->layer == layer;
        if (is_of_it && !watch(l, e)) sac_calibration_note_unseen(c, e->from->name);
    }
    sac_observer_sort(&l->observer);
    return SAC_OK;
}

void sac_layer_close(sac_layer_job *l) {
    for (int i = 0; l->matrices && i < l->n_matrices; i++) {
        free(l->matrices[i].w);
        free(l->matrices[i].divisor);
        free(l->matrices[i].codes);
        free(l->matrices[i].scales);
    }
    for (int i = 0; l->inputs && i < l->n_inputs; i++) {
        sac_input_sums_free(&l->inputs[i].sums);
        free(l->inputs[i].s);
    }
    for (int i = 0; i < l->n_wholes; i++) free(l->wholes[i].bytes);
    free(l->matrices);
    free(l->inputs);
    free(l->observer.watched);
    *l = (sac_layer_job){0};
}

static uint64_t sums_bytes(const sac_layer_inputs *i) {
    return (uint64_t)(i->cols * (i->cols + 1)) * sizeof(double);
}

int sac_layer_batch(const sac_layer_job *l, int first) {
    uint64_t n = 0;
    int end = first;
    while (end < l->n_inputs && (end == first || n + sums_bytes(&l->inputs[end]) <= room_for_sums)) n += sums_bytes(&l->inputs[end++]);
    return end;
}

uint64_t sac_layer_bytes(const sac_layer_job *l) {
    uint64_t most = 0, n = 0;
    for (int first = 0, end; first < l->n_inputs; first = end) {
        uint64_t sums = 0;
        end = sac_layer_batch(l, first);
        for (int i = first; i < end; i++) sums += sums_bytes(&l->inputs[i]);
        most = sums > most ? sums : most;
    }
    for (int i = 0; i < l->n_matrices; i++) n += (uint64_t)(l->matrices[i].rows * l->matrices[i].cols) * (sizeof(float) + 1);
    return n + most;
}

/* ---------------------------------------------------------------- rounding */

/* Evenly spaced rows of a matrix. */
static int64_t n_sampled(const sac_layer_matrix *m) {
    return m->rows < SAMPLE ? m->rows : SAMPLE;
}

static void take_sample(const sac_layer_matrix *m, const float *w, float *to) {
    const int64_t n = n_sampled(m);
    for (int64_t i = 0; i < n; i++) memcpy(to + i * m->cols, w + i * m->rows / n * m->cols, (size_t)m->cols * sizeof *to);
}

/* The loss of rounding the sampled rows w to nearest; `d` is scratch. */
static sac_status nearest_loss(const sac_layer_job *l, const sac_layer_matrix *m, const double *u, const float *w, float *d, double *loss,
                               sac_error *err) {
    const int64_t n = n_sampled(m);
    memcpy(d, w, (size_t)(n * m->cols) * sizeof *d);
    for (int64_t i = 0; i < n; i++) sac_code_values(&m->format, d + i * m->cols, m->cols);
    for (int64_t i = 0; i < n * m->cols; i++) d[i] -= w[i];
    return sac_gptq_loss(u, m->cols, d, n, loss, l->job->pool, err);
}

/* Notes how much less the sampled rows lose. */
static sac_status measure(const sac_layer_job *l, const sac_layer_matrix *m, const sac_gptq *g, const float *w, sac_error *err) {
    sac_calibration_report *r = &l->c->report;
    const size_t n = (size_t)(n_sampled(m) * m->cols);
    float *sample = malloc(n * sizeof *sample), *scratch = malloc(n * sizeof *scratch);
    double before, after;
    sac_status st = sample && scratch ? SAC_OK : sac_fail_no_memory(err);
    if (st == SAC_OK) {
        take_sample(m, w, sample);
        st = nearest_loss(l, m, g->u, sample, scratch, &before, err);
    }
    if (st == SAC_OK) st = sac_gptq_round(g, sample, n_sampled(m), NULL, NULL, &after, l->job->pool, err);
    if (st == SAC_OK && before > 0 && after > 0) {
        l->c->log_error += 0.5 * log(after / before);
        r->error = exp(l->c->log_error / ++r->n_calibrated);
    }
    free(sample);
    free(scratch);
    return st;
}

sac_status sac_layer_read(const sac_layer_job *l, const sac_layer_matrix *m, float *w, sac_error *err) {
    const sac_rounded r = sac_plan_part(l->job->scheme, m->entry, SAC_ROW_CODES);
    SAC_TRY(sac_rounded_read(&r, w, err));
    for (int64_t i = 0; m->divisor && i < m->rows; i++)
        for (int64_t k = 0; k < m->cols; k++) w[i * m->cols + k] /= m->divisor[i];
    return SAC_OK;
}

static sac_status round_matrix(const sac_layer_job *l, sac_layer_matrix *m, const sac_gptq *g, sac_error *err) {
    double loss;
    m->codes_bytes = (size_t)m->rows * sac_dtype_row_bytes(m->format.type, m->cols);
    m->scales_bytes = (size_t)m->rows * sac_dtype_row_bytes(m->format.scale_type, sac_code_groups(&m->format, m->cols));
    m->w = malloc((size_t)(m->rows * m->cols) * sizeof *m->w);
    m->codes = malloc(m->codes_bytes);
    m->scales = malloc(m->scales_bytes);
    if (!m->w || !m->codes || !m->scales)
        return sac_fail(err, SAC_NO_MEMORY, "no memory for tensor %.150s while it is rounded", m->entry->from->name);
    SAC_TRY(sac_layer_read(l, m, m->w, err));
    SAC_TRY(measure(l, m, g, m->w, err));
    SAC_TRY(sac_gptq_round(g, m->w, m->rows, m->codes, m->scales, &loss, l->job->pool, err));
    for (int64_t i = 0; m->divisor && i < m->rows; i++) /* the layer is run without divisors */
        for (int64_t k = 0; k < m->cols; k++) m->w[i * m->cols + k] *= m->divisor[i];
    return SAC_OK;
}

/* From here on the layer is run with what codes stand for. */
static void put_in_place(sac_layer_job *l, int matrix) {
    for (int i = 0; i < l->observer.n; i++)
        if (l->observer.watched[i].tag == matrix) l->observer.watched[i].instead = l->matrices[matrix].w;
}

sac_status sac_layer_factor(sac_layer_job *l, int i, sac_error *err) {
    sac_layer_inputs *in = &l->inputs[i];
    if (!in->sums.n_rows) return SAC_OK;
    sac_input_sums_end(&in->sums);
    const sac_status st = sac_gptq_factor(in->sums.h, in->cols, damping, l->job->pool, err);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "%.150s", l->matrices[in->leader].entry->from->name);
}

sac_status sac_layer_round(sac_layer_job *l, int i, sac_error *err) {
    sac_layer_inputs *in = &l->inputs[i];
    sac_status st = SAC_OK;
    for (int k = 0; k < l->n_matrices && st == SAC_OK; k++) {
        sac_layer_matrix *m = &l->matrices[k];
        if (m->inputs != i) continue;
        if (!in->sums.n_rows) {
            sac_calibration_note_unseen(l->c, m->entry->from->name);
            continue;
        }
        const sac_gptq g = {.format = m->format, .u = in->sums.h, .k = m->cols, .s = in->s};
        st = round_matrix(l, m, &g, err);
        put_in_place(l, k);
    }
    sac_input_sums_free(&in->sums);
    return st;
}
