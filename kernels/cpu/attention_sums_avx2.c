/* attention_sums at AVX2. */
#include "cpu.h"
#if defined(__AVX2__) /* given to files of this name on x86 */
#include "attention_sums_tmpl.h"
#endif
