/* cuda_pages.cu - memory in pages on a CUDA card, by the driver's management of virtual memory (CUDA Driver API, section 6.14).
 * The functions are the driver's: they are asked for at run time, so the program links the runtime alone. A page is as large as the
 * card's smallest, 2 MiB on those up to Hopper. */
#include <cuda.h>
#include <cuda_runtime.h>
extern "C" {
#include "device_pages.h"
}

namespace {

struct driver {
    decltype(&cuMemGetAllocationGranularity) granularity;
    decltype(&cuMemAddressReserve) reserve;
    decltype(&cuMemAddressFree) unreserve;
    decltype(&cuMemCreate) create;
    decltype(&cuMemRelease) release;
    decltype(&cuMemMap) map;
    decltype(&cuMemSetAccess) set_access;
    decltype(&cuMemUnmap) unmap;
    decltype(&cuGetErrorString) error_string;
    bool is_there;
};

template <typename F> bool find(F *out, const char *name, unsigned version) {
    cudaDriverEntryPointQueryResult found;
    void *f = NULL;
    if (cudaGetDriverEntryPointByVersion(name, &f, version, cudaEnableDefault, &found) != cudaSuccess ||
        found != cudaDriverEntryPointSuccess) {
        cudaGetLastError();
        return false;
    }
    *out = (F)f;
    return true;
}

driver look() {
    driver d = {};
    d.is_there = find(&d.granularity, "cuMemGetAllocationGranularity", 10020) && find(&d.reserve, "cuMemAddressReserve", 10020) &&
                 find(&d.unreserve, "cuMemAddressFree", 10020) && find(&d.create, "cuMemCreate", 10020) &&
                 find(&d.release, "cuMemRelease", 10020) && find(&d.map, "cuMemMap", 10020) &&
                 find(&d.set_access, "cuMemSetAccess", 10020) && find(&d.unmap, "cuMemUnmap", 10020) &&
                 find(&d.error_string, "cuGetErrorString", 6000);
    return d;
}

/* Looked for once: C++ lets one thread in. */
const driver &driver_of() {
    static const driver d = look();
    return d;
}

CUmemAllocationProp page_of(const sac_device *d) {
    CUmemAllocationProp p = {};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.location.id = d->index;
    return p;
}

size_t page_bytes(const sac_device *d, size_t) {
    const CUmemAllocationProp p = page_of(d);
    size_t n = 0;
    const bool known = driver_of().is_there &&
                       driver_of().granularity(&n, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS;
    return known ? n : 0;
}

sac_status fail(const sac_device *d, CUresult e, const char *what, sac_error *err) {
    const char *text = NULL;
    driver_of().error_string(e, &text);
    return sac_fail(err, e == CUDA_ERROR_OUT_OF_MEMORY ? SAC_NO_MEMORY : SAC_DEVICE, "CUDA card %d (%s): %s: %s", d->index, d->name,
                    what, text ? text : "unknown error");
}

sac_status use(const sac_device *d, sac_error *err) {
    if (cudaSetDevice(d->index) == cudaSuccess) return SAC_OK;
    cudaGetLastError();
    return sac_fail(err, SAC_DEVICE, "CUDA card %d (%s) does not answer", d->index, d->name);
}

sac_status cuda_reserve(const sac_device *d, size_t n_bytes, void **at, sac_error *err) {
    CUdeviceptr p = 0;
    *at = NULL;
    SAC_TRY(use(d, err));
    const CUresult e = driver_of().reserve(&p, n_bytes, 0, 0, 0);
    if (e != CUDA_SUCCESS) return fail(d, e, "reserving addresses", err);
    *at = (void *)p;
    return SAC_OK;
}

void cuda_unreserve(const sac_device *d, void *at, size_t n_bytes) {
    if (use(d, NULL) == SAC_OK) driver_of().unreserve((CUdeviceptr)at, n_bytes);
}

void cuda_give(const sac_device *d, const uint64_t *names, size_t n) {
    if (use(d, NULL) != SAC_OK) return;
    for (size_t i = 0; i < n; i++) driver_of().release(names[i]);
}

sac_status cuda_take(const sac_device *d, uint64_t *names, size_t n, size_t page, sac_error *err) {
    const CUmemAllocationProp p = page_of(d);
    SAC_TRY(use(d, err));
    for (size_t i = 0; i < n; i++) {
        CUmemGenericAllocationHandle h;
        const CUresult e = driver_of().create(&h, page, &p, 0);
        if (e != CUDA_SUCCESS) {
            cuda_give(d, names, i);
            return fail(d, e, "taking a page", err);
        }
        names[i] = h;
    }
    return SAC_OK;
}

bool unmap_pages(CUdeviceptr at, size_t n, size_t page) {
    bool all = true;
    for (size_t i = 0; i < n; i++) all &= driver_of().unmap(at + i * page, page) == CUDA_SUCCESS;
    return all;
}

sac_status cuda_map(const sac_device *d, void *at, const uint64_t *names, size_t n, size_t page, sac_error *err) {
    const CUdeviceptr p = (CUdeviceptr)at;
    size_t n_mapped = 0;
    CUresult e = CUDA_SUCCESS;
    SAC_TRY(use(d, err));
    while (n_mapped < n && e == CUDA_SUCCESS) {
        e = driver_of().map(p + n_mapped * page, page, 0, names[n_mapped], 0);
        n_mapped += e == CUDA_SUCCESS;
    }
    if (e == CUDA_SUCCESS) {
        CUmemAccessDesc a = {};
        a.location = page_of(d).location;
        a.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        e = driver_of().set_access(p, n * page, &a, 1);
    }
    if (e == CUDA_SUCCESS) return SAC_OK;
    unmap_pages(p, n_mapped, page);
    return fail(d, e, "mapping pages", err);
}

bool cuda_unmap(const sac_device *d, void *at, size_t n, size_t page) {
    return use(d, NULL) == SAC_OK && unmap_pages((CUdeviceptr)at, n, page);
}

} // namespace

extern "C" const sac_page_ops *sac_cuda_pages(void) {
    static const sac_page_ops ops = {0, false, page_bytes, cuda_reserve, cuda_unreserve, cuda_take, cuda_give, cuda_map, cuda_unmap, NULL};
    return &ops;
}
