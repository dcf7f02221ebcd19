/* config_text.c - text_config of families that stand on one text model. */
#include "family.h"

#include <string.h>

sac_status sac_config_read_only_text(sac_model_config *c, const json_t *config, const sac_family *only, sac_config_read_fn read,
                                     sac_error *err) {
    const json_t *text = NULL;
    const char *type = only->name;
    SAC_TRY(sac_json_get_object(config, "text_config", &text, err));
    SAC_TRY(sac_json_get_string(text, "model_type", &type, err));
    if (strcmp(type, only->name) != 0)
        return sac_fail(err, SAC_UNSUPPORTED, "text_config: model_type \"%.40s\" is not supported under %s; %s is", type,
                        c->family->name, only->name);
    json_t *empty = json_object();
    sac_status st = read(c, text ? text : empty, err);
    json_decref(empty);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "text_config");
}
