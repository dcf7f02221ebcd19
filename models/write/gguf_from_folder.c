/* gguf_from_folder.c - the language half of a Hugging Face folder as a GGUF file: metadata as llama.cpp's converter has
 * it, what only some families say as these write it (write_gguf in family.h), tensors under GGUF's names. In files of some
 * architectures rope turns neighbouring channels, so the rows of queries and keys are in another order. */
#include "family.h"
#include "file_map.h"
#include "gguf_vocab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct folder_job {
    sac_quantize_job *j;
    sac_gguf_out out;
    const char *arch;
    const sac_family *family; /* that reads files of the architecture */
    char key[96];
    float *freq_factors; /* [rot_dim / 2], of Llama 3.1's scaling; or NULL */
    sac_checkpoint_tensor freq_tensor;
} folder_job;

static const char *arch_key(folder_job *f, const char *name) {
    snprintf(f->key, sizeof f->key, "%s.%s", f->arch, name);
    return f->key;
}

static void put_int(folder_job *f, const char *name, int64_t v) {
    sac_gguf_put_u32(&f->out, arch_key(f, name), (uint32_t)v);
}

static void put_float(folder_job *f, const char *name, double v) {
    sac_gguf_put_f32(&f->out, arch_key(f, name), (float)v);
}

/* The architecture of a text family; with numbers on three axes it has a name of its own. */
static sac_status find_arch(folder_job *f) {
    static const struct {
        const char *family, *arch, *with_axes;
    } known[] = {{"llama", "llama", NULL},
                 {"mistral", "llama", NULL},
                 {"qwen2", "qwen2", "qwen2vl"},
                 {"qwen3", "qwen3", "qwen3vl"},
                 {"gemma2", "gemma2", NULL},
                 {"gemma3_text", "gemma3", NULL},
                 {"granite", "granite", NULL},
                 {"olmo2", "olmo2", NULL},
                 {"smollm3", "smollm3", NULL}};
    const sac_model_config *c = &f->j->config;
    for (size_t i = 0; i < SAC_COUNT(known); i++) {
        if (strcmp(known[i].family, c->text_family->name) != 0) continue;
        f->arch = c->has_axes ? known[i].with_axes : known[i].arch;
        if (f->arch) return sac_family_of_gguf(&f->family, f->arch, f->j->err);
    }
    return sac_fail(f->j->err, SAC_UNSUPPORTED,
                    "%.200s: GGUF is written for language models of the families llama, mistral, qwen2, qwen3, gemma2, "
                    "gemma3_text, granite, olmo2 and smollm3, this is %s; compressed-tensors' formats (w4a16, w8a16, fp8, int8) are "
                    "written for all",
                    f->j->in, c->text_family->name);
}

/* ---------------------------------------------------------------- rope */

/* What the converter writes of "rope_type": "llama3": a divisor for each pair of channels. */
static sac_status make_factors(folder_job *f, const sac_rope_config *r) {
    const int n = r->rot_dim / 2;
    f->freq_factors = malloc((size_t)n * sizeof *f->freq_factors);
    if (!f->freq_factors) return sac_fail_no_memory(f->j->err);
    const double longest = r->original_max_position / r->low_freq_factor,
                 shortest = r->original_max_position / r->high_freq_factor;
    for (int i = 0; i < n; i++) {
        const double wave = 2 * acos(-1.0) * pow(r->theta, 2.0 * i / r->rot_dim);
        const double smooth = (r->original_max_position / wave - r->low_freq_factor) /
                              (r->high_freq_factor - r->low_freq_factor);
        f->freq_factors[i] = (float)(wave < shortest  ? 1
                                     : wave > longest ? r->factor
                                                      : 1 / ((1 - smooth) / r->factor + smooth));
    }
    return SAC_OK;
}

static sac_status put_scaling(folder_job *f, const sac_rope_config *r) {
    if (r->scaling == SAC_ROPE_DEFAULT) return SAC_OK;
    if (r->scaling == SAC_ROPE_LLAMA3) return make_factors(f, r);
    const bool is_yarn = r->scaling == SAC_ROPE_YARN;
    const double usual = r->factor <= 1 ? 1 : 0.1 * log(r->factor) + 1;
    if (!is_yarn && r->scaling != SAC_ROPE_LINEAR)
        return sac_fail(f->j->err, SAC_UNSUPPORTED, "%.200s: GGUF cannot say its kind of rope_scaling", f->j->in);
    if (is_yarn && (r->beta_fast != 32 || r->beta_slow != 1 || !r->truncate))
        return sac_fail(f->j->err, SAC_UNSUPPORTED, "%.200s: yarn with beta_fast, beta_slow or truncate of its own",
                        f->j->in);
    const char *type = is_yarn ? "yarn" : "linear";
    sac_gguf_put_string(&f->out, arch_key(f, "rope.scaling.type"), type, strlen(type));
    put_float(f, "rope.scaling.factor", r->factor);
    if (is_yarn) put_int(f, "rope.scaling.original_context_length", (int64_t)r->original_max_position);
    if (is_yarn && r->attention_factor > 0 && fabs(r->attention_factor - usual) > 1e-6)
        put_float(f, "rope.scaling.attn_factor", r->attention_factor / usual);
    return SAC_OK;
}

static sac_status put_rope(folder_job *f) {
    const sac_rope_config *r = &f->j->config.decoder.rope;
    put_int(f, "rope.dimension_count", r->rot_dim);
    put_float(f, "rope.freq_base", r->theta);
    if (f->j->config.has_axes) {
        const int32_t sections[4] = {r->axis_pairs[0], r->axis_pairs[1], r->axis_pairs[2], 0};
        sac_gguf_put_numbers(&f->out, arch_key(f, "rope.dimension_sections"), SAC_GGUF_I32, sections, 4);
    }
    if (f->j->config.decoder.n_deep) put_int(f, "n_deepstack_layers", f->j->config.decoder.n_deep);
    return put_scaling(f, r);
}

/* ---------------------------------------------------------------- metadata */

static void put_value(folder_job *f, const char *name, const json_t *v) {
    uint8_t flags[SAC_DECODER_MAX_LAYERS];
    const size_t n = json_array_size(v);
    if (json_is_integer(v)) put_int(f, name, json_integer_value(v));
    if (json_is_real(v)) put_float(f, name, json_real_value(v));
    if (json_is_boolean(v)) sac_gguf_put_bool(&f->out, arch_key(f, name), json_is_true(v));
    if (!json_is_array(v) || n > sizeof flags) return;
    for (size_t i = 0; i < n; i++) flags[i] = json_is_true(json_array_get(v, i));
    sac_gguf_put_bools(&f->out, arch_key(f, name), flags, n);
}

/* The family's own. */
static sac_status put_own_keys(folder_job *f) {
    if (!f->family->write_gguf) return SAC_OK;
    json_t *keys = json_object(), *v;
    const char *name;
    if (!keys) return sac_fail_no_memory(f->j->err);
    sac_status st = f->family->write_gguf(&f->j->config, keys, f->j->err);
    if (st != SAC_OK) sac_fail_prefix(f->j->err, st, "%.200s", f->j->in);
    json_object_foreach(keys, name, v) {
        if (st == SAC_OK) put_value(f, name, v);
    }
    json_decref(keys);
    return st;
}

static sac_status put_keys(folder_job *f) {
    const sac_decoder_config *d = &f->j->config.decoder;
    const char *slash = strrchr(f->j->in, '/'), *name = slash && slash[1] ? slash + 1 : f->j->in;
    if (d->some_slide && d->sliding_window && !f->family->write_gguf)
        return sac_fail(f->j->err, SAC_UNSUPPORTED, "%.200s: a sliding window of some layers alone", f->j->in);
    sac_gguf_put_string(&f->out, "general.architecture", f->arch, strlen(f->arch));
    sac_gguf_put_string(&f->out, "general.type", "model", 5);
    sac_gguf_put_string(&f->out, "general.name", name, strlen(name));
    put_int(f, "block_count", d->n_layers);
    put_int(f, "context_length", d->max_position);
    put_int(f, "embedding_length", d->hidden);
    put_int(f, "feed_forward_length", d->intermediate);
    put_int(f, "attention.head_count", d->n_heads);
    put_int(f, "attention.head_count_kv", d->n_kv_heads);
    put_int(f, "attention.key_length", d->head_dim);
    put_int(f, "attention.value_length", d->head_dim);
    put_float(f, "attention.layer_norm_rms_epsilon", (double)d->rms_eps);
    put_int(f, "vocab_size", d->vocab);
    if (d->sliding_window) put_int(f, "attention.sliding_window", d->sliding_window);
    SAC_TRY(put_rope(f));
    SAC_TRY(put_own_keys(f));
    SAC_TRY(sac_gguf_put_vocab(&f->out, f->j, f->arch));
    sac_gguf_put_u32(&f->out, "general.file_type", (uint32_t)f->j->scheme.file_type);
    sac_gguf_put_u32(&f->out, "general.quantization_version", 2);
    return SAC_OK;
}

/* ---------------------------------------------------------------- tensors */

/* Heads whose rows take turns: of queries and keys, and their biases. */
static int turned_heads(const folder_job *f, const sac_plan_entry *e) {
    const sac_decoder_config *d = &f->j->config.decoder;
    const char *slot = e->row->slot;
    if (!f->family->gguf_neighbours) return 0;
    if (!strcmp(slot, "layer.q") || !strcmp(slot, "layer.q_bias")) return d->n_heads;
    return !strcmp(slot, "layer.k") || !strcmp(slot, "layer.k_bias") ? d->n_kv_heads : 0;
}

static sac_status add_entry(folder_job *f, const sac_plan_entry *e) {
    sac_rounded r;
    int64_t dim[2];
    if (!e->gguf[0])
        return sac_fail(f->j->err, SAC_UNSUPPORTED, "tensor %.150s has no name in GGUF", e->from->name);
    sac_rounded_of(&r, e->from);
    r.type = e->is_matrix ? e->type : SAC_DTYPE_F32;
    r.plus = e->row->plus_one ? 1 : 0;
    r.heads = turned_heads(f, e);
    dim[0] = e->is_matrix ? r.rows : r.cols, dim[1] = r.cols;
    if (!e->is_matrix && r.heads) r.rows = r.cols, r.cols = 1; /* a bias: its elements take turns */
    f->j->plan.weights_before += e->from->n_bytes;
    return sac_gguf_out_add(&f->out, e->gguf, &r, dim, e->is_matrix ? 2 : 1, f->j->err);
}

static int place_of(const sac_plan_entry *e) {
    return !strncmp(e->row->slot, "layer.", 6) ? e->layer + 1 : !strcmp(e->row->slot, "embed") ? 0 : 1 << 30;
}

static int by_layer(const void *a, const void *b) {
    const sac_plan_entry *x = a, *y = b;
    const int p = place_of(x), q = place_of(y);
    return p != q ? (p > q) - (p < q) : strcmp(x->gguf, y->gguf);
}

static sac_status add_tensors(folder_job *f) {
    sac_round_plan *p = &f->j->rounds;
    qsort(p->entries, (size_t)p->n, sizeof *p->entries, by_layer);
    for (int i = 0; i < p->n; i++) SAC_TRY(add_entry(f, &p->entries[i]));
    if (!f->freq_factors) return SAC_OK;
    const int64_t n = f->j->config.decoder.rope.rot_dim / 2;
    static char name[] = "rope_freqs.weight";
    f->freq_tensor = (sac_checkpoint_tensor){.name = name,
                                             .dtype = SAC_DTYPE_F32,
                                             .n_dims = 1,
                                             .dim = {n},
                                             .data = (const uint8_t *)f->freq_factors,
                                             .n_bytes = (size_t)n * 4,
                                             .file = -1};
    sac_rounded r;
    sac_rounded_of(&r, &f->freq_tensor);
    r.type = SAC_DTYPE_F32;
    return sac_gguf_out_add(&f->out, name, &r, &n, 1, f->j->err);
}

/* An adapter in the folder is part of the model when it is loaded (model_adapters.c), and would not be in the file. */
static sac_status check_adapter(const folder_job *f) {
    char path[SAC_WRITE_PATH];
    SAC_TRY(sac_path_join(path, sizeof path, f->j->in, "adapter_config.json", f->j->err));
    if (!sac_file_exists(path)) return SAC_OK;
    return sac_fail(f->j->err, SAC_UNSUPPORTED,
                    "%.250s: the adapter in the folder would not be in the GGUF file: merge it into the model first (peft: "
                    "merge_and_unload), or remove it",
                    path);
}

static sac_status convert(folder_job *f) {
    SAC_TRY(check_adapter(f));
    SAC_TRY(find_arch(f));
    f->j->plan.drops_vision = f->j->config.has_vision;
    SAC_TRY(put_keys(f));
    SAC_TRY(add_tensors(f));
    return sac_gguf_out_lay_out(&f->out, f->j->err);
}

sac_status sac_quantize_folder_to_gguf(sac_quantize_job *j) {
    folder_job f = {.j = j};
    sac_status st = convert(&f);
    if (st == SAC_OK) st = sac_quantize_write_gguf(j, &f.out);
    sac_gguf_out_free(&f.out);
    free(f.freq_factors);
    return st;
}
