/* gptq.h - codes with scales apart, chosen so that what a matrix makes of the rows that it meets changes little: error feedback.
 * Frantar et al. 2022, GPTQ (arXiv:2210.17323, section 3): the columns of a row of W are rounded one after another, and the
 * error of each is made good by those behind it. With H = sum of x x^T over rows x of the matrix's inputs, the loss of a row is
 * (w - q) H (w - q)^T, and with U upper triangular, U^T U the inverse of H,
 *
 *   e = (w_i - q_i) / U_ii,   w_j -= e U_ij for j > i,   loss = sum of e^2.
 *
 * Columns are taken in order, in blocks whose effect on what is behind them is added at once, and a group's scale is chosen when
 * its first column is met. Two differences from the paper's code: the effects of all columns before a group are in its elements
 * whatever its length, and a column whose inputs were all 0 keeps its value and is rounded to nearest. */
#ifndef SAC_MODELS_GPTQ_H
#define SAC_MODELS_GPTQ_H

#include "rounding.h"
#include "thread_pool.h"

/* h [k][k], symmetric, sums of x x^T: becomes U in its upper triangle, of H + damping times the mean of its diagonal on the
 * diagonal. Below it stands what does not matter. NO_MEMORY never; BAD_ARGUMENT where H has a value that is not finite, or no
 * such U exists in f64. pool: NULL for the caller's thread alone. */
sac_status sac_gptq_factor(double *h, int64_t k, double damping, sac_pool *pool, sac_error *err);

/* What rows are rounded by. Borrowed. */
typedef struct sac_gptq {
    sac_code_format format;
    const double *u; /* [k][k] */
    int64_t k;       /* a multiple of 8 where codes are packed */
    const float *s;  /* [k]: rounded are w_i s_i, and the inputs divided by s meet them; NULL: 1 */
} sac_gptq;

/* n rows of w [n][k], which becomes what the codes stand for, without s. codes, scales: as sac_round_codes has them, row behind
 * row; either may be NULL. *loss: the sum over the rows. NO_MEMORY. */
sac_status sac_gptq_round(const sac_gptq *g, float *w, int64_t n, uint8_t *codes, uint8_t *scales, double *loss, sac_pool *pool,
                          sac_error *err);

/* Sum over n rows d [n][k] of d (U^T U)^-1 d^T: the loss of any rounding whose error is d. NO_MEMORY. */
sac_status sac_gptq_loss(const double *u, int64_t k, const float *d, int64_t n, double *loss, sac_pool *pool, sac_error *err);

#endif
