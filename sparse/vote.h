/* vote.h - from scores of heads to one order of keys: softmaxes and their sum over heads, in f32.
 *
 * Scores are [n_rows][stride], a row a head, of which n count (or counts[row]). Every result is the same for
 * any number of threads. */
#ifndef SAC_VOTE_H
#define SAC_VOTE_H

#include "ops.h"

/* lse[row] = ln sum_j exp(scores[row][j]); -infinity of an empty row. */
void sac_scores_lse(const sac_stream *s, const float *scores, int64_t stride, int n_rows,
                    const int64_t *counts, int64_t n, float *lse);

/* scores[row][j] = exp(scores[row][j] - lse[row]), in place: the softmax of each row. */
void sac_scores_softmax(const sac_stream *s, float *scores, int64_t stride, int n_rows, const int64_t *counts,
                        int64_t n, const float *lse);

/* votes[j] = ln sum_rows exp(scores[row][j] - lse[row]): the sum of the softmaxes, as a logarithm, so that
 * keys far from every head's best keep their order where the sum itself would underflow. */
void sac_soft_vote(const sac_stream *s, const float *scores, int64_t stride, int n_rows, int64_t n,
                   const float *lse, float *votes);

/* votes[j] = sum_rows scores[row][j]. */
void sac_sum_vote(const float *scores, int64_t stride, int n_rows, int64_t n, float *votes);

#endif
