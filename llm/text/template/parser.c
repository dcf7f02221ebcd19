/* parser.c - what statements and expressions are parsed with: the tokens one by one, nodes, names, errors. */
#include "syntax.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 120 };

const sac_lex_token *sac_tmpl_peek(const sac_tmpl_parser *p) {
    return &p->s->tokens[p->at];
}

const sac_lex_token *sac_tmpl_look(const sac_tmpl_parser *p) {
    return &p->s->tokens[p->at + (p->at + 1 < p->s->n_tokens)];
}

const sac_lex_token *sac_tmpl_next(sac_tmpl_parser *p) {
    const sac_lex_token *t = sac_tmpl_peek(p);
    p->at += p->at + 1 < p->s->n_tokens;
    return t;
}

void *sac_tmpl_refuse(sac_tmpl_parser *p, int line, const char *format, ...) {
    char text[240];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (p->status == SAC_OK) p->status = sac_tmpl_source_fail(p->s, line, "%s", text);
    return NULL;
}

void *sac_tmpl_parser_full(sac_tmpl_parser *p) {
    if (p->status == SAC_OK) p->status = sac_tmpl_source_full(p->s);
    return NULL;
}

sac_tmpl_node *sac_tmpl_node_new(sac_tmpl_parser *p, sac_node_kind kind, int line) {
    sac_tmpl_node *n = sac_tmpl_take_zeroed(p->s->pool, sizeof *n);
    if (!n) return sac_tmpl_parser_full(p);
    n->kind = kind;
    n->line = line;
    return n;
}

bool sac_tmpl_nodes_add(sac_tmpl_parser *p, sac_tmpl_nodes *list, sac_tmpl_node *node) {
    if (!node) return false;
    if ((list->n & (list->n - 1)) == 0) { /* room for 1, 2, 4, 8 ... */
        size_t more = list->n ? 2 * list->n : 1;
        sac_tmpl_node **items =
            sac_tmpl_grow(p->s->pool, list->items, list->n * sizeof *items, more * sizeof *items);
        if (!items) return sac_tmpl_parser_full(p) != NULL;
        list->items = items;
    }
    list->items[list->n++] = node;
    return true;
}

const char *sac_tmpl_intern(sac_tmpl_parser *p, const char *text, size_t n_bytes) {
    for (size_t i = 0; i < p->n_names; i++)
        if (strlen(p->names[i]) == n_bytes && memcmp(p->names[i], text, n_bytes) == 0) return p->names[i];
    if (p->n_names == 4096)
        return sac_tmpl_refuse(p, sac_tmpl_peek(p)->line, "more than 4096 different names");
    if (p->n_names == p->names_capacity) {
        size_t more = p->names_capacity ? 2 * p->names_capacity : 64;
        const char **names =
            sac_tmpl_grow(p->s->pool, p->names, p->n_names * sizeof *names, more * sizeof *names);
        if (!names) return sac_tmpl_parser_full(p);
        p->names = names;
        p->names_capacity = more;
    }
    char *name = sac_tmpl_take(p->s->pool, n_bytes + 1);
    if (!name) return sac_tmpl_parser_full(p);
    memcpy(name, text, n_bytes);
    name[n_bytes] = 0;
    return p->names[p->n_names++] = name;
}

bool sac_tmpl_is_name(const sac_lex_token *t, const char *name) {
    return t->kind == SAC_LEX_NAME && strlen(name) == t->n_bytes && memcmp(t->text, name, t->n_bytes) == 0;
}

bool sac_tmpl_skip(sac_tmpl_parser *p, sac_token_kind kind) {
    if (sac_tmpl_peek(p)->kind != kind) return false;
    sac_tmpl_next(p);
    return true;
}

bool sac_tmpl_skip_name(sac_tmpl_parser *p, const char *name) {
    if (!sac_tmpl_is_name(sac_tmpl_peek(p), name)) return false;
    sac_tmpl_next(p);
    return true;
}

void *sac_tmpl_unexpected(sac_tmpl_parser *p, const char *wanted) {
    const sac_lex_token *t = sac_tmpl_peek(p);
    int n = (int)(t->n_bytes > 40 ? 40 : t->n_bytes);
    if (t->kind == SAC_LEX_END) return sac_tmpl_refuse(p, t->line, "%s expected, the template ends", wanted);
    if (t->kind == SAC_LEX_DATA) return sac_tmpl_refuse(p, t->line, "%s expected, text found", wanted);
    return sac_tmpl_refuse(p, t->line, "%s expected, '%.*s' found", wanted, n, t->text);
}

bool sac_tmpl_expect(sac_tmpl_parser *p, sac_token_kind kind, const char *what) {
    return sac_tmpl_skip(p, kind) || sac_tmpl_unexpected(p, what) != NULL;
}

bool sac_tmpl_expect_name(sac_tmpl_parser *p, const char **name) {
    const sac_lex_token *t = sac_tmpl_peek(p);
    *name = NULL;
    if (t->kind != SAC_LEX_NAME) return sac_tmpl_unexpected(p, "a name") != NULL;
    sac_tmpl_next(p);
    *name = sac_tmpl_intern(p, t->text, t->n_bytes);
    return *name != NULL;
}

bool sac_tmpl_expect_path(sac_tmpl_parser *p, const char **name) {
    if (!sac_tmpl_expect_name(p, name)) return false;
    while (sac_tmpl_skip(p, SAC_LEX_DOT)) {
        const sac_lex_token *t = sac_tmpl_peek(p);
        size_t n = strlen(*name);
        if (t->kind != SAC_LEX_NAME) return sac_tmpl_unexpected(p, "a name") != NULL;
        char *path = sac_tmpl_take(p->s->pool, n + 1 + t->n_bytes);
        if (!path) return sac_tmpl_parser_full(p) != NULL;
        memcpy(path, *name, n);
        path[n] = '.';
        memcpy(path + n + 1, t->text, t->n_bytes);
        *name = sac_tmpl_intern(p, path, n + 1 + t->n_bytes);
        if (!*name) return false;
        sac_tmpl_next(p);
    }
    return true;
}

bool sac_tmpl_enter(sac_tmpl_parser *p) {
    if (p->depth++ < MAX_DEPTH) return true;
    return sac_tmpl_refuse(p, sac_tmpl_peek(p)->line, "nested more than %d deep", MAX_DEPTH) != NULL;
}
