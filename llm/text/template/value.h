/* value.h - values of templates: Python's, as far as templates meet them. All live in a pool.
 *
 * Functions that make values return false, or a value of kind SAC_TMPL_MISSING, when the pool is full. */
#ifndef SAC_LLM_TEMPLATE_VALUE_H
#define SAC_LLM_TEMPLATE_VALUE_H

#include "pool.h"

#include <jansson.h>
#include <stdint.h>

typedef enum sac_tmpl_kind {
    SAC_TMPL_MISSING, /* no value at all: an argument that was not given, a pool that is full */
    SAC_TMPL_UNDEFINED,
    SAC_TMPL_NONE,
    SAC_TMPL_BOOL,
    SAC_TMPL_INT,
    SAC_TMPL_FLOAT,
    SAC_TMPL_STRING,
    SAC_TMPL_LIST, /* from here to RANGE: .list */
    SAC_TMPL_TUPLE,
    SAC_TMPL_VIEW, /* keys(), values(), items() */
    SAC_TMPL_RANGE,
    SAC_TMPL_ITERATOR, /* what map, select, reverse ... give: passed over once */
    SAC_TMPL_DICT,
    SAC_TMPL_NAMESPACE, /* .dict */
    SAC_TMPL_FUNCTION,  /* a macro, a method with its object, range, cycler ... */
    SAC_TMPL_LOOP,
} sac_tmpl_kind;

/* UTF-8. marks[i] != 0: byte i is the user's; NULL: all bytes are as `is_user` says. */
typedef struct sac_tmpl_string {
    const char *bytes;
    const uint8_t *marks;
    size_t n_bytes;
    bool is_user;
    bool is_markup; /* made by the filters safe and escape: plain text that is added to it is escaped first */
} sac_tmpl_string;

/* What is told when an undefined value is used. */
typedef struct sac_tmpl_absence {
    const char *name; /* "x" of x, d.x, d["x"]; NULL: `what` alone */
    size_t n_bytes;
    const char *what; /* "is undefined", or the object's: "dict object" has no attribute "x" */
    bool is_unsafe;   /* an attribute that the sandbox keeps off, such as list.append */
} sac_tmpl_absence;

typedef struct sac_tmpl_value {
    sac_tmpl_kind kind;
    union {
        bool truth;
        int64_t integer;
        double real;
        const sac_tmpl_string *string;
        struct sac_tmpl_list *list;
        struct sac_tmpl_dict *dict;
        struct sac_tmpl_iterator *iterator;
        const struct sac_tmpl_function *function;
        struct sac_tmpl_loop *loop;
        const sac_tmpl_absence *absence; /* or NULL */
    };
} sac_tmpl_value;

typedef struct sac_tmpl_list {
    sac_tmpl_value *items;
    size_t n, capacity;
    const char *type;     /* of a view: "dict_keys" ...; of what groupby makes, a tuple: "group" */
    const int64_t *range; /* of a range: start, stop, step */
} sac_tmpl_list;

typedef struct sac_tmpl_dict {
    sac_tmpl_value *keys, *values; /* in the order of their first setting */
    size_t n, capacity;
} sac_tmpl_dict;

typedef struct sac_tmpl_args {
    const sac_tmpl_value *items;
    size_t n;
    const sac_tmpl_dict *named; /* or NULL */
} sac_tmpl_args;

typedef struct sac_tmpl_run sac_tmpl_run;

typedef struct sac_tmpl_function {
    const char *name; /* NULL: a macro without a name, such as caller */
    bool is_macro;
    sac_tmpl_value self;
    const void *data;
    /* A sac_status; int here so that this header needs no other. */
    int (*call)(sac_tmpl_run *r, const struct sac_tmpl_function *f, const sac_tmpl_args *a,
                sac_tmpl_value *out);
} sac_tmpl_function;

/* A way over the items of a value (iterate.h). */
typedef struct sac_tmpl_walk {
    sac_tmpl_value over;
    size_t at; /* items that have been given out; bytes of a text */
} sac_tmpl_walk;

/* As Python's generators, an item is made when it is asked for: an item that nobody asks for cannot fail. */
typedef struct sac_tmpl_iterator {
    /* The next item, or MISSING behind the last; a sac_status. `it` is the first member of what the maker keeps. */
    int (*next)(sac_tmpl_run *r, struct sac_tmpl_iterator *it, sac_tmpl_value *item);
} sac_tmpl_iterator;

/* The loop of {% for %}, of the innermost iteration under way. It looks at most one item ahead, unless it is asked
 * for the length of what has none. */
typedef struct sac_tmpl_loop {
    sac_tmpl_walk walk;
    sac_tmpl_value previous, current, ahead; /* ahead: MISSING when it was not looked at */
    int64_t index;                           /* from 0 */
    int64_t length;                          /* -1: not known yet */
    int64_t depth;
    sac_tmpl_value last_changed; /* a tuple, or MISSING */
    sac_tmpl_value recurse;      /* a function, or MISSING */
} sac_tmpl_loop;

#define SAC_TMPL_VALUE_NONE ((sac_tmpl_value){.kind = SAC_TMPL_NONE})

static inline sac_tmpl_value sac_tmpl_bool(bool truth) {
    return (sac_tmpl_value){.kind = SAC_TMPL_BOOL, .truth = truth};
}
static inline sac_tmpl_value sac_tmpl_int(int64_t i) {
    return (sac_tmpl_value){.kind = SAC_TMPL_INT, .integer = i};
}
static inline sac_tmpl_value sac_tmpl_float(double f) {
    return (sac_tmpl_value){.kind = SAC_TMPL_FLOAT, .real = f};
}
static inline bool sac_tmpl_is_list(sac_tmpl_value v) { /* a list in any of its kinds */
    return v.kind >= SAC_TMPL_LIST && v.kind <= SAC_TMPL_RANGE;
}

/* The text is borrowed; it must be valid UTF-8. */
sac_tmpl_value sac_tmpl_text(sac_tmpl_pool *p, const char *bytes, size_t n_bytes, bool is_user);
sac_tmpl_value sac_tmpl_name(sac_tmpl_pool *p, const char *text); /* NUL-terminated, the template's */
sac_tmpl_value sac_tmpl_string_value(sac_tmpl_pool *p, sac_tmpl_string s);

sac_tmpl_value sac_tmpl_list_new(sac_tmpl_pool *p, sac_tmpl_kind kind, size_t capacity);
bool sac_tmpl_list_add(sac_tmpl_pool *p, sac_tmpl_list *list, sac_tmpl_value v);

sac_tmpl_value sac_tmpl_dict_new(sac_tmpl_pool *p, size_t capacity);
/* Replaces the value of an equal key. */
bool sac_tmpl_dict_set(sac_tmpl_pool *p, sac_tmpl_dict *d, sac_tmpl_value key, sac_tmpl_value value);
bool sac_tmpl_dict_set_name(sac_tmpl_pool *p, sac_tmpl_dict *d, const char *key, sac_tmpl_value value);
/* The value under an equal key, or NULL. */
sac_tmpl_value *sac_tmpl_dict_find(sac_tmpl_pool *p, const sac_tmpl_dict *d, sac_tmpl_value key);
sac_tmpl_value *sac_tmpl_dict_find_name(const sac_tmpl_dict *d, const char *key, size_t n_bytes);

/* Python's ==. What is compared is counted in p->work; beyond the depth or number of values that a rendering could
 * pay for the answer is false and p->work so large that the rendering fails. */
bool sac_tmpl_equal(sac_tmpl_pool *p, sac_tmpl_value a, sac_tmpl_value b);
bool sac_tmpl_string_is(const sac_tmpl_string *s, const char *text);

/* Values of a JSON tree; strings are copied and are the user's or the template's. */
sac_tmpl_value sac_tmpl_from_json(sac_tmpl_pool *p, const json_t *json, bool is_user);

#endif
