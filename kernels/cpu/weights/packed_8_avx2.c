#if defined(__AVX2__)
#define PACKED_BITS 8
#include "packed_tmpl.h"
#else
typedef int sac_no_packed_8_avx2;
#endif
