#include "expert_tensors.h"

#include <stdio.h>
#include <string.h>

/* A tensor with every expert's, and the names of its parts: as many equal ones, one behind the other in each expert. */
typedef struct fused {
    const char *of, *end; /* of its name; the expert's number goes between */
    const char *parts[2]; /* in the place of `end` */
    int n_parts;
    int64_t rows, cols; /* of one expert */
    bool never_turned;
} fused;

static bool is_kind(const char *name, const fused *f) {
    const size_t n = strlen(name), n_of = strlen(f->of), n_end = strlen(f->end);
    return n >= n_of + n_end && strcmp(name + n - n_end, f->end) == 0 &&
           memcmp(name + n - n_end - n_of, f->of, n_of) == 0;
}

/* Whether its matrices are stored with rows and columns exchanged. */
static sac_status is_turned(const sac_checkpoint_tensor *t, const fused *f, int n, bool *out,
                            sac_error *err) {
    const int64_t want[3] = {n, f->rows, f->cols};
    char a[SAC_SHAPE_TEXT], b[SAC_SHAPE_TEXT];
    const bool fits = t->n_dims == 3 && t->dim[0] == n;
    *out = fits && t->dim[1] == f->cols && t->dim[2] == f->rows && f->rows != f->cols &&
           !f->never_turned;
    if (*out || (fits && t->dim[1] == f->rows && t->dim[2] == f->cols)) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "tensor %.100s has shape %s, the configuration asks for %s", t->name,
                    sac_shape_text(a, t->dim, t->n_dims), sac_shape_text(b, want, 3));
}

/* [cols][rows] to [rows][cols], a square that stays in the cache at a time. */
static void turn_matrix(uint8_t *to, const uint8_t *from, int64_t rows, int64_t cols, size_t element) {
    enum { SIDE = 64 };
    for (int64_t i = 0; i < rows; i += SIDE)
        for (int64_t j = 0; j < cols; j += SIDE)
            for (int64_t r = i; r < rows && r < i + SIDE; r++)
                for (int64_t c = j; c < cols && c < j + SIDE; c++)
                    memcpy(to + (size_t)(r * cols + c) * element, from + (size_t)(c * rows + r) * element,
                           element);
}

/* All of t's matrices turned round, in bytes that the checkpoint owns. */
static sac_status turn(sac_checkpoint *c, sac_checkpoint_tensor *t, sac_error *err) {
    const size_t matrix = t->n_bytes / (size_t)t->dim[0];
    if (t->dtype != SAC_DTYPE_F32 && t->dtype != SAC_DTYPE_F16 && t->dtype != SAC_DTYPE_BF16)
        return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s is supported in f32, f16 or bf16 only", t->name);
    uint8_t *to = sac_checkpoint_own(c, t->n_bytes);
    if (!to) return sac_fail(err, SAC_NO_MEMORY, "no memory to turn %zu bytes of experts round", t->n_bytes);
    for (int64_t e = 0; e < t->dim[0]; e++)
        turn_matrix(to + (size_t)e * matrix, t->data + (size_t)e * matrix, t->dim[2], t->dim[1],
                    sac_dtype_row_bytes((sac_dtype)t->dtype, 1));
    const int64_t rows = t->dim[2];
    t->dim[2] = t->dim[1], t->dim[1] = rows;
    t->data = to;
    return SAC_OK;
}

/* t: a copy of the checkpoint's entry, which may move. */
static sac_status list_parts(sac_checkpoint *c, sac_checkpoint_tensor t, const fused *f, int n,
                             sac_error *err) {
    char name[512];
    bool turned;
    SAC_TRY(is_turned(&t, f, n, &turned, err));
    if (turned) SAC_TRY(turn(c, &t, err));
    const size_t n_parts = (size_t)n * (size_t)f->n_parts;
    const int base = (int)(strlen(t.name) - strlen(f->end));
    sac_checkpoint_tensor part = t;
    part.n_dims = 2;
    part.dim[0] = t.dim[1] / f->n_parts, part.dim[1] = t.dim[2];
    part.n_bytes = t.n_bytes / n_parts;
    for (size_t i = 0; i < n_parts; i++) {
        const size_t e = i / (size_t)f->n_parts, which = i % (size_t)f->n_parts;
        const int used = snprintf(name, sizeof name, "%.*s.%zu%s", base, t.name, e, f->parts[which]);
        if (used < 0 || used >= (int)sizeof name)
            return sac_fail(err, SAC_BAD_FILE, "tensor %.100s: its name is too long", t.name);
        part.data = t.data + i * part.n_bytes;
        SAC_TRY(sac_checkpoint_add(c, &part, name, (size_t)used, err));
    }
    return SAC_OK;
}

/* More than one for each layer are none of the model's: each would become as many entries of the table as it has parts. */
static sac_status check_count(const sac_checkpoint *c, const fused *f, int n_layers, sac_error *err) {
    int n = 0;
    for (int i = 0; i < c->n_tensors; i++) n += is_kind(c->tensors[i].name, f);
    if (n <= n_layers) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "%d tensors *%s%s, but the configuration has %d layers", n, f->of,
                    f->end, n_layers);
}

sac_status sac_expert_tensors_list(sac_checkpoint *c, const sac_decoder_config *d, sac_error *err) {
    const int64_t k = d->experts.intermediate, hidden = d->hidden;
    const fused kinds[] = {
        {".mlp.experts", ".gate_up_proj", {".gate_proj.weight", ".up_proj.weight"}, 2, 2 * k, hidden, false},
        {".mlp.experts", ".down_proj", {".down_proj.weight"}, 1, hidden, k, false},
        {".block_sparse_moe", ".input_linear.weight", {".gate_proj.weight", ".up_proj.weight"}, 2, 2 * k, hidden, true},
        {".block_sparse_moe", ".output_linear.weight", {".down_proj.weight"}, 1, hidden, k, true},
        {".ffn_gate_exps", ".weight", {".weight"}, 1, k, hidden, true},
        {".ffn_up_exps", ".weight", {".weight"}, 1, k, hidden, true},
        {".ffn_down_exps", ".weight", {".weight"}, 1, hidden, k, true},
    };
    if (!d->experts.n) return SAC_OK;
    for (size_t j = 0; j < SAC_COUNT(kinds); j++) SAC_TRY(check_count(c, &kinds[j], d->n_layers, err));
    for (int i = c->n_tensors - 1; i >= 0; i--) /* what is behind i is done, and so are the parts */
        for (size_t j = 0; j < SAC_COUNT(kinds); j++) {
            if (!is_kind(c->tensors[i].name, &kinds[j])) continue;
            SAC_TRY(list_parts(c, c->tensors[i], &kinds[j], d->experts.n, err));
            sac_checkpoint_drop(c, i);
            break;
        }
    return sac_checkpoint_seal(c, err);
}
