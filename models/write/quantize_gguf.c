/* quantize_gguf.c - a GGUF language model in 16 or 32 bits to one in fewer: metadata stays, byte for byte, but for the type
 * of the file. Which matrices are rounded, and to what, is llama.cpp's rule. */
#include "family.h"
#include "gguf_write.h"
#include "quantize_job.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct gguf_job {
    sac_quantize_job *j;
    sac_gguf g;
    sac_gguf_out out;
    sac_scheme_model model;
} gguf_job;

/* ---------------------------------------------------------------- metadata */

static size_t item_bytes(sac_gguf_type t) {
    return t == SAC_GGUF_U8 || t == SAC_GGUF_I8 || t == SAC_GGUF_BOOL   ? 1
           : t == SAC_GGUF_U16 || t == SAC_GGUF_I16                      ? 2
           : t == SAC_GGUF_U32 || t == SAC_GGUF_I32 || t == SAC_GGUF_F32 ? 4
                                                                         : 8;
}

static const uint8_t *end_of(sac_gguf_type type, sac_gguf_type item, uint64_t n, const uint8_t *at);

static const uint8_t *end_of_items(sac_gguf_type type, uint64_t n, const uint8_t *at) {
    if (type != SAC_GGUF_STRING && type != SAC_GGUF_ARRAY) return at + n * item_bytes(type);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t length;
        uint32_t inner;
        if (type == SAC_GGUF_STRING) {
            memcpy(&length, at, 8);
            at += 8 + length;
            continue;
        }
        memcpy(&inner, at, 4);
        memcpy(&length, at + 4, 8);
        at = end_of(SAC_GGUF_ARRAY, (sac_gguf_type)inner, length, at + 12);
    }
    return at;
}

/* Behind a value, which the reader has checked. */
static const uint8_t *end_of(sac_gguf_type type, sac_gguf_type item, uint64_t n, const uint8_t *at) {
    return type == SAC_GGUF_ARRAY ? end_of_items(item, n, at) : end_of_items(type, 1, at);
}

static int by_place(const void *a, const void *b) {
    const sac_gguf_value *const *x = a, *const *y = b;
    return ((*x)->data > (*y)->data) - ((*x)->data < (*y)->data);
}

static bool is_key(const sac_gguf_value *v, const char *name) {
    return v->key.n_bytes == strlen(name) && memcmp(v->key.text, name, v->key.n_bytes) == 0;
}

static bool is_of_file(const sac_gguf_value *v) {
    return is_key(v, "general.file_type") || is_key(v, "general.quantization_version") ||
           is_key(v, "general.alignment") || (v->key.n_bytes > 6 && memcmp(v->key.text, "split.", 6) == 0);
}

static sac_status copy_keys(gguf_job *f) {
    const sac_gguf_value **order = malloc((f->g.n_values + 1) * sizeof *order);
    if (!order) return sac_fail_no_memory(f->j->err);
    for (size_t i = 0; i < f->g.n_values; i++) order[i] = &f->g.values[i];
    qsort(order, f->g.n_values, sizeof *order, by_place);
    for (size_t i = 0; i < f->g.n_values; i++) {
        const sac_gguf_value *v = order[i];
        const uint8_t *from = (const uint8_t *)v->key.text - 8, *to = end_of(v->type, v->item_type, v->n_items, v->data);
        if (is_of_file(v)) continue;
        sac_gguf_put_raw(&f->out, from, (size_t)(to - from));
        f->out.n_keys++;
    }
    free(order);
    sac_gguf_put_u32(&f->out, "general.file_type", (uint32_t)f->j->scheme.file_type);
    sac_gguf_put_u32(&f->out, "general.quantization_version", 2);
    return SAC_OK;
}

static sac_status get_int(gguf_job *f, const char *arch, const char *name, int64_t *value) {
    char key[128];
    snprintf(key, sizeof key, "%s.%s", arch, name);
    return sac_gguf_get_int(&f->g, key, 0, 1 << 20, value, f->j->err);
}

static sac_status read_model(gguf_job *f) {
    char name[32];
    const char *arch;
    const sac_family *family;
    sac_error *err = f->j->err;
    int64_t layers = 0, heads = 0, kv = -1, experts = 0, splits = 0;
    SAC_TRY(sac_gguf_get_name(&f->g, "general.architecture", name, sizeof name, &arch, err));
    if (!arch) return sac_fail(err, SAC_BAD_FILE, "metadata key general.architecture is missing");
    char kind[32];
    const char *type;
    SAC_TRY(sac_gguf_get_name(&f->g, "general.type", kind, sizeof kind, &type, err));
    if (type && !strcmp(type, "adapter"))
        return sac_fail(err, SAC_UNSUPPORTED, "an adapter; give the model that it stands on");
    if (!strcmp(arch, "clip"))
        return sac_fail(err, SAC_UNSUPPORTED, "a vision half; its pictures' half stays in 16 bits: give the language model");
    SAC_TRY(sac_family_of_gguf(&family, arch, err));
    SAC_TRY(get_int(f, arch, "block_count", &layers));
    SAC_TRY(get_int(f, arch, "attention.head_count", &heads));
    SAC_TRY(get_int(f, arch, "attention.head_count_kv", &kv));
    SAC_TRY(get_int(f, arch, "expert_count", &experts));
    SAC_TRY(sac_gguf_get_int(&f->g, "split.count", 0, INT32_MAX, &splits, err));
    if (splits > 1)
        return sac_fail(err, SAC_UNSUPPORTED, "one of %lld parts of a model; join them first (llama-gguf-split --merge)",
                        (long long)splits);
    if (experts) return sac_fail(err, SAC_UNSUPPORTED, "mixtures of experts are not written");
    f->model = (sac_scheme_model){.n_layers = (int)layers, .is_70b = layers == 80 && kv >= 0 && kv != heads};
    f->model.has_head = sac_checkpoint_find(&f->j->weights, "output.weight") != NULL;
    return SAC_OK;
}

/* ---------------------------------------------------------------- tensors */

static bool is_rounded(const sac_checkpoint_tensor *t) {
    static const char *const stay[] = {"_norm.weight", "ffn_gate_inp.weight", "position_embd", "token_types"};
    const size_t n = strlen(t->name);
    for (size_t i = 0; i < SAC_COUNT(stay); i++)
        if (strstr(t->name, stay[i])) return false;
    return t->n_dims >= 2 && n > 7 && strcmp(t->name + n - 7, ".weight") == 0;
}

static sac_status add_tensor(gguf_job *f, const sac_checkpoint_tensor *t) {
    sac_rounded r;
    int layer = 0;
    if (t->dtype != SAC_DTYPE_F32 && t->dtype != SAC_DTYPE_F16 && t->dtype != SAC_DTYPE_BF16)
        return sac_fail(f->j->err, SAC_UNSUPPORTED,
                        "tensor %.100s is %s, quantised already: give the original, in 16 or 32 bits", t->name,
                        t->dtype_name);
    for (int i = 0; i < t->n_dims; i++)
        if (t->dim[i] < 1)
            return sac_fail(f->j->err, SAC_BAD_FILE, "tensor %.100s: its dimension %d is %lld, must be 1 at least", t->name,
                            i, (long long)t->dim[i]);
    sac_rounded_of(&r, t);
    if (t->n_dims > 1) { /* rows are the last dimension's */
        const int64_t n = r.rows * r.cols;
        r.cols = t->dim[t->n_dims - 1];
        r.rows = r.cols ? n / r.cols : 0;
    }
    if (strncmp(t->name, "blk.", 4) == 0) layer = atoi(t->name + 4);
    r.type = (sac_dtype)t->dtype;
    if (is_rounded(t)) {
        r.type = sac_scheme_block_type(&f->j->scheme, &f->model, t->name, layer, r.cols);
        f->j->plan.n_rounded++;
    }
    f->j->plan.weights_before += t->n_bytes;
    return sac_gguf_out_add(&f->out, t->name, &r, t->dim, t->n_dims, f->j->err);
}

static int by_address(const void *a, const void *b) {
    const sac_checkpoint_tensor *const *x = a, *const *y = b;
    return ((*x)->data > (*y)->data) - ((*x)->data < (*y)->data);
}

/* In the order of the source. */
static sac_status add_tensors(gguf_job *f) {
    const sac_checkpoint *c = &f->j->weights;
    const sac_checkpoint_tensor **order = malloc(((size_t)c->n_tensors + 1) * sizeof *order);
    if (!order) return sac_fail_no_memory(f->j->err);
    for (int i = 0; i < c->n_tensors; i++) order[i] = &c->tensors[i];
    qsort(order, (size_t)c->n_tensors, sizeof *order, by_address);
    sac_status st = SAC_OK;
    for (int i = 0; i < c->n_tensors && st == SAC_OK; i++) st = add_tensor(f, order[i]);
    free(order);
    return st;
}

static sac_status convert(gguf_job *f) {
    sac_quantize_job *j = f->j;
    sac_checkpoint_file *file;
    SAC_TRY(sac_checkpoint_add_file(&j->weights, j->in, j->err));
    file = &j->weights.files[0];
    SAC_TRY(sac_gguf_parse(&f->g, &j->weights, 0, file->map.data, file->map.n_bytes, &file->header_bytes, j->err));
    SAC_TRY(read_model(f));
    SAC_TRY(add_tensors(f));
    if (!j->plan.n_rounded && sac_dtype_block(j->scheme.type) > 1)
        return sac_fail(j->err, SAC_UNSUPPORTED, "it has no matrix that is rounded to %s", j->scheme.name);
    SAC_TRY(copy_keys(f));
    return sac_gguf_out_lay_out(&f->out, j->err);
}

sac_status sac_quantize_gguf(sac_quantize_job *j) {
    gguf_job f = {.j = j};
    sac_status st = convert(&f);
    if (st != SAC_OK) sac_fail_prefix(j->err, st, "%s", j->in);
    if (st == SAC_OK) st = sac_quantize_write_gguf(j, &f.out);
    sac_gguf_out_free(&f.out);
    sac_gguf_free(&f.g);
    return st;
}

sac_status sac_quantize_check_gguf(sac_quantize_job *j) {
    gguf_job f = {.j = j};
    const sac_status st = convert(&f);
    sac_gguf_out_free(&f.out);
    sac_gguf_free(&f.g);
    return st == SAC_OK ? st : sac_fail_prefix(j->err, st, "%s", j->in);
}
