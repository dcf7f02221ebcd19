/* config_generation.c - stop ids and generation_config.json. */
#include "config.h"

#include "config_values.h"

static sac_status add_stop_id(int32_t *ids, int *n, const json_t *v, int vocab, sac_error *err) {
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= vocab)
        return sac_fail(err, SAC_BAD_FILE, "\"eos_token_id\" must hold ids from 0 to %d", vocab - 1);
    int32_t id = (int32_t)json_integer_value(v);
    for (int i = 0; i < *n; i++)
        if (ids[i] == id) return SAC_OK;
    if (*n == SAC_MAX_STOP_IDS)
        return sac_fail(err, SAC_BAD_FILE, "\"eos_token_id\" holds more than %d ids", SAC_MAX_STOP_IDS);
    ids[(*n)++] = id;
    return SAC_OK;
}

sac_status sac_config_add_stop_ids(int32_t ids[SAC_MAX_STOP_IDS], int *n, const json_t *object, int vocab,
                                   sac_error *err) {
    const json_t *v = json_object_get(object, "eos_token_id");
    if (!v || json_is_null(v)) return SAC_OK;
    if (!json_is_array(v)) return add_stop_id(ids, n, v, vocab, err);
    for (size_t i = 0; i < json_array_size(v); i++)
        SAC_TRY(add_stop_id(ids, n, json_array_get(v, i), vocab, err));
    return SAC_OK;
}

sac_status sac_config_read_generation(sac_generation_config *g, const json_t *object, sac_error *err) {
    SAC_TRY(sac_json_get_bool(object, "do_sample", &g->do_sample, err));
    SAC_TRY(sac_json_get_float(object, "temperature", &g->temperature, err));
    SAC_TRY(sac_json_get_float(object, "top_p", &g->top_p, err));
    SAC_TRY(sac_json_get_float(object, "min_p", &g->min_p, err));
    SAC_TRY(sac_config_get_int(object, "top_k", 0, INT32_MAX, &g->top_k, err));
    SAC_TRY(sac_config_get_positive(object, "repetition_penalty", &g->repetition_penalty, err));
    if (!(g->temperature >= 0) || !(g->temperature < 1e6))
        return sac_fail(err, SAC_BAD_FILE, "\"temperature\" is %g, must be at least 0", g->temperature);
    if (!(g->top_p > 0) || !(g->top_p <= 1))
        return sac_fail(err, SAC_BAD_FILE, "\"top_p\" is %g, must be above 0 and at most 1", g->top_p);
    if (!(g->min_p >= 0) || !(g->min_p <= 1))
        return sac_fail(err, SAC_BAD_FILE, "\"min_p\" is %g, must be from 0 to 1", g->min_p);
    return SAC_OK;
}
