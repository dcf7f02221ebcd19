#include "fold.h"

#include "channel_scales.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 32 };              /* rows of each matrix that scales are judged by */
static const double least_gain = 0.99; /* of the loss: what changes little is left as it is */

/* ---------------------------------------------------------------- where divisors may go */

static int find_matrix(const sac_layer_job *l, const char *slot) {
    for (int k = 0; k < l->n_matrices; k++)
        if (strcmp(l->matrices[k].entry->row->slot, slot) == 0) return k;
    return -1;
}

static const sac_plan_entry *find_vector(const sac_layer_job *l, const char *slot) {
    const sac_round_plan *p = l->job->rounds;
    for (int k = 0; k < p->n; k++) {
        const sac_plan_entry *e = &p->entries[k];
        if (e->layer == l->layer && !e->is_matrix && strcmp(e->row->slot, slot) == 0) return e;
    }
    return NULL;
}

/* A matrix of its own, not yet rounded; not one of several in a tensor. */
static sac_layer_matrix *open_matrix(sac_layer_job *l, const char *slot) {
    const int k = find_matrix(l, slot);
    return k < 0 || l->matrices[k].w || l->matrices[k].entry->row->within.n ? NULL : &l->matrices[k];
}

/* Every matrix that reads the norm is among those that are rounded. */
static const sac_plan_entry *norm_of(sac_layer_job *l, sac_inputs_kind kind) {
    static const char *const slots[2][3] = {{"layer.q", "layer.k", "layer.v"}, {"layer.gate", "layer.up", NULL}};
    const bool is_mlp = kind == SAC_INPUTS_MLP;
    const int first = find_matrix(l, slots[is_mlp][0]);
    bool has_all = first >= 0;
    for (int i = 1; has_all && i < 3 && slots[is_mlp][i] && !l->matrices[first].entry->row->within.n; i++)
        has_all = find_matrix(l, slots[is_mlp][i]) >= 0;
    return has_all ? find_vector(l, is_mlp ? "layer.mlp_norm" : "layer.attn_norm") : NULL;
}

/* The matrix whose rows make the inputs, row i of it those of channel i, or of several. */
static sac_layer_matrix *maker_of(sac_layer_job *l, const sac_layer_inputs *in) {
    const sac_decoder_config *d = &l->c->model->loaded.decoder.config;
    sac_layer_matrix *m = open_matrix(l, in->kind == SAC_INPUTS_O ? "layer.v" : "layer.up");
    const int64_t rows = in->kind == SAC_INPUTS_O ? (int64_t)d->n_kv_heads * d->head_dim : in->cols;
    if (in->kind == SAC_INPUTS_O && in->cols != (int64_t)d->n_heads * d->head_dim) return NULL;
    return m && m->rows == rows ? m : NULL;
}

/* Row of the maker that makes channel c. */
static int64_t row_of(const sac_layer_job *l, const sac_layer_inputs *in, int64_t c) {
    const sac_decoder_config *d = &l->c->model->loaded.decoder.config;
    if (in->kind != SAC_INPUTS_O) return c;
    return c / d->head_dim / (d->n_heads / d->n_kv_heads) * d->head_dim + c % d->head_dim;
}

static bool is_foldable(const sac_layer_job *l) {
    const sac_decoder_config *d = &l->c->model->loaded.decoder.config;
    return l->job->scheme->x_rounding == SAC_X_EXACT && !sac_decoder_is_sparse(d, l->layer) && !sac_decoder_is_linear(d, l->layer) &&
           !d->latent.kv_rank;
}

/* ---------------------------------------------------------------- the choice */

/* Mean |x|; where several channels are made by one row, of all of them. */
static double *magnitudes(const sac_layer_job *l, const sac_layer_inputs *in, int64_t n_rows, sac_error *err) {
    double *mean = calloc((size_t)in->cols, sizeof *mean), *of_row = calloc((size_t)in->cols, sizeof *of_row);
    if (!mean || !of_row) sac_fail_no_memory(err);
    const int64_t share = in->cols / n_rows;
    for (int64_t c = 0; mean && of_row && c < in->cols; c++)
        of_row[row_of(l, in, c)] += in->sums.magnitude[c] / (double)(in->sums.n_rows * share);
    for (int64_t c = 0; mean && of_row && c < in->cols; c++) mean[c] = of_row[row_of(l, in, c)];
    if (!of_row) {
        free(mean);
        mean = NULL;
    }
    free(of_row);
    return mean;
}

/* A sample of the rows of all matrices of the inputs, as they are rounded. */
static sac_status take_rows(const sac_layer_job *l, int i, float **out, int64_t *n, sac_error *err) {
    const int64_t cols = l->inputs[i].cols;
    *n = 0;
    *out = malloc((size_t)(l->n_matrices * SAMPLE * cols) * sizeof **out);
    sac_status st = *out ? SAC_OK : sac_fail_no_memory(err);
    for (int k = 0; k < l->n_matrices && st == SAC_OK; k++) {
        const sac_layer_matrix *m = &l->matrices[k];
        float *w = m->inputs == i ? malloc((size_t)(m->rows * cols) * sizeof *w) : NULL;
        if (m->inputs != i) continue;
        st = w ? sac_layer_read(l, m, w, err) : sac_fail_no_memory(err);
        const int64_t sampled = m->rows < SAMPLE ? m->rows : SAMPLE;
        for (int64_t r = 0; r < sampled && st == SAC_OK; r++)
            memcpy(*out + (*n)++ * cols, w + r * m->rows / sampled * cols, (size_t)cols * sizeof *w);
        free(w);
    }
    return st;
}

static sac_status choose(sac_layer_job *l, int i, int64_t n_rows, bool *gains, sac_error *err) {
    sac_layer_inputs *in = &l->inputs[i];
    const sac_gptq g = {.format = l->matrices[in->leader].format, .u = in->sums.h, .k = in->cols};
    sac_channel_choice choice = {0};
    float *rows;
    int64_t n;
    double *mean = magnitudes(l, in, n_rows, err);
    in->s = malloc((size_t)in->cols * sizeof *in->s);
    if (!mean || !in->s) {
        free(mean);
        return sac_fail_no_memory(err);
    }
    sac_status st = take_rows(l, i, &rows, &n, err);
    if (st == SAC_OK) st = sac_channel_scales(&g, mean, rows, n, in->s, &choice, l->job->pool, err);
    *gains = choice.alpha && choice.after < least_gain * choice.before;
    free(rows);
    free(mean);
    return st;
}

/* ---------------------------------------------------------------- what becomes of the others */

static float read_float(const sac_checkpoint_tensor *t, int64_t i) {
    uint16_t h;
    float f;
    if (t->dtype == SAC_DTYPE_F32) {
        memcpy(&f, t->data + 4 * i, 4);
        return f;
    }
    memcpy(&h, t->data + 2 * i, 2);
    return t->dtype == SAC_DTYPE_F16 ? sac_f16_to_f32(h) : sac_bf16_to_f32(h);
}

/* To the tensor's type; *value becomes what stands there. */
static void write_float(int dtype, uint8_t *to, int64_t i, float *value) {
    if (dtype == SAC_DTYPE_F32) {
        memcpy(to + 4 * i, value, 4);
        return;
    }
    const uint16_t h = dtype == SAC_DTYPE_F16 ? sac_f32_to_f16(*value) : sac_f32_to_bf16(*value);
    memcpy(to + 2 * i, &h, 2);
    *value = dtype == SAC_DTYPE_F16 ? sac_f16_to_f32(h) : sac_bf16_to_f32(h);
}

/* Bytes for the vector's other values. */
static uint8_t *add_whole(sac_layer_job *l, const sac_checkpoint_tensor *t) {
    uint8_t *bytes = malloc(t->n_bytes);
    if (bytes) l->wholes[l->n_wholes++] = (sac_layer_whole){t, bytes};
    return bytes;
}

/* The norm divided by s; s becomes what the norm, in its type, was divided by. */
static sac_status fold_into_norm(sac_layer_job *l, sac_layer_inputs *in, const sac_plan_entry *norm, sac_error *err) {
    const sac_checkpoint_tensor *t = norm->from;
    uint8_t *bytes = add_whole(l, t);
    if (!bytes) return sac_fail_no_memory(err);
    const float plus = norm->row->plus_one ? 1 : 0;
    for (int64_t c = 0; c < in->cols; c++) {
        const float was = read_float(t, c) + plus;
        float stored = was / in->s[c] - plus;
        write_float(t->dtype, bytes, c, &stored);
        in->s[c] = was / (stored + plus);
        if (isfinite(in->s[c]) && in->s[c] > 0) continue;
        stored = was - plus; /* a channel of 0, or one that becomes it */
        write_float(t->dtype, bytes, c, &stored);
        in->s[c] = 1;
    }
    return SAC_OK;
}

/* The maker's rows, and its bias. */
static sac_status fold_into_rows(sac_layer_job *l, sac_layer_inputs *in, sac_layer_matrix *maker, sac_error *err) {
    maker->divisor = malloc((size_t)maker->rows * sizeof *maker->divisor);
    if (!maker->divisor) return sac_fail_no_memory(err);
    for (int64_t c = 0; c < in->cols; c++) maker->divisor[row_of(l, in, c)] = in->s[c];
    const sac_plan_entry *bias = in->kind == SAC_INPUTS_O ? find_vector(l, "layer.v_bias") : NULL;
    uint8_t *bytes = bias ? add_whole(l, bias->from) : NULL;
    if (bias && !bytes) return sac_fail_no_memory(err);
    for (int64_t r = 0; bias && r < maker->rows; r++) {
        float b = read_float(bias->from, r) / maker->divisor[r];
        write_float(bias->from->dtype, bytes, r, &b);
    }
    return SAC_OK;
}

sac_status sac_layer_scale(sac_layer_job *l, int i, sac_error *err) {
    sac_layer_inputs *in = &l->inputs[i];
    bool gains = false;
    const bool has_maker = in->kind == SAC_INPUTS_O || in->kind == SAC_INPUTS_DOWN;
    if (!is_foldable(l) || in->kind == SAC_INPUTS_OTHER || !in->sums.n_rows) return SAC_OK;
    sac_layer_matrix *maker = has_maker ? maker_of(l, in) : NULL;
    const sac_plan_entry *norm = has_maker ? NULL : norm_of(l, in->kind);
    if (!maker && !norm) return SAC_OK;
    if (norm && norm->from->n_bytes != sac_dtype_row_bytes((sac_dtype)norm->from->dtype, in->cols)) return SAC_OK;
    l->c->report.n_scalable++;
    SAC_TRY(choose(l, i, maker ? maker->rows : in->cols, &gains, err));
    if (!gains) {
        free(in->s);
        in->s = NULL;
        return SAC_OK;
    }
    l->c->report.n_scaled++;
    return maker ? fold_into_rows(l, in, maker, err) : fold_into_norm(l, in, norm, err);
}
