#if defined(__AVX512F__)
#include "hqq_tmpl.h"
#else
typedef int sac_no_hqq_avx512;
#endif
