/* linear over F32, F16 and BF16 weights at AVX-512 with VBMI: a few rows against bf16 weights take an eighth less time. */
#include "linear_float_vbmi.h"
#if defined(__AVX512VBMI__) /* given to files of this name on x86 */
#define LINEAR_FLOAT sac_linear_float_vbmi
#include "linear_float_tmpl.h"
#endif
