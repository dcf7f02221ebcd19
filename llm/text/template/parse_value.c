/* parse_value.c - values, targets of set and for, and what is behind a value: .x [x] (x) | filter is test. */
#include "syntax.h"
#include "tmpl_run.h"

#include <string.h>

/* ---- values ---- */

static sac_tmpl_node *constant(sac_tmpl_parser *p, int line, sac_tmpl_value value) {
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_CONST, line);
    if (value.kind == SAC_TMPL_MISSING) return sac_tmpl_parser_full(p);
    if (n) n->value = value;
    return n;
}

/* Strings side by side are one. */
static sac_tmpl_node *parse_strings(sac_tmpl_parser *p) {
    const sac_lex_token *first = sac_tmpl_peek(p);
    size_t n = 0;
    for (size_t i = p->at; p->s->tokens[i].kind == SAC_LEX_STRING; i++) n += p->s->tokens[i].n_bytes;
    char *text = sac_tmpl_take(p->s->pool, n), *to = text;
    if (!text) return sac_tmpl_parser_full(p);
    for (; sac_tmpl_peek(p)->kind == SAC_LEX_STRING; to += sac_tmpl_next(p)->n_bytes)
        memcpy(to, sac_tmpl_peek(p)->text, sac_tmpl_peek(p)->n_bytes);
    return constant(p, first->line, sac_tmpl_text(p->s->pool, text, n, false));
}

static sac_tmpl_node *parse_name(sac_tmpl_parser *p) {
    const sac_lex_token *t = sac_tmpl_next(p);
    if (sac_tmpl_is_name(t, "true") || sac_tmpl_is_name(t, "True"))
        return constant(p, t->line, sac_tmpl_bool(true));
    if (sac_tmpl_is_name(t, "false") || sac_tmpl_is_name(t, "False"))
        return constant(p, t->line, sac_tmpl_bool(false));
    if (sac_tmpl_is_name(t, "none") || sac_tmpl_is_name(t, "None"))
        return constant(p, t->line, SAC_TMPL_VALUE_NONE);
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_NAME, t->line);
    if (n) n->name = sac_tmpl_intern(p, t->text, t->n_bytes);
    return n && n->name ? n : NULL;
}

static sac_tmpl_node *parse_list(sac_tmpl_parser *p) {
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_LIST, sac_tmpl_next(p)->line);
    while (n && sac_tmpl_peek(p)->kind != SAC_LEX_RBRACKET) {
        if (n->items.n && !sac_tmpl_expect(p, SAC_LEX_COMMA, "a comma or ]")) return NULL;
        if (sac_tmpl_peek(p)->kind == SAC_LEX_RBRACKET) break;
        if (!sac_tmpl_nodes_add(p, &n->items, p->expression(p, true))) return NULL;
    }
    return n && sac_tmpl_expect(p, SAC_LEX_RBRACKET, "]") ? n : NULL;
}

static sac_tmpl_node *parse_dict(sac_tmpl_parser *p) {
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_DICT, sac_tmpl_next(p)->line);
    while (n && sac_tmpl_peek(p)->kind != SAC_LEX_RBRACE) {
        if (n->items.n && !sac_tmpl_expect(p, SAC_LEX_COMMA, "a comma or }")) return NULL;
        if (sac_tmpl_peek(p)->kind == SAC_LEX_RBRACE) break;
        if (!sac_tmpl_nodes_add(p, &n->items, p->expression(p, true)) ||
            !sac_tmpl_expect(p, SAC_LEX_COLON, ":") ||
            !sac_tmpl_nodes_add(p, &n->more, p->expression(p, true)))
            return NULL;
    }
    return n && sac_tmpl_expect(p, SAC_LEX_RBRACE, "}") ? n : NULL;
}

/* What can begin a tuple's next element, as Jinja's is_tuple_end asks. */
static bool tuple_ends(const sac_tmpl_parser *p) {
    const sac_lex_token *t = sac_tmpl_peek(p);
    return t->kind == SAC_LEX_VARIABLE_END || t->kind == SAC_LEX_BLOCK_END || t->kind == SAC_LEX_RPAREN;
}

static sac_tmpl_node *parse_primary(sac_tmpl_parser *p);

static sac_tmpl_node *tuple_of(sac_tmpl_parser *p, sac_tmpl_node *(*element)(sac_tmpl_parser *p),
                               bool may_be_empty) {
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_TUPLE, sac_tmpl_peek(p)->line);
    bool is_tuple = false;
    while (n) {
        if (n->items.n && !sac_tmpl_expect(p, SAC_LEX_COMMA, "a comma")) return NULL;
        if (tuple_ends(p)) break;
        if (!sac_tmpl_nodes_add(p, &n->items, element(p))) return NULL;
        if (sac_tmpl_peek(p)->kind != SAC_LEX_COMMA) break;
        is_tuple = true;
    }
    if (!n || is_tuple) return n;
    if (n->items.n) return n->items.items[0];
    return may_be_empty ? n : sac_tmpl_unexpected(p, "an expression");
}

static sac_tmpl_node *full_expression(sac_tmpl_parser *p) {
    return p->expression(p, true);
}
static sac_tmpl_node *short_expression(sac_tmpl_parser *p) {
    return p->expression(p, false);
}

sac_tmpl_node *sac_tmpl_parse_tuple(sac_tmpl_parser *p, bool with_if) {
    return tuple_of(p, with_if ? full_expression : short_expression, false);
}

static sac_tmpl_node *parse_primary(sac_tmpl_parser *p) {
    const sac_lex_token *t = sac_tmpl_peek(p);
    sac_tmpl_node *n;
    switch (t->kind) {
    case SAC_LEX_NAME: return parse_name(p);
    case SAC_LEX_STRING: return parse_strings(p);
    case SAC_LEX_INT: return constant(p, t->line, sac_tmpl_int(sac_tmpl_next(p)->integer));
    case SAC_LEX_FLOAT: return constant(p, t->line, sac_tmpl_float(sac_tmpl_next(p)->real));
    case SAC_LEX_LBRACKET: return parse_list(p);
    case SAC_LEX_LBRACE: return parse_dict(p);
    case SAC_LEX_LPAREN:
        sac_tmpl_next(p);
        if (!sac_tmpl_enter(p)) return NULL;
        n = tuple_of(p, full_expression, true);
        p->depth--;
        return n && sac_tmpl_expect(p, SAC_LEX_RPAREN, ")") ? n : NULL;
    default: return sac_tmpl_unexpected(p, "a value");
    }
}

/* ---- targets of set and for ---- */

static sac_tmpl_node *target_with_attribute(sac_tmpl_parser *p) {
    const sac_lex_token *t = sac_tmpl_peek(p);
    if (t->kind != SAC_LEX_NAME || sac_tmpl_look(p)->kind != SAC_LEX_DOT) return parse_primary(p);
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_NS_ATTR, t->line);
    if (!n || !sac_tmpl_expect_name(p, &n->name)) return NULL;
    sac_tmpl_next(p);
    const sac_lex_token *attribute = sac_tmpl_peek(p);
    const char *unused;
    if (!sac_tmpl_expect_name(p, &unused)) return NULL;
    n->value = sac_tmpl_text(p->s->pool, attribute->text, attribute->n_bytes, false);
    return n->value.kind == SAC_TMPL_MISSING ? sac_tmpl_parser_full(p) : n;
}

/* Names become names that are set. */
static bool can_assign(sac_tmpl_node *n) {
    n->flag = n->kind == SAC_NODE_NAME;
    if (n->kind == SAC_NODE_TUPLE) {
        for (size_t i = 0; i < n->items.n; i++)
            if (!can_assign(n->items.items[i])) return false;
        return true;
    }
    return n->kind == SAC_NODE_NAME || n->kind == SAC_NODE_NS_ATTR;
}

sac_tmpl_node *sac_tmpl_parse_target(sac_tmpl_parser *p, bool with_attribute) {
    sac_tmpl_node *n = tuple_of(p, with_attribute ? target_with_attribute : parse_primary, false);
    if (n && !can_assign(n)) return sac_tmpl_refuse(p, n->line, "a value cannot be set: give a name");
    return n;
}

/* ---- behind a value ---- */

static sac_tmpl_node *parse_subscript_part(sac_tmpl_parser *p) {
    int line = sac_tmpl_peek(p)->line;
    sac_tmpl_node *first = NULL;
    if (sac_tmpl_peek(p)->kind != SAC_LEX_COLON) {
        first = p->expression(p, true);
        if (!first || sac_tmpl_peek(p)->kind != SAC_LEX_COLON) return first;
    }
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_SLICE, line);
    if (!n) return NULL;
    n->a = first;
    sac_tmpl_node **parts[] = {&n->b, &n->c};
    for (int i = 0; i < 2 && sac_tmpl_skip(p, SAC_LEX_COLON); i++) {
        sac_token_kind k = sac_tmpl_peek(p)->kind;
        if (k == SAC_LEX_COLON || k == SAC_LEX_RBRACKET || k == SAC_LEX_COMMA) continue;
        *parts[i] = p->expression(p, true);
        if (!*parts[i]) return NULL;
    }
    return n;
}

bool sac_tmpl_is_constant(const sac_tmpl_node *n) {
    if (!n) return true;
    if (n->kind == SAC_NODE_NAME || n->kind == SAC_NODE_CALL) return false;
    bool is_if = n->kind == SAC_NODE_IF_ELSE;
    if ((is_if || n->kind == SAC_NODE_AND || n->kind == SAC_NODE_OR) && n->a->kind == SAC_NODE_CONST) {
        bool holds = sac_tmpl_truth(n->a->value); /* decides what runs */
        if (is_if) return holds ? sac_tmpl_is_constant(n->b) : n->c && sac_tmpl_is_constant(n->c);
        return holds == (n->kind == SAC_NODE_OR) || sac_tmpl_is_constant(n->b);
    }
    for (size_t i = 0; i < n->items.n; i++)
        if (!sac_tmpl_is_constant(n->items.items[i])) return false;
    for (size_t i = 0; i < n->more.n; i++)
        if (!sac_tmpl_is_constant(n->more.items[i])) return false;
    return sac_tmpl_is_constant(n->a) && sac_tmpl_is_constant(n->b) && sac_tmpl_is_constant(n->c);
}

static sac_tmpl_node *parse_subscript(sac_tmpl_parser *p, sac_tmpl_node *of) {
    const sac_lex_token *t = sac_tmpl_next(p), *name = sac_tmpl_peek(p);
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_ITEM, t->line);
    if (!n) return NULL;
    n->a = of;
    if (t->kind == SAC_LEX_DOT) {
        if (name->kind == SAC_LEX_INT) {
            n->b = constant(p, name->line, sac_tmpl_int(sac_tmpl_next(p)->integer));
            return n->b ? n : NULL;
        }
        n->kind = SAC_NODE_ATTR;
        return sac_tmpl_expect_name(p, &n->name) ? n : NULL;
    }
    sac_tmpl_nodes parts = {0};
    while (sac_tmpl_peek(p)->kind != SAC_LEX_RBRACKET) {
        if (parts.n && !sac_tmpl_expect(p, SAC_LEX_COMMA, "]")) return NULL;
        if (!sac_tmpl_nodes_add(p, &parts, parse_subscript_part(p))) return NULL;
    }
    sac_tmpl_next(p);
    if (parts.n == 1) {
        n->b = parts.items[0];
        n->flag = n->b->kind == SAC_NODE_SLICE && sac_tmpl_is_constant(of);
        return n;
    }
    n->b = sac_tmpl_node_new(p, SAC_NODE_TUPLE, t->line); /* x[] and x[1, 2] */
    if (!n->b) return NULL;
    n->b->items = parts;
    for (size_t i = 0; i < parts.n; i++)
        if (parts.items[i]->kind == SAC_NODE_SLICE)
            return sac_tmpl_refuse(p, t->line, "[] takes one slice and nothing else");
    return n;
}

static bool add_named(sac_tmpl_parser *p, sac_tmpl_call *call, const char *name, sac_tmpl_node *value) {
    size_t n = call->named.n;
    for (size_t i = 0; i < n; i++)
        if (call->names[i] == name)
            return sac_tmpl_refuse(p, sac_tmpl_peek(p)->line, "keyword argument '%.40s' is repeated", name) !=
                   NULL;
    const char **names = sac_tmpl_grow(p->s->pool, call->names, n * sizeof *names, (n + 1) * sizeof *names);
    if (!names) return sac_tmpl_parser_full(p) != NULL;
    names[n] = name;
    call->names = names;
    return sac_tmpl_nodes_add(p, &call->named, value);
}

static bool parse_argument(sac_tmpl_parser *p, sac_tmpl_call *call, int line) {
    const char *name;
    bool ok = !call->named_rest;
    if (sac_tmpl_skip(p, SAC_LEX_MUL)) {
        ok = ok && !call->rest;
        call->rest = p->expression(p, true);
        if (!call->rest) return false;
    } else if (sac_tmpl_skip(p, SAC_LEX_POW)) {
        call->named_rest = p->expression(p, true);
        if (!call->named_rest) return false;
    } else if (sac_tmpl_peek(p)->kind == SAC_LEX_NAME && sac_tmpl_look(p)->kind == SAC_LEX_ASSIGN) {
        if (!sac_tmpl_expect_name(p, &name)) return false;
        sac_tmpl_next(p);
        sac_tmpl_node *value = p->expression(p, true);
        if (!value || !add_named(p, call, name, value)) return false;
    } else {
        ok = ok && !call->rest && !call->named.n;
        if (!sac_tmpl_nodes_add(p, &call->items, p->expression(p, true))) return false;
    }
    return ok || sac_tmpl_refuse(p, line, "arguments of a call are out of order") != NULL;
}

static sac_tmpl_call *parse_arguments(sac_tmpl_parser *p) {
    sac_tmpl_call *call = sac_tmpl_take_zeroed(p->s->pool, sizeof *call);
    if (!call) return sac_tmpl_parser_full(p);
    int line = sac_tmpl_peek(p)->line;
    if (!sac_tmpl_skip(p, SAC_LEX_LPAREN)) return call;
    for (bool first = true; sac_tmpl_peek(p)->kind != SAC_LEX_RPAREN; first = false) {
        if (!first && !sac_tmpl_expect(p, SAC_LEX_COMMA, "a comma or )")) return NULL;
        if (!first && sac_tmpl_peek(p)->kind == SAC_LEX_RPAREN) break;
        if (!parse_argument(p, call, line)) return NULL;
    }
    sac_tmpl_next(p);
    return call;
}

static sac_tmpl_node *parse_call(sac_tmpl_parser *p, sac_tmpl_node *of) {
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_CALL, sac_tmpl_peek(p)->line);
    if (!n) return NULL;
    n->a = of;
    n->call = parse_arguments(p);
    return n->call ? n : NULL;
}

sac_tmpl_node *sac_tmpl_parse_filters(sac_tmpl_parser *p, sac_tmpl_node *of, bool inline_first) {
    sac_tmpl_node *last = of;
    while (inline_first || sac_tmpl_skip(p, SAC_LEX_PIPE)) {
        sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_FILTER, sac_tmpl_peek(p)->line);
        if (!n || !sac_tmpl_expect_path(p, &n->name)) return NULL;
        n->a = last;
        n->call = parse_arguments(p);
        if (!n->call) return NULL;
        last = n;
        inline_first = false;
    }
    return last;
}

/* Jinja's own rule: a test may take one argument without parentheses. */
static bool begins_argument(const sac_lex_token *t) {
    switch (t->kind) {
    case SAC_LEX_NAME:
        return !sac_tmpl_is_name(t, "else") && !sac_tmpl_is_name(t, "or") && !sac_tmpl_is_name(t, "and");
    case SAC_LEX_STRING:
    case SAC_LEX_INT:
    case SAC_LEX_FLOAT:
    case SAC_LEX_LBRACKET:
    case SAC_LEX_LBRACE: return true;
    default: return false;
    }
}

static sac_tmpl_node *parse_postfix(sac_tmpl_parser *p, sac_tmpl_node *n) {
    for (;;) {
        sac_token_kind k = sac_tmpl_peek(p)->kind;
        if (!n) return NULL;
        if (k == SAC_LEX_DOT || k == SAC_LEX_LBRACKET)
            n = parse_subscript(p, n);
        else if (k == SAC_LEX_LPAREN)
            n = parse_call(p, n);
        else
            return n;
    }
}

static sac_tmpl_node *parse_test(sac_tmpl_parser *p, sac_tmpl_node *of) {
    int line = sac_tmpl_next(p)->line;
    bool negated = sac_tmpl_skip_name(p, "not");
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_TEST, line);
    if (!n || !sac_tmpl_expect_path(p, &n->name)) return NULL;
    n->a = of;
    if (sac_tmpl_peek(p)->kind != SAC_LEX_LPAREN && begins_argument(sac_tmpl_peek(p))) {
        if (sac_tmpl_is_name(sac_tmpl_peek(p), "is"))
            return sac_tmpl_refuse(p, line, "tests cannot be chained with is");
        sac_tmpl_call *call = sac_tmpl_take_zeroed(p->s->pool, sizeof *call);
        if (!call) return sac_tmpl_parser_full(p);
        if (!sac_tmpl_nodes_add(p, &call->items, parse_postfix(p, parse_primary(p)))) return NULL;
        n->call = call;
    } else
        n->call = parse_arguments(p);
    if (!n->call || !negated) return n->call ? n : NULL;
    sac_tmpl_node *negation = sac_tmpl_node_new(p, SAC_NODE_NOT, line);
    if (negation) negation->a = n;
    return negation;
}

static sac_tmpl_node *parse_filters_and_tests(sac_tmpl_parser *p, sac_tmpl_node *n) {
    for (;;) {
        const sac_lex_token *t = sac_tmpl_peek(p);
        if (!n) return NULL;
        if (t->kind == SAC_LEX_PIPE)
            n = sac_tmpl_parse_filters(p, n, false);
        else if (sac_tmpl_is_name(t, "is"))
            n = parse_test(p, n);
        else if (t->kind == SAC_LEX_LPAREN)
            n = parse_call(p, n);
        else
            return n;
    }
}

sac_tmpl_node *sac_tmpl_parse_unary(sac_tmpl_parser *p, bool with_filter) {
    const sac_lex_token *t = sac_tmpl_peek(p);
    sac_tmpl_node *n;
    if (!sac_tmpl_enter(p)) return NULL;
    if (t->kind == SAC_LEX_SUB || t->kind == SAC_LEX_ADD) {
        sac_tmpl_next(p);
        sac_tmpl_node *sign =
            sac_tmpl_node_new(p, t->kind == SAC_LEX_SUB ? SAC_NODE_NEG : SAC_NODE_POS, t->line);
        if (sign) sign->a = sac_tmpl_parse_unary(p, false);
        n = sign && sign->a ? sign : NULL;
    } else
        n = parse_primary(p);
    n = n ? parse_postfix(p, n) : NULL;
    if (n && with_filter) n = parse_filters_and_tests(p, n);
    p->depth--;
    return n;
}
