/* placer.h - copies weights into one block of a device's memory, or measures how large it must be: the same
 * calls twice, first with an arena that measures. */
#ifndef SAC_DEVICE_PLACER_H
#define SAC_DEVICE_PLACER_H

#include "device.h"

typedef struct sac_placer {
    sac_arena arena; /* over the device's block, or measuring: then nothing is copied or changed */
    const sac_stream *stream;
    sac_dtype activations; /* what the weights will be multiplied with */
    bool rounds_f32;       /* weights in f32 are rounded to activations of 16 bits, not refused */
    sac_error *err;
} sac_placer;

/* Each points *at to the copy; what is NULL stays so. Of weights see place_weight.h. */
sac_status sac_place_bytes(sac_placer *p, const void **at, size_t n_bytes);
sac_status sac_place_vector(sac_placer *p, const float **at, int64_t n);

/* Three parts of equal size one behind another; *at is the first, or NULL where a part is missing. */
sac_status sac_place_three(sac_placer *p, const void **at, const void *const parts[3], size_t part_bytes);

/* Bytes that the caller is about to free: waits until they are copied. */
sac_status sac_place_borrowed(sac_placer *p, const void **at, size_t n_bytes);

#endif
