/* gguf.h - reading GGUF files, versions 2 and 3 (little endian): typed metadata, tensor descriptions, then
 * the tensors' bytes at an aligned offset. Values and names are looked at where they are mapped; arrays of
 * strings are walked once to find their end. Counts are checked against the bytes that are left before
 * anything is allocated. */
#ifndef SAC_MODELS_GGUF_H
#define SAC_MODELS_GGUF_H

#include "checkpoint.h"
#include "tokenizer.h"

#define SAC_GGUF_MAX_DEPTH 4 /* arrays in arrays */

typedef enum sac_gguf_type { /* the file's numbers */
                             SAC_GGUF_U8,
                             SAC_GGUF_I8,
                             SAC_GGUF_U16,
                             SAC_GGUF_I16,
                             SAC_GGUF_U32,
                             SAC_GGUF_I32,
                             SAC_GGUF_F32,
                             SAC_GGUF_BOOL,
                             SAC_GGUF_STRING,
                             SAC_GGUF_ARRAY,
                             SAC_GGUF_U64,
                             SAC_GGUF_I64,
                             SAC_GGUF_F64,
                             SAC_N_GGUF_TYPES
} sac_gguf_type;

typedef struct sac_gguf_value {
    sac_text_span key;
    sac_gguf_type type;
    sac_gguf_type item_type; /* of an array */
    uint64_t n_items;        /* of an array; 1 otherwise */
    const uint8_t *data;     /* the value, or the array's first item; no alignment */
} sac_gguf_value;

typedef struct sac_gguf {
    uint32_t version;
    sac_gguf_value *values; /* sorted by key */
    size_t n_values;
} sac_gguf;

/* Metadata into g, tensors into c (sealed by this). data must outlive both. On failure free both. */
sac_status sac_gguf_parse(sac_gguf *g, sac_checkpoint *c, int file, const uint8_t *data, size_t n_bytes,
                          size_t *header_bytes, sac_error *err);
void sac_gguf_free(sac_gguf *g); /* a zeroed one is fine */

const sac_gguf_value *sac_gguf_find(const sac_gguf *g, const char *key); /* NULL when absent */

/* Absent keys leave *value as it was; a wrong type or range is BAD_FILE naming the key. */
sac_status sac_gguf_get_int(const sac_gguf *g, const char *key, int64_t min, int64_t max, int64_t *value,
                            sac_error *err);
sac_status sac_gguf_get_float(const sac_gguf *g, const char *key, double *value, sac_error *err);
sac_status sac_gguf_get_bool(const sac_gguf *g, const char *key, int *value, sac_error *err);
sac_status sac_gguf_get_string(const sac_gguf *g, const char *key, sac_text_span *value, sac_error *err);

/* A NUL-terminated copy of a short text in buf; *out is NULL when absent. */
sac_status sac_gguf_get_name(const sac_gguf *g, const char *key, char *buf, size_t buf_bytes, const char **out,
                             sac_error *err);
/* A token's; -1 when absent. */
sac_status sac_gguf_get_id(const sac_gguf *g, const char *key, int64_t *id, sac_error *err);

/* Arrays as fresh heap blocks, free() them; *items is NULL and *n 0 when absent. Strings point into the file;
 * integers of any width become i32. */
sac_status sac_gguf_get_strings(const sac_gguf *g, const char *key, sac_text_span **items, size_t *n,
                                sac_error *err);
sac_status sac_gguf_get_floats(const sac_gguf *g, const char *key, float **items, size_t *n, sac_error *err);
sac_status sac_gguf_get_ints(const sac_gguf *g, const char *key, int32_t **items, size_t *n, sac_error *err);

#endif
