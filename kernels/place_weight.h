/* place_weight.h - a weight's parts to a device's memory, by placer.h, if its ops take the format. */
#ifndef SAC_PLACE_WEIGHT_H
#define SAC_PLACE_WEIGHT_H

#include "placer.h"
#include "weight.h"

/* Whether a device multiplies activations of this type with such a weight. */
bool sac_device_takes_weight(const sac_device *d, const sac_weight *w, sac_dtype activations);

/* UNSUPPORTED, with the format's name, for a weight that p's device does not take; without numbers it is fine. */
sac_status sac_place_check(const sac_placer *p, const sac_weight *w);

/* Points the weight to the copies of its parts; without numbers it stays as it is. What sac_place_check says is
 * known when the arena measures: before there is memory or a copy. */
sac_status sac_place_weight(sac_placer *p, sac_weight *w);
/* The same of a matrix that is rounded where it is in f32, whatever p says of others: GGUF's converters write patch
 * embeddings so, beside matrices of 16 bits or fewer. */
sac_status sac_place_rounded(sac_placer *p, sac_weight *w);

#endif
