#define _DEFAULT_SOURCE
#include "safetensors_write.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

sac_status sac_shard_add(sac_out_shard *s, const sac_out_part *part, const char *name, sac_error *err) {
    if (s->n == s->capacity) {
        int capacity = s->capacity ? 2 * s->capacity : 64;
        sac_out_part *grown = realloc(s->parts, (size_t)capacity * sizeof *grown);
        if (!grown) return sac_fail_no_memory(err);
        s->parts = grown;
        s->capacity = capacity;
    }
    s->parts[s->n] = *part;
    s->parts[s->n].name = strdup(name);
    if (!s->parts[s->n].name) return sac_fail_no_memory(err);
    s->n++;
    return SAC_OK;
}

static int by_alignment(const void *a, const void *b) {
    const sac_out_part *x = a, *y = b;
    if (x->element_bytes != y->element_bytes) return y->element_bytes - x->element_bytes;
    return strcmp(x->name, y->name);
}

static json_t *entry_of(const sac_out_part *p, uint64_t at) {
    json_t *shape = json_array();
    for (int i = 0; i < p->n_dims; i++) json_array_append_new(shape, json_integer(p->dim[i]));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", p->dtype, "shape", shape, "data_offsets", (json_int_t)at,
                     (json_int_t)(at + p->n_bytes));
}

sac_status sac_shard_lay_out(sac_out_shard *s, sac_error *err) {
    if (s->n) qsort(s->parts, (size_t)s->n, sizeof *s->parts, by_alignment);
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt"); /* without it transformers refuses */
    uint64_t at = 0;
    for (int i = 0; i < s->n && header; i++) {
        json_object_set_new(header, s->parts[i].name, entry_of(&s->parts[i], at));
        at += s->parts[i].n_bytes;
    }
    char *text = header ? json_dumps(header, JSON_COMPACT) : NULL;
    bool whole = header && json_object_size(header) == (size_t)s->n + 1;
    json_decref(header);
    if (!text || !whole) {
        free(text);
        return sac_fail_no_memory(err);
    }
    const size_t n = strlen(text), padded = (n + 7) / 8 * 8;
    s->header = malloc(8 + padded);
    if (s->header) {
        const uint64_t length = padded;
        memcpy(s->header, &length, 8);
        memcpy(s->header + 8, text, n);
        memset(s->header + 8 + n, ' ', padded - n);
    }
    free(text);
    s->header_bytes = 8 + padded;
    s->n_bytes = s->header_bytes + at;
    return s->header ? SAC_OK : sac_fail_no_memory(err);
}

/* In pieces, for progress. */
static sac_status write_bytes(sac_out_file *f, const uint8_t *bytes, size_t n_bytes, sac_error *err) {
    for (size_t at = 0; at < n_bytes;) {
        const size_t left = n_bytes - at, n = left < ((size_t)8 << 20) ? left : (size_t)8 << 20;
        SAC_TRY(sac_out_write(f, bytes + at, n, err));
        at += n;
    }
    return SAC_OK;
}

static sac_status write_part(sac_out_file *f, const sac_out_part *p, sac_pool *pool, sac_error *err) {
    if (p->made) return write_bytes(f, p->made->data, p->made->n_bytes, err);
    if (p->source == SAC_PART_MEMORY) return write_bytes(f, p->memory, p->n_bytes, err);
    if (p->source == SAC_PART_ROUNDED) return sac_out_rounded(f, &p->rounded, pool, err);
    const int64_t shape[2] = {p->rounded.rows, p->rounded.cols};
    if (p->source == SAC_PART_SHAPE) return sac_out_write(f, shape, sizeof shape, err);
    for (size_t at = 0; at < p->copied->n_bytes;) { /* in pieces, for progress */
        const size_t left = p->copied->n_bytes - at, n = left < ((size_t)8 << 20) ? left : (size_t)8 << 20;
        SAC_TRY(sac_out_write(f, p->copied->data + at, n, err));
        sac_let_go(p->copied, at, at + n);
        at += n;
    }
    return SAC_OK;
}

sac_status sac_shard_write(const sac_out_shard *s, const char *path, sac_pool *pool, sac_out_progress *progress,
                           sac_error *err) {
    sac_out_file f = {0};
    sac_status st = sac_out_open(&f, path, progress, err);
    if (st == SAC_OK) st = sac_out_write(&f, s->header, s->header_bytes, err);
    for (int i = 0; i < s->n && st == SAC_OK; i++) st = write_part(&f, &s->parts[i], pool, err);
    if (st == SAC_OK && f.n_bytes != s->n_bytes)
        st = sac_fail(err, SAC_INTERNAL, "%.250s: %llu bytes were planned, %llu written", path,
                      (unsigned long long)s->n_bytes, (unsigned long long)f.n_bytes);
    if (st == SAC_OK) st = sac_out_close(&f, err);
    sac_out_abandon(&f);
    return st;
}

void sac_shard_free(sac_out_shard *s) {
    for (int i = 0; i < s->n; i++) free(s->parts[i].name);
    free(s->parts);
    free(s->header);
    *s = (sac_out_shard){0};
}
