/* attributes.h - x.name, x[key], x[a:b:c], as the sandbox gives them. What is not there is undefined, not an error. */
#ifndef SAC_LLM_TEMPLATE_ATTRIBUTES_H
#define SAC_LLM_TEMPLATE_ATTRIBUTES_H

#include "tmpl_run.h"

sac_status sac_tmpl_attribute(sac_tmpl_run *r, sac_tmpl_value v, const char *name, size_t n_bytes,
                              sac_tmpl_value *out);
sac_status sac_tmpl_item(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_value key, sac_tmpl_value *out);
/* bounds: start, stop, step; none or MISSING = not given */
sac_status sac_tmpl_slice(sac_tmpl_run *r, sac_tmpl_value v, const sac_tmpl_value bounds[3],
                          sac_tmpl_value *out);
/* Only methods and the like, no items: the filter attr. */
sac_status sac_tmpl_only_attribute(sac_tmpl_run *r, sac_tmpl_value v, const char *name, size_t n_bytes,
                                   sac_tmpl_value *out);

/* "a.0.b" as map(attribute=...) takes it, or one key: items all along; `v` itself for none and MISSING. `otherwise`
 * (unless it is none or MISSING) instead of what is undefined. */
sac_status sac_tmpl_path(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_value path, sac_tmpl_value otherwise,
                         sac_tmpl_value *out);

/* Fails where sac_tmpl_path would for the path alone, or for one of several with commas between: for filters that look at
 * it before they have an item. */
sac_status sac_tmpl_check_path(sac_tmpl_run *r, sac_tmpl_value path, bool has_commas);

/* An undefined value: `name` of an object of type `what`. */
sac_status sac_tmpl_no_such(sac_tmpl_run *r, const char *name, size_t n_bytes, const char *what,
                            bool is_unsafe, sac_tmpl_value *out);

#endif
