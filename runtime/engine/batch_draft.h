/* batch_draft.h - guesses of several sessions before a pass that they share, with others that do not draft. Each has its own draft; what
 * makes them runs for all together where it can: the model itself through sparse policies in rows of the batch, a draft model in rows of
 * a batch of its own (of those that were open when the batch was made). Others guess one after another. */
#ifndef SAC_ENGINE_BATCH_DRAFT_H
#define SAC_ENGINE_BATCH_DRAFT_H

#include "batch.h"

/* Of the sessions of the n items at these places, whose own tokens are in b->ids: these and what is guessed behind them, in b->first
 * and b->ids, as many as there are rows to spare. *n_guessed: how many in all. On failure no step of these sessions was run, as the
 * model's own has failed. */
sac_status sac_batch_guess(sac_batch *b, sac_batch_item *items, const size_t *places, size_t n, int64_t *n_guessed, sac_error *err);

/* The pass took so long, the guesses not counted. */
void sac_batch_guessed(sac_batch *b, sac_batch_item *items, const size_t *places, size_t n, double seconds);

#endif
