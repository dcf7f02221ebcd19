/* checkpoint.h - the tensors of a model's files, whatever the format: a table sorted by name over read-only
 * mappings. The readers (safetensors.c, gguf.c) fill it. */
#ifndef SAC_MODELS_CHECKPOINT_H
#define SAC_MODELS_CHECKPOINT_H

#include "dtype.h"
#include "file_map.h"

#include <stdbool.h>

#define SAC_CHECKPOINT_MAX_DIMS 8

typedef struct sac_checkpoint_tensor {
    char *name;             /* owned by the table */
    const char *dtype_name; /* static, also for types that cannot be computed with: "i64" */
    int dtype;              /* sac_dtype, or -1 */
    int n_dims;
    int64_t dim[SAC_CHECKPOINT_MAX_DIMS]; /* outermost first */
    const uint8_t *data;                  /* in a mapping, of any alignment */
    size_t n_bytes;
    int file; /* which mapping */
} sac_checkpoint_tensor;

/* Rows [first, first + n) of a matrix of n_whole; n_whole 0: all that there are. */
typedef struct sac_row_range {
    int64_t first, n, n_whole;
} sac_row_range;

typedef struct sac_checkpoint_file {
    char *path;
    sac_file_map map;
    size_t header_bytes; /* everything before the tensors' bytes */
} sac_checkpoint_file;

typedef struct sac_checkpoint {
    sac_checkpoint_file *files;
    int n_files;
    sac_checkpoint_tensor *tensors; /* sorted by name once sealed */
    int n_tensors, capacity;
    void **owned; /* bytes of tensors that are in no mapping */
    int n_owned;
} sac_checkpoint;

void sac_checkpoint_free(sac_checkpoint *c); /* a zeroed one is fine */

/* Maps a file and appends it; the index is c->n_files - 1. */
sac_status sac_checkpoint_add_file(sac_checkpoint *c, const char *path, sac_error *err);

/* Appends a tensor; copies t except for the name, which is taken as n_name bytes. */
sac_status sac_checkpoint_add(sac_checkpoint *c, const sac_checkpoint_tensor *t, const char *name,
                              size_t n_name, sac_error *err);

/* Takes entry i off the table, whose last entry takes its place: to be sealed again. */
void sac_checkpoint_drop(sac_checkpoint *c, int i);

/* Bytes for a tensor that is in no mapping, freed with c; NULL when there is no memory. */
void *sac_checkpoint_own(sac_checkpoint *c, size_t n_bytes);
/* Frees such bytes before c is; nothing where c does not own them. */
void sac_checkpoint_disown(sac_checkpoint *c, const void *bytes);

/* BAD_FILE when a byte belongs to two of the tensors from entry `first` on (of one file). */
sac_status sac_checkpoint_check_disjoint(const sac_checkpoint *c, int first, sac_error *err);

/* Sorts by name, after which find works; BAD_FILE when a name is there twice. */
sac_status sac_checkpoint_seal(sac_checkpoint *c, sac_error *err);

const sac_checkpoint_tensor *sac_checkpoint_find(const sac_checkpoint *c, const char *name);
/* The first n values of a tensor in F32, F16 or BF16, at whatever address they lie. */
void sac_checkpoint_to_f32(float *out, const sac_checkpoint_tensor *t, int64_t n);

/* "[2048, 512]" into buf, for messages. */
#define SAC_SHAPE_TEXT 160
const char *sac_shape_text(char buf[SAC_SHAPE_TEXT], const int64_t *dim, int n_dims);

#endif
