/* eval.h - running the tree: expressions (eval.c) and the whole template (exec.c); statements share frame.h. */
#ifndef SAC_LLM_TEMPLATE_EVAL_H
#define SAC_LLM_TEMPLATE_EVAL_H

#include "syntax.h"
#include "tmpl_run.h"

sac_status sac_tmpl_eval(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value *out);

/* Filters `n` and those inside it with `self` for what the innermost one filters ({% filter %}, {% set %}). */
sac_status sac_tmpl_eval_filters(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value self,
                                 sac_tmpl_value *out);

/* The value of a CALL with `caller` as one more named argument (MISSING: none). */
sac_status sac_tmpl_eval_call(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value caller,
                              sac_tmpl_value *out);

/* The whole template: writes to r->out. */
sac_status sac_tmpl_exec_root(sac_tmpl_run *r, const sac_tmpl_node *root);

#endif
