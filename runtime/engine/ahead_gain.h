/* ahead_gain.h - how many tokens a draft that costs time may have: by the clock, as what it brings and what it costs depend on the
 * machine, the model and the length of the sequence. An account in seconds: an answer begins with those of a step and a half
 * without a draft, and 2 % of its time is paid in, the prompt's with it; a pass with drafted tokens pays in what it saved, or takes
 * what it cost. What a pass may lose at worst must be there before it is tried. So drafts that never pay cost no more than that, and
 * those that do go on.
 * A pass that n sequences share is counted by shares: a token that a pass without a draft gives one of them costs an nth of it, and a
 * draft all that it takes, as the others wait for it. So the accounts of all n together lose no more of a pass than one alone. */
#ifndef SAC_ENGINE_AHEAD_GAIN_H
#define SAC_ENGINE_AHEAD_GAIN_H

#include <stdbool.h>

typedef struct sac_ahead_gain {
    double plain_s;  /* of a step without a draft; */
    int n_plain;     /* and of how many this was measured, of this answer */
    double token_s;  /* that a drafted token costs, in making and as a row of the pass; 0: not known */
    double shared_token_s; /* likewise, in passes that are shared */
    bool has_begun;  /* has had the step and a half */
    double account_s;
    double pass_s;   /* of the last pass with drafted tokens, and of making these; of one that was shared, its share */
    double without_s; /* and of the step that there would have been in its place */
    int n_drafted;   /* tokens of it; 0: it is settled */
    int width;       /* tokens drafted at a time, as many as were right lately and one more */
    int n_passes;    /* since a step without a draft was measured */
} sac_ahead_gain;

/* An answer begins, whose prompt took so long. */
void sac_ahead_gain_start(sac_ahead_gain *g, double prompt_s);

/* Tokens to draft now, of `most`. */
int sac_ahead_gain_most(const sac_ahead_gain *g, int most);

/* A step without a draft was run; a pass behind n_drafted drafted tokens, of which the answer has taken n_taken in the end. */
void sac_ahead_gain_plain(sac_ahead_gain *g, double seconds);
void sac_ahead_gain_passed(sac_ahead_gain *g, int n_drafted, double seconds);
void sac_ahead_gain_settle(sac_ahead_gain *g, int n_taken);

/* ---- of a pass that several share; `share_s` is what one without drafts takes of each */

/* A pass of so many sequences, without drafts: of the batch, which has one for each number. */
typedef struct sac_ahead_shared {
    double plain_s;
    int n_plain, n_passes; /* as in sac_ahead_gain */
} sac_ahead_shared;

/* False: it is to be measured before it is drafted, or once again. */
bool sac_ahead_shared_is_known(const sac_ahead_shared *p);
/* A pass without drafts was run, or one with some. */
void sac_ahead_shared_plain(sac_ahead_shared *p, double seconds);
void sac_ahead_shared_passed(sac_ahead_shared *p);

int sac_ahead_gain_most_shared(sac_ahead_gain *g, double share_s, int most);
/* n_drafted tokens, 0 too, were run, which cost cost_s in making and as rows of the pass. Settled as another. */
void sac_ahead_gain_passed_shared(sac_ahead_gain *g, int n_drafted, double share_s, double cost_s);

#endif
