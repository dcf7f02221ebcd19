/* safetensors_write.h - writing a .safetensors file (safetensors.h has the layout): described first, so that its size is
 * known, then written from beginning to end. */
#ifndef SAC_MODELS_SAFETENSORS_WRITE_H
#define SAC_MODELS_SAFETENSORS_WRITE_H

#include "out_file.h"

typedef enum sac_part_source {
    SAC_PART_COPY,    /* the bytes of a tensor of the source */
    SAC_PART_ROUNDED, /* rows */
    SAC_PART_SHAPE,   /* I64 [2]: rows and columns of `rounded` */
    SAC_PART_MEMORY,  /* bytes at hand */
} sac_part_source;

typedef struct sac_out_part {
    char *name;        /* owned */
    const char *dtype; /* "BF16", static */
    int64_t dim[SAC_CHECKPOINT_MAX_DIMS];
    int n_dims;
    uint64_t n_bytes;
    int element_bytes; /* larger ones stand first, so that all are aligned */
    sac_part_source source;
    const sac_checkpoint_tensor *copied;
    sac_rounded rounded;
    const void *memory;                /* [n_bytes] */
    const sac_checkpoint_tensor *made; /* its bytes stand in the place of what the source would give; or NULL */
} sac_out_part;

typedef struct sac_out_shard {
    sac_out_part *parts;
    int n, capacity;
    char *header; /* once laid out */
    size_t header_bytes;
    uint64_t n_bytes; /* of the file */
} sac_out_shard;

/* Takes a copy of the name; the rest of *part is copied as it is. */
sac_status sac_shard_add(sac_out_shard *s, const sac_out_part *part, const char *name, sac_error *err);
/* Orders the tensors and makes the header. */
sac_status sac_shard_lay_out(sac_out_shard *s, sac_error *err);
sac_status sac_shard_write(const sac_out_shard *s, const char *path, sac_pool *pool, sac_out_progress *progress,
                           sac_error *err);
void sac_shard_free(sac_out_shard *s);

#endif
