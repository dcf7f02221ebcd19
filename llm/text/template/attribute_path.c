/* attribute_path.c - what the filters that take attribute= mean by it: names and numbers with dots between. */
#include "attributes.h"
#include "number.h"
#include "str.h"
#include "tmpl_chars.h"
#include "utf8.h"

/* A part of a path: a number if all of its characters are digits, as Python's isdigit() and int() have it; the former
 * takes more than the latter. */
static sac_status part_of(sac_tmpl_run *r, const sac_tmpl_string *path, const char *from, const char *to,
                          sac_tmpl_value *key) {
    bool is_number = from < to, is_decimal = true;
    int64_t i;
    for (const char *p = from; p < to && is_number; p += sac_utf8_length(*p)) {
        uint32_t c = sac_utf8_decode(p);
        is_number = sac_tmpl_is_digit(c);
        is_decimal = is_decimal && sac_tmpl_is_decimal(c);
    }
    if (!is_number)
        return sac_tmpl_part_value(r, path, (size_t)(from - path->bytes), (size_t)(to - path->bytes), key);
    if (!is_decimal)
        return sac_tmpl_fail(r, "an attribute of digits that make no number: '%.*s'",
                             (int)(to - from < 40 ? to - from : 40), from);
    if (!sac_tmpl_parse_int(from, (size_t)(to - from), 10, &i))
        return sac_tmpl_fail(r, "an integer beyond 64 bits");
    *key = sac_tmpl_int(i);
    return SAC_OK;
}

/* The part that begins at *p, which goes behind the dot after it, or the comma; NULL behind the last one. */
static sac_status next_part(sac_tmpl_run *r, const sac_tmpl_string *path, bool has_commas, const char **p,
                            sac_tmpl_value *key) {
    const char *end = path->bytes + path->n_bytes, *dot = *p;
    while (dot < end && *dot != '.' && !(has_commas && *dot == ',')) dot++;
    SAC_TRY(sac_tmpl_charge(r, (size_t)(dot - *p)));
    SAC_TRY(part_of(r, path, *p, dot, key));
    *p = dot < end ? dot + 1 : NULL;
    return SAC_OK;
}

sac_status sac_tmpl_path(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_value path, sac_tmpl_value otherwise,
                         sac_tmpl_value *out) {
    *out = v;
    if (path.kind == SAC_TMPL_MISSING || path.kind == SAC_TMPL_NONE) return SAC_OK;
    const char *p = path.kind == SAC_TMPL_STRING ? path.string->bytes : NULL;
    do {
        sac_tmpl_value key = path, from = *out;
        if (p) SAC_TRY(next_part(r, path.string, false, &p, &key));
        SAC_TRY(sac_tmpl_item(r, from, key, out));
        if (out->kind == SAC_TMPL_UNDEFINED && otherwise.kind > SAC_TMPL_NONE) *out = otherwise;
    } while (p);
    return SAC_OK;
}

sac_status sac_tmpl_check_path(sac_tmpl_run *r, sac_tmpl_value path, bool has_commas) {
    sac_tmpl_value key;
    if (path.kind != SAC_TMPL_STRING) return SAC_OK;
    for (const char *p = path.string->bytes; p;) SAC_TRY(next_part(r, path.string, has_commas, &p, &key));
    return SAC_OK;
}
