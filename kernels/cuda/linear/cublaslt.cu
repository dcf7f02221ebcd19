#include "cublaslt.cuh"

#include <dlfcn.h>
#include <stddef.h>

namespace sac::linear {

static const char *const known[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};

static bool load(cublaslt *c, const char *name) {
    *c = cublaslt{};
    bool ok = (c->lib = dlopen(name, RTLD_NOW | RTLD_LOCAL)) != NULL;
#define X(name) ok = ok && (c->name = (decltype(&cublasLt##name))dlsym(c->lib, "cublasLt" #name)) != NULL;
    SAC_CUBLASLT_FUNCTIONS(X)
#undef X
    if (!ok) cublaslt_close(c);
    return ok;
}

sac_status cublaslt_load(cublaslt *c, const char *const *names, sac_error *err) {
    if (!names) names = known;
    for (const char *const *name = names; *name; name++)
        if (load(c, *name)) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "a card's products need cuBLASLt of CUDA 13 or 12 (%s is not found): install the package "
                    "libcublas of "
                    "CUDA, or run on the CPU",
                    names[0]);
}

bool cublaslt_start(cublaslt *c) {
    return c->Create(&c->handle) == CUBLAS_STATUS_SUCCESS;
}

void cublaslt_close(cublaslt *c) {
    if (c->handle) c->Destroy(c->handle);
    if (c->lib) dlclose(c->lib);
    *c = cublaslt{};
}

} // namespace sac::linear
