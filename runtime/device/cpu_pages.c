/* cpu_pages.c - memory in pages on the CPU: addresses that nobody may touch until pages are mapped there. The kernel finds the
 * memory, so a page has no name; what is unmapped goes back to it at once. */
#define _GNU_SOURCE
#include "device_pages.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t cpu_page_bytes(const sac_device *d) {
    (void)d;
    const long n = sysconf(_SC_PAGESIZE);
    return n > 0 ? (size_t)n : 0;
}

static sac_status cpu_reserve(const sac_device *d, size_t n_bytes, void **at, sac_error *err) {
    (void)d;
    void *p = mmap(NULL, n_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *at = p == MAP_FAILED ? NULL : p;
    return *at ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "cannot reserve %zu bytes: %s; use a smaller context", n_bytes, strerror(errno));
}

static void cpu_unreserve(const sac_device *d, void *at, size_t n_bytes) {
    (void)d;
    munmap(at, n_bytes);
}

static sac_status cpu_page_take(const sac_device *d, uint64_t *page, sac_error *err) {
    (void)d, (void)err;
    *page = 0;
    return SAC_OK;
}
static void cpu_page_free(const sac_device *d, uint64_t page) {
    (void)d, (void)page;
}

static sac_status cpu_map(const sac_device *d, void *at, const uint64_t *pages, size_t n, sac_error *err) {
    (void)pages;
    if (mprotect(at, n * cpu_page_bytes(d), PROT_READ | PROT_WRITE) == 0) return SAC_OK;
    return sac_fail(err, SAC_NO_MEMORY, "cannot map %zu bytes: %s", n * cpu_page_bytes(d), strerror(errno));
}

static void cpu_unmap(const sac_device *d, void *at, size_t n) {
    madvise(at, n * cpu_page_bytes(d), MADV_DONTNEED);
    mprotect(at, n * cpu_page_bytes(d), PROT_NONE);
}

const sac_page_ops sac_cpu_pages = {.page_bytes = cpu_page_bytes,
                                    .reserve = cpu_reserve,
                                    .unreserve = cpu_unreserve,
                                    .take = cpu_page_take,
                                    .give = cpu_page_free,
                                    .map = cpu_map,
                                    .unmap = cpu_unmap};

const sac_page_ops *sac_page_ops_of(const sac_device *d) {
    switch (d->kind) {
    case SAC_DEVICE_CPU: return &sac_cpu_pages;
    case SAC_DEVICE_CUDA:
#ifdef SAC_CUDA
        return sac_cuda_pages();
#else
        return NULL;
#endif
    }
    return NULL;
}
