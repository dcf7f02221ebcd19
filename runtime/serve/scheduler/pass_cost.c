#include "pass_cost.h"

static double bare(const serve_pass_cost *c) {
    return c->bare_s > 0 ? c->bare_s : c->step_s;
}

/* On a machine that does other things too it may seem that rows cost nothing. */
static void learn_row(serve_pass_cost *c, const serve_pass_ran *ran) {
    const double more = ran->took_s - bare(c);
    c->row_s = (more > 0 ? more : 0.1 * bare(c)) / (double)ran->n_prompt;
}

void serve_pass_learn(serve_pass_cost *c, const serve_pass_ran *ran) {
    if (!ran->n_rows) return;
    if (ran->n_prompt) {
        if (c->n_unlearnt > 0)
            c->n_unlearnt--;
        else
            learn_row(c, ran);
        return;
    }
    c->step_s = serve_pause_step(c->step_s, ran->took_s);
    if (!ran->n_guessed) c->bare_s = serve_pause_step(c->bare_s, ran->took_s);
}

int64_t serve_pass_room(const serve_pass_cost *c, double target, int64_t most) {
    return c->step_s > 0 ? serve_pause_rows(target, bare(c), c->row_s, most) : 0;
}

double serve_pass_left(const serve_pass_cost *c, double target, int64_t n, double since_s) {
    if (c->step_s <= 0 || c->row_s <= 0) return 0;
    const double left = serve_pause_room(target, bare(c)) - (double)n * c->row_s - since_s;
    return left > 0 ? left : 0;
}

double serve_pass_step_rows(const serve_pass_cost *c) {
    return c->row_s > 0 ? bare(c) / c->row_s : 0;
}

int64_t serve_pass_ask(serve_pass_cost *c, double target, bool *apart, int64_t most) {
    if (*apart || c->step_s <= 0) return 0;
    const int64_t n = serve_pass_room(c, target, most);
    if (n > 0) return n;
    *apart = true;
    c->row_s *= 0.8;
    return 0;
}

size_t serve_pass_whole(size_t room, size_t n, size_t tile) {
    const size_t all = (room + n) / tile * tile;
    return all >= n + SERVE_PASS_LEAST ? all - n : room;
}
