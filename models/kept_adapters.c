#define _POSIX_C_SOURCE 200809L
#include "kept_adapters.h"

#include "model_load.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the list ---- */

void sac_kept_adapters_close(sac_kept_adapters *k) {
    for (int i = 0; i < k->n; i++) {
        free(k->item[i].name);
        sac_adapter_close(&k->item[i].adapter);
    }
    sac_arena_free(&k->arena);
    k->n = 0;
}

static const sac_kept_adapter *find(const sac_kept_adapters *k, const char *name) {
    for (int i = 0; i < k->n; i++)
        if (strcmp(k->item[i].name, name) == 0) return &k->item[i];
    return NULL;
}

sac_status sac_kept_adapters_add(sac_kept_adapters *k, const char *spec, sac_error *err) {
    const char *end = strchr(spec, '=');
    if (!end || end == spec || end - spec > 100)
        return sac_fail(err, SAC_BAD_ARGUMENT, "adapter \"%.120s\": give NAME=DIR or NAME=DIR:SCALE", spec);
    if (k->n == SAC_MAX_KEPT_ADAPTERS)
        return sac_fail(err, SAC_BAD_ARGUMENT, "more than %d adapters that are kept apart: leave some out",
                        SAC_MAX_KEPT_ADAPTERS);
    sac_kept_adapter *one = &k->item[k->n];
    *one = (sac_kept_adapter){.name = strndup(spec, (size_t)(end - spec))};
    if (!one->name) return sac_fail_no_memory(err);
    sac_status st = SAC_OK;
    if (find(k, one->name))
        st = sac_fail(err, SAC_BAD_ARGUMENT, "two adapters have the name \"%s\": give each its own",
                      one->name);
    if (st == SAC_OK) st = sac_adapter_open(&one->adapter, end + 1, err);
    if (st == SAC_OK)
        k->n++;
    else
        free(one->name);
    return st;
}

sac_status sac_kept_adapters_find(const sac_kept_adapters *k, const char *name, int *number, sac_error *err) {
    const sac_kept_adapter *one = find(k, name);
    if (one) {
        *number = one->number;
        return SAC_OK;
    }
    char names[300] = "none";
    for (int i = 0, n = 0; i < k->n && n < 200; i++)
        n += snprintf(names + n, sizeof names - (size_t)n, "%s%s", i ? ", " : "", k->item[i].name);
    return sac_fail(err, SAC_NOT_FOUND, "no adapter \"%.100s\" is kept apart here: there is %s", name, names);
}

/* ---- their matrices ---- */

#define MATRIX(field)                                                                                        \
    { "layer." #field, offsetof(sac_decoder_layer, field), offsetof(sac_adapted_layer, field) }
#define SHARED(field)                                                                                        \
    { "layer.shared_" #field, offsetof(sac_decoder_layer, field), offsetof(sac_adapted_layer, field) }
static const struct {
    const char *slot;
    size_t in_layer, in_adapted;
} matrices[] = {
    MATRIX(q),  MATRIX(k),    MATRIX(v),    MATRIX(o),  MATRIX(gate),
    MATRIX(up), MATRIX(down), SHARED(gate), SHARED(up), SHARED(down),
};
#undef MATRIX
#undef SHARED

bool sac_kept_adapters_have_slot(const char *slot) {
    for (size_t i = 0; i < SAC_COUNT(matrices); i++)
        if (strcmp(matrices[i].slot, slot) == 0) return true;
    return false;
}

/* A run over all of them: the first measures and checks, the second fills. */
typedef struct run {
    sac_load_context *l;
    sac_tensor_table table;
    bool gguf;
    bool
        has_own; /* number 1 is what the model's own adapters add to quantised matrices, into which nothing merges */
    int n_sets; /* numbers of the decoder's */
    sac_arena *arena;
    sac_adapted_layer *layers; /* [n_layers][n_sets]; NULL while measuring */
    int64_t most_rank;
} run;

static sac_status refuse(const run *r, const sac_adapter *a, const char *tensor, const char *why) {
    return sac_fail(r->l->err, SAC_UNSUPPORTED,
                    "%s%s: %.150s %s, which is not kept apart: merge the adapter into a model in f32, f16 or "
                    "bf16 (--adapter %s, without a name)",
                    a->folder, sac_adapter_file(a), tensor, why, a->folder);
}

static sac_status check(const run *r, const sac_lora *l, int64_t rows, int64_t columns) {
    if (l->magnitude) return refuse(r, l->adapter, l->magnitude->name, "is DoRA's");
    if (l->is_embedding) return refuse(r, l->adapter, l->a->name, "is for an embedding");
    return sac_lora_check_shapes(l, 1, rows, columns, r->l->err);
}

static sac_weight matrix(float *data, int64_t rows, int64_t columns) {
    return sac_weight_of(
        (sac_tensor){.data = data, .dtype = SAC_DTYPE_F32, .n_dims = 2, .dim = {rows, columns}});
}

/* What one number adds to one matrix. */
typedef struct products {
    sac_lora loras[SAC_MAX_ADAPTERS + 1];
    int n;
} products;

static sac_status fill(run *r, const products *p, const sac_tensor *base, sac_low_rank *out) {
    const int64_t rows = base->dim[0], columns = base->dim[1];
    int64_t rank = 0;
    size_t a_bytes, b_bytes;
    for (int i = 0; i < p->n; i++) {
        SAC_TRY(check(r, &p->loras[i], rows, columns));
        rank += p->loras[i].rank;
    }
    if (!sac_mul_size((size_t)rank * sizeof(float), (size_t)columns, &a_bytes) ||
        !sac_mul_size((size_t)rank * sizeof(float), (size_t)rows, &b_bytes))
        return sac_fail_no_memory(r->l->err);
    float *a = sac_arena_take(r->arena, a_bytes), *b = sac_arena_take(r->arena, b_bytes);
    if (rank > r->most_rank) r->most_rank = rank;
    if (!r->layers) return SAC_OK;
    sac_lora_stack(p->loras, p->n, rows, columns, a, b);
    *out = (sac_low_rank){matrix(a, rank, columns), matrix(b, rows, rank)};
    return SAC_OK;
}

/* The model's own first, where they are not part of the matrix. */
static sac_status find_products(const run *r, const sac_weight *base, const sac_spec_tensor *row, int layer,
                                const sac_adapters *named, products *out) {
    sac_adapted found;
    out->n = 0;
    if (base->format != SAC_WEIGHT_FLOATS) {
        SAC_TRY(sac_adapted_find(&found, &r->l->files->adapters, &r->table, row, r->gguf, layer, r->l->err));
        for (int i = 0; i < found.n_loras; i++) out->loras[out->n++] = found.loras[i];
    }
    SAC_TRY(sac_adapted_find(&found, named, &r->table, row, r->gguf, layer, r->l->err));
    if (found.replacement) return refuse(r, &named->item[0], found.replacement->name, "replaces a matrix");
    for (int i = 0; i < found.n_loras; i++) out->loras[out->n++] = found.loras[i];
    return SAC_OK;
}

/* One number's: of the model's own alone, with none named, or of those and the named. */
static sac_status bind_set(run *r, int number, const sac_adapters *named) {
    const sac_decoder *d = &r->l->m->decoder;
    for (int at = 0; at < d->config.n_layers * (int)SAC_COUNT(matrices); at++) {
        const int layer = at / (int)SAC_COUNT(matrices), i = at % (int)SAC_COUNT(matrices);
        const uint8_t *w = (const uint8_t *)&d->layers[layer];
        const sac_weight *base = (const sac_weight *)(const void *)(w + matrices[i].in_layer);
        const sac_spec_tensor *row = sac_tensor_table_row(&r->table, matrices[i].slot);
        products found;
        if (!row) return sac_fail(r->l->err, SAC_INTERNAL, "no YAML describes %s", matrices[i].slot);
        SAC_TRY(find_products(r, base, row, layer, named, &found));
        if (!found.n) continue;
        uint8_t *to = r->layers ? (uint8_t *)&r->layers[layer * r->n_sets + number - 1] : NULL;
        SAC_TRY(fill(r, &found, &base->tensor,
                     to ? (sac_low_rank *)(void *)(to + matrices[i].in_adapted) : NULL));
    }
    return SAC_OK;
}

static sac_status check_used(const run *r, const sac_adapter *a) {
    for (int i = 0; i < a->tensors.n_tensors; i++)
        if (!a->used[i])
            return refuse(r, a, a->tensors.tensors[i].name,
                          "is for no matrix of the language model's layers here");
    return SAC_OK;
}

static sac_status bind_all(run *r) {
    const sac_adapters none = {.n = 0};
    sac_kept_adapters *kept = &r->l->files->kept;
    r->layers = sac_arena_take(r->arena, (size_t)r->l->m->decoder.config.n_layers * (size_t)r->n_sets *
                                             sizeof *r->layers);
    int number = 0;
    if (r->has_own) SAC_TRY(bind_set(r, ++number, &none));
    for (int i = 0; i < kept->n; i++) {
        sac_adapters one = {.item = {kept->item[i].adapter}, .n = 1};
        kept->item[i].number = ++number;
        SAC_TRY(bind_set(r, number, &one));
        SAC_TRY(check_used(r, &kept->item[i].adapter));
    }
    return SAC_OK;
}

static bool is_quantised(const sac_decoder *d) {
    for (int layer = 0; layer < d->config.n_layers; layer++)
        for (size_t i = 0; i < SAC_COUNT(matrices); i++) {
            const uint8_t *w = (const uint8_t *)&d->layers[layer];
            const sac_weight *base = (const sac_weight *)(const void *)(w + matrices[i].in_layer);
            if (base->format != SAC_WEIGHT_FLOATS) return true;
        }
    return false;
}

/* Twice: measured, then filled. */
static sac_status bind(run *r) {
    sac_arena measure = sac_arena_measure(), *arena = &r->l->files->kept.arena;
    sac_decoder *d = &r->l->m->decoder;
    r->arena = &measure;
    SAC_TRY(bind_all(r));
    SAC_TRY(sac_arena_open(arena, measure.used_bytes, r->l->err));
    r->arena = arena;
    SAC_TRY(bind_all(r));
    for (int i = 0; i < d->config.n_layers; i++) d->layers[i].adapted = r->layers + (int64_t)i * r->n_sets;
    d->n_adapters = r->n_sets;
    d->most_rank = r->most_rank;
    r->l->m->own_adapter = r->has_own;
    return SAC_OK;
}

sac_status sac_load_bind_kept_adapters(sac_load_context *l, bool gguf) {
    run r = {.l = l, .gguf = gguf};
    r.has_own = l->files->adapters.n && is_quantised(&l->m->decoder);
    r.n_sets = l->files->kept.n + r.has_own;
    if (r.n_sets == 0) return SAC_OK;
    if (l->config.decoder.latent.kv_rank)
        return sac_fail(l->err, SAC_UNSUPPORTED, "adapters are not kept apart where keys and values are made of latents (%s)",
                        l->config.family->name);
    SAC_TRY(sac_tensor_table_init(&r.table, &l->config, l->err));
    r.table.gguf = gguf;
    return bind(&r);
}
