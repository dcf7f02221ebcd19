#include "dtype.h"

static const struct {
    const char *name;
    int block, block_bytes;
} dtypes[] = {
#define X(name, block, bytes, text) [SAC_DTYPE_##name] = {text, block, bytes},
    SAC_DTYPE_LIST(X)
#undef X
};

const char *sac_dtype_name(sac_dtype t) {
    return dtypes[t].name;
}
int sac_dtype_block(sac_dtype t) {
    return dtypes[t].block;
}
int sac_dtype_block_bytes(sac_dtype t) {
    return dtypes[t].block_bytes;
}
