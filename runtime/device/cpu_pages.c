/* cpu_pages.c - memory in pages on the CPU: addresses that nobody may touch until pages are mapped there. The pages are parts of a file
 * in memory that only this process has, so that one can stand in several places. What nobody has goes back to the system at once. */
#define _GNU_SOURCE
#include "device_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* A process may have 65,530 mappings (vm.max_map_count); beyond, threads and malloc fail too. Pages that do not follow one another in the
 * file take one each wherever they stand: all of a pool once, and those that are shared so many times that there is room for the rest. */
enum { MOST_PAGES = 1 << 14, MOST_RUNS = 40 << 10 };

static size_t cpu_page_bytes(const sac_device *d, size_t n_bytes) {
    (void)d;
    const long least = sysconf(_SC_PAGESIZE);
    size_t n = least > 0 ? (size_t)least : 0;
    while (n && n_bytes / n > MOST_PAGES) n *= 2;
    return n;
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

/* A page's name: the file, and which page of it. */
static int file_of(uint64_t name) {
    return (int)(name >> 32);
}

static off_t place_of(uint64_t name, size_t page) {
    return (off_t)((name & UINT32_MAX) * page);
}

static sac_status cpu_take(const sac_device *d, uint64_t *names, size_t n, size_t page, sac_error *err) {
    (void)d;
    struct rlimit most; /* a signal ends the process that asks for more */
    if (!getrlimit(RLIMIT_FSIZE, &most) && most.rlim_cur != RLIM_INFINITY && n * page > most.rlim_cur)
        return sac_fail(err, SAC_NO_MEMORY, "%zu bytes in pages are a file in memory, and files may have %llu (ulimit -f): raise that, or give fewer",
                        n * page, (unsigned long long)most.rlim_cur);
    const int fd = memfd_create("keys and values", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)(n * page)) != 0) {
        const int e = errno;
        if (fd >= 0) close(fd);
        return sac_fail(err, SAC_NO_MEMORY, "cannot make %zu pages of %zu bytes: %s", n, page, strerror(e));
    }
    for (size_t i = 0; i < n; i++) names[i] = (uint64_t)fd << 32 | i;
    return SAC_OK;
}

static void cpu_give(const sac_device *d, const uint64_t *names, size_t n) {
    (void)d, (void)n;
    close(file_of(names[0]));
}

/* Where there are too many mappings for one more the pages stay, and nobody may read them. */
static bool cpu_unmap(const sac_device *d, void *at, size_t n, size_t page) {
    (void)d;
    return mmap(at, n * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED ||
           mprotect(at, n * page, PROT_NONE) == 0;
}

/* Children that are forked have nothing to do with them: where that cannot be said they do nothing with them. */
static bool map_run(uint8_t *at, uint64_t name, size_t n, size_t page) {
    void *p = mmap(at, n * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_of(name), place_of(name, page));
    if (p != MAP_FAILED) madvise(at, n * page, MADV_DONTFORK);
    return p != MAP_FAILED;
}

/* Of one page that cannot be mapped what was there stays. */
static sac_status cpu_map(const sac_device *d, void *at, const uint64_t *names, size_t n, size_t page, sac_error *err) {
    for (size_t i = 0, m; i < n; i += m) {
        for (m = 1; i + m < n && names[i + m] == names[i] + m;) m++;
        if (map_run((uint8_t *)at + i * page, names[i], m, page)) continue;
        const int e = errno;
        if (i) cpu_unmap(d, at, i, page);
        return sac_fail(err, SAC_NO_MEMORY, "cannot map %zu bytes: %s", n * page, strerror(e));
    }
    return SAC_OK;
}

static void cpu_rest(const sac_device *d, uint64_t name, size_t page) {
    (void)d;
    fallocate(file_of(name), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place_of(name, page), (off_t)page);
}

const sac_page_ops sac_cpu_pages = {.most_runs = MOST_RUNS,
                                    .maps_over = true,
                                    .page_bytes = cpu_page_bytes,
                                    .reserve = cpu_reserve,
                                    .unreserve = cpu_unreserve,
                                    .take = cpu_take,
                                    .give = cpu_give,
                                    .map = cpu_map,
                                    .unmap = cpu_unmap,
                                    .rest = cpu_rest};

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
