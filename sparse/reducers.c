/* Every reducer, by name. */
#include "reduce.h"

#include <stdio.h>
#include <string.h>

#define X(name) &sac_reducer_##name,
static const sac_reducer *const reducers[] = {SAC_REDUCERS(X)};
#undef X
#define X(name) #name,
static const char *const names[] = {SAC_REDUCERS(X) NULL};
#undef X

const char *const *sac_reducer_names(void) {
    return names;
}

static const sac_reducer *find(const char *line) {
    const size_t n = sac_method_name_bytes(line);
    for (size_t i = 0; i < SAC_COUNT(reducers); i++)
        if (strlen(reducers[i]->name) == n && memcmp(reducers[i]->name, line, n) == 0) return reducers[i];
    return NULL;
}

static sac_status unknown(const char *line, sac_error *err) {
    char text[200] = "none";
    size_t used = strlen(text);
    for (size_t i = 0; names[i] && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ", %s", names[i]);
    return sac_fail(err, SAC_BAD_ARGUMENT, "reducer \"%s\" is not known: there are %s", line, text);
}

sac_status sac_reduce_parse(sac_reduce *r, const char *line, sac_error *err) {
    *r = (sac_reduce){0};
    if (strcmp(line, "none") == 0) return SAC_OK;
    const sac_reducer *found = find(line);
    if (!found) return unknown(line, err);
    SAC_TRY(sac_method_parse("reducer", line, found->params, NULL, false, r->p, err));
    r->is_on = !found->is_off(r->p);
    if (r->is_on) r->reducer = found;
    return SAC_OK;
}

void sac_reduce_print(const sac_reduce *r, char *text, size_t capacity) {
    if (r->is_on)
        sac_method_print(r->reducer->name, r->reducer->params, r->p, text, capacity);
    else
        snprintf(text, capacity, "none");
}

bool sac_reduce_same(const sac_reduce *a, const sac_reduce *b) {
    if (!a->is_on || !b->is_on) return a->is_on == b->is_on;
    return a->reducer == b->reducer && memcmp(a->p, b->p, sizeof a->p) == 0;
}

int64_t sac_reduce_count(const sac_reduce *r, const sac_reduce_picture *p) {
    return r->reducer->count(r->p, p);
}

void sac_reduce_choose(const sac_reduce *r, const sac_reduce_picture *p, const float *first,
                       const float *last, int64_t stride, int32_t *source) {
    r->reducer->choose(r->p, p, first, last, stride, source);
}
