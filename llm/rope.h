/* rope.h - frequencies and the cos/sin table of rotary position embedding, with the scaling variants of
 * config.json. */
#ifndef SAC_LLM_ROPE_H
#define SAC_LLM_ROPE_H

#include "method.h"
#include "positions.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum sac_rope_scaling {
    SAC_ROPE_DEFAULT,
    SAC_ROPE_LINEAR,  /* positions divided by factor */
    SAC_ROPE_DYNAMIC, /* NTK-aware: the base grows with the length beyond original_max_position */
    SAC_ROPE_YARN,    /* Peng et al., arXiv:2309.00071 */
    SAC_ROPE_LLAMA3,  /* Llama-3.1's smooth split by wavelength */
    SAC_ROPE_LONG,    /* LongRoPE (Ding et al., arXiv:2402.13753): a divisor of each frequency, others beyond original_max_position */
    SAC_ROPE_NONE,    /* nothing is turned */
} sac_rope_scaling;

enum { SAC_ROPE_MOST_FACTORS = 256 };

typedef struct sac_rope_config {
    sac_rope_scaling scaling;
    double theta;
    double factor;
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn: 32, 1 */
    double attention_factor;                  /* yarn: 0 = 0.1 ln(factor) + 1; long: 0 = sqrt(1 + ln(factor) / ln(original)) */
    bool truncate;                            /* yarn: round the correction range (default true) */
    double original_max_position;             /* dynamic, yarn, llama3, long */
    float short_factors[SAC_ROPE_MOST_FACTORS], long_factors[SAC_ROPE_MOST_FACTORS]; /* [rot_dim / 2], long */
    int rot_dim;                              /* channels rotated, even */
    int axis_pairs[SAC_POSITION_AXES]; /* pairs of channels that turn by a row's number of time, of height, of
                                          width, in this order (M-RoPE, arXiv:2409.12191); all 0: all by time */
    bool
        axes_take_turns; /* pair 3k + 1 turns by height and 3k + 2 by width, as many of them as axis_pairs says, the
                             others by time (Qwen3-VL); otherwise those of an axis follow one another */
    bool grid_positions; /* what follows a video is numbered as transformers from 5.3 on does (positions.h) */
    bool interleaved;    /* pairs (2i, 2i+1): weights from GGUF's llama family */
    const float
        *freq_factors; /* [rot_dim / 2], divisors of the inverse frequencies, or NULL: GGUF's rope_freqs */
} sac_rope_config;

void sac_rope_config_default(sac_rope_config *c, int head_dim);

/* A position scheme by its line: "model" (as the checkpoint says; "model:grid=1" sets grid_positions) or "ntk:factor=4", which
 * stretches the base so that the lowest frequency turns `factor` times slower and the highest as before:
 * theta * factor^(d / (d - 2)). factor=0: what max_position needs for n_ctx. */
sac_status sac_rope_scheme(sac_rope_config *c, const char *line, int64_t max_position, int64_t n_ctx,
                           sac_error *err);

/* Whether a sequence of n_total rows is turned by long_factors, all of it: as transformers does when it generates, which runs a
 * sequence anew that grows beyond original_max_position. */
bool sac_rope_is_long(const sac_rope_config *c, int64_t n_total);

/* What cos and sin in the table are multiplied with: the attention factor of yarn and long, else 1. */
float sac_rope_attention_factor(const sac_rope_config *c);

/* Rows [first, first + n) of cos_sin [..][rot_dim/2][2], a row for each row of the sequence, computed as transformers does: f32 inverse
 * frequencies, f32 angles, cos and sin of the f32 angle, both times the attention factor. n_total is the
 * length that DYNAMIC scales for, and LONG chooses its factors by. */
void sac_rope_fill(const sac_rope_config *c, const sac_row_numbers *numbers, int64_t first, int64_t n,
                   int64_t n_total, float *cos_sin);

#endif
