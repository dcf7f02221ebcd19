#include "config_keys.h"

#include "config_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SPECS 8

/* The YAML files that are asked about a place, in their order. */
typedef struct tables {
    const sac_family_spec *spec[MAX_SPECS];
    int n;
} tables;

typedef struct walk {
    sac_config_keys *keys;
    const tables *tables;
    const sac_family *family;
    const char *place, *file, *prefix; /* prefix: "text_config." */
    sac_error *err;
} walk;

void sac_config_keys_free(sac_config_keys *keys) {
    free(keys->item);
    *keys = (sac_config_keys){0};
}

/* The family's file and the one that it is like: `tower` instead of that, where it is not NULL. */
static sac_status add_family(tables *t, const char *name, const char *tower, sac_error *err) {
    while (name && t->n < MAX_SPECS) {
        SAC_TRY(sac_family_spec_find(&t->spec[t->n], name, err));
        name = t->spec[t->n++]->like;
        if (name && tower) name = tower;
        tower = NULL;
    }
    return SAC_OK;
}

/* The tower that vision_config names, or NULL. */
static const char *tower_of(const json_t *config) {
    const char *type =
        json_string_value(json_object_get(json_object_get(config, "vision_config"), "model_type"));
    const sac_tower_kind *kind = type ? sac_tower_find(type) : NULL;
    return kind ? kind->name : NULL;
}

/* Where the keys stand flat in one object, those of the family's one text model are beside its own. */
static sac_status find_tables(tables *t, const sac_family *family, bool flat, const char *tower,
                              sac_error *err) {
    t->n = 0;
    SAC_TRY(add_family(t, family->name, tower, err));
    const sac_family_spec *own = t->spec[0];
    if (own->text.n == 1 && flat) SAC_TRY(add_family(t, own->text.item[0], NULL, err));
    return add_family(t, "common", NULL, err);
}

static const sac_spec_key *find(const tables *t, const char *place, const char *name) {
    const sac_spec_key *k = NULL;
    for (int i = 0; i < t->n && !k; i++) k = sac_family_spec_key(t->spec[i], place, name);
    if (k || strcmp(place, "vision_config") != 0) return k;
    return sac_family_spec_key(t->spec[t->n - 1], "config", name); /* common.yaml's hold there too */
}

static sac_status add(walk *w, const char *name, sac_key_use use) {
    sac_config_keys *k = w->keys;
    if (k->n == SAC_CONFIG_MAX_KEYS) return SAC_OK;
    if ((k->n & (k->n - 1)) == 0) { /* full at every power of two */
        sac_config_key *more = realloc(k->item, (size_t)(k->n ? 2 * k->n : 1) * sizeof *more);
        if (!more) return sac_fail(w->err, SAC_NO_MEMORY, "no memory for the keys of %s", w->file);
        k->item = more;
    }
    sac_config_key *key = &k->item[k->n++];
    key->use = use;
    snprintf(key->file, sizeof key->file, "%s", w->file);
    snprintf(key->name, sizeof key->name, "%s%s", w->prefix, name);
    return SAC_OK;
}

/* The value as JSON, a text without its quotes. */
static bool is_value(const json_t *v, const char *text, char *shown, size_t shown_bytes) {
    if (json_is_string(v)) {
        snprintf(shown, shown_bytes, "\"%.40s\"", json_string_value(v));
        return strcmp(json_string_value(v), text) == 0;
    }
    if (json_is_number(v)) {
        char *end;
        snprintf(shown, shown_bytes, "%.12g", json_number_value(v));
        double want = strtod(text, &end);
        return end != text && !*end && json_number_value(v) == want;
    }
    if (json_is_boolean(v)) snprintf(shown, shown_bytes, "%s", json_is_true(v) ? "true" : "false");
    if (json_is_array(v)) snprintf(shown, shown_bytes, "%s", json_array_size(v) ? "a list" : "[]");
    if (json_is_object(v)) snprintf(shown, shown_bytes, "%s", json_object_size(v) ? "an object" : "{}");
    return strcmp(shown, text) == 0;
}

static sac_status refuse(const walk *w, const char *name, const char *only, const json_t *v) {
    char shown[64] = "";
    if (is_value(v, only, shown, sizeof shown)) return SAC_OK;
    return sac_fail(w->err, SAC_UNSUPPORTED, "%.*s%s\"%.60s\" is %s; only %s is supported",
                    (int)(w->prefix[0] ? strlen(w->prefix) - 1 : 0), w->prefix, w->prefix[0] ? ": " : "",
                    name, shown, only);
}

static sac_status walk_object(walk *w, const json_t *object) {
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, name, v) {
        if (json_is_null(v)) continue;
        const sac_spec_key *k = find(w->tables, w->place, name);
        sac_key_use use = k ? k->use : SAC_KEY_UNKNOWN;
        if (use == SAC_KEY_ONLY) SAC_TRY(refuse(w, name, k->only, v));
        if (!k && strcmp(w->place, "config") == 0 && sac_config_is_generation_key(name))
            use = SAC_KEY_HONOURED;
        if (!k && strcmp(w->place, "vision_config") == 0 && sac_config_is_generation_key(name))
            use = SAC_KEY_NO_EFFECT;
        SAC_TRY(add(w, name, use));
    }
    return SAC_OK;
}

/* The object under `key` of the one whose prefix is given, with the tables of another place. */
static sac_status walk_inner(const walk *outer, const json_t *object, const char *key, const char *place) {
    const json_t *inner = json_object_get(object, key);
    if (!json_is_object(inner)) return SAC_OK; /* its reader says so */
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s%s.", outer->prefix, key);
    walk w = *outer;
    w.place = place;
    w.prefix = prefix;
    return walk_object(&w, inner);
}

/* One for each kind of layer, where the family has them so. */
static sac_status walk_ropes(const walk *w, const json_t *parameters) {
    static const char *const kinds[] = {"full_attention", "sliding_attention"};
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%srope_parameters.", w->prefix);
    walk inner = *w;
    inner.prefix = prefix;
    for (size_t i = 0; i < SAC_COUNT(kinds); i++) SAC_TRY(walk_inner(&inner, parameters, kinds[i], "rope"));
    return SAC_OK;
}

static sac_status walk_language(walk *w, const json_t *object) {
    SAC_TRY(walk_object(w, object));
    SAC_TRY(walk_inner(w, object, "rope_scaling", "rope"));
    SAC_TRY(walk_inner(w, object, "rope_parameters", "rope"));
    return walk_ropes(w, json_object_get(object, "rope_parameters"));
}

/* text_config is read by the text model's own family; one that is in no list, by the one text family that there is.
 * What a family cannot stand on is refused by its reader. */
static sac_status walk_text(const walk *outer, const json_t *text, const char *prefix) {
    const char *type = json_string_value(json_object_get(text, "model_type"));
    bool one = outer->tables->spec[0]->text.n == 1;
    const sac_family *family = one ? outer->family : sac_family_find(sac_families, type ? type : "llama");
    if (!family || !json_is_object(text)) return SAC_OK;
    tables t;
    walk w = *outer;
    w.tables = &t;
    w.prefix = prefix;
    SAC_TRY(find_tables(&t, family, true, NULL, w.err));
    return walk_language(&w, text);
}

static sac_status walk_config(walk *w, const json_t *config) {
    SAC_TRY(walk_language(w, config));
    if (find(w->tables, "config", "vision_config"))
        SAC_TRY(walk_inner(w, config, "vision_config", "vision_config"));
    if (find(w->tables, "config", "llm_config")) /* the original InternVL's name for it */
        return walk_text(w, json_object_get(config, "llm_config"), "llm_config.");
    if (!find(w->tables, "config", "text_config")) return SAC_OK;
    return walk_text(w, json_object_get(config, "text_config"), "text_config.");
}

/* Calls fn with the family's tables. */
static sac_status with_tables(walk *w, sac_status (*fn)(walk *w, const json_t *object),
                              const json_t *object) {
    tables t;
    w->tables = &t;
    bool flat = !json_is_object(json_object_get(object, "text_config"));
    SAC_TRY(find_tables(&t, w->family, flat, tower_of(object), w->err));
    return fn(w, object);
}

sac_status sac_config_keys_of_config(sac_config_keys *keys, const sac_family *family, const json_t *config,
                                     sac_error *err) {
    walk w = {keys, NULL, family, "config", "config.json", "", err};
    return with_tables(&w, walk_config, config);
}

sac_status sac_config_keys_of_object(sac_config_keys *keys, const sac_family *family, const char *place,
                                     const char *file, const json_t *object, sac_error *err) {
    walk w = {keys, NULL, family, place, file, "", err};
    return with_tables(&w, walk_object, object);
}
