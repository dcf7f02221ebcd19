/* loop.h - what a template asks of `loop`. */
#ifndef SAC_LLM_TEMPLATE_LOOP_H
#define SAC_LLM_TEMPLATE_LOOP_H

#include "tmpl_run.h"

const sac_tmpl_spec *sac_tmpl_loop_method(const char *name, size_t n_bytes); /* cycle, changed; or NULL */
/* index, last, nextitem ...; *out is MISSING when it has no such attribute. */
sac_status sac_tmpl_loop_attribute(sac_tmpl_run *r, sac_tmpl_loop *loop, const char *name, size_t n_bytes,
                                   sac_tmpl_value *out);

#endif
