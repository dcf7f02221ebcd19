/* clock.h - monotonic time. */
#ifndef SAC_BASE_CLOCK_H
#define SAC_BASE_CLOCK_H

#include <stdint.h>

int64_t sac_now_ns(void); /* monotonic, arbitrary origin */

static inline double sac_seconds_since(int64_t start_ns) {
    return (double)(sac_now_ns() - start_ns) * 1e-9;
}

#endif
