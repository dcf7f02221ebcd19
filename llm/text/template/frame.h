/* frame.h - names while statements run: slots of the function that runs, and what opens and leaves scopes. */
#ifndef SAC_LLM_TEMPLATE_FRAME_H
#define SAC_LLM_TEMPLATE_FRAME_H

#include "eval.h"

/* What a macro, the body of a call or a recursive loop keeps: the data of its sac_tmpl_function. */
typedef struct sac_tmpl_closure {
    const sac_tmpl_node *node;
    sac_tmpl_frame *frame; /* where it was made */
    int64_t depth;         /* of a recursive loop */
} sac_tmpl_closure;

typedef int (*sac_tmpl_call_fn)(sac_tmpl_run *r, const sac_tmpl_function *f, const sac_tmpl_args *args,
                                sac_tmpl_value *out);
sac_status sac_tmpl_closure_new(sac_tmpl_run *r, const sac_tmpl_node *n, const char *name,
                                sac_tmpl_call_fn call, int64_t depth, sac_tmpl_value *out);

/* A frame for the function of `scope`, made within `outer`. */
sac_status sac_tmpl_frame_new(sac_tmpl_run *r, const sac_tmpl_scope *scope, sac_tmpl_frame *outer,
                              sac_tmpl_frame **out);
sac_tmpl_value *sac_tmpl_slot(const sac_tmpl_run *r, sac_tmpl_place place);
sac_status sac_tmpl_enter_scope(sac_tmpl_run *r, const sac_tmpl_scope *scope);
void sac_tmpl_leave_scope(const sac_tmpl_run *r, const sac_tmpl_scope *scope);

/* A name, an attribute of a namespace, or a tuple of such, which takes as many values. */
sac_status sac_tmpl_assign(sac_tmpl_run *r, const sac_tmpl_node *target, sac_tmpl_value v);
/* Fails when the target is an attribute of what is no namespace. */
sac_status sac_tmpl_check_namespaces(sac_tmpl_run *r, const sac_tmpl_node *target);

/* *text is what `body` writes. A jump out of it leaves what was written behind. */
sac_status sac_tmpl_capture(sac_tmpl_run *r, const sac_tmpl_nodes *body, sac_tmpl_value *text);
/* `v`, which has to be text, to the output. */
sac_status sac_tmpl_write_string(sac_tmpl_run *r, sac_tmpl_value v, const char *use);

/* ---- statements with a file of their own ---- */
sac_status sac_tmpl_exec_for(sac_tmpl_run *r, const sac_tmpl_node *n);        /* exec_for.c */
sac_status sac_tmpl_exec_macro(sac_tmpl_run *r, const sac_tmpl_node *n);      /* macro.c */
sac_status sac_tmpl_exec_call_block(sac_tmpl_run *r, const sac_tmpl_node *n); /* and {% generation %} */

/* macro_attributes.c: m.name, m.arguments ...; *out is MISSING when a macro has no such attribute. */
sac_status sac_tmpl_macro_attribute(sac_tmpl_run *r, const sac_tmpl_function *f, const char *name,
                                    size_t n_bytes, sac_tmpl_value *out);

#endif
