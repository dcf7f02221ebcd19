/* packed_attention at AVX-512 with VNNI: one instruction multiplies and adds. */
#include "cpu.h"
#if defined(__AVX512VNNI__) /* given to files of this name on x86 */
#define PACKED_ATTENTION sac_packed_attention_vnni
#define PACKED_SCORES    sac_packed_scores_vnni
#include "packed_attention_tmpl.h"
#else
typedef int sac_no_packed_attention_vnni;
#endif
