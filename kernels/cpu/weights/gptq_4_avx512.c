#if defined(__AVX512F__)
#define GPTQ_BITS 4
#include "gptq_tmpl.h"
#else
typedef int sac_no_gptq_4_avx512;
#endif
