/* write_safetensors.h - small files in safetensors, for tests that make their own. */
#ifndef SAC_TEST_WRITE_SAFETENSORS_H
#define SAC_TEST_WRITE_SAFETENSORS_H

#include "test.h"

typedef struct writer {
    char header[1 << 16];
    size_t n_header, n_data;
    uint8_t data[1 << 20];
} writer;

static inline void put_shaped(writer *w, const char *name, const char *type, const int64_t *dim, int n_dims,
                              const void *bytes, size_t n_bytes) {
    char *to = w->header;
    const size_t room = sizeof w->header;
    w->n_header +=
        (size_t)snprintf(to + w->n_header, room - w->n_header,
                         "%s\"%s\":{\"dtype\":\"%s\",\"shape\":", w->n_header > 1 ? "," : "", name, type);
    for (int i = 0; i < n_dims; i++)
        w->n_header += (size_t)snprintf(to + w->n_header, room - w->n_header, "%c%lld", i ? ',' : '[',
                                        (long long)dim[i]);
    w->n_header += (size_t)snprintf(to + w->n_header, room - w->n_header, "],\"data_offsets\":[%zu,%zu]}",
                                    w->n_data, w->n_data + n_bytes);
    assert_true(w->n_header < room && w->n_data + n_bytes <= sizeof w->data);
    memcpy(w->data + w->n_data, bytes, n_bytes);
    w->n_data += n_bytes;
}

/* A tensor [rows][cols], or [rows] where cols is 0. */
static inline void put(writer *w, const char *name, const char *type, int64_t rows, int64_t cols,
                       const void *bytes, size_t n_bytes) {
    put_shaped(w, name, type, (const int64_t[]){rows, cols}, cols ? 2 : 1, bytes, n_bytes);
}

static inline writer *begin_writer(void) {
    writer *w = calloc(1, sizeof *w);
    w->header[w->n_header++] = '{';
    return w;
}

/* Writes `to`/`file` and frees w. */
static inline void end_writer(writer *w, const char *to, const char *file) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", to, file);
    w->header[w->n_header++] = '}';
    uint64_t n = w->n_header;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&n, 8, 1, f) + fwrite(w->header, n, 1, f) + fwrite(w->data, w->n_data, 1, f), 3);
    fclose(f);
    free(w);
}

#endif
