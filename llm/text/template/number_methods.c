#include "number_methods.h"

#include <math.h>
#include <string.h>

static sac_status conjugate(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                            sac_tmpl_value *out) {
    int64_t i;
    (void)r, (void)a;
    *out = sac_tmpl_is_int(self, &i) ? sac_tmpl_int(i) : self;
    return SAC_OK;
}

static sac_status bit_length(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                             sac_tmpl_value *out) {
    int64_t i, n = 0;
    (void)r, (void)a;
    sac_tmpl_is_int(self, &i);
    for (uint64_t v = i < 0 ? 0 - (uint64_t)i : (uint64_t)i; v; v >>= 1) n++;
    *out = sac_tmpl_int(n);
    return SAC_OK;
}

static sac_status bit_count(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                            sac_tmpl_value *out) {
    int64_t i;
    (void)r, (void)a;
    sac_tmpl_is_int(self, &i);
    *out = sac_tmpl_int(__builtin_popcountll(i < 0 ? 0 - (unsigned long long)i : (unsigned long long)i));
    return SAC_OK;
}

static sac_status is_integer(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                             sac_tmpl_value *out) {
    (void)r, (void)a;
    *out = sac_tmpl_bool(isfinite(self.real) && floor(self.real) == self.real);
    return SAC_OK;
}

static const sac_tmpl_spec of_ints[] = {{"conjugate", conjugate, 0, {0}, NULL},
                                        {"bit_length", bit_length, 0, {0}, NULL},
                                        {"bit_count", bit_count, 0, {0}, NULL}};
static const sac_tmpl_spec of_floats[] = {{"conjugate", conjugate, 0, {0}, NULL},
                                          {"is_integer", is_integer, 0, {0}, NULL}};

const sac_tmpl_spec *sac_tmpl_number_method(sac_tmpl_value v, const char *name, size_t n_bytes) {
    return v.kind == SAC_TMPL_FLOAT ? sac_tmpl_find_spec(of_floats, SAC_COUNT(of_floats), name, n_bytes)
                                    : sac_tmpl_find_spec(of_ints, SAC_COUNT(of_ints), name, n_bytes);
}

void sac_tmpl_number_attribute(sac_tmpl_value v, const char *name, size_t n_bytes, sac_tmpl_value *out) {
    int64_t i;
    bool is_int = sac_tmpl_is_int(v, &i);
    const struct {
        const char *name;
        sac_tmpl_value value;
        bool of_floats;
    } rows[] = {{"real", is_int ? sac_tmpl_int(i) : v, true},
                {"imag", is_int ? sac_tmpl_int(0) : sac_tmpl_float(0), true},
                {"numerator", sac_tmpl_int(i), false},
                {"denominator", sac_tmpl_int(1), false}};
    for (size_t k = 0; k < SAC_COUNT(rows); k++)
        if (strlen(rows[k].name) == n_bytes && memcmp(rows[k].name, name, n_bytes) == 0 &&
            (is_int || rows[k].of_floats))
            *out = rows[k].value;
}
