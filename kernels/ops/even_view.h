#ifndef SAC_EVEN_VIEW_H
#define SAC_EVEN_VIEW_H

#include "device.h"

enum { SAC_EVEN_TILE = 128 /* rows */ };

/* Tiles of SAC_EVEN_TILE rows, one behind another (even_tiles.h has the layout): keys and values of every head turned by
 * a Hadamard matrix over their channels, then divided by factors, keys by one a row and values by one a channel (KVarN,
 * arXiv:2606.03458), and rounded as packed rows are, keys with a range a channel, values with one a row and head. */
typedef struct sac_even_tiles {
    uint8_t *at; /* a multiple of 4 bytes */
    int64_t n;
    int n_heads, head_dim; /* a power of two, 256 at most */
    int k_bits, v_bits;
} sac_even_tiles;

#endif
