/* Every storage format, by name. */
#include "kvquant.h"
#include "pack_rows.h"

#include <stdio.h>
#include <string.h>

#define X(name) &sac_kv_##name,
static const sac_kv_format *const formats[] = {SAC_KV_FORMATS(X)};
#undef X
#define X(name) #name,
static const char *const names[] = {SAC_KV_FORMATS(X) NULL};
#undef X

sac_status sac_kv_choice_parse(sac_kv_choice *c, const char *line, const sac_attention_shape *shape,
                               sac_error *err) {
    size_t n = sac_method_name_bytes(line), used = 0;
    *c = (sac_kv_choice){0};
    for (size_t i = 0; i < SAC_COUNT(formats); i++)
        if (strlen(formats[i]->name) == n && memcmp(formats[i]->name, line, n) == 0) c->format = formats[i];
    if (!c->format) {
        char text[200] = "";
        for (size_t i = 0; names[i] && used < sizeof text; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", names[i]);
        return sac_fail(err, SAC_BAD_ARGUMENT, "KV format \"%s\" is not known: there are %s", line, text);
    }
    SAC_TRY(sac_method_parse("KV format", line, c->format->params, NULL, false, c->p, err));
    const sac_kv_packing *packing = c->format->packing;
    if (!packing) return SAC_OK;
    if (shape->window && shape->window < shape->n_ctx)
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "KV format %s does not know this model's sliding window of %lld: use --ctx %lld or less",
            c->format->name, (long long)shape->window, (long long)shape->window);
    if (shape->head_dim > SAC_KV_MAX_D)
        return sac_fail(err, SAC_UNSUPPORTED, "KV format %s: this model's heads of %d are larger than %d",
                        c->format->name, shape->head_dim, SAC_KV_MAX_D);
    if (packing->check) SAC_TRY(packing->check(c->p, shape, err));
    if (packing->is_off && packing->is_off(c->p, shape)) *c = (sac_kv_choice){.format = &sac_kv_f16};
    return SAC_OK;
}

const char *const *sac_kv_format_names(void) {
    return names;
}
