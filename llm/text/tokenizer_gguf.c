/* tokenizer_gguf.c - a tokenizer from the arrays of a GGUF file.
 *
 * Such files say what kind of vocabulary they hold and, for byte-level BPE, name the split pattern ("pre");
 * the steps that tokenizer.json would spell out are put together here. Facts about the names and patterns are
 * those of llama.cpp (src/llama-vocab.cpp); the answers are meant to be transformers', so Qwen2's NFC is
 * applied although GGUF does not mention it. */
#include "tokenizer_impl.h"

#include "utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define METASPACE  "\xe2\x96\x81" /* U+2581 */

/* ---- split patterns ---- */

#define GPT2_SPLIT "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3_SPLIT                                                                                         \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN2_SPLIT                                                                                          \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"      \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN3_5_SPLIT                                                                                        \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"                             \
    " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define TEKKEN_SPLIT                                                                                         \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"             \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}|"      \
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define DEEPSEEK3_SPLIT                                                                                      \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"                     \
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* Letters with case, as the first tokenizer of DeepSeek lists them. */
#define DEEPSEEK_LETTERS \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}" \
    "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}" \
    "\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}" \
    "\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}" \
    "\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}" \
    "\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}" \
    "\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}" \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}" \
    "\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}" \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}" \
    "\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}" \
    "\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}" \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"

typedef struct pre_kind {
    const char *names; /* separated by spaces */
    const char *pattern[6];
    bool ignore_merges, nfc, add_bos;
} pre_kind;

static const pre_kind pre_kinds[] = {
    {.names = "gpt-2 phi-2 mpt olmo jais trillion exaone4 mellum modern-bert", .pattern = {GPT2_SPLIT}},
    {.names = "llama3 llama-v3 llama-bpe falcon3 pixtral lfm2",
     .pattern = {LLAMA3_SPLIT},
     .ignore_merges = true,
     .add_bos = true},
    {.names = "dbrx smaug-bpe chatglm-bpe", .pattern = {LLAMA3_SPLIT}},
    {.names = "glm4", .pattern = {LLAMA3_SPLIT}, .ignore_merges = true},
    {.names = "qwen2", .pattern = {QWEN2_SPLIT}, .nfc = true},
    {.names = "qwen35", .pattern = {QWEN3_5_SPLIT}, .nfc = true},
    {.names = "deepseek-r1-qwen stablelm2 hunyuan megrez grok-2", .pattern = {QWEN2_SPLIT}},
    {.names = "smollm starcoder refact command-r codeshell exaone minerva-7b",
     .pattern = {"\\p{N}", GPT2_SPLIT}},
    {.names = "tekken", .pattern = {TEKKEN_SPLIT}, .ignore_merges = true},
    {.names = "deepseek-v3", .pattern = {"\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+", DEEPSEEK3_SPLIT}},
    {.names = "deepseek-llm",
     .pattern = {"[\\r\\n]", "\\s?[" DEEPSEEK_LETTERS "]+",
                 "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+", "\\s+$",
                 "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+", "\\p{N}"}},
    {.names = "kimi-k2", .pattern = {sac_kimi_split}, .ignore_merges = true}, /* as tiktoken has it */
    {.names = "default", .pattern = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2_SPLIT, "\\p{N}+", "[0-9][0-9][0-9]"}},
};

static bool has_name(const char *names, const char *name) {
    size_t n = strlen(name);
    for (const char *at = names; n && (at = strstr(at, name)); at++)
        if ((at == names || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

static sac_status find_pre(const char *name, const pre_kind **out, sac_error *err) {
    for (size_t i = 0; i < SAC_COUNT(pre_kinds); i++)
        if (has_name(pre_kinds[i].names, name)) {
            *out = &pre_kinds[i];
            return SAC_OK;
        }
    return sac_fail(err, SAC_UNSUPPORTED, "tokenizer.ggml.pre \"%.60s\" is not a known split pattern", name);
}

static sac_status set_byte_level_steps(sac_tokenizer *t, const pre_kind *pre, bool prefix_space,
                                       sac_error *err) {
    sac_step *step;
    if (pre->nfc) {
        SAC_TRY(sac_steps_new(&t->normalize, &step, err));
        step->kind = SAC_STEP_UNICODE;
        step->form = SAC_NFC;
    }
    if (prefix_space) {
        SAC_TRY(sac_steps_new(&t->split, &step, err));
        step->kind = SAC_STEP_PREFIX;
        SAC_TRY(sac_step_set_text(step, " ", 1, err));
    }
    for (size_t i = 0; i < SAC_COUNT(pre->pattern) && pre->pattern[i]; i++)
        SAC_TRY(sac_steps_add_split(&t->split, pre->pattern[i], strlen(pre->pattern[i]), false,
                                    SAC_SPLIT_ISOLATED, false, err));
    t->decoder.byte_level = true;
    t->bpe.ignore_merges = pre->ignore_merges;
    return sac_steps_add_byte_level(&t->split, false, false, err);
}

/* SentencePiece's way: one space in front of a text, spaces written as U+2581, no splitting. */
static sac_status set_sentencepiece_steps(sac_tokenizer *t, bool prefix_space, sac_error *err) {
    sac_step *step;
    if (prefix_space) {
        SAC_TRY(sac_steps_new(&t->normalize, &step, err));
        step->kind = SAC_STEP_PREPEND;
        SAC_TRY(sac_step_set_text(step, METASPACE, 3, err));
    }
    SAC_TRY(sac_steps_new(&t->normalize, &step, err));
    step->kind = SAC_STEP_REPLACE;
    SAC_TRY(sac_step_set_text(step, METASPACE, 3, err));
    SAC_TRY(sac_regex_compile(&step->regex, " ", 1, true, err));
    sac_decoder *d = &t->decoder;
    d->n_replaces = 1;
    memcpy(d->replace[0].from, METASPACE, 3);
    memcpy(d->replace[0].to, " ", 1);
    d->replace[0].from_bytes = 3;
    d->replace[0].to_bytes = 1;
    d->byte_fallback = true;
    d->strip_char = ' ';
    d->strip_left = prefix_space;
    t->bpe.byte_fallback = t->bpe.fuse_unk = true;
    return SAC_OK;
}

/* ---- tokens and merges ---- */

static sac_status add_tokens(sac_tokenizer *t, const sac_vocab_source *src, sac_error *err) {
    size_t text_bytes = 0;
    if (src->n_tokens == 0 || src->n_tokens > (size_t)SAC_MAX_TOKENS_OF_VOCAB)
        return sac_fail(err, SAC_BAD_FILE, "tokenizer.ggml.tokens: %zu tokens, must be 1 to %d",
                        src->n_tokens, (int)SAC_MAX_TOKENS_OF_VOCAB);
    for (size_t i = 0; i < src->n_tokens; i++) text_bytes += src->tokens[i].n_bytes;
    SAC_TRY(sac_vocab_reserve(&t->vocab, src->n_tokens, text_bytes, err));
    for (size_t i = 0; i < src->n_tokens; i++) {
        sac_text_span text = src->tokens[i];
        int32_t type = src->types ? src->types[i] : SAC_TOKEN_NORMAL;
        if (!sac_utf8_valid(text.text, text.n_bytes))
            return sac_fail(err, SAC_BAD_FILE, "tokenizer.ggml.tokens[%zu] is not UTF-8", i);
        if (text.n_bytes == 0) continue; /* an id without a token */
        unsigned flags = type == SAC_TOKEN_NORMAL ? SAC_VOCAB_MODEL : 0;
        SAC_TRY(sac_vocab_add(&t->vocab, (int64_t)i, text.text, text.n_bytes, flags, err));
        bool special = type == SAC_TOKEN_CONTROL || type == SAC_TOKEN_UNKNOWN;
        if (special || type == SAC_TOKEN_USER_DEFINED)
            SAC_TRY(sac_added_tokens_add(t, (sac_added_token){.id = (int32_t)i, .special = special}, err));
    }
    return sac_vocab_index(&t->vocab, err);
}

static sac_status add_merges(sac_tokenizer *t, const sac_vocab_source *src, sac_error *err) {
    char *both = malloc(2 * SAC_MAX_TOKEN_BYTES);
    if (!both) return sac_fail(err, SAC_NO_MEMORY, "no memory for merges");
    sac_status st = sac_bpe_reserve(&t->bpe, src->n_merges, err);
    for (size_t i = 0; st == SAC_OK && i < src->n_merges; i++) {
        sac_text_span m = src->merges[i];
        const char *space = m.n_bytes > 1 ? memchr(m.text + 1, ' ', m.n_bytes - 1) : NULL;
        size_t left = space ? (size_t)(space - m.text) : 0, right = space ? m.n_bytes - left - 1 : 0;
        int32_t ids[3] = {-1, -1, -1};
        if (left && right && left <= SAC_MAX_TOKEN_BYTES && right <= SAC_MAX_TOKEN_BYTES) {
            memcpy(both, m.text, left);
            memcpy(both + left, space + 1, right);
            ids[0] = sac_vocab_find(&t->vocab, both, left);
            ids[1] = sac_vocab_find(&t->vocab, both + left, right);
            ids[2] = sac_vocab_find(&t->vocab, both, left + right);
        }
        if (ids[0] < 0 || ids[1] < 0 || ids[2] < 0)
            st = sac_fail(err, SAC_BAD_FILE,
                          "tokenizer.ggml.merges[%zu] \"%.*s\" is not two tokens that make a third", i,
                          (int)(m.n_bytes < 80 ? m.n_bytes : 80), m.text);
        else
            st = sac_bpe_add(&t->bpe, ids[0], ids[1], (uint32_t)i, ids[2], err);
    }
    free(both);
    return st;
}

typedef struct scored {
    float score;
    int32_t id;
} scored;

static int by_score(const void *a, const void *b) { /* highest first */
    const scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static sac_status add_pairs_of(sac_tokenizer *t, int32_t id, uint32_t rank, sac_error *err) {
    const sac_vocab *v = &t->vocab;
    const char *text = sac_vocab_text(v, id);
    size_t n_bytes = v->token[id].n_bytes;
    for (size_t cut = sac_utf8_length(text[0]); cut < n_bytes; cut += sac_utf8_length(text[cut])) {
        int32_t left = sac_vocab_find(v, text, cut);
        if (left < 0 || !(v->token[left].flags & SAC_VOCAB_MODEL)) continue;
        int32_t right = sac_vocab_find(v, text + cut, n_bytes - cut);
        if (right < 0 || !(v->token[right].flags & SAC_VOCAB_MODEL)) continue;
        SAC_TRY(sac_bpe_add(&t->bpe, left, right, rank, id, err));
    }
    return SAC_OK;
}

/* SentencePiece's BPE has no merges: of all neighbours whose joined text is a token, the one with the highest
 * score is joined, the leftmost of equals. The same as ranks shared by tokens of equal score. */
static sac_status add_merges_by_score(sac_tokenizer *t, const sac_vocab_source *src, sac_error *err) {
    if (!src->scores) return sac_fail(err, SAC_BAD_FILE, "tokenizer.ggml.scores is missing");
    scored *list = calloc(src->n_tokens, sizeof *list);
    if (!list) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu scores", src->n_tokens);
    size_t n = 0;
    sac_status st = sac_bpe_reserve(&t->bpe, 2 * src->n_tokens, err);
    for (size_t i = 0; st == SAC_OK && i < src->n_tokens; i++) {
        if (!isfinite(src->scores[i]))
            st = sac_fail(err, SAC_BAD_FILE, "tokenizer.ggml.scores[%zu] is not a number", i);
        if (sac_vocab_has(&t->vocab, (int64_t)i) && (t->vocab.token[i].flags & SAC_VOCAB_MODEL))
            list[n++] = (scored){src->scores[i], (int32_t)i};
    }
    qsort(list, n, sizeof *list, by_score);
    uint32_t rank = 0;
    for (size_t i = 0; st == SAC_OK && i < n; i++) {
        if (i > 0 && list[i].score < list[i - 1].score) rank++;
        st = add_pairs_of(t, list[i].id, rank, err);
    }
    free(list);
    return st;
}

/* ---- the whole ---- */

static sac_status check_id(const sac_tokenizer *t, int64_t id, const char *name, int32_t *out,
                           sac_error *err) {
    *out = -1;
    if (id < 0) return SAC_OK;
    if (!sac_vocab_has(&t->vocab, id))
        return sac_fail(err, SAC_BAD_FILE, "tokenizer.ggml.%s_token_id %lld is not a token", name,
                        (long long)id);
    *out = (int32_t)id;
    return SAC_OK;
}

static sac_status build(sac_tokenizer *t, const sac_vocab_source *src, sac_error *err) {
    bool llama = strcmp(src->model, "llama") == 0, gpt2 = strcmp(src->model, "gpt2") == 0;
    const pre_kind *pre = NULL;
    if (!llama && !gpt2)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "tokenizer.ggml.model \"%.60s\" is not supported (llama and gpt2 are)", src->model);
    if (gpt2) SAC_TRY(find_pre(src->pre ? src->pre : "default", &pre, err));
    SAC_TRY(add_tokens(t, src, err));
    SAC_TRY(check_id(t, src->bos_id, "bos", &t->bos, err));
    SAC_TRY(check_id(t, src->eos_id, "eos", &t->eos, err));
    SAC_TRY(check_id(t, src->unk_id, "unknown", &t->bpe.unk_id, err));
    t->bpe.wants_unk = llama;
    bool prefix_space = src->add_space_prefix < 0 ? llama : src->add_space_prefix != 0;
    SAC_TRY(llama ? set_sentencepiece_steps(t, prefix_space, err)
                  : set_byte_level_steps(t, pre, prefix_space, err));
    SAC_TRY(llama ? add_merges_by_score(t, src, err) : add_merges(t, src, err));
    bool add_bos = src->add_bos < 0 ? llama || pre->add_bos : src->add_bos != 0;
    if (add_bos && t->bos >= 0) t->before[t->n_before++] = t->bos;
    if (src->add_eos > 0 && t->eos >= 0) t->behind[t->n_behind++] = t->eos;
    return sac_tokenizer_finish(t, err);
}

sac_status sac_tokenizer_open_vocab(sac_tokenizer **out, const sac_vocab_source *src, sac_error *err) {
    *out = NULL;
    sac_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return sac_fail(err, SAC_NO_MEMORY, "no memory for a tokenizer");
    sac_status st = build(t, src, err);
    if (st != SAC_OK) {
        sac_tokenizer_free(t);
        return st;
    }
    *out = t;
    return SAC_OK;
}
