/* slot_events.h - what a slot's session tells while it works, on its way into the answer and the metrics. */
#ifndef SERVE_SLOT_EVENTS_H
#define SERVE_SLOT_EVENTS_H

#include "slot.h"

/* For the job that the slot holds; their context is the slot. */
sac_events serve_slot_events(serve_slot *slot);

/* A sac_kept_fn: which rows a layer keeps of the prompt. */
void serve_slot_on_kept(void *slot, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens);

#endif
