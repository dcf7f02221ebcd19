/* attention at AVX2. */
#include "cpu.h"
#if defined(__AVX2__) /* given to files of this name on x86 */
#include "attention_tmpl.h"
#endif
