/* packed_attention at AVX2. */
#include "cpu.h"
#if defined(__AVX2__) /* given to files of this name on x86 */
#define PACKED_ATTENTION sac_packed_attention_avx2
#define PACKED_SCORES    sac_packed_scores_avx2
#include "packed_attention_tmpl.h"
#else
typedef int sac_no_packed_attention_avx2;
#endif
