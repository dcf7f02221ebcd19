#define _GNU_SOURCE
#include "arena.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define SAC_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SAC_ASAN 1
#endif
#endif
#ifdef SAC_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#define RED_ZONE       64
#else
#define POISON(p, n)   ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#define RED_ZONE       0
#endif

size_t sac_arena_block_bytes(size_t n_bytes) {
    size_t rounded;
    if (!sac_add_size(n_bytes, SAC_ARENA_ALIGN - 1 + RED_ZONE, &rounded)) return SIZE_MAX;
    return rounded & ~(size_t)(SAC_ARENA_ALIGN - 1);
}

sac_arena sac_arena_measure(void) {
    return (sac_arena){.capacity_bytes = SIZE_MAX};
}

sac_arena sac_arena_over(void *base, size_t capacity_bytes) {
    return (sac_arena){.base = base, .capacity_bytes = capacity_bytes, .borrowed = true};
}

sac_status sac_arena_open(sac_arena *a, size_t capacity_bytes, sac_error *err) {
    memset(a, 0, sizeof *a);
    if (capacity_bytes == 0) return SAC_OK;
    void *p = mmap(NULL, capacity_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED)
        return sac_fail(err, SAC_NO_MEMORY, "cannot reserve %zu bytes: %s; use a smaller context",
                        capacity_bytes, strerror(errno));
    a->base = p;
    a->capacity_bytes = capacity_bytes;
    POISON(a->base, capacity_bytes);
    return SAC_OK;
}

void sac_arena_free(sac_arena *a) {
    if (a->base && !a->borrowed) {
        UNPOISON(a->base, a->capacity_bytes); /* the address range may be mapped again by someone else */
        munmap(a->base, a->capacity_bytes);
    }
    memset(a, 0, sizeof *a);
}

void *sac_arena_take(sac_arena *a, size_t n_bytes) {
    size_t block = sac_arena_block_bytes(n_bytes);
    if (block > a->capacity_bytes - a->used_bytes) return NULL;
    uint8_t *p = a->base ? a->base + a->used_bytes : NULL;
    a->used_bytes += block;
    if (a->used_bytes > a->peak_bytes) a->peak_bytes = a->used_bytes;
    if (p && !a->borrowed) UNPOISON(p, n_bytes);
    return p;
}

void sac_arena_release(sac_arena *a, size_t mark) {
    if (mark >= a->used_bytes) return;
    if (!a->borrowed) POISON(a->base + mark, a->used_bytes - mark);
    a->used_bytes = mark;
}
