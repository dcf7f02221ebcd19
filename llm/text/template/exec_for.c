/* exec_for.c - {% for %}: its condition, its else, and loops that call themselves. */
#include "frame.h"
#include "iterate.h"

#include <string.h>

/* ---- the condition: an iterator over the items for which it holds ---- */

typedef struct filtered {
    sac_tmpl_iterator it;
    const sac_tmpl_node *n;
    sac_tmpl_walk walk;
    sac_tmpl_frame *frame, *around; /* of the condition; of the for */
} filtered;

/* What the names of a target hold: several are a tuple, whatever they were taken from. */
static sac_status target_value(sac_tmpl_run *r, const sac_tmpl_node *target, sac_tmpl_value *out) {
    if (target->kind != SAC_NODE_TUPLE) {
        *out = *sac_tmpl_slot(r, target->place);
        return SAC_OK;
    }
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_TUPLE, target->items.n), out));
    for (size_t i = 0; i < target->items.n; i++)
        SAC_TRY(target_value(r, target->items.items[i], &out->list->items[i]));
    out->list->n = target->items.n;
    return SAC_OK;
}

static sac_status take_if(sac_tmpl_run *r, const filtered *f, sac_tmpl_value *item, bool *holds) {
    sac_tmpl_frame *outer = r->frame;
    sac_tmpl_value v;
    r->frame = f->frame;
    SAC_TRY(sac_tmpl_assign(r, f->n->test_target, *item));
    SAC_TRY(sac_tmpl_eval(r, f->n->c, &v));
    *holds = sac_tmpl_truth(v);
    if (*holds) SAC_TRY(target_value(r, f->n->test_target, item));
    r->frame = outer;
    return SAC_OK;
}

static int next_filtered(sac_tmpl_run *r, sac_tmpl_iterator *it, sac_tmpl_value *item) {
    filtered *f = (filtered *)it;
    for (bool holds = false; !holds;) {
        SAC_TRY(sac_tmpl_walk_next(r, &f->walk, item));
        if (item->kind == SAC_TMPL_MISSING) break;
        SAC_TRY(take_if(r, f, item, &holds));
    }
    return SAC_OK;
}

/* A generator's names are found when its first item is asked for. */
static int next_first(sac_tmpl_run *r, sac_tmpl_iterator *it, sac_tmpl_value *item) {
    filtered *f = (filtered *)it;
    sac_tmpl_frame *outer = r->frame;
    SAC_TRY(sac_tmpl_frame_new(r, f->n->test_scope, f->around, &f->frame));
    r->frame = f->frame;
    SAC_TRY(sac_tmpl_enter_scope(r, f->n->test_scope));
    r->frame = outer;
    it->next = next_filtered;
    return next_filtered(r, it, item);
}

static sac_status filter_items(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value *over) {
    filtered *f = sac_tmpl_take(&r->pool, sizeof *f);
    if (!f) return sac_tmpl_full(r);
    *f = (filtered){.it.next = next_first, .n = n, .around = n->flag ? r->frame->outer : r->frame};
    SAC_TRY(sac_tmpl_walk_open(r, *over, &f->walk));
    *over = (sac_tmpl_value){.kind = SAC_TMPL_ITERATOR, .iterator = &f->it};
    return SAC_OK;
}

/* ---- items ---- */

static int call_loop(sac_tmpl_run *r, const sac_tmpl_function *f, const sac_tmpl_args *args,
                     sac_tmpl_value *out);

/* The body for one item; *completed when it ran to its end; a break ends the loop. */
static sac_status exec_item(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value item, bool *completed,
                            bool *goes_on) {
    SAC_TRY(sac_tmpl_assign(r, n->a, item));
    SAC_TRY(sac_tmpl_enter_scope(r, n->scope));
    SAC_TRY(r->exec_all(r, &n->items));
    *goes_on = r->jump != SAC_TMPL_BREAK;
    *completed = *completed || r->jump == SAC_TMPL_GO_ON;
    r->jump = SAC_TMPL_GO_ON;
    return SAC_OK;
}

static sac_status loop_new(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value over, int64_t depth,
                           sac_tmpl_value *out) {
    sac_tmpl_loop *loop = sac_tmpl_take_zeroed(&r->pool, sizeof *loop);
    if (!loop) return sac_tmpl_full(r);
    *loop = (sac_tmpl_loop){.index = -1, .length = -1, .depth = depth};
    SAC_TRY(sac_tmpl_walk_open(r, over, &loop->walk));
    if (n->flag) SAC_TRY(sac_tmpl_closure_new(r, n, "loop", call_loop, depth + 1, &loop->recurse));
    *out = (sac_tmpl_value){.kind = SAC_TMPL_LOOP, .loop = loop};
    return SAC_OK;
}

/* A body that reads `loop`. */
static sac_status exec_items_with_loop(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value over,
                                       int64_t depth, bool *completed) {
    sac_tmpl_value loop, item;
    SAC_TRY(loop_new(r, n, over, depth, &loop));
    for (bool goes_on = true; goes_on;) {
        SAC_TRY(sac_tmpl_loop_next(r, loop.loop, &item));
        if (item.kind == SAC_TMPL_MISSING) break;
        *sac_tmpl_slot(r, (sac_tmpl_place){.slot = n->place.slot}) = loop;
        SAC_TRY(exec_item(r, n, item, completed, &goes_on));
    }
    return SAC_OK;
}

static sac_status exec_items(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value over, bool *completed) {
    sac_tmpl_walk w;
    sac_tmpl_value item;
    SAC_TRY(sac_tmpl_walk_open(r, over, &w));
    for (bool goes_on = true; goes_on;) {
        SAC_TRY(sac_tmpl_walk_next(r, &w, &item));
        if (item.kind == SAC_TMPL_MISSING) break;
        SAC_TRY(exec_item(r, n, item, completed, &goes_on));
    }
    return SAC_OK;
}

/* As Jinja does it, else runs when no item's body ran to its end: also after nothing but continue. */
static sac_status exec_loop(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value over, int64_t depth) {
    bool completed = false;
    if (n->c) SAC_TRY(filter_items(r, n, &over));
    SAC_TRY(n->place.slot >= 0 ? exec_items_with_loop(r, n, over, depth, &completed)
                               : exec_items(r, n, over, &completed));
    sac_tmpl_leave_scope(r, n->scope);
    if (completed || !n->more.n) return SAC_OK;
    SAC_TRY(sac_tmpl_enter_scope(r, n->else_scope));
    SAC_TRY(r->exec_all(r, &n->more));
    sac_tmpl_leave_scope(r, n->else_scope);
    return SAC_OK;
}

/* ---- recursive loops ---- */

static sac_status exec_recursive(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_frame *around,
                                 sac_tmpl_value over, int64_t depth, sac_tmpl_value *out) {
    sac_tmpl_writer w = {.run = r}, *outer = r->out;
    sac_tmpl_frame *frame, *old = r->frame;
    SAC_TRY(sac_tmpl_frame_new(r, n->scope, around, &frame));
    r->frame = frame;
    r->out = &w;
    SAC_TRY(exec_loop(r, n, over, depth));
    r->frame = old;
    r->out = outer;
    return sac_tmpl_written_value(&w, out);
}

static int call_loop(sac_tmpl_run *r, const sac_tmpl_function *f, const sac_tmpl_args *args,
                     sac_tmpl_value *out) {
    const sac_tmpl_closure *c = f->data;
    const sac_tmpl_value *named = args->named ? sac_tmpl_dict_find_name(args->named, "iterable", 8) : NULL;
    if (args->n + (args->named ? args->named->n : 0) != 1 || (!args->n && !named))
        return sac_tmpl_fail(r, "the loop is called with one list");
    return exec_recursive(r, c->node, c->frame->outer, named ? *named : args->items[0], c->depth, out);
}

sac_status sac_tmpl_exec_for(sac_tmpl_run *r, const sac_tmpl_node *n) {
    sac_tmpl_value over, text;
    SAC_TRY(sac_tmpl_eval(r, n->b, &over));
    if (!n->flag) return exec_loop(r, n, over, 0);
    SAC_TRY(exec_recursive(r, n, r->frame, over, 0, &text));
    return sac_tmpl_write(r->out, *text.string);
}
