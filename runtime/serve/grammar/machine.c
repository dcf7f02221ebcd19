#include "frame.h"

#include <stdlib.h>
#include <string.h>

/* BYTE_WORK: nodes and frames that are looked at for one byte; what is beyond is not offered. */
enum { TIDY_FRAMES = 2048, BYTE_WORK = 1 << 15 };

/* ---------------------------------------------------------------- nodes that are made of others */

static bool begins_with(const grammar_node *n, unsigned char c) {
    return n->first[c >> 6] >> (c & 63) & 1;
}

/* A frame of a node that goes on at `at` behind what is read next. */
static int32_t push_at(machine_try_state *t, int32_t node, int32_t parent, uint32_t at) {
    int depth = machine_depth(t, parent) + 1;
    if (depth > t->m->g->max_depth) return FRAME_NO_ROOM;
    return machine_push(
        t, &(machine_frame){
               .parent = parent, .node = node, .at = at, .depth = (uint16_t)depth, .phase = WITHIN});
}

static void enter(machine_try_state *t, int32_t node, int32_t parent, unsigned char c);

/* The items from `at` on; *whole: all of them may be empty. */
static void enter_items(machine_try_state *t, int32_t node, int32_t parent, uint32_t at, unsigned char c,
                        bool *whole) {
    const grammar_node *n = machine_node(t, node);
    *whole = false;
    for (; at < (uint32_t)n->n_items; at++) {
        const grammar_node *item = machine_node(t, n->items[at]);
        if (begins_with(item, c)) {
            bool last = at == (uint32_t)n->n_items - 1;
            int32_t next = last ? parent : push_at(t, node, parent, at + 1);
            if (next != FRAME_NO_ROOM) enter(t, n->items[at], next, c);
        }
        if (!item->nullable) return;
    }
    *whole = true;
}

/* One more time, after n->at times. Times that do not matter any more are not counted. */
static void enter_again(machine_try_state *t, int32_t node, int32_t parent, uint32_t times, unsigned char c) {
    const grammar_node *n = machine_node(t, node);
    if (!begins_with(machine_node(t, n->items[0]), c) || (n->max >= 0 && (int64_t)times >= n->max)) return;
    bool counts = n->max >= 0 || (int64_t)times < n->min;
    uint32_t next = counts ? times + 1 : times;
    bool last = n->max >= 0 && (int64_t)next == n->max;
    int32_t frame = last ? parent : push_at(t, node, parent, next);
    if (frame != FRAME_NO_ROOM) enter(t, n->items[0], frame, c);
}

static void enter(machine_try_state *t, int32_t node, int32_t parent, unsigned char c) {
    const grammar_node *n = machine_node(t, node);
    bool whole;
    if (!begins_with(n, c) || !machine_has_room(t, machine_depth(t, parent), node)) return;
    if (++t->work > BYTE_WORK) return;
    switch ((grammar_kind)n->kind) {
    case GRAMMAR_ALT:
        for (int i = 0; i < n->n_items; i++) enter(t, n->items[i], parent, c);
        break;
    case GRAMMAR_SEQ: enter_items(t, node, parent, 0, c, &whole); break;
    case GRAMMAR_REPEAT: enter_again(t, node, parent, 0, c); break;
    case GRAMMAR_STRING:
    case GRAMMAR_NUMBER:
    case GRAMMAR_OBJECT:
    case GRAMMAR_ARRAY: json_begin(t, node, parent, c); break;
    default: leaf_begin(t, node, parent, c);
    }
}

static bool may_leave(const grammar *g, const machine_frame *f) {
    const grammar_node *n = &g->nodes[f->node];
    if (f->phase == ENTRY || f->phase == ENTRY_JSON) return n->nullable;
    switch ((grammar_kind)n->kind) {
    case GRAMMAR_SEQ:
        for (int i = (int)f->at; i < n->n_items; i++)
            if (!g->nodes[n->items[i]].nullable) return false;
        return true;
    case GRAMMAR_REPEAT: return (int64_t)f->at >= n->min || g->nodes[n->items[0]].nullable;
    case GRAMMAR_STRING:
    case GRAMMAR_NUMBER:
    case GRAMMAR_OBJECT:
    case GRAMMAR_ARRAY: return json_may_end(n, f);
    default: return leaf_may_end(n, f);
    }
}

static void advance_entry(machine_try_state *t, machine_frame f, unsigned char c) {
    bool takes = false;
    if (f.phase == ENTRY_JSON && !json_entry_space(&f, c, &takes)) return;
    if (takes)
        machine_put(t, &f);
    else
        enter(t, f.node, f.parent, c);
}

static void advance(machine_try_state *t, int32_t frame, unsigned char c) {
    bool whole;
    if (frame < 0 || t->m->advanced[frame] == t->m->n_bytes || ++t->work > BYTE_WORK) return;
    t->m->advanced[frame] = t->m->n_bytes; /* once: it would come to the same */
    machine_frame f = t->m->frames[frame]; /* frames move when there are more of them */
    const grammar_node *n = machine_node(t, f.node);
    if (f.phase == ENTRY || f.phase == ENTRY_JSON) {
        advance_entry(t, f, c);
    } else {
        switch ((grammar_kind)n->kind) {
        case GRAMMAR_SEQ: enter_items(t, f.node, f.parent, f.at, c, &whole); break;
        case GRAMMAR_REPEAT: enter_again(t, f.node, f.parent, f.at, c); break;
        case GRAMMAR_STRING:
        case GRAMMAR_NUMBER:
        case GRAMMAR_OBJECT:
        case GRAMMAR_ARRAY: advance(t, json_advance(t, f, c), c); break;
        default: leaf_advance(t, f, c);
        }
    }
    if (may_leave(t->m->g, &f)) advance(t, f.parent, c);
}

/* ---------------------------------------------------------------- levels */

static bool take_tops(machine *m, int n) {
    if (n <= m->tops_room) return true;
    int room = 2 * n;
    int32_t *tops = realloc(m->tops, (size_t)room * sizeof *tops);
    if (!tops) return false;
    m->tops = tops;
    m->tops_room = room;
    return true;
}

bool machine_try(machine *m, int level, unsigned char byte) {
    const machine_level from = m->levels[level];
    m->n_frames = from.n_frames;
    machine_try_state t = {.m = m, .begin = from.begin + from.n};
    if (!take_tops(m, t.begin + MACHINE_MAX_READINGS)) return false;
    m->n_bytes++;
    for (int i = 0; i < from.n; i++) advance(&t, m->tops[from.begin + i], byte);
    m->work += (uint64_t)t.work;
    m->levels[level + 1] = (machine_level){t.begin, t.n, m->n_frames};
    return t.n > 0;
}

/* Frames that no reading of level 0 stands on go; parents stand before their children. */
static void tidy(machine *m) {
    machine_level *level = &m->levels[0];
    int32_t *to = calloc((size_t)m->n_frames + 1, sizeof *to);
    if (!to) return;
    for (int i = 0; i < level->n; i++)
        if (m->tops[i] >= 0) to[m->tops[i]] = 1;
    for (int i = m->n_frames - 1; i >= 0; i--)
        if (to[i] && m->frames[i].parent >= 0) to[m->frames[i].parent] = 1;
    int n = 0;
    for (int i = 0; i < m->n_frames; i++) {
        if (!to[i]) continue;
        m->frames[n] = m->frames[i];
        if (m->frames[n].parent >= 0) m->frames[n].parent = to[m->frames[n].parent];
        to[i] = n++;
    }
    for (int i = 0; i < level->n; i++)
        if (m->tops[i] >= 0) m->tops[i] = to[m->tops[i]];
    free(to);
    memset(m->advanced, 0, (size_t)n * sizeof *m->advanced);
    m->n_frames = level->n_frames = m->n_kept = n;
}

void machine_keep(machine *m, int level) {
    machine_level l = m->levels[level];
    memmove(m->tops, m->tops + l.begin, (size_t)l.n * sizeof *m->tops);
    m->levels[0] = (machine_level){0, l.n, l.n_frames};
    m->n_frames = l.n_frames;
    if (m->n_frames > 2 * m->n_kept + TIDY_FRAMES) tidy(m);
}

bool machine_step(machine *m, unsigned char byte) {
    if (!machine_try(m, 0, byte)) return false;
    machine_keep(m, 1);
    return true;
}

uint64_t machine_work(const machine *m) {
    return m->work;
}

static bool may_end(const machine *m, int32_t frame) {
    while (frame >= 0 && may_leave(m->g, &m->frames[frame])) frame = m->frames[frame].parent;
    return frame < 0;
}

bool machine_may_end(const machine *m, int level) {
    const machine_level *l = &m->levels[level];
    for (int i = 0; i < l->n; i++)
        if (may_end(m, m->tops[l->begin + i])) return true;
    return false;
}

bool machine_is_done(const machine *m, int level) {
    const machine_level *l = &m->levels[level];
    return l->n == 1 && m->tops[l->begin] == FRAME_NONE;
}

/* Within a string, or a key that may be any, at the beginning of a character. */
static bool is_free(const machine *m, const machine_frame *f, uint32_t n_bytes) {
    const grammar_node *n = &m->g->nodes[f->node];
    if (f->hex || f->utf8) return false;
    if (f->phase == STRING_BODY) return n->max < 0 || f->at + (int64_t)n_bytes <= n->max;
    return f->phase == OBJECT_KEY && n->other >= 0 &&
           f->depth + m->g->nodes[n->other].need <= m->g->max_depth;
}

bool machine_is_free(const machine *m, int level, uint32_t n_bytes) {
    const machine_level *l = &m->levels[level];
    for (int i = 0; i < l->n; i++) {
        int32_t top = m->tops[l->begin + i];
        if (top >= 0 && is_free(m, &m->frames[top], n_bytes)) return true;
    }
    return false;
}

/* ---------------------------------------------------------------- life */

void machine_restart(machine *m) {
    const machine_frame root = {.parent = FRAME_NONE, .node = m->g->root, .depth = 1, .phase = ENTRY};
    m->frames[0] = root;
    m->tops[0] = 0;
    m->advanced[0] = 0;
    m->n_frames = m->n_kept = 1;
    m->levels[0] = (machine_level){0, 1, 1};
}

machine *machine_open(const grammar *g) {
    machine *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->g = g;
    if (!machine_grow(m) || !take_tops(m, MACHINE_MAX_READINGS)) {
        machine_close(m);
        return NULL;
    }
    machine_restart(m);
    return m;
}

void machine_close(machine *m) {
    if (!m) return;
    free(m->frames);
    free(m->advanced);
    free(m->tops);
    free(m);
}
