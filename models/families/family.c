/* family.c - the list of families, and which of them a file names. */
#include "family.h"

#include "family_spec.h"

#include <stdio.h>
#include <string.h>

const sac_family *const sac_families[] = {
    &sac_family_llama,
    &sac_family_mistral,
    &sac_family_qwen2,
    &sac_family_qwen3,
    &sac_family_qwen3_moe,
    &sac_family_llava,
    &sac_family_llava_pixtral,
    &sac_family_llava_next,
    &sac_family_llava_next_video,
    &sac_family_llava_onevision,
    &sac_family_longva,
    &sac_family_internvl,
    &sac_family_internvl_chat,
    &sac_family_qwen2_vl,
    &sac_family_qwen2_5_vl,
    &sac_family_qwen3_vl,
    &sac_family_qwen3_vl_moe,
    &sac_family_smolvlm,
    &sac_family_gemma2,
    &sac_family_gemma3_text,
    &sac_family_gemma3,
    &sac_family_granite,
    &sac_family_olmo2,
    &sac_family_smollm3,
    &sac_family_phi3,
    &sac_family_mixtral,
    &sac_family_olmoe,
    &sac_family_granitemoe,
    &sac_family_granitemoeshared,
    &sac_family_ministral,
    &sac_family_ministral3,
    &sac_family_mistral3,
    &sac_family_glm4,
    &sac_family_glm4v,
    &sac_family_glm4_moe,
    &sac_family_glm4v_moe,
    &sac_family_qwen3_5_text,
    &sac_family_qwen3_5,
    &sac_family_qwen3_5_moe_text,
    &sac_family_qwen3_5_moe,
    &sac_family_qwen3_next,
    &sac_family_minicpmv4_6,
    &sac_family_deepseek_v3,
    &sac_family_deepseek_v2,
    &sac_family_kimi_vl,
    &sac_family_glm_ocr,
    &sac_family_lighton_ocr,
    &sac_family_paddleocr_vl,
    NULL,
};

typedef enum list_kind { BY_ARCHITECTURE, BY_MODEL_TYPE, BY_GGUF } list_kind;

/* The family whose YAML has `item` in that list; *out stays NULL when none has. */
static sac_status family_listing(const sac_family **out, list_kind kind, const char *item, sac_error *err) {
    *out = NULL;
    for (int i = 0; sac_families[i] && !*out; i++) {
        sac_family_spec spec;
        SAC_TRY(sac_family_spec_open(&spec, sac_families[i]->name, err));
        const sac_spec_list *list = kind == BY_ARCHITECTURE ? &spec.architectures
                                    : kind == BY_MODEL_TYPE ? &spec.model_types
                                                            : &spec.gguf;
        if (sac_spec_list_has(list, item)) *out = sac_families[i];
        sac_family_spec_free(&spec);
    }
    return SAC_OK;
}

/* "llama, mistral, ..." for the message of a refusal. */
static const char *all_names(char *buf, size_t buf_bytes) {
    size_t used = 0;
    for (int i = 0; sac_families[i] && used < buf_bytes; i++)
        used += (size_t)snprintf(buf + used, buf_bytes - used, "%s%s", i ? ", " : "", sac_families[i]->name);
    return buf;
}

static size_t n_alike(const char *a, const char *b) {
    size_t n = 0;
    while (a[n] && a[n] == b[n]) n++;
    return n;
}

/* How long a is, where b has all of it. */
static size_t n_contained(const char *a, const char *b) {
    return strstr(b, a) ? strlen(a) : 0;
}

/* The model_type for which `alike` is largest, and at least so much; else "". */
static sac_status most_alike(char nearest[40], const char *type, size_t least, size_t (*alike)(const char *, const char *),
                             sac_error *err) {
    size_t most = least - 1;
    nearest[0] = 0;
    for (int i = 0; sac_families[i]; i++) {
        sac_family_spec spec;
        SAC_TRY(sac_family_spec_open(&spec, sac_families[i]->name, err));
        for (int k = 0; k < spec.model_types.n; k++) {
            const size_t same = alike(spec.model_types.item[k], type);
            if (same > most) most = same, snprintf(nearest, 40, "%.39s", spec.model_types.item[k]);
        }
        sac_family_spec_free(&spec);
    }
    return SAC_OK;
}

/* That begins most like `type`, if three letters do; else the longest that is within it, of four letters or more ("mllama"). */
static sac_status nearest_type(char nearest[40], const char *type, sac_error *err) {
    char name[80];
    snprintf(name, sizeof name, "%s", type ? type : "");
    SAC_TRY(most_alike(nearest, name, 3, n_alike, err));
    return nearest[0] ? SAC_OK : most_alike(nearest, name, 4, n_contained, err);
}

/* Where the weights of an original layout are in transformers'. */
typedef struct twin {
    const char *model_type, *original, *converted;
} twin;
static const twin *converted_twin(const char *model_type) {
    static const twin twins[] = {
        {"llava_llama", "LLaVA", "llava-hf/llava-1.5-7b-hf"}, /* or the 13b, or 1.6 */
        {"llava_mistral", "LLaVA", "llava-hf/llava-v1.6-mistral-7b-hf"},
    };
    for (size_t i = 0; i < SAC_COUNT(twins); i++)
        if (model_type && strcmp(model_type, twins[i].model_type) == 0) return &twins[i];
    return NULL;
}

sac_status sac_family_of_config(const sac_family **out, const json_t *config, sac_error *err) {
    const char *type = NULL;
    char names[400];
    SAC_TRY(sac_json_get_string(config, "model_type", &type, err));
    const json_t *list = NULL;
    SAC_TRY(sac_json_get_array(config, "architectures", &list, err));
    const char *architecture = json_string_value(json_array_get(list, 0));
    if (!architecture && !type)
        return sac_fail(err, SAC_BAD_FILE,
                        "neither \"architectures\" nor \"model_type\": not a model's config.json");
    SAC_TRY(family_listing(out, architecture ? BY_ARCHITECTURE : BY_MODEL_TYPE,
                           architecture ? architecture : type, err));
    /* LLaVA-OneVision's original files say "llava" */
    const bool is_kin = *out == &sac_family_longva && type && strcmp(type, "llava") == 0;
    if (*out && architecture && type && !is_kin) SAC_TRY(family_listing(out, BY_MODEL_TYPE, type, err));
    if (*out) return SAC_OK;
    const twin *t = converted_twin(type);
    if (t)
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "model_type %s is the layout of the original %s; fetch the same weights converted for "
            "transformers, for example \"hf download %s\"",
            type, t->original, t->converted);
    char nearest[40];
    SAC_TRY(nearest_type(nearest, type, err));
    return sac_fail(err, SAC_UNSUPPORTED, "architecture %.60s (model_type %.40s) is not supported%s%s; these families are: %s",
                    architecture ? architecture : "not given", type ? type : "not given",
                    nearest[0] ? ", the nearest that is: " : "", nearest, all_names(names, sizeof names));
}

/* The architectures of GGUF files into names, and of these the one that begins most like `like`, if three letters do. */
static sac_status list_gguf(char *names, size_t n_bytes, const char *like, char nearest[40], sac_error *err) {
    size_t used = 0, most = 2;
    nearest[0] = names[0] = 0;
    for (int i = 0; sac_families[i]; i++) {
        sac_family_spec spec;
        SAC_TRY(sac_family_spec_open(&spec, sac_families[i]->name, err));
        for (int k = 0; k < spec.gguf.n; k++) {
            const char *item = spec.gguf.item[k];
            const size_t same = n_alike(item, like);
            if (same > most) most = same, snprintf(nearest, 40, "%.39s", item);
            if (used < n_bytes) used += (size_t)snprintf(names + used, n_bytes - used, "%s%s", used ? ", " : "", item);
        }
        sac_family_spec_free(&spec);
    }
    return SAC_OK;
}

sac_status sac_family_of_gguf(const sac_family **out, const char *architecture, sac_error *err) {
    char names[400], nearest[40];
    SAC_TRY(family_listing(out, BY_GGUF, architecture, err));
    if (*out) return SAC_OK;
    if (strcmp(architecture, "clip") == 0)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "the vision half of a model; give the language model, and this file with --mmproj");
    SAC_TRY(list_gguf(names, sizeof names, architecture, nearest, err));
    return sac_fail(err, SAC_UNSUPPORTED, "GGUF architecture \"%.40s\" is not supported%s%s; these are: %s", architecture,
                    nearest[0] ? ", the nearest that is: " : "", nearest, names);
}
