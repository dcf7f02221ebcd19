#include "iterate.h"

static bool has_length(sac_tmpl_value v) {
    return v.kind == SAC_TMPL_UNDEFINED || v.kind == SAC_TMPL_STRING || v.kind == SAC_TMPL_DICT ||
           v.kind == SAC_TMPL_LOOP || sac_tmpl_is_list(v);
}

sac_status sac_tmpl_walk_open(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_walk *w) {
    *w = (sac_tmpl_walk){.over = v};
    return has_length(v) || v.kind == SAC_TMPL_ITERATOR ? SAC_OK : sac_tmpl_fail_use(r, v, "iterated");
}

static sac_status next_character(sac_tmpl_run *r, sac_tmpl_walk *w, sac_tmpl_value *item) {
    const sac_tmpl_string *s = w->over.string;
    size_t from = w->at;
    if (from == s->n_bytes) return SAC_OK;
    do w->at++;
    while (w->at < s->n_bytes && ((unsigned char)s->bytes[w->at] & 0xc0) == 0x80);
    sac_tmpl_string one = sac_tmpl_part(s, from, w->at);
    one.is_markup = false;
    return sac_tmpl_give(r, sac_tmpl_string_value(&r->pool, one), item);
}

/* list(loop) gives what is left: each item with the loop itself. */
static sac_status next_of_loop(sac_tmpl_run *r, sac_tmpl_value loop, sac_tmpl_value *item) {
    sac_tmpl_value v;
    SAC_TRY(sac_tmpl_loop_next(r, loop.loop, &v));
    if (v.kind == SAC_TMPL_MISSING) return SAC_OK;
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_TUPLE, 2), item));
    item->list->items[0] = v;
    item->list->items[1] = loop;
    item->list->n = 2;
    return SAC_OK;
}

sac_status sac_tmpl_walk_next(sac_tmpl_run *r, sac_tmpl_walk *w, sac_tmpl_value *item) {
    sac_status st = SAC_OK;
    *item = (sac_tmpl_value){.kind = SAC_TMPL_MISSING};
    SAC_TRY(sac_tmpl_charge(r, 0));
    switch (w->over.kind) {
    case SAC_TMPL_UNDEFINED: return SAC_OK;
    case SAC_TMPL_STRING: return next_character(r, w, item);
    case SAC_TMPL_DICT:
        if (w->at < w->over.dict->n) *item = w->over.dict->keys[w->at++];
        return SAC_OK;
    case SAC_TMPL_ITERATOR:
    case SAC_TMPL_LOOP:
        SAC_TRY(sac_tmpl_descend(r));
        st = w->over.kind == SAC_TMPL_LOOP ? next_of_loop(r, w->over, item)
                                           : (sac_status)w->over.iterator->next(r, w->over.iterator, item);
        r->depth--;
        return st;
    default:
        if (w->at < w->over.list->n) *item = w->over.list->items[w->at++];
        return SAC_OK;
    }
}

static sac_status rest_of(sac_tmpl_run *r, sac_tmpl_walk *w, const sac_tmpl_list **items) {
    sac_tmpl_value all, item;
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_LIST, 8), &all));
    for (;;) {
        SAC_TRY(sac_tmpl_walk_next(r, w, &item));
        if (item.kind == SAC_TMPL_MISSING) break;
        if (!sac_tmpl_list_add(&r->pool, all.list, item)) return sac_tmpl_full(r);
    }
    *items = all.list;
    return SAC_OK;
}

sac_status sac_tmpl_items(sac_tmpl_run *r, sac_tmpl_value v, const sac_tmpl_list **items) {
    sac_tmpl_walk w;
    SAC_TRY(sac_tmpl_walk_open(r, v, &w));
    *items = v.list;
    if (sac_tmpl_is_list(v)) return SAC_OK;
    if (v.kind != SAC_TMPL_DICT) return rest_of(r, &w, items);
    sac_tmpl_list *keys = sac_tmpl_take_zeroed(&r->pool, sizeof *keys);
    if (!keys) return sac_tmpl_full(r);
    *keys = (sac_tmpl_list){.items = v.dict->keys, .n = v.dict->n, .capacity = v.dict->n};
    *items = keys;
    return SAC_OK;
}

sac_status sac_tmpl_length(sac_tmpl_run *r, sac_tmpl_value v, int64_t *n) {
    *n = 0;
    if (v.kind == SAC_TMPL_LOOP) return sac_tmpl_loop_length(r, v.loop, n);
    if (!has_length(v)) return sac_tmpl_fail_use(r, v, "asked for its length");
    if (v.kind == SAC_TMPL_STRING)
        for (size_t i = 0; i < v.string->n_bytes; i++)
            *n += ((unsigned char)v.string->bytes[i] & 0xc0) != 0x80;
    else if (v.kind != SAC_TMPL_UNDEFINED)
        *n = (int64_t)(v.kind == SAC_TMPL_DICT ? v.dict->n : v.list->n);
    return v.kind == SAC_TMPL_STRING ? sac_tmpl_charge(r, v.string->n_bytes) : SAC_OK;
}

/* ---- an iterator over a value ---- */

typedef struct plain {
    sac_tmpl_iterator it;
    sac_tmpl_walk walk;
} plain;

static int next_plain(sac_tmpl_run *r, sac_tmpl_iterator *it, sac_tmpl_value *item) {
    return sac_tmpl_walk_next(r, &((plain *)it)->walk, item);
}

sac_status sac_tmpl_iterator_over(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_value *out) {
    plain *p = sac_tmpl_take(&r->pool, sizeof *p);
    if (!p) return sac_tmpl_full(r);
    p->it.next = next_plain;
    *out = (sac_tmpl_value){.kind = SAC_TMPL_ITERATOR, .iterator = &p->it};
    return sac_tmpl_walk_open(r, v, &p->walk);
}

/* ---- loop ---- */

sac_status sac_tmpl_loop_next(sac_tmpl_run *r, sac_tmpl_loop *loop, sac_tmpl_value *item) {
    SAC_TRY(sac_tmpl_loop_peek(r, loop, item));
    if (item->kind == SAC_TMPL_MISSING) return SAC_OK;
    loop->ahead = (sac_tmpl_value){.kind = SAC_TMPL_MISSING};
    loop->index++;
    loop->previous = loop->current;
    loop->current = *item;
    return SAC_OK;
}

sac_status sac_tmpl_loop_peek(sac_tmpl_run *r, sac_tmpl_loop *loop, sac_tmpl_value *item) {
    if (loop->ahead.kind == SAC_TMPL_MISSING) SAC_TRY(sac_tmpl_walk_next(r, &loop->walk, &loop->ahead));
    *item = loop->ahead;
    return SAC_OK;
}

/* What has no length of its own is passed over first; its items are kept. */
sac_status sac_tmpl_loop_length(sac_tmpl_run *r, sac_tmpl_loop *loop, int64_t *n) {
    if (loop->length < 0 && has_length(loop->walk.over))
        SAC_TRY(sac_tmpl_length(r, loop->walk.over, &loop->length));
    if (loop->length < 0) {
        const sac_tmpl_list *rest;
        SAC_TRY(rest_of(r, &loop->walk, &rest));
        loop->walk =
            (sac_tmpl_walk){.over = {.kind = SAC_TMPL_LIST, .list = (sac_tmpl_list *)(uintptr_t)rest}};
        loop->length = (int64_t)rest->n + loop->index + 1 + (loop->ahead.kind != SAC_TMPL_MISSING);
    }
    *n = loop->length;
    return SAC_OK;
}
