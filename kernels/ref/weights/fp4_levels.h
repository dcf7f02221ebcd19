/* fp4_levels.h - the values of e2m1 (OCP Microscaling Formats 1.0, section 5.3.3), by their bits: the sign is the highest. */
#ifndef SAC_FP4_LEVELS_H
#define SAC_FP4_LEVELS_H

extern const float sac_fp4_levels[16];

#endif
