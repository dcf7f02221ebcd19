/* compressed_tensors.h - the "quantization_config" of compressed-tensors, as the readers of its formats share it. It has one or
 * several groups of modules, each with a format and sizes of its own; they are counted from 0, in the configuration's order. */
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

/* Whether a group has one of these formats: its own, or else that of all. */
bool sac_ct_is(const json_t *quantization, int group, const char *format, const char *or_format);

/* "weights" of a group, or NULL. */
const json_t *sac_ct_weights(const json_t *quantization, int group);

/* What a configuration says of a group of modules. UNSUPPORTED, by name, for what is not done. */
sac_status sac_ct_read(const json_t *quantization, int group, sac_ct_config *out, sac_error *err);

/* Whether a group is the reader's, and what it says of it. */
typedef bool (*sac_ct_is_fn)(const json_t *quantization, int group);
typedef sac_status (*sac_ct_check_fn)(const json_t *quantization, int group, sac_error *err);

/* Whether any group is the reader's (false for another's configuration), and, where they are all good, OK. */
sac_status sac_ct_check(const json_t *quantization, sac_ct_is_fn is_mine, sac_ct_check_fn check, bool *any, sac_error *err);

/* The group of t's module, of which n_module bytes of its name count. One alone has all modules. Of several it is that whose
 * "targets" have its name or an end of it with a dot inside (prefixes differ), or else match it ("re:..."), or else are "Linear". BAD_FILE for none, UNSUPPORTED for two. */
sac_status sac_ct_group_of(const json_t *quantization, const sac_checkpoint_tensor *t, int n_module, int *group, sac_error *err);

#endif
