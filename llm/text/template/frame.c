#include "frame.h"

#include "iterate.h"
#include "names.h"

#include <string.h>

sac_tmpl_value *sac_tmpl_slot(const sac_tmpl_run *r, sac_tmpl_place place) {
    sac_tmpl_frame *frame = r->frame;
    for (int i = 0; i < place.hops; i++) frame = frame->outer;
    return &frame->slots[place.slot];
}

static sac_status variable(sac_tmpl_run *r, const char *name, sac_tmpl_value *out) {
    size_t n = strlen(name);
    SAC_TRY(sac_tmpl_charge(r, r->variables->n * 4));
    const sac_tmpl_value *found = sac_tmpl_dict_find_name(r->variables, name, n);
    *out = found ? *found : (sac_tmpl_value){0};
    if (!found && sac_tmpl_is_global_left_out(name))
        return sac_tmpl_fail(r, "'%s' cannot be used in a chat template here", name);
    const sac_tmpl_spec *global = found ? NULL : sac_tmpl_find_global(name, n);
    return global ? sac_tmpl_method(r, global, SAC_TMPL_VALUE_NONE, out) : SAC_OK;
}

sac_status sac_tmpl_enter_scope(sac_tmpl_run *r, const sac_tmpl_scope *scope) {
    for (size_t i = 0; i < scope->n; i++) {
        const sac_tmpl_load *load = &scope->loads[i];
        sac_tmpl_value *slot = &r->frame->slots[load->slot];
        SAC_TRY(sac_tmpl_charge(r, 0));
        if (load->kind == SAC_LOAD_MISSING)
            *slot = (sac_tmpl_value){0};
        else if (load->kind == SAC_LOAD_OUTER)
            *slot = *sac_tmpl_slot(r, load->from);
        else if (load->kind == SAC_LOAD_VARIABLE)
            SAC_TRY(variable(r, load->name, slot));
    }
    return SAC_OK;
}

void sac_tmpl_leave_scope(const sac_tmpl_run *r, const sac_tmpl_scope *scope) {
    for (size_t i = 0; i < scope->n; i++) r->frame->slots[scope->loads[i].slot] = (sac_tmpl_value){0};
}

sac_status sac_tmpl_frame_new(sac_tmpl_run *r, const sac_tmpl_scope *scope, sac_tmpl_frame *outer,
                              sac_tmpl_frame **out) {
    sac_tmpl_frame *frame =
        sac_tmpl_take_zeroed(&r->pool, sizeof *frame + (size_t)scope->slots->n * sizeof *frame->slots);
    if (!frame) return sac_tmpl_full(r);
    frame->outer = outer;
    *out = frame;
    return sac_tmpl_charge(r, (size_t)scope->slots->n * sizeof *frame->slots);
}

sac_status sac_tmpl_assign(sac_tmpl_run *r, const sac_tmpl_node *target, sac_tmpl_value v) {
    if (target->kind == SAC_NODE_NAME) {
        *sac_tmpl_slot(r, target->place) = v;
        return SAC_OK;
    }
    if (target->kind == SAC_NODE_NS_ATTR) {
        sac_tmpl_dict *d = sac_tmpl_slot(r, target->place)->dict;
        if (target->value.string->n_bytes && target->value.string->bytes[0] == '_')
            return sac_tmpl_fail(r, "a namespace holds no names that begin with _");
        SAC_TRY(sac_tmpl_charge(r, d->n * 4));
        return sac_tmpl_dict_set(&r->pool, d, target->value, v) ? SAC_OK : sac_tmpl_full(r);
    }
    const sac_tmpl_list *items;
    SAC_TRY(sac_tmpl_items(r, v, &items));
    if (items->n != target->items.n)
        return sac_tmpl_fail(r, "%zu names are set from %zu values", target->items.n, items->n);
    for (size_t i = 0; i < items->n; i++)
        SAC_TRY(sac_tmpl_assign(r, target->items.items[i], items->items[i]));
    return SAC_OK;
}

sac_status sac_tmpl_check_namespaces(sac_tmpl_run *r, const sac_tmpl_node *target) {
    if (target->kind == SAC_NODE_NS_ATTR && sac_tmpl_slot(r, target->place)->kind != SAC_TMPL_NAMESPACE)
        return sac_tmpl_fail(r, "'%.40s' is no namespace, so its attributes cannot be set", target->name);
    for (size_t i = 0; target->kind == SAC_NODE_TUPLE && i < target->items.n; i++)
        SAC_TRY(sac_tmpl_check_namespaces(r, target->items.items[i]));
    return SAC_OK;
}

sac_status sac_tmpl_capture(sac_tmpl_run *r, const sac_tmpl_nodes *body, sac_tmpl_value *text) {
    sac_tmpl_writer w = {.run = r}, *outer = r->out;
    r->out = &w;
    SAC_TRY(r->exec_all(r, body));
    r->out = outer;
    return sac_tmpl_written_value(&w, text);
}

sac_status sac_tmpl_write_string(sac_tmpl_run *r, sac_tmpl_value v, const char *use) {
    return v.kind == SAC_TMPL_STRING ? sac_tmpl_write(r->out, *v.string) : sac_tmpl_fail_use(r, v, use);
}

sac_status sac_tmpl_closure_new(sac_tmpl_run *r, const sac_tmpl_node *n, const char *name,
                                sac_tmpl_call_fn call, int64_t depth, sac_tmpl_value *out) {
    struct {
        sac_tmpl_function f;
        sac_tmpl_closure c;
    } *made = sac_tmpl_take(&r->pool, sizeof *made);
    if (!made) return sac_tmpl_full(r);
    made->c = (sac_tmpl_closure){.node = n, .frame = r->frame, .depth = depth};
    made->f = (sac_tmpl_function){.name = name, .data = &made->c, .call = call};
    *out = (sac_tmpl_value){.kind = SAC_TMPL_FUNCTION, .function = &made->f};
    return SAC_OK;
}
