#if defined(__AVX512F__)
#define PACKED_BITS 8
#include "packed_tmpl.h"
#else
typedef int sac_no_packed_8_avx512;
#endif
