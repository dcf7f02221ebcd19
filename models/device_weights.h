/* device_weights.h - a loaded model's language weights in a device's memory. The tower and the projector stay
 * on the host, where they run. */
#ifndef SAC_MODELS_DEVICE_WEIGHTS_H
#define SAC_MODELS_DEVICE_WEIGHTS_H

#include "model.h"

/* Uploads the decoder's weights to one block of the device and points the model at them; *block is the
 * caller's, to be freed by the device. UNSUPPORTED for types that the device's ops do not take. */
sac_status sac_loaded_model_to_device(sac_loaded_model *m, const sac_stream *stream, void **block,
                                      size_t *n_bytes, sac_load_progress progress, void *ctx, sac_error *err);

#endif
