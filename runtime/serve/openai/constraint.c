#include "constraint.h"
#include "json_machine.h"

#include <math.h>
#include <stdlib.h>

struct serve_constraint {
    const serve_tokens *tokens;
    schema schema;
    json_machine machine;
};

serve_constraint *serve_constraint_open(const serve_tokens *tokens, const json_t *text, serve_problem *p) {
    serve_constraint *c = calloc(1, sizeof *c);
    if (!c) {
        serve_refuse(p, 503, NULL, "out_of_memory", "no memory for a JSON schema");
        return NULL;
    }
    c->tokens = tokens;
    if (!schema_compile(&c->schema, text, p)) {
        serve_constraint_free(c);
        return NULL;
    }
    serve_constraint_restart(c);
    return c;
}

void serve_constraint_restart(serve_constraint *c) {
    json_machine_start(&c->machine, &c->schema);
}

void serve_constraint_free(serve_constraint *c) {
    if (!c) return;
    schema_free(&c->schema);
    free(c);
}

/* Most tokens fail at their first byte, which is tried once for all of them. */
static bool fits(const serve_constraint *c, const bool *first, int32_t id) {
    const serve_tokens *t = c->tokens;
    if (t->length[id] == 0 || !first[(unsigned char)t->bytes[id][0]]) return false;
    json_machine m = c->machine;
    for (uint32_t i = 0; i < t->length[id]; i++)
        if (!json_machine_step(&m, (unsigned char)t->bytes[id][i])) return false;
    return true;
}

void serve_constraint_mask(serve_constraint *c, float *logits, int n_vocab) {
    bool first[256], may_end = json_machine_may_end(&c->machine);
    for (int b = 0; b < 256; b++) {
        json_machine m = c->machine;
        first[b] = json_machine_step(&m, (unsigned char)b);
    }
    for (int32_t id = 0; id < n_vocab; id++) {
        bool allowed = id < c->tokens->n && (c->tokens->is_stop[id] ? may_end : fits(c, first, id));
        if (!allowed) logits[id] = -INFINITY;
    }
}

void serve_constraint_take(serve_constraint *c, int32_t id) {
    const serve_tokens *t = c->tokens;
    if (id < 0 || id >= t->n || t->is_stop[id]) return;
    for (uint32_t i = 0; i < t->length[id]; i++)
        if (!json_machine_step(&c->machine, (unsigned char)t->bytes[id][i]))
            return; /* masks keep it from here */
}
