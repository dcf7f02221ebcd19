/* bind_linear.c - matrices of linear attention of files that have, for each key head, the rows of all parts one behind the other
 * (Qwen3-Next): q, k, v, z of its value heads, and b and a of these. */
#include "bind_values.h"

/* Rows of the file for each key head, of which `n` from `first` on are a part. */
typedef struct part {
    int64_t all, first, n;
} part;

static void copy(uint8_t *to, const uint8_t *from, part p, int n_heads, size_t row_bytes) {
    for (int h = 0; h < n_heads; h++)
        memcpy(to + (size_t)(h * p.n) * row_bytes, from + (size_t)(h * p.all + p.first) * row_bytes,
               (size_t)p.n * row_bytes);
}

/* The parts of the row that is spread, which follow one another; how many there are. */
static int parts_of(const sac_linear_shape *s, const char *spread, part out[3]) {
    const int64_t key = s->key_dim, heads = s->n_heads / s->n_key_heads, values = heads * s->value_dim,
                  all = 2 * (key + values);
    if (strcmp(spread, "mixed") == 0) {
        out[0] = (part){all, 0, key};
        out[1] = (part){all, key, key};
        out[2] = (part){all, 2 * key, values};
        return 3;
    }
    out[0] = strcmp(spread, "gates") == 0    ? (part){all, 2 * key + values, values}
             : strcmp(spread, "decays") == 0 ? (part){2 * heads, heads, heads}
                                             : (part){2 * heads, 0, heads};
    return 1;
}

sac_status sac_bind_regrouped(sac_value_binder *b, const sac_spec_tensor *row, const char *name,
                              const sac_adapted *adapted, sac_weight *w) {
    const sac_linear_shape *s = &b->table->linear;
    sac_tensor *t = &w->tensor;
    part parts[3];
    if (w->format != SAC_WEIGHT_FLOATS || adapted->n_loras ||
        (t->dtype != SAC_DTYPE_F32 && t->dtype != SAC_DTYPE_F16 && t->dtype != SAC_DTYPE_BF16))
        return sac_fail(b->err, SAC_UNSUPPORTED,
                        "tensor %.100s is of linear attention, head by head, which is supported in f32, f16 "
                        "or bf16 only, and without an "
                        "adapter",
                        name);
    const int n = parts_of(s, row->spread, parts);
    const size_t row_bytes = sac_dtype_row_bytes(t->dtype, t->dim[1]);
    int64_t rows = 0;
    void *copied = NULL;
    for (int i = 0; i < n; i++) rows += s->n_key_heads * parts[i].n;
    SAC_TRY(sac_bind_take(b, name, (size_t)rows * row_bytes, &copied));
    t->dim[0] = rows;
    if (!b->arena) return SAC_OK;
    uint8_t *to = copied;
    for (int i = 0; i < n; i++) {
        copy(to, t->data, parts[i], s->n_key_heads, row_bytes);
        to += (size_t)(s->n_key_heads * parts[i].n) * row_bytes;
    }
    t->data = copied;
    return SAC_OK;
}
