#define _GNU_SOURCE
#include "tune_refine.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- how settings move */

/* Towards 1: what is left out grows or shrinks by 0.6; a share by a tenth; a number of tokens by 1.4; layers one at a time. */
typedef enum move { TO_ONE, BY_TENTHS, BY_TOKENS, BY_LAYERS } move;

static const struct {
    const char *key;
    move how;
} knobs[] = {{"tau", TO_ONE},       {"p", TO_ONE},        {"top_p", TO_ONE},     {"ratio", BY_TENTHS},
             {"rate", BY_TENTHS},   {"share", BY_TENTHS}, {"heavy", BY_TENTHS},  {"salient", BY_TENTHS},
             {"cap", BY_TOKENS},    {"k", BY_TOKENS},     {"m", BY_TOKENS},      {"budget", BY_TOKENS},
             {"s", BY_TOKENS},      {"v", BY_TOKENS},     {"recent", BY_TOKENS}, {"local", BY_TOKENS},
             {"blocks", BY_TOKENS}, {"skip", BY_LAYERS},  {"layer", BY_LAYERS},  {"dense_layers", BY_LAYERS}};

static double moved(move how, double v, bool up) {
    switch (how) {
    case TO_ONE: return 1 - (1 - v) * (up ? 0.6 : 1 / 0.6);
    case BY_TENTHS: return v + (up ? 0.1 : -0.1);
    case BY_LAYERS: return v + (up ? 1 : -1);
    default:
        if (v < 1) return moved(BY_TENTHS, v, up) / 2 + v / 2; /* H2O's newest rows are a share */
        v = v * (up ? 1.4 : 1 / 1.4);
        return v >= 64 ? 16 * round(v / 16) : round(v);
    }
}

static bool may_be(move how, double v) {
    return how == BY_LAYERS ? v >= 0 : how == BY_TOKENS ? v > 0 : v > 0.01 && v < 0.9995;
}

/* "name:a=1,b=2": the next setting from p on; its key, without what stands before a dot, and where its value is. */
static const char *next_setting(const char *p, const char **key, size_t *n_key, const char **value,
                                size_t *n_value) {
    p += strcspn(p, ":,");
    if (!*p) return NULL;
    *key = ++p;
    *n_key = strcspn(p, "=,");
    for (const char *dot; (dot = memchr(*key, '.', *n_key));)
        *n_key -= (size_t)(dot + 1 - *key), *key = dot + 1;
    if ((*key)[*n_key] != '=') return p;
    *value = *key + *n_key + 1;
    *n_value = strcspn(*value, ",");
    return p;
}

/* The part with its number-th movable setting moved; NULL where there is none so far (*ended) or it cannot. */
static char *move_setting(const char *part, size_t number, bool up, bool *ended) {
    const char *key, *value = NULL, *p = part;
    size_t n_key, n_value = 0;
    *ended = false;
    while ((p = next_setting(p, &key, &n_key, &value, &n_value))) {
        for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++) {
            if (strlen(knobs[i].key) != n_key || strncmp(knobs[i].key, key, n_key) || key[n_key] != '=')
                continue;
            char *end, *text = NULL;
            double v = strtod(value, &end);
            if (end != value + n_value || number--) continue;
            v = moved(knobs[i].how, v, up);
            if (!may_be(knobs[i].how, v)) return NULL;
            return asprintf(&text, "%.*s%.4g%s", (int)(value - part), part, v, value + n_value) < 0 ? NULL
                                                                                                    : text;
        }
    }
    *ended = true;
    return NULL;
}

/* ---------------------------------------------------------------- lines */

static bool copy_parts(const method_line *line, method_line *out) {
    bool ok = true;
    for (int i = 0; i < METHOD_PARTS && ok; i++)
        if (line->part[i] && !out->part[i]) ok = (out->part[i] = strdup(line->part[i])) != NULL;
    return ok;
}

/* Takes the line over. */
static sac_status add(method_list *list, method_line *line, size_t *n_added, sac_error *err) {
    size_t before = list->n, at;
    SAC_TRY(method_list_add(list, line, true, &at, err));
    *n_added += list->n > before;
    return SAC_OK;
}

static bool may_join(const method_line *a, const method_line *b) {
    bool both = false;
    for (int i = 0; i < METHOD_PARTS; i++) both = both || (a->part[i] && b->part[i]);
    return !both;
}

static sac_status join_pairs(method_list *list, const size_t *best, size_t n_best, size_t most,
                             size_t *n_added, sac_error *err) {
    for (size_t j = 1; j < n_best; j++)
        for (size_t i = 0; i < j && *n_added < most; i++) {
            method_line both = {0};
            if (!may_join(&list->lines[best[i]], &list->lines[best[j]])) continue;
            if (!copy_parts(&list->lines[best[i]], &both) || !copy_parts(&list->lines[best[j]], &both)) {
                method_line_free(&both);
                return sac_fail_no_memory(err);
            }
            SAC_TRY(add(list, &both, n_added, err));
        }
    return SAC_OK;
}

/* One of a line's settings moved; *any: there is such a one. */
static sac_status move_one(method_list *list, size_t from, size_t number, bool up, bool *any, size_t *n_added,
                           sac_error *err) {
    static const int parts[] = {METHOD_PREFILL, METHOD_DECODE,
                                METHOD_REDUCE}; /* a cache's numbers are bits */
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bool ended = false;
        const char *part = list->lines[from].part[parts[i]];
        char *text = part ? move_setting(part, number, up, &ended) : NULL;
        if (!text) {
            *any = *any || (part && !ended);
            continue;
        }
        method_line line = {0};
        *any = true;
        line.part[parts[i]] = text;
        if (!copy_parts(&list->lines[from], &line)) {
            method_line_free(&line);
            return sac_fail_no_memory(err);
        }
        SAC_TRY(add(list, &line, n_added, err));
    }
    return SAC_OK;
}

sac_status tune_refine(method_list *list, const size_t *best, size_t n_best, size_t most, size_t *n_added,
                       sac_error *err) {
    *n_added = 0;
    if (most > METHOD_LIST_MAX_LINES - list->n) most = METHOD_LIST_MAX_LINES - list->n;
    SAC_TRY(join_pairs(list, best, n_best, most / 2, n_added, err));
    bool any = true;
    for (size_t number = 0; any && *n_added < most; number++) {
        any = false;
        for (size_t i = 0; i < 2 * n_best && *n_added < most; i++)
            SAC_TRY(move_one(list, best[i / 2], number, i % 2, &any, n_added, err));
    }
    return SAC_OK;
}
