/* calibrated.h - the layers' files of a calibration (calibrator.h) on their way into a folder. */
#ifndef SAC_MODELS_CALIBRATED_H
#define SAC_MODELS_CALIBRATED_H

#include "calibrator.h"
#include "safetensors_write.h"

/* What the layers' files in job->folder hold goes to the places of what would be rounded to nearest or copied: `made` of the parts, which
 * borrow from `files`. BAD_FILE for a tensor of another size. Free `files` after a failure too. */
sac_status sac_calibrated_take(sac_checkpoint *files, const sac_calibration_job *job, sac_out_shard *shards, int n_shards, sac_error *err);

/* Once all files of weights are there. */
void sac_calibrated_remove(const char *folder, int n_layers);

#endif
