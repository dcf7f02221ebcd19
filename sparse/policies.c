/* Every policy, by name; and the life of a session's instance of one. */
#include "policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X(name) &sac_prefill_##name,
static const sac_prefill_policy *const prefill_policies[] = {SAC_PREFILL_POLICIES(X)};
#undef X
#define X(name) &sac_decode_##name,
static const sac_decode_policy *const decode_policies[] = {SAC_DECODE_POLICIES(X)};
#undef X
#define X(name) #name,
static const char *const prefill_names[] = {SAC_PREFILL_POLICIES(X) NULL};
static const char *const decode_names[] = {SAC_DECODE_POLICIES(X) NULL};
#undef X

const char *const *sac_prefill_policy_names(void) {
    return prefill_names;
}
const char *const *sac_decode_policy_names(void) {
    return decode_names;
}

static bool is_named(const char *name, const char *line) {
    size_t n = sac_method_name_bytes(line);
    return strlen(name) == n && memcmp(name, line, n) == 0;
}

static sac_status unknown(const char *what, const char *line, const char *const *names, sac_error *err) {
    char text[300] = "";
    size_t used = 0;
    for (size_t i = 0; names[i] && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", names[i]);
    return sac_fail(err, SAC_BAD_ARGUMENT, "%s \"%s\" is not known: there are %s", what, line, text);
}

static void *new_state(size_t n_bytes) {
    return calloc(1, n_bytes ? n_bytes : 1);
}

sac_status sac_prefill_open(sac_prefill *m, const char *line, const sac_attention_shape *shape,
                            sac_error *err) {
    *m = (sac_prefill){0};
    for (size_t i = 0; i < SAC_COUNT(prefill_policies) && !m->policy; i++)
        if (is_named(prefill_policies[i]->name, line)) m->policy = prefill_policies[i];
    if (!m->policy) return unknown("prefill policy", line, prefill_names, err);
    SAC_TRY(sac_method_parse("prefill policy", line, m->policy->params, NULL, false, m->p, err));
    if (m->policy->check) SAC_TRY(m->policy->check(m->p, shape, err));
    if (m->policy->is_off && m->policy->is_off(m->p, shape)) m->policy = &sac_prefill_dense;
    m->state = new_state(m->policy->state_bytes);
    return m->state ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "no memory for prefill policy \"%s\"", line);
}

static const sac_decode_policy *find_decode(const char *line) {
    for (size_t i = 0; i < SAC_COUNT(decode_policies); i++)
        if (is_named(decode_policies[i]->name, line)) return decode_policies[i];
    return NULL;
}

/* The place of the setting that says how many rows a base chooses; -1: it has none. */
static int budget_of(const sac_decode_policy *policy) {
    for (int i = 0; policy->budget && policy->params[i].name; i++)
        if (strcmp(policy->params[i].name, policy->budget) == 0) return i;
    return -1;
}

/* The settings of a base. What it chooses, where the line does not say, is what the policy `over` it wants. */
static sac_status parse_base(sac_decode *m, const sac_decode_policy *policy, const sac_decode_policy *over,
                             const char *line, const sac_attention_shape *shape, sac_error *err) {
    const double NOT_GIVEN = -1; /* which no line can say */
    sac_method_param params[SAC_METHOD_MAX_PARAMS + 1] = {{0}};
    const int budget = over->base_budget ? budget_of(policy) : -1;
    for (size_t i = 0; policy->params[i].name; i++) params[i] = policy->params[i];
    if (budget >= 0) params[budget].value = NOT_GIVEN;
    SAC_TRY(sac_method_parse("decode policy", line, params, "base.", true, m->p, err));
    if (budget < 0 || m->p[budget] != NOT_GIVEN) return SAC_OK;
    m->p[budget] = (double)over->base_budget(shape);
    if (policy->most_budget) m->p[budget] = fmin(m->p[budget], (double)policy->most_budget(m->p, shape));
    m->p[budget] = fmax(m->p[budget], policy->params[budget].min);
    return SAC_OK;
}

/* `over`: the policy over a base, or NULL. */
static sac_status open_decode(sac_decode *m, const sac_decode_policy *policy, const char *line,
                              const sac_decode_policy *over, const sac_attention_shape *shape, sac_error *err) {
    m->policy = policy;
    SAC_TRY(over ? parse_base(m, policy, over, line, shape, err)
                 : sac_method_parse("decode policy", line, policy->params, policy->wrap ? "base." : NULL, false, m->p,
                                    err));
    if (policy->check) SAC_TRY(policy->check(m->p, shape, err));
    if (policy->is_off && policy->is_off(m->p, shape)) m->policy = &sac_decode_dense;
    m->state = new_state(m->policy->state_bytes);
    return m->state ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "no memory for decode policy \"%s\"", line);
}

/* The policy that the setting "base" names. */
static const sac_decode_policy *base_policy(const sac_decode_policy *policy, const double *values) {
    const sac_method_param *p = policy->params;
    while (strcmp(p->name, "base") != 0) p++;
    return find_decode(p->choices[(size_t)values[p - policy->params]]);
}

/* The base's settings are read, and refused, also where the policy over it turned out to be off. */
static sac_status open_base(sac_decode *m, const sac_decode_policy *policy, const char *line,
                            const sac_attention_shape *shape, sac_error *err) {
    m->base = calloc(1, sizeof *m->base);
    if (!m->base) return sac_fail(err, SAC_NO_MEMORY, "no memory for decode policy \"%s\"", line);
    SAC_TRY(open_decode(m->base, base_policy(policy, m->p), line, policy, shape, err));
    if (m->policy->wrap) {
        m->policy->wrap(m->state, m->base);
    } else {
        sac_decode_free(m->base);
        free(m->base);
        m->base = NULL;
    }
    return SAC_OK;
}

sac_status sac_decode_open(sac_decode *m, const char *line, const sac_attention_shape *shape,
                           sac_error *err) {
    *m = (sac_decode){0};
    const sac_decode_policy *policy = find_decode(line);
    if (!policy) return unknown("decode policy", line, decode_names, err);
    SAC_TRY(open_decode(m, policy, line, NULL, shape, err));
    return policy->wrap ? open_base(m, policy, line, shape, err) : SAC_OK;
}

void sac_prefill_take(sac_prefill *m, const sac_attention_shape *shape, const sac_memory *memory) {
    if (m->policy->take) m->policy->take(m->state, m->p, shape, memory);
}

void sac_decode_take(sac_decode *m, const sac_attention_shape *shape, const sac_memory *memory) {
    if (m->base) sac_decode_take(m->base, shape, memory);
    if (m->policy->take) m->policy->take(m->state, m->p, shape, memory);
}

void sac_decode_begin(sac_decode *m) {
    if (m->base) sac_decode_begin(m->base);
    if (m->policy->begin) m->policy->begin(m->state);
}

bool sac_decode_keeps_prefix(const sac_decode *m) {
    const sac_decode_policy *p = m->policy;
    bool keeps = p->keeps_prefix || (p->keeps_prefix_now && p->keeps_prefix_now(m->state));
    return keeps && (!m->base || sac_decode_keeps_prefix(m->base));
}

sac_status sac_decode_counted(const sac_decode *m, const sac_attention_shape *shape, const sac_stream *stream,
                              sac_layer_stats *stats) {
    if (m->base) SAC_TRY(sac_decode_counted(m->base, shape, stream, stats));
    return m->policy->counted ? m->policy->counted(m->state, shape, stream, stats) : SAC_OK;
}

void sac_decode_cut(sac_decode *m, int64_t n, bool own_stays) {
    if (m->base) sac_decode_cut(m->base, n, own_stays);
    if (m->policy->cut) m->policy->cut(m->state, n, own_stays);
}

void sac_prefill_free(sac_prefill *m) {
    free(m->state);
    *m = (sac_prefill){0};
}

void sac_decode_free(sac_decode *m) {
    if (m->base) sac_decode_free(m->base);
    free(m->base);
    free(m->state);
    *m = (sac_decode){0};
}

void sac_decode_print(const sac_decode *m, char *text, size_t capacity) {
    char base[400];
    sac_method_print(m->policy->name, m->policy->params, m->p, text, capacity);
    if (!m->base) return;
    sac_method_print("", m->base->policy->params, m->base->p, base, sizeof base);
    size_t used = strlen(text);
    for (char *at = base + (base[0] == ':'), *end = at; *at && used < capacity; at = end + (*end == ',')) {
        end = at + strcspn(at, ",");
        used += (size_t)snprintf(text + used, capacity - used, ",base.%.*s", (int)(end - at), at);
    }
}
