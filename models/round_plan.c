#include "round_plan.h"

#include <stdlib.h>

/* Rows that stand for the same names under different flags. */
static bool is_meant(const sac_model_config *c, const sac_spec_tensor *row) {
    if (!row->when) return true;
    if (strcmp(row->when, "post_norms") == 0) return c->post_norms;
    return strcmp(row->when, "pre_norms") != 0 || !c->no_pre_norms;
}

static bool is_of_layer(const sac_spec_tensor *row) {
    return strncmp(row->slot, "layer.", 6) == 0;
}

static bool is_of_expert(const sac_spec_tensor *row) {
    return strncmp(row->slot, "expert.", 7) == 0;
}

/* Whose scores choose, and the gates of linear attention, a number a head each: in full bits, as in everybody's files. And what is
 * read otherwise than it lies (bind_latent.c). */
static bool stays_whole(const sac_spec_tensor *row) {
    return row->spread || strcmp(row->slot, "layer.router") == 0 || strcmp(row->slot, "layer.shared_router") == 0 ||
           strcmp(row->slot, "layer.linear.a") == 0 ||
           strcmp(row->slot, "layer.linear.b") == 0;
}

static bool is_text(const sac_spec_tensor *row) {
    return is_of_layer(row) || is_of_expert(row) || !strcmp(row->slot, "embed") || !strcmp(row->slot, "head") ||
           !strcmp(row->slot, "final_norm");
}

static bool is_float(const sac_checkpoint_tensor *t) {
    return t->dtype == SAC_DTYPE_F32 || t->dtype == SAC_DTYPE_F16 || t->dtype == SAC_DTYPE_BF16;
}

static sac_status add(sac_round_plan *p, const sac_plan_entry *e, sac_error *err) {
    if (p->n == p->capacity) {
        int capacity = p->capacity ? 2 * p->capacity : 256;
        sac_plan_entry *grown = realloc(p->entries, (size_t)capacity * sizeof *grown);
        if (!grown) return sac_fail_no_memory(err);
        p->entries = grown;
        p->capacity = capacity;
    }
    p->entries[p->n++] = *e;
    return SAC_OK;
}

/* A tensor that holds several matrices is rounded as one. */
static bool is_listed(const sac_round_plan *p, const sac_checkpoint_tensor *t) {
    for (int i = p->n - 1; i >= 0; i--)
        if (p->entries[i].from == t) return true;
    return false;
}

/* which: the layer, or of an expert's matrix its number among those of all layers. */
static sac_status find(sac_round_plan *p, const sac_tensor_table *table, const sac_spec_tensor *row, int which,
                       const sac_checkpoint *checkpoint, bool gguf, sac_error *err) {
    char name[SAC_TENSOR_NAME_BYTES];
    const int n_each = is_of_expert(row) ? table->n_experts : 1;
    sac_plan_entry e = {.row = row, .layer = which / n_each};
    e.from = sac_tensor_table_find(table, row, checkpoint, gguf, which, name);
    if (!e.from || ((row->within.n || row->spread) && is_listed(p, e.from))) return SAC_OK;
    if (!sac_tensor_table_name(table, row, true, which, 0, name)) name[0] = 0;
    snprintf(e.gguf, sizeof e.gguf, "%.90s", name);
    e.is_matrix = row->shape.n == 2; /* a convolution is none */
    if (!is_float(e.from))
        return sac_fail(err, SAC_UNSUPPORTED,
                        "tensor %.150s is %s, quantised already: give the original, in 16 or 32 bits",
                        e.from->name, e.from->dtype_name);
    return add(p, &e, err);
}

static sac_status find_all(sac_round_plan *p, const sac_model_config *c, const sac_tensor_table *table,
                           const sac_checkpoint *checkpoint, bool gguf, sac_error *err) {
    for (int i = 0; i < table->n_specs; i++)
        for (int k = 0; k < table->specs[i]->n_tensors; k++) {
            const sac_spec_tensor *row = &table->specs[i]->tensors[k];
            if (!is_text(row) || sac_tensor_table_row(table, row->slot) != row || !is_meant(c, row)) continue;
            const int n_layers = is_of_layer(row) ? c->decoder.n_layers : 1;
            const int n = is_of_expert(row) ? c->decoder.n_layers * c->decoder.experts.n : n_layers;
            for (int which = 0; which < n; which++) SAC_TRY(find(p, table, row, which, checkpoint, gguf, err));
        }
    return SAC_OK;
}

static void choose(sac_round_plan *p, const sac_scheme *s, const sac_model_config *c) {
    const sac_decoder_config *d = &c->decoder;
    for (int i = 0; i < p->n; i++) p->has_head |= strcmp(p->entries[i].row->slot, "head") == 0;
    const sac_scheme_model model = {d->n_layers, p->has_head, d->n_layers == 80 && d->n_heads != d->n_kv_heads};
    for (int i = 0; i < p->n; i++) {
        sac_plan_entry *e = &p->entries[i];
        sac_rounded r;
        sac_rounded_of(&r, e->from);
        if (!e->is_matrix || stays_whole(e->row)) continue;
        e->is_rounded = s->is_gguf || is_of_layer(e->row) || is_of_expert(e->row);
        if (s->is_gguf)
            e->type = sac_scheme_block_type(s, &model, e->gguf, e->layer, r.cols);
        else if (e->is_rounded && !sac_scheme_takes_rows(s, r.cols)) {
            e->is_rounded = false;
            if (p->n_kept++ == 0) p->first_kept = e;
        }
        p->n_rounded += e->is_rounded;
    }
}

/* Something is rounded, or why nothing is. */
static sac_status check_any(const sac_round_plan *p, const sac_scheme *s, sac_error *err) {
    if (p->n_rounded) return SAC_OK;
    if (!p->n_kept)
        return sac_fail(err, SAC_UNSUPPORTED, "it has no matrix that is rounded to %s", s->name);
    sac_rounded r;
    sac_rounded_of(&r, p->first_kept->from);
    if (!s->group || r.cols % 8)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "no matrix of its layers can be rounded to %s: rows of %lld elements (%.100s) are no multiple of 8; "
                        "int8 and fp8 take any",
                        s->name, (long long)r.cols, p->first_kept->from->name);
    return sac_fail(err, SAC_UNSUPPORTED,
                    "no matrix of its layers can be rounded to %s: rows of %lld elements (%.100s) are no multiple of the "
                    "group of %lld; give a smaller one, %s:g=N",
                    s->name, (long long)r.cols, p->first_kept->from->name, (long long)s->group, s->name);
}

/* Where a file has all of a layer's in one tensor, they are not among the tensors by name. */
static sac_status check_experts(const sac_round_plan *p, const sac_model_config *c, sac_error *err) {
    size_t n = 0;
    for (int i = 0; i < p->n; i++) n += is_of_expert(p->entries[i].row) ? 1 : 0;
    if (n == 3 * sac_decoder_n_experts(&c->decoder)) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "experts of a layer in one tensor are not rounded in a file so far; --weights rounds them while "
                                          "the model is loaded");
}

sac_status sac_round_plan_open(sac_round_plan *p, const sac_scheme *s, const sac_model_config *c,
                               const sac_tensor_table *table, const sac_checkpoint *checkpoint, bool gguf,
                               sac_error *err) {
    *p = (sac_round_plan){0};
    if (c->decoder.experts.n && s->is_gguf)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "a model with %d experts a layer is not rounded to %s so far; w4a16, w8a16, int8 and fp8 are formats for it",
                        c->decoder.experts.n, s->name);
    SAC_TRY(find_all(p, c, table, checkpoint, gguf, err));
    SAC_TRY(check_experts(p, c, err));
    choose(p, s, c);
    return check_any(p, s, err);
}

void sac_round_plan_close(sac_round_plan *p) {
    free(p->entries);
    *p = (sac_round_plan){0};
}

sac_rounded sac_plan_part(const sac_scheme *s, const sac_plan_entry *e, sac_row_part part) {
    sac_rounded r;
    sac_rounded_of(&r, e->from);
    r.part = part;
    r.code = (sac_code_format){s->type, (sac_dtype)e->from->dtype, s->group};
    return r;
}
