/* gguf_write.h - writing a GGUF file (gguf.h has the reader), version 3: metadata and tensors are described, then written
 * from beginning to end. */
#ifndef SAC_MODELS_GGUF_WRITE_H
#define SAC_MODELS_GGUF_WRITE_H

#include "calibrator.h"
#include "gguf.h"
#include "out_resume.h"

#define SAC_GGUF_ALIGNMENT 32

typedef struct sac_gguf_out_tensor {
    char name[96];
    sac_rounded rounded; /* SAC_ROW_BLOCKS */
    int64_t dim[4];      /* outermost first */
    int n_dims;
    uint64_t offset;
} sac_gguf_out_tensor;

typedef struct sac_gguf_out {
    uint8_t *keys; /* as they stand in the file */
    size_t n_bytes, capacity;
    uint64_t n_keys;
    sac_gguf_out_tensor *tensors;
    int n_tensors, tensor_capacity;
    bool has_failed; /* no memory: looked at by sac_gguf_out_lay_out */
    uint8_t *head;   /* everything before the tensors' bytes, padded */
    size_t head_bytes;
    uint64_t file_bytes;
} sac_gguf_out;

void sac_gguf_put_u32(sac_gguf_out *g, const char *key, uint32_t v);
void sac_gguf_put_f32(sac_gguf_out *g, const char *key, float v);
void sac_gguf_put_bool(sac_gguf_out *g, const char *key, bool v);
void sac_gguf_put_string(sac_gguf_out *g, const char *key, const char *text, size_t n_bytes);
void sac_gguf_put_strings(sac_gguf_out *g, const char *key, const sac_text_span *items, size_t n);
void sac_gguf_put_numbers(sac_gguf_out *g, const char *key, sac_gguf_type type, const void *items, size_t n); /* of 4 bytes */
void sac_gguf_put_bools(sac_gguf_out *g, const char *key, const uint8_t *items, size_t n); /* 0 and 1 */
/* A key and its value as another file has them. */
void sac_gguf_put_raw(sac_gguf_out *g, const void *bytes, size_t n_bytes);

/* A tensor of F32, F16, BF16 or a type that sac_can_round. BAD_FILE for a name that does not fit. */
sac_status sac_gguf_out_add(sac_gguf_out *g, const char *name, const sac_rounded *r, const int64_t *dim, int n_dims,
                            sac_error *err);
sac_status sac_gguf_out_lay_out(sac_gguf_out *g, sac_error *err);
/* Goes on behind the tensors that a run before has left of the same file (out_resume.h). */
sac_status sac_gguf_out_write(const sac_gguf_out *g, const char *path, const char of[SAC_OUT_OF_BYTES], sac_pool *pool,
                              sac_out_progress *progress, sac_error *err);
/* The columns' sums that a calibration has, to the tensors that are rounded by such. */
sac_status sac_gguf_out_weigh(sac_gguf_out *g, const sac_calibrator *c, sac_error *err);
void sac_gguf_out_free(sac_gguf_out *g); /* a zeroed one is fine */

#endif
