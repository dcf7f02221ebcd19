/* kv_gather.cu - rows of keys and values by lists, put side by side; keys may be turned back on the way. */
#include "rows.cuh"
#include "turn.cuh"

namespace sac::rows {

typedef struct gather_job {
    sac_kv_view dst, src;
    const int32_t *rows, *turn_back;
    const int64_t *start;
    int n_lists;
    sac_rotation rotation;
} gather_job;

/* 16 bytes a thread; blockIdx.y is the head, blockIdx.z keys or values. Only the GPU knows how long the
 * lists are: a fixed grid walks over them. */
template <typename T> static __global__ void kv_gather_kernel(gather_job j) {
    int head = blockIdx.y, list = head / (j.src.n_heads / j.n_lists), chunks = j.src.head_dim / 8;
    int64_t begin = j.start[list], n = j.start[list + 1] - begin, stride = (int64_t)gridDim.x * blockDim.x;
    const T *from = (const T *)(blockIdx.z ? j.src.v : j.src.k) + head * j.src.head_stride;
    T *to = (T *)(blockIdx.z ? j.dst.v : j.dst.k) + head * j.dst.head_stride;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n * chunks; i += stride) {
        int64_t row = i / chunks, c = i % chunks * 8;
        move<8>(to + row * j.dst.row_stride + c, from + j.rows[begin + row] * j.src.row_stride + c);
    }
}

enum { HEADS = 4 /* that a thread has on their way */ };

/* Eight channels of each half of a pair a thread, of all heads of a list, whose angles are the same: keys of
 * halves that are turned back in the layout of two halves, and their values, which are moved. */
template <typename T> static __global__ void kv_gather_turned_kernel(gather_job j) {
    start_next();
    wait_for_last();
    int list = blockIdx.y, heads = j.src.n_heads / j.n_lists, d = j.src.head_dim, half = d / 2,
        per_row = half / 8;
    int64_t begin = j.start[list], n = j.start[list + 1] - begin, stride = (int64_t)gridDim.x * blockDim.x;
    const T *from = (const T *)(blockIdx.z ? j.src.v : j.src.k) + list * heads * j.src.head_stride;
    T *to = (T *)(blockIdx.z ? j.dst.v : j.dst.k) + list * heads * j.dst.head_stride;
    float f = 1 / j.rotation.factor;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n * per_row; i += stride) {
        int64_t row = i / per_row, c = i % per_row * 8;
        const T *x = from + j.rows[begin + row] * j.src.row_stride + c;
        T *y = to + row * j.dst.row_stride + c;
        float cs[16];
        if (!blockIdx.z) load<16>(cs, j.rotation.cos_sin + (int64_t)j.turn_back[begin + row] * d + 2 * c);
        for (int first = 0; first < heads; first += HEADS) {
            uint4 u[HEADS], v[HEADS];
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                if (first + h >= heads) break;
                const T *p = x + (first + h) * j.src.head_stride;
                u[h] = *(const uint4 *)p;
                v[h] = *(const uint4 *)(p + half);
            }
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                if (first + h >= heads) break;
                T *p = y + (first + h) * j.dst.head_stride;
                if (!blockIdx.z) turn_back_eight<T>(u[h], v[h], cs, f);
                *(uint4 *)p = u[h];
                *(uint4 *)(p + half) = v[h];
            }
        }
    }
}

/* One channel a thread: types that differ, keys that are turned back. */
static __global__ void kv_gather_any_kernel(gather_job j) {
    int head = blockIdx.y, list = head / (j.src.n_heads / j.n_lists), d = j.src.head_dim;
    int64_t begin = j.start[list], n = j.start[list + 1] - begin, stride = (int64_t)gridDim.x * blockDim.x;
    const void *from = blockIdx.z ? j.src.v : j.src.k;
    void *to = blockIdx.z ? j.dst.v : j.dst.k;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n * d; i += stride) {
        int64_t row = i / d, at = j.rows[begin + row] * j.src.row_stride + head * j.src.head_stride;
        int c = (int)(i % d);
        float x = j.turn_back && !blockIdx.z
                      ? turned_back(j.src.dtype, from, at, c, j.rotation, j.turn_back[begin + row])
                      : load_any(j.src.dtype, from, at + c);
        store_any(j.dst.dtype, to, row * j.dst.row_stride + head * j.dst.head_stride + c, x);
    }
}

static bool view_aligned(const sac_kv_view *kv, bool keys_only) {
    return keys_only ? keys_aligned(kv) : kv_aligned(kv);
}

extern "C" sac_status sac_cuda_kv_gather(const sac_stream *s, const sac_kv_gather_args *a) {
    if (!is_float(a->src.dtype) || !is_float(a->dst.dtype)) return SAC_UNSUPPORTED;
    gather_job j = {a->dst,        a->src, a->lists->rows, a->turn_back, a->lists->start, a->lists->n_lists,
                    sac_rotation()};
    if (a->turn_back) j.rotation = *a->rotation;
    bool wide = !a->turn_back && a->src.dtype == a->dst.dtype && view_aligned(&a->src, a->keys_only) &&
                view_aligned(&a->dst, a->keys_only);
    bool turned = a->turn_back && a->src.dtype == a->dst.dtype && is_half(a->src.dtype) &&
                  !a->rotation->interleaved && a->rotation->rot_dim == a->src.head_dim &&
                  a->src.head_dim % 16 == 0 && (uintptr_t)a->rotation->cos_sin % 16 == 0 &&
                  view_aligned(&a->src, a->keys_only) && view_aligned(&a->dst, a->keys_only);
    int64_t items = a->dst.n_rows * a->dst.head_dim / (wide ? 8 : turned ? 16 : 1);
    if (!items) return SAC_OK;
    dim3 grid((unsigned)min_of(ceil_div(items, 256), s->device->n_processors * 16),
              (unsigned)(turned ? a->lists->n_lists : a->src.n_heads), a->keys_only ? 1 : 2);
    if (turned)
        return a->src.dtype == SAC_DTYPE_F16
                   ? launch(s, early({grid, 256}), kv_gather_turned_kernel<half>, j)
                   : launch(s, early({grid, 256}), kv_gather_turned_kernel<bf16>, j);
    if (!wide) {
        return launch(s, {grid, 256}, kv_gather_any_kernel, j);
    }
    BY_DTYPE(a->src.dtype, return launch(s, {grid, 256}, kv_gather_kernel<T>, j));
    return SAC_OK;
}

} // namespace sac::rows
