/* number_methods.h - attributes and methods of numbers. */
#ifndef SAC_LLM_TEMPLATE_NUMBER_METHODS_H
#define SAC_LLM_TEMPLATE_NUMBER_METHODS_H

#include "tmpl_run.h"

/* bit_length, is_integer ..., or NULL: of a bool, an int or a float. */
const sac_tmpl_spec *sac_tmpl_number_method(sac_tmpl_value v, const char *name, size_t n_bytes);
/* real, imag, numerator, denominator; *out is left as it is for other names. */
void sac_tmpl_number_attribute(sac_tmpl_value v, const char *name, size_t n_bytes, sac_tmpl_value *out);

#endif
