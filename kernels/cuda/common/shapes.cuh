/* shapes.cuh - what the host asks of shapes before it starts a kernel: do rows lie on lines, how many
 * blocks. */
#ifndef SAC_KERNELS_SHAPES_CUH
#define SAC_KERNELS_SHAPES_CUH

#include "cuda_ops.h"

namespace sac {

/* Whether rows of 8 neighbours lie on 16-byte lines. */
static inline bool is_aligned(const void *p, int64_t stride) {
    return (uintptr_t)p % 16 == 0 && stride % 8 == 0;
}
static inline bool mat_aligned(sac_mat m) {
    return m.cols % 8 == 0 && (m.rows <= 1 ? (uintptr_t)m.data % 16 == 0 : is_aligned(m.data, m.stride));
}
static inline bool keys_aligned(const sac_kv_view *kv) {
    return kv->head_dim % 8 == 0 && kv->head_stride % 8 == 0 && is_aligned(kv->k, kv->row_stride);
}
static inline bool kv_aligned(const sac_kv_view *kv) {
    return keys_aligned(kv) && is_aligned(kv->v, kv->row_stride);
}
static inline int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
static inline int64_t min_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t max_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

} // namespace sac

#endif
