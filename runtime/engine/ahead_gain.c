#include "ahead_gain.h"

/* Of the time of an answer; of which one that is no longer short may have lost no more than 3 % to drafts. */
#define SHARE       0.02
/* Steps' worth of time that an answer has at once, so that a short one is drafted too. */
#define START       1.5
/* Steps without a draft that are measured first; and between two of these, passes with drafts at most. */
#define LEAST_PLAIN 2
#define MOST_PASSES 48
/* Steps' worth of time that the account holds at most: what a text that turns unpredictable may cost after one that was not. */
#define RICH        32
/* What a drafted token is taken to cost before one was measured, in steps: about one to make it, and its row of the pass. */
#define DEAR        1.5

/* What was measured counts up to so many times what was expected: a processor that was busy with something else says nothing of a
 * step, nor of a draft. */
#define LATE        2

static double least(double a, double b) {
    return a < b ? a : b;
}

void sac_ahead_gain_start(sac_ahead_gain *g, double prompt_s) {
    g->n_plain = g->n_drafted = g->n_passes = 0;
    g->has_begun = false;
    g->account_s = SHARE * prompt_s;
    if (g->width < 1) g->width = 2;
}

static int affordable(const sac_ahead_gain *g, double token_s, int most) {
    int n = g->width < most ? g->width : most;
    while (n > 0 && n * token_s > g->account_s * (1 + 1e-9)) n--;
    return n;
}

int sac_ahead_gain_most(const sac_ahead_gain *g, int most) {
    if (g->n_plain < LEAST_PLAIN || g->n_passes >= MOST_PASSES) return 0;
    return affordable(g, g->token_s > 0 ? g->token_s : DEAR * g->plain_s, most);
}

static void pay_in(sac_ahead_gain *g, double seconds, double step_s) {
    g->account_s = least(g->account_s + seconds, RICH * step_s);
}

static void begin(sac_ahead_gain *g, double step_s) {
    if (!g->has_begun) g->account_s += START * step_s;
    g->has_begun = true;
}

static void measure(double *plain_s, int *n_plain, double seconds) {
    if (*n_plain < LEAST_PLAIN)
        *plain_s = *n_plain ? least(*plain_s, seconds) : seconds;
    else
        *plain_s += 0.25 * (least(seconds, LATE * *plain_s) - *plain_s);
    ++*n_plain;
}

void sac_ahead_gain_plain(sac_ahead_gain *g, double seconds) {
    measure(&g->plain_s, &g->n_plain, seconds);
    if (g->n_plain == LEAST_PLAIN) begin(g, g->plain_s);
    g->n_passes = 0;
    pay_in(g, SHARE * seconds, g->plain_s);
}

/* In the place of a step of without_s. */
static void pass(sac_ahead_gain *g, double *token_s, int n_drafted, double without_s, double seconds) {
    if (*token_s > 0) seconds = least(seconds, LATE * (without_s + n_drafted * *token_s));
    const double one_s = seconds > without_s ? (seconds - without_s) / n_drafted : 0;
    *token_s = *token_s > 0 ? 0.75 * *token_s + 0.25 * one_s : one_s;
    g->n_drafted = n_drafted;
    g->pass_s = seconds, g->without_s = without_s;
}

void sac_ahead_gain_passed(sac_ahead_gain *g, int n_drafted, double seconds) {
    pass(g, &g->token_s, n_drafted, g->plain_s, seconds);
    g->n_passes++;
}

void sac_ahead_gain_settle(sac_ahead_gain *g, int n_taken) {
    if (!g->n_drafted) return;
    pay_in(g, (n_taken + 1) * g->without_s - g->pass_s + SHARE * g->pass_s, g->without_s);
    g->width = n_taken + 1;
    g->n_drafted = 0;
}

/* ---------------------------------------------------------------- shared */

bool sac_ahead_shared_is_known(const sac_ahead_shared *p) {
    return p->n_plain >= LEAST_PLAIN && p->n_passes < MOST_PASSES;
}

void sac_ahead_shared_plain(sac_ahead_shared *p, double seconds) {
    measure(&p->plain_s, &p->n_plain, seconds);
    if (p->n_plain > LEAST_PLAIN) p->n_plain = LEAST_PLAIN; /* it may live long */
    p->n_passes = 0;
}

void sac_ahead_shared_passed(sac_ahead_shared *p) {
    p->n_passes++;
}

int sac_ahead_gain_most_shared(sac_ahead_gain *g, double share_s, int most) {
    begin(g, share_s);
    return affordable(g, g->shared_token_s > 0 ? g->shared_token_s : DEAR * share_s, most);
}

void sac_ahead_gain_passed_shared(sac_ahead_gain *g, int n_drafted, double share_s, double cost_s) {
    if (n_drafted)
        pass(g, &g->shared_token_s, n_drafted, share_s, share_s + cost_s);
    else
        pay_in(g, SHARE * share_s - cost_s, share_s);
}
