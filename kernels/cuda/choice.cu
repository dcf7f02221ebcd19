/* choice.cu - what lies between choosing rows and reading them: the mean query that votes, the list of rows.
 */
#include "device.cuh"

enum { MEAN_ROWS = 16 /* threads that share a column */, MEAN_COLS = 32 };

/* A warp's lanes read neighbouring columns of a row; sixteen warps share the rows of a group and meet in
 * order. */
template <typename T>
static __global__ void mean_rows_kernel(float *y, const T *x, int64_t rows, int64_t cols, int64_t stride,
                                        float scale) {
    __shared__ float part[MEAN_ROWS][MEAN_COLS];
    start_next();
    wait_for_last();
    int lane = threadIdx.x % MEAN_COLS, warp = threadIdx.x / MEAN_COLS;
    int64_t c = (int64_t)blockIdx.x * MEAN_COLS + lane;
    x += blockIdx.y * rows * stride;
    float sum = 0;
    for (int64_t row = warp; row < rows && c < cols; row += MEAN_ROWS) sum += to_f32(x[row * stride + c]);
    part[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || c >= cols) return;
    for (int i = 1; i < MEAN_ROWS; i++) sum += part[i][lane];
    y[blockIdx.y * cols + c] = sum * scale;
}

extern "C" sac_status sac_cuda_mean_rows(const sac_stream *s, const sac_mean_rows_args *a) {
    int64_t n_groups = max_of(1, a->n_groups);
    if (n_groups > 65535) return SAC_UNSUPPORTED;
    dim3 blocks((unsigned)ceil_div(a->x.cols, MEAN_COLS), (unsigned)n_groups);
    BY_DTYPE(a->x.dtype, return launch_early(s, mean_rows_kernel<T>, blocks, dim3(MEAN_ROWS * MEAN_COLS), 0,
                                             a->y, (const T *)a->x.data, a->x.rows / n_groups, a->x.cols,
                                             a->x.stride, a->scale));
    return SAC_OK;
}

static __global__ void choice_rows_kernel(sac_choice_rows_args a) {
    start_next();
    wait_for_last();
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, middle = i - a.init, list = blockIdx.y;
    int64_t at = list * (a.init + a.n_chosen + a.local) + i, n_rows = a.n_rows + list * a.n_more;
    if (middle >= a.n_chosen + a.local) return;
    int64_t row = middle < 0            ? i
                  : middle < a.n_chosen ? a.init + a.chosen[list * a.n_chosen + middle]
                                        : n_rows - a.local + (middle - a.n_chosen);
    a.rows[at] = (int32_t)row;
    if (a.turn_back) a.turn_back[at] = (int32_t)(row - i);
}

extern "C" sac_status sac_cuda_choice_rows(const sac_stream *s, const sac_choice_rows_args *a) {
    int64_t n = a->init + a->n_chosen + a->local, n_lists = max_of(1, a->n_lists);
    if (!n) return SAC_OK;
    if (n_lists > 65535) return SAC_UNSUPPORTED;
    dim3 blocks((unsigned)ceil_div(n, 256), (unsigned)n_lists);
    return launch_early(s, choice_rows_kernel, blocks, dim3(256), 0, *a);
}
