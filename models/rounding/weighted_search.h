/* weighted_search.h - scales of GGUF's blocks where it is known how much each column of a matrix meets: of those tried, the ones
 * with the least sum of w_i (x_i - value_i)^2. With w the sums of squares of a matrix's inputs that is the error of its outputs, as
 * far as inputs are not correlated (the idea of llama.cpp's importance matrix; its further factor of the weights' own size is left
 * out). As in k_search.h candidates differ in the step, and each has the scale and offset of a weighted linear regression. */
#ifndef SAC_MODELS_WEIGHTED_SEARCH_H
#define SAC_MODELS_WEIGHTED_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

/* x is about scale q + offset, q from 0 to `most`, scale not negative; offset of any sign, or of none above 0. n at most 32. */
void sac_weighted_offset(const float *x, const float *w, int n, int most, bool any_sign, float *scale, float *offset);

/* x is about scale q, q from -most to most - 1; the scale has either sign. n at most 32. */
float sac_weighted_signed(const float *x, const float *w, int n, int most);

/* As sac_search_k_block. */
void sac_weighted_k_block(const float x[256], const float w[256], int most, uint16_t *d, uint16_t *dmin, uint8_t packed[12],
                          uint8_t q[256]);

/* The error of x in codes of a step, between them and an offset: the nearest within [least, most]. */
double sac_weighted_error(const float *x, const float *w, int n, float step, float offset, int least, int most);

/* The nearest code within [least, most] of x, which is about step q + offset. */
int sac_weighted_code(float x, float step, float offset, int least, int most);

#endif
