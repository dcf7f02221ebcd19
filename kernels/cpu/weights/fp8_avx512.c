#if defined(__AVX512F__)
#include "fp8_tmpl.h"
#else
typedef int sac_no_fp8_avx512;
#endif
