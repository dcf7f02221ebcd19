#include "attend.h"

static sac_status attend_prompt(void *state, const sac_layer_attention *a) {
    (void)state;
    return sac_attend_prompt_dense(a);
}

static sac_status select_all(void *state, const sac_layer_attention *a, sac_choice *choice) {
    (void)state;
    (void)a;
    (void)choice;
    return SAC_OK;
}

static const sac_method_param no_params[] = {{0}};

const sac_prefill_policy sac_prefill_dense = {.name = "dense",
                                              .source = "every query meets every earlier key",
                                              .params = no_params,
                                              .attend = attend_prompt,
                                              .is_dense = true,
                                              .keeps_prefix = true};
const sac_decode_policy sac_decode_dense = {.name = "dense",
                                            .source = "a step reads every stored row",
                                            .params = no_params,
                                            .select = select_all,
                                            .keeps_prefix = true};
