/* slot_metrics.h - what is counted of the answers that a slot makes. */
#ifndef SERVE_SLOT_METRICS_H
#define SERVE_SLOT_METRICS_H

#include "slot.h"

/* Share of the prompt's rows that the layers kept, on average. */
double serve_slot_kept_ratio(const serve_slot *slot);

/* A choice is whole. The prompt counts with the first one. */
void serve_slot_count_choice(const serve_slot *slot, const sac_result *r, double kept_ratio);

/* All choices are made. */
void serve_slot_count_times(const serve_slot *slot);

/* What the request log tells of the slot's job. */
void serve_slot_note(const serve_slot *slot, const char *finish_reason);

#endif
