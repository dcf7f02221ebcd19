#ifndef SAC_SKIP_H
#define SAC_SKIP_H

#include <stdbool.h>
#include <stdint.h>

/* Whether an op with `skip` has nothing to do, for backends on the host. */
static inline bool sac_is_skipped(const int32_t *skip) {
    return skip && *skip != 0;
}

#endif
