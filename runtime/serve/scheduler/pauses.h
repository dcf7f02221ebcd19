/* pauses.h - how long prompts may run between two steps of the answers.
 *
 * As long as a step takes, so that each has half of the time: neither answers nor prompts stand still. But no longer than the
 * target for the time between two tokens leaves, and pieces of prompts are cut to that (sac_session_work_within). Where a step
 * alone takes as long as the target or nearly, prompts still get a quarter of a step, as somebody waits for them, too. */
#ifndef SERVE_PAUSES_H
#define SERVE_PAUSES_H

/* All in seconds. target: between two tokens; 0: nobody set one, and it is SERVE_PAUSE, or two steps where these take longer.
 * step: that the last one took; 0: nothing is being answered. */
#define SERVE_PAUSE 0.05

/* How long after a step the next one is due. */
double serve_pause_share(double target, double step);

/* How long the next piece may take, when `since` has gone by since the last step. */
double serve_pause_piece(double target, double step, double since);

#endif
