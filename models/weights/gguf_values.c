/* gguf_values.c - looking up GGUF metadata. */
#include "gguf.h"

#include <math.h>
#include <stdlib.h>

static uint64_t load_uint(const uint8_t *p, int n_bytes) {
    uint64_t v = 0;
    for (int i = n_bytes - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static int compare_key(const void *key, const void *value) {
    const sac_text_span *k = &((const sac_gguf_value *)value)->key;
    size_t n = strlen(key), least = n < k->n_bytes ? n : k->n_bytes;
    int order = memcmp(key, k->text, least);
    return order ? order : (n > k->n_bytes) - (n < k->n_bytes);
}

const sac_gguf_value *sac_gguf_find(const sac_gguf *g, const char *key) {
    if (g->n_values == 0) return NULL;
    return bsearch(key, g->values, g->n_values, sizeof *g->values, compare_key);
}

/* An integer item of any width; false for other types and for values beyond int64. */
static bool load_int(sac_gguf_type type, const uint8_t *p, int64_t *out) {
    switch (type) {
    case SAC_GGUF_U8:
    case SAC_GGUF_BOOL: *out = p[0]; return true;
    case SAC_GGUF_I8: *out = (int8_t)p[0]; return true;
    case SAC_GGUF_U16: *out = (int64_t)load_uint(p, 2); return true;
    case SAC_GGUF_I16: *out = (int16_t)load_uint(p, 2); return true;
    case SAC_GGUF_U32: *out = (int64_t)load_uint(p, 4); return true;
    case SAC_GGUF_I32: *out = (int32_t)load_uint(p, 4); return true;
    case SAC_GGUF_I64: *out = (int64_t)load_uint(p, 8); return true;
    case SAC_GGUF_U64: {
        uint64_t v = load_uint(p, 8);
        *out = (int64_t)v;
        return v <= INT64_MAX;
    }
    case SAC_GGUF_F32:
    case SAC_GGUF_F64:
    case SAC_GGUF_STRING:
    case SAC_GGUF_ARRAY:
    case SAC_N_GGUF_TYPES: return false;
    }
    return false;
}

static bool load_float(sac_gguf_type type, const uint8_t *p, double *out) {
    if (type == SAC_GGUF_F32) {
        uint32_t u = (uint32_t)load_uint(p, 4);
        float f;
        memcpy(&f, &u, 4);
        *out = (double)f;
        return true;
    }
    if (type == SAC_GGUF_F64) {
        uint64_t u = load_uint(p, 8);
        memcpy(out, &u, 8);
        return true;
    }
    int64_t i;
    if (!load_int(type, p, &i)) return false;
    *out = (double)i;
    return true;
}

sac_status sac_gguf_get_int(const sac_gguf *g, const char *key, int64_t min, int64_t max, int64_t *value,
                            sac_error *err) {
    const sac_gguf_value *v = sac_gguf_find(g, key);
    if (!v) return SAC_OK;
    int64_t n;
    if (v->type == SAC_GGUF_ARRAY || !load_int(v->type, v->data, &n))
        return sac_fail(err, SAC_BAD_FILE, "%s must be an integer", key);
    if (n < min || n > max)
        return sac_fail(err, SAC_BAD_FILE, "%s is %lld, must be %lld to %lld", key, (long long)n,
                        (long long)min, (long long)max);
    *value = n;
    return SAC_OK;
}

sac_status sac_gguf_get_float(const sac_gguf *g, const char *key, double *value, sac_error *err) {
    const sac_gguf_value *v = sac_gguf_find(g, key);
    if (!v) return SAC_OK;
    double d;
    if (v->type == SAC_GGUF_ARRAY || !load_float(v->type, v->data, &d) || !isfinite(d))
        return sac_fail(err, SAC_BAD_FILE, "%s must be a finite number", key);
    *value = d;
    return SAC_OK;
}

sac_status sac_gguf_get_bool(const sac_gguf *g, const char *key, int *value, sac_error *err) {
    const sac_gguf_value *v = sac_gguf_find(g, key);
    if (!v) return SAC_OK;
    if (v->type != SAC_GGUF_BOOL || v->data[0] > 1)
        return sac_fail(err, SAC_BAD_FILE, "%s must be a bool", key);
    *value = v->data[0];
    return SAC_OK;
}

sac_status sac_gguf_get_string(const sac_gguf *g, const char *key, sac_text_span *value, sac_error *err) {
    const sac_gguf_value *v = sac_gguf_find(g, key);
    if (!v) return SAC_OK;
    if (v->type != SAC_GGUF_STRING) return sac_fail(err, SAC_BAD_FILE, "%s must be a string", key);
    *value = (sac_text_span){(const char *)v->data + 8, (size_t)load_uint(v->data, 8)};
    return SAC_OK;
}

sac_status sac_gguf_get_name(const sac_gguf *g, const char *key, char *buf, size_t buf_bytes,
                             const char **out, sac_error *err) {
    sac_text_span s = {NULL, 0};
    *out = NULL;
    SAC_TRY(sac_gguf_get_string(g, key, &s, err));
    if (!s.text) return SAC_OK;
    if (s.n_bytes >= buf_bytes || memchr(s.text, 0, s.n_bytes))
        return sac_fail(err, SAC_BAD_FILE, "%s is a name of %zu bytes", key, s.n_bytes);
    memcpy(buf, s.text, s.n_bytes);
    buf[s.n_bytes] = 0;
    *out = buf;
    return SAC_OK;
}

sac_status sac_gguf_get_id(const sac_gguf *g, const char *key, int64_t *id, sac_error *err) {
    *id = -1;
    return sac_gguf_get_int(g, key, 0, UINT32_MAX, id, err);
}

/* The array under key and room for its items; *v is NULL when absent. The parser has seen all of its items
 * inside the file, so n_items is bounded by its size. */
static sac_status open_array(const sac_gguf *g, const char *key, size_t item_bytes, const sac_gguf_value **v,
                             void **items, size_t *n, sac_error *err) {
    *items = NULL;
    *n = 0;
    *v = sac_gguf_find(g, key);
    if (!*v) return SAC_OK;
    if ((*v)->type != SAC_GGUF_ARRAY) return sac_fail(err, SAC_BAD_FILE, "%s must be an array", key);
    *n = (size_t)(*v)->n_items;
    *items = calloc(*n ? *n : 1, item_bytes);
    if (*items) return SAC_OK;
    return sac_fail(err, SAC_NO_MEMORY, "%s: no memory for %zu items", key, *n);
}

sac_status sac_gguf_get_strings(const sac_gguf *g, const char *key, sac_text_span **items, size_t *n,
                                sac_error *err) {
    const sac_gguf_value *v;
    void *block;
    *items = NULL;
    SAC_TRY(open_array(g, key, sizeof **items, &v, &block, n, err));
    if (!v) return SAC_OK;
    if (v->item_type != SAC_GGUF_STRING) {
        free(block);
        return sac_fail(err, SAC_BAD_FILE, "%s must be an array of strings", key);
    }
    sac_text_span *spans = block;
    const uint8_t *p = v->data;
    for (size_t i = 0; i < *n; i++) {
        spans[i] = (sac_text_span){(const char *)p + 8, (size_t)load_uint(p, 8)};
        p += 8 + spans[i].n_bytes;
    }
    *items = spans;
    return SAC_OK;
}

static size_t width_of(sac_gguf_type type) {
    switch (type) {
    case SAC_GGUF_U8:
    case SAC_GGUF_I8:
    case SAC_GGUF_BOOL: return 1;
    case SAC_GGUF_U16:
    case SAC_GGUF_I16: return 2;
    case SAC_GGUF_U32:
    case SAC_GGUF_I32:
    case SAC_GGUF_F32: return 4;
    case SAC_GGUF_U64:
    case SAC_GGUF_I64:
    case SAC_GGUF_F64: return 8;
    case SAC_GGUF_STRING:
    case SAC_GGUF_ARRAY:
    case SAC_N_GGUF_TYPES: return 0;
    }
    return 0;
}

sac_status sac_gguf_get_floats(const sac_gguf *g, const char *key, float **items, size_t *n, sac_error *err) {
    const sac_gguf_value *v;
    void *block;
    *items = NULL;
    SAC_TRY(open_array(g, key, sizeof **items, &v, &block, n, err));
    if (!v) return SAC_OK;
    float *values = block;
    for (size_t i = 0; i < *n; i++) {
        double d;
        if (!load_float(v->item_type, v->data + i * width_of(v->item_type), &d)) {
            free(block);
            return sac_fail(err, SAC_BAD_FILE, "%s must be an array of numbers", key);
        }
        values[i] = (float)d;
    }
    *items = values;
    return SAC_OK;
}

sac_status sac_gguf_get_ints(const sac_gguf *g, const char *key, int32_t **items, size_t *n, sac_error *err) {
    const sac_gguf_value *v;
    void *block;
    *items = NULL;
    SAC_TRY(open_array(g, key, sizeof **items, &v, &block, n, err));
    if (!v) return SAC_OK;
    int32_t *values = block;
    for (size_t i = 0; i < *n; i++) {
        int64_t x;
        if (!load_int(v->item_type, v->data + i * width_of(v->item_type), &x) || x < INT32_MIN ||
            x > INT32_MAX) {
            free(block);
            return sac_fail(err, SAC_BAD_FILE, "%s must be an array of integers of 32 bits", key);
        }
        values[i] = (int32_t)x;
    }
    *items = values;
    return SAC_OK;
}
