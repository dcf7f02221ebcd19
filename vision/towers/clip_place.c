/* clip_place.c - a CLIP tower's weights as a device wants them. */
#include "clip.h"

#include <stdlib.h>
#include <string.h>

/* Rows of these can be put one behind another. */
static bool is_one(const sac_placer *p, const sac_weight *w) {
    return w->format == SAC_WEIGHT_FLOATS && w->tensor.dtype == p->activations;
}

/* q, k and v as one matrix, for one product in place of three small ones; as they are where one has no bias. */
static sac_status place_qkv(sac_placer *p, int64_t hidden, sac_clip_layer *l) {
    const void *matrices[] = {l->q.tensor.data, l->k.tensor.data, l->v.tensor.data}, *bias = NULL;
    const void *biases[] = {l->q_bias, l->k_bias, l->v_bias};
    sac_weight *apart[] = {&l->q, &l->k, &l->v};
    const float **bias_apart[] = {&l->q_bias, &l->k_bias, &l->v_bias};
    bool same_type = is_one(p, &l->q) && is_one(p, &l->k) && is_one(p, &l->v);
    if (same_type && !l->q_bias == !l->k_bias && !l->q_bias == !l->v_bias) {
        l->qkv = sac_weight_of((sac_tensor){NULL, p->activations, 2, {3 * hidden, hidden}});
        SAC_TRY(sac_place_three(p, &l->qkv.tensor.data, matrices,
                                (size_t)hidden * sac_dtype_row_bytes(p->activations, hidden)));
        SAC_TRY(sac_place_three(p, &bias, biases, (size_t)hidden * sizeof(float)));
        l->qkv_bias = bias;
        return SAC_OK;
    }
    for (size_t i = 0; i < SAC_COUNT(apart); i++) SAC_TRY(sac_place_weight(p, apart[i]));
    for (size_t i = 0; i < SAC_COUNT(apart); i++) SAC_TRY(sac_place_vector(p, bias_apart[i], hidden));
    return SAC_OK;
}

sac_status sac_clip_place_layer(sac_placer *p, const sac_tower_config *c, sac_clip_layer *l) {
    sac_weight *matrices[] = {&l->o, &l->fc1, &l->fc2};
    const float **vectors[] = {&l->ln1_w,    &l->ln1_b,  &l->ln2_w,  &l->ln2_b,  &l->o_bias,
                               &l->fc2_bias, &l->q_norm, &l->k_norm, &l->scale1, &l->scale2};
    SAC_TRY(place_qkv(p, c->hidden, l));
    for (size_t i = 0; i < SAC_COUNT(matrices); i++) SAC_TRY(sac_place_weight(p, matrices[i]));
    for (size_t i = 0; i < SAC_COUNT(vectors); i++) SAC_TRY(sac_place_vector(p, vectors[i], c->hidden));
    return sac_place_vector(p, &l->fc1_bias, c->intermediate);
}

static void copy_rounded(uint16_t *to, const float *from, int64_t n, sac_dtype type) {
    for (int64_t i = 0; i < n; i++)
        to[i] = type == SAC_DTYPE_F16 ? sac_f32_to_f16(from[i]) : sac_f32_to_bf16(from[i]);
}

/* Rows of 588 halves are not aligned, and the library has no fast kernel for them: zeros behind each. One in f32 is
 * rounded, as positions are: GGUF's converters write it so beside matrices of 16 bits or fewer. */
static sac_status place_patch_embed(sac_placer *p, const sac_tower_config *c, sac_weight *patch_embed) {
    sac_tensor *w = &patch_embed->tensor;
    const bool is_half = p->activations == SAC_DTYPE_F16 || p->activations == SAC_DTYPE_BF16,
               rounds = is_half && patch_embed->format == SAC_WEIGHT_FLOATS && w->dtype == SAC_DTYPE_F32;
    if (!is_one(p, patch_embed) && !rounds)
        return sac_fail(p->err, SAC_UNSUPPORTED, "a patch embedding in %s on a device with activations in %s",
                        sac_weight_name(patch_embed), sac_dtype_name(p->activations));
    size_t row = sac_dtype_row_bytes(p->activations, w->dim[1]);
    size_t aligned = sac_dtype_row_bytes(p->activations, sac_clip_aligned_cols(c));
    uint8_t *rows = calloc((size_t)w->dim[0], aligned);
    if (!rows) return sac_fail(p->err, SAC_NO_MEMORY, "no memory for the vision tower");
    for (int64_t i = 0; i < w->dim[0]; i++) {
        void *to = rows + (size_t)i * aligned;
        if (rounds)
            copy_rounded(to, (const float *)w->data + i * w->dim[1], w->dim[1], p->activations);
        else
            memcpy(to, (const uint8_t *)w->data + (size_t)i * row, row);
    }
    const void *at = rows;
    sac_status st = sac_place_borrowed(p, &at, (size_t)w->dim[0] * aligned);
    if (p->arena.base) *w = (sac_tensor){at, p->activations, 2, {w->dim[0], sac_clip_aligned_cols(c)}};
    free(rows);
    return st;
}

/* Positions in the activations' type; what else a row begins with is added: the class, the bias of a patch. */
static sac_status place_start_rows(sac_placer *p, const sac_tower_config *c, sac_clip_weights *w) {
    size_t hidden = (size_t)c->hidden, n = (size_t)sac_clip_tokens(c) * hidden;
    uint16_t *rows = malloc(n * sizeof *rows);
    if (!rows) return sac_fail(p->err, SAC_NO_MEMORY, "no memory for the vision tower");
    for (size_t i = 0; i < n; i++) {
        float f = w->pos_embed[(size_t)sac_clip_position(c, (int)(i / hidden)) * hidden + i % hidden];
        if (w->class_embed && i < hidden)
            f += w->class_embed[i];
        else if (w->patch_bias)
            f += w->patch_bias[i % hidden];
        rows[i] = p->activations == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
    }
    w->start_rows = rows;
    sac_status st = sac_place_borrowed(p, &w->start_rows, n * sizeof *rows);
    free(rows);
    return st;
}

sac_status sac_clip_place(sac_tower *t, sac_placer *p) {
    const sac_tower_config *c = &t->config;
    sac_clip_weights *w = t->weights;
    sac_clip_layer *layers = t->layers;
    SAC_TRY(place_patch_embed(p, c, &w->patch_embed));
    SAC_TRY(place_start_rows(p, c, w));
    SAC_TRY(sac_place_vector(p, &w->pre_ln_w, c->hidden));
    SAC_TRY(sac_place_vector(p, &w->pre_ln_b, c->hidden));
    SAC_TRY(sac_place_vector(p, &w->final_w, c->hidden));
    SAC_TRY(sac_place_vector(p, &w->final_b, c->hidden));
    for (int i = 0; i < c->n_layers; i++) SAC_TRY(sac_clip_place_layer(p, c, &layers[i]));
    return SAC_OK;
}
