/* model_mmproj.c - the vision half of a GGUF language model, a GGUF file of its own as llama.cpp's converters write it. Its
 * metadata becomes what a Hugging Face folder would say (family_mmproj.c), so that the family reads and checks both alike. */
#include "binder.h"
#include "family.h"
#include "gguf.h"
#include "model_load.h"
#include "tensor_table.h"

#include <stdio.h>
#include <stdlib.h>

enum { NOT_A_TOKEN = -200 }; /* as LongVA's own code has it */

#define KEY_BYTES 96

typedef struct half {
    sac_load_context *l;
    const sac_gguf_language *language;
    char path[SAC_MODEL_PATH_BYTES];
    sac_gguf g;
    json_t *keys;
    const sac_family *family;
    sac_mmproj p;
} half;

/* ---- its metadata ---- */

/* Without these the family's defaults would be another model's. */
static sac_status check_keys(const half *h) {
    static const char *const needed[] = {
        "embedding_length", "attention.head_count",         "block_count", "patch_size",
        "image_size",       "attention.layer_norm_epsilon", "image_mean",  "image_std"};
    char key[KEY_BYTES];
    for (size_t i = 0; i < SAC_COUNT(needed); i++) {
        snprintf(key, sizeof key, "clip.vision.%s", needed[i]);
        const json_t *v = json_object_get(h->keys, key);
        if (!v) return sac_fail(h->l->err, SAC_BAD_FILE, "metadata key %s is missing", key);
        if (i < 5 && (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > INT32_MAX))
            return sac_fail(h->l->err, SAC_BAD_FILE, "%s must be an integer of 1 or more", key);
        if (i == 5 && !json_is_number(v))
            return sac_fail(h->l->err, SAC_BAD_FILE, "%s must be a number", key);
    }
    return SAC_OK;
}

/* ---- opening ---- */

static sac_status open_file(half *h) {
    sac_load_context *l = h->l;
    sac_checkpoint *c = &l->files->tower;
    SAC_TRY(sac_checkpoint_add_file(c, h->path, l->err));
    sac_checkpoint_file *f = &c->files[0];
    if (sac_file_is_lfs_pointer(&f->map))
        return sac_fail(l->err, SAC_BAD_FILE,
                        "a Git LFS pointer, not the weights: run \"git lfs pull\" in its folder");
    SAC_TRY(sac_gguf_parse(&h->g, c, 0, f->map.data, f->map.n_bytes, &f->header_bytes, l->err));
    sac_sha256_update(l->hash, f->map.data, f->header_bytes);
    SAC_TRY(sac_gguf_keys(&h->keys, &h->g, "", l->err));
    const char *arch = json_string_value(json_object_get(h->keys, "general.architecture"));
    if (arch && strcmp(arch, "clip") == 0) return check_keys(h);
    return sac_fail(l->err, SAC_BAD_FILE, "general.architecture is %.40s: not a vision half, whose is clip",
                    arch ? arch : "missing");
}

static int64_t rows_of(const void *tensors, const char *name) {
    const sac_checkpoint_tensor *t = sac_checkpoint_find(tensors, name);
    return t ? t->dim[0] : 0;
}

static int64_t columns_of(const void *tensors, const char *name) {
    const sac_checkpoint_tensor *t = sac_checkpoint_find(tensors, name);
    return t && t->n_dims == 2 ? t->dim[1] : 0;
}

/* Old converters of Qwen's wrote 0. */
static void mend_feed_forward(half *h) {
    static const char key[] = "clip.vision.feed_forward_length";
    const int64_t rows = rows_of(&h->l->files->tower, "v.blk.0.ffn_up.weight");
    if (rows > 0 && json_integer_value(json_object_get(h->keys, key)) == 0)
        json_object_set_new(h->keys, key, json_integer(rows));
}

/* ---- both halves ---- */

static bool lists(const sac_spec_list *list, const char *item, char names[120]) {
    size_t used = 0;
    names[0] = 0;
    for (int i = 0; i < list->n && used < 120; i++)
        used += (size_t)snprintf(names + used, 120 - used, "%s%s", i ? ", " : "", list->item[i]);
    return sac_spec_list_has(list, item);
}

/* Rows that its projector makes must be those of the language model. */
static sac_status check_width(const half *h, const sac_family_spec *spec) {
    const int hidden = h->l->config.decoder.hidden;
    for (int i = 0; i < spec->n_tensors; i++) {
        const sac_spec_tensor *row = &spec->tensors[i];
        if (strcmp(row->slot, "projector.fc2") != 0 && strcmp(row->slot, "projector.fc") != 0) continue;
        const int64_t out = !row->gguf ? 0 : (row->transposed ? columns_of : rows_of)(&h->l->files->tower, row->gguf);
        if (out && out != hidden)
            return sac_fail(
                h->l->err, SAC_BAD_FILE,
                "tensor %s makes rows of %lld numbers, the language model reads rows of %d: these are not "
                "halves of one model",
                row->gguf, (long long)out, hidden);
    }
    return SAC_OK;
}

static json_t *layer_types(const sac_decoder_config *d) {
    json_t *types = json_array();
    for (int i = 0; i < d->n_layers; i++)
        json_array_append_new(types, json_string(sac_decoder_is_linear(d, i) ? "linear_attention" : "full_attention"));
    return types;
}

/* Heads whose keys and values come of latents. */
static void add_latents(json_t *text, const sac_latent_shape *s) {
    json_object_set_new(text, "head_dim", json_integer(s->rope_dim));
    json_object_set_new(text, "kv_lora_rank", json_integer(s->kv_rank));
    json_object_set_new(text, "q_lora_rank", s->q_rank ? json_integer(s->q_rank) : json_null());
    json_object_set_new(text, "qk_rope_head_dim", json_integer(s->rope_dim));
    json_object_set_new(text, "qk_nope_head_dim", json_integer(s->nope_dim));
    json_object_set_new(text, "v_head_dim", json_integer(s->value_dim));
}

/* What text_config would say: sizes for the family's checks; the decoder itself stays as its own file has it. */
static json_t *text_config(const half *h) {
    const sac_decoder_config *d = &h->l->config.decoder;
    const sac_gguf_language *language = h->language;
    json_t *text = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f}", "model_type", h->l->config.family->name, "hidden_size",
        d->hidden, "num_hidden_layers", d->n_layers, "num_attention_heads", d->n_heads, "num_key_value_heads",
        d->n_kv_heads, "head_dim", d->head_dim, "intermediate_size", d->intermediate, "vocab_size", d->vocab,
        "rms_norm_eps", (double)d->rms_eps);
    if (language->has_sections)
        json_object_set_new(text, "rope_parameters",
                            json_pack("{s:s, s:[i, i, i]}", "rope_type", "default", "mrope_section",
                                      language->sections[0], language->sections[1], language->sections[2]));
    if (d->latent.kv_rank)
        add_latents(text, &d->latent);
    else if (d->rope.rot_dim < d->head_dim) /* and a half, so that it is not rounded to less */
        json_object_set_new(text, "partial_rotary_factor", json_real((d->rope.rot_dim + 0.5) / d->head_dim));
    if (d->linear.n_heads) json_object_set_new(text, "layer_types", layer_types(d));
    return text;
}

/* Ids by the texts of tokens. *is_missing: the picture has none, where the family may do without. */
static sac_status find_tokens(half *h, const sac_spec_mmproj *m, bool *is_missing) {
    *is_missing = false;
    for (int i = 0; i < m->n_values; i++) {
        const sac_spec_value *v = &m->values[i];
        if (strcmp(v->place, "tokens") != 0) continue;
        int32_t id = sac_token_find(h->l->m->tokenizer, v->from, strlen(v->from));
        *is_missing |= id < 0;
        if (id < 0 && !m->tokenless)
            return sac_fail(
                h->l->err, SAC_BAD_FILE,
                "the language model's vocabulary has no token %.60s, which stands for what is seen under %s: "
                "these are not halves of one model",
                v->from, h->family->name);
        json_object_set_new(h->p.config, v->name, json_integer(id < 0 ? 0 : id));
    }
    return SAC_OK;
}

/* The family's configuration with the language model of the other file in it. */
static sac_status combine(half *h, bool is_tokenless) {
    sac_load_context *l = h->l;
    const sac_model_config text = l->config;
    sac_model_config *c = &l->config;
    double eps = json_number_value(json_object_get(h->keys, "clip.vision.attention.layer_norm_epsilon"));
    SAC_TRY(sac_model_config_default(c, h->family, l->err));
    sac_status st = h->family->read(c, h->p.config, l->err);
    if (st != SAC_OK) return sac_fail_prefix(l->err, st, "its keys as config.json's");
    const sac_decoder_config whole = c->decoder;
    c->decoder = text.decoder;
    c->decoder.n_deep = whole.n_deep;
    c->decoder.sees_spans = whole.sees_spans;
    c->decoder.rope.axes_take_turns = whole.rope.axes_take_turns;
    memcpy(c->decoder.rope.axis_pairs, whole.rope.axis_pairs, sizeof whole.rope.axis_pairs);
    c->text_family = text.text_family;
    c->qkv_bias = text.qkv_bias;
    c->o_bias = text.o_bias;
    c->qk_norm = text.qk_norm;
    c->post_norms = text.post_norms;
    c->no_pre_norms = text.no_pre_norms;
    c->tied_head = text.tied_head;
    c->n_stop_ids = text.n_stop_ids;
    memcpy(c->stop_ids, text.stop_ids, sizeof text.stop_ids);
    c->default_stop_id = text.default_stop_id;
    if (is_tokenless) c->image_token = NOT_A_TOKEN;
    if (!(eps > 0 && eps < 1))
        return sac_fail(l->err, SAC_BAD_FILE, "clip.vision.attention.layer_norm_epsilon is %g", eps);
    c->tower.norm_eps = (float)eps;
    if (h->language->n_deep >= 0 && h->language->n_deep != c->decoder.n_deep)
        return sac_fail(l->err, SAC_BAD_FILE,
                        "features of %d layers for a language model that takes those of %lld: these are not "
                        "halves of one model",
                        c->decoder.n_deep, (long long)h->language->n_deep);
    return SAC_OK;
}

static sac_status read_processor(half *h) {
    sac_load_context *l = h->l;
    const sac_tower_config *v = &l->config.tower;
    const sac_processor_model model = {.dialect = l->config.dialect,
                                       .image_size = v->image_size,
                                       .patch_size = v->patch_size,
                                       .keep_class = v->keep_class,
                                       .temporal_patch_size = v->temporal_patch_size,
                                       .merge_size = v->merge_size,
                                       .video = json_object_size(h->p.video) ? h->p.video : NULL,
                                       .config = h->p.config};
    SAC_TRY(sac_load_hash_json(l, h->p.config));
    SAC_TRY(sac_load_hash_json(l, h->p.preprocessor));
    SAC_TRY(sac_load_hash_json(l, h->p.video));
    sac_status st = sac_processor_read(&l->m->processor, h->p.preprocessor, &model, l->err);
    return st == SAC_OK ? st : sac_fail_prefix(l->err, st, "its keys as preprocessor_config.json's");
}

static sac_status read_halves(half *h, const sac_family_spec *spec) {
    sac_load_context *l = h->l;
    char names[120];
    bool is_tokenless;
    if (!lists(&spec->mmproj.text, h->language->architecture, names))
        return sac_fail(l->err, SAC_BAD_FILE,
                        "a vision half of %s, which stands on %s: the language model's architecture is %.40s",
                        h->family->name, names, h->language->architecture);
    SAC_TRY(check_width(h, spec));
    SAC_TRY(sac_family_read_mmproj(h->family, &h->p, l->err));
    json_object_set_new(h->p.config, "text_config", text_config(h));
    json_object_set(h->p.config, "vision_config", h->p.vision);
    SAC_TRY(find_tokens(h, &spec->mmproj, &is_tokenless));
    SAC_TRY(combine(h, is_tokenless));
    SAC_TRY(sac_mmproj_shape_tensors(&l->files->tower, &l->config.tower, l->config.decoder.n_deep, l->err));
    l->m->frame_layout = l->config.frame_layout;
    l->has_mmproj = true;
    l->m->mmproj = l->files->tower.files[0].path;
    return read_processor(h);
}

static sac_status read_file(half *h) {
    sac_load_context *l = h->l;
    const sac_family_spec *spec;
    SAC_TRY(open_file(h));
    h->p = (sac_mmproj){.keys = h->keys, .rows = rows_of, .tensors = &l->files->tower};
    SAC_TRY(sac_family_of_mmproj(&h->family, &h->p, h->language->architecture, l->err));
    SAC_TRY(sac_config_keys_of_object(&l->m->keys, h->family, "mmproj", "GGUF (mmproj)", h->keys, l->err));
    const int64_t hidden = json_integer_value(json_object_get(h->keys, "clip.vision.embedding_length"));
    SAC_TRY(sac_mmproj_name_tensors(&l->files->tower, (int)hidden, l->err));
    mend_feed_forward(h);
    h->p.config = json_object();
    h->p.vision = json_object();
    h->p.preprocessor = json_object();
    h->p.video = json_object();
    sac_status st = h->p.config && h->p.vision && h->p.preprocessor && h->p.video
                        ? SAC_OK
                        : sac_fail(l->err, SAC_NO_MEMORY, "no memory for it");
    if (st == SAC_OK) st = sac_family_spec_find(&spec, h->family->name, l->err);
    if (st == SAC_OK) st = read_halves(h, spec);
    json_decref(h->p.config);
    json_decref(h->p.vision);
    json_decref(h->p.preprocessor);
    json_decref(h->p.video);
    return st;
}

sac_status sac_load_mmproj(sac_load_context *l, const sac_gguf_language *language) {
    half *h = calloc(1, sizeof *h);
    if (!h) return sac_fail(l->err, SAC_NO_MEMORY, "no memory for a vision half");
    h->l = l;
    h->language = language;
    sac_status st = sac_load_find_mmproj(l, h->path, l->err);
    if (st == SAC_OK && h->path[0]) {
        st = read_file(h);
        if (st != SAC_OK && l->options->mmproj)
            sac_fail_prefix(l->err, st, "%s", h->path);
        else if (st != SAC_OK)
            sac_fail_prefix(l->err, st, "%s (found beside the model; --mmproj none goes without it)",
                            h->path);
    }
    l->is_elsewhere = st != SAC_OK;
    json_decref(h->keys);
    sac_gguf_free(&h->g);
    free(h);
    return st;
}
