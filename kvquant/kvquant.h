/* kvquant.h - how keys and values are stored. One file a format, one line in formats.c. */
#ifndef SAC_KVQUANT_H
#define SAC_KVQUANT_H

#include "dtype.h"

typedef struct sac_kv_format {
    const char *name;   /* "f16" */
    const char *source; /* paper, or what it is */
    sac_dtype dtype;    /* element type of a plain format */
    /* Bytes of n rows of one head's keys (or values), metadata counted. */
    size_t (*rows_bytes)(int64_t n_rows, int head_dim);
} sac_kv_format;

extern const sac_kv_format sac_kv_f32, sac_kv_f16, sac_kv_bf16;

/* By name, NULL when there is none; names for help texts, NULL-terminated. */
const sac_kv_format *sac_kv_format_find(const char *name);
const char *const *sac_kv_format_names(void);

#endif
