/* parse.c - statements. */
#include "syntax.h"

#include <string.h>

static bool parse_body(sac_tmpl_parser *p, sac_tmpl_nodes *body, const char *end, const char *end2,
                       const char *end3, int line);

/* Where a body follows, a colon may stand before %}. */
static bool expect_head_end(sac_tmpl_parser *p) {
    sac_tmpl_skip(p, SAC_LEX_COLON);
    return sac_tmpl_expect(p, SAC_LEX_BLOCK_END, "%}");
}

/* The body up to {% end %}, whose name is passed over. */
static bool parse_until(sac_tmpl_parser *p, sac_tmpl_nodes *body, const char *end, int line) {
    if (!expect_head_end(p) || !parse_body(p, body, end, NULL, NULL, line)) return false;
    sac_tmpl_next(p);
    return true;
}

/* if and each elif: the condition and its body; an elif stands alone in the `more` of the one before. */
static sac_tmpl_node *parse_condition(sac_tmpl_parser *p, int line) {
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_IF, line);
    if (!n) return NULL;
    n->a = sac_tmpl_parse_tuple(p, false);
    return n->a && expect_head_end(p) && parse_body(p, &n->items, "elif", "else", "endif", line) ? n : NULL;
}

static sac_tmpl_node *parse_if(sac_tmpl_parser *p, int line) {
    sac_tmpl_node *first = parse_condition(p, line), *last = first;
    while (last) {
        const sac_lex_token *t = sac_tmpl_next(p);
        if (sac_tmpl_is_name(t, "endif")) return first;
        if (sac_tmpl_is_name(t, "else")) return parse_until(p, &last->more, "endif", line) ? first : NULL;
        sac_tmpl_node *next = parse_condition(p, t->line);
        if (!sac_tmpl_nodes_add(p, &last->more, next)) return NULL;
        last = next;
    }
    return NULL;
}

static sac_tmpl_node *parse_for(sac_tmpl_parser *p, int line) {
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_FOR, line);
    if (!n) return NULL;
    n->a = sac_tmpl_parse_target(p, false);
    if (!n->a) return NULL;
    if (!sac_tmpl_skip_name(p, "in")) return sac_tmpl_refuse(p, line, "for has no in");
    n->b = sac_tmpl_parse_tuple(p, false);
    if (!n->b) return NULL;
    if (sac_tmpl_skip_name(p, "if")) {
        n->c = sac_tmpl_parse_expression(p, true);
        if (!n->c) return NULL;
    }
    n->flag = sac_tmpl_skip_name(p, "recursive");
    p->loops++;
    if (!expect_head_end(p) || !parse_body(p, &n->items, "endfor", "else", NULL, line)) return NULL;
    p->loops--;
    int loops = p->loops;
    if (n->flag) p->loops = 0; /* a recursive loop is a function */
    if (sac_tmpl_is_name(sac_tmpl_next(p), "else") && !parse_until(p, &n->more, "endfor", line)) return NULL;
    p->loops = loops;
    return n;
}

static sac_tmpl_node *parse_set(sac_tmpl_parser *p, int line) {
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_SET, line);
    if (!n) return NULL;
    n->a = sac_tmpl_parse_target(p, true);
    if (!n->a) return NULL;
    if (sac_tmpl_skip(p, SAC_LEX_ASSIGN)) {
        n->b = sac_tmpl_parse_tuple(p, true);
        return n->b ? n : NULL;
    }
    n->kind = SAC_NODE_SET_BLOCK;
    n->b = sac_tmpl_parse_filters(p, NULL, false);
    return p->status == SAC_OK && parse_until(p, &n->items, "endset", line) ? n : NULL;
}

/* A name that a macro or a parameter may have. */
static bool expect_free_name(sac_tmpl_parser *p, const char **name) {
    static const char *const taken[] = {"true", "false", "none", "True", "False", "None"};
    int line = sac_tmpl_peek(p)->line;
    if (!sac_tmpl_expect_name(p, name)) return false;
    for (size_t i = 0; i < SAC_COUNT(taken); i++)
        if (strcmp(*name, taken[i]) == 0)
            return sac_tmpl_refuse(p, line, "'%s' is a value, and no name to be given", *name) != NULL;
    return true;
}

static bool parse_parameters(sac_tmpl_parser *p, sac_tmpl_signature *s) {
    if (!sac_tmpl_expect(p, SAC_LEX_LPAREN, "(")) return false;
    while (sac_tmpl_peek(p)->kind != SAC_LEX_RPAREN) {
        const char *name;
        if (s->n && !sac_tmpl_expect(p, SAC_LEX_COMMA, "a comma or )")) return false;
        int line = sac_tmpl_peek(p)->line;
        if (!expect_free_name(p, &name)) return false;
        for (size_t i = 0; i < s->n; i++)
            if (s->names[i] == name)
                return sac_tmpl_refuse(p, line, "parameter '%.40s' is repeated", name) != NULL;
        const char **names =
            sac_tmpl_grow(p->s->pool, s->names, s->n * sizeof *names, (s->n + 1) * sizeof *names);
        if (!names) return (p->status = sac_tmpl_source_full(p->s)) == SAC_OK;
        names[s->n++] = name;
        s->names = names;
        if (sac_tmpl_skip(p, SAC_LEX_ASSIGN)) {
            if (!sac_tmpl_nodes_add(p, &s->defaults, sac_tmpl_parse_expression(p, true))) return false;
        } else if (s->defaults.n)
            return sac_tmpl_refuse(p, line, "a parameter without default follows one with a default") != NULL;
    }
    sac_tmpl_next(p);
    return true;
}

/* The body of what is a function when it runs. */
static bool parse_callable(sac_tmpl_parser *p, sac_tmpl_node *n, sac_tmpl_signature *s, const char *end) {
    int loops = p->loops;
    p->loops = 0; /* break does not leave a macro */
    if (!parse_until(p, &n->items, end, n->line)) return false;
    p->loops = loops;
    n->signature = s;
    return true;
}

static sac_tmpl_node *parse_macro(sac_tmpl_parser *p, int line) {
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_MACRO, line);
    sac_tmpl_signature *s = sac_tmpl_take_zeroed(p->s->pool, sizeof *s);
    if (!n || !s) return sac_tmpl_refuse(p, line, "no memory");
    return expect_free_name(p, &n->name) && parse_parameters(p, s) && parse_callable(p, n, s, "endmacro")
               ? n
               : NULL;
}

static sac_tmpl_node *parse_call_block(sac_tmpl_parser *p, int line) {
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_CALL_BLOCK, line);
    sac_tmpl_signature *s = sac_tmpl_take_zeroed(p->s->pool, sizeof *s);
    if (!n || !s) return sac_tmpl_refuse(p, line, "no memory");
    if (sac_tmpl_peek(p)->kind == SAC_LEX_LPAREN && !parse_parameters(p, s)) return NULL;
    n->a = sac_tmpl_parse_expression(p, true);
    if (!n->a) return NULL;
    if (n->a->kind != SAC_NODE_CALL) return sac_tmpl_refuse(p, line, "{%% call %%} needs a call");
    return parse_callable(p, n, s, "endcall") ? n : NULL;
}

static sac_tmpl_node *parse_filter_block(sac_tmpl_parser *p, int line) {
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_FILTER_BLOCK, line);
    if (!n) return NULL;
    n->a = sac_tmpl_parse_filters(p, NULL, true);
    return n->a && parse_until(p, &n->items, "endfilter", line) ? n : NULL;
}

static sac_tmpl_node *parse_generation(sac_tmpl_parser *p, int line) {
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_GENERATION, line);
    sac_tmpl_signature *s = sac_tmpl_take_zeroed(p->s->pool, sizeof *s);
    if (!n || !s) return sac_tmpl_refuse(p, line, "no memory");
    return parse_callable(p, n, s, "endgeneration") ? n : NULL;
}

static sac_tmpl_node *parse_with(sac_tmpl_parser *p, int line) {
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_WITH, line);
    sac_tmpl_node *values = n ? sac_tmpl_node_new(p, SAC_NODE_TUPLE, line) : NULL;
    if (!values) return NULL;
    n->a = values;
    while (sac_tmpl_peek(p)->kind != SAC_LEX_BLOCK_END) {
        if (n->more.n && !sac_tmpl_expect(p, SAC_LEX_COMMA, "a comma or %}")) return NULL;
        if (!sac_tmpl_nodes_add(p, &n->more, sac_tmpl_parse_target(p, false)) ||
            !sac_tmpl_expect(p, SAC_LEX_ASSIGN, "=") ||
            !sac_tmpl_nodes_add(p, &values->items, sac_tmpl_parse_expression(p, true)))
            return NULL;
    }
    return parse_until(p, &n->items, "endwith", line) ? n : NULL;
}

static sac_tmpl_node *parse_print(sac_tmpl_parser *p, int line) {
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_PRINT, line);
    while (n && sac_tmpl_peek(p)->kind != SAC_LEX_BLOCK_END) {
        if (n->items.n && !sac_tmpl_expect(p, SAC_LEX_COMMA, "a comma or %}")) return NULL;
        if (!sac_tmpl_nodes_add(p, &n->items, sac_tmpl_parse_expression(p, true))) return NULL;
    }
    return n;
}

static sac_tmpl_node *parse_jump(sac_tmpl_parser *p, sac_node_kind kind, int line) {
    if (!p->loops) return sac_tmpl_refuse(p, line, "break and continue need a for around them");
    return sac_tmpl_node_new(p, kind, line);
}

static sac_tmpl_node *parse_statement(sac_tmpl_parser *p) {
    const sac_lex_token *t = sac_tmpl_next(p);
    static const char *const refused[] = {"block", "extends", "include", "import", "from", "autoescape"};
    if (t->kind != SAC_LEX_NAME) return sac_tmpl_refuse(p, t->line, "a tag has no name");
    if (sac_tmpl_is_name(t, "if")) return parse_if(p, t->line);
    if (sac_tmpl_is_name(t, "for")) return parse_for(p, t->line);
    if (sac_tmpl_is_name(t, "set")) return parse_set(p, t->line);
    if (sac_tmpl_is_name(t, "macro")) return parse_macro(p, t->line);
    if (sac_tmpl_is_name(t, "call")) return parse_call_block(p, t->line);
    if (sac_tmpl_is_name(t, "filter")) return parse_filter_block(p, t->line);
    if (sac_tmpl_is_name(t, "generation")) return parse_generation(p, t->line);
    if (sac_tmpl_is_name(t, "with")) return parse_with(p, t->line);
    if (sac_tmpl_is_name(t, "print")) return parse_print(p, t->line);
    if (sac_tmpl_is_name(t, "break")) return parse_jump(p, SAC_NODE_BREAK, t->line);
    if (sac_tmpl_is_name(t, "continue")) return parse_jump(p, SAC_NODE_CONTINUE, t->line);
    for (size_t i = 0; i < SAC_COUNT(refused); i++)
        if (sac_tmpl_is_name(t, refused[i]))
            return sac_tmpl_refuse(p, t->line, "{%% %s %%} cannot be used in a chat template here",
                                   refused[i]);
    return sac_tmpl_refuse(p, t->line, "no tag '%.*s' is open or known",
                           (int)(t->n_bytes > 40 ? 40 : t->n_bytes), t->text);
}

static sac_tmpl_node *parse_data(sac_tmpl_parser *p) {
    const sac_lex_token *t = sac_tmpl_next(p);
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_DATA, t->line);
    if (!n) return NULL;
    n->value = sac_tmpl_text(p->s->pool, t->text, t->n_bytes, false);
    return n->value.kind == SAC_TMPL_MISSING ? sac_tmpl_refuse(p, t->line, "no memory") : n;
}

static sac_tmpl_node *parse_variable(sac_tmpl_parser *p) {
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_PRINT, sac_tmpl_next(p)->line);
    if (!n || !sac_tmpl_nodes_add(p, &n->items, sac_tmpl_parse_tuple(p, true))) return NULL;
    return sac_tmpl_expect(p, SAC_LEX_VARIABLE_END, "}}") ? n : NULL;
}

static bool is_any(const sac_lex_token *t, const char *a, const char *b, const char *c) {
    return (a && sac_tmpl_is_name(t, a)) || (b && sac_tmpl_is_name(t, b)) || (c && sac_tmpl_is_name(t, c));
}

/* Up to one of the names, which is not passed over; with no names up to the end. */
static bool parse_body(sac_tmpl_parser *p, sac_tmpl_nodes *body, const char *end, const char *end2,
                       const char *end3, int line) {
    if (!sac_tmpl_enter(p)) return false;
    for (;;) {
        const sac_lex_token *t = sac_tmpl_peek(p);
        sac_tmpl_node *n;
        if (t->kind == SAC_LEX_END) {
            p->depth--;
            return !end || sac_tmpl_refuse(p, line, "a tag is not closed: {%% %s %%} is missing",
                                           end3 ? end3 : end) != NULL;
        }
        if (t->kind == SAC_LEX_DATA)
            n = parse_data(p);
        else if (t->kind == SAC_LEX_VARIABLE_BEGIN)
            n = parse_variable(p);
        else {
            sac_tmpl_next(p);
            if (is_any(sac_tmpl_peek(p), end, end2, end3)) {
                p->depth--;
                return true;
            }
            n = parse_statement(p);
            if (n && !sac_tmpl_expect(p, SAC_LEX_BLOCK_END, "%}")) return false;
        }
        if (!sac_tmpl_nodes_add(p, body, n)) return false;
    }
}

sac_tmpl_node *sac_tmpl_parse(sac_tmpl_parser *p) {
    p->expression = sac_tmpl_parse_expression;
    sac_tmpl_node *n = sac_tmpl_node_new(p, SAC_NODE_PRINT, 1);
    return n && parse_body(p, &n->items, NULL, NULL, NULL, 1) ? n : NULL;
}
