#define _POSIX_C_SOURCE 200809L
#include "checkpoint.h"

#include <stdio.h>
#include <stdlib.h>

void sac_checkpoint_free(sac_checkpoint *c) {
    for (int i = 0; i < c->n_tensors; i++) free(c->tensors[i].name);
    free(c->tensors);
    for (int i = 0; i < c->n_files; i++) {
        sac_file_unmap(&c->files[i].map);
        free(c->files[i].path);
    }
    free(c->files);
    for (int i = 0; i < c->n_owned; i++) free(c->owned[i]);
    free(c->owned);
    memset(c, 0, sizeof *c);
}

sac_status sac_checkpoint_add_file(sac_checkpoint *c, const char *path, sac_error *err) {
    sac_file_map map;
    SAC_TRY(sac_file_map_open(&map, path, err));
    sac_checkpoint_file *files = realloc(c->files, ((size_t)c->n_files + 1) * sizeof *files);
    if (files) c->files = files;
    char *copy = files ? strdup(path) : NULL;
    if (!copy) {
        sac_file_unmap(&map);
        return sac_fail(err, SAC_NO_MEMORY, "%s: no memory for its table", path);
    }
    c->files[c->n_files++] = (sac_checkpoint_file){.path = copy, .map = map};
    return SAC_OK;
}

sac_status sac_checkpoint_add(sac_checkpoint *c, const sac_checkpoint_tensor *t, const char *name,
                              size_t n_name, sac_error *err) {
    if (c->n_tensors == c->capacity) {
        int capacity = c->capacity ? c->capacity * 2 : 256;
        sac_checkpoint_tensor *grown = realloc(c->tensors, (size_t)capacity * sizeof *grown);
        if (!grown) return sac_fail(err, SAC_NO_MEMORY, "no memory for a table of %d tensors", capacity);
        c->tensors = grown;
        c->capacity = capacity;
    }
    char *copy = malloc(n_name + 1);
    if (!copy) return sac_fail(err, SAC_NO_MEMORY, "no memory for a tensor's name");
    memcpy(copy, name, n_name);
    copy[n_name] = 0;
    c->tensors[c->n_tensors] = *t;
    c->tensors[c->n_tensors++].name = copy;
    return SAC_OK;
}

void sac_checkpoint_drop(sac_checkpoint *c, int i) {
    free(c->tensors[i].name);
    c->tensors[i] = c->tensors[--c->n_tensors];
}

void *sac_checkpoint_own(sac_checkpoint *c, size_t n_bytes) {
    void **grown = realloc(c->owned, ((size_t)c->n_owned + 1) * sizeof *grown);
    if (!grown) return NULL;
    c->owned = grown;
    void *bytes = malloc(n_bytes ? n_bytes : 1);
    if (bytes) c->owned[c->n_owned++] = bytes;
    return bytes;
}

void sac_checkpoint_disown(sac_checkpoint *c, const void *bytes) {
    for (int i = 0; i < c->n_owned; i++) {
        if (c->owned[i] != bytes) continue;
        free(c->owned[i]);
        c->owned[i] = c->owned[--c->n_owned];
        return;
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const sac_checkpoint_tensor *)a)->name, ((const sac_checkpoint_tensor *)b)->name);
}

sac_status sac_checkpoint_seal(sac_checkpoint *c, sac_error *err) {
    if (c->n_tensors > 1) qsort(c->tensors, (size_t)c->n_tensors, sizeof *c->tensors, by_name);
    for (int i = 1; i < c->n_tensors; i++)
        if (strcmp(c->tensors[i - 1].name, c->tensors[i].name) == 0)
            return sac_fail(err, SAC_BAD_FILE, "tensor %.100s is there twice", c->tensors[i].name);
    return SAC_OK;
}

static int by_address(const void *a, const void *b) {
    const sac_checkpoint_tensor *const *x = a, *const *y = b;
    if ((*x)->data != (*y)->data) return (*x)->data < (*y)->data ? -1 : 1;
    return (*x)->n_bytes < (*y)->n_bytes ? -1 : (*x)->n_bytes > (*y)->n_bytes;
}

sac_status sac_checkpoint_check_disjoint(const sac_checkpoint *c, int first, sac_error *err) {
    size_t n = (size_t)(c->n_tensors - first);
    if (n < 2) return SAC_OK;
    const sac_checkpoint_tensor **order = malloc(n * sizeof *order);
    if (!order) return sac_fail(err, SAC_NO_MEMORY, "no memory to check %zu tensors", n);
    for (size_t i = 0; i < n; i++) order[i] = &c->tensors[first + (int)i];
    qsort(order, n, sizeof *order, by_address);
    sac_status st = SAC_OK;
    for (size_t i = 1; i < n && st == SAC_OK; i++)
        if (order[i - 1]->data + order[i - 1]->n_bytes > order[i]->data)
            st = sac_fail(err, SAC_BAD_FILE, "tensors %.80s and %.80s overlap", order[i - 1]->name,
                          order[i]->name);
    free(order);
    return st;
}

static int name_against(const void *key, const void *t) {
    return strcmp(key, ((const sac_checkpoint_tensor *)t)->name);
}

const sac_checkpoint_tensor *sac_checkpoint_find(const sac_checkpoint *c, const char *name) {
    if (c->n_tensors == 0) return NULL;
    return bsearch(name, c->tensors, (size_t)c->n_tensors, sizeof *c->tensors, name_against);
}

void sac_checkpoint_to_f32(float *out, const sac_checkpoint_tensor *t, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        if (t->dtype == SAC_DTYPE_F32) {
            memcpy(&out[i], t->data + 4 * i, 4);
            continue;
        }
        memcpy(&h, t->data + 2 * i, 2);
        out[i] = t->dtype == SAC_DTYPE_F16 ? sac_f16_to_f32(h) : sac_bf16_to_f32(h);
    }
}

const char *sac_shape_text(char buf[SAC_SHAPE_TEXT], const int64_t *dim, int n_dims) {
    size_t used = (size_t)snprintf(buf, SAC_SHAPE_TEXT, "[");
    for (int i = 0; i < n_dims && used < SAC_SHAPE_TEXT; i++)
        used +=
            (size_t)snprintf(buf + used, SAC_SHAPE_TEXT - used, "%s%lld", i ? ", " : "", (long long)dim[i]);
    if (used < SAC_SHAPE_TEXT) snprintf(buf + used, SAC_SHAPE_TEXT - used, "]");
    return buf;
}
