#if defined(__AVX512F__)
#include "nf4_tmpl.h"
#else
typedef int sac_no_nf4_avx512;
#endif
