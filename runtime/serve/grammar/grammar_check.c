/* grammar_check.c - what a grammar must be known to be before a machine reads it: which nodes may be empty, how they may
 * begin, how deep they go, and that reading a byte comes to an end. */
#include "grammar.h"

#include <stdlib.h>
#include <string.h>

enum { ENDLESS = 1 << 20, MAX_PASSES = 512 };

typedef struct checker {
    grammar *g;
    const char *what, *param;
    serve_problem *problem;
    uint8_t *state; /* of each node: not seen, being seen, seen */
    int *paths;
} checker;

static bool refuse(const checker *c, const char *why) {
    return serve_refuse(c->problem, 400, c->param, "unsupported_grammar", "%s: %s", c->what, why);
}

/* ---------------------------------------------------------------- what may be empty */

static bool all_nullable(const grammar *g, const grammar_node *n) {
    for (int i = 0; i < n->n_items; i++)
        if (!g->nodes[n->items[i]].nullable) return false;
    return true;
}

static bool any_nullable(const grammar *g, const grammar_node *n) {
    for (int i = 0; i < n->n_items; i++)
        if (g->nodes[n->items[i]].nullable) return true;
    return false;
}

static bool is_nullable(const grammar *g, const grammar_node *n) {
    switch ((grammar_kind)n->kind) {
    case GRAMMAR_ALT: return any_nullable(g, n);
    case GRAMMAR_SEQ: return all_nullable(g, n);
    case GRAMMAR_REPEAT: return n->min == 0 || any_nullable(g, n);
    case GRAMMAR_BYTES: return n->text.n == 0;
    case GRAMMAR_CHOICE: return n->n_texts && n->texts[0].n == 0;
    default: return false;
    }
}

/* ---------------------------------------------------------------- how it may begin */

static void add_byte(uint64_t first[4], unsigned c) {
    first[c >> 6] |= (uint64_t)1 << (c & 63);
}

static void add_bytes(uint64_t first[4], unsigned low, unsigned high) {
    for (unsigned c = low; c <= high; c++) add_byte(first, c);
}

static unsigned lead(uint32_t c) {
    return c < 0x80 ? c : c < 0x800 ? 0xc0 | c >> 6 : c < 0x10000 ? 0xe0 | c >> 12 : 0xf0 | c >> 18;
}

/* Control characters, quotes and backslashes are escaped in a JSON string; those that have a letter for it can be. */
static void begin_class(const grammar_node *n, uint64_t first[4]) {
    static const char escaped[] = "\"\\\b\f\n\r\t";
    for (uint32_t i = 0; i < n->n_ranges; i++) {
        const grammar_range *r = &n->ranges[i];
        add_bytes(first, lead(r->low), lead(r->high));
    }
    if (!n->in_json) return;
    bool escape = false;
    for (uint32_t i = 0; i < n->n_ranges; i++)
        for (const char *e = escaped; *e; e++)
            escape |= (uint32_t)*e >= n->ranges[i].low && (uint32_t)*e <= n->ranges[i].high;
    first[0] &= ~(uint64_t)0xffffffff;
    first[0] &= ~((uint64_t)1 << '"');
    first['\\' >> 6] &= ~((uint64_t)1 << ('\\' & 63));
    if (escape) add_byte(first, '\\');
}

static void begin_leaf(const grammar_node *n, uint64_t first[4]) {
    switch ((grammar_kind)n->kind) {
    case GRAMMAR_BYTES:
        if (n->text.n) add_byte(first, (unsigned char)n->text.bytes[0]);
        break;
    case GRAMMAR_CLASS: begin_class(n, first); break;
    case GRAMMAR_UNTIL: add_bytes(first, 0, 255); break;
    case GRAMMAR_CHOICE:
        for (uint32_t i = 0; i < n->n_texts; i++)
            if (n->texts[i].n) add_byte(first, (unsigned char)n->texts[i].bytes[0]);
        break;
    case GRAMMAR_STRING: add_byte(first, '"'); break;
    case GRAMMAR_OBJECT: add_byte(first, '{'); break;
    case GRAMMAR_ARRAY: add_byte(first, '['); break;
    case GRAMMAR_NUMBER:
        add_byte(first, '-'); /* the machine looks closer at bounds */
        add_bytes(first, '0', '9');
        break;
    default: break;
    }
}

static void begin_node(const grammar *g, const grammar_node *n, uint64_t first[4]) {
    if (n->kind > GRAMMAR_REPEAT) begin_leaf(n, first);
    for (int i = 0; n->kind <= GRAMMAR_REPEAT && i < n->n_items; i++) {
        const grammar_node *item = &g->nodes[n->items[i]];
        for (int k = 0; k < 4; k++) first[k] |= item->first[k];
        if (n->kind == GRAMMAR_SEQ && !item->nullable) return;
    }
}

/* ---------------------------------------------------------------- how deep it is */

static int larger(int a, int b) {
    return a > b ? a : b;
}

static int need_of_seq(const grammar *g, const grammar_node *n) {
    int need = 0;
    for (int i = 0; i < n->n_items; i++) {
        const grammar_node *item = &g->nodes[n->items[i]];
        if (!item->nullable) need = larger(need, item->need + (i < n->n_items - 1));
    }
    return need;
}

static int need_of_alt(const grammar *g, const grammar_node *n) {
    int need = ENDLESS;
    for (int i = 0; i < n->n_items; i++)
        if (g->nodes[n->items[i]].need < need) need = g->nodes[n->items[i]].need;
    return need;
}

static int need_of_object(const grammar *g, const grammar_node *n) {
    int need = 0;
    for (int i = 0; i < n->n_properties; i++)
        if (n->required >> i & 1) need = larger(need, g->nodes[n->properties[i].node].need);
    return need + 1;
}

static int need_of_array(const grammar *g, const grammar_node *n) {
    int need = 0;
    for (int i = 0; i < n->n_items && i < n->min; i++) need = larger(need, g->nodes[n->items[i]].need);
    if (n->min > n->n_items) need = larger(need, n->other < 0 ? ENDLESS : g->nodes[n->other].need);
    return need + 1;
}

/* By what is known of the nodes that it is made of; a new grammar's are endless. */
static int need_of(const grammar *g, const grammar_node *n) {
    int need = 1;
    if (n->nullable) return 0;
    switch ((grammar_kind)n->kind) {
    case GRAMMAR_ALT: need = need_of_alt(g, n); break;
    case GRAMMAR_SEQ: need = need_of_seq(g, n); break;
    case GRAMMAR_REPEAT: need = g->nodes[n->items[0]].need + (n->max != 1); break;
    case GRAMMAR_OBJECT: need = need_of_object(g, n); break;
    case GRAMMAR_ARRAY: need = need_of_array(g, n); break;
    default:
        if (!(n->first[0] | n->first[1] | n->first[2] | n->first[3])) need = ENDLESS; /* an empty class */
    }
    return need < ENDLESS ? need : ENDLESS;
}

/* One look at every node; whether something became known. */
static bool pass(grammar *g, bool upwards, int what) {
    bool changed = false;
    for (int k = 0; k < g->n; k++) {
        grammar_node *n = &g->nodes[upwards ? k : g->n - 1 - k];
        uint64_t first[4] = {0};
        int need;
        switch (what) {
        case 0:
            if (!n->nullable && is_nullable(g, n)) changed = n->nullable = true;
            break;
        case 1:
            begin_node(g, n, first);
            changed |= memcmp(first, n->first, sizeof first) != 0;
            memcpy(n->first, first, sizeof first);
            break;
        default:
            need = need_of(g, n);
            changed |= need != n->need;
            n->need = need;
        }
    }
    return changed;
}

static bool settle(const checker *c) {
    for (int what = 0; what < 3; what++) {
        int n = 0;
        if (what == 2)
            for (int i = 0; i < c->g->n; i++) c->g->nodes[i].need = ENDLESS;
        while (pass(c->g, n & 1, what))
            if (++n > MAX_PASSES) return refuse(c, "its parts depend on each other in too many steps");
    }
    return true;
}

/* ---------------------------------------------------------------- how many ways to begin */

/* How many nodes are looked at when the node is to begin with a byte; -1: it is refused. */
static int count_paths(const checker *c, int node, int left) {
    enum { NEW, BUSY, DONE };
    const grammar_node *n = &c->g->nodes[node];
    if (c->state[node] == DONE) return c->paths[node];
    if (c->state[node] == BUSY) return refuse(c, "a rule begins with itself (left recursion)"), -1;
    if (left > GRAMMAR_MAX_LEFT) return refuse(c, "too many rules begin with one another"), -1;
    c->state[node] = BUSY;
    int paths = 1;
    for (int i = 0; n->kind <= GRAMMAR_REPEAT && i < n->n_items; i++) {
        int more = count_paths(c, n->items[i], left + 1);
        if (more < 0) return -1;
        paths = paths > GRAMMAR_MAX_PATHS - more ? GRAMMAR_MAX_PATHS + 1 : paths + more;
        if (n->kind == GRAMMAR_SEQ && !c->g->nodes[n->items[i]].nullable) break;
    }
    if (paths > GRAMMAR_MAX_PATHS) return refuse(c, "a part of it can begin in too many ways"), -1;
    c->state[node] = DONE;
    return c->paths[node] = paths;
}

static bool check_paths(const checker *c) {
    for (int i = 0; i < c->g->n; i++)
        if (count_paths(c, i, 0) < 0) return false;
    return true;
}

static bool check_depths(const checker *c) {
    for (int i = 0; i < c->g->n; i++)
        if (c->g->nodes[i].need > c->g->max_depth)
            return refuse(c, "a part that contains itself without end, is too deep, or matches nothing");
    return true;
}

bool grammar_finish(grammar *g, int root, const char *what, const char *param, serve_problem *p) {
    checker c = {.g = g, .what = what, .param = param, .problem = p};
    if (g->too_large) return refuse(&c, "it is too large");
    if (g->no_memory || root < 0)
        return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for %s", what);
    g->root = root;
    c.state = calloc((size_t)g->n, sizeof *c.state);
    c.paths = calloc((size_t)g->n, sizeof *c.paths);
    bool ok = c.state && c.paths;
    ok = ok ? settle(&c) && check_depths(&c) && check_paths(&c)
            : serve_refuse(p, 503, NULL, "out_of_memory", "no memory for %s", what);
    free(c.state);
    free(c.paths);
    return ok;
}
