/* macro.c - macros, the bodies of {% call %} and {% generation %}: what is called with arguments. */
#include "frame.h"

#include <string.h>

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
    const sac_tmpl_closure *c = f->data;
    sac_tmpl_frame *frame, *outer = r->frame;
    sac_tmpl_value left;
    bool caller_given;
    SAC_TRY(sac_tmpl_frame_new(r, c->node->scope, c->frame, &frame));
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_dict_new(&r->pool, 0), &left));
    SAC_TRY(bind(r, c->node, args, frame, left.dict, &caller_given));
    SAC_TRY(bind_given(r, c->node->signature, args, frame, left, caller_given));
    r->frame = frame;
    SAC_TRY(sac_tmpl_enter_scope(r, c->node->scope));
    SAC_TRY(fill_defaults(r, c->node->signature));
    SAC_TRY(sac_tmpl_capture(r, &c->node->items, out));
    r->frame = outer;
    return SAC_OK;
}

static sac_status macro_new(sac_tmpl_run *r, const sac_tmpl_node *n, const char *name, sac_tmpl_value *out) {
    SAC_TRY(sac_tmpl_closure_new(r, n, name, call_macro, 0, out));
    ((sac_tmpl_function *)(uintptr_t)out->function)->is_macro = true;
    return SAC_OK;
}

sac_status sac_tmpl_exec_macro(sac_tmpl_run *r, const sac_tmpl_node *n) {
    return macro_new(r, n, n->name, sac_tmpl_slot(r, n->place));
}

sac_status sac_tmpl_exec_call_block(sac_tmpl_run *r, const sac_tmpl_node *n) {
    sac_tmpl_value caller, v;
    SAC_TRY(macro_new(r, n, NULL, &caller));
    if (n->a)
        SAC_TRY(sac_tmpl_eval_call(r, n->a, caller, &v));
    else
        SAC_TRY(sac_tmpl_call_value(r, caller, &(sac_tmpl_args){0}, &v)); /* {% generation %} */
    return sac_tmpl_write_string(r, v, "written by {% call %}");
}
