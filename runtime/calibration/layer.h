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
    float *w; /* [rows][cols] as it is rounded, in the coordinates of the model's own inputs; NULL before */
    uint8_t *codes, *scales;
    size_t codes_bytes, scales_bytes;
} sac_layer_matrix;

typedef struct sac_layer_inputs {
    sac_inputs_kind kind;
    int64_t cols;
    int leader; /* the matrix whose rows are counted */
    sac_input_sums sums;
} sac_layer_inputs;

typedef struct sac_layer_job {
    sac_calibration *c;
    const sac_calibration_job *job;
    int layer;
    sac_layer_matrix *matrices;
    sac_layer_inputs *inputs;
    int n_matrices, n_inputs;
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

/* Rounds the matrices of inputs i, whose sums are complete and are gone afterwards. */
sac_status sac_layer_round(sac_layer_job *l, int i, sac_error *err);

#endif
