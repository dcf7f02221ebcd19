/* string_kind.c - isalpha and its like: all characters are so, and there is one. */
#include "str.h"
#include "tmpl_chars.h"
#include "utf8.h"

#define SELF (self.string)

static sac_status all_are(sac_tmpl_run *r, const sac_tmpl_string *s, bool (*is)(uint32_t c),
                          sac_tmpl_value *out) {
    bool all = s->n_bytes > 0;
    for (size_t i = 0; i < s->n_bytes && all; i += sac_utf8_length(s->bytes[i]))
        all = is(sac_utf8_decode(s->bytes + i));
    *out = sac_tmpl_bool(all);
    return sac_tmpl_charge(r, s->n_bytes);
}
static bool is_alnum(uint32_t c) {
    return sac_tmpl_is_alpha(c) || sac_tmpl_is_numeric(c);
}
static bool is_ascii(uint32_t c) {
    return c < 0x80;
}
#define KIND_METHOD(name, is)                                                                                \
    static sac_status name(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,                    \
                           sac_tmpl_value *out) {                                                            \
        (void)a;                                                                                             \
        return all_are(r, SELF, is, out);                                                                    \
    }
KIND_METHOD(isnumeric_, sac_tmpl_is_numeric)
KIND_METHOD(isdigit_, sac_tmpl_is_digit)
KIND_METHOD(isdecimal_, sac_tmpl_is_decimal)
KIND_METHOD(isalpha_, sac_tmpl_is_alpha)
KIND_METHOD(isalnum_, is_alnum)
KIND_METHOD(isspace_, sac_tmpl_is_space)

static sac_status isprintable_(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                               sac_tmpl_value *out) {
    (void)a;
    SAC_TRY(all_are(r, SELF, sac_tmpl_is_printable, out));
    out->truth = out->truth || SELF->n_bytes == 0;
    return SAC_OK;
}

static sac_status isidentifier_(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                                sac_tmpl_value *out) {
    (void)a;
    SAC_TRY(all_are(r, SELF, sac_tmpl_continues_name, out));
    uint32_t first = SELF->n_bytes ? sac_utf8_decode(SELF->bytes) : 0;
    out->truth = out->truth && (sac_tmpl_begins_name(first));
    return SAC_OK;
}

/* Words begin with a capital, and only they do. */
static sac_status istitle_(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    bool any = false, in_word = false, is_title = true;
    (void)a;
    for (size_t i = 0; i < SELF->n_bytes && is_title; i += sac_utf8_length(SELF->bytes[i])) {
        uint32_t c = sac_utf8_decode(SELF->bytes + i);
        bool capital = sac_tmpl_is_upper(c) || sac_tmpl_is_title(c), small = sac_tmpl_is_lower(c);
        is_title = !(capital && in_word) && !(small && !in_word);
        any = any || capital || small;
        in_word = capital || small;
    }
    *out = sac_tmpl_bool(any && is_title);
    return sac_tmpl_charge(r, SELF->n_bytes);
}

static sac_status isascii_(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    (void)a;
    SAC_TRY(all_are(r, SELF, is_ascii, out));
    out->truth = out->truth || SELF->n_bytes == 0;
    return SAC_OK;
}

static sac_status cased(sac_tmpl_run *r, const sac_tmpl_string *s, bool upper_wanted, sac_tmpl_value *out) {
    bool any = false, other = false;
    for (size_t i = 0; i < s->n_bytes; i += sac_utf8_length(s->bytes[i])) {
        uint32_t c = sac_utf8_decode(s->bytes + i);
        bool up = sac_tmpl_is_upper(c), low = sac_tmpl_is_lower(c);
        any = any || (upper_wanted ? up : low);
        other = other || sac_tmpl_is_title(c) || (upper_wanted ? low : up);
    }
    *out = sac_tmpl_bool(any && !other);
    return sac_tmpl_charge(r, s->n_bytes);
}
static sac_status isupper_(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    (void)a;
    return cased(r, SELF, true, out);
}
static sac_status islower_(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    (void)a;
    return cased(r, SELF, false, out);
}

static const sac_tmpl_spec methods[] = {
    {"isdigit", isdigit_, 0, {0}, NULL},         {"isnumeric", isnumeric_, 0, {0}, NULL},
    {"isdecimal", isdecimal_, 0, {0}, NULL},     {"isalpha", isalpha_, 0, {0}, NULL},
    {"isalnum", isalnum_, 0, {0}, NULL},         {"isspace", isspace_, 0, {0}, NULL},
    {"isprintable", isprintable_, 0, {0}, NULL}, {"isidentifier", isidentifier_, 0, {0}, NULL},
    {"istitle", istitle_, 0, {0}, NULL},         {"isascii", isascii_, 0, {0}, NULL},
    {"isupper", isupper_, 0, {0}, NULL},         {"islower", islower_, 0, {0}, NULL},
};

const sac_tmpl_spec *sac_tmpl_string_kind_method(const char *name, size_t n_bytes) {
    return sac_tmpl_find_spec(methods, SAC_COUNT(methods), name, n_bytes);
}
