/* pace.h - how fast pieces of a prompt's work go, by kind, so that the next one can be cut to take about as long as it may. */
#ifndef SAC_ENGINE_PACE_H
#define SAC_ENGINE_PACE_H

typedef enum sac_pace_kind {
    SAC_PACE_IN, /* of the prefill: into attention, attention, and out of it */
    SAC_PACE_ATTEND,
    SAC_PACE_OUT,
    SAC_PACE_TOWER,
    SAC_PACE_HEAD, /* logits of rows */
    SAC_N_PACES
} sac_pace_kind;

/* A zeroed one knows nothing yet. */
typedef struct sac_pace {
    double rate[SAC_N_PACES]; /* work a second; 0 = not measured */
} sac_pace;

/* Work that goes into so many seconds; a little where nothing was measured. */
double sac_pace_most(const sac_pace *p, sac_pace_kind kind, double seconds);

/* A piece of so much work took so long. What was measured last counts for half, so that another load of the machine is
 * noticed within a few pieces. */
void sac_pace_measure(sac_pace *p, sac_pace_kind kind, double work, double seconds);

#endif
