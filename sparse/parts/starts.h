/* starts.h - where lists of equal length begin. */
#ifndef SAC_STARTS_H
#define SAC_STARTS_H

#include "policy.h"

typedef struct sac_starts {
    sac_buffer at; /* int64_t [n_lists + 1] */
    int64_t sent;  /* the length that the device knows; 0: none */
} sac_starts;

void sac_starts_take(sac_starts *s, int n_lists, const sac_memory *memory);

/* n_lists of `length` rows each, where the op that makes the lists writes the device's side. */
void sac_starts_expect(sac_starts *s, int n_lists, int64_t length);

/* The same where no op does: the device is told, unless it knows. Always of as many lists. */
sac_status sac_starts_set(sac_starts *s, const sac_layer_attention *a, int n_lists, int64_t length);

#endif
