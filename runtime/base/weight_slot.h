/* weight_slot.h - where tensors of a checkpoint go in the structs that compute with them, and the names that
 * their shapes are written with. A part of a model (a tower, a merger) lists its own. */
#ifndef SAC_BASE_WEIGHT_SLOT_H
#define SAC_BASE_WEIGHT_SLOT_H

#include "dtype.h"

#include <stddef.h>

typedef struct sac_weight_slot {
    const char *name; /* of its entry in the YAML: "tower.layer.q" */
    bool in_layer;    /* once for every layer, in the layer's struct; otherwise in the part's */
    bool is_matrix;   /* a sac_weight; otherwise a const float * */
    size_t offset;    /* in the struct */
} sac_weight_slot;

/* A word in the shapes of the YAML, e.g. "t_hidden". */
typedef struct sac_shape_symbol {
    const char *name;
    int64_t value;
} sac_shape_symbol;

#endif
