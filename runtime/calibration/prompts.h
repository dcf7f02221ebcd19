/* prompts.h - the prompts of a calibration on their way through the model, a layer at a time: the hidden states that the next
 * layer meets, of all of them. */
#ifndef SAC_CALIBRATION_PROMPTS_H
#define SAC_CALIBRATION_PROMPTS_H

#include "calibration.h"
#include "engine.h"

struct sac_calibration {
    sac_calibration_options options;
    const sac_calibration_prompt *prompts;
    size_t n;
    sac_model *model;
    sac_session *session;
    int64_t *first; /* [n + 1] where the rows of each prompt begin */
    float *rows;    /* [first[n]][hidden] what layer `layer` meets */
    int64_t hidden;
    int layer;
    sac_calibrator calibrator;
    sac_calibration_report report;
    double log_error; /* sum over report.n_calibrated */
    float **sums;     /* [n_sums] by watched tag: column sums (columns.c) */
    int n_sums;
};

/* Fills rows with what the first layer meets. */
sac_status sac_calibration_embed(sac_calibration *c, sac_error *err);

/* Runs one layer on prompt i as c->rows have it. out: [its rows][hidden] what the layer makes of them; NULL: nothing is kept. */
sac_status sac_calibration_run_layer(sac_calibration *c, size_t i, int layer, float *out, sac_error *err);

/* All layers on prompt i. */
sac_status sac_calibration_run(sac_calibration *c, size_t i, sac_error *err);

static inline int64_t sac_calibration_n_rows(const sac_calibration *c) {
    return c->first[c->n];
}

static inline void sac_calibration_tell(const sac_calibration *c, const char *stage, int64_t done, int64_t total) {
    if (c->options.progress) c->options.progress(c->options.ctx, stage, done, total);
}

/* A matrix that is rounded to nearest all the same. */
void sac_calibration_note_unseen(sac_calibration *c, const char *name);

/* The model's tensor of a name; NULL when there is none. */
const sac_tensor_entry *sac_calibration_tensor(const sac_calibration *c, const char *name);

/* calibrate_layers.c, columns.c: what the calibrator does. */
void sac_calibration_plan_layers(void *ctx, const sac_calibration_job *job, sac_calibration_plan *plan);
sac_status sac_calibration_layers(void *ctx, const sac_calibration_job *job, sac_error *err);
sac_status sac_calibration_columns(void *ctx, sac_error *err);
const float *sac_calibration_column_sums(void *ctx, const char *name, int64_t n);
void sac_calibration_free_columns(sac_calibration *c);

#endif
