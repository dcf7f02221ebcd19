/* device_weights.h - a loaded model's weights in a device's memory. */
#ifndef SAC_MODELS_DEVICE_WEIGHTS_H
#define SAC_MODELS_DEVICE_WEIGHTS_H

#include "model.h"

/* Uploads the decoder's weights to one block of the device and points the model at them; *block is the
 * caller's, to be freed by the device. UNSUPPORTED for types that the device's ops do not take. */
sac_status sac_loaded_model_to_device(sac_loaded_model *m, const sac_stream *stream, void **block,
                                      size_t *n_bytes, sac_load_progress progress, void *ctx, sac_error *err);

/* The tower and the projector a second time, on the device; the host's stay as they are. Where they are not
 * all of one 16-bit type there is nothing to do for a device: OK, with *block NULL. vit->layers is the
 * caller's too, to be freed with free(). */
typedef struct sac_device_tower {
    sac_vit vit;
    sac_projector projector;
    void *block;
    size_t n_bytes;
} sac_device_tower;
sac_status sac_tower_to_device(const sac_loaded_model *m, const sac_stream *stream, sac_device_tower *tower,
                               sac_error *err);

#endif
