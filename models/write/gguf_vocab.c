#include "gguf_vocab.h"

#include "family.h"
#include "model_load.h"
#include "tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct vocab {
    sac_quantize_job *j;
    sac_tokenizer *t;
    json_t *json; /* tokenizer.json */
    sac_vocab_source source;
    sac_text_span *tokens, *merges;
    float *scores;
    int32_t *types;
    char *pads, *joined; /* texts that are in no file */
} vocab;

/* Texts that tell split patterns and their like apart. */
static const char *const probes[] = {
    "Hello world! It's 12345 o'clock, we'll see 3.14159 and 2,000.",
    "  leading spaces,   inner   ones and trailing ones   ",
    "line\nbreaks\n\nand\r\nmore\t tabs \n \n end",
    "def f(x):\n    return x**2  # comment_with_underscores\n\n\n",
    "Caf\xc3\xa9 na\xc3\xafve e\xcc\x81t\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x8c\xe4\xb8\x96\xe7\x95\x8c "
    "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 \xd9\x85\xd8\xb1\xd8\xad\xd8\xa8\xd8\xa7",
    "\xf0\x9f\x98\x80 emoji \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac \xe2\x82\xac" "100 50% a+b=c <html> [x] {y}",
    "DON'T SHOUT, I'M here'S 'tis CamelCaseWords iPhone15Pro",
    "1 22 333 4444 55555 \xd9\xa1\xd9\xa2\xd9\xa3 x86_64 v1.2.3-rc4",
};

static bool makes_same(const sac_tokenizer *a, const sac_tokenizer *b) {
    enum { ROOM = 512 };
    static int32_t x[ROOM], y[ROOM];
    for (size_t i = 0; i < SAC_COUNT(probes); i++)
        for (int special = 0; special < 2; special++) {
            const sac_text_segment s = {.text = probes[i], .n_bytes = strlen(probes[i])};
            size_t n, m;
            if (sac_tokenize(a, &s, 1, special, x, ROOM, &n, NULL) != SAC_OK ||
                sac_tokenize(b, &s, 1, special, y, ROOM, &m, NULL) != SAC_OK || n != m || memcmp(x, y, n * sizeof *x))
                return false;
        }
    return true;
}

/* ---------------------------------------------------------------- tokens and merges */

static int32_t type_of(const vocab *v, int32_t id, bool is_llama) {
    const sac_text_span s = v->tokens[id];
    if (is_llama && id == v->source.unk_id) return SAC_TOKEN_UNKNOWN;
    if (sac_token_is_special(v->t, id)) return SAC_TOKEN_CONTROL;
    const bool is_byte = is_llama && s.n_bytes == 6 && !memcmp(s.text, "<0x", 3) && s.text[5] == '>';
    return is_byte ? SAC_TOKEN_BYTE : SAC_TOKEN_NORMAL;
}

/* Added tokens that are not special are the user's own. */
static void mark_added(vocab *v) {
    const json_t *added = json_object_get(v->json, "added_tokens");
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_int_t id = json_integer_value(json_object_get(json_array_get(added, i), "id"));
        if (id >= 0 && (size_t)id < v->source.n_tokens && v->types[id] == SAC_TOKEN_NORMAL)
            v->types[id] = SAC_TOKEN_USER_DEFINED;
    }
}

/* Ids without a token get one that no text has, as converters do. */
static sac_status list_tokens(vocab *v, bool is_llama) {
    const int32_t n = v->j->config.decoder.vocab, own = sac_tokenizer_n_vocab(v->t);
    enum { PAD_BYTES = 24 };
    if (own > n)
        return sac_fail(v->j->err, SAC_UNSUPPORTED, "%.200s: %d tokens, but %d rows of the embedding: GGUF cannot say that",
                        v->j->in, own, n);
    v->tokens = calloc((size_t)n, sizeof *v->tokens);
    v->types = calloc((size_t)n, sizeof *v->types);
    v->scores = calloc((size_t)n, sizeof *v->scores);
    v->pads = malloc((size_t)n * PAD_BYTES);
    if (!v->tokens || !v->types || !v->scores || !v->pads) return sac_fail_no_memory(v->j->err);
    for (int32_t id = 0; id < n; id++) {
        v->tokens[id] = id < own ? sac_token_text(v->t, id) : (sac_text_span){NULL, 0};
        v->types[id] = v->tokens[id].n_bytes ? type_of(v, id, is_llama) : SAC_TOKEN_UNUSED;
        if (v->tokens[id].n_bytes) continue;
        char *pad = v->pads + (size_t)id * PAD_BYTES;
        v->tokens[id] = (sac_text_span){pad, (size_t)snprintf(pad, PAD_BYTES, "[PAD%d]", (int)id)};
    }
    v->source.tokens = v->tokens;
    v->source.types = v->types;
    v->source.n_tokens = (size_t)n;
    mark_added(v);
    return SAC_OK;
}

/* "left right", from either form of tokenizer.json. */
static sac_status list_merges(vocab *v) {
    const json_t *merges = json_object_get(json_object_get(v->json, "model"), "merges");
    const size_t n = json_array_size(merges);
    size_t room = 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(merges, i);
        room += json_is_string(m) ? json_string_length(m)
                                  : json_string_length(json_array_get(m, 0)) + json_string_length(json_array_get(m, 1));
        room += 2;
    }
    v->merges = calloc(n + 1, sizeof *v->merges);
    char *at = v->joined = malloc(room);
    if (!v->merges || !at) return sac_fail_no_memory(v->j->err);
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(merges, i);
        const char *left = json_is_string(m) ? json_string_value(m) : json_string_value(json_array_get(m, 0));
        const char *right = json_is_string(m) ? NULL : json_string_value(json_array_get(m, 1));
        const int used = sprintf(at, "%s%s%s", left ? left : "", right ? " " : "", right ? right : "");
        v->merges[i] = (sac_text_span){at, (size_t)used};
        at += used + 1;
    }
    v->source.merges = v->merges;
    v->source.n_merges = n;
    return SAC_OK;
}

/* SentencePiece's way has no merges but scores: what is merged earlier has the higher one. */
static sac_status list_scores(vocab *v) {
    char joined[1024];
    for (size_t i = 0; i < v->source.n_tokens; i++) v->scores[i] = v->types[i] == SAC_TOKEN_NORMAL ? -1e9f : 0;
    for (size_t i = 0; i < v->source.n_merges; i++) {
        const sac_text_span m = v->merges[i];
        const char *space = m.n_bytes > 1 ? memchr(m.text + 1, ' ', m.n_bytes - 1) : NULL;
        if (!space || m.n_bytes > sizeof joined) continue;
        const size_t left = (size_t)(space - m.text);
        memcpy(joined, m.text, left);
        memcpy(joined + left, space + 1, m.n_bytes - left - 1);
        const int32_t id = sac_token_find(v->t, joined, m.n_bytes - 1);
        if (id >= 0 && (size_t)id < v->source.n_tokens && v->scores[id] < -1e8f) v->scores[id] = -(float)i;
    }
    v->source.scores = v->scores;
    return SAC_OK;
}

/* ---------------------------------------------------------------- which kind */

static bool tries(vocab *v, const char *model, const char *pre, int space) {
    sac_tokenizer *t;
    v->source.model = model;
    v->source.pre = pre;
    v->source.add_space_prefix = space;
    if (sac_tokenizer_open_vocab(&t, &v->source, NULL) != SAC_OK) return false;
    const bool same = makes_same(v->t, t);
    sac_tokenizer_free(t);
    return same;
}

static sac_status choose(vocab *v, bool is_llama) {
    static const char *const patterns[] = {"qwen2", "llama-bpe", "gpt-2",           "smollm",
                                           "tekken", "dbrx",     "deepseek-r1-qwen", "glm4",
                                           "default"};
    for (int space = 1; is_llama && space >= 0; space--)
        if (tries(v, "llama", "default", space)) return SAC_OK;
    for (size_t i = 0; !is_llama && i < SAC_COUNT(patterns); i++)
        if (tries(v, "gpt2", patterns[i], -1)) return SAC_OK;
    return sac_fail(v->j->err, SAC_UNSUPPORTED,
                    "%.200s: no kind of tokenizer that GGUF has a name for makes the tokens that its tokenizer.json "
                    "makes; compressed-tensors' formats (w4a16, w8a16, fp8, int8) keep the file",
                    v->j->in);
}

/* What is put around a text by the tokenizer itself. */
static void find_ends(vocab *v) {
    const sac_text_segment s = {.text = "a", .n_bytes = 1};
    int32_t ids[16];
    size_t n = 0;
    v->source.bos_id = sac_tokenizer_bos(v->t);
    v->source.eos_id = sac_tokenizer_eos(v->t);
    v->source.add_bos = sac_tokenizer_adds_bos(v->t);
    v->source.add_eos = sac_tokenize(v->t, &s, 1, true, ids, 16, &n, NULL) == SAC_OK && n > 1 &&
                        v->source.eos_id >= 0 && ids[n - 1] == v->source.eos_id;
    v->source.unk_id = -1;
    const char *unk = json_string_value(json_object_get(json_object_get(v->json, "model"), "unk_token"));
    if (unk) v->source.unk_id = sac_token_find(v->t, unk, strlen(unk));
}

/* ---------------------------------------------------------------- what is written */

static void put_id(sac_gguf_out *out, const char *key, int64_t id) {
    if (id >= 0) sac_gguf_put_u32(out, key, (uint32_t)id);
}

/* An answer ends with these ids: the tokenizer's, and two more of the generation settings. */
static sac_status put_stops(sac_gguf_out *out, vocab *v) {
    int32_t ids[SAC_MAX_STOP_IDS];
    int n = 0;
    json_t *object;
    SAC_TRY(sac_load_json(&object, v->j->in, "generation_config.json", v->j->err));
    sac_status st = object ? sac_config_add_stop_ids(ids, &n, object, v->j->config.decoder.vocab, v->j->err) : SAC_OK;
    json_decref(object);
    SAC_TRY(st);
    if (n == 0) /* as the loader has it */
        for (; n < v->j->config.n_stop_ids; n++) ids[n] = v->j->config.stop_ids[n];
    const int64_t eos = v->source.eos_id >= 0 ? v->source.eos_id : n ? ids[0] : -1;
    put_id(out, "tokenizer.ggml.eos_token_id", eos);
    static const char *const others[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    size_t n_put = 0;
    for (int i = 0; i < n && n_put < SAC_COUNT(others); i++) {
        bool is_put = ids[i] == eos;
        for (int k = 0; k < i; k++) is_put |= ids[k] == ids[i];
        if (!is_put) put_id(out, others[n_put++], ids[i]);
    }
    return SAC_OK;
}

static int by_text(const void *a, const void *b) {
    const sac_text_span *x = a, *y = b;
    return strcmp(x->text, y->text);
}

/* Templates under names of their own, as the reader (model_gguf_text.c) and llama.cpp know them; then the list of names. */
static sac_status put_named(sac_gguf_out *out, const sac_chat_templates *t, const vocab *v, sac_text_span *names) {
    size_t n = 0;
    for (size_t i = 0; i < sac_chat_templates_count(t); i++) {
        const char *name = sac_chat_templates_name(t, i);
        const sac_text_span text = sac_chat_templates_text(t, i);
        char key[sizeof "tokenizer.chat_template." + SAC_GGUF_TEMPLATE_NAME] = "tokenizer.chat_template";
        const bool is_default = strcmp(name, "default") == 0;
        if (strlen(name) == 0 || strlen(name) > SAC_GGUF_TEMPLATE_NAME)
            return sac_fail(v->j->err, SAC_UNSUPPORTED,
                            "%.200s: a chat template's name of %zu bytes; GGUF's are read from 1 to %d: give it another",
                            v->j->in, strlen(name), SAC_GGUF_TEMPLATE_NAME);
        if (!is_default) {
            snprintf(key, sizeof key, "tokenizer.chat_template.%s", name);
            names[n++] = (sac_text_span){name, strlen(name)};
        }
        sac_gguf_put_string(out, key, text.text, text.n_bytes);
    }
    if (n == 0) return SAC_OK;
    qsort(names, n, sizeof *names, by_text); /* whatever order the folder has */
    sac_gguf_put_strings(out, "tokenizer.chat_templates", names, n);
    return SAC_OK;
}

/* Without a template, how conversations are written is the family's; the file's reader takes that of its architecture. */
static sac_status compare_formats(vocab *v, const char *arch) {
    const sac_family *family;
    sac_quantize_plan *p = &v->j->plan;
    SAC_TRY(sac_family_of_gguf(&family, arch, v->j->err));
    sac_model_config *read = malloc(sizeof *read);
    sac_status st = read ? sac_model_config_default(read, family, v->j->err) : sac_fail_no_memory(v->j->err);
    if (st == SAC_OK && strcmp(read->default_chat, v->j->config.default_chat) != 0) {
        snprintf(p->chat_lost, sizeof p->chat_lost, "%s", v->j->config.default_chat);
        snprintf(p->chat_instead, sizeof p->chat_instead, "%s", read->default_chat);
    }
    free(read);
    return st;
}

static sac_status put_templates(sac_gguf_out *out, vocab *v, const char *arch) {
    sac_chat_templates *t;
    SAC_TRY(sac_chat_templates_create(&t, v->j->err));
    sac_status st = sac_load_folder_templates(t, v->j->in, v->j->err);
    const size_t n = sac_chat_templates_count(t);
    sac_text_span *names = calloc(n + 1, sizeof *names);
    if (st == SAC_OK && !names) st = sac_fail_no_memory(v->j->err);
    if (st == SAC_OK) st = n ? put_named(out, t, v, names) : compare_formats(v, arch);
    free(names);
    sac_chat_templates_free(t);
    return st;
}

static sac_status put(sac_gguf_out *out, vocab *v, const char *arch, bool is_llama) {
    const sac_vocab_source *s = &v->source;
    sac_gguf_put_string(out, "tokenizer.ggml.model", s->model, strlen(s->model));
    sac_gguf_put_string(out, "tokenizer.ggml.pre", s->pre, strlen(s->pre));
    sac_gguf_put_strings(out, "tokenizer.ggml.tokens", s->tokens, s->n_tokens);
    if (is_llama) sac_gguf_put_numbers(out, "tokenizer.ggml.scores", SAC_GGUF_F32, v->scores, s->n_tokens);
    sac_gguf_put_numbers(out, "tokenizer.ggml.token_type", SAC_GGUF_I32, v->types, s->n_tokens);
    if (!is_llama) sac_gguf_put_strings(out, "tokenizer.ggml.merges", s->merges, s->n_merges);
    put_id(out, "tokenizer.ggml.bos_token_id", s->bos_id);
    if (is_llama) put_id(out, "tokenizer.ggml.unknown_token_id", s->unk_id);
    SAC_TRY(put_stops(out, v));
    sac_gguf_put_bool(out, "tokenizer.ggml.add_bos_token", s->add_bos > 0);
    if (s->add_eos > 0) sac_gguf_put_bool(out, "tokenizer.ggml.add_eos_token", true);
    if (is_llama) sac_gguf_put_bool(out, "tokenizer.ggml.add_space_prefix", s->add_space_prefix > 0);
    return put_templates(out, v, arch);
}

static sac_status convert(sac_gguf_out *out, vocab *v, const char *arch) {
    char path[SAC_WRITE_PATH];
    SAC_TRY(sac_path_join(path, sizeof path, v->j->in, "tokenizer.json", v->j->err));
    SAC_TRY(sac_tokenizer_open_file(&v->t, path, SAC_TOKENIZER_BY_CLASS, v->j->err));
    SAC_TRY(sac_json_parse_file(&v->json, path, v->j->err));
    const json_t *model = json_object_get(v->json, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    if (type && strcmp(type, "BPE") != 0)
        return sac_fail(v->j->err, SAC_UNSUPPORTED, "%.200s: its tokenizer is %.40s; GGUF is written for BPE", v->j->in,
                        type);
    const bool is_llama = json_is_true(json_object_get(model, "byte_fallback"));
    find_ends(v);
    SAC_TRY(list_tokens(v, is_llama));
    SAC_TRY(list_merges(v));
    if (is_llama) SAC_TRY(list_scores(v));
    SAC_TRY(choose(v, is_llama));
    return put(out, v, arch, is_llama);
}

sac_status sac_gguf_put_vocab(sac_gguf_out *out, sac_quantize_job *j, const char *arch) {
    vocab v = {.j = j};
    sac_status st = convert(out, &v, arch);
    sac_tokenizer_free(v.t);
    json_decref(v.json);
    free(v.tokens);
    free(v.merges);
    free(v.scores);
    free(v.types);
    free(v.pads);
    free(v.joined);
    return st;
}
