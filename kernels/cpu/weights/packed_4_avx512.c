#if defined(__AVX512F__)
#define PACKED_BITS 4
#include "packed_tmpl.h"
#else
typedef int sac_no_packed_4_avx512;
#endif
