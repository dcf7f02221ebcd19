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
    g->account_s = SHARE * prompt_s;
    if (g->width < 1) g->width = 2;
}

int sac_ahead_gain_most(const sac_ahead_gain *g, int most) {
    if (g->n_plain < LEAST_PLAIN || g->n_passes >= MOST_PASSES) return 0;
    const double token_s = g->token_s > 0 ? g->token_s : DEAR * g->plain_s;
    int n = g->width < most ? g->width : most;
    while (n > 0 && n * token_s > g->account_s * (1 + 1e-9)) n--;
    return n;
}

static void pay_in(sac_ahead_gain *g, double seconds) {
    g->account_s = least(g->account_s + seconds, RICH * g->plain_s);
}

void sac_ahead_gain_plain(sac_ahead_gain *g, double seconds) {
    if (g->n_plain < LEAST_PLAIN)
        g->plain_s = g->n_plain ? least(g->plain_s, seconds) : seconds;
    else
        g->plain_s += 0.25 * (least(seconds, LATE * g->plain_s) - g->plain_s);
    if (++g->n_plain == LEAST_PLAIN) g->account_s += START * g->plain_s;
    g->n_passes = 0;
    pay_in(g, SHARE * seconds);
}

void sac_ahead_gain_passed(sac_ahead_gain *g, int n_drafted, double seconds) {
    if (g->token_s > 0) seconds = least(seconds, LATE * (g->plain_s + n_drafted * g->token_s));
    const double token_s = seconds > g->plain_s ? (seconds - g->plain_s) / n_drafted : 0;
    g->token_s = g->token_s > 0 ? 0.75 * g->token_s + 0.25 * token_s : token_s;
    g->n_drafted = n_drafted;
    g->pass_s = seconds;
    g->n_passes++;
}

void sac_ahead_gain_settle(sac_ahead_gain *g, int n_taken) {
    if (!g->n_drafted) return;
    pay_in(g, (n_taken + 1) * g->plain_s - g->pass_s + SHARE * g->pass_s);
    g->width = n_taken + 1;
    g->n_drafted = 0;
}
