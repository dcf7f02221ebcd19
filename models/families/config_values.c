#include "config_values.h"

#include <math.h>

sac_status sac_config_get_int(const json_t *object, const char *key, int64_t min, int64_t max, int *value,
                              sac_error *err) {
    int64_t n = *value;
    SAC_TRY(sac_json_get_int(object, key, min, max, &n, err));
    *value = (int)n;
    return SAC_OK;
}

bool sac_config_has(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    return v && !json_is_null(v);
}

sac_status sac_config_check_positive(const char *key, double value, sac_error *err) {
    if (isfinite(value) && value > 0 && value < 1e18) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"%s\" is %g, must be a positive number", key, value);
}

sac_status sac_config_get_positive(const json_t *object, const char *key, double *value, sac_error *err) {
    SAC_TRY(sac_json_get_float(object, key, value, err));
    return sac_config_has(object, key) ? sac_config_check_positive(key, *value, err) : SAC_OK;
}

sac_status sac_config_get_float(const json_t *object, const char *key, float *value, sac_error *err) {
    double d = (double)*value;
    SAC_TRY(sac_config_get_positive(object, key, &d, err));
    *value = (float)d;
    return SAC_OK;
}

sac_status sac_config_read_token(int32_t *id, const json_t *object, const char *key, const char *newer,
                                 int vocab, sac_error *err) {
    int64_t token = *id;
    SAC_TRY(sac_json_get_int(object, key, 0, vocab - 1, &token, err));
    if (newer) SAC_TRY(sac_json_get_int(object, newer, 0, vocab - 1, &token, err));
    if (token >= vocab)
        return sac_fail(err, SAC_BAD_FILE,
                        "\"%s\" is missing, and its default %lld is outside the vocabulary of %d", key,
                        (long long)token, vocab);
    *id = (int32_t)token;
    return SAC_OK;
}

sac_status sac_config_check_range(const char *what, int64_t value, int64_t max, sac_error *err) {
    if (value >= 1 && value <= max) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "%s is %lld, must be 1 to %lld", what, (long long)value,
                    (long long)max);
}
