#include "constraint.h"
#include "machine.h"

#include <stdlib.h>

/* Steps for one mask. Of a grammar that takes more, made for the purpose, the tokens that were not come to are not offered. */
enum { MASK_WORK = 1 << 23 };

struct serve_constraint {
    const serve_tokens *tokens;
    machine *machine;
    bool *allowed; /* [tokens->n] */
    bool lost;     /* a token came that the grammar does not have: anything may come from there on */
};

serve_constraint *serve_constraint_open(const serve_tokens *tokens, const grammar *g) {
    serve_constraint *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->tokens = tokens;
    c->machine = machine_open(g);
    c->allowed = calloc((size_t)tokens->n + 1, sizeof *c->allowed);
    if (c->machine && c->allowed) return c;
    serve_constraint_free(c);
    return NULL;
}

void serve_constraint_restart(serve_constraint *c) {
    machine_restart(c->machine);
    c->lost = false;
}

void serve_constraint_free(serve_constraint *c) {
    if (!c) return;
    machine_close(c->machine);
    free(c->allowed);
    free(c);
}

/* How many of n bytes may come, from byte `from` on, which level `from` of the machine stands before. */
static uint32_t read_bytes(machine *m, const char *bytes, uint32_t from, uint32_t n) {
    if (n > MACHINE_MAX_LEVELS) return 0;
    while (from < n && machine_try(m, (int)from, (unsigned char)bytes[from])) from++;
    return from;
}

/* Tokens in the order of their bytes are a walk through the tree of all: what a token shares with the one before it
 * has been read, and all that begin with bytes that may not come are passed over. Within a JSON string most tokens are
 * only characters: these are not looked at. */
static bool mark_text(serve_constraint *c) {
    const serve_tokens *t = c->tokens;
    const uint64_t most = machine_work(c->machine) + MASK_WORK;
    uint32_t had = 0;     /* bytes of the token before that have been read */
    bool refused = false; /* the byte behind them may not come */
    bool any = false;
    for (int32_t i = 0; i < t->n_ordered && machine_work(c->machine) < most; i++) {
        int32_t id = t->order[i];
        uint32_t common = t->shared[i];
        if (refused && common > had) continue;
        uint32_t level = common < had ? common : had;
        refused = false;
        if (t->plain_from[id] <= level && machine_is_free(c->machine, (int)level, t->length[id] - level)) {
            had = level;
            any = c->allowed[id] = true;
            continue;
        }
        had = read_bytes(c->machine, t->bytes[id], level, t->length[id]);
        refused = had < t->length[id];
        c->allowed[id] = !refused;
        any |= !refused;
    }
    return any;
}

/* Control tokens that count as the text of their names. */
static bool mark_marks(serve_constraint *c) {
    const serve_tokens *t = c->tokens;
    bool any = false;
    for (size_t i = 0; i < t->n_marks; i++) {
        const serve_mark *mark = &t->marks[i];
        bool fits = read_bytes(c->machine, mark->name, 0, mark->n) == mark->n;
        c->allowed[mark->id] = fits;
        any |= fits;
    }
    return any;
}

void serve_constraint_mask(serve_constraint *c, uint32_t *bits, int n_vocab) {
    const serve_tokens *t = c->tokens;
    if (c->lost) return;
    for (int32_t id = 0; id < t->n; id++) c->allowed[id] = false;
    bool text = mark_text(c), marks = mark_marks(c),
         may_end = machine_may_end(c->machine, 0) || !(text || marks);
    for (int32_t id = 0; id < n_vocab; id++) {
        bool allowed = id < t->n && (t->is_stop[id] ? may_end : c->allowed[id]);
        if (!allowed) bits[id / 32] &= ~(1u << (id % 32));
    }
}

void serve_constraint_take(serve_constraint *c, int32_t id) {
    const serve_tokens *t = c->tokens;
    if (id < 0 || id >= t->n || t->is_stop[id] || c->lost) return;
    const serve_mark *mark = serve_tokens_mark(t, id);
    const char *bytes = mark ? mark->name : t->bytes[id];
    uint32_t n = mark ? mark->n : t->length[id];
    if (read_bytes(c->machine, bytes, 0, n) == n)
        machine_keep(c->machine, (int)n);
    else
        c->lost = true; /* masks do not let it come to this */
}
