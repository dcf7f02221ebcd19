/* tokenizer_buffer.h - a growing run of bytes, and ids on their way to the caller. Inside
 * the tokenizer only. */
#ifndef SAC_LLM_TOKENIZER_BUFFER_H
#define SAC_LLM_TOKENIZER_BUFFER_H

#include "status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sac_buffer {
    char *data;
    size_t n_bytes, capacity;
} sac_buffer;

/* Room for n_bytes more; TOO_LONG above SAC_MAX_TEXT_BYTES in all (a normaliser may multiply its input). */
sac_status sac_buffer_reserve(sac_buffer *b, size_t n_bytes, sac_error *err);
sac_status sac_buffer_add(sac_buffer *b, const char *bytes, size_t n_bytes, sac_error *err);
sac_status sac_buffer_fill(sac_buffer *b, char byte, size_t n_bytes, sac_error *err);
void sac_buffer_free(sac_buffer *b);

typedef struct sac_id_sink {
    int32_t *ids;
    size_t capacity, n; /* n counts on beyond the capacity */
} sac_id_sink;

static inline void sac_emit(sac_id_sink *s, int32_t id) {
    if (s->n < s->capacity) s->ids[s->n] = id;
    s->n++;
}

#endif
