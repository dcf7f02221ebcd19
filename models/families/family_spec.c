#include "family_spec.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

typedef struct reader {
    yaml_document_t *document;
    sac_error *err;
} reader;

static sac_status bad(const reader *r, const yaml_node_t *at, const char *what) {
    return sac_fail(r->err, SAC_BAD_CONFIG, "line %zu: %s", at->start_mark.line + 1, what);
}

static sac_status text_of(const reader *r, const yaml_node_t *n, const char **out) {
    if (n->type != YAML_SCALAR_NODE) return bad(r, n, "a single value is expected");
    *out = (const char *)n->data.scalar.value;
    return SAC_OK;
}

static sac_status list_of(const reader *r, const yaml_node_t *n, sac_spec_list *out) {
    if (n->type != YAML_SEQUENCE_NODE) return bad(r, n, "a list is expected");
    out->n = 0;
    for (const yaml_node_item_t *i = n->data.sequence.items.start; i < n->data.sequence.items.top; i++) {
        if (out->n == SAC_SPEC_MAX_ITEMS) return bad(r, n, "the list is too long");
        SAC_TRY(text_of(r, yaml_document_get_node(r->document, *i), &out->item[out->n]));
        out->n++;
    }
    return SAC_OK;
}

/* Calls fn for every pair of a mapping; the schema gives each level its own fn, so nesting is bounded. */
typedef sac_status (*pair_fn)(const reader *r, void *into, const char *key, const yaml_node_t *value);

static sac_status each_pair(const reader *r, const yaml_node_t *n, pair_fn fn, void *into) {
    if (n->type != YAML_MAPPING_NODE) return bad(r, n, "a mapping is expected");
    const yaml_node_pair_t *first = n->data.mapping.pairs.start;
    for (const yaml_node_pair_t *p = first; p < n->data.mapping.pairs.top; p++) {
        const yaml_node_t *key_node = yaml_document_get_node(r->document, p->key);
        const char *key = NULL;
        SAC_TRY(text_of(r, key_node, &key));
        for (const yaml_node_pair_t *q = first; q < p; q++)
            if (strcmp((const char *)yaml_document_get_node(r->document, q->key)->data.scalar.value, key) ==
                0)
                return bad(r, key_node, "the key is there twice");
        SAC_TRY(fn(r, into, key, yaml_document_get_node(r->document, p->value)));
    }
    return SAC_OK;
}

/* The one value that the key may have. */
static sac_status flag_of(const reader *r, const yaml_node_t *n, const char *only, bool *out) {
    const char *text = NULL;
    SAC_TRY(text_of(r, n, &text));
    *out = strcmp(text, only) == 0;
    return *out ? SAC_OK : bad(r, n, "no such value");
}

/* One of the kinds that bind_latent.c and bind_linear.c know. */
static sac_status spread_of(const reader *r, const yaml_node_t *n, const char **out) {
    static const char *const kinds[] = {"queries", "keys", "values", "outputs", "mixed", "gates", "decays", "strengths"};
    SAC_TRY(text_of(r, n, out));
    for (size_t i = 0; i < SAC_COUNT(kinds); i++)
        if (strcmp(*out, kinds[i]) == 0) return SAC_OK;
    return bad(r, n, "no such value");
}

static sac_status tensor_pair(const reader *r, void *into, const char *key, const yaml_node_t *value) {
    sac_spec_tensor *t = into;
    if (strcmp(key, "names") == 0) return list_of(r, value, &t->names);
    if (strcmp(key, "shape") == 0) return list_of(r, value, &t->shape);
    if (strcmp(key, "within") == 0) return list_of(r, value, &t->within);
    if (strcmp(key, "inputs") == 0) return list_of(r, value, &t->inputs);
    if (strcmp(key, "gguf") == 0) return text_of(r, value, &t->gguf);
    if (strcmp(key, "when") == 0) return text_of(r, value, &t->when);
    if (strcmp(key, "plus") == 0) return flag_of(r, value, "1", &t->plus_one);
    if (strcmp(key, "spread") == 0) return spread_of(r, value, &t->spread);
    if (strcmp(key, "decays") == 0) return flag_of(r, value, "true", &t->decays);
    if (strcmp(key, "transposed") == 0) return flag_of(r, value, "true", &t->transposed);
    if (strcmp(key, "channels_last") == 0) return flag_of(r, value, "true", &t->channels_last);
    return bad(r, value,
               "unknown key of a tensor (names, shape, within, inputs, gguf, when, spread, plus, decays, transposed, channels_last)");
}

static sac_status tensors_pair(const reader *r, void *into, const char *key, const yaml_node_t *value) {
    sac_family_spec *s = into;
    if (s->n_tensors == SAC_SPEC_MAX_TENSORS) return bad(r, value, "too many tensors");
    sac_spec_tensor *t = &s->tensors[s->n_tensors++];
    t->slot = key;
    SAC_TRY(each_pair(r, value, tensor_pair, t));
    if (t->within.n && t->within.n != 2) return bad(r, value, "within: the first row, and how many rows there are");
    if (t->inputs.n && t->inputs.n != 2) return bad(r, value, "inputs: the outer number, and the inner one");
    return t->names.n && t->shape.n ? SAC_OK : bad(r, value, "a tensor needs names and a shape");
}

static sac_status prefixes_pair(const reader *r, void *into, const char *key, const yaml_node_t *value) {
    sac_family_spec *s = into;
    if (s->n_prefixes == SAC_SPEC_MAX_PREFIXES) return bad(r, value, "too many prefixes");
    s->prefixes[s->n_prefixes].name = key;
    return list_of(r, value, &s->prefixes[s->n_prefixes++].list);
}

static sac_status add_key(const reader *r, sac_family_spec *s, const yaml_node_t *at, sac_spec_key key) {
    if (s->n_keys == SAC_SPEC_MAX_KEYS) return bad(r, at, "too many keys");
    s->keys[s->n_keys++] = key;
    return SAC_OK;
}

static sac_status only_pair(const reader *r, void *into, const char *key, const yaml_node_t *value) {
    sac_spec_key k = {NULL, key, NULL, SAC_KEY_ONLY};
    SAC_TRY(text_of(r, value, &k.only));
    return add_key(r, into, value, k);
}

static sac_status use_pair(const reader *r, void *into, const char *use, const yaml_node_t *value) {
    if (strcmp(use, "only") == 0) return each_pair(r, value, only_pair, into);
    bool honoured = strcmp(use, "honoured") == 0;
    if (!honoured && strcmp(use, "no_effect") != 0)
        return bad(r, value, "unknown use of keys (honoured, only, no_effect)");
    if (value->type != YAML_SEQUENCE_NODE) return bad(r, value, "a list is expected");
    for (const yaml_node_item_t *i = value->data.sequence.items.start; i < value->data.sequence.items.top;
         i++) {
        sac_spec_key k = {NULL, NULL, NULL, honoured ? SAC_KEY_HONOURED : SAC_KEY_NO_EFFECT};
        SAC_TRY(text_of(r, yaml_document_get_node(r->document, *i), &k.name));
        SAC_TRY(add_key(r, into, value, k));
    }
    return SAC_OK;
}

static sac_status keys_pair(const reader *r, void *into, const char *place, const yaml_node_t *value) {
    sac_family_spec *s = into;
    int first = s->n_keys;
    SAC_TRY(each_pair(r, value, use_pair, s));
    for (int i = first; i < s->n_keys; i++) s->keys[i].place = place;
    return SAC_OK;
}

/* A value is read, so its key is honoured. */
static sac_status value_pair(const reader *r, void *into, const char *key, const yaml_node_t *value) {
    sac_family_spec *s = into;
    sac_spec_mmproj *m = &s->mmproj;
    if (m->n_values == SAC_SPEC_MAX_VALUES) return bad(r, value, "too many values");
    sac_spec_value *v = &m->values[m->n_values];
    *v = (sac_spec_value){.name = key};
    SAC_TRY(text_of(r, value, &v->from));
    m->n_values++;
    return SAC_OK;
}

static sac_status values_of(const reader *r, sac_family_spec *s, const char *place,
                            const yaml_node_t *value) {
    sac_spec_mmproj *m = &s->mmproj;
    int first = m->n_values;
    SAC_TRY(each_pair(r, value, value_pair, s));
    for (int i = first; i < m->n_values; i++) {
        m->values[i].place = place;
        const sac_spec_key key = {"mmproj", m->values[i].from, NULL, SAC_KEY_HONOURED};
        if (strcmp(place, "tokens") != 0) SAC_TRY(add_key(r, s, value, key));
    }
    return SAC_OK;
}

static sac_status mmproj_pair(const reader *r, void *into, const char *key, const yaml_node_t *value) {
    static const char *const places[] = {"tokens", "config", "vision_config", "preprocessor"};
    sac_family_spec *s = into;
    const char *flag = NULL;
    if (strcmp(key, "projectors") == 0) return list_of(r, value, &s->mmproj.projectors);
    if (strcmp(key, "text") == 0) return list_of(r, value, &s->mmproj.text);
    if (strcmp(key, "needs") == 0) return text_of(r, value, &s->mmproj.needs);
    if (strcmp(key, "needs_tensor") == 0) return text_of(r, value, &s->mmproj.needs_tensor);
    if (strcmp(key, "gelu") == 0) return text_of(r, value, &s->mmproj.gelu);
    for (size_t i = 0; i < SAC_COUNT(places); i++)
        if (strcmp(key, places[i]) == 0) return values_of(r, s, places[i], value);
    if (strcmp(key, "tokenless") != 0) return bad(r, value, "unknown key of mmproj");
    SAC_TRY(text_of(r, value, &flag));
    s->mmproj.tokenless = strcmp(flag, "true") == 0;
    return SAC_OK;
}

static sac_status top_pair(const reader *r, void *into, const char *key, const yaml_node_t *value) {
    sac_family_spec *s = into;
    const struct {
        const char *key;
        const char **text;
        sac_spec_list *list;
        pair_fn pairs;
    } keys[] = {
        {"family", &s->family, NULL, NULL},
        {"like", &s->like, NULL, NULL},
        {"chat", &s->chat, NULL, NULL},
        {"frames", &s->frames, NULL, NULL},
        {"model_types", NULL, &s->model_types, NULL},
        {"architectures", NULL, &s->architectures, NULL},
        {"gguf", NULL, &s->gguf, NULL},
        {"text", NULL, &s->text, NULL},
        {"prefixes", NULL, NULL, prefixes_pair},
        {"tensors", NULL, NULL, tensors_pair},
        {"keys", NULL, NULL, keys_pair},
        {"mmproj", NULL, NULL, mmproj_pair},
    };
    for (size_t i = 0; i < SAC_COUNT(keys); i++) {
        if (strcmp(key, keys[i].key) != 0) continue;
        if (keys[i].text) return text_of(r, value, keys[i].text);
        return keys[i].list ? list_of(r, value, keys[i].list) : each_pair(r, value, keys[i].pairs, s);
    }
    return bad(r, value, "unknown key of a family");
}

sac_status sac_family_spec_parse(sac_family_spec *s, const char *text, size_t n_bytes, sac_error *err) {
    memset(s, 0, sizeof *s);
    if (n_bytes > SAC_SPEC_MAX_BYTES)
        return sac_fail(err, SAC_BAD_CONFIG, "%zu bytes, more than the %zu of a family's YAML", n_bytes,
                        SAC_SPEC_MAX_BYTES);
    yaml_parser_t parser;
    yaml_document_t *document = calloc(1, sizeof *document);
    if (!document || !yaml_parser_initialize(&parser)) {
        free(document);
        return sac_fail(err, SAC_NO_MEMORY, "no memory to read YAML");
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n_bytes);
    sac_status st = SAC_OK;
    if (!yaml_parser_load(&parser, document)) {
        st = sac_fail(err, SAC_BAD_CONFIG, "line %zu: %s", parser.problem_mark.line + 1,
                      parser.problem ? parser.problem : "not YAML");
        free(document);
        document = NULL;
    }
    yaml_parser_delete(&parser);
    if (st != SAC_OK) return st;
    s->document = document;
    yaml_node_t *root = yaml_document_get_root_node(document);
    reader r = {document, err};
    st = root ? each_pair(&r, root, top_pair, s) : sac_fail(err, SAC_BAD_CONFIG, "empty");
    if (st != SAC_OK) sac_family_spec_free(s);
    return st;
}

void sac_family_spec_free(sac_family_spec *s) {
    if (s->document) yaml_document_delete(s->document);
    free(s->document);
    memset(s, 0, sizeof *s);
}

const sac_spec_list *sac_family_spec_prefix(const sac_family_spec *s, const char *name) {
    for (int i = 0; i < s->n_prefixes; i++)
        if (strcmp(s->prefixes[i].name, name) == 0) return &s->prefixes[i].list;
    return NULL;
}

/* The whole name, or its beginning where the entry ends in a star. */
static bool names(const char *entry, const char *name) {
    size_t n = strlen(entry);
    if (n && entry[n - 1] == '*') return strncmp(entry, name, n - 1) == 0;
    return strcmp(entry, name) == 0;
}

const sac_spec_key *sac_family_spec_key(const sac_family_spec *s, const char *place, const char *name) {
    for (int i = 0; i < s->n_keys; i++)
        if (strcmp(s->keys[i].place, place) == 0 && names(s->keys[i].name, name)) return &s->keys[i];
    return NULL;
}

bool sac_spec_list_has(const sac_spec_list *l, const char *item) {
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->item[i], item) == 0) return true;
    return false;
}
