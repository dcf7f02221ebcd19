/* device_weights.h - copies of a loaded model's weights in a device's memory. The model on the host stays as
 * it is, so several devices, or a device and the CPU, can hold one model. */
#ifndef SAC_MODELS_DEVICE_WEIGHTS_H
#define SAC_MODELS_DEVICE_WEIGHTS_H

#include "model.h"

/* The decoder a second time, its weights in one block of the device. */
typedef struct sac_device_decoder {
    sac_decoder decoder;        /* its layers are this struct's own */
    sac_adapted_layer *adapted; /* what they point to of adapters; or NULL */
    sac_expert *experts;        /* [sparse layers][experts] what its layers point to; or NULL */
    void *block;
    size_t n_bytes;
} sac_device_decoder;

/* The type of activations on a device, where nobody asks for another: that of most weights if it is a floating
 * one, otherwise f16 where some are stored so and none in bf16, otherwise bf16. */
sac_dtype sac_device_activations(const sac_loaded_model *m);

/* For activations of a type. UNSUPPORTED, by name and before anything is taken, for weights that the device's ops
 * do not take with them. After a failure too the caller frees *out. */
sac_status sac_decoder_to_device(const sac_loaded_model *m, sac_dtype activations, const sac_stream *stream,
                                 sac_device_decoder *out, sac_load_progress progress, void *ctx,
                                 sac_error *err);
void sac_device_decoder_free(sac_device_decoder *d, const sac_device *device); /* a zeroed one is fine */

/* The tower and the merger a second time, on the device; the host's stay as they are. Their activations are the
 * decoder's if these have 16 bits and the weights go with them, otherwise f16 or bf16. Where the device takes the
 * weights with none of them, the tower runs on the host: OK, with block NULL. After a failure too the caller frees *out. */
typedef struct sac_device_tower {
    sac_tower tower;
    sac_merger merger;
    const float *image_newline; /* [merger.out] or NULL */
    void *block;
    size_t n_bytes;
    sac_dtype activations;
    void *own[4]; /* the structs of the tower, its layers, the merger and its layers */
} sac_device_tower;
sac_status sac_tower_to_device(const sac_loaded_model *m, sac_dtype activations, const sac_stream *stream,
                               sac_device_tower *out, sac_error *err);
void sac_device_tower_free(sac_device_tower *t, const sac_device *device); /* a zeroed one is fine */

#endif
