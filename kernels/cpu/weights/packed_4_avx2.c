#if defined(__AVX2__)
#define PACKED_BITS 4
#include "packed_tmpl.h"
#else
typedef int sac_no_packed_4_avx2;
#endif
