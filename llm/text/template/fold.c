/* fold.c - what Jinja works out while it compiles (jinja2/optimizer.py). It takes every part of an operator, a test, a
 * filter, a call, also where that part never runs. What fails there is left to the running, but for one thing: a dict of
 * constants with a key that Python cannot hash (nodes.py: Dict.as_const) fails the whole template. */
#include "fold.h"

#include "attributes.h"
#include "eval.h"
#include "names.h"

enum { FOLD_BYTES = 1 << 20, FOLD_STEPS = 1 << 16 };

/* Without a frame: names, calls and what Jinja's filters take from the context have no value (eval.c). */
static bool folds(sac_tmpl_run *r, const sac_tmpl_node *n, sac_tmpl_value *value) {
    r->depth = 0;
    return sac_tmpl_eval(r, n, value) == SAC_OK;
}

/* Jinja puts pairs in one by one, up to the first that is no constant. */
static bool has_bad_key(sac_tmpl_run *r, const sac_tmpl_node *dict) {
    sac_tmpl_value key, value;
    for (size_t i = 0; i < dict->items.n; i++) {
        if (!folds(r, dict->items.items[i], &key) || !folds(r, dict->more.items[i], &value)) return false;
        r->depth = 0;
        if (sac_tmpl_need_key(r, key) != SAC_OK) return true;
    }
    return false;
}

static const sac_tmpl_node *bad_dict(sac_tmpl_run *r, const sac_tmpl_node *n, bool is_folded);

static const sac_tmpl_node *bad_among(sac_tmpl_run *r, const sac_tmpl_nodes *list, bool is_folded) {
    const sac_tmpl_node *bad = NULL;
    for (size_t i = 0; !bad && i < list->n; i++) bad = bad_dict(r, list->items[i], is_folded);
    return bad;
}

static const sac_tmpl_node *bad_argument(sac_tmpl_run *r, const sac_tmpl_call *call) {
    const sac_tmpl_node *bad = bad_among(r, &call->items, true);
    if (!bad) bad = bad_among(r, &call->named, true);
    if (!bad) bad = bad_dict(r, call->rest, true);
    return bad ? bad : bad_dict(r, call->named_rest, true);
}

/* What is put out is tried whole first, as it would run; the optimizer sees what has no value then. */
static const sac_tmpl_node *bad_print(sac_tmpl_run *r, const sac_tmpl_nodes *list) {
    sac_tmpl_value value;
    for (size_t i = 0; i < list->n; i++) {
        const sac_tmpl_node *bad = bad_dict(r, list->items[i], false);
        if (bad && !folds(r, list->items[i], &value)) return bad;
    }
    return NULL;
}

/* The first dict that fails within `n`, or NULL; is_folded: an operator or the like is around it. */
static const sac_tmpl_node *bad_dict(sac_tmpl_run *r, const sac_tmpl_node *n, bool is_folded) {
    if (!n) return NULL;
    switch (n->kind) {
    case SAC_NODE_PRINT: return bad_print(r, &n->items);
    case SAC_NODE_CONST:
    case SAC_NODE_NAME:
    case SAC_NODE_LIST:
    case SAC_NODE_TUPLE:
    case SAC_NODE_DICT: break;
    default: is_folded = n->kind < SAC_NODE_DATA; /* an expression; syntax.h has the statements behind them */
    }
    const sac_tmpl_node *bad = bad_dict(r, n->a, is_folded);
    if (!bad) bad = bad_dict(r, n->b, is_folded);
    if (!bad) bad = bad_dict(r, n->c, is_folded);
    if (!bad) bad = bad_among(r, &n->items, is_folded);
    if (!bad) bad = bad_among(r, &n->more, is_folded);
    if (!bad && n->call) bad = bad_argument(r, n->call);
    if (!bad && n->signature) bad = bad_among(r, &n->signature->defaults, false);
    return !bad && is_folded && n->kind == SAC_NODE_DICT && has_bad_key(r, n) ? n : bad;
}

sac_status sac_tmpl_check_folded(const sac_tmpl_source *s, const sac_tmpl_node *root) {
    sac_error unused = {0};
    sac_tmpl_run run = {.name = s->name,
                        .pool = {.limit_bytes = FOLD_BYTES},
                        .err = &unused,
                        .steps = FOLD_STEPS,
                        .steps_left = FOLD_STEPS,
                        .find_filter = sac_tmpl_find_filter,
                        .find_test = sac_tmpl_find_test,
                        .attribute = sac_tmpl_attribute,
                        .item = sac_tmpl_item};
    const sac_tmpl_node *bad = bad_among(&run, &root->items, false);
    sac_tmpl_pool_free(&run.pool);
    return bad ? sac_tmpl_source_fail(s, bad->line,
                                      "a list or a dict is the key of a dict; use text or a number")
               : SAC_OK;
}
