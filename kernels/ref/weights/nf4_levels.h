/* nf4_levels.h - the 16 levels of the 4-bit normal float, from the lowest to the highest. */
#ifndef SAC_NF4_LEVELS_H
#define SAC_NF4_LEVELS_H

extern const float sac_nf4_levels[16];

#endif
