/* leaves.c - literals, characters of a class, choices, and text up to a mark. */
#include "frame.h"

/* A frame of the node, which the byte has begun. */
static machine_frame begin(const machine_try_state *t, int32_t node, int32_t parent, uint8_t phase) {
    return (machine_frame){
        .parent = parent, .node = node, .depth = (uint16_t)(machine_depth(t, parent) + 1), .phase = phase};
}

/* ---------------------------------------------------------------- literals, and text up to one */

static void read_bytes(machine_try_state *t, const grammar_node *n, machine_frame f, unsigned char c) {
    if ((unsigned char)n->text.bytes[f.at] != c) return;
    if (++f.at == n->text.n)
        machine_go_on(t, f.parent);
    else
        machine_put(t, &f);
}

static void read_until(machine_try_state *t, const grammar_node *n, machine_frame f, unsigned char c) {
    while (f.at && (unsigned char)n->text.bytes[f.at] != c) f.at = n->failure[f.at - 1];
    f.at += (unsigned char)n->text.bytes[f.at] == c;
    if (f.at == n->text.n)
        machine_go_on(t, f.parent);
    else
        machine_put(t, &f);
}

/* ---------------------------------------------------------------- choices */

/* The byte at `at` of the i-th text; -1 where it ends. */
static int byte_of(const grammar_node *n, uint32_t i, uint32_t at) {
    return at < n->texts[i].n ? (unsigned char)n->texts[i].bytes[at] : -1;
}

/* The first of texts low to high whose byte at `at` is c or more; they are sorted. */
static uint32_t find_text(const grammar_node *n, uint32_t low, uint32_t high, uint32_t at, int c) {
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (byte_of(n, middle, at) < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* mask: the first of the texts that are still possible, and where they end, 32 bits each. */
static void read_choice(machine_try_state *t, const grammar_node *n, machine_frame f, unsigned char c) {
    uint32_t low = (uint32_t)(f.mask >> 32), high = (uint32_t)f.mask;
    uint32_t from = find_text(n, low, high, f.at, c), to = find_text(n, from, high, f.at, c + 1);
    if (from == to) return;
    f.at++;
    f.mask = (uint64_t)from << 32 | to;
    if (n->texts[to - 1].n == f.at)
        machine_go_on(t, f.parent); /* the last is the longest */
    else
        machine_put(t, &f);
}

/* ---------------------------------------------------------------- characters */

static bool holds(const grammar_node *n, uint32_t low, uint32_t high) {
    uint32_t a = 0, b = n->n_ranges; /* the first range that ends at low or behind it */
    while (a < b) {
        uint32_t middle = a + (b - a) / 2;
        if (n->ranges[middle].high < low)
            a = middle + 1;
        else
            b = middle;
    }
    return a < n->n_ranges && n->ranges[a].low <= high;
}

/* A character of hex bytes, of which utf8 are to come; mask: its bits so far. */
static void read_character(machine_try_state *t, const grammar_node *n, machine_frame f) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t low = (uint32_t)f.mask << (6 * f.utf8), high = low | ((1u << (6 * f.utf8)) - 1);
    if (low < least[f.hex]) low = least[f.hex];
    if (low > high || !holds(n, low, high)) return;
    if (f.utf8 == 0)
        machine_go_on(t, f.parent);
    else
        machine_put(t, &f);
}

static void begin_character(machine_try_state *t, const grammar_node *n, machine_frame f, unsigned char c) {
    if (n->in_json && c == '\\') {
        f.phase = CLASS_ESCAPE;
        machine_put(t, &f);
        return;
    }
    if (c >= 0x80 && (c < 0xc2 || c > 0xf4)) return;
    f.hex = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    f.utf8 = (uint8_t)(f.hex - 1);
    f.mask = f.hex == 1 ? c : c & (0x7fu >> f.hex);
    read_character(t, n, f);
}

static void read_escape(machine_try_state *t, const grammar_node *n, const machine_frame *f,
                        unsigned char c) {
    static const char letters[][2] = {{'"', '"'},  {'\\', '\\'}, {'b', '\b'}, {'f', '\f'},
                                      {'n', '\n'}, {'r', '\r'},  {'t', '\t'}};
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if ((unsigned char)letters[i][0] == c && holds(n, (uint32_t)letters[i][1], (uint32_t)letters[i][1]))
            machine_go_on(t, f->parent);
}

/* ---------------------------------------------------------------- all */

void leaf_begin(machine_try_state *t, int32_t node, int32_t parent, unsigned char c) {
    const grammar_node *n = machine_node(t, node);
    machine_frame f = begin(t, node, parent, n->kind == GRAMMAR_CLASS ? CLASS_TAIL : WITHIN);
    if (n->kind == GRAMMAR_CHOICE) f.mask = n->n_texts;
    if (n->kind == GRAMMAR_CLASS)
        begin_character(t, n, f, c);
    else
        leaf_advance(t, f, c);
}

void leaf_advance(machine_try_state *t, machine_frame f, unsigned char c) {
    const grammar_node *n = machine_node(t, f.node);
    switch ((grammar_kind)n->kind) {
    case GRAMMAR_BYTES: read_bytes(t, n, f, c); break;
    case GRAMMAR_UNTIL: read_until(t, n, f, c); break;
    case GRAMMAR_CHOICE: read_choice(t, n, f, c); break;
    default:
        if (f.phase == CLASS_ESCAPE) {
            read_escape(t, n, &f, c);
        } else if ((c & 0xc0) == 0x80) {
            f.mask = f.mask << 6 | (c & 0x3f);
            f.utf8--;
            read_character(t, n, f);
        }
    }
}

bool leaf_may_end(const grammar_node *n, const machine_frame *f) {
    return n->kind == GRAMMAR_CHOICE && f->at > 0 && n->texts[(uint32_t)(f->mask >> 32)].n == f->at;
}
