/* calibrator.h - who has run a model over its user's prompts and knows what its matrices meet there (runtime/calibration), as
 * sac_quantize sees them: what is written then is not rounded to nearest.
 *
 * What becomes of a layer is kept in OUT.part, a file a layer, until all of it is written: tensors of bytes, <name>.codes and
 * <name>.scales of a matrix, as sac_round_codes has them, <name>.whole of a tensor that stays in its type with other values. So
 * an interrupted run goes on with the layer that it was at. */
#ifndef SAC_MODELS_CALIBRATOR_H
#define SAC_MODELS_CALIBRATOR_H

#include "status.h"

#include <stddef.h>
#include <stdint.h>

#define SAC_CALIBRATED_NAME "calibrated-%05d.safetensors"
#define SAC_CALIBRATED_ROWS "calibrated.rows" /* what the next layer meets; its one tensor is named by the layer */

/* Said before anything is written. */
typedef struct sac_calibration_plan {
    int64_t n_prompts, n_rows; /* rows: tokens and visual tokens */
    uint64_t memory_bytes;     /* besides the model and a session */
    uint64_t disk_bytes;       /* in OUT.part, for a time */
} sac_calibration_plan;

/* Said afterwards. */
typedef struct sac_calibration_report {
    int n_unseen; /* matrices that no row met, or of which the model reads a copy: rounded to nearest */
    char first_unseen[128];
    int n_calibrated;
    double error; /* of what the matrices make of the prompts' rows, relative to rounding to nearest: geometric mean */
    int n_scaled; /* groups of matrices whose inputs are scaled by channel */
    int n_scalable;
} sac_calibration_report;

/* A model that is written, as far as calibration has to know. Borrowed. */
typedef struct sac_calibration_job {
    const struct sac_scheme *scheme;
    const struct sac_round_plan *rounds;
    const char *folder; /* OUT.part */
    int n_layers;
    struct sac_pool *pool;
} sac_calibration_job;

typedef struct sac_calibrator {
    void *ctx;
    char stamp[65]; /* the same for the same prompts, put in the same way */
    /* job NULL: of the columns alone. */
    void (*plan)(void *ctx, const sac_calibration_job *job, sac_calibration_plan *plan);
    /* Leaves all layers' files in job->folder, beginning with the first that is not there. */
    sac_status (*layers)(void *ctx, const sac_calibration_job *job, sac_error *err);
    /* [n] sums of squares of what meets each column of a matrix of a layer, by its name in the model; NULL where no row did: it
     * is counted as unseen. `columns` comes first. */
    sac_status (*columns)(void *ctx, sac_error *err);
    const float *(*column_sums)(void *ctx, const char *name, int64_t n);
    void (*report)(void *ctx, sac_calibration_report *report);
} sac_calibrator;

/* A tensor of such a file: bytes, or where cols is not 0, F32 [n_bytes / 4 / cols][cols]. */
typedef struct sac_calibrated_tensor {
    char name[528];
    const void *data;
    size_t n_bytes;
    int64_t cols;
} sac_calibrated_tensor;

/* UNSUPPORTED: of all matrices, of which `first` is one, the model reads copies. */
sac_status sac_calibrated_none(const char *first, sac_error *err);

/* There whole, or not at all. */
sac_status sac_calibrated_write(const char *path, const sac_calibrated_tensor *tensors, int n, sac_error *err);

#endif
