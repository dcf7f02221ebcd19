/* json_leaves.c - JSON's strings, numbers, objects and arrays, which come as printers of JSON write them. */
#include "frame.h"

#include <math.h>
#include <string.h>

/* Answers of a model that has lost its thread: what no sensible answer needs is not let in. A bounded number has digits that a
 * double tells apart. */
enum { MAX_INDENT = 16, MAX_DIGITS = 17, MAX_BOUNDED_DIGITS = 15 };

static bool is_digit(unsigned char c) {
    return c >= '0' && c <= '9';
}

static bool is_hex(unsigned char c) {
    return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

/* ---------------------------------------------------------------- white space */

/* One space, or a line's end and an indentation; the latter alone where `after` says that a bracket has to follow. */
static bool add_space(machine_frame *f, unsigned char c, bool after) {
    if (c == '\n') return f->n_space++ == 0;
    if (f->n_space == 0) f->n_space = after ? MAX_INDENT + 1 : MAX_INDENT;
    return ++f->n_space <= MAX_INDENT + 1;
}

bool json_entry_space(machine_frame *f, unsigned char c, bool *takes) {
    *takes = c == ' ' || c == '\n';
    if (*takes) return add_space(f, c, false);
    f->n_space = 0;
    return true;
}

static bool may_close(const grammar_node *n, const machine_frame *f) {
    if (n->kind == GRAMMAR_ARRAY) return (int64_t)f->at >= n->min;
    return (n->required & ~f->seen) == 0;
}

/* Within objects and arrays. *takes: the byte was white space; false: it may not come. */
static bool step_space(const grammar_node *n, machine_frame *f, unsigned char c, bool *takes) {
    bool after = f->phase == OBJECT_AFTER || f->phase == ARRAY_AFTER;
    *takes = c == ' ' || c == '\n';
    if (!*takes) {
        bool fits = !(after && f->n_space) || c == '}' || c == ']';
        f->n_space = 0;
        return fits;
    }
    if (f->phase == OBJECT_COLON || (after && !may_close(n, f))) return false;
    return add_space(f, c, after);
}

/* ---------------------------------------------------------------- strings, and keys, which are strings */

/* The first byte of a character: how many follow, and what the next may be (RFC 3629's table). */
static bool begin_character(machine_frame *f, unsigned char c) {
    f->low = 0x80;
    f->high = 0xbf;
    f->utf8 = c < 0x80 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    if (c == 0xe0) f->low = 0xa0;
    if (c == 0xed) f->high = 0x9f;
    if (c == 0xf0) f->low = 0x90;
    if (c == 0xf4) f->high = 0x8f;
    return c < 0x80 || (c >= 0xc2 && c <= 0xf4);
}

/* Inside a string. *begins: another character of it began; *ends: the closing quote came. */
static bool string_byte(machine_frame *f, unsigned char c, bool *escape, bool *begins, bool *ends) {
    *begins = *ends = false;
    if (f->hex) {
        /* No surrogates: \ud8xx to \udfxx come in pairs, which a model hardly ever gets right. */
        if (!is_hex(c) || (f->hex == 3 && f->low == 1 && c > '7')) return false;
        f->low = f->hex == 4 && (c | 32) == 'd';
        f->hex--;
        return true;
    }
    if (f->utf8) {
        if (c < f->low || c > f->high) return false;
        f->low = 0x80;
        f->high = 0xbf;
        f->utf8--;
        return true;
    }
    if (*escape) {
        *escape = false;
        if (c == 'u') f->hex = 4;
        return c == 'u' || (c && strchr("\"\\/bfnrt", c));
    }
    *ends = c == '"';
    if (*ends) return true;
    *begins = true;
    *escape = c == '\\';
    return c >= 0x20 && (*escape || begin_character(f, c));
}

static void step_string(machine_try_state *t, const grammar_node *n, machine_frame f, unsigned char c) {
    bool escape = f.phase == STRING_ESCAPE, begins, ends;
    if (!string_byte(&f, c, &escape, &begins, &ends)) return;
    f.phase = escape ? STRING_ESCAPE : STRING_BODY;
    if (begins && (n->max >= 0 || (int64_t)f.at < n->min)) f.at++; /* beyond what counts it is not counted */
    if (n->max >= 0 && (int64_t)f.at > n->max) return;
    if (!ends)
        machine_put(t, &f);
    else if ((int64_t)f.at >= n->min)
        machine_go_on(t, f.parent);
}

/* ---------------------------------------------------------------- numbers */

static bool has_digits(const machine_frame *f) {
    return f->phase == NUMBER_ZERO || f->phase == NUMBER_WHOLE || f->phase == NUMBER_FRACTION ||
           f->phase == NUMBER_EXPONENT;
}

/* Of a bounded number: mask is its digits, seen how many of them are behind the point, and in the high half 1 for a minus. */
static double value_of(uint64_t digits, uint64_t n_behind, bool minus) {
    static const double power[] = {1,   1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7, 1e8,
                                   1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16};
    double v = (double)digits / power[n_behind];
    return minus ? -v : v;
}

/* Whether digits from `least` to `most`, n_behind of them behind the point, can be within the bounds. */
static bool meets(const grammar_node *n, uint64_t least, uint64_t most, uint64_t n_behind, bool minus) {
    double a = value_of(minus ? most : least, n_behind, minus),
           b = value_of(minus ? least : most, n_behind, minus);
    return b >= n->low && a <= n->high;
}

/* Whether what has come of a number can still become one within the bounds. */
static bool can_become(const grammar_node *n, const machine_frame *f) {
    bool minus = f->seen >> 32;
    uint64_t behind = (uint32_t)f->seen, n_digits = f->at, least = f->mask, most = f->mask;
    if (f->phase == NUMBER_MINUS) return n->low < 0;
    for (uint64_t i = 0;; i++) { /* i more digits before the point, then some behind it */
        uint64_t low = least, high = most, places = behind, total = n_digits + i;
        for (; !n->whole && total < MAX_BOUNDED_DIGITS; total++) {
            low *= 10;
            high = high * 10 + 9;
            places++;
        }
        if (meets(n, low, high, places, minus)) return true;
        if (f->phase != NUMBER_WHOLE || n_digits + i >= MAX_BOUNDED_DIGITS) return false;
        least *= 10;
        most = most * 10 + 9;
    }
}

static bool bounded_may_end(const grammar_node *n, const machine_frame *f) {
    return has_digits(f) && meets(n, f->mask, f->mask, (uint32_t)f->seen, f->seen >> 32);
}

static void step_bounded(machine_try_state *t, const grammar_node *n, machine_frame f, unsigned char c) {
    bool begins = f.phase == NUMBER_MINUS;
    if (is_digit(c)) {
        if (f.phase == NUMBER_ZERO || f.at >= MAX_BOUNDED_DIGITS) return;
        bool behind = f.phase == NUMBER_POINT || f.phase == NUMBER_FRACTION;
        f.at++;
        f.mask = f.mask * 10 + (c - '0');
        f.seen += behind;
        f.phase = behind ? NUMBER_FRACTION : begins && c == '0' ? NUMBER_ZERO : NUMBER_WHOLE;
    } else if (c == '.' && !n->whole && (f.phase == NUMBER_ZERO || f.phase == NUMBER_WHOLE) &&
               f.at < MAX_BOUNDED_DIGITS) {
        f.phase = NUMBER_POINT;
    } else {
        return;
    }
    if (can_become(n, &f)) machine_put(t, &f);
}

static void to_phase(machine_try_state *t, machine_frame f, enum frame_phase phase, uint32_t most) {
    f.at = f.phase == phase ? f.at + 1 : 0;
    f.phase = (uint8_t)phase;
    if (f.at < most) machine_put(t, &f);
}

static void step_number(machine_try_state *t, const grammar_node *n, machine_frame f, unsigned char c) {
    bool whole = f.phase == NUMBER_ZERO || f.phase == NUMBER_WHOLE;
    if (f.phase == NUMBER_MINUS && is_digit(c)) {
        to_phase(t, f, c == '0' ? NUMBER_ZERO : NUMBER_WHOLE, MAX_DIGITS);
    } else if (f.phase == NUMBER_WHOLE && is_digit(c)) {
        to_phase(t, f, NUMBER_WHOLE, MAX_DIGITS);
    } else if (n->whole) {
        return;
    } else if (whole && c == '.') {
        to_phase(t, f, NUMBER_POINT, MAX_DIGITS);
    } else if ((f.phase == NUMBER_POINT || f.phase == NUMBER_FRACTION) && is_digit(c)) {
        to_phase(t, f, NUMBER_FRACTION, MAX_DIGITS);
    } else if ((whole || f.phase == NUMBER_FRACTION) && (c | 32) == 'e') {
        to_phase(t, f, NUMBER_E, MAX_DIGITS);
    } else if (f.phase == NUMBER_E && (c == '+' || c == '-')) {
        to_phase(t, f, NUMBER_SIGN, MAX_DIGITS);
    } else if ((f.phase == NUMBER_E || f.phase == NUMBER_SIGN || f.phase == NUMBER_EXPONENT) && is_digit(c)) {
        to_phase(t, f, NUMBER_EXPONENT, 2);
    }
}

static void begin_number(machine_try_state *t, const grammar_node *n, machine_frame f, unsigned char c) {
    f.phase = NUMBER_MINUS; /* with or without it */
    if (n->bounded && c == '-') {
        f.seen = (uint64_t)1 << 32;
        if (can_become(n, &f)) machine_put(t, &f);
    } else if (n->bounded) {
        step_bounded(t, n, f, c);
    } else if (c == '-') {
        machine_put(t, &f);
    } else {
        step_number(t, n, f, c);
    }
}

/* ---------------------------------------------------------------- objects */

/* The value behind a colon, a comma or a bracket: f goes on behind it. */
static int32_t push_value(machine_try_state *t, const machine_frame *f, int32_t node) {
    if (!machine_has_room(t, f->depth, node)) return FRAME_NO_ROOM;
    int32_t parent = machine_push(t, f);
    if (parent == FRAME_NO_ROOM) return FRAME_NO_ROOM;
    return machine_push(
        t, &(machine_frame){
               .parent = parent, .node = node, .depth = (uint16_t)(f->depth + 1), .phase = ENTRY_JSON});
}

static bool others_have_room(const machine_try_state *t, const grammar_node *n, const machine_frame *f) {
    return n->other >= 0 && machine_has_room(t, f->depth, n->other);
}

/* Whether another property may come. */
static bool may_go_on(const machine_try_state *t, const grammar_node *n, const machine_frame *f) {
    if (others_have_room(t, n, f)) return true;
    for (int i = 0; i < n->n_properties; i++)
        if (!(f->seen >> i & 1) && machine_has_room(t, f->depth, n->properties[i].node)) return true;
    return false;
}

static void begin_key(machine_try_state *t, const grammar_node *n, machine_frame f) {
    f.phase = OBJECT_KEY;
    f.mask = ~f.seen;
    for (int i = 0; i < n->n_properties; i++)
        if (!machine_has_room(t, f.depth, n->properties[i].node)) f.mask &= ~((uint64_t)1 << i);
    f.at = 0;
    f.child = -1;
    machine_put(t, &f);
}

/* The key's quote came: which property it is. */
static void end_key(machine_try_state *t, const grammar_node *n, machine_frame f) {
    bool named = false;
    f.child = n->other;
    for (int i = 0; i < n->n_properties; i++)
        if (n->properties[i].key.n == f.at && f.mask >> i & 1) {
            f.seen |= (uint64_t)1 << i;
            f.child = n->properties[i].node;
            named = true;
        }
    f.phase = OBJECT_COLON;
    f.mask = 0;
    f.at = 0;
    if (f.child >= 0 && (named || others_have_room(t, n, &f))) machine_put(t, &f);
}

/* f.at counts bytes here, so that properties can be compared. */
static void step_key(machine_try_state *t, const grammar_node *n, machine_frame f, unsigned char c) {
    bool escape = f.phase == OBJECT_KEY_ESCAPE, begins, ends;
    if (!string_byte(&f, c, &escape, &begins, &ends)) return;
    f.phase = escape ? OBJECT_KEY_ESCAPE : OBJECT_KEY;
    if (ends) {
        end_key(t, n, f);
        return;
    }
    for (int i = 0; i < n->n_properties; i++) {
        const grammar_text *key = &n->properties[i].key;
        if (key->n <= f.at || (unsigned char)key->bytes[f.at] != c) f.mask &= ~((uint64_t)1 << i);
    }
    f.at++;
    uint64_t named = n->n_properties < 64 ? ((uint64_t)1 << n->n_properties) - 1 : ~(uint64_t)0;
    if (others_have_room(t, n, &f) || (f.mask & named)) machine_put(t, &f);
}

static void step_colon(machine_try_state *t, machine_frame f) {
    int32_t child = f.child;
    f.phase = OBJECT_AFTER;
    f.child = 0;
    machine_go_on(t, push_value(t, &f, child));
}

static void step_object(machine_try_state *t, const grammar_node *n, machine_frame f, unsigned char c) {
    bool after = f.phase == OBJECT_AFTER;
    if (f.phase == OBJECT_COLON) {
        if (c == ':') step_colon(t, f);
    } else if (c == '}' && f.phase != OBJECT_NEXT) {
        if (may_close(n, &f)) machine_go_on(t, f.parent);
    } else if (c == (after ? ',' : '"') && may_go_on(t, n, &f)) {
        f.phase = OBJECT_NEXT;
        if (after)
            machine_put(t, &f);
        else
            begin_key(t, n, f);
    }
}

/* ---------------------------------------------------------------- arrays */

static int32_t step_array(machine_try_state *t, const grammar_node *n, machine_frame f, unsigned char c) {
    bool more = n->max < 0 || (int64_t)f.at < n->max, after = f.phase == ARRAY_AFTER;
    if (c == ']' && may_close(n, &f)) machine_go_on(t, f.parent);
    int32_t node = f.at < (uint32_t)n->n_items ? n->items[f.at] : n->other;
    if (c == ']' || !more || node < 0 || (after && c != ',')) return FRAME_NONE;
    f.phase = ARRAY_AFTER;
    if (n->max >= 0 || (int64_t)f.at < n->min || f.at < (uint32_t)n->n_items) f.at++;
    int32_t value = push_value(t, &f, node);
    if (!after) return value;
    machine_go_on(t, value);
    return FRAME_NONE;
}

/* ---------------------------------------------------------------- all */

void json_begin(machine_try_state *t, int32_t node, int32_t parent, unsigned char c) {
    const grammar_node *n = machine_node(t, node);
    machine_frame f = {.parent = parent, .node = node, .depth = (uint16_t)(machine_depth(t, parent) + 1)};
    f.phase = n->kind == GRAMMAR_OBJECT ? OBJECT_FIRST : n->kind == GRAMMAR_ARRAY ? ARRAY_FIRST : STRING_BODY;
    if (n->kind == GRAMMAR_NUMBER)
        begin_number(t, n, f, c);
    else
        machine_put(t, &f);
}

static bool takes_space(const machine_frame *f) {
    return f->phase == OBJECT_FIRST || (f->phase >= OBJECT_COLON && f->phase <= ARRAY_AFTER);
}

int32_t json_advance(machine_try_state *t, machine_frame f, unsigned char c) {
    const grammar_node *n = machine_node(t, f.node);
    bool takes = false;
    if (takes_space(&f) && !step_space(n, &f, c, &takes)) return FRAME_NONE;
    if (takes) {
        machine_put(t, &f);
        return FRAME_NONE;
    }
    switch ((grammar_kind)n->kind) {
    case GRAMMAR_STRING: step_string(t, n, f, c); break;
    case GRAMMAR_NUMBER: n->bounded ? step_bounded(t, n, f, c) : step_number(t, n, f, c); break;
    case GRAMMAR_ARRAY: return step_array(t, n, f, c);
    default:
        if (f.phase == OBJECT_KEY || f.phase == OBJECT_KEY_ESCAPE)
            step_key(t, n, f, c);
        else
            step_object(t, n, f, c);
    }
    return FRAME_NONE;
}

bool json_may_end(const grammar_node *n, const machine_frame *f) {
    if (n->kind != GRAMMAR_NUMBER) return false;
    return n->bounded ? bounded_may_end(n, f) : has_digits(f);
}
