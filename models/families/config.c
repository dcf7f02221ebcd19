/* config.c - config.json through the family that it names. */
#include "config.h"

#include "config_keys.h"
#include "family.h"
#include "family_spec.h"

#include <stdio.h>
#include <string.h>

sac_status sac_model_config_default(sac_model_config *c, const sac_family *family, sac_error *err) {
    memset(c, 0, sizeof *c);
    c->family = family;
    c->families = sac_families;
    c->image_token = c->video_token = -1;
    c->default_stop_id = -1;
    const sac_family_spec *spec;
    SAC_TRY(sac_family_spec_find(&spec, family->name, err));
    const char *frames = spec->frames ? spec->frames : "separate";
    c->frame_layout = strcmp(frames, "joined") == 0    ? SAC_FRAMES_JOINED
                      : strcmp(frames, "timed") == 0   ? SAC_FRAMES_TIMED
                      : strcmp(frames, "seconds") == 0 ? SAC_FRAMES_SECONDS
                      : strcmp(frames, "counted") == 0 ? SAC_FRAMES_COUNTED
                                                       : SAC_FRAMES_SEPARATE;
    snprintf(c->default_chat, sizeof c->default_chat, "%s", spec->chat ? spec->chat : "");
    family->defaults(c);
    return SAC_OK;
}

sac_status sac_model_config_read(sac_model_config *c, const json_t *config, sac_error *err) {
    const sac_family *family;
    if (!json_is_object(config)) return sac_fail(err, SAC_BAD_FILE, "not a JSON object");
    SAC_TRY(sac_family_of_config(&family, config, err));
    SAC_TRY(sac_model_config_default(c, family, err));
    sac_config_keys keys = {0}; /* the refusals; the list is for model.c */
    sac_status st = sac_config_keys_of_config(&keys, family, config, err);
    sac_config_keys_free(&keys);
    return st == SAC_OK ? family->read(c, config, err) : st;
}
