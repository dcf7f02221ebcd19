/* compressed_tensors.h - the "quantization_config" of compressed-tensors, as the readers of its formats share it. */
#ifndef SAC_MODELS_COMPRESSED_TENSORS_H
#define SAC_MODELS_COMPRESSED_TENSORS_H

#include "quantization.h"

typedef struct sac_ct_config {
    int bits;
    bool is_float;
    bool is_asymmetric;
    bool rounds_to_fp4; /* activations, in x_rounding's place: FP4's reader alone looks at it */
    int64_t group;                  /* group_size; 0: there is none */
    int64_t block_rows, block_cols; /* of block_structure; 0: there is none */
    sac_x_rounding x_rounding;
} sac_ct_config;

/* Whether it is compressed-tensors' and has one of these formats. */
bool sac_ct_is(const json_t *quantization, const char *format, const char *or_format);

/* What it says of its one group of modules. UNSUPPORTED, by name, for what is not done. */
sac_status sac_ct_read(const json_t *quantization, sac_ct_config *out, sac_error *err);

#endif
