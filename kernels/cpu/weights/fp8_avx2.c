#if defined(__AVX2__)
#include "fp8_tmpl.h"
#else
typedef int sac_no_fp8_avx2;
#endif
