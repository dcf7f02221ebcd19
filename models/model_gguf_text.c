/* model_gguf_text.c - the tokenizer and the chat templates inside a GGUF language model. */
#include "gguf.h"
#include "model_load.h"

#include <stdio.h>
#include <stdlib.h>

static sac_status get_flag(const sac_gguf *g, const char *key, int *flag, sac_error *err) {
    *flag = -1;
    return sac_gguf_get_bool(g, key, flag, err);
}

typedef struct vocab_arrays {
    sac_text_span *tokens, *merges;
    float *scores;
    int32_t *types;
    size_t n_scores, n_types;
} vocab_arrays;

static sac_status read_vocab(const sac_gguf *g, sac_vocab_source *src, vocab_arrays *a, sac_error *err) {
    SAC_TRY(sac_gguf_get_strings(g, "tokenizer.ggml.tokens", &a->tokens, &src->n_tokens, err));
    SAC_TRY(sac_gguf_get_strings(g, "tokenizer.ggml.merges", &a->merges, &src->n_merges, err));
    SAC_TRY(sac_gguf_get_floats(g, "tokenizer.ggml.scores", &a->scores, &a->n_scores, err));
    SAC_TRY(sac_gguf_get_ints(g, "tokenizer.ggml.token_type", &a->types, &a->n_types, err));
    if (!a->tokens) return sac_fail(err, SAC_BAD_FILE, "metadata key tokenizer.ggml.tokens is missing");
    if ((a->scores && a->n_scores != src->n_tokens) || (a->types && a->n_types != src->n_tokens))
        return sac_fail(err, SAC_BAD_FILE, "tokenizer.ggml: %zu tokens, %zu scores and %zu token types",
                        src->n_tokens, a->n_scores, a->n_types);
    src->tokens = a->tokens;
    src->merges = a->merges;
    src->scores = a->scores;
    src->types = a->types;
    SAC_TRY(sac_gguf_get_id(g, "tokenizer.ggml.bos_token_id", &src->bos_id, err));
    SAC_TRY(sac_gguf_get_id(g, "tokenizer.ggml.eos_token_id", &src->eos_id, err));
    SAC_TRY(sac_gguf_get_id(g, "tokenizer.ggml.unknown_token_id", &src->unk_id, err));
    SAC_TRY(get_flag(g, "tokenizer.ggml.add_bos_token", &src->add_bos, err));
    SAC_TRY(get_flag(g, "tokenizer.ggml.add_eos_token", &src->add_eos, err));
    return get_flag(g, "tokenizer.ggml.add_space_prefix", &src->add_space_prefix, err);
}

sac_status sac_gguf_load_tokenizer(sac_load_context *l, const sac_gguf *g) {
    sac_vocab_source src = {0};
    vocab_arrays a = {0};
    char model[64], pre[64];
    SAC_TRY(sac_gguf_get_name(g, "tokenizer.ggml.model", model, sizeof model, &src.model, l->err));
    SAC_TRY(sac_gguf_get_name(g, "tokenizer.ggml.pre", pre, sizeof pre, &src.pre, l->err));
    if (!src.model) return sac_fail(l->err, SAC_BAD_FILE, "metadata key tokenizer.ggml.model is missing");
    sac_status st = read_vocab(g, &src, &a, l->err);
    if (src.add_bos < 0 && l->config.text_family->gguf_no_begin) src.add_bos = 0;
    if (st == SAC_OK) st = sac_tokenizer_open_vocab(&l->m->tokenizer, &src, l->err);
    free(a.tokens);
    free(a.merges);
    free(a.scores);
    free(a.types);
    return st;
}

/* A name that fits `%.*s`: keys of named templates are built from it. */
static bool is_short(sac_text_span s) {
    return s.n_bytes > 0 && s.n_bytes <= SAC_GGUF_TEMPLATE_NAME;
}

static sac_status add_template(sac_load_context *l, const sac_gguf *g, const char *name, const char *key) {
    sac_text_span s = {NULL, 0};
    char source[300];
    SAC_TRY(sac_gguf_get_string(g, key, &s, l->err));
    if (!s.text) return SAC_OK;
    snprintf(source, sizeof source, "%.200s (%s)", l->path, key);
    return sac_chat_templates_add(l->m->templates, name, source, s.text, s.n_bytes, l->err);
}

/* "tokenizer.chat_template", and those of the names in "tokenizer.chat_templates". */
sac_status sac_gguf_load_chat(sac_load_context *l, const sac_gguf *g) {
    sac_text_span *names;
    size_t n;
    SAC_TRY(sac_load_chat(l));
    SAC_TRY(sac_load_media_tokens(l));
    l->m->template_adds_special = true;
    SAC_TRY(add_template(l, g, "default", "tokenizer.chat_template"));
    SAC_TRY(sac_gguf_get_strings(g, "tokenizer.chat_templates", &names, &n, l->err));
    sac_status st = SAC_OK;
    for (size_t i = 0; i < n && st == SAC_OK; i++) {
        if (!is_short(names[i])) continue;
        char name[SAC_GGUF_TEMPLATE_NAME + 1], key[SAC_GGUF_TEMPLATE_NAME + 40];
        snprintf(name, sizeof name, "%.*s", (int)names[i].n_bytes, names[i].text);
        snprintf(key, sizeof key, "tokenizer.chat_template.%s", name);
        st = add_template(l, g, name, key);
    }
    free(names);
    return st == SAC_OK ? sac_load_video_chat(l) : st;
}
