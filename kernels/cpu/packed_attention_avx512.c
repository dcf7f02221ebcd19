/* packed_attention at AVX-512. */
#include "cpu.h"
#if defined(__AVX512F__) /* given to files of this name on x86 */
#define PACKED_ATTENTION sac_packed_attention_avx512
#define PACKED_SCORES    sac_packed_scores_avx512
#include "packed_attention_tmpl.h"
#else
typedef int sac_no_packed_attention_avx512;
#endif
