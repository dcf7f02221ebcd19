/* value_tests.c - x is name(...). */
#include "names.h"
#include "operators.h"

#include "str.h"

#define TEST(name, condition)                                                                                \
    static sac_status name(sac_tmpl_run *r, sac_tmpl_value v, const sac_tmpl_value *a,                       \
                           sac_tmpl_value *out) {                                                            \
        (void)r, (void)v, (void)a;                                                                           \
        *out = sac_tmpl_bool(condition);                                                                     \
        return SAC_OK;                                                                                       \
    }
TEST(is_defined, v.kind != SAC_TMPL_UNDEFINED)
TEST(is_undefined, v.kind == SAC_TMPL_UNDEFINED)
TEST(is_none, v.kind == SAC_TMPL_NONE)
TEST(is_boolean, v.kind == SAC_TMPL_BOOL)
TEST(is_true, v.kind == SAC_TMPL_BOOL && v.truth)
TEST(is_false, v.kind == SAC_TMPL_BOOL && !v.truth)
TEST(is_integer, v.kind == SAC_TMPL_INT)
TEST(is_float, v.kind == SAC_TMPL_FLOAT)
TEST(is_number, v.kind == SAC_TMPL_INT || v.kind == SAC_TMPL_FLOAT || v.kind == SAC_TMPL_BOOL)
TEST(is_string, v.kind == SAC_TMPL_STRING)
TEST(is_mapping, v.kind == SAC_TMPL_DICT)
TEST(is_callable, v.kind == SAC_TMPL_FUNCTION || v.kind == SAC_TMPL_UNDEFINED || v.kind == SAC_TMPL_LOOP)
TEST(is_escaped, v.kind == SAC_TMPL_STRING && v.string->is_markup)
/* jinja2.Undefined can be iterated and has a length. */
TEST(is_iterable, v.kind == SAC_TMPL_UNDEFINED || v.kind == SAC_TMPL_STRING || v.kind == SAC_TMPL_DICT ||
                      v.kind == SAC_TMPL_LOOP || v.kind == SAC_TMPL_ITERATOR || sac_tmpl_is_list(v))
TEST(is_sequence, v.kind == SAC_TMPL_UNDEFINED || v.kind == SAC_TMPL_STRING || v.kind == SAC_TMPL_DICT ||
                      v.kind == SAC_TMPL_LIST || v.kind == SAC_TMPL_TUPLE || v.kind == SAC_TMPL_RANGE)

static bool same(sac_tmpl_run *r, sac_tmpl_value a, sac_tmpl_value b) {
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case SAC_TMPL_UNDEFINED: return a.absence == b.absence;
    case SAC_TMPL_STRING:
        return a.string == b.string || (a.string->n_bytes < 2 && sac_tmpl_equal(&r->pool, a, b));
    case SAC_TMPL_NONE:
    case SAC_TMPL_BOOL:
    case SAC_TMPL_INT: return sac_tmpl_equal(&r->pool, a, b);
    default: return a.list == b.list;
    }
}
TEST(is_sameas, same(r, v, a[0]))

#define COMPARISON(name, op)                                                                                 \
    static sac_status name(sac_tmpl_run *r, sac_tmpl_value v, const sac_tmpl_value *a,                       \
                           sac_tmpl_value *out) {                                                            \
        bool holds;                                                                                          \
        SAC_TRY(sac_tmpl_compare(r, op, v, a[0], &holds));                                                   \
        *out = sac_tmpl_bool(holds);                                                                         \
        return SAC_OK;                                                                                       \
    }
COMPARISON(is_eq, SAC_LEX_EQ)
COMPARISON(is_ne, SAC_LEX_NE)
COMPARISON(is_lt, SAC_LEX_LT)
COMPARISON(is_le, SAC_LEX_LE)
COMPARISON(is_gt, SAC_LEX_GT)
COMPARISON(is_ge, SAC_LEX_GE)
COMPARISON(is_in, SAC_LEX_IN)

static sac_status remainder_is(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_value by, int64_t wanted,
                               sac_tmpl_value *out) {
    sac_tmpl_value rest;
    SAC_TRY(sac_tmpl_binary(r, SAC_LEX_MOD, v, by, &rest));
    *out = sac_tmpl_bool(sac_tmpl_equal(&r->pool, rest, sac_tmpl_int(wanted)));
    return SAC_OK;
}
static sac_status is_even(sac_tmpl_run *r, sac_tmpl_value v, const sac_tmpl_value *a, sac_tmpl_value *out) {
    (void)a;
    return remainder_is(r, v, sac_tmpl_int(2), 0, out);
}
static sac_status is_odd(sac_tmpl_run *r, sac_tmpl_value v, const sac_tmpl_value *a, sac_tmpl_value *out) {
    (void)a;
    return remainder_is(r, v, sac_tmpl_int(2), 1, out);
}
static sac_status is_divisible(sac_tmpl_run *r, sac_tmpl_value v, const sac_tmpl_value *a,
                               sac_tmpl_value *out) {
    return remainder_is(r, v, a[0], 0, out);
}

/* str(v).islower() */
static sac_status ask_text(sac_tmpl_run *r, sac_tmpl_value v, const char *method, size_t n_bytes,
                           sac_tmpl_value *out) {
    sac_tmpl_value text;
    SAC_TRY(sac_tmpl_str(r, v, &text));
    return sac_tmpl_invoke(r, sac_tmpl_string_method(method, n_bytes), text, &(sac_tmpl_args){0}, out);
}
static sac_status is_lower(sac_tmpl_run *r, sac_tmpl_value v, const sac_tmpl_value *a, sac_tmpl_value *out) {
    (void)a;
    return ask_text(r, v, "islower", 7, out);
}
static sac_status is_upper(sac_tmpl_run *r, sac_tmpl_value v, const sac_tmpl_value *a, sac_tmpl_value *out) {
    (void)a;
    return ask_text(r, v, "isupper", 7, out);
}
static sac_status is_filter(sac_tmpl_run *r, sac_tmpl_value v, const sac_tmpl_value *a, sac_tmpl_value *out) {
    (void)a;
    SAC_TRY(sac_tmpl_need_key(r, v));
    *out = sac_tmpl_bool(v.kind == SAC_TMPL_STRING &&
                         (r->find_filter(v.string->bytes, v.string->n_bytes) ||
                          sac_tmpl_is_left_out(v.string->bytes, v.string->n_bytes)));
    return SAC_OK;
}
static sac_status is_test(sac_tmpl_run *r, sac_tmpl_value v, const sac_tmpl_value *a, sac_tmpl_value *out) {
    (void)a;
    SAC_TRY(sac_tmpl_need_key(r, v));
    *out = sac_tmpl_bool(v.kind == SAC_TMPL_STRING && r->find_test(v.string->bytes, v.string->n_bytes));
    return SAC_OK;
}

static const sac_tmpl_spec tests[] = {
    {"defined", is_defined, 0, {0}, NULL},
    {"undefined", is_undefined, 0, {0}, NULL},
    {"none", is_none, 0, {0}, NULL},
    {"boolean", is_boolean, 0, {0}, NULL},
    {"true", is_true, 0, {0}, NULL},
    {"false", is_false, 0, {0}, NULL},
    {"integer", is_integer, 0, {0}, NULL},
    {"float", is_float, 0, {0}, NULL},
    {"number", is_number, 0, {0}, NULL},
    {"string", is_string, 0, {0}, NULL},
    {"mapping", is_mapping, 0, {0}, NULL},
    {"callable", is_callable, 0, {0}, NULL},
    {"escaped", is_escaped, 0, {0}, NULL},
    {"iterable", is_iterable, 0, {0}, NULL},
    {"sequence", is_sequence, 0, {0}, NULL},
    {"sameas", is_sameas, 1, {"other"}, NULL},
    {"eq", is_eq, 1, {"b"}, NULL},
    {"equalto", is_eq, 1, {"b"}, NULL},
    {"==", is_eq, 1, {"b"}, NULL},
    {"ne", is_ne, 1, {"b"}, NULL},
    {"!=", is_ne, 1, {"b"}, NULL},
    {"lt", is_lt, 1, {"b"}, NULL},
    {"lessthan", is_lt, 1, {"b"}, NULL},
    {"<", is_lt, 1, {"b"}, NULL},
    {"le", is_le, 1, {"b"}, NULL},
    {"<=", is_le, 1, {"b"}, NULL},
    {"gt", is_gt, 1, {"b"}, NULL},
    {"greaterthan", is_gt, 1, {"b"}, NULL},
    {">", is_gt, 1, {"b"}, NULL},
    {"ge", is_ge, 1, {"b"}, NULL},
    {">=", is_ge, 1, {"b"}, NULL},
    {"in", is_in, 1, {"seq"}, NULL},
    {"even", is_even, 0, {0}, NULL},
    {"odd", is_odd, 0, {0}, NULL},
    {"divisibleby", is_divisible, 1, {"num"}, NULL},
    {"lower", is_lower, 0, {0}, NULL},
    {"upper", is_upper, 0, {0}, NULL},
    {"filter", is_filter, 0, {0}, NULL},
    {"test", is_test, 0, {0}, NULL},
};

const sac_tmpl_spec *sac_tmpl_find_test(const char *name, size_t n_bytes) {
    return sac_tmpl_find_spec(tests, SAC_COUNT(tests), name, n_bytes);
}
