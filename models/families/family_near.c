/* family_near.c - of what is not supported, what comes nearest: for the message of a refusal.
 *
 * First what is known of a kind of model; then names that begin with the same word, as newer models of a line do; then the
 * model that stands on the same language model. None of these says that it would run: only what to look at. */
#include "family.h"
#include "family_spec.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NAME = 64 };

/* Kinds whose names do not tell: of the same tower, merger or block, or near to that. "": nothing here is. A name that ends in
 * "*" stands for all that begin so. */
typedef struct kin {
    const char *type, *nearest;
} kin;
static const kin kinds[] = {
    /* SigLIP or CLIP, an MLP, tiles */
    {"molmo*", "llava_onevision"},
    {"perception_lm", "llava_onevision"},
    {"bunny*", "llava"},
    {"vipllava", "llava"},
    {"janus", "llava"},
    {"multi_modality", "llava"}, /* Janus and DeepSeek-VL by their authors */
    {"deepseek_vl", "llava"},
    {"deepseek_vl_hybrid", "llava"},
    {"llava_next_interleave", "llava"},
    {"granite4_vision", "llava_next"},
    {"video_llava", "llava_next_video"},
    {"paligemma", "gemma3"},
    {"phi3_v", "llava_next"},
    /* tiles and pixel shuffle */
    {"ovis*", "internvl"},
    {"aya_vision", "internvl"},
    {"cohere2_vision", "internvl"},
    {"got_ocr2", "internvl"},
    {"interns1*", "internvl"},
    {"llama_nemotron*", "internvl"},
    {"nemotronh_nano_vl*", "internvl"},
    {"internvideo*", "internvl_chat"},
    {"sa2va*", "internvl_chat"},
    {"lfm2_vl", "smolvlm"},
    {"lfm3_vl", "smolvlm"},
    {"granite_docling", "idefics3"},
    /* any size; positions on three axes */
    {"video_llama_3", "qwen2_5_vl"},
    {"videollama3*", "qwen2_5_vl"},
    {"qwen2_5_omni*", "qwen2_5_vl"},
    {"qwen3_omni*", "qwen3_vl_moe"},
    {"ernie4_5_vl_moe", "qwen3_vl_moe"},
    {"ernie4_5_moe_vl", "qwen3_vl_moe"},
    {"qwen4*", "qwen3_5"},
    {"glm5_next", "glm4v_moe"},
    /* any size, on DeepSeek's experts or like ones */
    {"aria", "kimi_vl"},
    {"deepseek_vl_v2", "kimi_vl"},
    {"deepseek_ocr*", "kimi_vl"},
    {"minicpmv*", "minicpmv4_6"},
    {"minicpmo*", "minicpmv4_6"},
    /* text */
    {"chatglm", "glm4"},
    {"glm_moe_dsa", "glm4_moe"},
    {"kimi_k2", "deepseek_v3"},
    {"kimi_linear", "deepseek_v3"},
    {"minicpm", "llama"},
    {"minicpm3", "deepseek_v2"},
    {"internlm*", "llama"},
    {"baichuan", "llama"},
    {"ernie4_5", "llama"},
    {"ernie4_5_moe", "qwen3_moe"},
    {"gpt_oss", "qwen3_moe"},
    {"qwen2_moe", "qwen3_moe"},
    {"phimoe", "mixtral"},
    {"gemma", "gemma2"},
    {"recurrent_gemma", ""},
    {"t5gemma*", ""},
    {"diffllama", ""},
};

static bool is_kin(const kin *k, const char *type) {
    const size_t n = strlen(k->type);
    return k->type[n - 1] == '*' ? strncmp(k->type, type, n - 1) == 0 : strcmp(k->type, type) == 0;
}

/* Letters at its beginning. */
static size_t stem(const char *name) {
    size_t n = 0;
    while (isalpha((unsigned char)name[n])) n++;
    return n;
}

/* By the words of their names: 2 begins with the same one, 1 begins with the other's or has it within; 0 neither. */
static int relation(const char *type, const char *item) {
    const size_t n = stem(item);
    char word[NAME];
    snprintf(word, sizeof word, "%.*s", (int)n, item);
    if (n < 3) return 0;
    if (strncmp(type, word, n) == 0) return stem(type) == n ? 2 : 1;
    return n >= 5 && strstr(type, word) ? 1 : 0;
}

static size_t n_alike(const char *a, const char *b) {
    size_t n = 0;
    while (a[n] && a[n] == b[n]) n++;
    return n - (n > 0 && a[n - 1] == '_');
}

/* Words of `type` that `item` has too: moe, vl ... */
static size_t n_shared(const char *type, const char *item) {
    char padded[NAME + 2], word[NAME + 2];
    size_t n = 0;
    snprintf(padded, sizeof padded, "_%s_", item);
    for (const char *at = type; *at;) {
        const size_t length = strcspn(at, "_");
        snprintf(word, sizeof word, "_%.*s_", (int)length, at);
        n += length && strstr(padded, word) != NULL;
        at += length + (at[length] == '_');
    }
    return n;
}

/* How near, 0: not at all. Of models of a line the one that sees, or does not, as this one; then words, letters. */
static size_t nearness(const char *type, bool sees, const char *item, bool item_sees) {
    const size_t related = (size_t)relation(type, item);
    if (!related) return 0;
    return ((related * stem(item) * 2 + (sees == item_sees)) * 16 + n_shared(type, item)) * 64 + n_alike(type, item);
}

static sac_status by_name(char nearest[40], const char *type, bool sees, bool in_gguf, sac_error *err) {
    size_t most = 0;
    const sac_family_spec *spec;
    for (int i = 0; sac_families[i]; i++) {
        SAC_TRY(sac_family_spec_find(&spec, sac_families[i]->name, err));
        const sac_spec_list *list = in_gguf ? &spec->gguf : &spec->model_types;
        for (int k = 0; k < list->n; k++) {
            const size_t near = nearness(type, sees, list->item[k], spec->text.n > 0);
            if (near > most) most = near, snprintf(nearest, 40, "%.39s", list->item[k]);
        }
    }
    return SAC_OK;
}

/* The one that stands on that language model; of several the one whose name has most of its words. */
static sac_status by_text(char nearest[40], const char *text, sac_error *err) {
    size_t most = 0;
    const sac_family_spec *spec;
    for (int i = 0; sac_families[i]; i++) {
        SAC_TRY(sac_family_spec_find(&spec, sac_families[i]->name, err));
        const char *type = spec->model_types.n ? spec->model_types.item[0] : "";
        const size_t near = sac_spec_list_has(&spec->text, text) && *type ? 1 + n_shared(text, type) : 0;
        if (near > most) most = near, snprintf(nearest, 40, "%.39s", type);
    }
    return SAC_OK;
}

/* Lower case, words apart by "_". */
static void plain_name(char out[NAME], const char *type) {
    size_t n = 0;
    for (; type && type[n] && n + 1 < NAME; n++)
        out[n] = type[n] == '-' || type[n] == '.' ? '_' : (char)tolower((unsigned char)type[n]);
    out[n] = 0;
}

static const char *text_type(const json_t *config) {
    static const char *const halves[] = {"text_config", "llm_config", "language_config"};
    for (size_t i = 0; i < SAC_COUNT(halves); i++) {
        const char *type = json_string_value(json_object_get(json_object_get(config, halves[i]), "model_type"));
        if (type) return type;
    }
    return NULL;
}

sac_status sac_family_near_config(char nearest[40], const json_t *config, sac_error *err) {
    char type[NAME], text[NAME];
    plain_name(type, json_string_value(json_object_get(config, "model_type")));
    plain_name(text, text_type(config));
    const bool sees = json_object_get(config, "vision_config") || json_object_get(config, "mm_vision_tower");
    nearest[0] = 0;
    for (size_t i = 0; i < SAC_COUNT(kinds); i++)
        if (is_kin(&kinds[i], type)) {
            snprintf(nearest, 40, "%.39s", kinds[i].nearest);
            return SAC_OK;
        }
    SAC_TRY(by_name(nearest, type, sees, false, err));
    if (!nearest[0] && text[0]) SAC_TRY(by_text(nearest, text, err));
    return SAC_OK;
}

sac_status sac_family_near_gguf(char nearest[40], const char *architecture, sac_error *err) {
    char type[NAME];
    plain_name(type, architecture);
    nearest[0] = 0;
    return by_name(nearest, type, false, true, err);
}
