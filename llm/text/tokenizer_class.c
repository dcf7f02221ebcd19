/* tokenizer_class.c - what the tokenizer classes of transformers 5 change of a tokenizer.json.
 *
 * Most classes take the file as it is. LlamaTokenizer, Qwen2Tokenizer, Qwen3_5Tokenizer, GemmaTokenizer, GPT2Tokenizer and
 * GPTNeoXTokenizer take vocabulary, merges and the template of added tokens from it and make the rest themselves
 * (models/NAME/tokenization_NAME.py), so that "legacy" and "add_prefix_space" of tokenizer_config.json have an effect and the file's own
 * normaliser, splits and decoder have none. GPTNeoXTokenizer leaves out the template too: it adds no token. Which class it is goes by "tokenizer_class" and the "model_type" of config.json
 * (models/auto/tokenization_auto.py). */
#include "tokenizer_impl.h"

#include "json.h"

#include <stdio.h>
#include <string.h>

#define QWEN2_PATTERN                                                                                        \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"      \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* A letter's marks stay with it. */
#define QWEN3_5_PATTERN                                                                                      \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"                             \
    " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Model types for which the file is taken as it is, whatever the class is called. */
static const char *const as_the_file_says[] = {
    "mistral",  "mixtral",    "ministral",        "ministral3",  "mistral3",
    "llava",    "llava_next", "smolvlm",          "phi3",        "olmo2",
    "granite",  "granitemoe", "granitemoeshared", "glm4",        "glm4v",
    "glm4_moe", "glm4v_moe",  "minicpmv4_6",      "paddleocr_vl"};

/* Model types whose class it is where no file names one. */
static const char *const of_qwen2[] = {"qwen2_vl", "qwen2_5_vl",   "qwen3",      "qwen3_moe",  "qwen3_vl",
                                       "internvl", "qwen3_vl_moe", "qwen3_next", "lighton_ocr"};

static const char *const of_gemma[] = {"gemma", "gemma2", "gemma3", "gemma3_text"};

static const char *const of_gpt_neox[] = {"olmoe"};

/* Model types whose class it is whatever the files name. */
static const char *const always_qwen3_5[] = {"qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text"};

/* Classes that take it so; LlamaTokenizer where the file is byte-level. */
static const char *const of_the_file[] = {"PreTrainedTokenizer", "TokenizersBackend", "LlamaTokenizer"};

static bool is_class(const char *name, const char *wanted) {
    size_t n = strlen(wanted);
    return name && strncmp(name, wanted, n) == 0 && (!name[n] || strcmp(name + n, "Fast") == 0);
}

sac_status sac_tokenizer_class_find(sac_tokenizer_class *out, char unknown[SAC_MAX_CLASS_NAME],
                                    const sac_tokenizer_json *files, bool has_byte_level, sac_error *err) {
    const char *name = NULL, *type = NULL;
    *out = SAC_CLASS_FILE;
    sac_status st =
        files->config ? sac_json_get_string(files->config, "tokenizer_class", &name, err) : SAC_OK;
    if (st != SAC_OK) return sac_fail_prefix(err, st, "tokenizer_config.json");
    if (!name && files->model) st = sac_json_get_string(files->model, "tokenizer_class", &name, err);
    if (st == SAC_OK && files->model) st = sac_json_get_string(files->model, "model_type", &type, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "config.json");
    for (size_t i = 0; type && i < SAC_COUNT(as_the_file_says); i++)
        if (strcmp(type, as_the_file_says[i]) == 0) return SAC_OK;
    bool is_qwen2 = type && strcmp(type, "qwen2") == 0;
    for (size_t i = 0; type && !name && i < SAC_COUNT(of_qwen2); i++)
        is_qwen2 |= strcmp(type, of_qwen2[i]) == 0;
    bool is_3_5 = type && !name && strcmp(type, "qwen3_5_text") == 0;
    for (size_t i = 0; type && i < SAC_COUNT(always_qwen3_5); i++)
        is_3_5 |= strcmp(type, always_qwen3_5[i]) == 0;
    bool is_gemma = is_class(name, "GemmaTokenizer");
    for (size_t i = 0; type && !name && i < SAC_COUNT(of_gemma); i++)
        is_gemma |= strcmp(type, of_gemma[i]) == 0;
    bool is_gpt_neox = is_class(name, "GPTNeoXTokenizer");
    for (size_t i = 0; type && !name && i < SAC_COUNT(of_gpt_neox); i++)
        is_gpt_neox |= strcmp(type, of_gpt_neox[i]) == 0;
    if (is_3_5 || is_class(name, "Qwen3_5Tokenizer"))
        *out = SAC_CLASS_QWEN3_5;
    else if (is_qwen2 || is_class(name, "Qwen2Tokenizer"))
        *out = SAC_CLASS_QWEN2;
    else if (is_gemma)
        *out = SAC_CLASS_GEMMA;
    else if (is_class(name, "GPT2Tokenizer"))
        *out = SAC_CLASS_GPT2;
    else if (is_gpt_neox)
        *out = SAC_CLASS_GPT_NEOX;
    else if (is_class(name, "LlamaTokenizer") && !has_byte_level)
        *out = SAC_CLASS_LLAMA;
    for (size_t i = 0; *out == SAC_CLASS_FILE && name && i < SAC_COUNT(of_the_file); i++)
        if (is_class(name, of_the_file[i])) return SAC_OK;
    if (*out == SAC_CLASS_FILE && name) snprintf(unknown, SAC_MAX_CLASS_NAME, "%s", name);
    return SAC_OK;
}

static const char *name_of(sac_tokenizer_class kind) {
    return kind == SAC_CLASS_LLAMA      ? "LlamaTokenizer"
           : kind == SAC_CLASS_QWEN2    ? "Qwen2Tokenizer"
           : kind == SAC_CLASS_QWEN3_5  ? "Qwen3_5Tokenizer"
           : kind == SAC_CLASS_GEMMA    ? "GemmaTokenizer"
           : kind == SAC_CLASS_GPT2     ? "GPT2Tokenizer"
           : kind == SAC_CLASS_GPT_NEOX ? "GPTNeoXTokenizer"
                                        : "tokenizer.json";
}

/* models/llama: a space in front of the first text, or of each between control tokens where "legacy" is true. */
static sac_status apply_llama(sac_tokenizer *t, bool prefix, bool legacy, sac_error *err) {
    static const char metaspace[] = "\xe2\x96\x81";
    sac_step *step;
    SAC_TRY(sac_steps_new(&t->split, &step, err));
    step->kind = SAC_STEP_METASPACE;
    step->scheme = !prefix ? SAC_PREPEND_NEVER : legacy ? SAC_PREPEND_ALWAYS : SAC_PREPEND_FIRST;
    SAC_TRY(sac_step_set_text(step, metaspace, sizeof metaspace - 1, err));
    t->bpe.byte_fallback = t->bpe.fuse_unk = true;
    t->decoder =
        (sac_decoder){.replace = {{.from = "\xe2\x96\x81", .to = " ", .from_bytes = 3, .to_bytes = 1}},
                      .n_replaces = 1,
                      .byte_fallback = true,
                      .strip_char = ' ',
                      .strip_left = prefix};
    return SAC_OK;
}

static sac_status add_nfc(sac_tokenizer *t, sac_error *err) {
    sac_step *step;
    SAC_TRY(sac_steps_new(&t->normalize, &step, err));
    step->kind = SAC_STEP_UNICODE;
    step->form = SAC_NFC;
    return SAC_OK;
}

static sac_status apply_qwen(sac_tokenizer *t, const char *pattern, bool prefix, sac_error *err) {
    SAC_TRY(add_nfc(t, err));
    SAC_TRY(sac_steps_add_split(&t->split, pattern, strlen(pattern), false, SAC_SPLIT_ISOLATED, false, err));
    SAC_TRY(sac_steps_add_byte_level(&t->split, prefix, false, err));
    t->bpe.byte_fallback = t->bpe.fuse_unk = false;
    t->decoder = (sac_decoder){.byte_level = true};
    return SAC_OK;
}

static sac_status apply_gpt2(sac_tokenizer *t, bool prefix, sac_error *err) {
    SAC_TRY(sac_steps_add_byte_level(&t->split, prefix, true, err));
    t->bpe.byte_fallback = t->bpe.fuse_unk = false;
    t->decoder = (sac_decoder){.byte_level = true};
    return SAC_OK;
}

static sac_status apply_gpt_neox(sac_tokenizer *t, bool prefix, sac_error *err) {
    SAC_TRY(add_nfc(t, err));
    return apply_gpt2(t, prefix, err);
}

/* models/gemma: as LlamaTokenizer without a space in front; the token for what is unknown is the file's. */
static sac_status apply_gemma(sac_tokenizer *t, sac_error *err) {
    static const char metaspace[] = "\xe2\x96\x81";
    sac_step *step;
    SAC_TRY(sac_steps_new(&t->normalize, &step, err));
    step->kind = SAC_STEP_REPLACE;
    SAC_TRY(sac_step_set_text(step, metaspace, sizeof metaspace - 1, err));
    SAC_TRY(sac_regex_compile(&step->regex, " ", 1, true, err));
    SAC_TRY(sac_steps_add_split(&t->split, " ", 1, true, SAC_SPLIT_MERGED_WITH_PREVIOUS, false, err));
    t->bpe.byte_fallback = t->bpe.fuse_unk = true;
    t->decoder =
        (sac_decoder){.replace = {{.from = "\xe2\x96\x81", .to = " ", .from_bytes = 3, .to_bytes = 1}},
                      .n_replaces = 1,
                      .byte_fallback = true};
    return SAC_OK;
}

static sac_status read_settings(const sac_tokenizer_json *files, bool *splits_special, bool *prefix,
                                bool *legacy, sac_error *err) {
    if (!files->config) return SAC_OK;
    SAC_TRY(sac_json_get_bool(files->config, "split_special_tokens", splits_special, err));
    if (files->kind == SAC_CLASS_FILE || files->kind == SAC_CLASS_GEMMA) return SAC_OK;
    SAC_TRY(sac_json_get_bool(files->config, "add_prefix_space", prefix, err));
    return files->kind == SAC_CLASS_LLAMA ? sac_json_get_bool(files->config, "legacy", legacy, err) : SAC_OK;
}

sac_status sac_tokenizer_class_apply(sac_tokenizer *t, const sac_tokenizer_json *files, sac_error *err) {
    bool prefix = files->kind == SAC_CLASS_LLAMA, legacy = false;
    t->kind = name_of(files->kind);
    sac_status st = read_settings(files, &t->splits_special, &prefix, &legacy, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "tokenizer_config.json");
    if (files->kind == SAC_CLASS_FILE) return SAC_OK;
    if (t->model != SAC_MODEL_BPE)
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "\"tokenizer_class\" means %s, but tokenizer.json holds a Unigram model: give --tokenizer file "
            "to take tokenizer.json as it is",
            t->kind);
    t->bpe.ignore_merges = false;
    if (files->kind == SAC_CLASS_GEMMA) return apply_gemma(t, err);
    t->bpe.wants_unk = false;
    t->bpe.unk_id = -1;
    if (files->kind == SAC_CLASS_LLAMA) return apply_llama(t, prefix, legacy, err);
    if (files->kind == SAC_CLASS_GPT2) return apply_gpt2(t, prefix, err);
    if (files->kind == SAC_CLASS_GPT_NEOX) return apply_gpt_neox(t, prefix, err);
    return apply_qwen(t, files->kind == SAC_CLASS_QWEN2 ? QWEN2_PATTERN : QWEN3_5_PATTERN, prefix, err);
}
