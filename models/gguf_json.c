/* gguf_json.c - metadata of a GGUF file as JSON, which is what families read. */
#include "gguf.h"
#include "json.h"
#include "model_load.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_ITEMS = 1 << 16, NAME_BYTES = 96 };

static json_t *list_of(const sac_gguf *g, const char *key, const sac_gguf_value *v) {
    int32_t *ints = NULL;
    float *floats = NULL;
    size_t n = 0;
    if (v->n_items > MOST_ITEMS) return NULL;
    const bool is_float = v->item_type == SAC_GGUF_F32 || v->item_type == SAC_GGUF_F64;
    const sac_status st = is_float ? sac_gguf_get_floats(g, key, &floats, &n, NULL)
                                   : sac_gguf_get_ints(g, key, &ints, &n, NULL);
    json_t *list = st == SAC_OK ? json_array() : NULL;
    for (size_t i = 0; i < n && list; i++)
        json_array_append_new(list, is_float                        ? json_real((double)floats[i])
                                    : v->item_type == SAC_GGUF_BOOL ? json_boolean(ints[i])
                                                                    : json_integer(ints[i]));
    free(ints);
    free(floats);
    return list;
}

static json_t *value_of(const sac_gguf *g, const char *key, const sac_gguf_value *v) {
    json_t *out = NULL;
    sac_text_span text;
    int64_t n = 0;
    int flag = 0;
    double x = 0;
    if (v->type == SAC_GGUF_ARRAY)
        out = list_of(g, key, v);
    else if (v->type == SAC_GGUF_STRING && sac_gguf_get_string(g, key, &text, NULL) == SAC_OK &&
             text.n_bytes <= MOST_ITEMS)
        out = json_stringn(text.text, text.n_bytes);
    else if (v->type == SAC_GGUF_BOOL && sac_gguf_get_bool(g, key, &flag, NULL) == SAC_OK)
        out = json_boolean(flag);
    else if (v->type == SAC_GGUF_F32 || v->type == SAC_GGUF_F64)
        out = sac_gguf_get_float(g, key, &x, NULL) == SAC_OK ? json_real(x) : NULL;
    else if (sac_gguf_get_int(g, key, INT64_MIN, INT64_MAX, &n, NULL) == SAC_OK)
        out = json_integer(n);
    return out ? out : json_true();
}

sac_status sac_gguf_keys(json_t **out, const sac_gguf *g, const char *prefix, sac_error *err) {
    const size_t skip = strlen(prefix);
    json_t *keys = *out = json_object();
    if (!keys) return sac_fail(err, SAC_NO_MEMORY, "no memory for the metadata");
    for (size_t i = 0; i < g->n_values; i++) {
        char name[NAME_BYTES];
        const sac_text_span *key = &g->values[i].key;
        if (key->n_bytes >= sizeof name || memchr(key->text, 0, key->n_bytes)) continue;
        if (key->n_bytes <= skip || memcmp(key->text, prefix, skip) != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)key->n_bytes, key->text);
        json_object_set_new(keys, name + skip, value_of(g, name, &g->values[i])); /* a name that is no text is left out */
    }
    return SAC_OK;
}
