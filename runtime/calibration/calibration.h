/* calibration.h - a model run over its user's prompts, pictures and videos, so that its matrices are written in fewer bits with
 * least change of what they make of these (models/write/calibrator.h). On the CPU, in f32.
 *
 * A folder is calibrated layer by layer: the rows that meet a layer are those that the layers before it make as they will be
 * written. Of each matrix the sums of x x^T over the rows x of its inputs are gathered (observer.h), its rows rounded with
 * error feedback (gptq.h), and the layer run again with what that leaves. At a time there are the sums of one layer, the
 * layer's matrices in f32, and a row of hidden states for each token. */
#ifndef SAC_CALIBRATION_H
#define SAC_CALIBRATION_H

#include "calibrator.h"
#include "saccade/saccade.h"

typedef struct sac_calibration sac_calibration;

/* Borrowed while the calibration lives. */
typedef struct sac_calibration_prompt {
    sac_input input;
    const char *name; /* in errors: "prompts.jsonl:3" */
} sac_calibration_prompt;

typedef struct sac_calibration_options {
    int n_threads;    /* 0: one for each processor */
    int64_t n_ctx;    /* the longest prompt; 0: the model's length, at most 4096 */
    const char *chat; /* how conversations are written; NULL: as the model's files have it */
    void (*progress)(void *ctx, const char *stage, int64_t done, int64_t total); /* or NULL */
    void *ctx;
} sac_calibration_options;

/* Opens the model and looks up or encodes all prompts, without running a layer. Errors of a prompt bear its name. */
sac_status sac_calibration_open(sac_calibration **out, const char *model, const sac_calibration_prompt *prompts, size_t n,
                                const sac_calibration_options *options, sac_error *err);
void sac_calibration_close(sac_calibration *c); /* NULL is fine */

/* What sac_quantize is told; valid while c is. */
const sac_calibrator *sac_calibration_calibrator(sac_calibration *c);

#endif
