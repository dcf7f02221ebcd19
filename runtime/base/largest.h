/* largest.h - the largest of many numbers, and where it is: the likeliest of a vocabulary's tokens. */
#ifndef SAC_BASE_LARGEST_H
#define SAC_BASE_LARGEST_H

#include <stdint.h>

/* The largest of n; NaN counts for nothing; -INFINITY where there is none. */
float sac_largest(const float *x, int n);

/* Where the first of the largest is, n >= 1; 0 where the first is NaN or nothing is above -INFINITY. */
int32_t sac_largest_at(const float *x, int n);

#endif
