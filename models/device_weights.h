/* device_weights.h - copies of a loaded model's weights in a device's memory. The model on the host stays as
 * it is, so several devices, or a device and the CPU, can hold one model. */
#ifndef SAC_MODELS_DEVICE_WEIGHTS_H
#define SAC_MODELS_DEVICE_WEIGHTS_H

#include "model.h"

/* The decoder a second time, its weights in one block of the device. */
typedef struct sac_device_decoder {
    sac_decoder decoder; /* its layers are this struct's own */
    void *block;
    size_t n_bytes;
} sac_device_decoder;

/* UNSUPPORTED for types that the device's ops do not take. After a failure too the caller frees *out. */
sac_status sac_decoder_to_device(const sac_loaded_model *m, const sac_stream *stream, sac_device_decoder *out,
                                 sac_load_progress progress, void *ctx, sac_error *err);
void sac_device_decoder_free(sac_device_decoder *d, const sac_device *device); /* a zeroed one is fine */

/* The tower and the merger a second time, on the device; the host's stay as they are. Where they are not all of
 * one 16-bit type there is nothing to do for a device: OK, with *block NULL. After a failure too the caller frees
 * *out. */
typedef struct sac_device_tower {
    sac_tower tower;
    sac_merger merger;
    const float *image_newline; /* [merger.out] or NULL */
    void *block;
    size_t n_bytes;
    void *own[3]; /* the structs of the tower, its layers and the merger */
} sac_device_tower;
sac_status sac_tower_to_device(const sac_loaded_model *m, const sac_stream *stream, sac_device_tower *out,
                               sac_error *err);
void sac_device_tower_free(sac_device_tower *t, const sac_device *device); /* a zeroed one is fine */

#endif
