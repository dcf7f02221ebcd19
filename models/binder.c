#include "bind_flags.h"
#include "bind_values.h"
#include "family.h"

#include <stddef.h>

#define PART(name, field, matrix)                                                                            \
    { name, false, matrix, offsetof(sac_decoder, field) }
#define LAYER(field, matrix)                                                                                 \
    { "layer." #field, true, matrix, offsetof(sac_decoder_layer, field) }
/* An MLP beside experts is a layer's MLP, under a name and of a width of its own. */
#define SHARED(field)                                                                                        \
    { "layer.shared_" #field, true, true, offsetof(sac_decoder_layer, field) }
static const sac_weight_slot decoder_slots[] = {
    PART("embed", embed, true),
    PART("head", head, true),
    PART("final_norm", final_norm, false),
    LAYER(attn_norm, false),
    LAYER(attn_post_norm, false),
    LAYER(q, true),
    LAYER(k, true),
    LAYER(v, true),
    LAYER(o, true),
    LAYER(q_bias, false),
    LAYER(k_bias, false),
    LAYER(v_bias, false),
    LAYER(o_bias, false),
    LAYER(q_norm, false),
    LAYER(k_norm, false),
    LAYER(mlp_norm, false),
    LAYER(mlp_post_norm, false),
    LAYER(gate, true),
    LAYER(up, true),
    LAYER(down, true),
    LAYER(router, true),
    LAYER(router_bias, false),
    SHARED(gate),
    SHARED(up),
    SHARED(down),
    LAYER(shared_router, true),
};
/* Of layers whose attention is linear, where a model has any. */
static const sac_weight_slot linear_slots[] = {
    LAYER(linear.qkv, true),
    LAYER(linear.z, true),
    LAYER(linear.a, true),
    LAYER(linear.b, true),
    LAYER(linear.out, true),
    LAYER(linear.conv, false),
    LAYER(linear.a_log, false),
    LAYER(linear.dt_bias, false),
    LAYER(linear.norm, false),
};
/* Of layers whose keys and values are made of latents, where a model has any. */
static const sac_weight_slot latent_slots[] = {
    LAYER(latent.q_a, true),      LAYER(latent.kv_a, true),      LAYER(latent.q_a_bias, false),
    LAYER(latent.kv_a_bias, false), LAYER(latent.q_a_norm, false), LAYER(latent.kv_a_norm, false),
};
#undef PART
#undef LAYER
#undef SHARED

/* Of each expert of each layer: expert e of layer i is number i * experts + e. The table has those of sparse layers alone. */
#define EXPERT(field)                                                                                        \
    { "expert." #field, true, true, offsetof(sac_expert, field) }
static const sac_weight_slot expert_slots[] = {EXPERT(gate), EXPERT(up), EXPERT(down)};
#undef EXPERT

static const sac_weight_slot newline_slots[] = {
    {"image_newline", false, false, offsetof(sac_loaded_model, image_newline)},
};

/* A struct with weights, and where its tensors stand in it. */
typedef struct part {
    const sac_weight_slot *slots;
    int n_slots, n_layers;
    size_t layer_bytes;
    bool is_tower, is_merger; /* its tensors may be in files of their own */
    void *at;                 /* the struct, and its layers'; NULL in the first pass */
    uint8_t *layers;
} part;
enum { DECODER, LINEAR, LATENT, EXPERTS, TOWER, MERGER, NEWLINE, N_PARTS };

/* One binding run, and the arena's need so far. */
typedef struct binder {
    sac_loaded_model *m;
    const sac_model_config *c;
    const sac_bind_source *s;
    sac_error *err;
    sac_tensor_table table;
    sac_value_binder values;
    part parts[N_PARTS];
    bool own_head;
    bool parted;                       /* a tied head that adapters part from the embedding */
    sac_adapted tied_embed, tied_head; /* what they make of the two */
    sac_base_reads reads;              /* empty without adapters */
    int64_t done, total;
} binder;

static void list_parts(binder *b) {
    const sac_model_config *c = b->c;
    const sac_tower_kind *tower = c->tower.kind;
    b->parts[DECODER] = (part){.slots = decoder_slots,
                               .n_slots = (int)SAC_COUNT(decoder_slots),
                               .n_layers = c->decoder.n_layers,
                               .layer_bytes = sizeof(sac_decoder_layer)};
    b->parts[LINEAR] = b->parts[DECODER];
    b->parts[LINEAR].slots = linear_slots;
    b->parts[LINEAR].n_slots = c->decoder.linear.n_heads ? (int)SAC_COUNT(linear_slots) : 0;
    b->parts[LATENT] = b->parts[DECODER];
    b->parts[LATENT].slots = latent_slots;
    b->parts[LATENT].n_slots = c->decoder.latent.kv_rank ? (int)SAC_COUNT(latent_slots) : 0;
    b->parts[EXPERTS] = (part){.slots = expert_slots,
                               .n_slots = c->decoder.experts.n ? (int)SAC_COUNT(expert_slots) : 0,
                               .n_layers = c->decoder.n_layers * c->decoder.experts.n,
                               .layer_bytes = sizeof(sac_expert)};
    if (!c->has_vision) return;
    b->parts[TOWER] = (part){.slots = tower->slots,
                             .n_slots = tower->n_slots,
                             .n_layers = c->tower.n_layers,
                             .layer_bytes = tower->layer_bytes,
                             .is_tower = true};
    b->parts[MERGER] = (part){.slots = c->merger->slots,
                              .n_slots = c->merger->n_slots,
                              .n_layers = c->decoder.n_deep,
                              .layer_bytes = c->merger->layer_bytes,
                              .is_merger = true};
    if (c->image_newline)
        b->parts[NEWLINE] =
            (part){.slots = newline_slots, .n_slots = (int)SAC_COUNT(newline_slots), .is_merger = true};
}

static sac_status open_binder(binder *b, const sac_model_config *c, const sac_bind_source *s,
                              sac_error *err) {
    memset(b, 0, sizeof *b);
    b->c = c;
    b->s = s;
    b->err = err;
    b->values = (sac_value_binder){.source = s, .table = &b->table, .err = err};
    list_parts(b);
    SAC_TRY(sac_tensor_table_init(&b->table, c, err));
    b->table.gguf = s->gguf;
    return SAC_OK;
}

static const sac_checkpoint *checkpoint_of(const binder *b, const part *p) {
    if (p->is_merger && b->s->merger) return b->s->merger;
    return p->is_tower && b->s->tower ? b->s->tower : b->s->weights;
}

static const sac_checkpoint_tensor *find_tensor(const binder *b, const part *p, const sac_spec_tensor *row,
                                                int layer, char name[SAC_TENSOR_NAME_BYTES]) {
    return sac_tensor_table_find(&b->table, row, checkpoint_of(b, p), b->s->gguf, layer, name);
}

static sac_status flag_set(const binder *b, const part *p, const sac_weight_slot *sl,
                           const sac_spec_tensor *row, int layer, bool *out) {
    const int n_each = p == &b->parts[EXPERTS] ? b->c->decoder.experts.n : 1;
    const bool of_decoder = p <= &b->parts[EXPERTS] && sl->in_layer;
    if (sac_bind_flag(b->c, row->when, b->own_head, of_decoder ? layer / n_each : -1, out)) return SAC_OK;
    return sac_fail(b->err, SAC_INTERNAL, "unknown flag \"%s\" of %s", row->when, sl->name);
}

/* What adapters make of a slot. */
static sac_status adapted_slot(const binder *b, const sac_weight_slot *sl, const sac_spec_tensor *row,
                               int layer, sac_adapted *out) {
    const sac_adapted *tied = !strcmp(sl->name, "embed")  ? &b->tied_embed
                              : !strcmp(sl->name, "head") ? &b->tied_head
                                                          : NULL;
    if (!b->parted || !tied)
        return sac_adapted_find(out, b->s->adapters, &b->table, row, b->s->gguf, layer, b->err);
    *out = *tied;
    return SAC_OK;
}

/* struct_at: where the slot's struct is; NULL in the first pass, which only checks and measures. */
static sac_status bind_slot(binder *b, const part *p, const sac_weight_slot *sl, int layer,
                            uint8_t *struct_at) {
    const sac_spec_tensor *row = sac_tensor_table_row(&b->table, sl->name);
    if (!row)
        return sac_fail(b->err, SAC_INTERNAL, "no YAML of %s describes %s", b->c->family->name, sl->name);
    char name[SAC_TENSOR_NAME_BYTES];
    bool wanted;
    sac_adapted adapted;
    SAC_TRY(flag_set(b, p, sl, row, layer, &wanted));
    if (!wanted) return SAC_OK;
    bool is_tied = b->parted && strcmp(sl->name, "head") == 0;
    const sac_spec_tensor *stored = is_tied ? sac_tensor_table_row(&b->table, "embed") : row;
    const sac_checkpoint_tensor *t = find_tensor(b, p, stored, layer, name);
    if (!t) return sac_fail(b->err, SAC_BAD_FILE, "tensor %.200s is missing", name);
    sac_base_reads_add(&b->reads, checkpoint_of(b, p), t);
    SAC_TRY(adapted_slot(b, sl, row, layer, &adapted));
    if (adapted.replacement) t = adapted.replacement;
    SAC_TRY(sac_tensor_table_check(&b->table, row, b->s->gguf, t, b->err));
    sac_checkpoint_tensor rows;
    if (row->within.n && !sl->is_matrix) {
        SAC_TRY(sac_tensor_table_part(&b->table, row, t, &rows, b->err));
        t = &rows;
    }
    b->done++;
    if (b->values.arena && b->s->progress) b->s->progress(b->s->progress_ctx, b->done, b->total);
    void *to = struct_at ? struct_at + sl->offset : NULL;
    return sl->is_matrix ? sac_bind_matrix(&b->values, checkpoint_of(b, p), row, t, &adapted, to)
                         : sac_bind_vector(&b->values, row, t, &adapted, to);
}

/* The struct of a part's layer; NULL in the first pass, and for an expert of a layer that has its MLP. */
static uint8_t *layer_at(const binder *b, const part *p, int layer) {
    if (!p->layers) return NULL;
    if (p != &b->parts[EXPERTS]) return p->layers + (size_t)layer * p->layer_bytes;
    const int n = b->c->decoder.experts.n;
    const sac_expert *first = b->m->decoder.layers[layer / n].experts;
    if (!first) return NULL;
    const ptrdiff_t i = first - (const sac_expert *)(const void *)p->layers + layer % n;
    return p->layers + (size_t)i * p->layer_bytes;
}

/* Every slot of every layer, once. */
static sac_status bind_all(binder *b) {
    b->done = 0;
    for (const part *p = b->parts; p < b->parts + N_PARTS; p++)
        for (int i = 0; i < p->n_slots; i++) {
            const sac_weight_slot *sl = &p->slots[i];
            for (int layer = 0; layer < (sl->in_layer ? p->n_layers : 1); layer++) {
                uint8_t *at = sl->in_layer ? layer_at(b, p, layer) : p->at;
                sac_status st = bind_slot(b, p, sl, layer, at);
                const sac_checkpoint *of = checkpoint_of(b, p);
                if (st != SAC_OK && of != b->s->weights && of->n_files)
                    return sac_fail_prefix(b->err, st, "%s", of->files[0].path);
                SAC_TRY(st);
            }
        }
    return SAC_OK;
}

/* A zeroed table out of the arena, or, before that is open, its size. */
static sac_status take_table(binder *b, size_t n_bytes, void **out) {
    if (!b->m->arena.base) {
        b->values.n_bytes += sac_arena_block_bytes(n_bytes);
        return SAC_OK;
    }
    *out = sac_arena_take(&b->m->arena, n_bytes);
    if (!*out) return sac_fail(b->err, SAC_INTERNAL, "the model's arena is too small for its layers");
    memset(*out, 0, n_bytes);
    return SAC_OK;
}

static size_t layers_bytes(const part *p) {
    return (size_t)p->n_layers * p->layer_bytes;
}

static sac_status take_tables(binder *b) {
    const sac_model_config *c = b->c;
    sac_loaded_model *m = b->m;
    void *layers = NULL;
    SAC_TRY(take_table(b, layers_bytes(&b->parts[DECODER]), &layers));
    m->decoder.layers = layers;
    SAC_TRY(take_table(b, sac_decoder_n_experts(&c->decoder) * sizeof(sac_expert), &layers));
    b->parts[EXPERTS].layers = layers;
    if (!c->has_vision) return SAC_OK;
    SAC_TRY(take_table(b, c->tower.kind->weights_bytes, &m->tower.weights));
    SAC_TRY(take_table(b, layers_bytes(&b->parts[TOWER]), &m->tower.layers));
    SAC_TRY(take_table(b, layers_bytes(&b->parts[MERGER]), &m->merger.layers));
    return take_table(b, c->merger->weights_bytes, &m->merger.weights);
}

static void point_parts(binder *b) {
    sac_loaded_model *m = b->m;
    b->parts[DECODER].at = &m->decoder;
    b->parts[DECODER].layers = b->parts[LINEAR].layers = b->parts[LATENT].layers = (uint8_t *)m->decoder.layers;
    const sac_expert *next = (sac_expert *)(void *)b->parts[EXPERTS].layers;
    for (int i = 0; i < b->c->decoder.n_layers; i++)
        if (sac_decoder_is_sparse(&b->c->decoder, i)) {
            m->decoder.layers[i].experts = next;
            next += b->c->decoder.experts.n;
        }
    b->parts[TOWER].at = m->tower.weights;
    b->parts[TOWER].layers = m->tower.layers;
    b->parts[MERGER].at = m->merger.weights;
    b->parts[MERGER].layers = m->merger.layers;
    b->parts[NEWLINE].at = m;
}

static void fill_configs(binder *b) {
    sac_loaded_model *m = b->m;
    m->decoder.config = b->c->decoder;
    m->decoder.config.tied_head = !b->own_head;
    m->has_vision = b->c->has_vision;
    m->image_token = b->c->image_token;
    m->video_token = b->c->video_token < 0 ? b->c->image_token : b->c->video_token;
    m->video_newline = b->c->video_newline;
    m->time_instruction = b->c->time_instruction;
    m->vision_start = b->c->vision_start;
    m->vision_end = b->c->vision_end;
    m->tokens_per_second = b->c->tokens_per_second;
    m->video_fps = b->c->video_fps;
    m->positions = b->c->family->positions;
    m->tower.config = b->c->tower;
    if (b->c->has_vision) m->merger = sac_model_config_merger(b->c);
}

/* A newline is one of the rows that the merger makes. */
static void scale_newline(const binder *b) {
    const float scale = b->c->merger_scale;
    float *newline = (float *)(uintptr_t)b->m->image_newline;
    for (int i = 0; newline && scale > 0 && i < b->c->decoder.hidden; i++) newline[i] *= scale;
}

/* Embedding and head are one tensor of the files: one that replaces it replaces both, unless it is a module's own copy;
 * products, and copies, are of one of the two, which then part. */
static sac_status part_head(binder *b) {
    sac_adapted *e = &b->tied_embed, *h = &b->tied_head;
    const sac_spec_tensor *embed = sac_tensor_table_row(&b->table, "embed");
    const sac_spec_tensor *head = sac_tensor_table_row(&b->table, "head");
    if (!embed || !head) return SAC_OK;
    SAC_TRY(sac_adapted_check_tied(b->s->adapters, &b->table, embed, head, b->s->gguf, b->err));
    SAC_TRY(sac_adapted_find(e, b->s->adapters, &b->table, embed, b->s->gguf, 0, b->err));
    SAC_TRY(sac_adapted_find(h, b->s->adapters, &b->table, head, b->s->gguf, 0, b->err));
    const sac_checkpoint_tensor *shared = e->replacement && !e->is_own   ? e->replacement
                                          : h->replacement && !h->is_own ? h->replacement
                                                                         : NULL;
    if (!e->is_own) e->replacement = shared;
    if (!h->is_own) h->replacement = shared;
    b->parted = true;
    b->own_head = e->n_loras || h->n_loras || e->replacement != h->replacement;
    return SAC_OK;
}

/* A head of its own if the checkpoint has one (transformers 5 decides so too, whatever the config says). */
static sac_status decide_head(binder *b) {
    SAC_TRY(sac_bind_has(&b->own_head, b->c, b->s, "head", b->err));
    if (!b->own_head && !b->c->tied_head && !b->s->gguf)
        return sac_fail(b->err, SAC_BAD_FILE,
                        "tensor lm_head.weight is missing, and \"tie_word_embeddings\" is false");
    return b->own_head || !b->s->adapters ? SAC_OK : part_head(b);
}

static sac_status bind_with(binder *b) {
    const sac_adapters *adapters = b->s->adapters;
    if (adapters) SAC_TRY(sac_base_reads_open(&b->reads, b->s->weights, b->s->tower, b->err));
    SAC_TRY(decide_head(b));
    SAC_TRY(bind_all(b));
    if (adapters) SAC_TRY(sac_adapted_check_used(adapters, &b->table, &b->reads, b->err));
    b->total = b->done;
    fill_configs(b);
    SAC_TRY(take_tables(b));
    SAC_TRY(sac_arena_open(&b->m->arena, b->values.n_bytes, b->err));
    SAC_TRY(take_tables(b));
    point_parts(b);
    b->values.arena = &b->m->arena;
    SAC_TRY(bind_all(b));
    scale_newline(b);
    if (!b->own_head) b->m->decoder.head = b->m->decoder.embed;
    return SAC_OK;
}

sac_status sac_bind_model(sac_loaded_model *m, const sac_model_config *c, const sac_bind_source *s,
                          sac_error *err) {
    binder b;
    sac_status st = open_binder(&b, c, s, err);
    b.m = m;
    if (st == SAC_OK) st = bind_with(&b);
    sac_base_reads_close(&b.reads);
    return st;
}

static bool has_slot(const sac_weight_slot *slots, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (strcmp(slots[i].name, name) == 0) return true;
    return false;
}

sac_status sac_bind_has(bool *out, const sac_model_config *c, const sac_bind_source *s, const char *slot_name,
                        sac_error *err) {
    binder b;
    *out = false;
    sac_status st = open_binder(&b, c, s, err);
    const sac_spec_tensor *row = st == SAC_OK ? sac_tensor_table_row(&b.table, slot_name) : NULL;
    char name[SAC_TENSOR_NAME_BYTES];
    for (const part *p = b.parts; row && p < b.parts + N_PARTS; p++)
        if (has_slot(p->slots, p->n_slots, slot_name)) *out = find_tensor(&b, p, row, 0, name) != NULL;
    return st;
}

static bool is_known(const char *slot) {
#define X(name) has_slot(sac_tower_##name.slots, sac_tower_##name.n_slots, slot) ||
    bool in_tower = SAC_TOWERS(X) false;
#undef X
#define X(name) has_slot(sac_merger_##name.slots, sac_merger_##name.n_slots, slot) ||
    bool in_merger = SAC_MERGERS(X) false;
#undef X
    return in_tower || in_merger || has_slot(expert_slots, (int)SAC_COUNT(expert_slots), slot) ||
           has_slot(linear_slots, (int)SAC_COUNT(linear_slots), slot) ||
           has_slot(latent_slots, (int)SAC_COUNT(latent_slots), slot) ||
           has_slot(decoder_slots, (int)SAC_COUNT(decoder_slots), slot) ||
           has_slot(newline_slots, (int)SAC_COUNT(newline_slots), slot);
}

sac_status sac_bind_check_spec(const char *family, sac_error *err) {
    const sac_family_spec *spec;
    SAC_TRY(sac_family_spec_find(&spec, family, err));
    for (int k = 0; k < spec->n_tensors; k++)
        if (!is_known(spec->tensors[k].slot))
            return sac_fail(err, SAC_BAD_CONFIG, "%s.yaml: no such slot: %s", family, spec->tensors[k].slot);
    return SAC_OK;
}
