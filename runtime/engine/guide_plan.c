/* guide_plan.c - what the second sequence of guidance is and takes; before there is a session. */
#include "guide.h"

bool sac_guide_wanted(const sac_model *m, const sac_session_config *config) {
    return config->guidance || sac_controls_guide(&m->loaded.generation.controls);
}

sac_session_config sac_guide_config(const sac_session_config *config) {
    sac_session_config c = *config;
    c.reduce = NULL; /* it shows no pictures */
    c.guidance = c.measure_mass = false;
    c.draft = NULL; /* it is told its tokens */
    return c;
}

void sac_guide_add_memory(sac_memory_report *to, const sac_memory_report *guide) {
    const int n_most = (int)SAC_COUNT(to->parts);
    if (to->n_parts < n_most)
        to->parts[to->n_parts++] = (sac_memory_part){"second sequence", guide->total_bytes, false};
    to->total_bytes += guide->total_bytes;
    to->device_bytes += guide->device_bytes;
    to->kv_bytes_per_token += guide->kv_bytes_per_token;
}
