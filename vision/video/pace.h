/* pace.h - frames by the seconds at which they stand, as GLM-4.1V's and GLM-4.6V's own code chooses them. */
#ifndef SAC_PACE_H
#define SAC_PACE_H

#include "sampling.h"

/* The frames at request->pace, which is not SAC_PACE_EVEN, of a video of `total` frames at `fps`, both above 0: ascending, each
 * once, as transformers 5 has them (Glm4vVideoProcessor and Glm46VVideoProcessor, sample_frames) before the last is repeated
 * to make their number even. index NULL: only their number, which is returned, 1 to total. */
int64_t sac_pace_choose(const sac_frame_request *request, int64_t total, double fps, int64_t *index);

#endif
