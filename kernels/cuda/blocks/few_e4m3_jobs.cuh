/* few_e4m3_jobs.cuh - what products of few_e4m3.cuh are of, and what becomes of their sums: matrices by rows, gate and up. And what they
 * are asked before a launch. */
#ifndef SAC_KERNELS_FEW_E4M3_JOBS_CUH
#define SAC_KERNELS_FEW_E4M3_JOBS_CUH

#include "block_product.cuh"
#include "few_e4m3.cuh"
#include "tensor_map.cuh"

namespace sac::blocks {

using namespace few_e4m3;

/* Scales of a matrix, of rows or of blocks of 128 x 128. */
struct matrix_scales {
    const float *at;
    int of_blocks; /* scales of 128 rows, or 0: one a row */

    __device__ __forceinline__ const float *of(int64_t row) const { return at + (of_blocks ? row / 128 * of_blocks : row); }
    __device__ __forceinline__ float met(float sum, int64_t row, float of_x) const { return of_blocks ? sum : sum * (at[row] * of_x); }
    __device__ __forceinline__ void fetch(int64_t row) const {
        if (!of_blocks) fetch_soon(at + row);
    }
};

/* Rows of one of several matrices. */
struct product_boxes {
    product_job job; /* first_block: first tile */
    matrix_scales scale[SAC_LINEAR_GROUP_MOST];

    __device__ __forceinline__ int part_of(int tile, int &first) const {
        int of = 0;
        while (of + 1 < job.n_parts && tile >= job.part[of + 1].first_block) of++;
        first = (tile - job.part[of].first_block) * TILE_ROWS;
        return of;
    }
    __device__ __forceinline__ int box(int tile, int i, int &row) const {
        const int of = part_of(tile, row);
        row += i * BOX_ROWS;
        return of;
    }
    __device__ __forceinline__ const float *scales(int tile, int i) const {
        int row;
        const int of = box(tile, i, row);
        return scale[of].of(row < job.part[of].y.cols ? row : 0);
    }
    __device__ void warm(int tile, int i) const {
        int first;
        const int of = part_of(tile, first);
        const product_part &p = job.part[of];
        if (first + i >= p.y.cols) return;
        scale[of].fetch(first + i);
        if (p.bias) fetch_soon(p.bias + first + i);
    }
    __device__ void finish(int tile, const float *sums, const float *x_scales, int m) const {
        int first;
        const int of = part_of(tile, first), r = threadIdx.x % TILE_ROWS;
        const product_part &p = job.part[of];
        if (first + r >= p.y.cols) return;
        for (int row = threadIdx.x / TILE_ROWS; row < m; row += WORKERS / TILE_ROWS)
            blocks::finish(job, p, first + r, row, scale[of].met(sums[row * SUMS_ROW + r], first + r, x_scales[row]));
    }
};

/* Channels of the gate, and the same ones of up. */
struct gate_boxes {
    product_part y;
    matrix_scales scale[2];

    __device__ __forceinline__ int box(int tile, int i, int &row) const {
        row = tile * BOX_ROWS;
        return i;
    }
    __device__ __forceinline__ const float *scales(int tile, int i) const { return scale[i].of(tile * BOX_ROWS); }
    __device__ void warm(int tile, int i) const {
        const int64_t row = (int64_t)tile * BOX_ROWS + i % BOX_ROWS;
        if (row < y.y.cols) scale[i / BOX_ROWS].fetch(row);
    }
    __device__ void finish(int tile, const float *sums, const float *x_scales, int m) const {
        const int r = threadIdx.x % BOX_ROWS;
        const int64_t col = (int64_t)tile * BOX_ROWS + r;
        if (col >= y.y.cols) return;
        for (int row = threadIdx.x / BOX_ROWS; row < m; row += WORKERS / BOX_ROWS) {
            const float *of_row = sums + row * SUMS_ROW + r, gate = scale[0].met(of_row[0], col, x_scales[row]),
                        up = scale[1].met(of_row[BOX_ROWS], col, x_scales[row]);
            if (y.y.dtype == SAC_DTYPE_F16)
                finish_gated<half>(y, col, row, gate, up);
            else
                finish_gated<bf16>(y, col, row, gate, up);
        }
    }
};

/* ---------------------------------------------------------------- before a launch */

/* Rows of `cols` codes, `stride` bytes apart, as boxes of a step of some rows. */
static inline bool map_codes(CUtensorMap *map, const void *codes, int64_t cols, int64_t n_rows, int64_t stride, int box) {
    static const encode_map encode = find_encode_map();
    const cuuint64_t sizes[4] = {(cuuint64_t)cols, (cuuint64_t)n_rows, 1, 1}, pitch = (cuuint64_t)stride,
                     bytes[3] = {pitch, pitch * (cuuint64_t)n_rows, pitch * (cuuint64_t)n_rows};
    const cuuint32_t boxes[4] = {STEP, (cuuint32_t)box, 1, 1}, steps[4] = {1, 1, 1, 1};
    return encode && encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, (void *)codes, sizes, bytes, boxes, steps,
                            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* Whether the program has a kernel's code for sm_90a: elsewhere its body is empty, and declares no barriers. */
template <typename... P> static sac_status has_code(void (*kernel)(P...), bool *has) {
    cudaFuncAttributes f;
    SAC_TRY(attributes_of(kernel, &f));
    *has = f.sharedSizeBytes > 0;
    return SAC_OK;
}

/* One row of x or several that want the same, and where codes and sums lie. */
struct rows_of_x {
    sac_mat x;
    x_rounding rounding;
    const float *norm; /* or NULL */
    float eps;
};

static inline bool is_taken(const sac_stream *s, const rows_of_x &of) {
    const x_rounding r = of.rounding;
    return !s->device->no_e4m3 && tuning_of(s->device).has_wgmma && of.x.rows >= 1 && of.x.rows <= MOST_X && of.x.cols % 16 == 0 &&
           of.x.cols >= STEP && of.x.cols < 1 << 24 && is_half(of.x.dtype) && mat_aligned(of.x) && (uintptr_t)of.norm % 16 == 0 &&
           (r.how == SAC_X_FP8_GROUPS ? r.group == STEP : r.how == SAC_X_FP8_ROWS || (r.how == SAC_X_FP8_STATIC && r.scale != 0));
}
static inline matrix_scales scales_of(const void *w, const sac_block_layout &l, bool by_units) {
    return {(const float *)((const uint8_t *)w + l.at[SAC_BLOCK_SCALES]), by_units ? (int)((l.n_stretches * STRETCH + 511) / 512 * 4) : 0};
}
static inline input input_of(int64_t k, bool by_units) {
    input in = {};
    in.steps = (int)ceil_div(k, STEP), in.units = by_units ? in.steps : 1;
    return in;
}
static inline bool map_rows(input *in, int i, const void *w, const sac_block_layout &l, int64_t n) {
    return map_codes(&in->w[i], w, l.n_stretches * STRETCH, ceil_div(n, SAC_BLOCK_TILE) * SAC_BLOCK_TILE, l.n_stretches * STRETCH, BOX_ROWS);
}

} // namespace sac::blocks

#endif
