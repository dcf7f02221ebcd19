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

sac_status sac_draft_parse(sac_draft *d, const char *line, sac_error *err) {
    *d = (sac_draft){0};
    if (!line || !strcmp(line, "none")) return SAC_OK;
    const size_t n = sac_method_name_bytes(line);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const sac_draft_method *m = methods[i];
        if (strlen(m->name) != n || memcmp(m->name, line, n) != 0) continue;
        SAC_TRY(sac_method_parse("draft", line, m->params, NULL, false, d->p, err));
        d->method = m;
        d->most = (int)d->p[0];
        return SAC_OK;
    }
    char names[120];
    list_names(names, sizeof names);
    return sac_fail(err, SAC_BAD_ARGUMENT, "draft \"%s\": there are %s", line, names);
}

void sac_draft_print(const sac_draft *d, char *text, size_t capacity) {
    if (d->method)
        sac_method_print(d->method->name, d->method->params, d->p, text, capacity);
    else
        snprintf(text, capacity, "none");
}
