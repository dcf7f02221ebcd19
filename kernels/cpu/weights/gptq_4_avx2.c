#if defined(__AVX2__)
#define GPTQ_BITS 4
#include "gptq_tmpl.h"
#else
typedef int sac_no_gptq_4_avx2;
#endif
