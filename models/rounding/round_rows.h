/* round_rows.h - a matrix or vector of a checkpoint as rows of another type, a stretch of rows at a time. */
#ifndef SAC_MODELS_ROUND_ROWS_H
#define SAC_MODELS_ROUND_ROWS_H

#include "checkpoint.h"
#include "rounding.h"
#include "thread_pool.h"

typedef enum sac_row_part {
    SAC_ROW_BLOCKS, /* sac_round_row */
    SAC_ROW_CODES,  /* the codes of sac_round_codes */
    SAC_ROW_SCALES, /* its scales */
} sac_row_part;

/* Describes; borrows the tensor. */
typedef struct sac_rounded {
    const sac_checkpoint_tensor *from; /* F32, F16 or BF16; what is behind its first dimension is one row, and a vector
                                          is one */
    int64_t rows, cols;
    sac_row_part part;
    sac_dtype type;       /* of blocks */
    sac_code_format code; /* of codes and scales */
    int heads;            /* > 0: of each of so many stretches of rows the halves take turns (GGUF's llama) */
    float plus;           /* added to every element */
    const float *importance; /* [cols] of blocks: sums of squares of what meets the columns; or NULL */
} sac_rounded;

/* Rows and columns of a tensor, a vector being one row. */
void sac_rounded_of(sac_rounded *r, const sac_checkpoint_tensor *t);

size_t sac_rounded_row_bytes(const sac_rounded *r);

/* Rows [first, first + n) into out. BAD_FILE, with the tensor's name, for a value that is not finite or too large for
 * the type. pool: NULL for the caller's thread alone. */
sac_status sac_round_rows(const sac_rounded *r, int64_t first, int64_t n, void *out, sac_pool *pool,
                          sac_error *err);

/* All rows as they are, in f32: out [rows][cols]. BAD_FILE likewise. */
sac_status sac_rounded_read(const sac_rounded *r, float *out, sac_error *err);

/* Bytes [from, to) of a tensor of a file (its number is not negative) were read and are not needed soon: whole pages leave
 * this process's memory. */
void sac_let_go(const sac_checkpoint_tensor *t, size_t from, size_t to);

#endif
