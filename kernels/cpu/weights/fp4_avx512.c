#if defined(__AVX512F__)
#include "fp4_tmpl.h"
#else
typedef int sac_no_fp4_avx512;
#endif
