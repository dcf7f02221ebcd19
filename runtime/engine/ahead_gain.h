/* ahead_gain.h - how many tokens a draft that costs time may have: by the clock, as what it brings and what it costs depend on the
 * machine, the model and the length of the sequence. An account in seconds: an answer begins with those of a step and a half
 * without a draft, and 2 % of its time is paid in, the prompt's with it; a pass with drafted tokens pays in what it saved, or takes
 * what it cost. What a pass may lose at worst must be there before it is tried. So drafts that never pay cost no more than that, and
 * those that do go on. */
#ifndef SAC_ENGINE_AHEAD_GAIN_H
#define SAC_ENGINE_AHEAD_GAIN_H

typedef struct sac_ahead_gain {
    double plain_s;  /* of a step without a draft; */
    int n_plain;     /* and of how many this was measured, of this answer */
    double token_s;  /* that a drafted token costs, in making and as a row of the pass; 0: not known */
    double account_s;
    double pass_s;   /* of the last pass with drafted tokens, and of making these */
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

#endif
