/* place_weight.h - a weight's parts to a device's memory, by placer.h. */
#ifndef SAC_PLACE_WEIGHT_H
#define SAC_PLACE_WEIGHT_H

#include "placer.h"
#include "weight.h"

/* Points the weight to the copies of its parts; without numbers it stays as it is. UNSUPPORTED, by name, for what
 * the device's ops do not take. */
sac_status sac_place_weight(sac_placer *p, sac_weight *w);

#endif
