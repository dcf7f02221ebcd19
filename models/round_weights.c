#include "round_weights.h"

#include "model_load.h"

#include <stdio.h>
#include <stdlib.h>

static sac_status round_part(sac_checkpoint *c, const sac_rounded *r, sac_pool *pool, sac_checkpoint_tensor *out,
                             sac_error *err) {
    out->n_bytes = (size_t)r->rows * sac_rounded_row_bytes(r);
    void *bytes = sac_checkpoint_own(c, out->n_bytes);
    if (!bytes)
        return sac_fail(err, SAC_NO_MEMORY, "no memory for tensor %.150s, rounded to %zu bytes", r->from->name,
                        out->n_bytes);
    out->data = bytes;
    out->n_dims = 2;
    out->dim[0] = r->rows;
    return sac_round_rows(r, 0, r->rows, bytes, pool, err);
}

static void set_type(sac_checkpoint_tensor *t, sac_dtype type, int64_t cols) {
    t->dtype = type;
    t->dtype_name = sac_dtype_name(type);
    t->dim[1] = cols;
}

static sac_status add_scales(sac_checkpoint *c, const sac_scheme *s, const sac_plan_entry *e,
                             sac_checkpoint_tensor *scales, sac_pool *pool, sac_error *err) {
    const sac_rounded r = sac_plan_part(s, e, SAC_ROW_SCALES);
    SAC_TRY(round_part(c, &r, pool, scales, err));
    set_type(scales, r.code.scale_type, sac_code_groups(&r.code, r.cols));
    return SAC_OK;
}

/* One matrix; *scales, without a name, where the scheme has them apart. */
static sac_status round_one(sac_checkpoint *c, const sac_scheme *s, const sac_plan_entry *e, sac_pool *pool,
                            sac_checkpoint_tensor *scales, sac_error *err) {
    sac_checkpoint_tensor out = *e->from;
    *scales = (sac_checkpoint_tensor){.name = e->from->name};
    sac_rounded r = sac_plan_part(s, e, s->is_gguf ? SAC_ROW_BLOCKS : SAC_ROW_CODES);
    r.type = e->type;
    if (s->is_gguf && e->type == (sac_dtype)e->from->dtype) return SAC_OK; /* as it is */
    SAC_TRY(round_part(c, &r, pool, &out, err));
    set_type(&out, s->is_gguf ? e->type : s->type, r.cols);
    if (!s->is_gguf) SAC_TRY(add_scales(c, s, e, scales, pool, err));
    sac_let_go(e->from, 0, e->from->n_bytes);
    c->tensors[e->from - c->tensors] = out;
    return SAC_OK;
}

static sac_status round_all(sac_checkpoint *c, const sac_scheme *s, const sac_round_plan *p, sac_pool *pool,
                            sac_load_progress progress, void *ctx, sac_error *err) {
    sac_checkpoint_tensor *scales = calloc((size_t)p->n + 1, sizeof *scales);
    if (!scales) return sac_fail_no_memory(err);
    sac_status st = SAC_OK;
    for (int i = 0; i < p->n && st == SAC_OK; i++) {
        if (progress) progress(ctx, i, p->n);
        if (p->entries[i].is_rounded) st = round_one(c, s, &p->entries[i], pool, &scales[i], err);
    }
    for (int i = 0; i < p->n && st == SAC_OK; i++) {
        char name[SAC_TENSOR_NAME_BYTES + 8];
        if (!scales[i].data) continue;
        snprintf(name, sizeof name, "%.*s_scale", (int)SAC_TENSOR_NAME_BYTES, scales[i].name);
        st = sac_checkpoint_add(c, &scales[i], name, strlen(name), err);
    }
    free(scales);
    return st == SAC_OK ? sac_checkpoint_seal(c, err) : st;
}

sac_status sac_round_weights(sac_checkpoint *c, const sac_scheme *s, const sac_model_config *config, bool gguf,
                             sac_pool *pool, sac_load_progress progress, void *progress_ctx,
                             sac_unrounded *unrounded, json_t **quantization, sac_error *err) {
    sac_tensor_table table;
    sac_round_plan plan = {0};
    *quantization = NULL;
    sac_status st = sac_tensor_table_init(&table, config, err);
    table.gguf = gguf;
    if (st == SAC_OK) st = sac_round_plan_open(&plan, s, config, &table, c, gguf, err);
    *unrounded = (sac_unrounded){.n = plan.n_kept};
    if (plan.n_kept)
        snprintf(unrounded->first, sizeof unrounded->first, "%.120s", plan.first_kept->from->name);
    if (st == SAC_OK) st = round_all(c, s, &plan, pool, progress, progress_ctx, err);
    if (st == SAC_OK && !s->is_gguf) {
        *quantization = sac_scheme_config(s, NULL, 0);
        if (!*quantization) st = sac_fail_no_memory(err);
    }
    sac_round_plan_close(&plan);
    return st;
}

sac_status sac_load_round_weights(sac_load_context *l, const json_t **quantization, bool gguf) {
    const sac_load_options *o = l->options;
    sac_scheme s;
    if (!o->weights) return SAC_OK;
    sac_status st = sac_scheme_parse(&s, o->weights, l->err);
    if (st != SAC_OK) return sac_fail_prefix(l->err, st, "--weights");
    if (*quantization && !json_is_null(*quantization))
        return sac_fail(l->err, SAC_UNSUPPORTED,
                        "--weights %s: %.200s is quantised already: give the original, in 16 or 32 bits",
                        o->weights, l->path);
    st = sac_round_weights(&l->files->weights, &s, &l->config, gguf, o->pool, o->progress, o->progress_ctx,
                           &l->m->unrounded, &l->files->quantization, l->err);
    *quantization = l->files->quantization;
    return st == SAC_OK ? st : sac_fail_prefix(l->err, st, "--weights %s", o->weights);
}
