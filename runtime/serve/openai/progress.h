/* progress.h - how far a request is, told in the stream of a chat that asks for it ("saccade": {"progress": true}): chunks without
 * choices before the answer's first, with
 *     "saccade": {"progress": {"stage": "decode", "medium": 0, "done": 12, "total": 64}}
 * Stages, in the order in which they come: "queue" (done 0, total: how many are before it), "decode" (frames of a medium that have been
 * decoded), "queue" again, "vision" (frames of a medium that the tower has seen), "prefill" (steps of running the prompt). */
#ifndef SERVE_PROGRESS_H
#define SERVE_PROGRESS_H

#include "job.h"

#include <stdint.h>

/* From the thread that the job belongs to at the time. `stage` is a text that stays; medium -1: of all of the request; total 0: not known.
 * What comes within a tenth of a second of the last is left out unless it is of another stage or medium, or the end of one. */
void serve_progress_tell(serve_job *j, const char *stage, int64_t medium, int64_t done, int64_t total);

#endif
