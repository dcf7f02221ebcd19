#include "binder.h"

#include "family.h"
#include "tensor_table.h"

#include <stddef.h>

typedef enum slot_part { DECODER, DECODER_LAYER, TOWER, TOWER_LAYER, PROJECTOR, NEWLINE } slot_part;

/* Where a tensor of the YAML goes. A matrix is a sac_tensor, a vector a const float *. */
typedef struct slot {
    const char *name;
    slot_part part;
    bool matrix;
    size_t offset;
} slot;

static const slot slots[] = {
    {"embed", DECODER, true, offsetof(sac_decoder, embed)},
    {"head", DECODER, true, offsetof(sac_decoder, head)},
    {"final_norm", DECODER, false, offsetof(sac_decoder, final_norm)},
    {"layer.attn_norm", DECODER_LAYER, false, offsetof(sac_decoder_layer, attn_norm)},
    {"layer.q", DECODER_LAYER, true, offsetof(sac_decoder_layer, q)},
    {"layer.k", DECODER_LAYER, true, offsetof(sac_decoder_layer, k)},
    {"layer.v", DECODER_LAYER, true, offsetof(sac_decoder_layer, v)},
    {"layer.o", DECODER_LAYER, true, offsetof(sac_decoder_layer, o)},
    {"layer.q_bias", DECODER_LAYER, false, offsetof(sac_decoder_layer, q_bias)},
    {"layer.k_bias", DECODER_LAYER, false, offsetof(sac_decoder_layer, k_bias)},
    {"layer.v_bias", DECODER_LAYER, false, offsetof(sac_decoder_layer, v_bias)},
    {"layer.o_bias", DECODER_LAYER, false, offsetof(sac_decoder_layer, o_bias)},
    {"layer.mlp_norm", DECODER_LAYER, false, offsetof(sac_decoder_layer, mlp_norm)},
    {"layer.gate", DECODER_LAYER, true, offsetof(sac_decoder_layer, gate)},
    {"layer.up", DECODER_LAYER, true, offsetof(sac_decoder_layer, up)},
    {"layer.down", DECODER_LAYER, true, offsetof(sac_decoder_layer, down)},
    {"tower.patch_embed", TOWER, true, offsetof(sac_vit, patch_embed)},
    {"tower.class_embed", TOWER, false, offsetof(sac_vit, class_embed)},
    {"tower.pos_embed", TOWER, false, offsetof(sac_vit, pos_embed)},
    {"tower.pre_ln_w", TOWER, false, offsetof(sac_vit, pre_ln_w)},
    {"tower.pre_ln_b", TOWER, false, offsetof(sac_vit, pre_ln_b)},
    {"tower.layer.ln1_w", TOWER_LAYER, false, offsetof(sac_vit_layer, ln1_w)},
    {"tower.layer.ln1_b", TOWER_LAYER, false, offsetof(sac_vit_layer, ln1_b)},
    {"tower.layer.q", TOWER_LAYER, true, offsetof(sac_vit_layer, q)},
    {"tower.layer.k", TOWER_LAYER, true, offsetof(sac_vit_layer, k)},
    {"tower.layer.v", TOWER_LAYER, true, offsetof(sac_vit_layer, v)},
    {"tower.layer.o", TOWER_LAYER, true, offsetof(sac_vit_layer, o)},
    {"tower.layer.q_bias", TOWER_LAYER, false, offsetof(sac_vit_layer, q_bias)},
    {"tower.layer.k_bias", TOWER_LAYER, false, offsetof(sac_vit_layer, k_bias)},
    {"tower.layer.v_bias", TOWER_LAYER, false, offsetof(sac_vit_layer, v_bias)},
    {"tower.layer.o_bias", TOWER_LAYER, false, offsetof(sac_vit_layer, o_bias)},
    {"tower.layer.ln2_w", TOWER_LAYER, false, offsetof(sac_vit_layer, ln2_w)},
    {"tower.layer.ln2_b", TOWER_LAYER, false, offsetof(sac_vit_layer, ln2_b)},
    {"tower.layer.fc1", TOWER_LAYER, true, offsetof(sac_vit_layer, fc1)},
    {"tower.layer.fc1_bias", TOWER_LAYER, false, offsetof(sac_vit_layer, fc1_bias)},
    {"tower.layer.fc2", TOWER_LAYER, true, offsetof(sac_vit_layer, fc2)},
    {"tower.layer.fc2_bias", TOWER_LAYER, false, offsetof(sac_vit_layer, fc2_bias)},
    {"projector.fc1", PROJECTOR, true, offsetof(sac_projector, fc1)},
    {"projector.fc1_bias", PROJECTOR, false, offsetof(sac_projector, fc1_bias)},
    {"projector.fc2", PROJECTOR, true, offsetof(sac_projector, fc2)},
    {"projector.fc2_bias", PROJECTOR, false, offsetof(sac_projector, fc2_bias)},
    {"image_newline", NEWLINE, false, offsetof(sac_loaded_model, image_newline)},
};

/* One binding run, and the arena's need so far. */
typedef struct binder {
    sac_loaded_model *m;
    const sac_model_config *c;
    const sac_bind_source *s;
    sac_error *err;
    sac_tensor_table table;
    bool own_head;
    bool fill; /* second pass */
    size_t arena_bytes;
    int64_t done, total;
} binder;

static sac_status open_binder(binder *b, const sac_model_config *c, const sac_bind_source *s,
                              sac_error *err) {
    memset(b, 0, sizeof *b);
    b->c = c;
    b->s = s;
    b->err = err;
    return sac_tensor_table_open(&b->table, c, err);
}

static const sac_checkpoint_tensor *find_tensor(const binder *b, const slot *sl, const sac_spec_tensor *row,
                                                int layer, char name[SAC_TENSOR_NAME_BYTES]) {
    bool tower = sl->part == TOWER || sl->part == TOWER_LAYER;
    const sac_checkpoint *ck = tower && b->s->tower ? b->s->tower : b->s->weights;
    return sac_tensor_table_find(&b->table, row, ck, b->s->gguf, layer, name);
}

/* ---- values ---- */

/* Bytes at which an element, or a block's f16 scale, must be aligned to be read directly. */
static size_t natural_alignment(int dtype) {
    return dtype == SAC_DTYPE_F32 ? 4 : 2;
}

static int64_t count(const sac_checkpoint_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= t->dim[i];
    return n;
}

static void to_f32(float *out, const sac_checkpoint_tensor *t, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        if (t->dtype == SAC_DTYPE_F32)
            memcpy(&out[i], t->data + 4 * i, 4);
        else {
            memcpy(&h, t->data + 2 * i, 2);
            out[i] = t->dtype == SAC_DTYPE_F16 ? sac_f16_to_f32(h) : sac_bf16_to_f32(h);
        }
    }
}

static sac_status bind_vector(binder *b, const sac_checkpoint_tensor *t, const float **out) {
    if (t->dtype != SAC_DTYPE_F32 && t->dtype != SAC_DTYPE_F16 && t->dtype != SAC_DTYPE_BF16)
        return sac_fail(b->err, SAC_UNSUPPORTED, "tensor %.100s is %s; f32, f16 or bf16 is needed here",
                        t->name, t->dtype_name);
    int64_t n = count(t);
    if (!b->fill) {
        b->arena_bytes += sac_arena_block_bytes((size_t)n * sizeof(float));
        return SAC_OK;
    }
    float *values = sac_arena_take(&b->m->arena, (size_t)n * sizeof(float));
    if (!values) return sac_fail(b->err, SAC_INTERNAL, "the model's arena is too small for %.100s", t->name);
    to_f32(values, t, n);
    *out = values;
    return SAC_OK;
}

static sac_status bind_matrix(binder *b, const sac_checkpoint_tensor *t, sac_tensor *out) {
    if (t->dtype < 0)
        return sac_fail(b->err, SAC_UNSUPPORTED,
                        "tensor %.100s is %s, a type that cannot be computed with here", t->name,
                        t->dtype_name);
    const uint8_t *data = t->data;
    if ((uintptr_t)data % natural_alignment(t->dtype) != 0) {
        if (!b->fill) {
            b->arena_bytes += sac_arena_block_bytes(t->n_bytes);
            return SAC_OK;
        }
        uint8_t *copy = sac_arena_take(&b->m->arena, t->n_bytes);
        if (!copy)
            return sac_fail(b->err, SAC_INTERNAL, "the model's arena is too small for %.100s", t->name);
        memcpy(copy, t->data, t->n_bytes);
        data = copy;
    }
    if (!b->fill) return SAC_OK;
    *out = (sac_tensor){.data = data, .dtype = (sac_dtype)t->dtype, .n_dims = 2, .dim = {t->dim[0], 1}};
    for (int i = 1; i < t->n_dims; i++) out->dim[1] *= t->dim[i]; /* the patch convolution is a linear map */
    return SAC_OK;
}

/* ---- slots ---- */

static sac_status flag_set(const binder *b, const slot *sl, const sac_spec_tensor *row, bool *out) {
    *out = true;
    if (!row->when) return SAC_OK;
    const struct {
        const char *name;
        bool set;
    } flags[] = {
        {"untied", b->own_head},          {"qkv_bias", b->c->qkv_bias},
        {"o_bias", b->c->o_bias},         {"projector_bias", b->c->projector_bias},
        {"newline", b->c->image_newline},
    };
    for (size_t i = 0; i < SAC_COUNT(flags); i++)
        if (strcmp(row->when, flags[i].name) == 0) {
            *out = flags[i].set;
            return SAC_OK;
        }
    return sac_fail(b->err, SAC_INTERNAL, "unknown flag \"%s\" of %s", row->when, sl->name);
}

static sac_status bind_slot(binder *b, const slot *sl, int layer, void *part) {
    const sac_spec_tensor *row = sac_tensor_table_row(&b->table, sl->name);
    if (!row)
        return sac_fail(b->err, SAC_INTERNAL, "no YAML of %s describes %s", b->c->family->name, sl->name);
    char name[SAC_TENSOR_NAME_BYTES];
    bool wanted;
    SAC_TRY(flag_set(b, sl, row, &wanted));
    if (!wanted) return SAC_OK;
    const sac_checkpoint_tensor *t = find_tensor(b, sl, row, layer, name);
    if (!t) return sac_fail(b->err, SAC_BAD_FILE, "tensor %.200s is missing", name);
    SAC_TRY(sac_tensor_table_check(&b->table, row, t, b->err));
    b->done++;
    if (b->fill && b->s->progress) b->s->progress(b->s->progress_ctx, b->done, b->total);
    uint8_t *at = (uint8_t *)part + sl->offset;
    return sl->matrix ? bind_matrix(b, t, (sac_tensor *)(void *)at)
                      : bind_vector(b, t, (const float **)(void *)at);
}

static int n_layers_of(const binder *b, slot_part part) {
    if (part == DECODER_LAYER) return b->c->decoder.n_layers;
    return part == TOWER_LAYER ? b->c->vit.n_layers : 1;
}

static void *part_address(const binder *b, slot_part part, int layer) {
    switch (part) {
    case DECODER: return &b->m->decoder;
    case DECODER_LAYER: return b->m->decoder.layers ? &b->m->decoder.layers[layer] : NULL;
    case TOWER: return &b->m->vit;
    case TOWER_LAYER: return b->m->vit.layers ? &b->m->vit.layers[layer] : NULL;
    case PROJECTOR: return &b->m->projector;
    case NEWLINE: return b->m;
    }
    return NULL;
}

/* Every slot of every layer, once; in the first pass nothing is written, only checked and measured. */
static sac_status bind_all(binder *b) {
    b->done = 0;
    sac_loaded_model scratch = {0}; /* the first pass has no tables to point into */
    sac_decoder_layer decoder_layer;
    sac_vit_layer vit_layer;
    for (size_t i = 0; i < SAC_COUNT(slots); i++) {
        const slot *sl = &slots[i];
        if (sl->part >= TOWER && !b->c->has_vision) continue;
        if (sl->part == NEWLINE && !b->c->image_newline) continue;
        for (int layer = 0; layer < n_layers_of(b, sl->part); layer++) {
            void *part = b->fill                     ? part_address(b, sl->part, layer)
                         : sl->part == DECODER_LAYER ? (void *)&decoder_layer
                         : sl->part == TOWER_LAYER   ? (void *)&vit_layer
                                                     : (void *)&scratch;
            SAC_TRY(bind_slot(b, sl, layer, part));
        }
    }
    return SAC_OK;
}

static sac_status take_tables(binder *b) {
    const sac_model_config *c = b->c;
    size_t decoder_bytes = (size_t)c->decoder.n_layers * sizeof(sac_decoder_layer);
    size_t vit_bytes = c->has_vision ? (size_t)c->vit.n_layers * sizeof(sac_vit_layer) : 0;
    b->arena_bytes += sac_arena_block_bytes(decoder_bytes) + sac_arena_block_bytes(vit_bytes);
    SAC_TRY(sac_arena_open(&b->m->arena, b->arena_bytes, b->err));
    b->m->decoder.layers = sac_arena_take(&b->m->arena, decoder_bytes);
    b->m->vit.layers = sac_arena_take(&b->m->arena, vit_bytes);
    if (!b->m->decoder.layers || !b->m->vit.layers)
        return sac_fail(b->err, SAC_INTERNAL, "the model's arena is too small for its layers");
    memset(b->m->decoder.layers, 0, decoder_bytes);
    memset(b->m->vit.layers, 0, vit_bytes);
    return SAC_OK;
}

static void fill_configs(binder *b) {
    sac_loaded_model *m = b->m;
    m->decoder.config = b->c->decoder;
    m->decoder.config.tied_head = !b->own_head;
    m->has_vision = b->c->has_vision;
    m->image_token = b->c->image_token;
    m->positions = b->c->family->positions;
    m->vit.config = b->c->vit;
    if (b->c->has_vision)
        m->projector = (sac_projector){.in = sac_vit_cols(&b->c->vit),
                                       .hidden = b->c->decoder.hidden,
                                       .out = b->c->decoder.hidden,
                                       .act = b->c->projector_act};
}

/* A head of its own if the checkpoint has one (transformers 5 decides so too, whatever the config says). */
static sac_status decide_head(binder *b) {
    SAC_TRY(sac_bind_has(&b->own_head, b->c, b->s, "head", b->err));
    if (b->own_head || b->c->tied_head || b->s->gguf) return SAC_OK;
    return sac_fail(b->err, SAC_BAD_FILE,
                    "tensor lm_head.weight is missing, and \"tie_word_embeddings\" is false");
}

static sac_status bind_with(binder *b) {
    SAC_TRY(decide_head(b));
    SAC_TRY(bind_all(b));
    b->total = b->done;
    SAC_TRY(take_tables(b));
    fill_configs(b);
    b->fill = true;
    SAC_TRY(bind_all(b));
    if (!b->own_head) b->m->decoder.head = b->m->decoder.embed;
    return SAC_OK;
}

sac_status sac_bind_model(sac_loaded_model *m, const sac_model_config *c, const sac_bind_source *s,
                          sac_error *err) {
    binder b;
    sac_status st = open_binder(&b, c, s, err);
    b.m = m;
    if (st == SAC_OK) st = bind_with(&b);
    sac_tensor_table_close(&b.table);
    return st;
}

sac_status sac_bind_has(bool *out, const sac_model_config *c, const sac_bind_source *s, const char *slot_name,
                        sac_error *err) {
    binder b;
    *out = false;
    sac_status st = open_binder(&b, c, s, err);
    const sac_spec_tensor *row = st == SAC_OK ? sac_tensor_table_row(&b.table, slot_name) : NULL;
    char name[SAC_TENSOR_NAME_BYTES];
    for (size_t i = 0; row && i < SAC_COUNT(slots); i++)
        if (strcmp(slots[i].name, slot_name) == 0) *out = find_tensor(&b, &slots[i], row, 0, name) != NULL;
    sac_tensor_table_close(&b.table);
    return st;
}

sac_status sac_bind_check_spec(const char *family, sac_error *err) {
    sac_family_spec spec;
    SAC_TRY(sac_family_spec_open(&spec, family, err));
    sac_status st = SAC_OK;
    for (int k = 0; k < spec.n_tensors && st == SAC_OK; k++) {
        size_t i = 0;
        while (i < SAC_COUNT(slots) && strcmp(slots[i].name, spec.tensors[k].slot) != 0) i++;
        if (i == SAC_COUNT(slots))
            st = sac_fail(err, SAC_BAD_CONFIG, "models/%s.yaml: no such slot: %s", family,
                          spec.tensors[k].slot);
    }
    sac_family_spec_free(&spec);
    return st;
}
