/* ministral.c - Ministral 8B: Mistral, some of whose layers slide, as "layer_types" says. */
#include "family.h"

static void defaults(sac_model_config *c) {
    sac_family_mistral.defaults(c);
    c->text_family = &sac_family_ministral;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    return sac_family_mistral.read(c, config, err);
}

const sac_family sac_family_ministral = {
    .name = "ministral", .defaults = defaults, .read = read, .positions = sac_positions_plain};
