/* even.h - rows of numbers made alike before they are rounded: turned by a Hadamard matrix, and divided by
 * factors of their rows and columns (KVarN, arXiv:2606.03458). */
#ifndef SAC_EVEN_H
#define SAC_EVEN_H

#include "dtype.h"

#include <stdbool.h>

enum { SAC_EVEN_MAX = 256 /* most rows and columns */ };

/* x H in place, H the orthonormal Hadamard matrix of n rows (Sylvester's): its own inverse. n is a power
 * of two. */
void sac_even_turn(float *x, int64_t n);

/* Factors of columns, of an [n][m] matrix x, that bring what columns and rows are spread by together: in each of
 * 16 rounds columns' standard deviations (of n - 1, between 1e-3 and 1e3) go into the columns' factors, then
 * rows' into the rows'; kept is the round after which largest over smallest deviation of columns and of rows
 * have the least sum, the last of equal ones, the start included. Logarithms of factors stay between -8 and 10.
 * of_rows: the same of x's transpose, so that the factors are the rows'. factor [m], or [n] of_rows. turned [n * m] is
 * scratch. */
void sac_even_factors(const float *x, int64_t n, int64_t m, bool of_rows, float *turned, float *factor);

#endif
