#if defined(__AVX2__)
#include "hqq_tmpl.h"
#else
typedef int sac_no_hqq_avx2;
#endif
