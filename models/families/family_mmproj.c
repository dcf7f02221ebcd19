/* family_mmproj.c - vision halves in GGUF files of their own, as llama.cpp's converters write them (tools/mtmd,
 * clip-impl.h: its keys): which family one is of, and its metadata as what the family reads of a Hugging Face folder. */
#include "config_values.h"
#include "family.h"
#include "family_spec.h"

#include <stdio.h>
#include <string.h>

/* Files from before clip.projector_type say by flags what they are. */
static const char *projector_of(const json_t *keys) {
    static const struct {
        const char *flag, *projector;
    } older[] = {{"clip.has_qwen2vl_merger", "qwen2vl_merger"}, {"clip.has_llava_projector", "mlp"}};
    const char *type = json_string_value(json_object_get(keys, "clip.vision.projector_type"));
    if (!type) type = json_string_value(json_object_get(keys, "clip.projector_type"));
    for (size_t i = 0; i < SAC_COUNT(older) && !type; i++)
        if (json_is_true(json_object_get(keys, older[i].flag))) type = older[i].projector;
    return type;
}

/* Whether the file has what the family asks for, where it does. */
static bool has_needed(const sac_mmproj *p, const sac_spec_mmproj *m) {
    return (!m->needs || json_object_get(p->keys, m->needs)) && (!m->needs_tensor || p->rows(p->tensors, m->needs_tensor));
}

static sac_status refuse(const char *type, sac_error *err) {
    char names[200] = ""; /* "mlp, ..." */
    size_t used = 0;
    const sac_family_spec *spec;
    for (int i = 0; sac_families[i] && used < sizeof names; i++) {
        SAC_TRY(sac_family_spec_find(&spec, sac_families[i]->name, err));
        const sac_spec_mmproj *m = &spec->mmproj;
        if (m->projectors.n && !m->needs && !m->needs_tensor)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", m->projectors.item[0]);
    }
    return sac_fail(err, SAC_UNSUPPORTED, "projector \"%.40s\" is not supported; these are: %s", type, names);
}

sac_status sac_family_of_mmproj(const sac_family **out, const sac_mmproj *p, const char *architecture, sac_error *err) {
    const char *type = projector_of(p->keys);
    bool is_sure = false;
    *out = NULL;
    if (!type) return sac_fail(err, SAC_BAD_FILE, "metadata key clip.projector_type is missing");
    const sac_family_spec *spec;
    for (int i = 0; sac_families[i] && !is_sure; i++) {
        if (!sac_family_spec_mentions(sac_families[i]->name, type)) continue;
        SAC_TRY(sac_family_spec_find(&spec, sac_families[i]->name, err));
        const bool is_own = spec->mmproj.needs || spec->mmproj.needs_tensor;
        if (sac_spec_list_has(&spec->mmproj.projectors, type) && has_needed(p, &spec->mmproj)) {
            const bool fits = sac_spec_list_has(&spec->mmproj.text, architecture);
            if (!*out || is_own || fits) *out = sac_families[i];
            is_sure = is_own;
        }
    }
    return *out ? SAC_OK : refuse(type, err);
}

/* As config.json has it: the names of transformers. */
static sac_status read_activation(sac_mmproj *p, const char *gelu, sac_error *err) {
    bool is_gelu = false, is_silu = false;
    SAC_TRY(sac_json_get_bool(p->keys, "clip.use_gelu", &is_gelu, err));
    SAC_TRY(sac_json_get_bool(p->keys, "clip.use_silu", &is_silu, err));
    if (is_gelu && is_silu)
        return sac_fail(err, SAC_BAD_FILE, "clip.use_gelu and clip.use_silu are both true; one may be");
    const char *name = is_gelu && gelu ? gelu : is_gelu ? "gelu" : is_silu ? "silu" : "quick_gelu";
    json_object_set_new(p->vision, "hidden_act", json_string(name));
    return SAC_OK;
}

sac_status sac_family_read_mmproj(const sac_family *family, sac_mmproj *p, sac_error *err) {
    const sac_family_spec *spec;
    SAC_TRY(sac_family_spec_find(&spec, family->name, err));
    const sac_spec_mmproj *m = &spec->mmproj;
    for (int i = 0; i < m->n_values; i++) {
        const sac_spec_value *v = &m->values[i];
        json_t *value = json_object_get(p->keys, v->from);
        json_t *to = strcmp(v->place, "config") == 0          ? p->config
                     : strcmp(v->place, "vision_config") == 0 ? p->vision
                     : strcmp(v->place, "preprocessor") == 0  ? p->preprocessor
                                                              : NULL;
        if (value && to) json_object_set(to, v->name, value);
    }
    SAC_TRY(read_activation(p, m->gelu, err));
    return family->mmproj ? family->mmproj(p, err) : SAC_OK;
}
