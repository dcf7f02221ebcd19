#if defined(__AVX512VNNI__)
#include "linear_quant_tmpl.h"
#define PANELS    vector_panels
#define AS_SIGNED false
#include "linear_quant_variant.h"

sac_status sac_linear_quant_vnni(const sac_stream *s, const sac_linear_args *a) {
    return sac_lq_run(s, a, &variant);
}
#else
typedef int sac_no_vnni;
#endif
