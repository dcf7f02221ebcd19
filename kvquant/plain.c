/* Formats without quantisation: every element rounded to a float type. */
#include "kvquant.h"

static const sac_method_param no_params[] = {{0}};

const sac_kv_format sac_kv_f32 = {"f32", "single precision", SAC_DTYPE_F32, no_params, NULL};
const sac_kv_format sac_kv_f16 = {"f16", "IEEE half", SAC_DTYPE_F16, no_params, NULL};
const sac_kv_format sac_kv_bf16 = {"bf16", "bfloat16", SAC_DTYPE_BF16, no_params, NULL};
