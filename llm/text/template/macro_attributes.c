/* macro_attributes.c - what a macro tells of itself, as jinja2.runtime.Macro does. */
#include "frame.h"

#include <string.h>

static sac_status arguments(sac_tmpl_run *r, const sac_tmpl_signature *g, sac_tmpl_value *out) {
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_TUPLE, g->n), out));
    for (size_t i = 0; i < g->n; i++)
        if (!sac_tmpl_list_add(&r->pool, out->list, sac_tmpl_name(&r->pool, g->names[i])))
            return sac_tmpl_full(r);
    return SAC_OK;
}

static bool is(const char *name, size_t n_bytes, const char *wanted) {
    return strlen(wanted) == n_bytes && memcmp(name, wanted, n_bytes) == 0;
}

sac_status sac_tmpl_macro_attribute(sac_tmpl_run *r, const sac_tmpl_function *f, const char *name,
                                    size_t n_bytes, sac_tmpl_value *out) {
    const sac_tmpl_closure *c = f->data;
    const sac_tmpl_signature *g = c->node->signature;
    *out = (sac_tmpl_value){.kind = SAC_TMPL_MISSING};
    if (is(name, n_bytes, "arguments")) return arguments(r, g, out);
    if (is(name, n_bytes, "catch_kwargs")) *out = sac_tmpl_bool(g->named >= 0);
    if (is(name, n_bytes, "catch_varargs")) *out = sac_tmpl_bool(g->rest >= 0);
    if (is(name, n_bytes, "caller")) *out = sac_tmpl_bool(g->reads_caller);
    if (is(name, n_bytes, "explicit_caller")) *out = sac_tmpl_bool(g->has_caller_parameter);
    if (!is(name, n_bytes, "name")) return SAC_OK;
    *out = SAC_TMPL_VALUE_NONE;
    return f->name ? sac_tmpl_give(r, sac_tmpl_name(&r->pool, f->name), out) : SAC_OK;
}
