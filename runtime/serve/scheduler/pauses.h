/* pauses.h - how long prompts may run between two steps of the answers.
 *
 * As long as a step takes, so that each has half of the time: neither answers nor prompts stand still. But no longer than the
 * target for the time between two tokens leaves, and pieces of prompts are cut to that (sac_session_work_within). Where a step
 * alone takes as long as the target or nearly, prompts still get a quarter of a step, as somebody waits for them, too. */
#ifndef SERVE_PAUSES_H
#define SERVE_PAUSES_H

#include <stdint.h>

/* All in seconds. target: between two tokens; 0: nobody set one, and it is SERVE_PAUSE, or two steps where these take longer.
 * step: that one takes; 0: nothing is being answered. */
#define SERVE_PAUSE 0.05

/* What a step takes, after one more that took so long: a single slow one, on a machine that does other things too, raises it by a
 * quarter only. */
double serve_pause_step(double step, double took);

/* What the target leaves for prompts between two steps, or for their rows in one. */
double serve_pause_room(double target, double step);

/* How long after a step the next one is due. */
double serve_pause_share(double target, double step);

/* How long the next piece may take, when `since` has gone by since the last step. */
double serve_pause_piece(double target, double step, double since);

/* How many rows of a prompt a step may take along, of which each takes row_s (0: not measured), so that it comes back in time: at
 * most `most`, 0 where it would be so few that running apart costs no more. */
#define SERVE_PASS_LEAST 16
int64_t serve_pause_rows(double target, double step, double row_s, int64_t most);

#endif
