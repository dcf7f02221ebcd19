#include "call_format.h"

#include <stdio.h>
#include <string.h>

#define X(name) &call_format_##name,
static const call_format *const formats[] = {SERVE_CALL_FORMATS(X)};
#undef X
#define X(name) #name,
static const char *const names[] = {SERVE_CALL_FORMATS(X) NULL};
#undef X

const char *const *call_format_names(void) {
    return names;
}

const call_format *call_format_find(const char *name) {
    char wanted[80];
    if (strchr(name, '|')) return NULL;
    snprintf(wanted, sizeof wanted, "|%.70s|", name);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i]->name, name) || strstr(formats[i]->aliases, wanted)) return formats[i];
    return NULL;
}

const call_format *call_format_of(const char *rendered_call) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i]->writes(rendered_call)) return formats[i];
    return NULL;
}
