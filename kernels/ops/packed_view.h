#ifndef SAC_PACKED_VIEW_H
#define SAC_PACKED_VIEW_H

#include "device.h"

/* Rows of keys and values as codes of 2, 4 or 8 bits, x = code * scale + min (packed_rows.h has the layout).
 * Parameters are IEEE halves. Keys: one range a channel over every k_group rows (a multiple of 16, or of
 * capacity or more), k_scale [n_heads][groups][head_dim]; or, k_group 0, one range a row and head, [n_heads]
 * [capacity]. Values: one range a row for every v_group channels (all heads' channels, whole heads, or a
 * multiple of 16 within a head, whose last group may be shorter), v_scale [groups][capacity]; with v_channel
 * [n_heads * head_dim] they are then multiplied by it. */
typedef struct sac_packed_rows {
    int64_t n, capacity; /* rows stored; rows that the layout has room for */
    int n_heads, head_dim, bits;
    uint32_t *k, *v; /* v may be NULL where only scores are wanted */
    uint16_t *k_scale, *k_min, *v_scale, *v_min, *v_channel;
    int64_t k_group;
    int v_group;
} sac_packed_rows;

#endif
