/* controller.h - a small recurrent network that tells from tokens alone which of them attention will want.
 *
 * Source: Zhang et al., ACL 2024, arXiv:2407.02328 (ADORE), section 2.2 and appendix B.
 *   z_i = GRU(x_i, z_{i-1}),  score_i = w2 . tanh(W1 (p_i + z_i) + b1) + b2
 * with x_i the token's input embedding and p_i a linear function of its position, a scalar. GRU as
 * frameworks have it, gates in the order r, u, c:
 *   r = sg(Wr x + br + Ur z + cr), u likewise, c = tanh(Wc x + bc + r (Uc z + cc)), z' = (1 - u) c + u z
 * The probability of the paper is sg(score); only its order matters, and the score orders without the
 * sigmoid's saturation. A model folder may bring one along, adore.safetensors (models/token_controller.c). */
#ifndef SAC_CONTROLLER_H
#define SAC_CONTROLLER_H

#include "buffer.h"
#include "ops.h"

/* Which position of token i of n it was trained with: i, or its age n - i. */
typedef enum sac_controller_feature {
    SAC_FEATURE_UNKNOWN,
    SAC_FEATURE_ABS,
    SAC_FEATURE_REL
} sac_controller_feature;

typedef struct sac_controller {
    sac_controller_feature feature;
    double unit;                           /* that position 1 stands for, in tokens; 0: unknown */
    int input, hidden;                     /* width of embeddings, and of z */
    sac_weight input_gates, state_gates;   /* [3 * hidden][input], [3 * hidden][hidden] */
    const float *input_bias, *state_bias;  /* [3 * hidden] */
    const float *position, *position_bias; /* [hidden] */
    sac_weight inner, outer;               /* W1 [hidden][hidden], w2 [1][hidden] */
    const float *inner_bias, *outer_bias;  /* [hidden], [1] */
} sac_controller;

enum { SAC_CONTROLLER_ARRAYS = 8 };

/* Room for `capacity` tokens at a time, and the matrices and biases where ops run. Recurrence, positions and
 * activations are the host's work, a few numbers a token. */
typedef struct sac_controller_scratch {
    sac_buffer gates; /* float [capacity][3 * hidden] */
    sac_buffer state; /* float [3 * hidden] */
    sac_buffer inner; /* float [capacity][hidden] */
    float *x;         /* [capacity][input] embeddings as floats, where ops run */
    int64_t capacity;
    sac_buffer array[SAC_CONTROLLER_ARRAYS];
    size_t array_bytes[SAC_CONTROLLER_ARRAYS];
    sac_controller placed; /* the controller with its arrays where ops run */
    bool is_sent;
} sac_controller_scratch;

void sac_controller_scratch_take(sac_controller_scratch *s, const sac_controller *c, int64_t capacity,
                                 const sac_memory *memory);

/* States of the tokens whose embeddings are x, to z's rows from 1 on; its row 0 [hidden] is that of the token
 * before the first, zeros at the beginning. z is float [1 + x.rows][hidden] on the host; ops are shown a row
 * at a time. */
sac_status sac_controller_follow(const sac_ops *ops, const sac_stream *stream, sac_mat x, sac_buffer z,
                                 sac_controller_scratch *s);

/* scores, float [n], fetched, of tokens with states z [n][hidden]; token i's scalar position is first + i *
 * step. */
sac_status sac_controller_score(const sac_ops *ops, const sac_stream *stream, const float *z, int64_t n,
                                double first, double step, sac_buffer scores, sac_controller_scratch *s);

#endif
