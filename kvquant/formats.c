#include "kvquant.h"

#include <string.h>

static const sac_kv_format *const formats[] = {&sac_kv_f32, &sac_kv_f16, &sac_kv_bf16};
static const char *const names[] = {"f32", "f16", "bf16", NULL};

const sac_kv_format *sac_kv_format_find(const char *name) {
    for (size_t i = 0; i < SAC_COUNT(formats); i++)
        if (strcmp(formats[i]->name, name) == 0) return formats[i];
    return NULL;
}

const char *const *sac_kv_format_names(void) {
    return names;
}
