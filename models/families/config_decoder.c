/* config_decoder.c - what every family's config.json says of the language model. */
#include "config.h"

#include "config_values.h"

#include <math.h>
#include <string.h>

static const char *const rope_names[] = {
    [SAC_ROPE_DEFAULT] = "default", [SAC_ROPE_LINEAR] = "linear", [SAC_ROPE_DYNAMIC] = "dynamic",
    [SAC_ROPE_YARN] = "yarn",       [SAC_ROPE_LLAMA3] = "llama3",
};

/* "mrope" says that there are axes, and is otherwise the default. */
static sac_status rope_scaling_named(const char *name, bool has_axes, sac_rope_scaling *out, sac_error *err) {
    if (has_axes && strcmp(name, "mrope") == 0) name = rope_names[SAC_ROPE_DEFAULT];
    for (size_t i = 0; i < SAC_COUNT(rope_names); i++)
        if (strcmp(name, rope_names[i]) == 0) {
            *out = (sac_rope_scaling)i;
            return SAC_OK;
        }
    return sac_fail(err, SAC_UNSUPPORTED,
                    "rope type \"%.30s\" is not supported (default, linear, dynamic, yarn, llama3 are)",
                    name);
}

/* DeepSeek's spelling of yarn's attention factor (transformers: get_mscale). */
static sac_status read_mscale(sac_rope_config *r, const json_t *p, sac_error *err) {
    double m = 0, all = 0;
    SAC_TRY(sac_json_get_float(p, "mscale", &m, err));
    SAC_TRY(sac_json_get_float(p, "mscale_all_dim", &all, err));
    if (r->attention_factor > 0 || m == 0 || all == 0 || r->factor <= 1) return SAC_OK;
    r->attention_factor = (0.1 * m * log(r->factor) + 1) / (0.1 * all * log(r->factor) + 1);
    return sac_config_check_positive("mscale", r->attention_factor, err);
}

/* "mrope_section": how many pairs turn by a row's number of time, of height, of width (Qwen2-VL). */
static sac_status read_axes(sac_model_config *c, const json_t *p, sac_error *err) {
    sac_rope_config *r = &c->decoder.rope;
    static const int chunks[SAC_POSITION_AXES] = {16, 24, 24}, turns[SAC_POSITION_AXES] = {24, 20, 20},
                     of_half[SAC_POSITION_AXES] = {8, 12, 12} /* GLM-4.1V's */, turns_of_quarter[SAC_POSITION_AXES] = {11, 11, 10};
    const bool is_part = c->partial_rotary > 0;
    const int *usual = c->axes_take_turns ? (is_part ? turns_of_quarter : turns) : is_part ? of_half : chunks;
    r->axes_take_turns = c->axes_take_turns;
    const json_t *list = NULL;
    int sum = 0;
    SAC_TRY(sac_json_get_array(p, "mrope_section", &list, err));
    if (list && json_array_size(list) != SAC_POSITION_AXES)
        return sac_fail(err, SAC_BAD_FILE, "\"mrope_section\" must list three numbers");
    for (int axis = 0; axis < SAC_POSITION_AXES; axis++) {
        const json_t *v = json_array_get(list, (size_t)axis);
        json_int_t n = list ? json_integer_value(v) : usual[axis];
        if ((list && !json_is_integer(v)) || n < 0 || n > r->rot_dim / 2)
            return sac_fail(err, SAC_BAD_FILE, "\"mrope_section\" must list three numbers of 0 to %d",
                            r->rot_dim / 2);
        r->axis_pairs[axis] = (int)n;
        sum += (int)n;
    }
    if (sum == r->rot_dim / 2) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"mrope_section\" adds up to %d, but a head has %d pairs of channels",
                    sum, r->rot_dim / 2);
}

sac_status sac_config_rope_object(const json_t **out, const json_t *object, sac_error *err) {
    *out = NULL;
    SAC_TRY(sac_json_get_object(object, "rope_scaling", out, err));
    if (*out && json_object_size(*out) > 0) return SAC_OK;
    return sac_json_get_object(object, "rope_parameters", out, err);
}

/* transformers 5 moved rope_theta and rope_scaling into rope_parameters. */
sac_status sac_config_read_rope(sac_model_config *c, const json_t *object, sac_error *err) {
    sac_rope_config *r = &c->decoder.rope;
    double theta = r->theta;
    sac_rope_config_default(r, c->decoder.head_dim);
    r->theta = theta;
    r->original_max_position = (double)c->decoder.max_position;
    SAC_TRY(sac_config_get_positive(object, "rope_theta", &r->theta, err));
    double partial = c->partial_rotary > 0 ? c->partial_rotary : 1;
    SAC_TRY(sac_json_get_float(object, "partial_rotary_factor", &partial, err));
    const json_t *p = NULL;
    SAC_TRY(sac_config_rope_object(&p, object, err));
    if (p) {
        const char *type = "default";
        SAC_TRY(sac_json_get_string(p, "type", &type, err));
        SAC_TRY(sac_json_get_string(p, "rope_type", &type, err));
        SAC_TRY(c->may_be_long ? sac_config_long_rope_named(type, &r->scaling, err)
                               : rope_scaling_named(type, c->has_axes, &r->scaling, err));
        SAC_TRY(sac_config_get_positive(p, "rope_theta", &r->theta, err));
        SAC_TRY(sac_json_get_float(p, "partial_rotary_factor", &partial, err));
    }
    if (partial != 1 && !c->may_be_long && !(c->partial_rotary > 0))
        return sac_fail(err, SAC_UNSUPPORTED, "\"partial_rotary_factor\" is %g; only 1 is supported",
                        partial);
    if (!(partial > 0 && partial <= 1))
        return sac_fail(err, SAC_BAD_FILE, "\"partial_rotary_factor\" is %g, must be above 0 and at most 1", partial);
    r->rot_dim = (int)((double)c->decoder.head_dim * partial);
    if (c->has_axes) SAC_TRY(read_axes(c, p, err));
    if (r->scaling == SAC_ROPE_DEFAULT) return SAC_OK;
    if (r->scaling == SAC_ROPE_LONG) return sac_config_read_long_rope(c, object, p, err);

    if (r->scaling != SAC_ROPE_DYNAMIC) {
        SAC_TRY(
            sac_config_get_positive(p, "original_max_position_embeddings", &r->original_max_position, err));
        SAC_TRY(sac_config_get_positive(object, "original_max_position_embeddings", &r->original_max_position,
                                        err));
    }
    if (sac_config_has(p, "factor"))
        SAC_TRY(sac_config_get_positive(p, "factor", &r->factor, err));
    else if (r->scaling == SAC_ROPE_YARN)
        r->factor = (double)c->decoder.max_position / r->original_max_position;
    else
        return sac_fail(err, SAC_BAD_FILE, "rope type \"%s\" needs a \"factor\"", rope_names[r->scaling]);
    SAC_TRY(sac_config_get_positive(p, "low_freq_factor", &r->low_freq_factor, err));
    SAC_TRY(sac_config_get_positive(p, "high_freq_factor", &r->high_freq_factor, err));
    if (r->scaling == SAC_ROPE_LLAMA3 && r->high_freq_factor <= r->low_freq_factor)
        return sac_fail(err, SAC_BAD_FILE, "\"high_freq_factor\" %g must be above \"low_freq_factor\" %g",
                        r->high_freq_factor, r->low_freq_factor);
    if (r->scaling != SAC_ROPE_YARN) return SAC_OK;
    SAC_TRY(sac_config_get_positive(p, "beta_fast", &r->beta_fast, err));
    SAC_TRY(sac_config_get_positive(p, "beta_slow", &r->beta_slow, err));
    SAC_TRY(sac_config_get_positive(p, "attention_factor", &r->attention_factor, err));
    SAC_TRY(sac_json_get_bool(p, "truncate", &r->truncate, err));
    return read_mscale(r, p, err);
}

sac_status sac_config_check_decoder(const sac_decoder_config *d, sac_error *err) {
    SAC_TRY(sac_config_check_range("number of layers", d->n_layers, SAC_CONFIG_MAX_LAYERS, err));
    SAC_TRY(sac_config_check_range("hidden size", d->hidden, SAC_CONFIG_MAX_WIDTH, err));
    SAC_TRY(sac_config_check_range("intermediate size", d->intermediate, SAC_CONFIG_MAX_WIDTH, err));
    SAC_TRY(sac_config_check_range("number of heads", d->n_heads, SAC_CONFIG_MAX_HEADS, err));
    SAC_TRY(sac_config_check_range("number of key-value heads", d->n_kv_heads, SAC_CONFIG_MAX_HEADS, err));
    SAC_TRY(sac_config_check_range("head size", d->head_dim, SAC_CONFIG_MAX_HEAD_DIM, err));
    SAC_TRY(sac_config_check_range("heads times head size", (int64_t)d->n_heads * d->head_dim,
                                   SAC_CONFIG_MAX_WIDTH, err));
    SAC_TRY(sac_config_check_range("vocabulary", d->vocab, SAC_CONFIG_MAX_VOCAB, err));
    SAC_TRY(sac_config_check_range("context", d->max_position, INT32_MAX, err));
    if (d->n_heads % d->n_kv_heads != 0)
        return sac_fail(err, SAC_BAD_FILE, "%d heads cannot share %d key-value heads evenly", d->n_heads,
                        d->n_kv_heads);
    if (d->rope.rot_dim < 2 || d->rope.rot_dim % 2 != 0 || d->rope.rot_dim > d->head_dim)
        return sac_fail(err, SAC_BAD_FILE,
                        "%d of %d channels of a head are rotated; an even number is needed", d->rope.rot_dim,
                        d->head_dim);
    /* dynamic divides by rot_dim - 2, yarn by log(theta) */
    if (d->rope.scaling == SAC_ROPE_DYNAMIC && d->rope.rot_dim == 2)
        return sac_fail(err, SAC_BAD_FILE, "rope type \"dynamic\" needs more than 2 rotated channels");
    if (d->rope.scaling == SAC_ROPE_LONG && d->rope.original_max_position <= 1)
        return sac_fail(err, SAC_BAD_FILE, "rope type \"longrope\" needs an original context above 1");
    if (d->rope.scaling == SAC_ROPE_YARN && d->rope.theta <= 1)
        return sac_fail(err, SAC_BAD_FILE, "rope type \"yarn\" needs a \"rope_theta\" above 1");
    SAC_TRY(sac_config_check_positive("rope_theta", d->rope.theta, err));
    SAC_TRY(sac_config_check_positive("rope factor", d->rope.factor, err));
    SAC_TRY(sac_config_check_positive("original context", d->rope.original_max_position, err));
    return sac_config_check_positive("norm epsilon", (double)d->rms_eps, err);
}

static sac_status read_gate(sac_model_config *c, const json_t *object, sac_error *err) {
    const char *act = "silu";
    if (c->gate_key) return sac_config_read_activation(&c->decoder.gate_act, object, c->gate_key, err);
    SAC_TRY(sac_json_get_string(object, "hidden_act", &act, err));
    if (strcmp(act, "silu") == 0 || strcmp(act, "swish") == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"hidden_act\" is \"%.30s\"; only silu is supported", act);
}

sac_status sac_config_read_decoder(sac_model_config *c, const json_t *object, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    SAC_TRY(sac_config_get_int(object, "num_hidden_layers", 1, SAC_CONFIG_MAX_LAYERS, &d->n_layers, err));
    SAC_TRY(sac_config_get_int(object, "hidden_size", 1, SAC_CONFIG_MAX_WIDTH, &d->hidden, err));
    SAC_TRY(sac_config_get_int(object, "intermediate_size", 1, SAC_CONFIG_MAX_WIDTH, &d->intermediate, err));
    SAC_TRY(sac_config_get_int(object, "num_attention_heads", 1, SAC_CONFIG_MAX_HEADS, &d->n_heads, err));
    SAC_TRY(sac_config_get_int(object, "vocab_size", 1, SAC_CONFIG_MAX_VOCAB, &d->vocab, err));
    SAC_TRY(sac_json_get_int(object, "max_position_embeddings", 1, INT32_MAX, &d->max_position, err));
    SAC_TRY(sac_config_get_float(object, "rms_norm_eps", &d->rms_eps, err));
    /* null means one key-value head for each head, in every family; a missing key the family's own default */
    const json_t *kv = json_object_get(object, "num_key_value_heads");
    if (json_is_null(kv) || d->n_kv_heads == 0) d->n_kv_heads = d->n_heads;
    SAC_TRY(sac_config_get_int(object, "num_key_value_heads", 1, SAC_CONFIG_MAX_HEADS, &d->n_kv_heads, err));
    const bool has_dim =
        d->head_dim > 0 || sac_config_has(object, "head_dim"); /* a family may have a default */
    if (!has_dim && d->hidden % d->n_heads != 0)
        return sac_fail(err, SAC_BAD_FILE,
                        "\"hidden_size\" %d is not a multiple of \"num_attention_heads\" %d", d->hidden,
                        d->n_heads);
    if (!d->head_dim) d->head_dim = d->hidden / d->n_heads;
    SAC_TRY(sac_config_get_int(object, "head_dim", 1, SAC_CONFIG_MAX_HEAD_DIM, &d->head_dim, err));
    SAC_TRY(sac_json_get_bool(object, "tie_word_embeddings", &c->tied_head, err));
    SAC_TRY(read_gate(c, object, err));
    SAC_TRY(sac_config_read_rope(c, object, err));
    SAC_TRY(sac_config_check_decoder(d, err));
    return sac_config_add_stop_ids(c->stop_ids, &c->n_stop_ids, object, d->vocab, err);
}
