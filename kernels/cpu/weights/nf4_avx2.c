#if defined(__AVX2__)
#include "nf4_tmpl.h"
#else
typedef int sac_no_nf4_avx2;
#endif
