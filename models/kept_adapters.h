/* kept_adapters.h - adapters that are kept apart: what they add to a matrix stays two thin matrices beside it, so that
 * each sequence may have another one (llm/block.h), and quantised matrices can be adapted. Of the decoder's layers
 * only. */
#ifndef SAC_MODELS_KEPT_ADAPTERS_H
#define SAC_MODELS_KEPT_ADAPTERS_H

#include "adapted.h"
#include "arena.h"

#define SAC_MAX_KEPT_ADAPTERS 64

typedef struct sac_kept_adapter {
    char *name;
    sac_adapter adapter;
    int number; /* of the decoder's */
} sac_kept_adapter;

typedef struct sac_kept_adapters {
    sac_kept_adapter item[SAC_MAX_KEPT_ADAPTERS];
    int n;
    sac_arena arena; /* the matrices in f32, and the layers' tables */
} sac_kept_adapters;

/* `spec`: "NAME=DIR" or "NAME=DIR:scale". On failure nothing is added. */
sac_status sac_kept_adapters_add(sac_kept_adapters *k, const char *spec, sac_error *err);
void sac_kept_adapters_close(sac_kept_adapters *k); /* zeroed ones are fine */

/* Whether what is added to the slot's matrix can be kept apart: a router's, an expert's or the head's cannot. */
bool sac_kept_adapters_have_slot(const char *slot);

/* NOT_FOUND, with the names that there are. */
sac_status sac_kept_adapters_find(const sac_kept_adapters *k, const char *name, int *number, sac_error *err);

#endif
