#include "rope.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

void sac_rope_config_default(sac_rope_config *c, int head_dim) {
    *c = (sac_rope_config){
        .scaling = SAC_ROPE_DEFAULT,
        .theta = 10000,
        .factor = 1,
        .low_freq_factor = 1,
        .high_freq_factor = 4,
        .beta_fast = 32,
        .beta_slow = 1,
        .truncate = true,
        .rot_dim = head_dim,
    };
}

/* Channel pair at which `rotations` full turns fit into the original context (YaRN, eq. 17-18
 * and its code). */
static double yarn_correction(const sac_rope_config *c, double rotations) {
    return c->rot_dim * log(c->original_max_position / (rotations * 2 * PI)) / (2 * log(c->theta));
}

/* Weight of extrapolation for pair i: 1 = keep the frequency, 0 = divide it by factor. */
static double yarn_keep(const sac_rope_config *c, int i) {
    double low = yarn_correction(c, c->beta_fast), high = yarn_correction(c, c->beta_slow);
    if (c->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, c->rot_dim - 1);
    if (low == high) high += 0.001; /* as the published code does: no division by zero */
    double ramp = (i - low) / (high - low);
    return 1 - fmin(fmax(ramp, 0), 1);
}

static double llama3_frequency(const sac_rope_config *c, double f) {
    double wavelength = 2 * PI / f;
    double low_wavelength = c->original_max_position / c->low_freq_factor;
    double high_wavelength = c->original_max_position / c->high_freq_factor;
    if (wavelength < high_wavelength) return f;
    if (wavelength > low_wavelength) return f / c->factor;
    double smooth = (c->original_max_position / wavelength - c->low_freq_factor) /
                    (c->high_freq_factor - c->low_freq_factor);
    return (1 - smooth) * f / c->factor + smooth * f;
}

static float inverse_frequency(const sac_rope_config *c, int i, int64_t n_total) {
    if (c->scaling == SAC_ROPE_NONE) return 0;
    double theta = c->theta;
    if (c->scaling == SAC_ROPE_DYNAMIC && (double)n_total > c->original_max_position) {
        double grown = c->factor * (double)n_total / c->original_max_position - (c->factor - 1);
        theta *= pow(grown, c->rot_dim / (c->rot_dim - 2.0));
    }
    float f = (float)pow(theta, 2.0 * i / c->rot_dim);
    if (c->scaling == SAC_ROPE_LONG) f *= (sac_rope_is_long(c, n_total) ? c->long_factors : c->short_factors)[i];
    f = 1.0f / f;
    if (c->freq_factors) f /= c->freq_factors[i];
    switch (c->scaling) {
    case SAC_ROPE_LINEAR: return f / (float)c->factor;
    case SAC_ROPE_LLAMA3: return (float)llama3_frequency(c, f);
    case SAC_ROPE_YARN: {
        double keep = yarn_keep(c, i);
        return (float)(f / c->factor * (1 - keep) + f * keep);
    }
    case SAC_ROPE_DEFAULT:
    case SAC_ROPE_DYNAMIC:
    case SAC_ROPE_LONG:
    case SAC_ROPE_NONE: break;
    }
    return f;
}

bool sac_rope_is_long(const sac_rope_config *c, int64_t n_total) {
    return c->scaling == SAC_ROPE_LONG && (double)n_total > c->original_max_position;
}

float sac_rope_attention_factor(const sac_rope_config *c) {
    if (c->scaling != SAC_ROPE_YARN && c->scaling != SAC_ROPE_LONG) return 1;
    if (c->attention_factor > 0) return (float)c->attention_factor;
    if (c->factor <= 1) return 1;
    if (c->scaling == SAC_ROPE_LONG) return (float)sqrt(1 + log(c->factor) / log(c->original_max_position));
    return (float)(0.1 * log(c->factor) + 1);
}

/* The axis whose numbers turn pair i. */
static int axis_of_pair(const sac_rope_config *c, int i) {
    int end = 0;
    if (c->axes_take_turns) return i < 3 * c->axis_pairs[i % 3] ? i % 3 : 0;
    for (int axis = 0; axis < SAC_POSITION_AXES; axis++)
        if (i < (end += c->axis_pairs[axis])) return axis;
    return 0;
}

void sac_rope_fill(const sac_rope_config *c, const sac_row_numbers *numbers, int64_t first, int64_t n,
                   int64_t n_total, float *cos_sin) {
    int half = c->rot_dim / 2;
    assert(half * 2 == c->rot_dim && half > 0);
    float factor = sac_rope_attention_factor(c);
    for (int i = 0; i < half; i++) {
        float f = inverse_frequency(c, i, n_total);
        int axis = axis_of_pair(c, i);
        for (int64_t row = first; row < first + n; row++) {
            /* rounded to f32 before cos, as transformers' angles are */
            float angle = (float)sac_row_number(numbers, axis, row) * f;
            cos_sin[(row * half + i) * 2] = cosf(angle) * factor;
            cos_sin[(row * half + i) * 2 + 1] = sinf(angle) * factor;
        }
    }
}

sac_status sac_rope_scheme(sac_rope_config *c, const char *line, int64_t max_position, int64_t n_ctx,
                           sac_error *err) {
    static const sac_method_param params[] = {
        {.name = "factor",
         .min = 0,
         .max = 1e6,
         .help = "how much longer than trained; 0 = what the context needs"},
        {0}};
    static const sac_method_param model[] = {{.name = "grid",
                                              .min = 0,
                                              .max = 1,
                                              .choices = SAC_WHOLE,
                                              .help = "1: rows behind a video are numbered from its grid's "
                                                      "longer side on, as transformers from 5.3 on does"},
                                             {0}};
    double p[SAC_METHOD_MAX_PARAMS];
    size_t n = sac_method_name_bytes(line);
    if (n == 5 && memcmp(line, "model", n) == 0) {
        SAC_TRY(sac_method_parse("position scheme", line, model, NULL, false, p, err));
        c->grid_positions = p[0] != 0;
        if (!c->grid_positions || c->axis_pairs[0] + c->axis_pairs[1] + c->axis_pairs[2] > 0) return SAC_OK;
        return sac_fail(err, SAC_UNSUPPORTED,
                        "position scheme \"%s\": this model's rows have no positions of height and width",
                        line);
    }
    if (n != 3 || memcmp(line, "ntk", n) != 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "position scheme \"%s\" is not known: there are model, ntk",
                        line);
    SAC_TRY(sac_method_parse("position scheme", line, params, NULL, false, p, err));
    double factor = p[0] != 0 ? p[0] : (double)n_ctx / (double)max_position;
    if (factor <= 1) return SAC_OK;
    if (c->scaling != SAC_ROPE_DEFAULT)
        return sac_fail(err, SAC_UNSUPPORTED, "position scheme ntk: this model scales its positions already");
    c->theta *= pow(factor, c->rot_dim / (c->rot_dim - 2.0));
    return SAC_OK;
}
