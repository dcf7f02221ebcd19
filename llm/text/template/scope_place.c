/* scope_place.c - gives every name its place and every filter and test its function, scope by scope. */
#include "names.h"
#include "scope.h"

#include <string.h>

static const char *interned_name(const sac_scope_finder *f, const char *name) {
    for (size_t i = 0; i < f->source->n_names; i++)
        if (strcmp(f->source->names[i], name) == 0) return f->source->names[i];
    return NULL;
}

/* The parameter that a body gets when it reads it. */
static bool given(sac_scope_finder *f, sac_scope *s, const sac_tmpl_nodes *body, const char *name,
                  int *slot) {
    const char *interned = interned_name(f, name);
    *slot = -1;
    if (!interned || sac_scope_any_reads(body, interned) != SAC_READ) return true;
    if (!sac_scope_declare_parameter(f, s, interned)) return false;
    *slot = sac_scope_own(s, interned)->slot;
    return true;
}

static bool place(sac_scope_finder *f, sac_scope *s, sac_tmpl_node *n);

static bool place_all(sac_scope_finder *f, sac_scope *s, sac_tmpl_nodes *list) {
    for (size_t i = 0; i < list->n; i++)
        if (!place(f, s, list->items[i])) return false;
    return true;
}

/* Statements of a scope of their own: what they declare was declared before. */
static bool place_body(sac_scope_finder *f, sac_scope *s, sac_tmpl_nodes *body) {
    bool soft = f->soft;
    f->soft = false;
    if (!place_all(f, s, body)) return false;
    f->soft = soft;
    return true;
}

static bool declare_body(sac_scope_finder *f, sac_scope *s, const sac_tmpl_nodes *body) {
    int branches = f->branches;
    f->branches = 0;
    if (!sac_scope_declare_all(f, s, body)) return false;
    f->branches = branches;
    return true;
}

static bool place_name(sac_scope_finder *f, const sac_scope *s, sac_tmpl_node *n) {
    if (sac_scope_find(s, n->name, &n->place)) return true;
    return sac_scope_fail(f, sac_tmpl_source_fail(f->source, n->line,
                                                  "'%.40s' cannot be used in the filter of a set", n->name));
}

static bool place_target(sac_scope_finder *f, const sac_scope *s, sac_tmpl_node *n) {
    if (n->kind != SAC_NODE_TUPLE) return place_name(f, s, n);
    for (size_t i = 0; i < n->items.n; i++)
        if (!place_target(f, s, n->items.items[i])) return false;
    return true;
}

static bool place_spec(sac_scope_finder *f, sac_tmpl_node *n) {
    bool is_test = n->kind == SAC_NODE_TEST;
    n->spec = is_test ? sac_tmpl_find_test(n->name, strlen(n->name))
                      : sac_tmpl_find_filter(n->name, strlen(n->name));
    if (n->spec) return true;
    if (!is_test && sac_tmpl_is_left_out(n->name, strlen(n->name)))
        return sac_scope_fail(f, sac_tmpl_source_fail(f->source, n->line,
                                                      "filter '%.40s' cannot be used in a chat template here",
                                                      n->name));
    if (f->soft) return true;
    return sac_scope_fail(f, sac_tmpl_source_fail(f->source, n->line, "%s '%.40s' is not known",
                                                  is_test ? "test" : "filter", n->name));
}

/* A constant that decides an `and` or `or`, or may, where it takes running to know: what is behind it need
 * not run. */
static bool decides(const sac_tmpl_node *n) {
    if ((n->kind != SAC_NODE_AND && n->kind != SAC_NODE_OR) || !sac_tmpl_is_constant(n->a)) return false;
    return n->a->kind != SAC_NODE_CONST || sac_tmpl_truth(n->a->value) == (n->kind == SAC_NODE_OR);
}

static bool place_expression(sac_scope_finder *f, sac_scope *s, sac_tmpl_node *n) {
    bool soft = f->soft;
    if (n->kind == SAC_NODE_NAME) return place_name(f, s, n);
    if ((n->kind == SAC_NODE_FILTER || n->kind == SAC_NODE_TEST) && !place_spec(f, n)) return false;
    if (n->kind == SAC_NODE_IF_ELSE || decides(n)) f->soft = true;
    if (!place(f, s, n->a) || !place(f, s, n->b) || !place(f, s, n->c) || !place_all(f, s, &n->items) ||
        !place_all(f, s, &n->more))
        return false;
    f->soft = soft;
    sac_tmpl_call *call = n->call;
    return !call || (place_all(f, s, &call->items) && place_all(f, s, &call->named) &&
                     place(f, s, call->rest) && place(f, s, call->named_rest));
}

/* {% with %} may give a name of its own to `loop`. */
static bool stores_loop(const sac_tmpl_node *n) {
    if (!n) return false;
    if (n->kind == SAC_NODE_NAME) return n->flag && strcmp(n->name, "loop") == 0;
    for (size_t i = 0; i < n->items.n; i++)
        if (stores_loop(n->items.items[i])) return true;
    for (size_t i = 0; n->kind != SAC_NODE_WITH && i < n->more.n; i++)
        if (stores_loop(n->more.items[i])) return true;
    return (n->kind == SAC_NODE_SET || n->kind == SAC_NODE_SET_BLOCK || n->kind == SAC_NODE_FOR) &&
           stores_loop(n->a);
}

/* A copy of a target, for another scope. */
static sac_tmpl_node *copy_target(sac_scope_finder *f, const sac_tmpl_node *n) {
    sac_tmpl_node *copy = sac_tmpl_take(f->source->pool, sizeof *copy);
    if (!copy) return sac_scope_full(f), NULL;
    *copy = *n;
    copy->items.items = sac_tmpl_take(f->source->pool, n->items.n * sizeof *copy->items.items);
    if (!copy->items.items) return sac_scope_full(f), NULL;
    for (size_t i = 0; i < n->items.n; i++) {
        copy->items.items[i] = copy_target(f, n->items.items[i]);
        if (!copy->items.items[i]) return NULL;
    }
    return copy;
}

static bool place_for(sac_scope_finder *f, sac_scope *s, sac_tmpl_node *n) {
    sac_scope body, test, otherwise;
    const char *loop = interned_name(f, "loop");
    bool extended = n->flag || (loop && sac_scope_any_reads(&n->items, loop) == SAC_READ);
    if (stores_loop(n))
        return sac_scope_fail(f,
                              sac_tmpl_source_fail(f->source, n->line, "'loop' cannot be set within a for"));
    if (!place(f, s, n->b)) return false;
    n->scope = sac_scope_new(f, &body, s, n->flag ? NULL : s->s->slots);
    if (!n->scope) return false;
    n->place.slot = -1;
    if (extended) {
        if (!loop) loop = "loop"; /* nobody reads it */
        if (!sac_scope_declare_parameter(f, &body, loop)) return false;
        n->place.slot = sac_scope_own(&body, loop)->slot;
    }
    if (!sac_scope_declare_target(f, &body, n->a, true) || !declare_body(f, &body, &n->items) ||
        !place_target(f, &body, n->a) || !place_body(f, &body, &n->items))
        return false;
    n->else_scope = sac_scope_new(f, &otherwise, s, n->scope->slots);
    if (!n->else_scope || !declare_body(f, &otherwise, &n->more) || !place_body(f, &otherwise, &n->more))
        return false;
    if (!n->c) return true;
    sac_tmpl_nodes condition = {.items = &n->c, .n = 1};
    n->test_scope = sac_scope_new(f, &test, s, NULL);
    n->test_target = copy_target(f, n->a);
    if (!n->test_scope || !n->test_target || !sac_scope_declare_target(f, &test, n->a, true) ||
        !declare_body(f, &test, &condition) || !place_target(f, &test, n->test_target))
        return false;
    return place_body(f, &test, &condition);
}

/* Of a macro, or the body of a call: `s` is the scope around it. */
static bool place_callable(sac_scope_finder *f, sac_scope *s, sac_tmpl_node *n) {
    sac_scope in;
    sac_tmpl_signature *g = n->signature;
    n->scope = sac_scope_new(f, &in, s, NULL);
    g->slots = sac_tmpl_take(f->source->pool, (g->n + 1) * sizeof *g->slots);
    if (!n->scope || !g->slots) return sac_scope_full(f);
    bool has_rest = false, has_named = false;
    for (size_t i = 0; i < g->n; i++) {
        if (!sac_scope_declare_parameter(f, &in, g->names[i])) return false;
        g->slots[i] = sac_scope_own(&in, g->names[i])->slot;
        has_rest |= strcmp(g->names[i], "varargs") == 0;
        has_named |= strcmp(g->names[i], "kwargs") == 0;
        if (strcmp(g->names[i], "caller")) continue;
        g->has_caller_parameter = true;
        if (i + g->defaults.n < g->n && sac_scope_any_reads(&n->items, g->names[i]) == SAC_READ)
            return sac_scope_fail(
                f, sac_tmpl_source_fail(f->source, n->line, "a parameter 'caller' needs a default"));
    }
    g->caller = g->named = g->rest = -1;
    const char *caller = interned_name(f, "caller");
    g->reads_caller = caller && sac_scope_any_reads(&n->items, caller) == SAC_READ;
    if (!declare_body(f, &in, &g->defaults) || !declare_body(f, &in, &n->items)) return false;
    if ((!g->has_caller_parameter && !given(f, &in, &n->items, "caller", &g->caller)) ||
        (!has_named && !given(f, &in, &n->items, "kwargs", &g->named)) ||
        (!has_rest && !given(f, &in, &n->items, "varargs", &g->rest)))
        return false;
    return place_body(f, &in, &g->defaults) && place_body(f, &in, &n->items);
}

static bool place_inner(sac_scope_finder *f, sac_scope *s, sac_tmpl_node *n, bool with_filter) {
    sac_scope in;
    n->scope = sac_scope_new(f, &in, s, s->s->slots);
    if (!n->scope || !declare_body(f, &in, &n->items)) return false;
    if (n->kind == SAC_NODE_FILTER_BLOCK && !sac_scope_declare(f, &in, n->a)) return false;
    if (!place_body(f, &in, &n->items)) return false;
    sac_tmpl_nodes filter = {.items = n->kind == SAC_NODE_FILTER_BLOCK ? &n->a : &n->b, .n = with_filter};
    return place_body(f, &in, &filter);
}

static bool place_with(sac_scope_finder *f, sac_scope *s, sac_tmpl_node *n) {
    sac_scope in;
    if (!place(f, s, n->a)) return false;
    n->scope = sac_scope_new(f, &in, s, s->s->slots);
    if (!n->scope) return false;
    for (size_t i = 0; i < n->more.n; i++)
        if (!sac_scope_declare_target(f, &in, n->more.items[i], false)) return false;
    if (!declare_body(f, &in, &n->items)) return false;
    for (size_t i = 0; i < n->more.n; i++)
        if (!place_target(f, &in, n->more.items[i])) return false;
    return place_body(f, &in, &n->items);
}

static bool place_if(sac_scope_finder *f, sac_scope *s, sac_tmpl_node *n) {
    bool soft = f->soft;
    f->soft = true;
    if (!place(f, s, n->a) || !place_all(f, s, &n->items) || !place_all(f, s, &n->more)) return false;
    f->soft = soft;
    return true;
}

static bool place_kind(sac_scope_finder *f, sac_scope *s, sac_tmpl_node *n) {
    switch (n->kind) {
    case SAC_NODE_IF: return place_if(f, s, n);
    case SAC_NODE_FOR: return place_for(f, s, n);
    case SAC_NODE_SET: return place(f, s, n->b) && place_target(f, s, n->a);
    case SAC_NODE_SET_BLOCK: return place_target(f, s, n->a) && place_inner(f, s, n, n->b != NULL);
    case SAC_NODE_MACRO: return place_name(f, s, n) && place_callable(f, s, n);
    case SAC_NODE_CALL_BLOCK: return place(f, s, n->a) && place_callable(f, s, n);
    case SAC_NODE_GENERATION: return place_callable(f, s, n);
    case SAC_NODE_FILTER_BLOCK: return place_inner(f, s, n, true);
    case SAC_NODE_WITH: return place_with(f, s, n);
    default: return place_expression(f, s, n);
    }
}

static bool place(sac_scope_finder *f, sac_scope *s, sac_tmpl_node *n) {
    if (!n) return true;
    if (!sac_scope_descend(f, n->line) || !place_kind(f, s, n)) return false;
    f->height--;
    return true;
}

sac_status sac_tmpl_find_scopes(sac_tmpl_source *source, sac_tmpl_node *root) {
    sac_scope_finder f = {.source = source};
    sac_scope s;
    root->scope = sac_scope_new(&f, &s, NULL, NULL);
    if (root->scope && sac_scope_declare_all(&f, &s, &root->items)) place_all(&f, &s, &root->items);
    return f.status;
}
