#if defined(__AVX512F__)
#include "int8_tmpl.h"
#else
typedef int sac_no_int8_avx512;
#endif
