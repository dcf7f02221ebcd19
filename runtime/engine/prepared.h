/* prepared.h - a picture as the vision tower takes it, with a hash of what it is. */
#ifndef SAC_ENGINE_PREPARED_H
#define SAC_ENGINE_PREPARED_H

#include "engine.h"

struct sac_prepared {
    const sac_model *model;
    sac_visual_plan plan; /* is_video_frame says what it was prepared as */
    sac_vision_key digest;
    bool is_cut;
    size_t n_bytes;
    size_t among_at; /* where the rows of the picture as one of several begin; 0: they are the same */
    /* Patch rows of plan.n_tiles, as sac_processor_cut makes them; where is_cut is false, because the size of a frame
     * depends on how many there are, its pixels [height][width][3]. */
    uint8_t patches[];
};

/* The patch rows for a plan of this picture. */
static inline const uint8_t *sac_prepared_patches(const sac_prepared *p, const sac_visual_plan *plan) {
    return p->patches + (plan->is_among ? p->among_at : 0);
}

/* May it stand where a picture, or a frame of a video, is asked of this model? */
sac_status sac_prepared_check(const sac_prepared *p, const sac_model *m, bool is_frame, sac_error *err);

#endif
