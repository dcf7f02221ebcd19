/* exec.c - statements: what they write and set. */
#include "frame.h"

static sac_status exec(sac_tmpl_run *r, const sac_tmpl_node *n);

static sac_status exec_all(sac_tmpl_run *r, const sac_tmpl_nodes *body) {
    SAC_TRY(sac_tmpl_descend(r));
    for (size_t i = 0; i < body->n && r->jump == SAC_TMPL_GO_ON; i++) SAC_TRY(exec(r, body->items[i]));
    r->depth--;
    return SAC_OK;
}

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
    SAC_TRY(sac_tmpl_check_namespaces(r, n->a));
    SAC_TRY(sac_tmpl_eval(r, n->b, &v));
    return sac_tmpl_assign(r, n->a, v);
}

static sac_status exec_set_block(sac_tmpl_run *r, const sac_tmpl_node *n) {
    sac_tmpl_value v;
    SAC_TRY(sac_tmpl_enter_scope(r, n->scope));
    SAC_TRY(sac_tmpl_capture(r, &n->items, &v));
    if (r->jump != SAC_TMPL_GO_ON) return SAC_OK;
    if (n->b) SAC_TRY(sac_tmpl_eval_filters(r, n->b, v, &v));
    SAC_TRY(sac_tmpl_check_namespaces(r, n->a));
    SAC_TRY(sac_tmpl_assign(r, n->a, v));
    sac_tmpl_leave_scope(r, n->scope);
    return SAC_OK;
}

static sac_status exec_filter_block(sac_tmpl_run *r, const sac_tmpl_node *n) {
    sac_tmpl_value v;
    SAC_TRY(sac_tmpl_enter_scope(r, n->scope));
    SAC_TRY(sac_tmpl_capture(r, &n->items, &v));
    if (r->jump != SAC_TMPL_GO_ON) return SAC_OK;
    SAC_TRY(sac_tmpl_eval_filters(r, n->a, v, &v));
    sac_tmpl_leave_scope(r, n->scope);
    return sac_tmpl_write_string(r, v, "written by {% filter %}");
}

static sac_status exec_with(sac_tmpl_run *r, const sac_tmpl_node *n) {
    SAC_TRY(sac_tmpl_enter_scope(r, n->scope));
    for (size_t i = 0; i < n->more.n; i++) {
        sac_tmpl_value v;
        SAC_TRY(sac_tmpl_eval(r, n->a->items.items[i], &v));
        SAC_TRY(sac_tmpl_assign(r, n->more.items[i], v));
    }
    SAC_TRY(exec_all(r, &n->items));
    sac_tmpl_leave_scope(r, n->scope);
    return SAC_OK;
}

static sac_status exec(sac_tmpl_run *r, const sac_tmpl_node *n) {
    r->line = n->line;
    SAC_TRY(sac_tmpl_charge(r, 0));
    switch (n->kind) {
    case SAC_NODE_DATA: return sac_tmpl_write(r->out, *n->value.string);
    case SAC_NODE_PRINT: return exec_print(r, n);
    case SAC_NODE_IF: return exec_if(r, n);
    case SAC_NODE_FOR: return sac_tmpl_exec_for(r, n);
    case SAC_NODE_SET: return exec_set(r, n);
    case SAC_NODE_SET_BLOCK: return exec_set_block(r, n);
    case SAC_NODE_MACRO: return sac_tmpl_exec_macro(r, n);
    case SAC_NODE_CALL_BLOCK:
    case SAC_NODE_GENERATION: return sac_tmpl_exec_call_block(r, n);
    case SAC_NODE_FILTER_BLOCK: return exec_filter_block(r, n);
    case SAC_NODE_WITH: return exec_with(r, n);
    case SAC_NODE_BREAK: r->jump = SAC_TMPL_BREAK; return SAC_OK;
    default: r->jump = SAC_TMPL_CONTINUE; return SAC_OK;
    }
}

sac_status sac_tmpl_exec_root(sac_tmpl_run *r, const sac_tmpl_node *root) {
    r->exec_all = exec_all;
    SAC_TRY(sac_tmpl_frame_new(r, root->scope, NULL, &r->frame));
    SAC_TRY(sac_tmpl_enter_scope(r, root->scope));
    return exec_all(r, &root->items);
}
