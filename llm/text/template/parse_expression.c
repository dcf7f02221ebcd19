/* parse_expression.c - operators, with Jinja's precedence: if-else, or, and, not, comparisons, + -, ~, * / // %,
 * **, then signs and what parse_value.c knows. */
#include "syntax.h"

static sac_tmpl_node *binary(sac_tmpl_parser *p, sac_node_kind kind, const sac_lex_token *op,
                             sac_tmpl_node *a, sac_tmpl_node *b) {
    sac_tmpl_node *n = b ? sac_tmpl_node_new(p, kind, op->line) : NULL;
    if (!n) return NULL;
    n->op = (int)op->kind;
    n->a = a;
    n->b = b;
    return n;
}

static sac_tmpl_node *parse_power(sac_tmpl_parser *p) {
    sac_tmpl_node *n = sac_tmpl_parse_unary(p, true);
    while (n && sac_tmpl_peek(p)->kind == SAC_LEX_POW) {
        const sac_lex_token *op = sac_tmpl_next(p);
        n = binary(p, SAC_NODE_BINARY, op, n, sac_tmpl_parse_unary(p, true));
    }
    return n;
}

static sac_tmpl_node *parse_product(sac_tmpl_parser *p) {
    sac_tmpl_node *n = parse_power(p);
    for (;;) {
        sac_token_kind k = sac_tmpl_peek(p)->kind;
        if (!n || (k != SAC_LEX_MUL && k != SAC_LEX_DIV && k != SAC_LEX_FLOORDIV && k != SAC_LEX_MOD))
            return n;
        const sac_lex_token *op = sac_tmpl_next(p);
        n = binary(p, SAC_NODE_BINARY, op, n, parse_power(p));
    }
}

static sac_tmpl_node *parse_concat(sac_tmpl_parser *p) {
    sac_tmpl_node *first = parse_product(p);
    if (!first || sac_tmpl_peek(p)->kind != SAC_LEX_TILDE) return first;
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_CONCAT, first->line);
    if (!n || !sac_tmpl_nodes_add(p, &n->items, first)) return NULL;
    while (sac_tmpl_skip(p, SAC_LEX_TILDE))
        if (!sac_tmpl_nodes_add(p, &n->items, parse_product(p))) return NULL;
    return n;
}

static sac_tmpl_node *parse_sum(sac_tmpl_parser *p) {
    sac_tmpl_node *n = parse_concat(p);
    while (n && (sac_tmpl_peek(p)->kind == SAC_LEX_ADD || sac_tmpl_peek(p)->kind == SAC_LEX_SUB)) {
        const sac_lex_token *op = sac_tmpl_next(p);
        n = binary(p, SAC_NODE_BINARY, op, n, parse_concat(p));
    }
    return n;
}

/* The comparison that comes next, or END. */
static sac_token_kind next_comparison(sac_tmpl_parser *p) {
    sac_token_kind k = sac_tmpl_peek(p)->kind;
    if (k >= SAC_LEX_EQ && k <= SAC_LEX_LE) {
        sac_tmpl_next(p);
        return k;
    }
    if (sac_tmpl_skip_name(p, "in")) return SAC_LEX_IN;
    if (!sac_tmpl_is_name(sac_tmpl_peek(p), "not") || !sac_tmpl_is_name(sac_tmpl_look(p), "in"))
        return SAC_LEX_END;
    sac_tmpl_next(p);
    sac_tmpl_next(p);
    return SAC_LEX_NOT_IN;
}

static sac_tmpl_node *parse_compare(sac_tmpl_parser *p) {
    sac_tmpl_node *first = parse_sum(p);
    sac_tmpl_node *n = NULL;
    while (first) {
        int line = sac_tmpl_peek(p)->line;
        sac_token_kind op = next_comparison(p);
        if (op == SAC_LEX_END) return n ? n : first;
        if (!n) {
            n = sac_tmpl_node_new(p, SAC_NODE_COMPARE, line);
            if (!n || !sac_tmpl_nodes_add(p, &n->items, first)) return NULL;
        }
        size_t i = n->items.n - 1;
        int *ops = sac_tmpl_grow(p->s->pool, n->ops, i * sizeof *ops, (i + 1) * sizeof *ops);
        if (!ops) return sac_tmpl_parser_full(p);
        ops[i] = (int)op;
        n->ops = ops;
        if (!sac_tmpl_nodes_add(p, &n->items, parse_sum(p))) return NULL;
    }
    return NULL;
}

static sac_tmpl_node *parse_not(sac_tmpl_parser *p) {
    const sac_lex_token *t = sac_tmpl_peek(p);
    if (!sac_tmpl_skip_name(p, "not")) return parse_compare(p);
    if (!sac_tmpl_enter(p)) return NULL;
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_NOT, t->line);
    if (n) n->a = parse_not(p);
    p->depth--;
    return n && n->a ? n : NULL;
}

static sac_tmpl_node *parse_and(sac_tmpl_parser *p) {
    sac_tmpl_node *n = parse_not(p);
    for (const sac_lex_token *op; n && (op = sac_tmpl_peek(p), sac_tmpl_skip_name(p, "and"));)
        n = binary(p, SAC_NODE_AND, op, n, parse_not(p));
    return n;
}

static sac_tmpl_node *parse_or(sac_tmpl_parser *p) {
    sac_tmpl_node *n = parse_and(p);
    for (const sac_lex_token *op; n && (op = sac_tmpl_peek(p), sac_tmpl_skip_name(p, "or"));)
        n = binary(p, SAC_NODE_OR, op, n, parse_and(p));
    return n;
}

static sac_tmpl_node *parse_if_else(sac_tmpl_parser *p) {
    sac_tmpl_node *value = parse_or(p);
    while (value && sac_tmpl_is_name(sac_tmpl_peek(p), "if")) {
        sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_IF_ELSE, sac_tmpl_next(p)->line);
        if (!n) return NULL;
        n->b = value;
        n->a = parse_or(p);
        if (!n->a) return NULL;
        if (sac_tmpl_skip_name(p, "else")) {
            n->c = sac_tmpl_parse_expression(p, true);
            if (!n->c) return NULL;
        }
        value = n;
    }
    return value;
}

sac_tmpl_node *sac_tmpl_parse_expression(sac_tmpl_parser *p, bool with_if) {
    if (!sac_tmpl_enter(p)) return NULL;
    sac_tmpl_node *n = with_if ? parse_if_else(p) : parse_or(p);
    p->depth--;
    return n;
}
