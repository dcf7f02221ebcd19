/* token_controller.c - the token controller that a model folder may bring along for ADORE: adore.safetensors,
 * in the names and layouts of PyTorch's modules (tools/demo/train_adore.py writes one), all F32.
 *
 *   gru.weight_ih_l0 [3H][D], gru.weight_hh_l0 [3H][H], gru.bias_ih_l0 [3H], gru.bias_hh_l0 [3H]
 *   position.weight [H][1], position.bias [H], inner.weight [H][H], inner.bias [H]
 *   outer.weight [1][H], outer.bias [1]
 *
 * Its metadata may say with which positions it was trained: "feature" abs or rel, and "unit", the number of tokens that
 * they were divided by. */
#include "controller.h"

#include "model_load.h"
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

#define MAX_HIDDEN 4096

typedef enum slot {
    INPUT_GATES,
    STATE_GATES,
    INPUT_BIAS,
    STATE_BIAS,
    POSITION,
    POSITION_BIAS,
    INNER,
    INNER_BIAS,
    OUTER,
    OUTER_BIAS,
    N_SLOTS
} slot;

/* Rows and columns in units: 0 none, 'D' input, 'H' hidden, '3' three times hidden, '1'. */
static const struct {
    const char *name;
    char rows, cols;
} slots[N_SLOTS] = {
    [INPUT_GATES] = {"gru.weight_ih_l0", '3', 'D'}, [STATE_GATES] = {"gru.weight_hh_l0", '3', 'H'},
    [INPUT_BIAS] = {"gru.bias_ih_l0", '3', 0},      [STATE_BIAS] = {"gru.bias_hh_l0", '3', 0},
    [POSITION] = {"position.weight", 'H', '1'},     [POSITION_BIAS] = {"position.bias", 'H', 0},
    [INNER] = {"inner.weight", 'H', 'H'},           [INNER_BIAS] = {"inner.bias", 'H', 0},
    [OUTER] = {"outer.weight", '1', 'H'},           [OUTER_BIAS] = {"outer.bias", '1', 0},
};

static int64_t size_of(char unit, int64_t input, int64_t hidden) {
    switch (unit) {
    case 'D': return input;
    case 'H': return hidden;
    case '3': return 3 * hidden;
    default: return 1;
    }
}

/* The tensor of a slot, when it has the type and shape that the others ask for. */
static sac_status find(const sac_checkpoint *c, int i, int64_t input, int64_t hidden,
                       const sac_checkpoint_tensor **out, sac_error *err) {
    const sac_checkpoint_tensor *t = *out = sac_checkpoint_find(c, slots[i].name);
    int64_t want[2] = {size_of(slots[i].rows, input, hidden), size_of(slots[i].cols, input, hidden)};
    int n_dims = slots[i].cols ? 2 : 1;
    char a[SAC_SHAPE_TEXT], b[SAC_SHAPE_TEXT];
    if (!t) return sac_fail(err, SAC_BAD_FILE, "no tensor %s", slots[i].name);
    if (t->dtype != SAC_DTYPE_F32)
        return sac_fail(err, SAC_BAD_FILE, "tensor %s is %s, not f32", slots[i].name, t->dtype_name);
    if (t->n_dims != n_dims || t->dim[0] != want[0] || (n_dims == 2 && t->dim[1] != want[1]))
        return sac_fail(err, SAC_BAD_FILE, "tensor %s has shape %s, not %s", slots[i].name,
                        sac_shape_text(a, t->dim, t->n_dims), sac_shape_text(b, want, n_dims));
    return SAC_OK;
}

static sac_weight weight_of(const sac_checkpoint_tensor *t, const float *data) {
    return sac_weight_of((sac_tensor){data, SAC_DTYPE_F32, 2, {t->dim[0], t->dim[1]}});
}

/* Copies all tensors into one block, since a file's may lie at any alignment. */
static sac_status copy(sac_controller *k, float **block, const sac_checkpoint *c, int64_t input,
                       sac_error *err) {
    const sac_checkpoint_tensor *t[N_SLOTS];
    const sac_checkpoint_tensor *first = sac_checkpoint_find(c, slots[STATE_GATES].name);
    int64_t hidden = first && first->n_dims == 2 ? first->dim[1] : 0;
    if (hidden < 1 || hidden > MAX_HIDDEN)
        return sac_fail(err, SAC_BAD_FILE, "%s has no hidden size from 1 to %d", slots[STATE_GATES].name,
                        MAX_HIDDEN);
    size_t n_bytes = 0;
    for (int i = 0; i < N_SLOTS; i++) {
        SAC_TRY(find(c, i, input, hidden, &t[i], err));
        n_bytes += t[i]->n_bytes;
    }
    float *at = *block = malloc(n_bytes), *data[N_SLOTS];
    if (!at) return sac_fail(err, SAC_NO_MEMORY, "no memory for a controller of %zu bytes", n_bytes);
    for (int i = 0; i < N_SLOTS; i++) {
        memcpy(at, t[i]->data, t[i]->n_bytes);
        data[i] = at;
        at += t[i]->n_bytes / sizeof(float);
    }
    *k = (sac_controller){.input = (int)input,
                          .hidden = (int)hidden,
                          .input_gates = weight_of(t[INPUT_GATES], data[INPUT_GATES]),
                          .state_gates = weight_of(t[STATE_GATES], data[STATE_GATES]),
                          .input_bias = data[INPUT_BIAS],
                          .state_bias = data[STATE_BIAS],
                          .position = data[POSITION],
                          .position_bias = data[POSITION_BIAS],
                          .inner = weight_of(t[INNER], data[INNER]),
                          .outer = weight_of(t[OUTER], data[OUTER]),
                          .inner_bias = data[INNER_BIAS],
                          .outer_bias = data[OUTER_BIAS]};
    return SAC_OK;
}

/* How positions were told to it in training; what the file does not say stays unknown. */
static sac_status read_positions(sac_controller *k, const sac_checkpoint *c, sac_error *err) {
    enum { MAX_UNIT = 1 << 30 };
    char feature[16], unit[32], *end;
    SAC_TRY(sac_safetensors_metadata(c, 0, "feature", feature, sizeof feature, err));
    SAC_TRY(sac_safetensors_metadata(c, 0, "unit", unit, sizeof unit, err));
    bool is_abs = strcmp(feature, "abs") == 0, is_rel = strcmp(feature, "rel") == 0;
    if (feature[0] && !is_abs && !is_rel)
        return sac_fail(err, SAC_BAD_FILE, "metadata \"feature\" is \"%s\": abs and rel are known", feature);
    k->feature = is_abs ? SAC_FEATURE_ABS : is_rel ? SAC_FEATURE_REL : SAC_FEATURE_UNKNOWN;
    if (!unit[0]) return SAC_OK;
    k->unit = strtod(unit, &end);
    if (*end == 0 && k->unit >= 1 && k->unit <= MAX_UNIT) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "metadata \"unit\" is \"%s\": not a number of tokens from 1 to %d", unit,
                    MAX_UNIT);
}

sac_status sac_load_controller(sac_load_context *l) {
    char path[4096];
    sac_checkpoint c = {0};
    SAC_TRY(sac_path_join(path, sizeof path, l->path, "adore.safetensors", l->err));
    if (!sac_file_exists(path)) return SAC_OK;
    sac_status st = sac_safetensors_open_file(&c, path, l->err);
    if (st == SAC_OK) {
        sac_controller *k = &l->files->controller;
        st = copy(k, &l->files->controller_block, &c, l->m->decoder.config.hidden, l->err);
        if (st == SAC_OK) st = read_positions(k, &c, l->err);
        if (st != SAC_OK) sac_fail_prefix(l->err, st, "%s", path);
    }
    sac_checkpoint_free(&c);
    if (st == SAC_OK) l->m->decoder.controller = &l->files->controller;
    return st;
}
