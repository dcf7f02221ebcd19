#if defined(__AVX2__)
#include "awq_tmpl.h"
#else
typedef int sac_no_awq_avx2;
#endif
