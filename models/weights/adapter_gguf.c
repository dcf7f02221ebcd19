/* adapter_gguf.c - LoRA adapters in one GGUF file, as llama.cpp's convert_lora_to_gguf writes them: for a matrix
 * blk.0.attn_q.weight the tensors blk.0.attn_q.weight.lora_a [rank][columns] and .lora_b [rows][rank], which go
 * with the order of rows that GGUF files of the base have. Of the embedding lora_a is [rows][rank], lora_b
 * [columns][rank]. */
#include "adapter.h"

#include "gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME_BYTES 512

static bool is_text(const sac_text_span *s, const char *text) {
    return s->n_bytes == strlen(text) && memcmp(s->text, text, s->n_bytes) == 0;
}

static sac_status read_keys(sac_adapter *a, const sac_gguf *g, sac_error *err) {
    static const char *const known[] = {"adapter.type", "adapter.lora.alpha", "adapter.lora.task_name",
                                        "adapter.lora.prompt_prefix"};
    sac_text_span type = {0}, kind = {0}, architecture = {0};
    SAC_TRY(sac_gguf_get_string(g, "general.type", &type, err));
    SAC_TRY(sac_gguf_get_string(g, "adapter.type", &kind, err));
    SAC_TRY(sac_gguf_get_string(g, "general.architecture", &architecture, err));
    if (!is_text(&type, "adapter") || !is_text(&kind, "lora"))
        return sac_fail(err, SAC_BAD_FILE,
                        "no LoRA adapter (general.type adapter, adapter.type lora); give a model with -m");
    for (size_t i = 0; i < g->n_values; i++) {
        const sac_text_span *key = &g->values[i].key;
        bool is_known = key->n_bytes < 8 || memcmp(key->text, "adapter.", 8) != 0;
        for (size_t k = 0; k < SAC_COUNT(known); k++) is_known |= is_text(key, known[k]);
        if (!is_known)
            return sac_fail(err, SAC_UNSUPPORTED,
                            "key %.*s is not supported; merge the adapter into its base first",
                            (int)(key->n_bytes > 80 ? 80 : key->n_bytes), key->text);
    }
    SAC_TRY(sac_gguf_get_float(g, "adapter.lora.alpha", &a->alpha, err));
    if (!(fabs(a->alpha) <= 1e6))
        return sac_fail(err, SAC_BAD_FILE, "adapter.lora.alpha must be at most 1e6");
    snprintf(a->architecture, sizeof a->architecture, "%.*s",
             (int)(architecture.n_bytes > 31 ? 31 : architecture.n_bytes),
             architecture.text ? architecture.text : "");
    return SAC_OK;
}

static sac_status read_file(sac_adapter *a, sac_gguf *g, sac_error *err) {
    SAC_TRY(sac_checkpoint_add_file(&a->tensors, a->folder, err));
    sac_checkpoint_file *f = &a->tensors.files[0];
    if (sac_file_is_lfs_pointer(&f->map))
        return sac_fail(err, SAC_BAD_FILE,
                        "a Git LFS pointer, not the weights: run \"git lfs pull\" in its folder");
    SAC_TRY(sac_gguf_parse(g, &a->tensors, 0, f->map.data, f->map.n_bytes, &f->header_bytes, err));
    SAC_TRY(read_keys(a, g, err));
    if (a->tensors.n_tensors == 0)
        return sac_fail(err, SAC_BAD_FILE, "no tensors in it: convert the adapter again");
    a->used = calloc((size_t)a->tensors.n_tensors, sizeof *a->used);
    return a->used ? SAC_OK : sac_fail_no_memory(err);
}

sac_status sac_adapter_open_gguf(sac_adapter *a, sac_error *err) {
    sac_gguf g = {0};
    a->is_gguf = true;
    sac_status st = read_file(a, &g, err);
    sac_gguf_free(&g);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "%s", a->folder);
}

static const sac_checkpoint_tensor *find(const sac_adapter *a, const char *name, const char *end) {
    char own[NAME_BYTES];
    int n = snprintf(own, sizeof own, "%s%s", name, end);
    const sac_checkpoint_tensor *t =
        n > 0 && (size_t)n < sizeof own ? sac_checkpoint_find(&a->tensors, own) : NULL;
    if (t) a->used[t - a->tensors.tensors] = true;
    return t;
}

sac_status sac_adapter_find_gguf(const sac_adapter *a, const char *name, sac_lora *out, sac_error *err) {
    *out = (sac_lora){.adapter = a, .a = find(a, name, ".lora_a"), .b = find(a, name, ".lora_b")};
    const sac_checkpoint_tensor *one = out->a ? out->a : out->b;
    if (!one) return SAC_OK;
    if (!out->a || !out->b)
        return sac_fail(err, SAC_BAD_FILE,
                        "%s: %.150s is there without its other half: convert the adapter again", a->folder,
                        one->name);
    out->is_embedding = out->a_by_rows = strcmp(name, "token_embd.weight") == 0;
    out->rank = out->a->n_dims < 2 ? 0 : out->a->dim[out->a_by_rows];
    if (out->rank < 1 || out->rank > SAC_ADAPTER_MAX_RANK)
        return sac_fail(err, SAC_BAD_FILE, "%s: %.150s: its rank is %lld, must be 1 to %d", a->folder,
                        out->a->name, (long long)out->rank, SAC_ADAPTER_MAX_RANK);
    out->scaling = a->scale * (a->alpha != 0 ? a->alpha / (double)out->rank : 1);
    return SAC_OK;
}
