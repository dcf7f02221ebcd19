/* scope_declare.c - the names that a scope has: those that its own statements set and read, not those within. */
#include "scope.h"

#include <string.h>

bool sac_scope_declare_parameter(sac_scope_finder *f, sac_scope *s, const char *name) {
    return sac_scope_define(f, s, name, SAC_LOAD_NOTHING, (sac_tmpl_place){0});
}

static bool declare_load(sac_scope_finder *f, sac_scope *s, const char *name) {
    sac_tmpl_place place;
    return sac_scope_find(s, name, &place) || sac_scope_define(f, s, name, SAC_LOAD_VARIABLE, place);
}

/* A name set only in some branch of an if is the rendering's variable otherwise. */
static bool declare_store(sac_scope_finder *f, sac_scope *s, const char *name) {
    sac_tmpl_place place;
    if (sac_scope_own(s, name)) return true;
    if (sac_scope_find(s, name, &place)) return sac_scope_define(f, s, name, SAC_LOAD_OUTER, place);
    return sac_scope_define(f, s, name, f->branches ? SAC_LOAD_VARIABLE : SAC_LOAD_MISSING, place);
}

bool sac_scope_declare_all(sac_scope_finder *f, sac_scope *s, const sac_tmpl_nodes *list) {
    for (size_t i = 0; i < list->n; i++)
        if (!sac_scope_declare(f, s, list->items[i])) return false;
    return true;
}

bool sac_scope_declare_target(sac_scope_finder *f, sac_scope *s, const sac_tmpl_node *n, bool as_parameter) {
    if (n->kind == SAC_NODE_NAME)
        return as_parameter ? sac_scope_declare_parameter(f, s, n->name) : declare_store(f, s, n->name);
    if (n->kind == SAC_NODE_NS_ATTR) return declare_load(f, s, n->name);
    if (!sac_scope_descend(f, n->line)) return false;
    for (size_t i = 0; i < n->items.n; i++)
        if (!sac_scope_declare_target(f, s, n->items.items[i], as_parameter)) return false;
    f->height--;
    return true;
}

static bool declare_expression(sac_scope_finder *f, sac_scope *s, const sac_tmpl_node *n) {
    if (n->kind == SAC_NODE_NAME) return declare_load(f, s, n->name);
    const sac_tmpl_call *call = n->call;
    return sac_scope_declare(f, s, n->a) && sac_scope_declare(f, s, n->b) && sac_scope_declare(f, s, n->c) &&
           sac_scope_declare_all(f, s, &n->items) && sac_scope_declare_all(f, s, &n->more) &&
           (!call ||
            (sac_scope_declare_all(f, s, &call->items) && sac_scope_declare_all(f, s, &call->named) &&
             sac_scope_declare(f, s, call->rest) && sac_scope_declare(f, s, call->named_rest)));
}

static bool declare_if(sac_scope_finder *f, sac_scope *s, const sac_tmpl_node *n) {
    if (!sac_scope_declare(f, s, n->a)) return false;
    f->branches++;
    if (!sac_scope_declare_all(f, s, &n->items) || !sac_scope_declare_all(f, s, &n->more)) return false;
    f->branches--;
    return true;
}

static bool declare_inner(sac_scope_finder *f, sac_scope *s, const sac_tmpl_node *n) {
    switch (n->kind) {
    case SAC_NODE_IF: return declare_if(f, s, n);
    case SAC_NODE_FOR: return sac_scope_declare(f, s, n->b);
    case SAC_NODE_SET: return sac_scope_declare(f, s, n->b) && sac_scope_declare_target(f, s, n->a, false);
    case SAC_NODE_SET_BLOCK: return sac_scope_declare_target(f, s, n->a, false);
    case SAC_NODE_MACRO: return declare_store(f, s, n->name);
    case SAC_NODE_CALL_BLOCK:
    case SAC_NODE_FILTER_BLOCK:
    case SAC_NODE_WITH: return sac_scope_declare(f, s, n->a);
    case SAC_NODE_GENERATION: return true;
    default: return declare_expression(f, s, n);
    }
}

bool sac_scope_declare(sac_scope_finder *f, sac_scope *s, const sac_tmpl_node *n) {
    if (!n) return true;
    if (!sac_scope_descend(f, n->line) || !declare_inner(f, s, n)) return false;
    f->height--;
    return true;
}

/* ---- whether a body reads a name that it is given: loop, caller, varargs, kwargs ---- */

static sac_scope_reading reads(const sac_tmpl_node *n, const char *name);

sac_scope_reading sac_scope_any_reads(const sac_tmpl_nodes *list, const char *name) {
    sac_scope_reading r = SAC_NOT_SEEN;
    for (size_t i = 0; i < list->n && r == SAC_NOT_SEEN; i++) r = reads(list->items[i], name);
    return r;
}

static sac_scope_reading signature_reads(const sac_tmpl_signature *g, const char *name) {
    for (size_t i = 0; i < g->n; i++)
        if (strcmp(g->names[i], name) == 0) return SAC_SET;
    return sac_scope_any_reads(&g->defaults, name);
}

/* What comes first decides, in the order in which Jinja keeps the parts of a node: a body that sets the name does not
 * read the one that it is given. */
static sac_scope_reading reads(const sac_tmpl_node *n, const char *name) {
    sac_scope_reading r = SAC_NOT_SEEN;
    if (!n) return r;
    if (n->kind == SAC_NODE_NAME)
        return strcmp(n->name, name) == 0 ? (n->flag ? SAC_SET : SAC_READ) : SAC_NOT_SEEN;
    if (n->kind == SAC_NODE_WITH) r = sac_scope_any_reads(&n->more, name);
    if (n->kind == SAC_NODE_FILTER_BLOCK) r = sac_scope_any_reads(&n->items, name);
    if (r == SAC_NOT_SEEN) r = reads(n->a, name);
    if (r == SAC_NOT_SEEN && n->signature) r = signature_reads(n->signature, name);
    if (r == SAC_NOT_SEEN) r = reads(n->b, name);
    if (r == SAC_NOT_SEEN && n->kind != SAC_NODE_FOR) r = reads(n->c, name);
    if (r == SAC_NOT_SEEN) r = sac_scope_any_reads(&n->items, name);
    if (r == SAC_NOT_SEEN) r = sac_scope_any_reads(&n->more, name);
    if (r == SAC_NOT_SEEN && n->kind == SAC_NODE_FOR) r = reads(n->c, name);
    if (r != SAC_NOT_SEEN || !n->call) return r;
    r = sac_scope_any_reads(&n->call->items, name);
    if (r == SAC_NOT_SEEN) r = sac_scope_any_reads(&n->call->named, name);
    if (r == SAC_NOT_SEEN) r = reads(n->call->rest, name);
    return r == SAC_NOT_SEEN ? reads(n->call->named_rest, name) : r;
}
