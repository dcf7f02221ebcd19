/* bind_latent.c - matrices of latent attention, with a head's channels where the decoder has them (latent_attention.h). */
#include "bind_values.h"

#include "quants.h"

#include <stdlib.h>

/* What is copied, with elements of so many bytes. */
typedef struct spread {
    const sac_latent_shape *s;
    int64_t heads, dim; /* of a head */
    size_t element;
    const uint8_t *from;
    int64_t from_cols;
    uint8_t *to; /* zeros */
    int64_t to_cols;
} spread;

/* n elements of a row, from one place to another. */
static void copy(const spread *p, int64_t to_row, int64_t to_col, int64_t from_row, int64_t from_col,
                 int64_t n) {
    memcpy(p->to + (size_t)(to_row * p->to_cols + to_col) * p->element,
           p->from + (size_t)(from_row * p->from_cols + from_col) * p->element, (size_t)n * p->element);
}

/* The channels that are turned come first: whole rows, of whatever they are. */
static void queries(const spread *p, size_t row_bytes) {
    const int64_t rope = p->s->rope_dim, nope = p->s->nope_dim;
    for (int64_t h = 0; h < p->heads; h++)
        for (int64_t i = 0; i < p->dim; i++)
            memcpy(p->to + (size_t)(h * p->dim + i) * row_bytes,
                   p->from + (size_t)(h * p->dim + (i < rope ? nope + i : i - rope)) * row_bytes, row_bytes);
}

static void keys(const spread *p, const void *one) {
    const int64_t rope = p->s->rope_dim, nope = p->s->nope_dim, each = nope + p->s->value_dim;
    for (int64_t h = 0; h < p->heads; h++) {
        for (int64_t i = 0; i < rope; i++)
            memcpy(p->to + (size_t)((h * p->dim + i) * p->to_cols + p->s->kv_rank + i) * p->element, one,
                   p->element);
        for (int64_t i = 0; i < nope; i++) copy(p, h * p->dim + rope + i, 0, h * each + i, 0, p->s->kv_rank);
    }
}

static void values(const spread *p) {
    const int64_t nope = p->s->nope_dim, each = nope + p->s->value_dim;
    for (int64_t h = 0; h < p->heads; h++)
        for (int64_t i = 0; i < p->s->value_dim; i++)
            copy(p, h * p->dim + i, 0, h * each + nope + i, 0, p->s->kv_rank);
}

static void outputs(const spread *p, int64_t rows) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < p->heads; h++)
            copy(p, r, h * p->dim, r, h * p->s->value_dim, p->s->value_dim);
}

static const void *one_of(sac_dtype t) {
    static const float f32 = 1;
    static const uint16_t f16 = 0x3c00, bf16 = 0x3f80;
    return t == SAC_DTYPE_F32 ? (const void *)&f32 : t == SAC_DTYPE_F16 ? &f16 : &bf16;
}

/* Blocks as f16 numbers, to be freed; NULL: no memory. */
static uint16_t *unpack(const sac_tensor *t) {
    const size_t n = (size_t)t->dim[1], row_bytes = sac_dtype_row_bytes(t->dtype, t->dim[1]);
    uint16_t *out = malloc((size_t)t->dim[0] * n * sizeof *out);
    float *row = malloc(n * sizeof *row);
    for (int64_t i = 0; out && row && i < t->dim[0]; i++) {
        sac_dequantize_row(t->dtype, (const uint8_t *)t->data + (size_t)i * row_bytes, row, t->dim[1]);
        for (size_t k = 0; k < n; k++) out[(size_t)i * n + k] = sac_f32_to_f16(row[k]);
    }
    if (!row) free(out), out = NULL;
    free(row);
    return out;
}

static bool is_float(sac_dtype t) {
    return t == SAC_DTYPE_F32 || t == SAC_DTYPE_F16 || t == SAC_DTYPE_BF16;
}

/* Blocks of GGUF, which carry their scales. */
static bool is_blocks(const sac_value_binder *b, const sac_weight *w) {
    return b->source->gguf && sac_dtype_block(w->tensor.dtype) > 1 && !w->scales.data && !w->zeros.data;
}

sac_status sac_bind_spread(sac_value_binder *b, const sac_spec_tensor *row, const char *name,
                           const sac_adapted *adapted, sac_weight *w) {
    sac_tensor *t = &w->tensor;
    const sac_latent_shape *s = &b->table->latent;
    const bool is_out = strcmp(row->spread, "outputs") == 0, is_query = strcmp(row->spread, "queries") == 0;
    const bool blocks = is_blocks(b, w);
    if (adapted->n_loras || !(blocks || (w->format == SAC_WEIGHT_FLOATS && is_float(t->dtype))))
        return sac_fail(b->err, SAC_UNSUPPORTED,
                        "tensor %.100s is of latent attention, which is supported in f32, f16, bf16 or GGUF's blocks only, "
                        "and without an adapter",
                        name);
    const bool unpacks = blocks && !is_query;
    const sac_dtype type = unpacks ? SAC_DTYPE_F16 : t->dtype;
    spread p = {.s = s,
                .heads = b->table->n_heads,
                .dim = s->rope_dim + s->nope_dim,
                .element = (size_t)sac_dtype_block_bytes(type),
                .from = t->data,
                .from_cols = t->dim[1]};
    const int64_t all = p.heads * p.dim, rows = is_out ? t->dim[0] : all;
    p.to_cols = is_out ? all : is_query ? t->dim[1] : sac_latent_width(s);
    const size_t row_bytes = sac_dtype_row_bytes(type, p.to_cols), n_bytes = (size_t)rows * row_bytes;
    void *to = NULL;
    SAC_TRY(sac_bind_take(b, name, n_bytes, &to));
    uint16_t *unpacked = b->arena && unpacks ? unpack(t) : NULL;
    if (b->arena && unpacks && !unpacked) return sac_fail(b->err, SAC_NO_MEMORY, "no memory for %.100s", name);
    if (unpacks) {
        p.from = (const uint8_t *)unpacked;
        t->dtype = type;
        w->format = SAC_WEIGHT_FLOATS;
    }
    t->dim[0] = rows, t->dim[1] = p.to_cols;
    if (!b->arena) return SAC_OK;
    p.to = memset(to, 0, n_bytes);
    if (is_query)
        queries(&p, row_bytes);
    else if (is_out)
        outputs(&p, rows);
    else if (strcmp(row->spread, "keys") == 0)
        keys(&p, one_of(t->dtype));
    else
        values(&p);
    free(unpacked);
    t->data = to;
    return SAC_OK;
}
