/* granitemoeshared.c - Granite with experts (granitemoe.c) and an MLP that sees every row beside them. */
#include "config_values.h"
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' GraniteMoeSharedConfig */
    sac_family_granitemoe.defaults(c);
    c->text_family = &sac_family_granitemoeshared;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    int width = 0;
    SAC_TRY(sac_family_granitemoe.read(c, config, err));
    SAC_TRY(sac_config_get_int(config, "shared_intermediate_size", 0, SAC_CONFIG_MAX_WIDTH, &width, err));
    c->decoder.experts.shared = width;
    if (width > 0) c->decoder.intermediate = width; /* of what is told of it: no layer has an MLP alone */
    return SAC_OK;
}

const sac_family sac_family_granitemoeshared = {
    .name = "granitemoeshared", .defaults = defaults, .read = read, .positions = sac_positions_plain};
