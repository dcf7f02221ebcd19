/* iterate.h - what iterating over a value gives: items of a list, keys of a dict, characters of a text. */
#ifndef SAC_LLM_TEMPLATE_ITERATE_H
#define SAC_LLM_TEMPLATE_ITERATE_H

#include "tmpl_run.h"

/* iter(v). Fails for what has no items. An iterator, and a loop, go on where they stand. */
sac_status sac_tmpl_walk_open(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_walk *w);
sac_status sac_tmpl_walk_next(sac_tmpl_run *r, sac_tmpl_walk *w, sac_tmpl_value *item); /* MISSING: no more */

/* All items at once; of an iterator what is left. */
sac_status sac_tmpl_items(sac_tmpl_run *r, sac_tmpl_value v, const sac_tmpl_list **items);
sac_status sac_tmpl_length(sac_tmpl_run *r, sac_tmpl_value v, int64_t *n); /* len(v) */

/* An iterator over `v`, which can be iterated. */
sac_status sac_tmpl_iterator_over(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_value *out);

/* ---- the loop of {% for %}: jinja2.runtime.LoopContext ---- */
sac_status sac_tmpl_loop_next(sac_tmpl_run *r, sac_tmpl_loop *loop, sac_tmpl_value *item);
sac_status sac_tmpl_loop_peek(sac_tmpl_run *r, sac_tmpl_loop *loop,
                              sac_tmpl_value *item); /* MISSING: the last */
sac_status sac_tmpl_loop_length(sac_tmpl_run *r, sac_tmpl_loop *loop, int64_t *n);

#endif
