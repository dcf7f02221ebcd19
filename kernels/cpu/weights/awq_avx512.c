#if defined(__AVX512F__)
#include "awq_tmpl.h"
#else
typedef int sac_no_awq_avx512;
#endif
