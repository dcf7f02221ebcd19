/* plain_weights.c - matrices that are one tensor: floats, and the blocks of GGUF. */
#include "weight_reader.h"

sac_tensor sac_checkpoint_matrix(const sac_checkpoint_tensor *t) {
    sac_tensor m = {t->data, (sac_dtype)t->dtype, 2, {t->dim[0], 1}};
    for (int i = 1; i < t->n_dims; i++) m.dim[1] *= t->dim[i]; /* a patch convolution is a linear map */
    return m;
}

static bool knows(const sac_weight_source *s, const sac_checkpoint_tensor *numbers) {
    (void)s;
    return numbers->dtype >= 0 && numbers->dtype != SAC_DTYPE_I8;
}

static sac_status read(const sac_weight_source *s, const sac_checkpoint_tensor *numbers, sac_weight *out,
                       sac_error *err) {
    (void)s, (void)err;
    *out = sac_weight_of(sac_checkpoint_matrix(numbers));
    return SAC_OK;
}

const sac_weight_reader sac_weight_reader_plain = {.knows = knows, .read = read};
