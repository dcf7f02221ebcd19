#include "device.h"

size_t sac_stream_bytes(int n_threads, size_t shared_scratch_bytes) {
    return sac_arena_block_bytes((size_t)n_threads * SAC_THREAD_SCRATCH_BYTES) +
           sac_arena_block_bytes(shared_scratch_bytes);
}

sac_status sac_stream_init(sac_stream *s, sac_pool *pool, sac_arena *arena, size_t shared_scratch_bytes,
                           sac_error *err) {
    *s = (sac_stream){.pool = pool, .shared_scratch_bytes = shared_scratch_bytes};
    s->thread_scratch = sac_arena_take(arena, (size_t)sac_pool_n_threads(pool) * SAC_THREAD_SCRATCH_BYTES);
    s->shared_scratch = sac_arena_take(arena, shared_scratch_bytes);
    if (!s->thread_scratch || !s->shared_scratch)
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for op scratch");
    return SAC_OK;
}
