/* waves.cuh - sharing work out among blocks that run in waves, one block a processor. */
#ifndef SAC_KERNELS_WAVES_CUH
#define SAC_KERNELS_WAVES_CUH

#include "device.cuh"

namespace sac {

/* The share of a block, 1 to `worst`, with which up to `most_waves` waves are through first.
 * blocks_for(share) is how many blocks there are when none has more, never more of them for larger shares;
 * `least` of them there may always be. A block takes the time of its share and of `cost` besides. */
template <typename BLOCKS>
static int64_t best_share(BLOCKS blocks_for, int64_t worst, int most_waves, int64_t processors, int64_t least,
                          int64_t cost) {
    int64_t best = 0, best_time = 0;
    for (int waves = 1; waves <= most_waves; waves++) {
        int64_t low = 1, high = worst, room = max_of(waves * processors, least);
        while (low < high) { /* the smallest that room is enough for */
            int64_t middle = (low + high) / 2;
            if (blocks_for(middle) <= room)
                high = middle;
            else
                low = middle + 1;
        }
        int64_t n = blocks_for(low), time = ceil_div(n, processors) * (low + cost);
        if (!best || time < best_time) best = low, best_time = time;
        if (waves == 1 && n <= processors && n * 8 >= processors * 7) break; /* the card is full */
    }
    return best;
}

} // namespace sac

#endif
