/* exec.c - statements: what they write, set and repeat; macros and loops as functions. */
#include "eval.h"
#include "names.h"

#include <string.h>

static sac_status exec(sac_tmpl_run *r, const sac_tmpl_node *n);

static sac_status exec_all(sac_tmpl_run *r, const sac_tmpl_nodes *body) {
    SAC_TRY(sac_tmpl_descend(r));
    for (size_t i = 0; i < body->n && r->jump == SAC_TMPL_GO_ON; i++) SAC_TRY(exec(r, body->items[i]));
    r->depth--;
    return SAC_OK;
}

/* ---- names ---- */

static sac_tmpl_value *slot_at(const sac_tmpl_run *r, sac_tmpl_place place) {
    sac_tmpl_frame *frame = r->frame;
    for (int i = 0; i < place.hops; i++) frame = frame->outer;
    return &frame->slots[place.slot];
}

static sac_status variable(sac_tmpl_run *r, const char *name, sac_tmpl_value *out) {
    size_t n = strlen(name);
    SAC_TRY(sac_tmpl_charge(r, r->variables->n * 4));
    const sac_tmpl_value *found = sac_tmpl_dict_find_name(r->variables, name, n);
    *out = found ? *found : (sac_tmpl_value){0};
    const sac_tmpl_spec *global = found ? NULL : sac_tmpl_find_global(name, n);
    return global ? sac_tmpl_method(r, global, SAC_TMPL_VALUE_NONE, out) : SAC_OK;
}

static sac_status enter(sac_tmpl_run *r, const sac_tmpl_scope *scope) {
    for (size_t i = 0; i < scope->n; i++) {
        const sac_tmpl_load *load = &scope->loads[i];
        sac_tmpl_value *slot = &r->frame->slots[load->slot];
        SAC_TRY(sac_tmpl_charge(r, 0));
        if (load->kind == SAC_LOAD_MISSING)
            *slot = (sac_tmpl_value){0};
        else if (load->kind == SAC_LOAD_OUTER)
            *slot = *slot_at(r, load->from);
        else if (load->kind == SAC_LOAD_VARIABLE)
            SAC_TRY(variable(r, load->name, slot));
    }
    return SAC_OK;
}

static void leave(const sac_tmpl_run *r, const sac_tmpl_scope *scope) {
    for (size_t i = 0; i < scope->n; i++) r->frame->slots[scope->loads[i].slot] = (sac_tmpl_value){0};
}

static sac_status frame_new(sac_tmpl_run *r, const sac_tmpl_scope *scope, sac_tmpl_frame *outer,
                            sac_tmpl_frame **out) {
    sac_tmpl_frame *frame =
        sac_tmpl_take_zeroed(&r->pool, sizeof *frame + (size_t)scope->slots->n * sizeof *frame->slots);
    if (!frame) return sac_tmpl_full(r);
    frame->outer = outer;
    *out = frame;
    return sac_tmpl_charge(r, (size_t)scope->slots->n * sizeof *frame->slots);
}

static sac_status assign(sac_tmpl_run *r, const sac_tmpl_node *target, sac_tmpl_value v) {
    if (target->kind == SAC_NODE_NAME) {
        *slot_at(r, target->place) = v;
        return SAC_OK;
    }
    if (target->kind == SAC_NODE_NS_ATTR) {
        sac_tmpl_dict *d = slot_at(r, target->place)->dict;
        SAC_TRY(sac_tmpl_charge(r, d->n * 4));
        return sac_tmpl_dict_set(&r->pool, d, target->value, v) ? SAC_OK : sac_tmpl_full(r);
    }
    const sac_tmpl_list *items;
    SAC_TRY(sac_tmpl_items(r, v, &items));
    if (items->n != target->items.n)
        return sac_tmpl_fail(r, "%zu names are set from %zu values", target->items.n, items->n);
    for (size_t i = 0; i < items->n; i++) SAC_TRY(assign(r, target->items.items[i], items->items[i]));
    return SAC_OK;
}

static sac_status check_namespaces(sac_tmpl_run *r, const sac_tmpl_node *target) {
    if (target->kind == SAC_NODE_NS_ATTR && slot_at(r, target->place)->kind != SAC_TMPL_NAMESPACE)
        return sac_tmpl_fail(r, "'%.40s' is no namespace, so its attributes cannot be set", target->name);
    for (size_t i = 0; target->kind == SAC_NODE_TUPLE && i < target->items.n; i++)
        SAC_TRY(check_namespaces(r, target->items.items[i]));
    return SAC_OK;
}

/* ---- text that a body writes ---- */

/* *text is what `body` writes. A jump out of it leaves what was written behind. */
static sac_status capture(sac_tmpl_run *r, const sac_tmpl_nodes *body, sac_tmpl_value *text) {
    sac_tmpl_writer w = {.run = r}, *outer = r->out;
    r->out = &w;
    SAC_TRY(exec_all(r, body));
    r->out = outer;
    return sac_tmpl_written_value(&w, text);
}

static sac_status write_string(sac_tmpl_run *r, sac_tmpl_value v, const char *use) {
    return v.kind == SAC_TMPL_STRING ? sac_tmpl_write(r->out, *v.string) : sac_tmpl_fail_use(r, v, use);
}

/* ---- macros ---- */

typedef struct closure {
    const sac_tmpl_node *node;
    sac_tmpl_frame *frame;
    int64_t depth; /* of a recursive loop */
} closure;

/* What is left of the named arguments when the parameters have theirs: a new dict. */
static sac_status bind(sac_tmpl_run *r, const sac_tmpl_node *n, const sac_tmpl_args *args,
                       sac_tmpl_frame *frame, sac_tmpl_dict *left, bool *caller_given) {
    const sac_tmpl_signature *g = n->signature;
    size_t n_named = args->named ? args->named->n : 0, used = 0;
    for (size_t i = 0; i < g->n; i++) {
        size_t length = strlen(g->names[i]);
        const sac_tmpl_value *named =
            n_named ? sac_tmpl_dict_find_name(args->named, g->names[i], length) : NULL;
        if (i < args->n)
            frame->slots[g->slots[i]] = args->items[i];
        else if (named) {
            frame->slots[g->slots[i]] = *named;
            used++;
        }
    }
    *caller_given = false;
    for (size_t i = 0; used < n_named && i < n_named; i++) {
        const sac_tmpl_string *name = args->named->keys[i].string;
        bool taken = false;
        for (size_t j = args->n; j < g->n && !taken; j++) taken = sac_tmpl_string_is(name, g->names[j]);
        if (taken) continue;
        if (g->caller >= 0 && sac_tmpl_string_is(name, "caller")) {
            frame->slots[g->caller] = args->named->values[i];
            *caller_given = args->named->values[i].kind != SAC_TMPL_NONE;
            continue;
        }
        if (g->named < 0)
            return sac_tmpl_fail(r, "the macro takes no argument '%.*s'",
                                 (int)(name->n_bytes > 40 ? 40 : name->n_bytes), name->bytes);
        if (!sac_tmpl_dict_set(&r->pool, left, args->named->keys[i], args->named->values[i]))
            return sac_tmpl_full(r);
    }
    return SAC_OK;
}

/* caller, kwargs and varargs, where the body reads them. */
static sac_status bind_given(sac_tmpl_run *r, const sac_tmpl_signature *g, const sac_tmpl_args *args,
                             sac_tmpl_frame *frame, sac_tmpl_value left, bool caller_given) {
    static const sac_tmpl_absence no_caller = {
        .what = "the macro is not called with {% call %}, so it has no caller"};
    sac_tmpl_value rest;
    if (g->caller >= 0 && !caller_given) frame->slots[g->caller] = sac_tmpl_absent(&no_caller);
    if (g->named >= 0) frame->slots[g->named] = left;
    if (g->rest < 0)
        return args->n <= g->n
                   ? SAC_OK
                   : sac_tmpl_fail(r, "the macro takes at most %zu arguments, %zu given", g->n, args->n);
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_TUPLE, args->n), &rest));
    for (size_t i = g->n; i < args->n; i++) rest.list->items[rest.list->n++] = args->items[i];
    frame->slots[g->rest] = rest;
    return SAC_OK;
}

static sac_status fill_defaults(sac_tmpl_run *r, const sac_tmpl_signature *g) {
    for (size_t i = 0; i < g->n; i++) {
        sac_tmpl_value v;
        if (r->frame->slots[g->slots[i]].kind != SAC_TMPL_MISSING) continue;
        if (i + g->defaults.n >= g->n)
            SAC_TRY(sac_tmpl_eval(r, g->defaults.items[i + g->defaults.n - g->n], &v));
        else {
            sac_tmpl_absence *a = sac_tmpl_take(&r->pool, sizeof *a);
            if (!a) return sac_tmpl_full(r);
            *a = (sac_tmpl_absence){.name = g->names[i], .n_bytes = strlen(g->names[i])};
            v = sac_tmpl_absent(a);
        }
        r->frame->slots[g->slots[i]] = v;
    }
    return SAC_OK;
}

static int call_macro(sac_tmpl_run *r, const sac_tmpl_function *f, const sac_tmpl_args *args,
                      sac_tmpl_value *out) {
    const closure *c = f->data;
    sac_tmpl_frame *frame, *outer = r->frame;
    sac_tmpl_value left;
    bool caller_given;
    SAC_TRY(frame_new(r, c->node->scope, c->frame, &frame));
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_dict_new(&r->pool, 0), &left));
    SAC_TRY(bind(r, c->node, args, frame, left.dict, &caller_given));
    SAC_TRY(bind_given(r, c->node->signature, args, frame, left, caller_given));
    r->frame = frame;
    SAC_TRY(enter(r, c->node->scope));
    SAC_TRY(fill_defaults(r, c->node->signature));
    SAC_TRY(capture(r, &c->node->items, out));
    r->frame = outer;
    return SAC_OK;
}

static sac_status function_new(sac_tmpl_run *r, const sac_tmpl_node *n, const char *name,
                               int (*call)(sac_tmpl_run *, const sac_tmpl_function *, const sac_tmpl_args *,
                                           sac_tmpl_value *),
                               int64_t depth, sac_tmpl_value *out) {
    struct {
        sac_tmpl_function f;
        closure c;
    } *made = sac_tmpl_take(&r->pool, sizeof *made);
    if (!made) return sac_tmpl_full(r);
    made->c = (closure){.node = n, .frame = r->frame, .depth = depth};
    made->f = (sac_tmpl_function){.name = name, .data = &made->c, .call = call};
    *out = (sac_tmpl_value){.kind = SAC_TMPL_FUNCTION, .function = &made->f};
    return SAC_OK;
}

static sac_status exec_call_block(sac_tmpl_run *r, const sac_tmpl_node *n) {
    sac_tmpl_value caller, v;
    SAC_TRY(function_new(r, n, "caller", call_macro, 0, &caller));
    if (n->a)
        SAC_TRY(sac_tmpl_eval_call(r, n->a, caller, &v));
    else
        SAC_TRY(sac_tmpl_call_value(r, caller, &(sac_tmpl_args){0}, &v)); /* {% generation %} */
    return write_string(r, v, "written by {% call %}");
}

/* ---- for ---- */

static int call_loop(sac_tmpl_run *r, const sac_tmpl_function *f, const sac_tmpl_args *args,
                     sac_tmpl_value *out);

typedef struct walk {
    const sac_tmpl_node *n;
    const sac_tmpl_list *items;
    sac_tmpl_list *passing;     /* the iterator that is walked over, or NULL */
    sac_tmpl_frame *test_frame; /* or NULL */
    size_t at;
} walk;

/* Whether the condition of the for holds for an item. */
static sac_status holds(sac_tmpl_run *r, const walk *w, sac_tmpl_value item, bool *yes) {
    sac_tmpl_frame *outer = r->frame;
    sac_tmpl_value v;
    *yes = true;
    if (!w->n->c) return SAC_OK;
    r->frame = w->test_frame;
    SAC_TRY(assign(r, w->n->test_target, item));
    SAC_TRY(sac_tmpl_eval(r, w->n->c, &v));
    r->frame = outer;
    *yes = sac_tmpl_truth(v);
    return SAC_OK;
}

static sac_status next_item(sac_tmpl_run *r, walk *w, sac_tmpl_value *item, bool *found) {
    for (*found = false; w->at < w->items->n && !*found;) {
        *item = w->items->items[w->at++];
        if (w->passing) w->passing->n_passed++;
        SAC_TRY(sac_tmpl_charge(r, 0));
        SAC_TRY(holds(r, w, *item, found));
    }
    return SAC_OK;
}

static sac_status walk_open(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value over, walk *w) {
    *w = (walk){.n = n};
    SAC_TRY(sac_tmpl_items(r, over, &w->items));
    if (over.kind == SAC_TMPL_ITERATOR) {
        w->passing = over.list;
        over.list->n_passed -= w->items->n;
    }
    if (!n->c) return SAC_OK;
    sac_tmpl_frame *outer = r->frame;
    SAC_TRY(frame_new(r, n->test_scope, outer, &w->test_frame));
    r->frame = w->test_frame;
    SAC_TRY(enter(r, n->test_scope));
    r->frame = outer;
    return SAC_OK;
}

/* The body for one item; *completed when it ran to its end; a break ends the loop. */
static sac_status exec_item(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value item, bool *completed,
                            bool *goes_on) {
    SAC_TRY(assign(r, n->a, item));
    SAC_TRY(enter(r, n->scope));
    SAC_TRY(exec_all(r, &n->items));
    *goes_on = r->jump != SAC_TMPL_BREAK;
    *completed = *completed || r->jump == SAC_TMPL_GO_ON;
    r->jump = SAC_TMPL_GO_ON;
    return SAC_OK;
}

/* A body that reads loop: it may ask for what is ahead, so the items are found first. */
static sac_status exec_items_with_loop(sac_tmpl_run *r, walk *w, int64_t depth, bool *completed) {
    sac_tmpl_value list, item;
    bool found, goes_on = true;
    sac_tmpl_loop *loop = sac_tmpl_take_zeroed(&r->pool, sizeof *loop);
    if (!loop) return sac_tmpl_full(r);
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_LIST, w->items->n), &list));
    for (;;) {
        SAC_TRY(next_item(r, w, &item, &found));
        if (!found) break;
        if (!sac_tmpl_list_add(&r->pool, list.list, item)) return sac_tmpl_full(r);
    }
    *loop = (sac_tmpl_loop){.items = list.list, .depth = depth};
    if (w->n->flag) SAC_TRY(function_new(r, w->n, "loop", call_loop, depth + 1, &loop->recurse));
    for (size_t i = 0; i < list.list->n && goes_on; i++) {
        loop->index = i;
        r->frame->slots[w->n->place.slot] = (sac_tmpl_value){.kind = SAC_TMPL_LOOP, .loop = loop};
        SAC_TRY(exec_item(r, w->n, list.list->items[i], completed, &goes_on));
    }
    return SAC_OK;
}

static sac_status exec_items(sac_tmpl_run *r, walk *w, bool *completed) {
    sac_tmpl_value item;
    for (bool found, goes_on = true; goes_on;) {
        SAC_TRY(next_item(r, w, &item, &found));
        if (!found) break;
        SAC_TRY(exec_item(r, w->n, item, completed, &goes_on));
    }
    return SAC_OK;
}

/* As Jinja does it, else runs when no item's body ran to its end: also after nothing but continue. */
static sac_status exec_loop(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value over, int64_t depth) {
    walk w;
    bool completed = false;
    SAC_TRY(walk_open(r, n, over, &w));
    SAC_TRY(n->place.slot >= 0 ? exec_items_with_loop(r, &w, depth, &completed)
                               : exec_items(r, &w, &completed));
    leave(r, n->scope);
    if (completed || !n->more.n) return SAC_OK;
    SAC_TRY(enter(r, n->else_scope));
    SAC_TRY(exec_all(r, &n->more));
    leave(r, n->else_scope);
    return SAC_OK;
}

static sac_status exec_recursive(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_frame *around,
                                 sac_tmpl_value over, int64_t depth, sac_tmpl_value *out) {
    sac_tmpl_writer w = {.run = r}, *outer = r->out;
    sac_tmpl_frame *frame, *old = r->frame;
    SAC_TRY(frame_new(r, n->scope, around, &frame));
    r->frame = frame;
    r->out = &w;
    SAC_TRY(exec_loop(r, n, over, depth));
    r->frame = old;
    r->out = outer;
    return sac_tmpl_written_value(&w, out);
}

static int call_loop(sac_tmpl_run *r, const sac_tmpl_function *f, const sac_tmpl_args *args,
                     sac_tmpl_value *out) {
    const closure *c = f->data;
    const sac_tmpl_value *named = args->named ? sac_tmpl_dict_find_name(args->named, "iterable", 8) : NULL;
    if (args->n + (args->named ? args->named->n : 0) != 1 || (!args->n && !named))
        return sac_tmpl_fail(r, "the loop is called with one list");
    return exec_recursive(r, c->node, c->frame->outer, named ? *named : args->items[0], c->depth, out);
}

static sac_status exec_for(sac_tmpl_run *r, const sac_tmpl_node *n) {
    sac_tmpl_value over, text;
    SAC_TRY(sac_tmpl_eval(r, n->b, &over));
    if (!n->flag) return exec_loop(r, n, over, 0);
    SAC_TRY(exec_recursive(r, n, r->frame, over, 0, &text));
    return sac_tmpl_write(r->out, *text.string);
}

/* ---- the rest ---- */

static sac_status exec_print(sac_tmpl_run *r, const sac_tmpl_node *n) {
    for (size_t i = 0; i < n->items.n; i++) {
        sac_tmpl_value v;
        SAC_TRY(sac_tmpl_eval(r, n->items.items[i], &v));
        SAC_TRY(sac_tmpl_write_str(r->out, v));
    }
    return SAC_OK;
}

static sac_status exec_if(sac_tmpl_run *r, const sac_tmpl_node *n) {
    sac_tmpl_value v;
    SAC_TRY(sac_tmpl_eval(r, n->a, &v));
    while (!sac_tmpl_truth(v)) {
        const sac_tmpl_node *next =
            n->more.n == 1 && n->more.items[0]->kind == SAC_NODE_IF ? n->more.items[0] : NULL;
        if (!next) return exec_all(r, &n->more);
        SAC_TRY(sac_tmpl_eval(r, next->a, &v));
        n = next;
    }
    return exec_all(r, &n->items);
}

static sac_status exec_set(sac_tmpl_run *r, const sac_tmpl_node *n) {
    sac_tmpl_value v;
    SAC_TRY(check_namespaces(r, n->a));
    SAC_TRY(sac_tmpl_eval(r, n->b, &v));
    return assign(r, n->a, v);
}

static sac_status exec_set_block(sac_tmpl_run *r, const sac_tmpl_node *n) {
    sac_tmpl_value v;
    SAC_TRY(enter(r, n->scope));
    SAC_TRY(capture(r, &n->items, &v));
    if (r->jump != SAC_TMPL_GO_ON) return SAC_OK;
    if (n->b) SAC_TRY(sac_tmpl_eval_filters(r, n->b, v, &v));
    SAC_TRY(check_namespaces(r, n->a));
    SAC_TRY(assign(r, n->a, v));
    leave(r, n->scope);
    return SAC_OK;
}

static sac_status exec_filter_block(sac_tmpl_run *r, const sac_tmpl_node *n) {
    sac_tmpl_value v;
    SAC_TRY(enter(r, n->scope));
    SAC_TRY(capture(r, &n->items, &v));
    if (r->jump != SAC_TMPL_GO_ON) return SAC_OK;
    SAC_TRY(sac_tmpl_eval_filters(r, n->a, v, &v));
    leave(r, n->scope);
    return write_string(r, v, "written by {% filter %}");
}

static sac_status exec_with(sac_tmpl_run *r, const sac_tmpl_node *n) {
    SAC_TRY(enter(r, n->scope));
    for (size_t i = 0; i < n->more.n; i++) {
        sac_tmpl_value v;
        SAC_TRY(sac_tmpl_eval(r, n->a->items.items[i], &v));
        SAC_TRY(assign(r, n->more.items[i], v));
    }
    SAC_TRY(exec_all(r, &n->items));
    leave(r, n->scope);
    return SAC_OK;
}

static sac_status exec_macro(sac_tmpl_run *r, const sac_tmpl_node *n) {
    return function_new(r, n, n->name, call_macro, 0, slot_at(r, n->place));
}

static sac_status exec(sac_tmpl_run *r, const sac_tmpl_node *n) {
    r->line = n->line;
    SAC_TRY(sac_tmpl_charge(r, 0));
    switch (n->kind) {
    case SAC_NODE_DATA: return sac_tmpl_write(r->out, *n->value.string);
    case SAC_NODE_PRINT: return exec_print(r, n);
    case SAC_NODE_IF: return exec_if(r, n);
    case SAC_NODE_FOR: return exec_for(r, n);
    case SAC_NODE_SET: return exec_set(r, n);
    case SAC_NODE_SET_BLOCK: return exec_set_block(r, n);
    case SAC_NODE_MACRO: return exec_macro(r, n);
    case SAC_NODE_CALL_BLOCK:
    case SAC_NODE_GENERATION: return exec_call_block(r, n);
    case SAC_NODE_FILTER_BLOCK: return exec_filter_block(r, n);
    case SAC_NODE_WITH: return exec_with(r, n);
    case SAC_NODE_BREAK: r->jump = SAC_TMPL_BREAK; return SAC_OK;
    default: r->jump = SAC_TMPL_CONTINUE; return SAC_OK;
    }
}

sac_status sac_tmpl_exec_root(sac_tmpl_run *r, const sac_tmpl_node *root) {
    SAC_TRY(frame_new(r, root->scope, NULL, &r->frame));
    SAC_TRY(enter(r, root->scope));
    return exec_all(r, &root->items);
}
