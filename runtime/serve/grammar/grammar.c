#include "grammar.h"

#include <stdlib.h>
#include <string.h>

void grammar_init(grammar *g, int max_depth) {
    *g = (grammar){.max_depth = max_depth};
}

void grammar_free(grammar *g) {
    for (size_t i = 0; i < g->n_blocks; i++) free(g->blocks[i]);
    free(g->blocks);
    free(g->nodes);
    *g = (grammar){0};
}

/* ---------------------------------------------------------------- memory */

static void *fail_memory(grammar *g) {
    g->no_memory = true;
    return NULL;
}

void *grammar_take(grammar *g, size_t n) {
    if (g->n_blocks == g->blocks_room) {
        size_t room = g->blocks_room ? 2 * g->blocks_room : 64;
        void **blocks = realloc(g->blocks, room * sizeof *blocks);
        if (!blocks) return fail_memory(g);
        g->blocks = blocks;
        g->blocks_room = room;
    }
    void *block = calloc(1, n ? n : 1);
    if (!block) return fail_memory(g);
    return g->blocks[g->n_blocks++] = block;
}

static int add_node(grammar *g, grammar_kind kind) {
    if (g->no_memory || g->too_large) return -1;
    if (g->n == GRAMMAR_MAX_NODES) g->too_large = true;
    if (g->too_large) return -1;
    if (g->n == g->room) {
        int room = g->room ? 2 * g->room : 32;
        grammar_node *nodes = realloc(g->nodes, (size_t)room * sizeof *nodes);
        if (!nodes) g->no_memory = true;
        if (!nodes) return -1;
        g->nodes = nodes;
        g->room = room;
    }
    g->nodes[g->n] = (grammar_node){.kind = (uint8_t)kind, .max = -1, .other = -1};
    return g->n++;
}

static bool take_text(grammar *g, const char *text, size_t n, grammar_text *out) {
    if (n > GRAMMAR_MAX_TEXT - g->n_text) return g->too_large = true, false;
    char *copy = grammar_take(g, n);
    if (!copy) return false;
    if (n) memcpy(copy, text, n);
    g->n_text += n;
    *out = (grammar_text){copy, (uint32_t)n};
    return true;
}

static bool take_items(grammar *g, int node, const int *items, int n) {
    for (int i = 0; i < n; i++)
        if (items[i] < 0) return false;
    if (node < 0) return false;
    if ((size_t)n > GRAMMAR_MAX_ITEMS - g->n_items) return g->too_large = true, false;
    int *copy = grammar_take(g, (size_t)n * sizeof *copy);
    if (!copy) return false;
    if (n) memcpy(copy, items, (size_t)n * sizeof *copy);
    g->n_items += (size_t)n;
    g->nodes[node].items = copy;
    g->nodes[node].n_items = n;
    return true;
}

/* ---------------------------------------------------------------- nodes */

int grammar_bytes(grammar *g, const char *text, size_t n) {
    int at = add_node(g, GRAMMAR_BYTES);
    return at >= 0 && take_text(g, text, n, &g->nodes[at].text) ? at : -1;
}

int grammar_until(grammar *g, const char *text, size_t n) {
    int at = add_node(g, GRAMMAR_UNTIL);
    if (at < 0 || !take_text(g, text, n, &g->nodes[at].text)) return -1;
    uint32_t *f = grammar_take(g, n * sizeof *f);
    if (!f) return -1;
    for (uint32_t i = 1, k = 0; i < n; i++) {
        while (k && text[k] != text[i]) k = f[k - 1];
        k += text[k] == text[i];
        f[i] = k;
    }
    g->nodes[at].failure = f;
    return at;
}

int grammar_alt(grammar *g, const int *items, int n) {
    int at = add_node(g, GRAMMAR_ALT);
    return take_items(g, at, items, n) ? at : -1;
}

int grammar_seq(grammar *g, const int *items, int n) {
    if (n == 1) return items[0];
    int at = add_node(g, GRAMMAR_SEQ);
    return take_items(g, at, items, n) ? at : -1;
}

int grammar_repeat(grammar *g, int item, int64_t min, int64_t max) {
    int at = add_node(g, GRAMMAR_REPEAT);
    if (!take_items(g, at, &item, 1)) return -1;
    g->nodes[at].min = min;
    g->nodes[at].max = max;
    return at;
}

int grammar_string(grammar *g, int64_t min, int64_t max) {
    int at = add_node(g, GRAMMAR_STRING);
    if (at < 0) return -1;
    g->nodes[at].min = min;
    g->nodes[at].max = max;
    return at;
}

int grammar_number(grammar *g, bool whole) {
    int at = add_node(g, GRAMMAR_NUMBER);
    if (at >= 0) g->nodes[at].whole = whole;
    return at;
}

int grammar_number_between(grammar *g, bool whole, double low, double high) {
    int at = grammar_number(g, whole);
    if (at < 0) return -1;
    g->nodes[at].bounded = true;
    g->nodes[at].low = low;
    g->nodes[at].high = high;
    return at;
}

int grammar_object(grammar *g) {
    return add_node(g, GRAMMAR_OBJECT);
}

int grammar_array(grammar *g, const int *items, int n, int other, int64_t min, int64_t max) {
    int at = add_node(g, GRAMMAR_ARRAY);
    if (!take_items(g, at, items, n)) return -1;
    g->nodes[at].other = other;
    g->nodes[at].min = min;
    g->nodes[at].max = max;
    return at;
}

int grammar_forward(grammar *g) {
    return add_node(g, GRAMMAR_ALT);
}

bool grammar_alt_set(grammar *g, int node, const int *items, int n) {
    return take_items(g, node, items, n);
}

bool grammar_object_set(grammar *g, int node, const grammar_property *properties, int n, uint64_t required,
                        int other) {
    if (node < 0) return false;
    grammar_property *copy = grammar_take(g, (size_t)n * sizeof *copy);
    if (!copy) return false;
    for (int i = 0; i < n; i++) {
        copy[i].node = properties[i].node;
        if (properties[i].node < 0 ||
            !take_text(g, properties[i].key.bytes, properties[i].key.n, &copy[i].key))
            return false;
    }
    grammar_node *to = &g->nodes[node];
    to->properties = copy;
    to->n_properties = n;
    to->required = required;
    to->other = other;
    return true;
}

static int compare_texts(const void *a, const void *b) {
    const grammar_text *x = a, *y = b;
    uint32_t n = x->n < y->n ? x->n : y->n;
    int c = memcmp(x->bytes, y->bytes, n);
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

int grammar_choice(grammar *g, const grammar_text *texts, size_t n) {
    int at = add_node(g, GRAMMAR_CHOICE);
    if (at < 0) return -1;
    if (n > GRAMMAR_MAX_CHOICES) return g->too_large = true, -1;
    grammar_text *copy = grammar_take(g, n * sizeof *copy);
    if (!copy) return -1;
    for (size_t i = 0; i < n; i++)
        if (!take_text(g, texts[i].bytes, texts[i].n, &copy[i])) return -1;
    qsort(copy, n, sizeof *copy, compare_texts);
    g->nodes[at].texts = copy;
    g->nodes[at].n_texts = (uint32_t)n;
    return at;
}

/* ---------------------------------------------------------------- classes */

static int compare_ranges(const void *a, const void *b) {
    const grammar_range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

enum { LAST = 0x10ffff };

/* Adds low..high without surrogates. */
static size_t add_range(grammar_range *to, size_t n, uint32_t low, uint32_t high) {
    if (high > LAST) high = LAST;
    if (low > high) return n;
    if (low < 0xd800) to[n++] = (grammar_range){low, high < 0xd800 ? high : 0xd7ff};
    if (high > 0xdfff) to[n++] = (grammar_range){low > 0xdfff ? low : 0xe000, high};
    return n;
}

int grammar_class(grammar *g, const grammar_range *ranges, size_t n, bool negated, bool in_json) {
    int at = add_node(g, GRAMMAR_CLASS);
    if (at < 0) return -1;
    if (n > GRAMMAR_MAX_CHOICES) return g->too_large = true, -1;
    grammar_range *sorted = grammar_take(g, (n + 1) * sizeof *sorted),
                  *to = grammar_take(g, 2 * (n + 1) * sizeof *to);
    if (!sorted || !to) return -1;
    size_t m = 0, k = 0;
    if (n) memcpy(sorted, ranges, n * sizeof *ranges);
    qsort(sorted, n, sizeof *sorted, compare_ranges);
    for (size_t i = 0; i < n; i++) { /* what overlaps becomes one */
        if (m && sorted[i].low <= sorted[m - 1].high)
            sorted[m - 1].high = sorted[i].high > sorted[m - 1].high ? sorted[i].high : sorted[m - 1].high;
        else
            sorted[m++] = sorted[i];
    }
    uint32_t next = 0;
    for (size_t i = 0; i < m; i++) {
        if (!negated)
            k = add_range(to, k, sorted[i].low, sorted[i].high);
        else if (sorted[i].low > next)
            k = add_range(to, k, next, sorted[i].low - 1);
        next = sorted[i].high < LAST ? sorted[i].high + 1 : LAST + 1;
    }
    if (negated && next <= LAST) k = add_range(to, k, next, LAST);
    grammar_node *node = &g->nodes[at];
    node->ranges = to;
    node->n_ranges = (uint32_t)k;
    node->in_json = in_json;
    return at;
}
