/* code_tables.h - what codes of four bits stand for in formats whose steps are not even. */
#ifndef SAC_CODE_TABLES_H
#define SAC_CODE_TABLES_H

#include <stdint.h>

/* iq4_nl and iq4_xs: GGML's kvalues_iq4nl (ggml-common.h). */
#define SAC_IQ4_VALUES -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
static const int8_t sac_iq4_values[16] = {SAC_IQ4_VALUES};
/* mxfp4: floats of a sign, two bits of exponent and one of mantissa (OCP Microscaling Formats 1.0, section 5.3.3), times two. */
#define SAC_MXFP4_VALUES 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12
static const int8_t sac_mxfp4_values[16] = {SAC_MXFP4_VALUES};

#endif
