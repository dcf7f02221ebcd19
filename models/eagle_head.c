#include "eagle_head.h"

#include "safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096

/* Values are bound twice: first only checked, and their bytes counted. */
typedef struct binder {
    const sac_checkpoint *files;
    sac_arena *arena;
    const char *layer; /* how names of the layer's tensors begin */
    bool counts;
    sac_error *err;
} binder;

static sac_status take(const binder *b, const char *name, size_t n_bytes, void **out) {
    *out = sac_arena_take(b->arena, n_bytes);
    if (*out || b->counts) return SAC_OK;
    return sac_fail(b->err, SAC_INTERNAL, "the head's arena is too small for %.100s", name);
}

/* *out is NULL where there is none. */
static sac_status find(const binder *b, const char *name, int64_t rows, int64_t cols,
                       const sac_checkpoint_tensor **out) {
    const int64_t want[2] = {rows, cols};
    const int n_dims = cols ? 2 : 1;
    char is[SAC_SHAPE_TEXT], wanted[SAC_SHAPE_TEXT];
    const sac_checkpoint_tensor *t = *out = sac_checkpoint_find(b->files, name);
    if (!t) return SAC_OK;
    if (t->n_dims != n_dims || memcmp(t->dim, want, (size_t)n_dims * sizeof *want) != 0)
        return sac_fail(b->err, SAC_BAD_FILE, "tensor %.100s has shape %s, not %s", name,
                        sac_shape_text(is, t->dim, t->n_dims), sac_shape_text(wanted, want, n_dims));
    return SAC_OK;
}

static sac_status find_floats(const binder *b, const char *name, int64_t rows, int64_t cols, bool may_lack,
                              const sac_checkpoint_tensor **out) {
    SAC_TRY(find(b, name, rows, cols, out));
    const sac_checkpoint_tensor *t = *out;
    if (!t) return may_lack ? SAC_OK : sac_fail(b->err, SAC_BAD_FILE, "no tensor %.100s", name);
    if (t->dtype == SAC_DTYPE_F32 || t->dtype == SAC_DTYPE_F16 || t->dtype == SAC_DTYPE_BF16) return SAC_OK;
    return sac_fail(b->err, SAC_UNSUPPORTED, "tensor %.100s is %s; f32, f16 or bf16 is needed", name,
                    t->dtype_name);
}

/* n numbers in f32. */
static sac_status bind_vector(const binder *b, const char *name, int64_t n, const float **out) {
    const sac_checkpoint_tensor *t;
    void *values;
    SAC_TRY(find_floats(b, name, n, 0, false, &t));
    SAC_TRY(take(b, name, (size_t)n * sizeof(float), &values));
    if (values) sac_checkpoint_to_f32(values, t, n);
    *out = values;
    return SAC_OK;
}

/* Where it is mapped, unless it lies at an address that its type may not have. */
static sac_status bind_matrix(const binder *b, const char *name, int64_t rows, int64_t cols, bool may_lack,
                              sac_weight *out) {
    const sac_checkpoint_tensor *t;
    SAC_TRY(find_floats(b, name, rows, cols, may_lack, &t));
    if (!t) return SAC_OK;
    *out = sac_weight_of((sac_tensor){t->data, (sac_dtype)t->dtype, 2, {rows, cols}});
    if ((uintptr_t)t->data % (t->dtype == SAC_DTYPE_F32 ? 4 : 2) == 0) return SAC_OK;
    void *copy;
    SAC_TRY(take(b, name, t->n_bytes, &copy));
    if (copy) memcpy(copy, t->data, t->n_bytes);
    out->tensor.data = copy;
    return SAC_OK;
}

/* One that there is or is not, as the configuration says. */
static sac_status bind_vector_if(const binder *b, bool is_there, const char *name, int64_t n,
                                 const float **out) {
    if (is_there) return bind_vector(b, name, n, out);
    if (!sac_checkpoint_find(b->files, name)) return SAC_OK;
    return sac_fail(b->err, SAC_BAD_FILE, "tensor %.100s, which a head of this config.json has not", name);
}

typedef char tensor_name[120];

static const char *layer_name(const binder *b, tensor_name text, const char *part, const char *end) {
    snprintf(text, sizeof(tensor_name), "%s%s%s", b->layer, part, end);
    return text;
}

/* A product of the layer, and its bias where it has one. */
static sac_status bind_product(const binder *b, const char *part, int64_t rows, int64_t cols, sac_weight *w,
                               bool has_bias, const float **bias) {
    tensor_name name;
    SAC_TRY(bind_matrix(b, layer_name(b, name, part, ".weight"), rows, cols, false, w));
    return bias ? bind_vector_if(b, has_bias, layer_name(b, name, part, ".bias"), rows, bias) : SAC_OK;
}

static sac_status bind_layer(const binder *b, sac_eagle *e) {
    const sac_decoder_config *c = &e->config.layer;
    const int64_t hidden = c->hidden, q = (int64_t)c->n_heads * c->head_dim,
                  kv = (int64_t)c->n_kv_heads * c->head_dim;
    sac_decoder_layer *w = &e->layer;
    tensor_name name;
    SAC_TRY(bind_vector(b, layer_name(b, name, "input_layernorm", ".weight"), hidden, &e->embed_norm));
    SAC_TRY(bind_vector(b, layer_name(b, name, "hidden_norm", ".weight"), hidden, &e->hidden_norm));
    SAC_TRY(bind_vector(b, layer_name(b, name, "post_attention_layernorm", ".weight"), hidden, &w->mlp_norm));
    SAC_TRY(bind_vector_if(b, e->config.qk_norm, layer_name(b, name, "self_attn.q_norm", ".weight"),
                           c->head_dim, &w->q_norm));
    SAC_TRY(bind_vector_if(b, e->config.qk_norm, layer_name(b, name, "self_attn.k_norm", ".weight"),
                           c->head_dim, &w->k_norm));
    SAC_TRY(bind_product(b, "self_attn.q_proj", q, 2 * hidden, &w->q, e->config.attention_bias, &w->q_bias));
    SAC_TRY(bind_product(b, "self_attn.k_proj", kv, 2 * hidden, &w->k, e->config.attention_bias, &w->k_bias));
    SAC_TRY(bind_product(b, "self_attn.v_proj", kv, 2 * hidden, &w->v, e->config.attention_bias, &w->v_bias));
    SAC_TRY(bind_product(b, "self_attn.o_proj", hidden, q, &w->o, e->config.attention_bias, &w->o_bias));
    SAC_TRY(bind_product(b, "mlp.gate_proj", c->intermediate, hidden, &w->gate, false, NULL));
    SAC_TRY(bind_product(b, "mlp.up_proj", c->intermediate, hidden, &w->up, false, NULL));
    return bind_product(b, "mlp.down_proj", hidden, c->intermediate, &w->down, false, NULL);
}

/* Of the norms before fc, one of the three rows together or one of each, which are kept side by side. */
static sac_status bind_fc_norm(const binder *b, sac_eagle *e) {
    const int64_t one = e->config.target_hidden;
    void *all;
    if (e->config.norm_before_fc)
        return bind_vector(b, "input_norm.weight", SAC_LAYER_ROWS * one, &e->fc_norm);
    if (!e->config.fc_norm) return SAC_OK;
    SAC_TRY(take(b, "fc_norm", (size_t)(SAC_LAYER_ROWS * one) * sizeof(float), &all));
    for (int i = 0; i < SAC_LAYER_ROWS; i++) {
        char name[32];
        const sac_checkpoint_tensor *t;
        snprintf(name, sizeof name, "fc_norm.%d.weight", i);
        SAC_TRY(find_floats(b, name, one, 0, false, &t));
        if (all) sac_checkpoint_to_f32((float *)all + i * one, t, one);
    }
    e->fc_norm = all;
    return SAC_OK;
}

/* d2t: what is to be added to a number of the head's for the model's id. */
static sac_status bind_ids(const binder *b, sac_eagle *e) {
    const int64_t n = e->config.n_draft, vocab = e->config.layer.vocab;
    const sac_checkpoint_tensor *t;
    void *ids;
    SAC_TRY(find(b, "t2d", vocab, 0, &t));
    SAC_TRY(find(b, "d2t", n, 0, &t));
    const bool is_long = t && !strcmp(t->dtype_name, "i64");
    if (!t && n != vocab)
        return sac_fail(b->err, SAC_BAD_FILE,
                        "no tensor d2t, and the head drafts %lld of the model's %lld tokens", (long long)n,
                        (long long)vocab);
    if (t && !is_long && t->dtype != SAC_DTYPE_I32)
        return sac_fail(b->err, SAC_UNSUPPORTED, "tensor d2t is %s; i64 is needed", t->dtype_name);
    SAC_TRY(take(b, "d2t", (size_t)n * sizeof(int32_t), &ids));
    for (int64_t i = 0; i < n; i++) {
        int64_t add = 0;
        int32_t less = 0;
        if (is_long)
            memcpy(&add, t->data + 8 * i, sizeof add);
        else if (t)
            memcpy(&less, t->data + 4 * i, sizeof less), add = less;
        if (add < -i || add >= vocab - i)
            return sac_fail(b->err, SAC_BAD_FILE,
                            "tensor d2t: element %lld is %lld, behind it no token of the model's %lld",
                            (long long)i, (long long)add, (long long)vocab);
        if (ids) ((int32_t *)ids)[i] = (int32_t)(i + add);
    }
    e->to_model = ids;
    return SAC_OK;
}

static sac_status bind_all(const binder *b, sac_eagle *e, const sac_decoder *of) {
    const int64_t hidden = e->config.layer.hidden;
    SAC_TRY(bind_matrix(b, "fc.weight", hidden, SAC_LAYER_ROWS * (int64_t)e->config.target_hidden, false,
                        &e->fc));
    SAC_TRY(bind_fc_norm(b, e));
    SAC_TRY(bind_layer(b, e));
    SAC_TRY(bind_vector(b, "norm.weight", hidden, &e->norm));
    SAC_TRY(bind_matrix(b, "lm_head.weight", e->config.n_draft, hidden, false, &e->head));
    SAC_TRY(bind_matrix(b, "embed_tokens.weight", e->config.layer.vocab, hidden, true, &e->embed));
    if (!e->embed.tensor.dim[0] && hidden != of->config.hidden)
        return sac_fail(
            b->err, SAC_BAD_FILE,
            "no tensor embed_tokens.weight, and the model's embeddings have %d channels, not %lld",
            of->config.hidden, (long long)hidden);
    return bind_ids(b, e);
}

/* A tensor that nothing here reads would be a part of the head that is left out. */
static sac_status check_names(const binder *b) {
    static const char *const apart[] = {"fc.weight",
                                        "norm.weight",
                                        "lm_head.weight",
                                        "embed_tokens.weight",
                                        "d2t",
                                        "t2d",
                                        "input_norm.weight",
                                        "fc_norm.0.weight",
                                        "fc_norm.1.weight",
                                        "fc_norm.2.weight",
                                        "verifier_lm_head.weight",
                                        "verifier_norm.weight"};
    static const char *const parts[] = {
        "input_layernorm.weight",  "hidden_norm.weight",           "post_attention_layernorm.weight",
        "self_attn.q_norm.weight", "self_attn.k_norm.weight",      "self_attn.q_proj.weight",
        "self_attn.k_proj.weight", "self_attn.v_proj.weight",      "self_attn.o_proj.weight",
        "self_attn.q_proj.bias",   "self_attn.k_proj.bias",        "self_attn.v_proj.bias",
        "self_attn.o_proj.bias",   "mlp.gate_proj.weight",         "mlp.up_proj.weight",
        "mlp.down_proj.weight",    "self_attn.rotary_emb.inv_freq"};
    const size_t n_layer = strlen(b->layer);
    for (int i = 0; i < b->files->n_tensors; i++) {
        const char *name = b->files->tensors[i].name;
        bool is_known = !strcmp(name, "rotary_emb.inv_freq");
        for (size_t k = 0; k < SAC_COUNT(apart); k++) is_known = is_known || !strcmp(name, apart[k]);
        for (size_t k = 0; k < SAC_COUNT(parts) && !strncmp(name, b->layer, n_layer); k++)
            is_known = is_known || !strcmp(name + n_layer, parts[k]);
        if (!is_known)
            return sac_fail(b->err, SAC_UNSUPPORTED,
                            "tensor %.100s is no part of an EAGLE-3 head of one layer", name);
    }
    return SAC_OK;
}

sac_status sac_eagle_bind(sac_eagle_head *h, const sac_decoder *of, sac_error *err) {
    sac_arena measure = sac_arena_measure();
    const bool is_original = sac_checkpoint_find(&h->files, "midlayer.hidden_norm.weight") != NULL;
    binder b = {&h->files, &measure, is_original ? "midlayer." : "layers.0.", true, err};
    const sac_eagle_config config = h->eagle.config;
    SAC_TRY(check_names(&b));
    SAC_TRY(bind_all(&b, &h->eagle, of));
    SAC_TRY(sac_arena_open(&h->arena, measure.used_bytes, err));
    h->eagle = (sac_eagle){.config = config};
    b.arena = &h->arena, b.counts = false;
    return bind_all(&b, &h->eagle, of);
}

static sac_status open_weights(sac_eagle_head *h, const char *folder, sac_error *err) {
    char path[PATH_BYTES];
    SAC_TRY(sac_path_join(path, sizeof path, folder, "pytorch_model.bin", err));
    const bool is_pickled = sac_file_exists(path);
    SAC_TRY(sac_path_join(path, sizeof path, folder, "model.safetensors.index.json", err));
    const bool has_index = sac_file_exists(path);
    SAC_TRY(sac_path_join(path, sizeof path, folder, "model.safetensors", err));
    if (is_pickled && !has_index && !sac_file_exists(path))
        return sac_fail(err, SAC_NOT_FOUND,
                        "%s has pytorch_model.bin and no model.safetensors: convert it "
                        "(safetensors.torch.save_file(torch.load(...), ...))",
                        folder);
    return sac_safetensors_open_folder(&h->files, folder, err);
}

static sac_status open_parts(sac_eagle_head *h, const char *folder, const sac_decoder *of, sac_error *err) {
    char path[PATH_BYTES];
    json_t *config;
    SAC_TRY(sac_path_join(path, sizeof path, folder, "config.json", err));
    if (!sac_file_exists(path))
        return sac_fail(err, SAC_NOT_FOUND, "%s: no config.json; give the folder of an EAGLE-3 head", folder);
    SAC_TRY(sac_json_parse_file(&config, path, err));
    sac_status st = sac_eagle_read_config(&h->eagle.config, config, &of->config, err);
    json_decref(config);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "%s", path);
    SAC_TRY(open_weights(h, folder, err));
    st = sac_eagle_bind(h, of, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "%s", folder);
    for (int i = 0; i < h->files.n_files; i++) h->n_bytes += h->files.files[i].map.n_bytes;
    h->n_bytes += h->arena.capacity_bytes;
    return SAC_OK;
}

sac_status sac_eagle_head_open(sac_eagle_head *h, const char *folder, const sac_decoder *of, sac_error *err) {
    *h = (sac_eagle_head){0};
    const sac_status st = open_parts(h, folder, of, err);
    if (st != SAC_OK) sac_eagle_head_free(h);
    return st;
}

void sac_eagle_head_free(sac_eagle_head *h) {
    sac_checkpoint_free(&h->files);
    sac_arena_free(&h->arena);
    *h = (sac_eagle_head){0};
}
