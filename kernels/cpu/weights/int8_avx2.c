#if defined(__AVX2__)
#include "int8_tmpl.h"
#else
typedef int sac_no_int8_avx2;
#endif
