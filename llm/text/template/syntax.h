/* syntax.h - a template as tokens and as a tree. */
#ifndef SAC_LLM_TEMPLATE_SYNTAX_H
#define SAC_LLM_TEMPLATE_SYNTAX_H

#include "status.h"
#include "value.h"

#include <stdarg.h>

/* clang-format off */
typedef enum sac_token_kind {
    SAC_LEX_END, SAC_LEX_DATA, SAC_LEX_BLOCK_BEGIN, SAC_LEX_BLOCK_END, SAC_LEX_VARIABLE_BEGIN, SAC_LEX_VARIABLE_END,
    SAC_LEX_NAME, SAC_LEX_STRING, SAC_LEX_INT, SAC_LEX_FLOAT,
    SAC_LEX_ADD, SAC_LEX_SUB, SAC_LEX_DIV, SAC_LEX_FLOORDIV, SAC_LEX_MUL, SAC_LEX_MOD, SAC_LEX_POW, SAC_LEX_TILDE,
    SAC_LEX_LBRACKET, SAC_LEX_RBRACKET, SAC_LEX_LPAREN, SAC_LEX_RPAREN, SAC_LEX_LBRACE, SAC_LEX_RBRACE,
    SAC_LEX_EQ, SAC_LEX_NE, SAC_LEX_GT, SAC_LEX_GE, SAC_LEX_LT, SAC_LEX_LE, SAC_LEX_IN, SAC_LEX_NOT_IN,
    SAC_LEX_ASSIGN, SAC_LEX_DOT, SAC_LEX_COLON, SAC_LEX_PIPE, SAC_LEX_COMMA, SAC_LEX_SEMICOLON,
} sac_token_kind;
/* clang-format on */

typedef struct sac_lex_token {
    sac_token_kind kind;
    int line;
    const char *text; /* of DATA, NAME, STRING (its value), and as written for the others */
    size_t n_bytes;
    union {
        int64_t integer;
        double real;
    };
} sac_lex_token;

/* What one call of sac_template_open shares. */
typedef struct sac_tmpl_source {
    const char *name, *text;
    size_t n_bytes;
    sac_tmpl_pool *pool;
    sac_error *err;
    const sac_lex_token *tokens; /* the last is END */
    size_t n_tokens;
    const char **names; /* interned by the parser */
    size_t n_names;
} sac_tmpl_source;

/* BAD_FILE: "NAME line N: ..." */
sac_status sac_tmpl_source_fail(const sac_tmpl_source *s, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
sac_status sac_tmpl_source_full(const sac_tmpl_source *s);

sac_status sac_tmpl_lex(sac_tmpl_source *s);

/* ---- the tree: what `a`, `b`, `c`, `items` and `more` are stands behind each kind ---- */
typedef enum sac_node_kind {
    /* expressions */
    SAC_NODE_CONST,   /* value */
    SAC_NODE_NAME,    /* name */
    SAC_NODE_LIST,    /* items */
    SAC_NODE_TUPLE,   /* items; as a target, too */
    SAC_NODE_DICT,    /* items: keys, more: values */
    SAC_NODE_ATTR,    /* a.name */
    SAC_NODE_ITEM,    /* a[b] */
    SAC_NODE_SLICE,   /* a:b:c, each may be NULL; only as b of ITEM */
    SAC_NODE_CALL,    /* a(call) */
    SAC_NODE_FILTER,  /* a | name(call); a is NULL in {% filter %} and {% set %} */
    SAC_NODE_TEST,    /* a is name(call) */
    SAC_NODE_NOT,     /* not a */
    SAC_NODE_NEG,     /* -a */
    SAC_NODE_POS,     /* +a */
    SAC_NODE_BINARY,  /* a op b */
    SAC_NODE_CONCAT,  /* items, with ~ between */
    SAC_NODE_COMPARE, /* items[0] ops[0] items[1] ops[1] ... */
    SAC_NODE_AND,
    SAC_NODE_OR,      /* a, b */
    SAC_NODE_IF_ELSE, /* b if a else c; c may be NULL */
    SAC_NODE_NS_ATTR, /* namespace `name`, attribute of value; a target */
    /* statements */
    SAC_NODE_DATA,         /* value */
    SAC_NODE_PRINT,        /* items */
    SAC_NODE_IF,           /* a; items; otherwise more */
    SAC_NODE_FOR,          /* for a in b if c; items; otherwise more; flag: recursive */
    SAC_NODE_SET,          /* a = b */
    SAC_NODE_SET_BLOCK,    /* a; filter b or NULL; items */
    SAC_NODE_MACRO,        /* name; signature; items */
    SAC_NODE_CALL_BLOCK,   /* a: the CALL; signature; items */
    SAC_NODE_FILTER_BLOCK, /* a: the FILTER; items */
    SAC_NODE_GENERATION,   /* signature; items */
    SAC_NODE_WITH,         /* targets: more, their values in a's items; items: the body */
    SAC_NODE_BREAK,
    SAC_NODE_CONTINUE,
} sac_node_kind;

typedef struct sac_tmpl_node sac_tmpl_node;

typedef struct sac_tmpl_nodes {
    sac_tmpl_node **items;
    size_t n;
} sac_tmpl_nodes;

typedef struct sac_tmpl_call {
    sac_tmpl_nodes items, named; /* named[i] is under names[i] */
    const char **names;
    sac_tmpl_node *rest, *named_rest; /* *rest, **named_rest, or NULL */
} sac_tmpl_call;

/* ---- where names live: scope.c. A function (the template, a macro, the body of a call, a recursive loop) has a
 * frame of slots when it runs; its scopes share it. ---- */
typedef struct sac_tmpl_place {
    int hops, slot; /* the frame so many functions out; slot -1: none */
    bool is_given;  /* a parameter, or what a for goes over, of a function around */
} sac_tmpl_place;

typedef enum sac_load_kind {
    SAC_LOAD_NOTHING,  /* a parameter: who enters the scope sets it */
    SAC_LOAD_MISSING,  /* undefined until it is set */
    SAC_LOAD_VARIABLE, /* the rendering's variable, or a global function */
    SAC_LOAD_OUTER,    /* a copy of the name of an outer scope */
} sac_load_kind;

typedef struct sac_tmpl_load {
    const char *name;
    sac_load_kind kind;
    int slot;
    sac_tmpl_place from; /* of OUTER */
} sac_tmpl_load;

typedef struct sac_tmpl_scope {
    sac_tmpl_load *loads; /* done whenever the scope is entered */
    size_t n, capacity;
    struct sac_tmpl_slots *slots; /* of its function */
} sac_tmpl_scope;

typedef struct sac_tmpl_slots {
    int n, capacity;
    const struct sac_tmpl_slot *names;
} sac_tmpl_slots;

typedef struct sac_tmpl_signature {
    const char **names;
    sac_tmpl_nodes defaults; /* of the last names */
    size_t n;
    int *slots;                /* of the names */
    int rest, named, caller;   /* slots of varargs, kwargs, caller where the body reads them, or -1 */
    bool has_caller_parameter; /* caller is among the names */
    bool reads_caller;
} sac_tmpl_signature;

struct sac_tmpl_node {
    sac_node_kind kind;
    int line;
    int op;           /* of BINARY: a sac_token_kind */
    bool flag;        /* of NAME: it is set here; of ITEM: a slice of a constant */
    const char *name; /* interned: equal names are one pointer */
    sac_tmpl_value value;
    sac_tmpl_node *a, *b, *c;
    sac_tmpl_nodes items, more;
    const int *ops; /* of COMPARE */
    sac_tmpl_call *call;
    sac_tmpl_signature *signature;
    sac_tmpl_place place; /* of NAME, MACRO, NS_ATTR; of FOR: of loop, if the body reads it */
    sac_tmpl_scope *scope, *else_scope, *test_scope; /* of what opens scopes; the latter two of FOR */
    struct sac_tmpl_node *test_target; /* of FOR with a condition: `a` in the frame of the condition */
    const struct sac_tmpl_spec *spec;  /* of FILTER and TEST; NULL: not known, an error when it is run */
};

typedef struct sac_tmpl_parser {
    sac_tmpl_source *s;
    size_t at;
    int depth, loops;
    const char **names; /* interned */
    size_t n_names, names_capacity;
    sac_status status;
    /* sac_tmpl_parse_expression: here because values hold expressions, and expressions values. */
    struct sac_tmpl_node *(*expression)(struct sac_tmpl_parser *p, bool with_if);
} sac_tmpl_parser;

/* ---- parser.c; NULL (or false) after a failure, which p->status holds ---- */
const sac_lex_token *sac_tmpl_peek(const sac_tmpl_parser *p);
const sac_lex_token *sac_tmpl_look(const sac_tmpl_parser *p); /* the one behind it */
const sac_lex_token *sac_tmpl_next(sac_tmpl_parser *p);
bool sac_tmpl_is_name(const sac_lex_token *t, const char *name);
bool sac_tmpl_skip_name(sac_tmpl_parser *p, const char *name);
bool sac_tmpl_skip(sac_tmpl_parser *p, sac_token_kind kind);
bool sac_tmpl_expect(sac_tmpl_parser *p, sac_token_kind kind, const char *what);
/* Whether Jinja's optimizer may know the value before the template runs. */
bool sac_tmpl_is_constant(const sac_tmpl_node *n);
bool sac_tmpl_expect_name(sac_tmpl_parser *p, const char **name);
/* Names with dots between them, as filters and tests may have. */
bool sac_tmpl_expect_path(sac_tmpl_parser *p, const char **name);
const char *sac_tmpl_intern(sac_tmpl_parser *p, const char *text, size_t n_bytes);
void *sac_tmpl_refuse(sac_tmpl_parser *p, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void *sac_tmpl_unexpected(sac_tmpl_parser *p, const char *wanted); /* names what stands there instead */
void *sac_tmpl_parser_full(sac_tmpl_parser *p);
sac_tmpl_node *sac_tmpl_node_new(sac_tmpl_parser *p, sac_node_kind kind, int line);
bool sac_tmpl_nodes_add(sac_tmpl_parser *p, sac_tmpl_nodes *list, sac_tmpl_node *node);

/* One more level of nesting; false when there are too many. */
bool sac_tmpl_enter(sac_tmpl_parser *p);

/* ---- parse_value.c ---- */

/* A value with a sign before it and all that is behind it; with_filter: filters and tests, too. */
sac_tmpl_node *sac_tmpl_parse_unary(sac_tmpl_parser *p, bool with_filter);
/* Expressions with commas between are a tuple. */
sac_tmpl_node *sac_tmpl_parse_tuple(sac_tmpl_parser *p, bool with_if);
sac_tmpl_node *sac_tmpl_parse_target(sac_tmpl_parser *p, bool with_attribute);
/* `| name(...)` again and again; `inline_first`: the first comes without its bar. */
sac_tmpl_node *sac_tmpl_parse_filters(sac_tmpl_parser *p, sac_tmpl_node *of, bool inline_first);

/* ---- parse_expression.c ---- */
sac_tmpl_node *sac_tmpl_parse_expression(sac_tmpl_parser *p, bool with_if);

/* ---- parse.c: the whole template as one node with items, or NULL ---- */
sac_tmpl_node *sac_tmpl_parse(sac_tmpl_parser *p);

/* ---- scope.c: gives every name its place and every filter and test its function ---- */
sac_status sac_tmpl_find_scopes(sac_tmpl_source *s, sac_tmpl_node *root);

#endif
