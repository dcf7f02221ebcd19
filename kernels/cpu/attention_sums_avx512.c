/* attention_sums at AVX-512. */
#include "cpu.h"
#if defined(__AVX512F__) /* given to files of this name on x86 */
#include "attention_sums_tmpl.h"
#endif
