/* batch.h - what stands behind sac_batch. */
#ifndef SAC_ENGINE_BATCH_H
#define SAC_ENGINE_BATCH_H

#include "ahead_gain.h"
#include "decoder_draft.h"
#include "step.h"

enum { SAC_BATCH_DRAFTS = 4 }; /* draft models that have a batch of their own in one */

struct sac_batch {
    const sac_model *model;
    size_t capacity; /* sessions */
    size_t n_prompt; /* rows of prompts beside them; 0 where none of the model's may go along */
    sac_arena arena;
    sac_stream stream; /* of every op of a batch step, attention of the sessions included */
    sac_ops ops;
    void *device_memory; /* NULL on the CPU */
    size_t device_bytes; /* with the scratch of its ops */
    void *pinned; /* of the host, beside a device: what `rows` finds of logits */
    sac_decoder_batch rows;
    sac_decoder_state **states; /* [capacity] of those whose pending tokens run together */
    int32_t *ids;               /* [capacity] */
    size_t *places;             /* [capacity] their items */
    int *adapters;              /* [capacity] of `rows`, as these: */
    int64_t *first;             /* [capacity + 1] */
    int32_t *own;               /* [capacity] */
    int *n_guessed;             /* [capacity] tokens guessed behind each pending one */
    size_t n_ran, n_ran_ahead;  /* rows of sessions that the last step ran, and how many of them were guessed */
    double *making_s;           /* [capacity] what these took to make (batch_draft.h) */
    sac_draft_lane *lanes;      /* [capacity] of those that are made together; */
    size_t *lane_of;            /* [capacity] and whose */
    sac_ahead_shared *passes;   /* [capacity + 1] of so many sessions */
    sac_batch *drafts[SAC_BATCH_DRAFTS]; /* of draft models that were open when it was made */
    size_t n_drafts;
};

#endif
