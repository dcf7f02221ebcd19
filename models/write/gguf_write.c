#include "gguf_write.h"

#include <stdlib.h>

/* Numbers of ggml's types. */
static int type_number(sac_dtype t) {
    switch (t) {
    case SAC_DTYPE_F32: return 0;
    case SAC_DTYPE_F16: return 1;
    case SAC_DTYPE_Q4_0: return 2;
    case SAC_DTYPE_Q4_1: return 3;
    case SAC_DTYPE_Q5_0: return 6;
    case SAC_DTYPE_Q5_1: return 7;
    case SAC_DTYPE_Q8_0: return 8;
    case SAC_DTYPE_Q4_K: return 12;
    case SAC_DTYPE_Q5_K: return 13;
    case SAC_DTYPE_Q6_K: return 14;
    case SAC_DTYPE_BF16: return 30;
    default: return -1;
    }
}

/* ---------------------------------------------------------------- keys */

void sac_gguf_put_raw(sac_gguf_out *g, const void *bytes, size_t n_bytes) {
    if (g->n_bytes + n_bytes > g->capacity) {
        const size_t capacity = 2 * (g->n_bytes + n_bytes) + 4096;
        uint8_t *grown = realloc(g->keys, capacity);
        if (!grown) {
            g->has_failed = true;
            return;
        }
        g->keys = grown;
        g->capacity = capacity;
    }
    memcpy(g->keys + g->n_bytes, bytes, n_bytes);
    g->n_bytes += n_bytes;
}

static void put_u32(sac_gguf_out *g, uint32_t v) {
    sac_gguf_put_raw(g, &v, sizeof v);
}

static void put_text(sac_gguf_out *g, const char *text, size_t n_bytes) {
    const uint64_t n = n_bytes;
    sac_gguf_put_raw(g, &n, sizeof n);
    sac_gguf_put_raw(g, text, n_bytes);
}

static void begin(sac_gguf_out *g, const char *key, sac_gguf_type type) {
    put_text(g, key, strlen(key));
    put_u32(g, (uint32_t)type);
    g->n_keys++;
}

static void begin_array(sac_gguf_out *g, const char *key, sac_gguf_type type, size_t n) {
    const uint64_t count = n;
    begin(g, key, SAC_GGUF_ARRAY);
    put_u32(g, (uint32_t)type);
    sac_gguf_put_raw(g, &count, sizeof count);
}

void sac_gguf_put_u32(sac_gguf_out *g, const char *key, uint32_t v) {
    begin(g, key, SAC_GGUF_U32);
    put_u32(g, v);
}

void sac_gguf_put_f32(sac_gguf_out *g, const char *key, float v) {
    begin(g, key, SAC_GGUF_F32);
    sac_gguf_put_raw(g, &v, sizeof v);
}

void sac_gguf_put_bool(sac_gguf_out *g, const char *key, bool v) {
    const uint8_t byte = v;
    begin(g, key, SAC_GGUF_BOOL);
    sac_gguf_put_raw(g, &byte, 1);
}

void sac_gguf_put_string(sac_gguf_out *g, const char *key, const char *text, size_t n_bytes) {
    begin(g, key, SAC_GGUF_STRING);
    put_text(g, text, n_bytes);
}

void sac_gguf_put_strings(sac_gguf_out *g, const char *key, const sac_text_span *items, size_t n) {
    begin_array(g, key, SAC_GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) put_text(g, items[i].text, items[i].n_bytes);
}

void sac_gguf_put_numbers(sac_gguf_out *g, const char *key, sac_gguf_type type, const void *items, size_t n) {
    begin_array(g, key, type, n);
    sac_gguf_put_raw(g, items, 4 * n);
}

void sac_gguf_put_bools(sac_gguf_out *g, const char *key, const uint8_t *items, size_t n) {
    begin_array(g, key, SAC_GGUF_BOOL, n);
    sac_gguf_put_raw(g, items, n);
}

/* ---------------------------------------------------------------- tensors */

sac_status sac_gguf_out_add(sac_gguf_out *g, const char *name, const sac_rounded *r, const int64_t *dim, int n_dims,
                            sac_error *err) {
    if (strlen(name) >= sizeof g->tensors->name || !*name || n_dims < 1 || n_dims > 4)
        return sac_fail(err, SAC_BAD_FILE, "tensor %.100s: its name or shape is none of GGUF", name);
    if (g->n_tensors == g->tensor_capacity) {
        int capacity = g->tensor_capacity ? 2 * g->tensor_capacity : 256;
        sac_gguf_out_tensor *grown = realloc(g->tensors, (size_t)capacity * sizeof *grown);
        if (!grown) return sac_fail_no_memory(err);
        g->tensors = grown;
        g->tensor_capacity = capacity;
    }
    sac_gguf_out_tensor *t = &g->tensors[g->n_tensors++];
    *t = (sac_gguf_out_tensor){.rounded = *r, .n_dims = n_dims};
    strcpy(t->name, name);
    for (int i = 0; i < n_dims; i++) t->dim[i] = dim[i];
    return SAC_OK;
}

static uint64_t aligned(uint64_t n) {
    return (n + SAC_GGUF_ALIGNMENT - 1) / SAC_GGUF_ALIGNMENT * SAC_GGUF_ALIGNMENT;
}

static void put_head(sac_gguf_out *to, const sac_gguf_out *g) {
    const uint64_t n_tensors = (uint64_t)g->n_tensors;
    sac_gguf_put_raw(to, "GGUF", 4);
    put_u32(to, 3);
    sac_gguf_put_raw(to, &n_tensors, 8);
    sac_gguf_put_raw(to, &g->n_keys, 8);
    sac_gguf_put_raw(to, g->keys, g->n_bytes);
    for (int i = 0; i < g->n_tensors; i++) {
        const sac_gguf_out_tensor *t = &g->tensors[i];
        put_text(to, t->name, strlen(t->name));
        put_u32(to, (uint32_t)t->n_dims);
        for (int d = t->n_dims - 1; d >= 0; d--) sac_gguf_put_raw(to, &t->dim[d], 8);
        put_u32(to, (uint32_t)type_number(t->rounded.type));
        sac_gguf_put_raw(to, &t->offset, 8);
    }
}

sac_status sac_gguf_out_lay_out(sac_gguf_out *g, sac_error *err) {
    uint64_t at = 0;
    for (int i = 0; i < g->n_tensors; i++) {
        sac_gguf_out_tensor *t = &g->tensors[i];
        if (type_number(t->rounded.type) < 0)
            return sac_fail(err, SAC_INTERNAL, "tensor %.90s: %s is no type of GGUF", t->name,
                            sac_dtype_name(t->rounded.type));
        t->offset = at;
        at = aligned(at + (uint64_t)t->rounded.rows * sac_rounded_row_bytes(&t->rounded));
    }
    static const uint8_t zeros[SAC_GGUF_ALIGNMENT];
    sac_gguf_out head = {.has_failed = g->has_failed};
    put_head(&head, g);
    sac_gguf_put_raw(&head, zeros, (size_t)(aligned(head.n_bytes) - head.n_bytes));
    g->head = head.keys;
    g->head_bytes = head.n_bytes;
    g->file_bytes = head.n_bytes + at;
    return head.has_failed ? sac_fail_no_memory(err) : SAC_OK;
}

static bool is_weighed(const sac_gguf_out_tensor *t) {
    return sac_can_weigh(t->rounded.type) && strncmp(t->name, "blk.", 4) == 0;
}

sac_status sac_gguf_out_weigh(sac_gguf_out *g, const sac_calibrator *c, sac_error *err) {
    const sac_gguf_out_tensor *first = NULL;
    bool has_any = false;
    for (int i = g->n_tensors - 1; i >= 0; i--)
        if (is_weighed(&g->tensors[i])) first = &g->tensors[i];
    if (!first)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "no matrix of a layer has rows of whole blocks to choose by prompts: leave --calibrate out");
    SAC_TRY(c->columns(c->ctx, err));
    for (int i = 0; i < g->n_tensors; i++) {
        sac_rounded *r = &g->tensors[i].rounded;
        if (is_weighed(&g->tensors[i])) r->importance = c->column_sums(c->ctx, r->from->name, r->cols);
        has_any |= r->importance != NULL;
    }
    return has_any ? SAC_OK : sac_calibrated_none(first->rounded.from->name, err);
}

/* Where tensor i begins in the file; behind the last one its end. */
static uint64_t begins_at(const sac_gguf_out *g, int i) {
    return i < g->n_tensors ? g->head_bytes + g->tensors[i].offset : g->file_bytes;
}

static sac_status write_rest(const sac_gguf_out *g, sac_out_file *f, sac_pool *pool, sac_error *err) {
    int i = 0;
    if (f->n_bytes == 0) SAC_TRY(sac_out_write(f, g->head, g->head_bytes, err));
    while (i < g->n_tensors && begins_at(g, i) < f->n_bytes) i++;
    for (; i < g->n_tensors && f->n_bytes == begins_at(g, i); i++) {
        SAC_TRY(sac_out_rounded(f, &g->tensors[i].rounded, pool, err));
        SAC_TRY(sac_out_align(f, SAC_GGUF_ALIGNMENT, err));
        SAC_TRY(sac_out_mark(f, err));
    }
    if (f->n_bytes == g->file_bytes) return SAC_OK;
    f->n_marked = 0; /* nothing to go on with */
    return sac_fail(err, SAC_INTERNAL, "%.250s: %llu bytes were planned, %llu written", f->path,
                    (unsigned long long)g->file_bytes, (unsigned long long)f->n_bytes);
}

sac_status sac_gguf_out_write(const sac_gguf_out *g, const char *path, const char of[SAC_OUT_OF_BYTES], sac_pool *pool,
                              sac_out_progress *progress, sac_error *err) {
    sac_out_file f = {0};
    sac_status st = sac_out_resume(&f, path, of, progress, err);
    if (st == SAC_OK) st = write_rest(g, &f, pool, err);
    if (st == SAC_OK) st = sac_out_close(&f, err);
    sac_out_abandon(&f);
    return st;
}

void sac_gguf_out_free(sac_gguf_out *g) {
    free(g->keys);
    free(g->head);
    free(g->tensors);
    *g = (sac_gguf_out){0};
}
