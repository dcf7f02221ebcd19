#define _GNU_SOURCE
#include "operators.h"

#include "format.h"
#include "iterate.h"
#include "str.h"

#include <math.h>
#include <string.h>

static sac_status too_large(sac_tmpl_run *r) {
    return sac_tmpl_fail(r, "an integer beyond 64 bits");
}

/* int ** int; a negative exponent gives a float. */
static sac_status power_ints(sac_tmpl_run *r, int64_t a, int64_t b, sac_tmpl_value *out) {
    int64_t product = 1;
    if (b < 0) {
        if (a == 0) return sac_tmpl_fail(r, "0 to a negative power");
        *out = sac_tmpl_float(pow((double)a, (double)b));
        return SAC_OK;
    }
    if (a == 1 || a == 0 || a == -1) b = a == -1 ? b % 2 : b > 0;
    for (; b > 0; b--)
        if (__builtin_mul_overflow(product, a, &product)) return too_large(r);
    *out = sac_tmpl_int(product);
    return SAC_OK;
}

static sac_status ints(sac_tmpl_run *r, sac_token_kind op, int64_t a, int64_t b, sac_tmpl_value *out) {
    int64_t v = 0;
    bool over = false;
    if ((op == SAC_LEX_DIV || op == SAC_LEX_FLOORDIV || op == SAC_LEX_MOD) && b == 0)
        return sac_tmpl_fail(r, "division by zero");
    switch (op) {
    case SAC_LEX_ADD: over = __builtin_add_overflow(a, b, &v); break;
    case SAC_LEX_SUB: over = __builtin_sub_overflow(a, b, &v); break;
    case SAC_LEX_MUL: over = __builtin_mul_overflow(a, b, &v); break;
    case SAC_LEX_DIV: *out = sac_tmpl_float((double)a / (double)b); return SAC_OK;
    case SAC_LEX_POW: return power_ints(r, a, b, out);
    case SAC_LEX_FLOORDIV:
        over = a == INT64_MIN && b == -1;
        v = over ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
    default:
        v = b == -1 ? 0 : a % b;
        if (v != 0 && (v < 0) != (b < 0)) v += b;
    }
    *out = sac_tmpl_int(v);
    return over ? too_large(r) : SAC_OK;
}

static sac_status reals(sac_tmpl_run *r, sac_token_kind op, double a, double b, sac_tmpl_value *out) {
    double v, m;
    if ((op == SAC_LEX_DIV || op == SAC_LEX_FLOORDIV || op == SAC_LEX_MOD) && b == 0)
        return sac_tmpl_fail(r, "division by zero");
    double down = 0; /* from the quotient of what fmod gives, as CPython does it */
    m = fmod(a, b);
    v = (a - m) / b;
    if (m != 0 && (m < 0) != (b < 0)) {
        m += b;
        down = 1;
    }
    if (m == 0) m = copysign(0, b);
    switch (op) {
    case SAC_LEX_ADD: v = a + b; break;
    case SAC_LEX_SUB: v = a - b; break;
    case SAC_LEX_MUL: v = a * b; break;
    case SAC_LEX_DIV: v = a / b; break;
    case SAC_LEX_MOD: v = m; break;
    case SAC_LEX_FLOORDIV:
        v -= down;
        v = v != 0 ? floor(v) + (v - floor(v) > 0.5) : copysign(0, a / b);
        break;
    default:
        if ((a < 0 && b != floor(b)) || (a == 0 && b < 0))
            return sac_tmpl_fail(r, "a complex number cannot be used in a chat template here");
        v = pow(a, b);
        if (isinf(v) && !isinf(a) && !isinf(b)) return sac_tmpl_fail(r, "a power too large for a float");
    }
    *out = sac_tmpl_float(v);
    return SAC_OK;
}

static sac_status repeat(sac_tmpl_run *r, sac_tmpl_value v, int64_t n, sac_tmpl_value *out) {
    if (v.kind == SAC_TMPL_STRING) {
        sac_tmpl_writer w = {.run = r};
        for (int64_t i = 0; i < n && v.string->n_bytes; i++) SAC_TRY(sac_tmpl_write(&w, *v.string));
        SAC_TRY(sac_tmpl_written_value(&w, out));
        return sac_tmpl_keep_markup(r, v.string, out);
    }
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, v.kind, 0), out));
    for (int64_t i = 0; i < n && v.list->n; i++)
        for (size_t j = 0; j < v.list->n; j++) {
            SAC_TRY(sac_tmpl_charge(r, 0));
            if (!sac_tmpl_list_add(&r->pool, out->list, v.list->items[j])) return sac_tmpl_full(r);
        }
    return SAC_OK;
}

static sac_status join_two(sac_tmpl_run *r, sac_tmpl_value a, sac_tmpl_value b, sac_tmpl_value *out) {
    if (a.kind == SAC_TMPL_STRING) {
        sac_tmpl_writer w = {.run = r};
        const sac_tmpl_string *markup = a.string->is_markup ? a.string : b.string;
        if (markup->is_markup) {
            SAC_TRY(sac_tmpl_escape(r, a.string, false, &a));
            SAC_TRY(sac_tmpl_escape(r, b.string, false, &b));
        }
        SAC_TRY(sac_tmpl_write(&w, *a.string));
        SAC_TRY(sac_tmpl_write(&w, *b.string));
        SAC_TRY(sac_tmpl_written_value(&w, out));
        return sac_tmpl_keep_markup(r, markup, out);
    }
    size_t n = a.list->n + b.list->n;
    SAC_TRY(sac_tmpl_charge(r, n * sizeof *a.list->items));
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, a.kind, n), out));
    if (a.list->n) memcpy(out->list->items, a.list->items, a.list->n * sizeof *a.list->items);
    if (b.list->n) memcpy(out->list->items + a.list->n, b.list->items, b.list->n * sizeof *b.list->items);
    out->list->n = n;
    return SAC_OK;
}

static bool is_set(sac_tmpl_value v) {
    return v.kind == SAC_TMPL_VIEW && strcmp(v.list->type, "dict_values") != 0;
}

static bool is_sequence(sac_tmpl_value v) {
    return v.kind == SAC_TMPL_STRING || v.kind == SAC_TMPL_LIST || v.kind == SAC_TMPL_TUPLE;
}

sac_status sac_tmpl_binary(sac_tmpl_run *r, sac_token_kind op, sac_tmpl_value a, sac_tmpl_value b,
                           sac_tmpl_value *out) {
    int64_t i, j;
    double f, g;
    if (a.kind == SAC_TMPL_UNDEFINED || b.kind == SAC_TMPL_UNDEFINED) {
        if (op == SAC_LEX_MOD && a.kind == SAC_TMPL_STRING)
            return sac_tmpl_format_percent(r, a.string, b, out);
        return sac_tmpl_fail_use(r, a.kind == SAC_TMPL_UNDEFINED ? a : b, "reckoned with");
    }
    if (sac_tmpl_is_int(a, &i) && sac_tmpl_is_int(b, &j)) return ints(r, op, i, j, out);
    if (sac_tmpl_is_number(a, &f) && sac_tmpl_is_number(b, &g)) return reals(r, op, f, g, out);
    if (op == SAC_LEX_ADD && a.kind == b.kind && is_sequence(a)) return join_two(r, a, b, out);
    if (op == SAC_LEX_MUL && is_sequence(a) && sac_tmpl_is_int(b, &j)) return repeat(r, a, j, out);
    if (op == SAC_LEX_MUL && is_sequence(b) && sac_tmpl_is_int(a, &i)) return repeat(r, b, i, out);
    if (op == SAC_LEX_MOD && a.kind == SAC_TMPL_STRING) return sac_tmpl_format_percent(r, a.string, b, out);
    if (op == SAC_LEX_SUB && is_set(a))
        return sac_tmpl_fail(r, "a set cannot be used in a chat template here");
    const char *name = op == SAC_LEX_ADD   ? "+"
                       : op == SAC_LEX_SUB ? "-"
                       : op == SAC_LEX_MUL ? "*"
                       : op == SAC_LEX_DIV ? "/"
                       : op == SAC_LEX_MOD ? "%"
                       : op == SAC_LEX_POW ? "**"
                                           : "//";
    return sac_tmpl_fail(r, "%s does not go with values of types %s and %s", name, sac_tmpl_type_name(a),
                         sac_tmpl_type_name(b));
}

sac_status sac_tmpl_negate(sac_tmpl_run *r, sac_tmpl_value v, bool keep_sign, sac_tmpl_value *out) {
    int64_t i;
    if (sac_tmpl_is_int(v, &i)) {
        if (!keep_sign && i == INT64_MIN) return too_large(r);
        *out = sac_tmpl_int(keep_sign ? i : -i);
        return SAC_OK;
    }
    if (v.kind != SAC_TMPL_FLOAT) return sac_tmpl_fail_use(r, v, "given a sign");
    *out = sac_tmpl_float(keep_sign ? v.real : -v.real);
    return SAC_OK;
}

/* keys() and items() look for the key in their dict. */
static sac_status need_member(sac_tmpl_run *r, sac_tmpl_value set, sac_tmpl_value v) {
    if (strcmp(set.list->type, "dict_keys") == 0) return sac_tmpl_need_key(r, v);
    bool is_pair = v.kind == SAC_TMPL_TUPLE && v.list->n == 2;
    return is_pair ? sac_tmpl_need_key(r, v.list->items[0]) : SAC_OK;
}

sac_status sac_tmpl_contains(sac_tmpl_run *r, sac_tmpl_value container, sac_tmpl_value v, bool *found) {
    *found = false;
    if (container.kind == SAC_TMPL_STRING) {
        if (v.kind != SAC_TMPL_STRING) return sac_tmpl_fail_use(r, v, "looked for in text");
        *found = v.string->n_bytes == 0 || memmem(container.string->bytes, container.string->n_bytes,
                                                  v.string->bytes, v.string->n_bytes) != NULL;
        return sac_tmpl_charge(r, container.string->n_bytes);
    }
    if (container.kind == SAC_TMPL_DICT) {
        SAC_TRY(sac_tmpl_need_key(r, v));
        *found = sac_tmpl_dict_find(&r->pool, container.dict, v) != NULL;
        return sac_tmpl_charge(r, container.dict->n * 8);
    }
    if (is_set(container)) SAC_TRY(need_member(r, container, v));
    sac_tmpl_walk w;
    sac_tmpl_value item;
    SAC_TRY(sac_tmpl_walk_open(r, container, &w));
    while (!*found) {
        SAC_TRY(sac_tmpl_walk_next(r, &w, &item));
        if (item.kind == SAC_TMPL_MISSING) break;
        *found = sac_tmpl_equal(&r->pool, item, v);
    }
    return SAC_OK;
}

/* keys() and items(): < is "all of it is in the other, which has more". */
static sac_status compare_sets(sac_tmpl_run *r, sac_token_kind op, sac_tmpl_value a, sac_tmpl_value b,
                               bool *holds) {
    bool is_greater = op == SAC_LEX_GT || op == SAC_LEX_GE,
         may_be_equal = op == SAC_LEX_LE || op == SAC_LEX_GE;
    sac_tmpl_value less = is_greater ? b : a, more = is_greater ? a : b;
    *holds = may_be_equal ? less.list->n <= more.list->n : less.list->n < more.list->n;
    for (size_t i = 0; *holds && i < less.list->n; i++)
        SAC_TRY(sac_tmpl_contains(r, more, less.list->items[i], holds));
    return SAC_OK;
}

sac_status sac_tmpl_compare(sac_tmpl_run *r, sac_token_kind op, sac_tmpl_value a, sac_tmpl_value b,
                            bool *holds) {
    int order = 0;
    switch (op) {
    case SAC_LEX_EQ:
    case SAC_LEX_NE:
        *holds = sac_tmpl_equal(&r->pool, a, b) == (op == SAC_LEX_EQ);
        return sac_tmpl_charge(r, a.kind == SAC_TMPL_STRING ? a.string->n_bytes : 0);
    case SAC_LEX_IN: return sac_tmpl_contains(r, b, a, holds);
    case SAC_LEX_NOT_IN:
        SAC_TRY(sac_tmpl_contains(r, b, a, holds));
        *holds = !*holds;
        return SAC_OK;
    default: break;
    }
    if (is_set(a) && is_set(b)) return compare_sets(r, op, a, b, holds);
    SAC_TRY(sac_tmpl_order(r, a, b, &order));
    *holds = order == 2         ? false
             : op == SAC_LEX_LT ? order < 0
             : op == SAC_LEX_LE ? order <= 0
             : op == SAC_LEX_GT ? order > 0
                                : order >= 0;
    return SAC_OK;
}
