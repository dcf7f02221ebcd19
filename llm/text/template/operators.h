/* operators.h - Python's operators on values. */
#ifndef SAC_LLM_TEMPLATE_OPERATORS_H
#define SAC_LLM_TEMPLATE_OPERATORS_H

#include "syntax.h"
#include "tmpl_run.h"

sac_status sac_tmpl_binary(sac_tmpl_run *r, sac_token_kind op, sac_tmpl_value a, sac_tmpl_value b,
                           sac_tmpl_value *out);
sac_status sac_tmpl_negate(sac_tmpl_run *r, sac_tmpl_value v, bool keep_sign,
                           sac_tmpl_value *out); /* -v, or +v */
sac_status sac_tmpl_compare(sac_tmpl_run *r, sac_token_kind op, sac_tmpl_value a, sac_tmpl_value b,
                            bool *holds);
sac_status sac_tmpl_contains(sac_tmpl_run *r, sac_tmpl_value container, sac_tmpl_value v, bool *found);

#endif
