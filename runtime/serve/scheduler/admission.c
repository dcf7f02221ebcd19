#include "admission.h"

#include <math.h>

/* ---------------------------------------------------------------- the slot */

/* About how many tokens of the job's prompt the slot's session holds; below 0 when its rows would be lost. */
static double shared(const serve_slot *slot, const serve_job *j) {
    bool same = slot->session && serve_methods_equal(&slot->methods, j->request->methods);
    return same ? serve_trace_shared(j->trace, slot->trace) : -0.5;
}

/* About how many of them a session in another slot may take over from it now. */
static double given(const serve_server *s, const serve_job *j) {
    double most = 0;
    for (int i = 0; s->beginnings && i < s->config->n_slots; i++) {
        const serve_slot *slot = &s->slots[i];
        if (slot->session && serve_methods_equal(&slot->methods, j->request->methods))
            most = fmax(most, fmin(serve_trace_shared(j->trace, slot->trace),
                                   (double)sac_session_n_shared(slot->session)));
    }
    return most;
}

/* The idle slot that holds the longest beginning of all slots; where it is none, or what it holds can be taken over from
 * another that holds more, the one that has not been used for longest. NULL = none is idle. */
static serve_slot *find_slot(const serve_server *s, const serve_job *j, double from_others, double *most) {
    serve_slot *best = NULL;
    *most = -1;
    for (int i = 0; i < s->config->n_slots; i++) {
        serve_slot *slot = &s->slots[i];
        if (slot->job) continue;
        double n = shared(slot, j);
        if (n > 0 && n < from_others) n = 0;
        if (n > *most || (n >= *most && best && slot->turn.ticket < best->turn.ticket)) {
            *most = n;
            best = slot;
        }
    }
    return best;
}

/* A conversation that nothing is known of counts as the longest that a slot holds. */
static serve_admitted place(const serve_server *s, serve_job *j) {
    double most, from_others = given(s, j);
    serve_slot *slot = find_slot(s, j, from_others, &most);
    double n = j->trace ? j->trace->n_tokens - fmax(most, from_others) : (double)s->n_ctx;
    return (serve_admitted){.job = j, .slot = slot, .n_left = n};
}

/* ---------------------------------------------------------------- the job */

/* What jobs are judged by. */
typedef struct gate {
    serve_server *server;
    serve_next_pass pass;
} gate;

static int n_idle(const serve_server *s) {
    int n = 0;
    for (int i = 0; i < s->config->n_slots; i++) n += !s->slots[i].job;
    return n;
}

/* Tokens left of the prompt that is nearest to its end; infinite when none is being run. */
static double least_left(const serve_server *s) {
    double least = INFINITY;
    for (int i = 0; i < s->config->n_slots; i++)
        if (serve_slot_has_prompt(&s->slots[i])) least = fmin(least, s->slots[i].turn.n_left);
    return least;
}

/* Slots that the job's client may have: those who come meanwhile with a short question are to find one. */
static int most_slots(const serve_server *s, const serve_job *j) {
    int n = s->config->n_slots, own = s->config->n_client_slots;
    if (own) return own < n ? own : n;
    return n > 1 && serve_server_has_others(s, j->client) ? n - 1 : n;
}

static bool may_have_a_slot(serve_job *j, void *ctx) {
    const serve_server *s = ((const gate *)ctx)->server;
    int n = 0;
    for (int i = 0; i < s->config->n_slots; i++) n += s->slots[i].job && s->slots[i].job->client == j->client;
    return n < most_slots(s, j);
}

/* Goes before every prompt that is being run, by its priority. */
static bool precedes_all(const serve_server *s, const serve_job *j) {
    const bool shared = s->config->shared_priorities;
    for (int i = 0; i < s->config->n_slots; i++) {
        const serve_slot *slot = &s->slots[i];
        if (serve_slot_has_prompt(slot) &&
            !serve_precedes(shared, j->client, j->priority, slot->job->client, slot->job->priority))
            return false;
    }
    return true;
}

/* The slot's prompt begins as the job's does, with more than there is for it now: so much more that it takes longer to run than the
 * step for which a prompt waits that goes behind another. */
static bool is_worth_waiting_for(const gate *g, const serve_slot *slot, const serve_job *j) {
    const serve_server *s = g->server;
    return s->beginnings && serve_trace_shared(j->trace, slot->trace) - given(s, j) > g->pass.step_rows;
}

/* All rows of it and of the prompts that are being run have room in one pass. */
static bool shares_a_pass(const gate *g, serve_job *j) {
    const serve_server *s = g->server;
    double n_rows = fmax(1, place(s, j).n_left);
    int n = 1;
    for (int i = 0; i < s->config->n_slots; i++) {
        const serve_slot *slot = &s->slots[i];
        if (!serve_slot_has_prompt(slot)) continue;
        if (slot->goes_apart || is_worth_waiting_for(g, slot, j)) return false;
        n_rows += fmax(1, slot->turn.n_left);
        n++;
    }
    return n <= SERVE_PROMPTS_AT_ONCE && n_rows <= (double)g->pass.n_rows;
}

static bool may_go_between(serve_job *j, void *ctx) {
    const gate *g = ctx;
    if (!may_have_a_slot(j, ctx)) return false;
    return serve_turn_is_short(place(g->server, j).n_left, least_left(g->server)) || precedes_all(g->server, j) ||
           shares_a_pass(g, j);
}

/* What is there already costs a piece, too. */
static double weigh(serve_job *j, void *ctx) {
    return fmax(1, place(((const gate *)ctx)->server, j).n_left);
}

static const serve_judge *judge(gate *g, serve_judge *of) {
    const int idle = n_idle(g->server);
    *of = (serve_judge){.may = may_have_a_slot, .weigh = weigh, .ctx = g};
    if (idle == 0) return NULL;
    of->between = idle > 1 && !isinf(least_left(g->server));
    if (of->between) of->may = may_go_between;
    return of;
}

serve_admitted serve_admit(serve_server *s, const serve_next_pass *pass) {
    serve_judge of;
    gate g = {s, *pass};
    if (!judge(&g, &of)) return (serve_admitted){0};
    serve_job *j = serve_queue_next(&s->ready, &of);
    if (!j || (!of.between && !isinf(least_left(s)) && !may_go_between(j, &g))) return (serve_admitted){0};
    const serve_admitted in = place(s, j);
    serve_queue_serve(&s->ready, &of, j, fmax(1, in.n_left));
    return in;
}
