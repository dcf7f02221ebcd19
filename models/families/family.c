/* family.c - which of the families a file names. */
#include "family.h"

#include "family_spec.h"

#include <stdio.h>
#include <string.h>

typedef enum list_kind { BY_ARCHITECTURE, BY_MODEL_TYPE, BY_GGUF } list_kind;

/* The family whose YAML has `item` in that list; *out stays NULL when none has. */
static sac_status family_listing(const sac_family **out, list_kind kind, const char *item, sac_error *err) {
    const sac_family_spec *spec;
    *out = NULL;
    for (int i = 0; sac_families[i] && !*out; i++) {
        if (!sac_family_spec_mentions(sac_families[i]->name, item)) continue;
        SAC_TRY(sac_family_spec_find(&spec, sac_families[i]->name, err));
        const sac_spec_list *list = kind == BY_ARCHITECTURE ? &spec->architectures
                                    : kind == BY_MODEL_TYPE ? &spec->model_types
                                                            : &spec->gguf;
        if (sac_spec_list_has(list, item)) *out = sac_families[i];
    }
    return SAC_OK;
}

/* "llama, mistral, ..." for the message of a refusal: as many whole names as have room, and how many more there are. */
typedef struct name_list {
    char text[240];
    size_t used;
    int n_left;
} name_list;
static void add_name(name_list *l, const char *name) {
    const size_t n = strlen(name);
    if (l->n_left || l->used + n + 2 >= sizeof l->text) {
        l->n_left++;
        return;
    }
    l->used += (size_t)snprintf(l->text + l->used, sizeof l->text - l->used, "%s%s", l->used ? ", " : "", name);
}
static const char *more_names(const name_list *l, char text[24]) {
    text[0] = 0;
    if (l->n_left) snprintf(text, 24, " and %d more", l->n_left);
    return text;
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

static sac_status refuse_config(const json_t *config, const char *architecture, const char *type, sac_error *err) {
    char nearest[40], more[24];
    name_list names = {0};
    SAC_TRY(sac_family_near_config(nearest, config, err));
    if (type && strcmp(nearest, type) == 0)
        return sac_fail(err, SAC_UNSUPPORTED, "architecture %.60s is not supported; others of model_type %.40s are", architecture ? architecture : "not given", type);
    for (int i = 0; sac_families[i] && !nearest[0]; i++) add_name(&names, sac_families[i]->name);
    return sac_fail(err, SAC_UNSUPPORTED, "architecture %.60s (model_type %.40s) is not supported%s%s%s%s", architecture ? architecture : "not given",
                    type ? type : "not given", nearest[0] ? "; the nearest that is: " : ", nor is one near it; these are: ", nearest,
                    names.text, more_names(&names, more));
}

sac_status sac_family_of_config(const sac_family **out, const json_t *config, sac_error *err) {
    const char *type = NULL;
    SAC_TRY(sac_json_get_string(config, "model_type", &type, err));
    const json_t *list = NULL;
    SAC_TRY(sac_json_get_array(config, "architectures", &list, err));
    const char *architecture = json_string_value(json_array_get(list, 0));
    if (!architecture && !type)
        return sac_fail(err, SAC_BAD_FILE,
                        "neither \"architectures\" nor \"model_type\": not a model's config.json");
    SAC_TRY(family_listing(out, architecture ? BY_ARCHITECTURE : BY_MODEL_TYPE,
                           architecture ? architecture : type, err));
    /* LLaVA-OneVision's original files say "llava", LightOnOCR's "mistral3" */
    const bool is_kin = (*out == &sac_family_longva && type && strcmp(type, "llava") == 0) ||
                        (*out == &sac_family_lighton_ocr && type && strcmp(type, "mistral3") == 0);
    if (*out && architecture && type && !is_kin) SAC_TRY(family_listing(out, BY_MODEL_TYPE, type, err));
    if (*out) return SAC_OK;
    const twin *t = converted_twin(type);
    if (t)
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "model_type %s is the layout of the original %s; fetch the same weights converted for "
            "transformers, for example \"hf download %s\"",
            type, t->original, t->converted);
    return refuse_config(config, architecture, type, err);
}

static sac_status list_gguf(name_list *l, sac_error *err) {
    const sac_family_spec *spec;
    for (int i = 0; sac_families[i]; i++) {
        SAC_TRY(sac_family_spec_find(&spec, sac_families[i]->name, err));
        for (int k = 0; k < spec->gguf.n; k++) add_name(l, spec->gguf.item[k]);
    }
    return SAC_OK;
}

sac_status sac_family_of_gguf(const sac_family **out, const char *architecture, sac_error *err) {
    char nearest[40], more[24];
    name_list names = {0};
    SAC_TRY(family_listing(out, BY_GGUF, architecture, err));
    if (*out) return SAC_OK;
    if (strcmp(architecture, "clip") == 0)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "the vision half of a model; give the language model, and this file with --mmproj");
    SAC_TRY(sac_family_near_gguf(nearest, architecture, err));
    if (!nearest[0]) SAC_TRY(list_gguf(&names, err));
    return sac_fail(err, SAC_UNSUPPORTED, "GGUF architecture \"%.40s\" is not supported%s%s%s%s", architecture,
                    nearest[0] ? "; the nearest that is: " : ", nor is one near it; these are: ", nearest, names.text, more_names(&names, more));
}
