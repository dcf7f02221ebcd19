/* tuning.h - numbers that were found by measurement: what depends on the card, in a table by compute
 * capability, then what held on every card that was measured (H200; docs/speed.md). What belongs to the
 * shape of one kernel (tiles, stages, warps) stands in its file. */
#ifndef SAC_KERNELS_TUNING_H
#define SAC_KERNELS_TUNING_H

#include "device.h"

#include <stdint.h>

namespace sac {

struct card_tuning {
    /* From this compute capability on, up to the next row's. */
    int compute;
    /* Shared memory that a block may have at most, what kernels declare included (CUDA C++ Programming
     * Guide, table of compute capabilities), where the card was not asked. */
    int shared_kib;
    /* Runs the kernels for sm_90a, whose instructions (wgmma.cuh) are Hopper's alone. */
    bool has_wgmma;
    /* Fewest queries, those of all chunks together, whose attention goes to the kernel for Hopper before
     * cuDNN is asked; 0: none do. In pieces of 8,192 queries and in chunks of 512 it was the faster one
     * (docs/speed.md has both). */
    int hopper_queries;
};

constexpr card_tuning card_tunings[] = {
    {0, 99, false, 0},    {80, 163, false, 0},   /* A100 */
    {86, 99, false, 0},   {87, 163, false, 0},   /* Orin */
    {88, 99, false, 0},   {90, 227, true, 1024}, /* H100, H200 */
    {100, 227, false, 0},                        /* B200: the kernels for every card; not measured */
    {120, 99, false, 0},                         /* RTX 50: likewise */
};

/* The last row that the card reaches. */
constexpr card_tuning tuning_for(int compute) {
    card_tuning found = card_tunings[0];
    for (const card_tuning &t : card_tunings)
        if (t.compute <= compute) found = t;
    return found;
}
static inline card_tuning tuning_of(const sac_device *d) {
    return tuning_for(d->compute);
}
static inline int block_shared_bytes(const sac_device *d) {
    return d->shared_bytes ? d->shared_bytes : tuning_of(d).shared_kib << 10;
}

/* ---------------------------------------------------------------- steps */

/* Percent of a processor's memory that kernels of a step have as shared memory. All ask for the same,
 * because a processor has to run empty to change it; packed_step takes nearly all. */
enum { STEP_CARVEOUT = 100 };
/* Products of 2 to 8 rows are the exception (stream_tiles.cuh). Their lines on the way take room in the
 * cache, and so does x, which all warps that share rows read. With the step's split both run short, which
 * costs more than changing the split twice a layer (docs/speed.md, "Tried and dropped"). */
enum { TILES_CARVEOUT = 50 };

/* Products of one row: with fewer rows of weights than this for each processor a pair is the halves of one
 * row (linear_gemv.cu), since one row more or less a block is felt. */
enum { HALVES_BELOW_ROWS = 128 };

/* Attention of a step over at most this many bytes of keys and values is a matter of waiting, not of
 * reading: keys are asked into the L2 cache before the kernel before is through. More would displace that
 * kernel's weights. */
enum { BRIEF_BYTES = 16 << 20 };
/* Queries times heads of a group that the split kernel takes (attention_decode.cu). */
enum { FEW_ROWS = 64 };
/* Such rows above which, and keys from which on, parts of the keys go to the kernel for Hopper (attention_spread.cu): the split
 * kernel reads all keys for every 16 of them. */
enum { SPREAD_ROWS = 16, SPREAD_KEYS = 16384 };

/* Steps of several sequences share out so many waves of blocks at most (waves.cuh). */
enum { MANY_WAVES = 3 };
/* Tiles of 16 keys that a block of attention_many takes the time of before it has read any and after it
 * has read all. */
enum { MANY_BLOCK_TILES = 24 };
/* The same of packed_step, in tiles of 64 rows; and warps of a block with which it is through first. */
enum { PACKED_BLOCK_TILES = 2, PACKED_WARPS_WANTED = 8 };

/* ---------------------------------------------------------------- attention of prompts */

/* Queries of a piece for cuDNN. Large pieces end at multiples of their size, so that the same few plans,
 * each for one number of keys, serve every prompt. All of a long prompt at once is slower: 131,072 queries
 * at 570 TFLOP/s, the last 8,192 of them at 710, since the queries that run together then read the same
 * keys. */
enum { LARGE_PIECE = 8192, SMALL_PIECE = 1024 };
/* What is left goes to flash, unless that takes longer than cuDNN's plan: 30 layers at 200 TFLOP/s are 45
 * ms. */
constexpr double WORTH_A_PLAN_FLOPS = 300e9;
/* Queries of methods that work in chunks, over keys gathered for them: few shapes. So many chunks share a
 * launch. */
enum { CHUNK_QUERIES = 512, MOST_CHUNKS = 16 };

/* Keys from which on the kernel for Hopper takes tiles of 176 keys instead of 128: they take less work on
 * the side and less of the card's power; on the diagonal more of them is masked (warm: 642 against 625
 * TFLOP/s for 8,192 queries of 131,072 keys, 590 against 597 of 8,192). */
enum { LONG_KEYS = 65536 };
/* Keys and values of heads that are read side by side, so that they stay in the L2 cache. */
enum { HOPPER_L2_BYTES = 32 << 20 };
/* Waves of blocks from which on a block of the flash kernel takes 128 rows instead of 64: a key that a
 * warp loads then serves twice as many products. */
enum { FLASH_WIDE_WAVES = 4 };

/* ---------------------------------------------------------------- products by cuBLASLt */

/* Long products one after the other are bound by the card's power, and on Hopper tiles of 168 x 128 and
 * 176 x 128 take less of it for many columns than those of the library's first offer. A product is long
 * from so many rows (a piece of a long prompt), columns and terms of a sum on; so many of the library's
 * offers are looked at. */
enum { LONG_ROWS = 16384, LONG_COLS = 8192, LONG_SUM = 2048, MOST_OFFERS = 8 };

/* ---------------------------------------------------------------- choosing rows */

/* top_k: numbers of a block from which on another one is worth its place in the cluster where the card can
 * place all rows' clusters at once, and from which on it is worth waiting for one. */
enum { TOP_K_WORTH = 4096, TOP_K_ENOUGH = 16384 };
/* soft_vote: columns from which on a thread takes four of them. Fewer would not fill the card. */
enum { VOTE_BY_FOUR = 1 << 16 };
/* rope: rows from which on a thread turns four heads, which share their angles. */
enum { ROPE_MANY_ROWS = 64 };

} // namespace sac

#endif
