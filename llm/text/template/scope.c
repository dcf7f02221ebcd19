/* scope.c - where names live, by Jinja's own rules (jinja2/idtracking.py, compiler.py): a name that a scope sets
 * anywhere is the scope's from its start on; what it then holds depends on where it is set and who reads it. */
#include "names.h"
#include "syntax.h"

#include <string.h>

enum { MAX_HEIGHT = 400 };

typedef struct sac_tmpl_slot {
    int level;
    const char *name;
} slot_name;

typedef struct scope {
    struct scope *outer;
    int level;
    sac_tmpl_scope *s;
} scope;

typedef struct finder {
    sac_tmpl_source *source;
    sac_status status;
    int height;
    int branches; /* ifs around what is declared */
    bool soft;    /* within an if of the same scope: an unknown filter is an error only when it is run */
} finder;

static bool fail(finder *f, sac_status status) {
    if (f->status == SAC_OK) f->status = status;
    return false;
}
static bool full(finder *f) {
    return fail(f, sac_tmpl_source_full(f->source));
}

/* One level down in the tree; the caller takes it back: height-- */
static bool descend(finder *f, int line) {
    if (f->height++ < MAX_HEIGHT) return true;
    return fail(f, sac_tmpl_source_fail(f->source, line, "nested more than %d deep", MAX_HEIGHT));
}

/* ---- scopes ---- */

/* Names of equal level in one function share a slot, as they share a Python variable in Jinja. */
static int slot_of(finder *f, sac_tmpl_slots *slots, int level, const char *name) {
    for (int i = 0; i < slots->n; i++)
        if (slots->names[i].name == name && slots->names[i].level == level) return i;
    if (slots->n == slots->capacity) {
        size_t n = (size_t)slots->n, more = n ? 2 * n : 8;
        slot_name *names =
            sac_tmpl_grow(f->source->pool, slots->names, n * sizeof *names, more * sizeof *names);
        if (!names) return full(f) - 1;
        slots->names = names;
        slots->capacity = (int)more;
    }
    ((slot_name *)(uintptr_t)slots->names)[slots->n] = (slot_name){level, name};
    return slots->n++;
}

/* A scope within `outer`; of a function of its own or of outer's. */
static sac_tmpl_scope *scope_new(finder *f, scope *to, scope *outer, sac_tmpl_slots *slots) {
    *to = (scope){.outer = outer, .level = outer ? outer->level + 1 : 0};
    to->s = sac_tmpl_take_zeroed(f->source->pool, sizeof *to->s);
    if (to->s && !slots) slots = sac_tmpl_take_zeroed(f->source->pool, sizeof *slots);
    if (!to->s || !slots) return full(f), NULL;
    to->s->slots = slots;
    return to->s;
}

static sac_tmpl_load *own(const scope *s, const char *name) {
    for (size_t i = 0; i < s->s->n; i++)
        if (s->s->loads[i].name == name) return &s->s->loads[i];
    return NULL;
}

static bool find(const scope *s, const char *name, sac_tmpl_place *place) {
    *place = (sac_tmpl_place){.slot = -1};
    for (; s; s = s->outer) {
        const sac_tmpl_load *load = own(s, name);
        if (load) {
            place->slot = load->slot;
            return true;
        }
        place->hops += s->outer && s->outer->s->slots != s->s->slots;
    }
    return false;
}

static bool define(finder *f, scope *to, const char *name, sac_load_kind kind, sac_tmpl_place from) {
    sac_tmpl_scope *s = to->s;
    sac_tmpl_load *load = own(to, name);
    if (!load) {
        if (s->n == s->capacity) {
            size_t more = s->n ? 2 * s->n : 4;
            sac_tmpl_load *loads =
                sac_tmpl_grow(f->source->pool, s->loads, s->n * sizeof *loads, more * sizeof *loads);
            if (!loads) return full(f);
            s->loads = loads;
            s->capacity = more;
        }
        load = &s->loads[s->n++];
    }
    *load = (sac_tmpl_load){.name = name, .kind = kind, .from = from};
    load->slot = slot_of(f, s->slots, to->level, name);
    return load->slot >= 0;
}

static bool declare_parameter(finder *f, scope *s, const char *name) {
    return define(f, s, name, SAC_LOAD_NOTHING, (sac_tmpl_place){0});
}

static bool declare_load(finder *f, scope *s, const char *name) {
    sac_tmpl_place place;
    return find(s, name, &place) || define(f, s, name, SAC_LOAD_VARIABLE, place);
}

/* A name set only in some branch of an if is the rendering's variable otherwise. */
static bool declare_store(finder *f, scope *s, const char *name) {
    sac_tmpl_place place;
    if (own(s, name)) return true;
    if (find(s, name, &place)) return define(f, s, name, SAC_LOAD_OUTER, place);
    return define(f, s, name, f->branches ? SAC_LOAD_VARIABLE : SAC_LOAD_MISSING, place);
}

/* ---- what a scope declares: its own statements, not those of scopes within ---- */

static bool declare(finder *f, scope *s, const sac_tmpl_node *n);

static bool declare_all(finder *f, scope *s, const sac_tmpl_nodes *list) {
    for (size_t i = 0; i < list->n; i++)
        if (!declare(f, s, list->items[i])) return false;
    return true;
}

static bool declare_target(finder *f, scope *s, const sac_tmpl_node *n, bool as_parameter) {
    if (n->kind == SAC_NODE_NAME)
        return as_parameter ? declare_parameter(f, s, n->name) : declare_store(f, s, n->name);
    if (n->kind == SAC_NODE_NS_ATTR) return declare_load(f, s, n->name);
    if (!descend(f, n->line)) return false;
    for (size_t i = 0; i < n->items.n; i++)
        if (!declare_target(f, s, n->items.items[i], as_parameter)) return false;
    f->height--;
    return true;
}

static bool declare_expression(finder *f, scope *s, const sac_tmpl_node *n) {
    if (n->kind == SAC_NODE_NAME) return declare_load(f, s, n->name);
    const sac_tmpl_call *call = n->call;
    return declare(f, s, n->a) && declare(f, s, n->b) && declare(f, s, n->c) &&
           declare_all(f, s, &n->items) && declare_all(f, s, &n->more) &&
           (!call || (declare_all(f, s, &call->items) && declare_all(f, s, &call->named) &&
                      declare(f, s, call->rest) && declare(f, s, call->named_rest)));
}

static bool declare_if(finder *f, scope *s, const sac_tmpl_node *n) {
    if (!declare(f, s, n->a)) return false;
    f->branches++;
    if (!declare_all(f, s, &n->items) || !declare_all(f, s, &n->more)) return false;
    f->branches--;
    return true;
}

static bool declare_inner(finder *f, scope *s, const sac_tmpl_node *n) {
    switch (n->kind) {
    case SAC_NODE_IF: return declare_if(f, s, n);
    case SAC_NODE_FOR: return declare(f, s, n->b);
    case SAC_NODE_SET: return declare(f, s, n->b) && declare_target(f, s, n->a, false);
    case SAC_NODE_SET_BLOCK: return declare_target(f, s, n->a, false);
    case SAC_NODE_MACRO: return declare_store(f, s, n->name);
    case SAC_NODE_CALL_BLOCK:
    case SAC_NODE_FILTER_BLOCK:
    case SAC_NODE_WITH: return declare(f, s, n->a);
    case SAC_NODE_GENERATION: return true;
    default: return declare_expression(f, s, n);
    }
}

static bool declare(finder *f, scope *s, const sac_tmpl_node *n) {
    if (!n) return true;
    if (!descend(f, n->line) || !declare_inner(f, s, n)) return false;
    f->height--;
    return true;
}

/* ---- whether a body reads a name that it is given: loop, caller, varargs, kwargs ---- */

typedef enum reading { NOT_SEEN, READ, SET } reading;

static reading reads(const sac_tmpl_node *n, const char *name);

static reading any_reads(const sac_tmpl_nodes *list, const char *name) {
    reading r = NOT_SEEN;
    for (size_t i = 0; i < list->n && r == NOT_SEEN; i++) r = reads(list->items[i], name);
    return r;
}

/* What comes first in the text decides: a body that sets the name does not read the one that it is given. */
static reading reads(const sac_tmpl_node *n, const char *name) {
    reading r = NOT_SEEN;
    if (!n) return r;
    if (n->kind == SAC_NODE_NAME) return strcmp(n->name, name) == 0 ? (n->flag ? SET : READ) : NOT_SEEN;
    for (size_t i = 0; n->signature && i < n->signature->n; i++)
        if (strcmp(n->signature->names[i], name) == 0) return SET;
    if (n->signature) r = any_reads(&n->signature->defaults, name);
    if (r == NOT_SEEN) r = reads(n->kind == SAC_NODE_IF_ELSE ? n->a : n->a, name);
    if (r == NOT_SEEN && n->kind == SAC_NODE_WITH) r = any_reads(&n->more, name);
    if (r == NOT_SEEN) r = reads(n->b, name);
    if (r == NOT_SEEN && n->kind != SAC_NODE_FOR) r = reads(n->c, name);
    if (r == NOT_SEEN) r = any_reads(&n->items, name);
    if (r == NOT_SEEN) r = any_reads(&n->more, name);
    if (r == NOT_SEEN && n->kind == SAC_NODE_FOR) r = reads(n->c, name);
    if (r != NOT_SEEN || !n->call) return r;
    r = any_reads(&n->call->items, name);
    if (r == NOT_SEEN) r = any_reads(&n->call->named, name);
    if (r == NOT_SEEN) r = reads(n->call->rest, name);
    return r == NOT_SEEN ? reads(n->call->named_rest, name) : r;
}

static const char *interned_name(const finder *f, const char *name) {
    for (size_t i = 0; i < f->source->n_names; i++)
        if (strcmp(f->source->names[i], name) == 0) return f->source->names[i];
    return NULL;
}

/* The parameter that a body gets when it reads it. */
static bool given(finder *f, scope *s, const sac_tmpl_nodes *body, const char *name, int *slot) {
    const char *interned = interned_name(f, name);
    *slot = -1;
    if (!interned || any_reads(body, interned) != READ) return true;
    if (!declare_parameter(f, s, interned)) return false;
    *slot = own(s, interned)->slot;
    return true;
}

/* ---- places ---- */

static bool place(finder *f, scope *s, sac_tmpl_node *n);

static bool place_all(finder *f, scope *s, sac_tmpl_nodes *list) {
    for (size_t i = 0; i < list->n; i++)
        if (!place(f, s, list->items[i])) return false;
    return true;
}

/* Statements of a scope of their own: what they declare was declared before. */
static bool place_body(finder *f, scope *s, sac_tmpl_nodes *body) {
    bool soft = f->soft;
    f->soft = false;
    if (!place_all(f, s, body)) return false;
    f->soft = soft;
    return true;
}

static bool declare_body(finder *f, scope *s, const sac_tmpl_nodes *body) {
    int branches = f->branches;
    f->branches = 0;
    if (!declare_all(f, s, body)) return false;
    f->branches = branches;
    return true;
}

static bool place_name(finder *f, const scope *s, sac_tmpl_node *n) {
    if (find(s, n->name, &n->place)) return true;
    return fail(f, sac_tmpl_source_fail(f->source, n->line, "'%.40s' cannot be used in the filter of a set",
                                        n->name));
}

static bool place_target(finder *f, const scope *s, sac_tmpl_node *n) {
    if (n->kind != SAC_NODE_TUPLE) return place_name(f, s, n);
    for (size_t i = 0; i < n->items.n; i++)
        if (!place_target(f, s, n->items.items[i])) return false;
    return true;
}

static bool place_spec(finder *f, sac_tmpl_node *n) {
    bool is_test = n->kind == SAC_NODE_TEST;
    n->spec = is_test ? sac_tmpl_find_test(n->name, strlen(n->name))
                      : sac_tmpl_find_filter(n->name, strlen(n->name));
    if (n->spec) return true;
    if (!is_test && sac_tmpl_is_left_out(n->name, strlen(n->name)))
        return fail(f,
                    sac_tmpl_source_fail(f->source, n->line,
                                         "filter '%.40s' cannot be used in a chat template here", n->name));
    if (f->soft) return true;
    return fail(f, sac_tmpl_source_fail(f->source, n->line, "%s '%.40s' is not known",
                                        is_test ? "test" : "filter", n->name));
}

static bool place_expression(finder *f, scope *s, sac_tmpl_node *n) {
    bool soft = f->soft;
    if (n->kind == SAC_NODE_NAME) return place_name(f, s, n);
    if ((n->kind == SAC_NODE_FILTER || n->kind == SAC_NODE_TEST) && !place_spec(f, n)) return false;
    if (n->kind == SAC_NODE_IF_ELSE) f->soft = true;
    if (!place(f, s, n->a) || !place(f, s, n->b) || !place(f, s, n->c) || !place_all(f, s, &n->items) ||
        !place_all(f, s, &n->more))
        return false;
    f->soft = soft;
    sac_tmpl_call *call = n->call;
    return !call || (place_all(f, s, &call->items) && place_all(f, s, &call->named) &&
                     place(f, s, call->rest) && place(f, s, call->named_rest));
}

static bool stores_loop(const sac_tmpl_node *n) {
    if (!n) return false;
    if (n->kind == SAC_NODE_NAME) return n->flag && strcmp(n->name, "loop") == 0;
    for (size_t i = 0; i < n->items.n; i++)
        if (stores_loop(n->items.items[i])) return true;
    for (size_t i = 0; i < n->more.n; i++)
        if (stores_loop(n->more.items[i])) return true;
    return (n->kind == SAC_NODE_SET || n->kind == SAC_NODE_SET_BLOCK || n->kind == SAC_NODE_FOR) &&
           stores_loop(n->a);
}

/* A copy of a target, for another scope. */
static sac_tmpl_node *copy_target(finder *f, const sac_tmpl_node *n) {
    sac_tmpl_node *copy = sac_tmpl_take(f->source->pool, sizeof *copy);
    if (!copy) return full(f), NULL;
    *copy = *n;
    copy->items.items = sac_tmpl_take(f->source->pool, n->items.n * sizeof *copy->items.items);
    if (!copy->items.items) return full(f), NULL;
    for (size_t i = 0; i < n->items.n; i++) {
        copy->items.items[i] = copy_target(f, n->items.items[i]);
        if (!copy->items.items[i]) return NULL;
    }
    return copy;
}

static bool place_for(finder *f, scope *s, sac_tmpl_node *n) {
    scope body, test, otherwise;
    const char *loop = interned_name(f, "loop");
    bool extended = n->flag || (loop && any_reads(&n->items, loop) == READ);
    if (stores_loop(n))
        return fail(f, sac_tmpl_source_fail(f->source, n->line, "'loop' cannot be set within a for"));
    if (!place(f, s, n->b)) return false;
    n->scope = scope_new(f, &body, s, n->flag ? NULL : s->s->slots);
    if (!n->scope) return false;
    n->place.slot = -1;
    if (extended) {
        if (!loop) loop = "loop"; /* nobody reads it */
        if (!declare_parameter(f, &body, loop)) return false;
        n->place.slot = own(&body, loop)->slot;
    }
    if (!declare_target(f, &body, n->a, true) || !declare_body(f, &body, &n->items) ||
        !place_target(f, &body, n->a) || !place_body(f, &body, &n->items))
        return false;
    n->else_scope = scope_new(f, &otherwise, s, n->scope->slots);
    if (!n->else_scope || !declare_body(f, &otherwise, &n->more) || !place_body(f, &otherwise, &n->more))
        return false;
    if (!n->c) return true;
    sac_tmpl_nodes condition = {.items = &n->c, .n = 1};
    n->test_scope = scope_new(f, &test, s, NULL);
    n->test_target = copy_target(f, n->a);
    if (!n->test_scope || !n->test_target || !declare_target(f, &test, n->a, true) ||
        !declare_body(f, &test, &condition) || !place_target(f, &test, n->test_target))
        return false;
    return place_body(f, &test, &condition);
}

/* Of a macro, or the body of a call: `s` is the scope around it. */
static bool place_callable(finder *f, scope *s, sac_tmpl_node *n) {
    scope in;
    sac_tmpl_signature *g = n->signature;
    n->scope = scope_new(f, &in, s, NULL);
    g->slots = sac_tmpl_take(f->source->pool, (g->n + 1) * sizeof *g->slots);
    if (!n->scope || !g->slots) return full(f);
    bool has_rest = false, has_named = false;
    for (size_t i = 0; i < g->n; i++) {
        if (!declare_parameter(f, &in, g->names[i])) return false;
        g->slots[i] = own(&in, g->names[i])->slot;
        has_rest |= strcmp(g->names[i], "varargs") == 0;
        has_named |= strcmp(g->names[i], "kwargs") == 0;
        if (strcmp(g->names[i], "caller")) continue;
        g->has_caller_parameter = true;
        if (i + g->defaults.n < g->n && any_reads(&n->items, g->names[i]) == READ)
            return fail(f, sac_tmpl_source_fail(f->source, n->line, "a parameter 'caller' needs a default"));
    }
    g->caller = g->named = g->rest = -1;
    const char *caller = interned_name(f, "caller");
    g->reads_caller = caller && any_reads(&n->items, caller) == READ;
    if (!declare_body(f, &in, &g->defaults) || !declare_body(f, &in, &n->items)) return false;
    if ((!g->has_caller_parameter && !given(f, &in, &n->items, "caller", &g->caller)) ||
        (!has_named && !given(f, &in, &n->items, "kwargs", &g->named)) ||
        (!has_rest && !given(f, &in, &n->items, "varargs", &g->rest)))
        return false;
    return place_body(f, &in, &g->defaults) && place_body(f, &in, &n->items);
}

static bool place_inner(finder *f, scope *s, sac_tmpl_node *n, bool with_filter) {
    scope in;
    n->scope = scope_new(f, &in, s, s->s->slots);
    if (!n->scope || !declare_body(f, &in, &n->items)) return false;
    if (n->kind == SAC_NODE_FILTER_BLOCK && !declare(f, &in, n->a)) return false;
    if (!place_body(f, &in, &n->items)) return false;
    sac_tmpl_nodes filter = {.items = n->kind == SAC_NODE_FILTER_BLOCK ? &n->a : &n->b, .n = with_filter};
    return place_body(f, &in, &filter);
}

static bool place_with(finder *f, scope *s, sac_tmpl_node *n) {
    scope in;
    if (!place(f, s, n->a)) return false;
    n->scope = scope_new(f, &in, s, s->s->slots);
    if (!n->scope) return false;
    for (size_t i = 0; i < n->more.n; i++)
        if (!declare_target(f, &in, n->more.items[i], false)) return false;
    if (!declare_body(f, &in, &n->items)) return false;
    for (size_t i = 0; i < n->more.n; i++)
        if (!place_target(f, &in, n->more.items[i])) return false;
    return place_body(f, &in, &n->items);
}

static bool place_if(finder *f, scope *s, sac_tmpl_node *n) {
    bool soft = f->soft;
    f->soft = true;
    if (!place(f, s, n->a) || !place_all(f, s, &n->items) || !place_all(f, s, &n->more)) return false;
    f->soft = soft;
    return true;
}

static bool place_kind(finder *f, scope *s, sac_tmpl_node *n) {
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

static bool place(finder *f, scope *s, sac_tmpl_node *n) {
    if (!n) return true;
    if (!descend(f, n->line) || !place_kind(f, s, n)) return false;
    f->height--;
    return true;
}

sac_status sac_tmpl_find_scopes(sac_tmpl_source *source, sac_tmpl_node *root) {
    finder f = {.source = source};
    scope s;
    root->scope = scope_new(&f, &s, NULL, NULL);
    if (root->scope && declare_all(&f, &s, &root->items)) place_all(&f, &s, &root->items);
    return f.status;
}
