#define _GNU_SOURCE
#include "methods.h"
#include "fields.h"

#include <stdio.h>
#include <string.h>

typedef struct line {
    const char *key;
    char *text;
    size_t room;
} line;

#define LINES(m)                                                                                             \
    {                                                                                                        \
        {"prefill", (m)->prefill, sizeof(m)->prefill}, {"decode", (m)->decode, sizeof(m)->decode},           \
            {"kv", (m)->kv, sizeof(m)->kv}, {"rope", (m)->rope, sizeof(m)->rope},                            \
            {"reduce", (m)->reduce, sizeof(m)->reduce},                                                      \
    }

bool serve_methods_parse(serve_methods *m, const serve_config *c, const json_t *own, serve_problem *p) {
    line lines[] = LINES(m);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *text = NULL;
        if (!serve_field_string(own, lines[i].key, &text, p)) return false;
        if (!text) continue;
        if (!c->request_methods)
            return serve_refuse(p, 403, lines[i].key, "methods_off",
                                "requests may not choose methods here; --request-methods lets them");
        if (strlen(text) >= lines[i].room)
            return serve_refuse(p, 400, lines[i].key, NULL, "'%s' is longer than %zu bytes", lines[i].key,
                                lines[i].room - 1);
        strcpy(lines[i].text, text);
    }
    return true;
}

bool serve_methods_equal(const serve_methods *a, const serve_methods *b) {
    return !strcmp(a->prefill, b->prefill) && !strcmp(a->decode, b->decode) && !strcmp(a->kv, b->kv) &&
           !strcmp(a->rope, b->rope) && !strcmp(a->reduce, b->reduce);
}
