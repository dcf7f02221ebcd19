/* linear over F32, F16 and BF16 weights at AVX2. */
#include "cpu.h"
#if defined(__AVX2__) /* given to files of this name on x86 */
#include "linear_float_tmpl.h"
#endif
