/* linear.cu - y = act(x w^T + bias) through cuBLASLt, or by one plain kernel where cuBLASLt does not go
 * (types that differ, an activation together with a sum). linear_gemv.cu is taken for a few rows. cuBLASLt
 * adds the bias in y's type, knows the tanh form of GELU only, and does the residual as beta = 1; other
 * activations are a pass of their own over y, in y's precision, as frameworks do them. */
#include "context.cuh"
#include "e4m3_product.cuh"

#include <string.h>

namespace sac::linear {

/* ---------------------------------------------------------------- cuBLASLt */

static cudaDataType_t library_type(sac_dtype t) {
    return t == SAC_DTYPE_F32   ? CUDA_R_32F
           : t == SAC_DTYPE_F16 ? CUDA_R_16F
           : t == SAC_DTYPE_FP8 ? CUDA_R_8F_E4M3
                                : CUDA_R_16BF;
}
static int64_t input_bytes(sac_dtype t) {
    return t == SAC_DTYPE_FP8 ? 1 : element_bytes(t);
}

/* The alignment that the library may count on: 16 at most, of the base and of every row. */
static int alignment(const void *p, int64_t row_bytes) {
    uintptr_t bits = (uintptr_t)p | (uintptr_t)row_bytes | 16;
    return (int)(bits & (~bits + 1));
}

static __global__ void convert_bias_kernel(sac_dtype t, void *to, const float *from, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    wait_for_last();
    if (i < n) store_any(t, to, i, from[i]);
}

/* Rows that a thread has on their way. */
enum { ACTIVATE_ROWS = 4 };

/* The last rows first: they are still in the L2 cache, and the next product begins with the first. */
template <typename T, int V>
static __global__ void activate_kernel(T *y, int64_t rows, int64_t n, int64_t stride, sac_activation act) {
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    if (at >= n) return;
    for (int64_t end = rows - (int64_t)blockIdx.y * ACTIVATE_ROWS; end > 0;
         end -= (int64_t)gridDim.y * ACTIVATE_ROWS) {
        T *from = y + (end - ACTIVATE_ROWS) * stride + at;
        const int none = (int)max((int64_t)0, ACTIVATE_ROWS - end);
        float e[ACTIVATE_ROWS][V];
#pragma unroll
        for (int r = 0; r < ACTIVATE_ROWS; r++)
            if (r >= none) load<V>(e[r], from + r * stride);
#pragma unroll
        for (int r = 0; r < ACTIVATE_ROWS; r++) {
            if (r < none) continue;
#pragma unroll
            for (int i = 0; i < V; i++) e[r][i] = activate_as<T>(act, e[r][i]);
            store<V>(from + r * stride, e[r]);
        }
    }
}

static sac_status activate_rows(const sac_stream *s, sac_mat y, sac_activation act) {
    bool wide = mat_aligned(y);
    int64_t n_vec = y.cols / (wide ? 8 : 1);
    unsigned threads = (unsigned)min_of(256, ceil_div(n_vec, 32) * 32);
    dim3 grid((unsigned)ceil_div(n_vec, threads), (unsigned)min_of(ceil_div(y.rows, ACTIVATE_ROWS), 32768));
    BY_DTYPE(y.dtype, return launch(s, {grid, threads}, wide ? activate_kernel<T, 8> : activate_kernel<T, 1>,
                                    (T *)y.data, y.rows, y.cols, y.stride, act));
    return SAC_OK;
}

/* Column-major as the library sees it: y^T [n][m] = w^T (transposed back) times x^T. */
typedef struct matmul_layouts {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t w, x, y;
} matmul_layouts;

static bool lay_out(const cublaslt *lt, cublasLtMatrixLayoutOpaque_t *l, cudaDataType_t t, uint64_t rows,
                    uint64_t cols, int64_t stride) {
    return lt->MatrixLayoutInit_internal(l, sizeof *l, t, rows, cols, stride) == CUBLAS_STATUS_SUCCESS;
}

/* Scales of both sides' e4m3, and sums that do not stay in the tensor cores' fewer bits. */
static bool describe_e4m3(const cublaslt *lt, matmul_layouts *l, const e4m3_scales *e) {
    const int8_t fast = 0;
    const int32_t w = e->by_blocks ? CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
                                   : CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F,
                  x = e->by_blocks ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
                                   : CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    bool ok = true;
#define SET(attribute, value)                                                                                \
    ok = ok &&                                                                                               \
         lt->MatmulDescSetAttribute(&l->desc, attribute, &(value), sizeof(value)) == CUBLAS_STATUS_SUCCESS
    SET(CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast);
    SET(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, w);
    SET(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, x);
    SET(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, e->w);
    SET(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, e->x);
#undef SET
    return ok;
}

static bool describe(const cublaslt *lt, matmul_layouts *l, const matmul_key *k, const void *bias) {
    cublasComputeType_t compute =
        k->fast && k->x == SAC_DTYPE_F32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t transpose = CUBLAS_OP_T;
    cublasLtEpilogue_t epilogue = k->bias && k->gelu ? CUBLASLT_EPILOGUE_GELU_BIAS
                                  : k->bias          ? CUBLASLT_EPILOGUE_BIAS
                                  : k->gelu          ? CUBLASLT_EPILOGUE_GELU
                                                     : CUBLASLT_EPILOGUE_DEFAULT;
    cudaDataType_t bias_type = library_type(k->y);
    bool ok =
        lt->MatmulDescInit_internal(&l->desc, sizeof l->desc, compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS;
#define SET(attribute, value)                                                                                \
    ok = ok &&                                                                                               \
         lt->MatmulDescSetAttribute(&l->desc, attribute, &(value), sizeof(value)) == CUBLAS_STATUS_SUCCESS
    SET(CUBLASLT_MATMUL_DESC_TRANSA, transpose);
    SET(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (k->bias) {
        SET(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
        SET(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type);
    }
#undef SET
    uint64_t n = (uint64_t)k->n, m = (uint64_t)k->m, depth = (uint64_t)k->k;
    const cudaDataType_t in = library_type(k->x), out = library_type(k->y);
    return ok && lay_out(lt, &l->w, in, depth, n, k->w_stride) && lay_out(lt, &l->x, in, depth, m, k->x_stride) &&
           lay_out(lt, &l->y, out, n, m, k->y_stride);
}

/* For a long product (tuning.h) the first tile of this list that is among the library's offers is taken,
 * its sums not split, which makes them the same whatever the tile; without one, and for all other
 * products, the first offer. */
static const uint32_t long_tiles[] = {CUBLASLT_MATMUL_TILE_168x128, CUBLASLT_MATMUL_TILE_176x128};

static bool is_long(const sac_stream *s, const matmul_key *k) {
    return tuning_of(s->device).has_wgmma && is_half(k->x) && k->m >= LONG_ROWS &&
           k->n >= LONG_COLS && k->k >= LONG_SUM;
}

static uint32_t attribute_of(const cublaslt *lt, const cublasLtMatmulHeuristicResult_t *offer,
                             cublasLtMatmulAlgoConfigAttributes_t a) {
    uint32_t value = 0;
    size_t n;
    lt->MatmulAlgoConfigGetAttribute(&offer->algo, a, &value, sizeof value, &n);
    return value;
}

static const cublasLtMatmulHeuristicResult_t *
long_offer(const cublaslt *lt, const cublasLtMatmulHeuristicResult_t *offers, int n) {
    for (uint32_t tile : long_tiles)
        for (int i = 0; i < n; i++)
            if (offers[i].state == CUBLAS_STATUS_SUCCESS &&
                attribute_of(lt, &offers[i], CUBLASLT_ALGO_CONFIG_TILE_ID) == tile &&
                attribute_of(lt, &offers[i], CUBLASLT_ALGO_CONFIG_SPLITK_NUM) <= 1)
                return &offers[i];
    int first = 0; /* that is one */
    while (first < n - 1 && offers[first].state != CUBLAS_STATUS_SUCCESS) first++;
    return &offers[first];
}

static bool ask_library(const sac_stream *s, matmul_plan *p, matmul_layouts *l, size_t workspace_bytes) {
    cublasLtMatmulPreferenceOpaque_t want;
    cublasLtMatmulHeuristicResult_t offers[MOST_OFFERS];
    const bool long_one = is_long(s, &p->key);
    const cublaslt *lt = &ops_of(s)->lt;
    int n = 0, most = long_one ? MOST_OFFERS : 1;
    uint32_t sums_in_f32 = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* not in y's type, where k is split */
    uint32_t w = (uint32_t)p->key.w_align, x = (uint32_t)p->key.x_align, y = (uint32_t)p->key.y_align;
    if (lt->MatmulPreferenceInit_internal(&want, sizeof want) != CUBLAS_STATUS_SUCCESS) return false;
#define SET(attribute, value) lt->MatmulPreferenceSetAttribute(&want, attribute, &(value), sizeof(value))
    SET(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    SET(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, sums_in_f32);
    SET(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, w);
    SET(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, x);
    SET(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, y);
    SET(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, y);
#undef SET
    if (lt->MatmulAlgoGetHeuristic(lt->handle, &l->desc, &l->w, &l->x, &l->y, &l->y, &want, most, offers,
                                   &n) != CUBLAS_STATUS_SUCCESS ||
        n == 0)
        return false;
    const cublasLtMatmulHeuristicResult_t *taken = long_one ? long_offer(lt, offers, n) : offers;
    p->algo = taken->algo;
    return taken->state == CUBLAS_STATUS_SUCCESS;
}

static matmul_plan *find_plan(const sac_stream *s, const matmul_key *key, matmul_layouts *l,
                              size_t workspace_bytes) {
    cuda_ops *o = ops_of(s);
    int n = o->n_matmul < N_MATMUL_PLANS ? o->n_matmul : N_MATMUL_PLANS;
    for (int i = 0; i < n; i++)
        if (memcmp(&o->matmul[i].key, key, sizeof *key) == 0) return &o->matmul[i];
    matmul_plan *p = &o->matmul[o->n_matmul++ % N_MATMUL_PLANS];
    p->key = *key;
    p->usable = ask_library(s, p, l, workspace_bytes);
    return p;
}

/* Of checked types; `e` where both sides are e4m3. */
/* only_asks: nothing is started. */
static sac_status multiply(const sac_stream *s, const sac_linear_args *a, const e4m3_scales *e, bool only_asks) {
    cuda_ops *o = ops_of(s);
    int64_t m = a->x.rows, n = a->y.cols, k = a->x.cols;
    bool gelu = a->act == SAC_ACT_GELU_TANH && is_half(a->y.dtype);
    if (a->act != SAC_ACT_NONE && a->accumulate) return SAC_UNSUPPORTED;
    if (a->bias && (size_t)(n * element_bytes(a->y.dtype)) > SCRATCH_BIAS_BYTES) return SAC_UNSUPPORTED;
    if (!m) return SAC_OK;
    size_t workspace_bytes;
    void *workspace = scratch_rest(s, &workspace_bytes);
    const void *bias = a->bias;
    if (a->bias && a->y.dtype != SAC_DTYPE_F32) bias = scratch_bias(s);
    matmul_key key;
    memset(&key, 0, sizeof key); /* it is compared as bytes */
    key.m = m, key.n = n, key.k = k;
    key.x_stride = m > 1 ? a->x.stride : k, key.y_stride = m > 1 ? a->y.stride : n;
    key.w_stride = e && e->w_stride ? e->w_stride : k;
    key.x_align = alignment(a->x.data, key.x_stride * input_bytes(a->x.dtype));
    key.y_align = alignment(a->y.data, key.y_stride * element_bytes(a->y.dtype));
    key.w_align = alignment(a->w.tensor.data, key.w_stride * input_bytes(a->x.dtype));
    key.x = a->x.dtype, key.y = a->y.dtype;
    key.workspace_bytes = workspace_bytes;
    key.bias = a->bias, key.gelu = gelu, key.accumulate = a->accumulate, key.fast = a->fast;
    key.by_blocks = e && e->by_blocks;
    matmul_layouts l;
    if (!describe(&o->lt, &l, &key, bias)) return e ? SAC_UNSUPPORTED : SAC_DEVICE;
    if (e && !describe_e4m3(&o->lt, &l, e)) return SAC_UNSUPPORTED; /* an older library */
    matmul_plan *p = find_plan(s, &key, &l, workspace_bytes);
    if (!p->usable) return SAC_UNSUPPORTED;
    if (only_asks) return SAC_OK;
    if (bias != a->bias)
        SAC_TRY(launch(s, early({(unsigned)ceil_div(n, 256), 256}), convert_bias_kernel, a->y.dtype,
                       scratch_bias(s), a->bias, n));
    float one = 1, beta = a->accumulate ? 1.0f : 0.0f;
    if (o->lt.Matmul(o->lt.handle, &l.desc, &one, a->w.tensor.data, &l.w, a->x.data, &l.x, &beta, a->y.data,
                     &l.y, a->y.data, &l.y, &p->algo, workspace, workspace_bytes,
                     cuda_stream(s)) != CUBLAS_STATUS_SUCCESS)
        return SAC_DEVICE;
    return a->act != SAC_ACT_NONE && !gelu ? activate_rows(s, a->y, a->act) : status_of(cudaGetLastError());
}

extern "C" sac_status sac_cuda_linear_lt(const sac_stream *s, const sac_linear_args *a) {
    if (!is_float(a->x.dtype) || a->w.tensor.dtype != a->x.dtype) return SAC_UNSUPPORTED;
    if (a->y.dtype != a->x.dtype && a->y.dtype != SAC_DTYPE_F32) return SAC_UNSUPPORTED;
    return multiply(s, a, NULL, false);
}

sac_status linear_e4m3(const sac_stream *s, const sac_linear_args *a, const e4m3_scales &e, bool only_asks) {
    return multiply(s, a, &e, only_asks);
}

/* ---------------------------------------------------------------- any types */

/* 64 x 64 of y a block, 4 x 4 a thread, k in steps of 16. */
static __global__ void linear_any_kernel(sac_mat y, sac_mat x, sac_dtype w_type, const void *w,
                                         const float *bias, sac_activation act, bool accumulate) {
    __shared__ float xs[16][65], ws[16][65];
    int64_t m0 = (int64_t)blockIdx.y * 64, n0 = (int64_t)blockIdx.x * 64, k = x.cols;
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    float acc[4][4] = {{0}};
    for (int64_t k0 = 0; k0 < k; k0 += 16) {
        for (int i = threadIdx.x; i < 16 * 64; i += 256) {
            int64_t c = k0 + i % 16, row = m0 + i / 16, col = n0 + i / 16;
            xs[i % 16][i / 16] = row < x.rows && c < k ? load_any(x.dtype, x.data, row * x.stride + c) : 0;
            ws[i % 16][i / 16] = col < y.cols && c < k ? load_any(w_type, w, col * k + c) : 0;
        }
        __syncthreads();
#pragma unroll
        for (int c = 0; c < 16; c++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) acc[i][j] += xs[c][ty + 16 * i] * ws[c][tx + 16 * j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            int64_t row = m0 + ty + 16 * i, col = n0 + tx + 16 * j;
            if (row >= y.rows || col >= y.cols) continue;
            float v = activate(act, acc[i][j] + (bias ? bias[col] : 0.0f));
            int64_t at = row * y.stride + col;
            store_any(y.dtype, y.data, at, accumulate ? load_any(y.dtype, y.data, at) + v : v);
        }
}

extern "C" sac_status sac_cuda_linear_any(const sac_stream *s, const sac_linear_args *a) {
    if (!is_float(a->x.dtype) || !is_float(a->y.dtype) || !is_float(a->w.tensor.dtype))
        return SAC_UNSUPPORTED;
    int64_t rows = ceil_div(a->y.rows, 64);
    if (!rows) return SAC_OK;
    if (rows > 65535) return SAC_UNSUPPORTED;
    dim3 grid((unsigned)ceil_div(a->y.cols, 64), (unsigned)rows);
    return launch(s, {grid, 256}, linear_any_kernel, a->y, a->x, a->w.tensor.dtype, a->w.tensor.data, a->bias,
                  a->act, a->accumulate);
}

extern "C" sac_status sac_cuda_linear(const sac_stream *s, const sac_linear_args *a) {
    if (sac_dtype_block(a->w.tensor.dtype) > 1) {
        sac_status st = sac_cuda_linear_blocks(s, a);
        return st == SAC_UNSUPPORTED ? sac_cuda_linear_unpacked(s, a) : st;
    }
    sac_status st = sac_cuda_linear_gemv(s, a);
    if (st == SAC_UNSUPPORTED) st = sac_cuda_linear_lt(s, a);
    if (st == SAC_UNSUPPORTED) st = sac_cuda_linear_any(s, a);
    return st;
}

} // namespace sac::linear
