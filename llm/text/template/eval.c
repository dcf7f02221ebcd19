/* eval.c - the value of an expression. */
#include "eval.h"

#include "attributes.h"
#include "iterate.h"
#include "names.h"
#include "operators.h"

#include <string.h>

/* Without a frame nothing runs yet: only constants have a value (fold.c). */
static sac_status need_frame(sac_tmpl_run *r) {
    return r->frame ? SAC_OK : sac_tmpl_fail(r, "it has no value before the template runs");
}

/* ---- names ---- */

static sac_status name_value(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value *out) {
    SAC_TRY(need_frame(r));
    sac_tmpl_frame *frame = r->frame;
    for (int i = 0; i < n->place.hops; i++) frame = frame->outer;
    *out = frame->slots[n->place.slot];
    if (out->kind == SAC_TMPL_MISSING && n->place.is_given) /* where Jinja shows its own word "missing" */
        return sac_tmpl_fail(r, "'%.40s' of a for that has ended cannot be used in a chat template here",
                             n->name);
    return out->kind == SAC_TMPL_MISSING ? sac_tmpl_no_such(r, n->name, strlen(n->name), NULL, false, out)
                                         : SAC_OK;
}

/* ---- lists, dicts ---- */

static sac_status list_value(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value *out) {
    sac_tmpl_value list, v;
    sac_tmpl_kind kind = n->kind == SAC_NODE_LIST ? SAC_TMPL_LIST : SAC_TMPL_TUPLE;
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, kind, n->items.n), &list));
    for (size_t i = 0; i < n->items.n; i++) {
        SAC_TRY(sac_tmpl_eval(r, n->items.items[i], &v));
        if (!sac_tmpl_list_add(&r->pool, list.list, v)) return sac_tmpl_full(r);
    }
    *out = list;
    return SAC_OK;
}

static sac_status dict_value(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value *out) {
    sac_tmpl_value dict, key, v;
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_dict_new(&r->pool, n->items.n), &dict));
    for (size_t i = 0; i < n->items.n; i++) {
        SAC_TRY(sac_tmpl_eval(r, n->items.items[i], &key));
        SAC_TRY(sac_tmpl_eval(r, n->more.items[i], &v));
        SAC_TRY(sac_tmpl_need_key(r, key));
        SAC_TRY(sac_tmpl_charge(r, dict.dict->n * 4));
        if (!sac_tmpl_dict_set(&r->pool, dict.dict, key, v)) return sac_tmpl_full(r);
    }
    *out = dict;
    return SAC_OK;
}

static sac_status concat_value(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value *out) {
    sac_tmpl_writer w = {.run = r};
    sac_tmpl_value list, v;
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_LIST, n->items.n), &list));
    for (size_t i = 0; i < n->items.n; i++) {
        SAC_TRY(sac_tmpl_eval(r, n->items.items[i], &v));
        if (!sac_tmpl_list_add(&r->pool, list.list, v)) return sac_tmpl_full(r);
    }
    for (size_t i = 0; i < list.list->n; i++) SAC_TRY(sac_tmpl_write_str(&w, list.list->items[i]));
    return sac_tmpl_written_value(&w, out);
}

static sac_status item_value(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value *out) {
    sac_tmpl_value of, key;
    SAC_TRY(sac_tmpl_eval(r, n->a, &of));
    if (n->b->kind != SAC_NODE_SLICE) {
        SAC_TRY(sac_tmpl_eval(r, n->b, &key));
        return sac_tmpl_item(r, of, key, out);
    }
    sac_tmpl_value bounds[3] = {0};
    const sac_tmpl_node *parts[3] = {n->b->a, n->b->b, n->b->c};
    for (int i = 0; i < 3; i++)
        if (parts[i]) SAC_TRY(sac_tmpl_eval(r, parts[i], &bounds[i]));
    bool can_be_cut = of.kind == SAC_TMPL_STRING || (sac_tmpl_is_list(of) && of.kind != SAC_TMPL_VIEW);
    if (n->flag && !can_be_cut)
        return sac_tmpl_fail(r, "a constant of type %s is cut", sac_tmpl_type_name(of));
    return sac_tmpl_slice(r, of, bounds, out);
}

/* ---- calls ---- */

static sac_status add_named(sac_tmpl_run *r, sac_tmpl_dict *named, sac_tmpl_value name, sac_tmpl_value v) {
    if (name.kind != SAC_TMPL_STRING) return sac_tmpl_fail_use(r, name, "the name of an argument");
    if (sac_tmpl_dict_find(&r->pool, named, name)) return sac_tmpl_fail(r, "an argument is given twice");
    return sac_tmpl_dict_set(&r->pool, named, name, v) ? SAC_OK : sac_tmpl_full(r);
}

static sac_status named_arguments(sac_tmpl_run *r, const sac_tmpl_call *call, sac_tmpl_value caller,
                                  sac_tmpl_dict *named) {
    sac_tmpl_value v, name;
    for (size_t i = 0; i < call->named.n; i++) {
        SAC_TRY(sac_tmpl_eval(r, call->named.items[i], &v));
        SAC_TRY(sac_tmpl_give(r, sac_tmpl_name(&r->pool, call->names[i]), &name));
        SAC_TRY(add_named(r, named, name, v));
    }
    if (caller.kind != SAC_TMPL_MISSING) {
        SAC_TRY(sac_tmpl_give(r, sac_tmpl_name(&r->pool, "caller"), &name));
        SAC_TRY(add_named(r, named, name, caller));
    }
    if (!call->named_rest) return SAC_OK;
    SAC_TRY(sac_tmpl_eval(r, call->named_rest, &v));
    if (v.kind != SAC_TMPL_DICT) return sac_tmpl_fail_use(r, v, "given as named arguments");
    for (size_t i = 0; i < v.dict->n; i++) {
        SAC_TRY(sac_tmpl_charge(r, named->n * 4));
        SAC_TRY(add_named(r, named, v.dict->keys[i], v.dict->values[i]));
    }
    return SAC_OK;
}

static sac_status arguments(sac_tmpl_run *r, const sac_tmpl_call *call, sac_tmpl_value caller,
                            sac_tmpl_args *args) {
    sac_tmpl_value list, v, named;
    *args = (sac_tmpl_args){0};
    if (!call) return SAC_OK;
    if (call->items.n || call->rest) {
        SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_LIST, call->items.n), &list));
        for (size_t i = 0; i < call->items.n; i++) {
            SAC_TRY(sac_tmpl_eval(r, call->items.items[i], &v));
            if (!sac_tmpl_list_add(&r->pool, list.list, v)) return sac_tmpl_full(r);
        }
        if (call->rest) {
            const sac_tmpl_list *more;
            SAC_TRY(sac_tmpl_eval(r, call->rest, &v));
            SAC_TRY(sac_tmpl_items(r, v, &more));
            for (size_t i = 0; i < more->n; i++) {
                SAC_TRY(sac_tmpl_charge(r, 0));
                if (!sac_tmpl_list_add(&r->pool, list.list, more->items[i])) return sac_tmpl_full(r);
            }
        }
        args->items = list.list->items;
        args->n = list.list->n;
    }
    if (!call->named.n && !call->named_rest && caller.kind == SAC_TMPL_MISSING) return SAC_OK;
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_dict_new(&r->pool, call->named.n + 1), &named));
    SAC_TRY(named_arguments(r, call, caller, named.dict));
    args->named = named.dict;
    return SAC_OK;
}

sac_status sac_tmpl_eval_call(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value caller,
                              sac_tmpl_value *out) {
    sac_tmpl_value f;
    sac_tmpl_args args;
    SAC_TRY(need_frame(r));
    SAC_TRY(sac_tmpl_eval(r, n->a, &f));
    SAC_TRY(arguments(r, n->call, caller, &args));
    r->line = n->line;
    return sac_tmpl_call_value(r, f, &args, out);
}

static sac_status apply(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value self, sac_tmpl_value *out) {
    sac_tmpl_args args;
    r->line = n->line;
    if (!n->spec)
        return sac_tmpl_fail(r, "%s '%.40s' is not known", n->kind == SAC_NODE_TEST ? "test" : "filter",
                             n->name);
    if (sac_tmpl_takes_context(n->spec)) SAC_TRY(need_frame(r));
    SAC_TRY(arguments(r, n->call, (sac_tmpl_value){0}, &args));
    r->line = n->line;
    return sac_tmpl_invoke(r, n->spec, self, &args, out);
}

sac_status sac_tmpl_eval_filters(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value self,
                                 sac_tmpl_value *out) {
    SAC_TRY(sac_tmpl_descend(r));
    if (n->a) SAC_TRY(sac_tmpl_eval_filters(r, n->a, self, &self));
    SAC_TRY(apply(r, n, self, out));
    r->depth--;
    return SAC_OK;
}

/* ---- operators ---- */

static sac_status compare_value(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value *out) {
    sac_tmpl_value a, b;
    bool holds = true;
    SAC_TRY(sac_tmpl_eval(r, n->items.items[0], &a));
    for (size_t i = 0; holds && i + 1 < n->items.n; i++) {
        SAC_TRY(sac_tmpl_eval(r, n->items.items[i + 1], &b));
        SAC_TRY(sac_tmpl_compare(r, (sac_token_kind)n->ops[i], a, b, &holds));
        a = b;
    }
    *out = sac_tmpl_bool(holds);
    return SAC_OK;
}

static sac_status choice_value(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value *out) {
    static const sac_tmpl_absence none = {.what = "an if without else gives nothing here"};
    sac_tmpl_value v;
    SAC_TRY(sac_tmpl_eval(r, n->a, &v));
    bool holds = sac_tmpl_truth(v);
    if (n->kind == SAC_NODE_IF_ELSE) {
        *out = sac_tmpl_absent(&none);
        if (!holds && !n->c) SAC_TRY(need_frame(r));
        return holds ? sac_tmpl_eval(r, n->b, out) : n->c ? sac_tmpl_eval(r, n->c, out) : SAC_OK;
    }
    *out = v;
    return holds == (n->kind == SAC_NODE_AND) ? sac_tmpl_eval(r, n->b, out) : SAC_OK;
}

static sac_status unary_value(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value *out) {
    sac_tmpl_value v;
    SAC_TRY(sac_tmpl_eval(r, n->a, &v));
    r->line = n->line;
    switch (n->kind) {
    case SAC_NODE_ATTR: return sac_tmpl_attribute(r, v, n->name, strlen(n->name), out);
    case SAC_NODE_FILTER:
    case SAC_NODE_TEST: return apply(r, n, v, out);
    case SAC_NODE_NOT: *out = sac_tmpl_bool(!sac_tmpl_truth(v)); return SAC_OK;
    default: return sac_tmpl_negate(r, v, n->kind == SAC_NODE_POS, out);
    }
}

static sac_status binary_value(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value *out) {
    sac_tmpl_value a, b;
    SAC_TRY(sac_tmpl_eval(r, n->a, &a));
    SAC_TRY(sac_tmpl_eval(r, n->b, &b));
    r->line = n->line;
    return sac_tmpl_binary(r, (sac_token_kind)n->op, a, b, out);
}

static sac_status value_of(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value *out) {
    switch (n->kind) {
    case SAC_NODE_CONST: *out = n->value; return SAC_OK;
    case SAC_NODE_NAME: return name_value(r, n, out);
    case SAC_NODE_LIST:
    case SAC_NODE_TUPLE: return list_value(r, n, out);
    case SAC_NODE_DICT: return dict_value(r, n, out);
    case SAC_NODE_ITEM: return item_value(r, n, out);
    case SAC_NODE_CALL: return sac_tmpl_eval_call(r, n, (sac_tmpl_value){0}, out);
    case SAC_NODE_BINARY: return binary_value(r, n, out);
    case SAC_NODE_CONCAT: return concat_value(r, n, out);
    case SAC_NODE_COMPARE: return compare_value(r, n, out);
    case SAC_NODE_AND:
    case SAC_NODE_OR:
    case SAC_NODE_IF_ELSE: return choice_value(r, n, out);
    default: return unary_value(r, n, out);
    }
}

sac_status sac_tmpl_eval(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value *out) {
    r->line = n->line;
    SAC_TRY(sac_tmpl_descend(r));
    SAC_TRY(value_of(r, n, out));
    r->depth--;
    return SAC_OK;
}
