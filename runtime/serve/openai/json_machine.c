#include "json_machine.h"

#include <string.h>

/* Answers of a model that has lost its thread: what no sensible answer needs is not let in. */
enum { MAX_INDENT = 16, MAX_DIGITS = 17 };

enum phase {
    START, /* before a value */
    OBJECT_FIRST,
    OBJECT_KEY,
    OBJECT_COLON,
    OBJECT_AFTER,
    OBJECT_NEXT,
    ARRAY_FIRST,
    ARRAY_AFTER,
    STRING_BODY,
    STRING_ESCAPE,
    CHOICE,
    NUMBER_MINUS,
    NUMBER_ZERO,
    NUMBER_WHOLE,
    NUMBER_POINT,
    NUMBER_FRACTION,
    NUMBER_E,
    NUMBER_SIGN,
    NUMBER_EXPONENT,
};

static machine_frame *top(json_machine *m) {
    return &m->frame[m->depth - 1];
}

static const schema_node *node_of(const json_machine *m, const machine_frame *f) {
    return &m->schema->nodes[f->node];
}

/* Whether a value of the node can come to its end below the frames that there are. */
static bool has_room(const json_machine *m, int node) {
    return m->depth + m->schema->nodes[node].depth <= MACHINE_DEPTH;
}

static bool push(json_machine *m, int node) {
    if (!has_room(m, node)) return false;
    m->frame[m->depth++] = (machine_frame){.node = (int16_t)node, .phase = START};
    return true;
}

static bool pop(json_machine *m) {
    m->depth--;
    return true;
}

void json_machine_start(json_machine *m, const schema *s) {
    m->schema = s;
    m->depth = 0;
    push(m, 1);
}

static bool may_close(const schema_node *n, const machine_frame *f);

/* White space as printers of JSON set it: one space, or a line's end and an indentation; the latter alone
 * before a closing bracket. *takes: this byte was white space, and allowed. */
static bool step_space(json_machine *m, machine_frame *f, unsigned char c, bool *takes) {
    bool after = f->phase == OBJECT_AFTER || f->phase == ARRAY_AFTER;
    *takes = c == ' ' || c == '\n';
    if (!*takes) {
        bool closes = c == '}' || c == ']';
        bool fits = !(after && f->n_space) || closes;
        f->n_space = 0;
        return fits;
    }
    if (f->phase == OBJECT_COLON || (f->phase == START && m->depth == 1)) return false;
    const schema_node *n = node_of(m, f);
    if (f->phase == OBJECT_AFTER && !may_close(n, f)) return false;
    if (f->phase == ARRAY_AFTER && (int64_t)f->at < n->min_items) return false;
    if (c == '\n') return f->n_space++ == 0;
    if (f->n_space == 0) f->n_space = after ? MAX_INDENT + 1 : MAX_INDENT;
    return ++f->n_space <= MAX_INDENT + 1;
}

static bool is_digit(unsigned char c) {
    return c >= '0' && c <= '9';
}

static bool is_hex(unsigned char c) {
    return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f');
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

/* Inside a string. f->at counts characters; *ends: the closing quote came. */
static bool string_byte(machine_frame *f, unsigned char c, bool *escape, bool *ends) {
    *ends = false;
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
    if (c < 0x20) return false;
    f->at++;
    *escape = c == '\\';
    return *escape || begin_character(f, c);
}

static bool step_string(json_machine *m, unsigned char c) {
    machine_frame *f = top(m);
    const schema_node *n = node_of(m, f);
    bool escape = f->phase == STRING_ESCAPE, ends;
    if (!string_byte(f, c, &escape, &ends)) return false;
    f->phase = escape ? STRING_ESCAPE : STRING_BODY;
    if (n->max_length >= 0 && (int64_t)f->at > n->max_length) return false;
    if (!ends) return true;
    return (int64_t)f->at >= n->min_length && pop(m);
}

/* ---------------------------------------------------------------- choices */

static bool choice_ends(const schema_node *n, const machine_frame *f) {
    for (size_t i = 0; i < n->n_choices; i++)
        if (f->mask >> i & 1 && strlen(n->choices[i]) == f->at) return true;
    return false;
}

static bool step_choice(json_machine *m, unsigned char c) {
    machine_frame *f = top(m);
    const schema_node *n = node_of(m, f);
    uint64_t mask = 0;
    for (size_t i = 0; i < n->n_choices; i++)
        if (f->mask >> i & 1 && (unsigned char)n->choices[i][f->at] == c && c) mask |= (uint64_t)1 << i;
    if (!mask) return choice_ends(n, f) && pop(m) && json_machine_step(m, c);
    f->mask = mask;
    f->at++;
    /* A text in quotes ends by itself, as do those that no other begins with. */
    bool longer = false;
    for (size_t i = 0; i < n->n_choices; i++) longer |= mask >> i & 1 && strlen(n->choices[i]) > f->at;
    return longer || pop(m);
}

/* true, false, null: their rest, as the bits of one fixed node. */
static const char *const words[] = {"true", "false", "null"};

static bool step_word(json_machine *m, unsigned char c) {
    machine_frame *f = top(m);
    const char *word = words[f->child];
    if ((unsigned char)word[f->at] != c) return false;
    return word[++f->at] || pop(m);
}

/* ---------------------------------------------------------------- numbers */

static bool number_may_end(const machine_frame *f) {
    return f->phase == NUMBER_ZERO || f->phase == NUMBER_WHOLE || f->phase == NUMBER_FRACTION ||
           f->phase == NUMBER_EXPONENT;
}

static bool to_phase(machine_frame *f, enum phase phase) {
    f->at = f->phase == phase ? f->at + 1 : 0;
    f->phase = (uint8_t)phase;
    return f->at < MAX_DIGITS;
}

static bool step_number(json_machine *m, unsigned char c) {
    machine_frame *f = top(m);
    bool whole_only = !(node_of(m, f)->types & SCHEMA_NUMBER);
    bool whole = f->phase == NUMBER_ZERO || f->phase == NUMBER_WHOLE;
    if (f->phase == NUMBER_MINUS && is_digit(c)) return to_phase(f, c == '0' ? NUMBER_ZERO : NUMBER_WHOLE);
    if (f->phase == NUMBER_WHOLE && is_digit(c)) return to_phase(f, NUMBER_WHOLE);
    if (!whole_only) {
        if (whole && c == '.') return to_phase(f, NUMBER_POINT);
        if ((f->phase == NUMBER_POINT || f->phase == NUMBER_FRACTION) && is_digit(c))
            return to_phase(f, NUMBER_FRACTION);
        if ((whole || f->phase == NUMBER_FRACTION) && (c | 32) == 'e') return to_phase(f, NUMBER_E);
        if (f->phase == NUMBER_E && (c == '+' || c == '-')) return to_phase(f, NUMBER_SIGN);
        if ((f->phase == NUMBER_E || f->phase == NUMBER_SIGN || f->phase == NUMBER_EXPONENT) && is_digit(c))
            return to_phase(f, NUMBER_EXPONENT) && f->at < 2;
    }
    if (!number_may_end(f)) return false;
    return pop(m) && json_machine_step(m, c);
}

/* ---------------------------------------------------------------- objects and arrays */

static bool begin_key(const json_machine *m, machine_frame *f, const schema_node *n) {
    f->phase = OBJECT_KEY;
    f->mask = ~f->seen;
    for (size_t i = 0; i < n->n_properties; i++)
        if (!has_room(m, n->properties[i].node)) f->mask &= ~((uint64_t)1 << i);
    f->at = 0;
    f->n_space = 0;
    f->child = -1;
    return true;
}

/* The key's quote came: which property it is. */
static bool end_key(json_machine *m, machine_frame *f, const schema_node *n, uint32_t length) {
    f->phase = OBJECT_COLON;
    f->child = (int16_t)n->other;
    for (size_t i = 0; i < n->n_properties; i++)
        if (f->mask >> i & 1 && n->properties[i].n == length) {
            f->seen |= (uint64_t)1 << i;
            f->child = (int16_t)n->properties[i].node;
        }
    (void)m;
    return f->child >= 0;
}

/* f->at counts bytes here, so that properties can be compared; the escape flag is phase's neighbour. */
static bool step_key(json_machine *m, unsigned char c) {
    machine_frame *f = top(m);
    const schema_node *n = node_of(m, f);
    uint32_t at = f->at;
    bool escape = f->n_space, ends;
    if (!string_byte(f, c, &escape, &ends)) return false;
    f->n_space = escape;
    f->at = at + 1;
    if (ends) {
        f->n_space = 0;
        return end_key(m, f, n, at);
    }
    for (size_t i = 0; i < n->n_properties; i++)
        if (f->mask >> i & 1 && (n->properties[i].n <= at || (unsigned char)n->properties[i].key[at] != c))
            f->mask &= ~((uint64_t)1 << i);
    uint64_t named = n->n_properties < 64 ? ((uint64_t)1 << n->n_properties) - 1 : ~(uint64_t)0;
    return (n->other >= 0 && has_room(m, n->other)) || (f->mask & named);
}

static bool may_close(const schema_node *n, const machine_frame *f) {
    return (n->required & ~f->seen) == 0;
}

/* Whether another property may come. */
static bool may_go_on(const json_machine *m, const schema_node *n, const machine_frame *f) {
    if (n->other >= 0 && has_room(m, n->other)) return true;
    for (size_t i = 0; i < n->n_properties; i++)
        if (!(f->seen >> i & 1) && has_room(m, n->properties[i].node)) return true;
    return false;
}

static bool step_object(json_machine *m, unsigned char c) {
    machine_frame *f = top(m);
    const schema_node *n = node_of(m, f);
    switch (f->phase) {
    case OBJECT_COLON:
        if (c != ':') return false;
        f->phase = OBJECT_AFTER;
        return push(m, f->child);
    case OBJECT_AFTER:
        if (c == '}') return may_close(n, f) && pop(m);
        f->phase = OBJECT_NEXT;
        return c == ',' && may_go_on(m, n, f);
    default: /* OBJECT_FIRST, OBJECT_NEXT */
        if (c == '}' && f->phase == OBJECT_FIRST) return may_close(n, f) && pop(m);
        return c == '"' && may_go_on(m, n, f) && begin_key(m, f, n);
    }
}

static bool step_array(json_machine *m, unsigned char c) {
    machine_frame *f = top(m);
    const schema_node *n = node_of(m, f);
    bool more = n->max_items < 0 || (int64_t)f->at < n->max_items;
    if (c == ']') return (int64_t)f->at >= n->min_items && pop(m);
    if (!more) return false;
    f->at++;
    if (f->phase == ARRAY_AFTER) return c == ',' && push(m, n->items);
    f->phase = ARRAY_AFTER;
    return push(m, n->items) && json_machine_step(m, c);
}

/* ---------------------------------------------------------------- values */

enum { WORD = 200 }; /* the phase of a word */

static bool begin_word(machine_frame *f, int word) {
    f->phase = WORD;
    f->child = (int16_t)word;
    f->at = 1;
    return true;
}

static bool begin_value(json_machine *m, unsigned char c) {
    machine_frame *f = top(m);
    int node = f->node;
    if (!schema_begins(m->schema, &node, MACHINE_DEPTH + 1 - m->depth, c)) return false;
    f->node = (int16_t)node;
    const schema_node *n = node_of(m, f);
    f->n_space = 0;
    if (n->choices) {
        f->phase = CHOICE;
        f->mask = n->n_choices < 64 ? ((uint64_t)1 << n->n_choices) - 1 : ~(uint64_t)0;
        return step_choice(m, c);
    }
    unsigned numbers = SCHEMA_NUMBER | SCHEMA_INTEGER;
    if (c == '{' && n->types & SCHEMA_OBJECT) return f->phase = OBJECT_FIRST, true;
    if (c == '[' && n->types & SCHEMA_ARRAY) return f->phase = ARRAY_FIRST, true;
    if (c == '"' && n->types & SCHEMA_STRING) return f->phase = STRING_BODY, true;
    if (c == '-' && n->types & numbers) return to_phase(f, NUMBER_MINUS);
    if (is_digit(c) && n->types & numbers) return to_phase(f, c == '0' ? NUMBER_ZERO : NUMBER_WHOLE);
    if ((c == 't' || c == 'f') && n->types & SCHEMA_BOOLEAN) return begin_word(f, c == 'f');
    return c == 'n' && n->types & SCHEMA_NULL && begin_word(f, 2);
}

static bool takes_space(const machine_frame *f) {
    return f->phase <= OBJECT_FIRST || f->phase == OBJECT_COLON || f->phase == OBJECT_AFTER ||
           f->phase == OBJECT_NEXT || f->phase == ARRAY_FIRST || f->phase == ARRAY_AFTER;
}

bool json_machine_step(json_machine *m, unsigned char c) {
    if (m->depth == 0) return false;
    machine_frame *f = top(m);
    if (takes_space(f)) {
        bool takes;
        if (!step_space(m, f, c, &takes)) return false;
        if (takes) return true;
    }
    if (f->phase == WORD) return step_word(m, c);
    switch ((enum phase)f->phase) {
    case START: return begin_value(m, c);
    case OBJECT_KEY: return step_key(m, c);
    case OBJECT_FIRST:
    case OBJECT_COLON:
    case OBJECT_AFTER:
    case OBJECT_NEXT: return step_object(m, c);
    case ARRAY_FIRST:
    case ARRAY_AFTER: return step_array(m, c);
    case STRING_BODY:
    case STRING_ESCAPE: return step_string(m, c);
    case CHOICE: return step_choice(m, c);
    default: return step_number(m, c);
    }
}

bool json_machine_may_end(const json_machine *m) {
    if (m->depth == 0) return true;
    const machine_frame *f = &m->frame[0];
    if (m->depth > 1) return false;
    if (f->phase == CHOICE) return choice_ends(&m->schema->nodes[f->node], f);
    return f->phase >= NUMBER_MINUS && f->phase <= NUMBER_EXPONENT && number_may_end(f);
}
