/* layer.h - one layer of a folder that is calibrated: its matrices, grouped by the inputs that they share. */
#ifndef SAC_CALIBRATION_LAYER_H
#define SAC_CALIBRATION_LAYER_H

#include "gather.h"
#include "observer.h"
#include "prompts.h"
#include "round_plan.h"

/* The part of a layer that makes a matrix's inputs; others have one of their own. */
typedef enum sac_inputs_kind { SAC_INPUTS_ATTENTION, SAC_INPUTS_O, SAC_INPUTS_MLP, SAC_INPUTS_DOWN, SAC_INPUTS_OTHER } sac_inputs_kind;

typedef struct sac_layer_matrix {
    const sac_plan_entry *entry;
    sac_code_format format;
    int64_t rows, cols;
    int inputs;
    float *w;       /* [rows][cols] what its codes stand for, for the model's own inputs; NULL before */
    float *divisor; /* [rows] of its rows as they are written; NULL: 1 */
    uint8_t *codes, *scales;
    size_t codes_bytes, scales_bytes;
} sac_layer_matrix;

typedef struct sac_layer_inputs {
    sac_inputs_kind kind;
    int64_t cols;
    int leader; /* the matrix whose rows are counted */
    sac_input_sums sums;
    float *s; /* [cols] that the inputs are divided by; NULL: 1 */
} sac_layer_inputs;

/* A vector that is written with other values. */
typedef struct sac_layer_whole {
    const sac_checkpoint_tensor *from;
    uint8_t *bytes; /* owned */
} sac_layer_whole;

typedef struct sac_layer_job {
    sac_calibration *c;
    const sac_calibration_job *job;
    int layer;
    sac_layer_matrix *matrices;
    sac_layer_inputs *inputs;
    sac_layer_whole wholes[4]; /* two norms, a bias */
    int n_matrices, n_inputs, n_wholes;
    int first, end; /* inputs whose sums are gathered */
    sac_observer observer;
} sac_layer_job;

/* The layer's matrices and inputs, nothing rounded yet. On failure, too, sac_layer_close frees what there is. */
sac_status sac_layer_open(sac_layer_job *l, sac_calibration *c, const sac_calibration_job *job, int layer, sac_error *err);
void sac_layer_close(sac_layer_job *l);

/* Bytes while the layer is calibrated: its matrices, and the sums that stand beside one another. */
uint64_t sac_layer_bytes(const sac_layer_job *l);

/* Inputs [first, end) whose sums fit together: the most that there is room for, one at least. */
int sac_layer_batch(const sac_layer_job *l, int first);

/* A matrix as it is rounded, but for the scales of its columns: w [rows][cols]. */
sac_status sac_layer_read(const sac_layer_job *l, const sac_layer_matrix *m, float *w, sac_error *err);

/* The sums of inputs i are complete: they become what rows are rounded by (gptq.h). */
sac_status sac_layer_factor(sac_layer_job *l, int i, sac_error *err);

/* Rounds the matrices of inputs i, whose sums are gone afterwards. */
sac_status sac_layer_round(sac_layer_job *l, int i, sac_error *err);

#endif
