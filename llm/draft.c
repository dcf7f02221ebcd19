#include "draft.h"

#include "status.h"

#include <stdio.h>
#include <string.h>

#define X(name) &sac_draft_##name,
static const sac_draft_method *const methods[] = {SAC_DRAFTS(X)};
#undef X

static void list_names(char *text, size_t capacity) {
    size_t used = (size_t)snprintf(text, capacity, "none");
    for (size_t i = 0; i < sizeof methods / sizeof *methods && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, ", %s", methods[i]->name);
}

static bool is_own(const sac_method_param *params, const char *setting) {
    const size_t n = strcspn(setting, "=,");
    if (setting[n] != '=') return false;
    for (; params->name; params++)
        if (strlen(params->name) == n && !memcmp(params->name, setting, n)) return true;
    return false;
}

/* Behind what is there, n bytes of text. */
static void add(char *to, const char *text, size_t n, char before) {
    const size_t at = strlen(to);
    if (before) to[at] = before;
    memcpy(to + at + (before != 0), text, n);
    to[at + (before != 0) + n] = 0;
}

/* A line of the settings that are the method's, and the others as they stand. */
static sac_status split(const sac_draft_method *m, const char *line, char own[SAC_DRAFT_REST_BYTES],
                        char rest[SAC_DRAFT_REST_BYTES], sac_error *err) {
    if (strlen(line) >= SAC_DRAFT_REST_BYTES - 1)
        return sac_fail(err, SAC_BAD_ARGUMENT, "draft %s: a line of more than %d bytes", m->name, SAC_DRAFT_REST_BYTES - 2);
    const char *at = line + sac_method_name_bytes(line);
    own[0] = rest[0] = 0;
    add(own, m->name, strlen(m->name), 0);
    bool has_own = false;
    for (at += *at == ':'; *at;) {
        const size_t n = strcspn(at, ",");
        if (is_own(m->params, at))
            add(own, at, n, has_own ? ',' : ':'), has_own = true;
        else
            add(rest, at, n, rest[0] ? ',' : 0);
        at += n + (at[n] == ',');
    }
    return SAC_OK;
}

static sac_status parse(sac_draft *d, const sac_draft_method *m, const char *line, sac_error *err) {
    char own[SAC_DRAFT_REST_BYTES], rest[SAC_DRAFT_REST_BYTES];
    if (m->read_rest) SAC_TRY(split(m, line, own, rest, err));
    SAC_TRY(sac_method_parse("draft", m->read_rest ? own : line, m->params, NULL, false, d->p, err));
    if (m->read_rest) SAC_TRY(m->read_rest(d->p, rest, d->rest, err));
    d->method = m;
    d->most = (int)d->p[0];
    d->adapts = m->from != SAC_DRAFT_OF_TOKENS && d->p[1] != 0;
    return SAC_OK;
}

sac_status sac_draft_parse(sac_draft *d, const char *line, sac_error *err) {
    *d = (sac_draft){0};
    if (!line || !strcmp(line, "none")) return SAC_OK;
    const size_t n = sac_method_name_bytes(line);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strlen(methods[i]->name) == n && !memcmp(methods[i]->name, line, n)) return parse(d, methods[i], line, err);
    char names[120];
    list_names(names, sizeof names);
    return sac_fail(err, SAC_BAD_ARGUMENT, "draft \"%s\": there are %s", line, names);
}

void sac_draft_print(const sac_draft *d, char *text, size_t capacity) {
    if (!d->method) {
        snprintf(text, capacity, "none");
        return;
    }
    sac_method_print(d->method->name, d->method->params, d->p, text, capacity);
    const bool is_path = d->method->from == SAC_DRAFT_OF_MODEL || d->method->from == SAC_DRAFT_OF_HEAD;
    const char *rest = is_path ? d->rest : d->rest + strcspn(d->rest, ":");
    const size_t used = strlen(text);
    if (*rest && used < capacity) snprintf(text + used, capacity - used, ",%s%s", is_path ? "path=" : "", rest + !is_path);
}
