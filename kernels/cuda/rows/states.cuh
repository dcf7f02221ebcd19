/* states.cuh - parts of a call whose rows go on from a state: as many at a time as fit a kernel's arguments. */
#ifndef SAC_KERNELS_STATES_CUH
#define SAC_KERNELS_STATES_CUH

#include "device.cuh"

namespace sac::rows {

enum { MOST_STATES = 32 };

struct states {
    int64_t first[MOST_STATES], n[MOST_STATES]; /* rows of the part */
    float *state[MOST_STATES];
};

/* Calls fn(states, how many) until all parts were in one; stops at a failure. */
template <typename F> static sac_status for_states(const sac_state_rows *parts, int n_parts, F fn) {
    int64_t row = 0;
    for (int at = 0; at < n_parts; at += MOST_STATES) {
        states s = {};
        const int n = (int)min_of(n_parts - at, MOST_STATES);
        for (int i = 0; i < n; i++) {
            s.first[i] = row, s.n[i] = parts[at + i].n, s.state[i] = parts[at + i].state;
            row += parts[at + i].n;
        }
        SAC_TRY(fn(s, n));
    }
    return SAC_OK;
}

} // namespace sac::rows

#endif
