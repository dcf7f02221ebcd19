#if defined(__AVX2__)
#include "fp4_tmpl.h"
#else
typedef int sac_no_fp4_avx2;
#endif
