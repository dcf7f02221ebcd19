#include "sparse.h"

#include <string.h>

static const sac_prefill_policy *const prefill_policies[] = {&sac_prefill_dense};
static const sac_decode_policy *const decode_policies[] = {&sac_decode_dense};

const sac_prefill_policy *sac_prefill_policy_find(const char *name) {
    for (size_t i = 0; i < SAC_COUNT(prefill_policies); i++)
        if (strcmp(prefill_policies[i]->name, name) == 0) return prefill_policies[i];
    return NULL;
}

const sac_decode_policy *sac_decode_policy_find(const char *name) {
    for (size_t i = 0; i < SAC_COUNT(decode_policies); i++)
        if (strcmp(decode_policies[i]->name, name) == 0) return decode_policies[i];
    return NULL;
}
