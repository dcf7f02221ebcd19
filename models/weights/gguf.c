#include "gguf.h"

#include <stdlib.h>

/* ---- reading with an end in sight ---- */

typedef struct cursor {
    const uint8_t *at, *end;
} cursor;

static size_t left(const cursor *c) {
    return (size_t)(c->end - c->at);
}

static uint64_t load_uint(const uint8_t *p, int n_bytes) {
    uint64_t v = 0;
    for (int i = n_bytes - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static bool take_uint(cursor *c, int n_bytes, uint64_t *out) {
    if (left(c) < (size_t)n_bytes) return false;
    *out = load_uint(c->at, n_bytes);
    c->at += n_bytes;
    return true;
}

static bool take_span(cursor *c, sac_text_span *out) {
    uint64_t n;
    if (!take_uint(c, 8, &n) || n > left(c)) return false;
    *out = (sac_text_span){(const char *)c->at, (size_t)n};
    c->at += n;
    return true;
}

static sac_status truncated(const char *what, sac_error *err) {
    return sac_fail(err, SAC_BAD_FILE,
                    "the file ends inside %s: truncated or damaged (download incomplete: fetch it again)",
                    what);
}

/* ---- metadata ---- */

static const uint8_t scalar_bytes[SAC_N_GGUF_TYPES] = {
    [SAC_GGUF_U8] = 1,  [SAC_GGUF_I8] = 1,  [SAC_GGUF_U16] = 2, [SAC_GGUF_I16] = 2,
    [SAC_GGUF_U32] = 4, [SAC_GGUF_I32] = 4, [SAC_GGUF_F32] = 4, [SAC_GGUF_BOOL] = 1,
    [SAC_GGUF_U64] = 8, [SAC_GGUF_I64] = 8, [SAC_GGUF_F64] = 8,
};

static sac_status skip_items(cursor *c, sac_gguf_type type, uint64_t n, int depth, sac_error *err);

static sac_status array_head(cursor *c, sac_gguf_type *item_type, uint64_t *n, sac_error *err) {
    uint64_t type;
    if (!take_uint(c, 4, &type) || !take_uint(c, 8, n)) return truncated("an array", err);
    if (type >= SAC_N_GGUF_TYPES)
        return sac_fail(err, SAC_BAD_FILE, "array of unknown type %u", (unsigned)type);
    *item_type = (sac_gguf_type)type;
    return SAC_OK;
}

static sac_status skip_array(cursor *c, int depth, sac_error *err) {
    sac_gguf_type type;
    uint64_t n;
    if (depth > SAC_GGUF_MAX_DEPTH)
        return sac_fail(err, SAC_BAD_FILE, "arrays nested deeper than %d", SAC_GGUF_MAX_DEPTH);
    SAC_TRY(array_head(c, &type, &n, err));
    return skip_items(c, type, n, depth, err);
}

static sac_status skip_items(cursor *c, sac_gguf_type type, uint64_t n, int depth, sac_error *err) {
    size_t size = scalar_bytes[type];
    if (size) {
        if (n > left(c) / size) return truncated("an array", err);
        c->at += n * size;
        return SAC_OK;
    }
    for (uint64_t i = 0; i < n; i++) { /* every item takes bytes, so a false count meets the end soon */
        sac_text_span unused;
        if (type == SAC_GGUF_STRING && !take_span(c, &unused)) return truncated("an array of strings", err);
        if (type == SAC_GGUF_ARRAY) SAC_TRY(skip_array(c, depth + 1, err));
    }
    return SAC_OK;
}

static sac_status read_value(cursor *c, sac_gguf_value *v, sac_error *err) {
    uint64_t type;
    if (!take_span(c, &v->key) || !take_uint(c, 4, &type)) return truncated("its metadata", err);
    if (v->key.n_bytes == 0 || v->key.n_bytes > 65535 || memchr(v->key.text, 0, v->key.n_bytes))
        return sac_fail(err, SAC_BAD_FILE, "a metadata key of %zu bytes", v->key.n_bytes);
    if (type >= SAC_N_GGUF_TYPES)
        return sac_fail(err, SAC_BAD_FILE, "%.*s: unknown type %u", (int)v->key.n_bytes, v->key.text,
                        (unsigned)type);
    v->type = v->item_type = (sac_gguf_type)type;
    v->n_items = 1;
    if (v->type == SAC_GGUF_ARRAY) SAC_TRY(array_head(c, &v->item_type, &v->n_items, err));
    v->data = c->at;
    return skip_items(c, v->item_type, v->n_items, 1, err);
}

static int compare_spans(sac_text_span a, sac_text_span b) {
    size_t n = a.n_bytes < b.n_bytes ? a.n_bytes : b.n_bytes;
    int order = n ? memcmp(a.text, b.text, n) : 0;
    return order ? order : (a.n_bytes > b.n_bytes) - (a.n_bytes < b.n_bytes);
}

static int by_key(const void *a, const void *b) {
    return compare_spans(((const sac_gguf_value *)a)->key, ((const sac_gguf_value *)b)->key);
}

static sac_status read_values(sac_gguf *g, cursor *c, uint64_t n, sac_error *err) {
    if (n > left(c) / 13) return truncated("its metadata", err); /* key length, type and one byte at least */
    g->values = calloc(n ? (size_t)n : 1, sizeof *g->values);
    if (!g->values) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu metadata values", (size_t)n);
    while (g->n_values < n) {
        SAC_TRY(read_value(c, &g->values[g->n_values], err));
        g->n_values++;
    }
    if (n > 1) qsort(g->values, (size_t)n, sizeof *g->values, by_key);
    for (size_t i = 1; i < n; i++)
        if (by_key(&g->values[i - 1], &g->values[i]) == 0)
            return sac_fail(err, SAC_BAD_FILE, "metadata key %.*s is there twice",
                            (int)g->values[i].key.n_bytes, g->values[i].key.text);
    return SAC_OK;
}

/* ---- tensors ---- */

/* ggml's types by number: elements and bytes of a block. Those with dtype -1 are listed and refused when
 * used. */
static const struct {
    const char *name;
    uint16_t block, block_bytes;
    int dtype;
} tensor_types[] = {
    [0] = {"f32", 1, 4, SAC_DTYPE_F32},
    [1] = {"f16", 1, 2, SAC_DTYPE_F16},
    [2] = {"q4_0", 32, 18, SAC_DTYPE_Q4_0},
    [3] = {"q4_1", 32, 20, SAC_DTYPE_Q4_1},
    [6] = {"q5_0", 32, 22, SAC_DTYPE_Q5_0},
    [7] = {"q5_1", 32, 24, SAC_DTYPE_Q5_1},
    [8] = {"q8_0", 32, 34, SAC_DTYPE_Q8_0},
    [9] = {"q8_1", 32, 36, -1},
    [10] = {"q2_k", 256, 84, SAC_DTYPE_Q2_K},
    [11] = {"q3_k", 256, 110, SAC_DTYPE_Q3_K},
    [12] = {"q4_k", 256, 144, SAC_DTYPE_Q4_K},
    [13] = {"q5_k", 256, 176, SAC_DTYPE_Q5_K},
    [14] = {"q6_k", 256, 210, SAC_DTYPE_Q6_K},
    [15] = {"q8_k", 256, 292, -1},
    [16] = {"iq2_xxs", 256, 66, -1},
    [17] = {"iq2_xs", 256, 74, -1},
    [18] = {"iq3_xxs", 256, 98, -1},
    [19] = {"iq1_s", 256, 50, -1},
    [20] = {"iq4_nl", 32, 18, SAC_DTYPE_IQ4_NL},
    [21] = {"iq3_s", 256, 110, -1},
    [22] = {"iq2_s", 256, 82, -1},
    [23] = {"iq4_xs", 256, 136, SAC_DTYPE_IQ4_XS},
    [24] = {"i8", 1, 1, -1},
    [25] = {"i16", 1, 2, -1},
    [26] = {"i32", 1, 4, -1},
    [27] = {"i64", 1, 8, -1},
    [28] = {"f64", 1, 8, -1},
    [29] = {"iq1_m", 256, 56, -1},
    [30] = {"bf16", 1, 2, SAC_DTYPE_BF16},
    [34] = {"tq1_0", 256, 54, -1},
    [35] = {"tq2_0", 256, 66, -1},
    [39] = {"mxfp4", 32, 17, SAC_DTYPE_MXFP4},
    [40] = {"nvfp4", 64, 36, -1},
    [41] = {"q1_0", 128, 18, -1},
};

/* Dimensions stand innermost first in the file. */
static sac_status read_shape(cursor *c, sac_checkpoint_tensor *t, sac_error *err) {
    uint64_t n_dims, d;
    if (!take_uint(c, 4, &n_dims)) return truncated("its tensor list", err);
    if (n_dims < 1 || n_dims > SAC_MAX_DIMS)
        return sac_fail(err, SAC_BAD_FILE, "%llu dimensions, must be 1 to %d", (unsigned long long)n_dims,
                        SAC_MAX_DIMS);
    t->n_dims = (int)n_dims;
    for (int i = t->n_dims - 1; i >= 0; i--) {
        if (!take_uint(c, 8, &d)) return truncated("its tensor list", err);
        if (d > INT64_MAX)
            return sac_fail(err, SAC_BAD_FILE, "dimension %d is %llu", i, (unsigned long long)d);
        t->dim[i] = (int64_t)d;
    }
    return SAC_OK;
}

static sac_status read_type(cursor *c, sac_checkpoint_tensor *t, sac_error *err) {
    uint64_t type;
    if (!take_uint(c, 4, &type)) return truncated("its tensor list", err);
    if (type >= SAC_COUNT(tensor_types) || !tensor_types[type].name)
        return sac_fail(err, SAC_UNSUPPORTED, "tensor type %llu is not known here", (unsigned long long)type);
    t->dtype = tensor_types[type].dtype;
    t->dtype_name = tensor_types[type].name;
    int64_t row = t->dim[t->n_dims - 1];
    if (row % tensor_types[type].block != 0)
        return sac_fail(err, SAC_BAD_FILE, "rows of %lld elements do not divide into %s blocks of %d",
                        (long long)row, t->dtype_name, tensor_types[type].block);
    size_t n = (size_t)(row / tensor_types[type].block);
    for (int i = 0; i < t->n_dims - 1; i++)
        if (!sac_mul_size(n, (size_t)t->dim[i], &n))
            return sac_fail(err, SAC_BAD_FILE, "its shape overflows");
    if (!sac_mul_size(n, tensor_types[type].block_bytes, &t->n_bytes))
        return sac_fail(err, SAC_BAD_FILE, "its shape overflows");
    return SAC_OK;
}

/* The offset counts from the data's start, which is known only after the whole list: kept in
 * data until then. */
static sac_status read_tensor(cursor *c, sac_checkpoint *ck, int file, sac_error *err) {
    sac_checkpoint_tensor t = {.file = file};
    sac_text_span name;
    if (!take_span(c, &name)) return truncated("its tensor list", err);
    if (name.n_bytes == 0 || name.n_bytes > 1024 || memchr(name.text, 0, name.n_bytes))
        return sac_fail(err, SAC_BAD_FILE, "a tensor name of %zu bytes", name.n_bytes);
    uint64_t offset = 0;
    sac_status st = read_shape(c, &t, err);
    if (st == SAC_OK) st = read_type(c, &t, err);
    if (st == SAC_OK && !take_uint(c, 8, &offset)) st = truncated("its tensor list", err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "tensor %.*s", (int)name.n_bytes, name.text);
    t.data = (const uint8_t *)(uintptr_t)offset;
    return sac_checkpoint_add(ck, &t, name.text, name.n_bytes, err);
}

static sac_status place_tensors(sac_checkpoint *ck, int first, const uint8_t *base, size_t base_bytes,
                                uint64_t alignment, sac_error *err) {
    for (int i = first; i < ck->n_tensors; i++) {
        sac_checkpoint_tensor *t = &ck->tensors[i];
        uint64_t offset = (uint64_t)(uintptr_t)t->data;
        if (offset % alignment != 0)
            return sac_fail(err, SAC_BAD_FILE,
                            "tensor %.100s starts at %llu, which is not a multiple of %llu", t->name,
                            (unsigned long long)offset, (unsigned long long)alignment);
        if (offset > base_bytes || t->n_bytes > base_bytes - offset)
            return sac_fail(err, SAC_BAD_FILE,
                            "tensor %.100s: %zu bytes at %llu are outside the file's %zu bytes of "
                            "tensors: download incomplete, fetch it again",
                            t->name, t->n_bytes, (unsigned long long)offset, base_bytes);
        t->data = base + offset;
    }
    return sac_checkpoint_check_disjoint(ck, first, err);
}

sac_status sac_gguf_parse(sac_gguf *g, sac_checkpoint *ck, int file, const uint8_t *data, size_t n_bytes,
                          size_t *header_bytes, sac_error *err) {
    memset(g, 0, sizeof *g);
    if (n_bytes < 4 || load_uint(data, 4) != 0x46554747)
        return sac_fail(err, SAC_BAD_FILE, "not a GGUF file; give a Hugging Face folder or a .gguf file");
    cursor c = {data + 4, data + n_bytes};
    uint64_t version, n_tensors, n_values;
    if (!take_uint(&c, 4, &version) || !take_uint(&c, 8, &n_tensors) || !take_uint(&c, 8, &n_values))
        return truncated("its header", err);
    if (version != 2 && version != 3)
        return sac_fail(err, SAC_UNSUPPORTED, "GGUF version %llu%s; versions 2 and 3 are supported",
                        (unsigned long long)version, version > 0xffff ? " (big endian?)" : "");
    g->version = (uint32_t)version;
    SAC_TRY(read_values(g, &c, n_values, err));
    int64_t alignment = 32;
    SAC_TRY(sac_gguf_get_int(g, "general.alignment", 8, 1 << 20, &alignment, err));
    if (alignment & (alignment - 1))
        return sac_fail(err, SAC_BAD_FILE, "general.alignment is %lld, must be a power of two",
                        (long long)alignment);
    if (n_tensors > left(&c) / 32) return truncated("its tensor list", err); /* the least an entry takes */
    int first = ck->n_tensors;
    for (uint64_t i = 0; i < n_tensors; i++) SAC_TRY(read_tensor(&c, ck, file, err));
    size_t at = (size_t)(c.at - data), pad = (size_t)(-(int64_t)at & (alignment - 1));
    if (n_tensors && pad > left(&c)) return truncated("its tensor list", err);
    if (!n_tensors) pad = 0; /* vocabulary-only files may end here */
    if (header_bytes) *header_bytes = at + pad;
    SAC_TRY(place_tensors(ck, first, data + at + pad, n_bytes - at - pad, (uint64_t)alignment, err));
    return sac_checkpoint_seal(ck, err);
}

void sac_gguf_free(sac_gguf *g) {
    free(g->values);
    memset(g, 0, sizeof *g);
}
