#if defined(__AVX512F__)
#define GPTQ_BITS 8
#include "gptq_tmpl.h"
#else
typedef int sac_no_gptq_8_avx512;
#endif
