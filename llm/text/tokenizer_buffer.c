#include "tokenizer_buffer.h"

#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>

sac_status sac_buffer_reserve(sac_buffer *b, size_t n_bytes, sac_error *err) {
    if (n_bytes <= b->capacity - b->n_bytes) return SAC_OK;
    if (n_bytes > SAC_MAX_TEXT_BYTES || b->n_bytes + n_bytes > SAC_MAX_TEXT_BYTES)
        return sac_fail(err, SAC_TOO_LONG, "a text of more than %zu bytes after normalisation",
                        SAC_MAX_TEXT_BYTES);
    size_t capacity = b->capacity * 2;
    if (capacity < b->n_bytes + n_bytes) capacity = b->n_bytes + n_bytes;
    if (capacity < 256) capacity = 256;
    char *data = realloc(b->data, capacity);
    if (!data) return sac_fail(err, SAC_NO_MEMORY, "no memory for a text of %zu bytes", capacity);
    b->data = data;
    b->capacity = capacity;
    return SAC_OK;
}

sac_status sac_buffer_add(sac_buffer *b, const char *bytes, size_t n_bytes, sac_error *err) {
    if (n_bytes == 0) return SAC_OK;
    SAC_TRY(sac_buffer_reserve(b, n_bytes, err));
    memcpy(b->data + b->n_bytes, bytes, n_bytes);
    b->n_bytes += n_bytes;
    return SAC_OK;
}

sac_status sac_buffer_fill(sac_buffer *b, char byte, size_t n_bytes, sac_error *err) {
    if (n_bytes == 0) return SAC_OK;
    SAC_TRY(sac_buffer_reserve(b, n_bytes, err));
    memset(b->data + b->n_bytes, byte, n_bytes);
    b->n_bytes += n_bytes;
    return SAC_OK;
}

void sac_buffer_free(sac_buffer *b) {
    free(b->data);
    *b = (sac_buffer){0};
}
