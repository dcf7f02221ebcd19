/* one_e4m3.cu - one row of x with FP8 weights of a checkpoint that has x rounded to FP8 as well: few_e4m3.cu's stretches of
 * units, with norm and rounding of x in every block, and what follows the product (gate; bias, rope and store) at its end.
 *
 * x lies in shared memory once, as codes in f16, so the tensor cores' sums are of what the reference multiplies. Weights are
 * asked for while the kernel before is still at work, and a block leaves room for one of the next kernel, which does the same. */
#include "block_stream.cuh"
#include "e4m3_units.cuh"

namespace sac::blocks {

/* Vectors of eight elements that a thread rounds at most: more columns go to few_e4m3.cu. */
enum { ONE_VECTORS = 4, ONE_COLS = ONE_VECTORS * E4M3_THREADS * 8, ONE_STAGES = 3 };

struct one_input {
    const void *x;
    const float *norm; /* or NULL */
    float eps;
    x_rounding rounding;
    float4 *sums; /* of two pairs a warp, for each block */
    unsigned *counters;
    int k, n_pairs, n_units, total; /* pairs of tiles; units of a group, of all groups of eight pairs */
};

/* Pairs of neighbouring tiles. */
struct product_pairs {
    enum { TILES = 2 };
    product_job job; /* first_block: first pair */

    __device__ const product_part &part_of(int unit) const {
        int of = 0;
        while (of + 1 < job.n_parts && unit >= job.part[of + 1].first_block) of++;
        return job.part[of];
    }
    __device__ block_parts tile(int unit, int i) const {
        const product_part &p = part_of(unit);
        return parts_at(p.w, p.layout, min(2 * (unit - p.first_block) + i, (int)((p.y.cols - 1) / TILE)), 0);
    }
    template <typename T> __device__ void finish(int unit, int row, const float sum[TILES]) const {
        const product_part &p = part_of(unit);
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            const int64_t col = (int64_t)(2 * (unit - p.first_block) + i) * TILE + row;
            if (col < p.y.cols) blocks::finish(job, p, col, 0, sum[i]);
        }
    }
};

/* x as codes, to shared memory, zeros behind it, and scales of its units, or its own, which is returned. */
template <typename T, bool BY_UNITS>
__device__ __forceinline__ float take_codes_of_x(const one_input &in, half *codes, float *sx, float *part,
                                                 uint32_t *largest_part) {
    uint4 v[ONE_VECTORS];
    float e[8], sum = 0;
#pragma unroll
    for (int i = 0; i < ONE_VECTORS; i++) {
        const int at = (threadIdx.x + i * E4M3_THREADS) * 8;
        v[i] = at < in.k ? *(const uint4 *)((const T *)in.x + at) : make_uint4(0, 0, 0, 0);
        unpack_eight(v[i], e, T());
#pragma unroll
        for (int n = 0; n < 8; n++) sum += e[n] * e[n];
    }
    if (in.norm) { /* rounded to T, as the op alone would */
        const float scale = 1.0f / sqrtf(block_sum(sum, part) / (float)in.k + in.eps);
#pragma unroll
        for (int i = 0; i < ONE_VECTORS; i++) {
            const int at = (threadIdx.x + i * E4M3_THREADS) * 8;
            if (at >= in.k) break;
            float g[8];
            load<8>(g, in.norm + at);
            unpack_eight(v[i], e, T());
#pragma unroll
            for (int n = 0; n < 8; n++) e[n] = e[n] * scale * g[n];
            v[i] = make_uint4(pack<T>(e[0], e[1]), pack<T>(e[2], e[3]), pack<T>(e[4], e[5]),
                              pack<T>(e[6], e[7]));
        }
    }
    uint32_t largest[ONE_VECTORS], of_all = 0;
#pragma unroll
    for (int i = 0; i < ONE_VECTORS; i++) {
        largest[i] = 0;
        unpack_eight(v[i], e, T());
#pragma unroll
        for (int n = 0; n < 8; n++) largest[i] = max(largest[i], magnitude(e[n]));
        if constexpr (BY_UNITS)
#pragma unroll
            for (int n = 8; n > 0; n /= 2) largest[i] = max(largest[i], __shfl_xor_sync(~0u, largest[i], n));
        of_all = max(of_all, largest[i]);
    }
    float scale = in.rounding.scale;
    if (!BY_UNITS && !is_static(in.rounding.how))
        scale = scale_of(block_largest(of_all, largest_part), false);
#pragma unroll
    for (int i = 0; i < ONE_VECTORS; i++) {
        const int at = (threadIdx.x + i * E4M3_THREADS) * 8;
        if (at >= in.n_units * UNIT) break;
        if (BY_UNITS) scale = scale_of(largest[i], false);
        unpack_eight(v[i], e, T());
        *(uint4 *)(codes + at) = eight_halves(e, scale);
        if (BY_UNITS && threadIdx.x % 16 == 0) sx[at / UNIT] = scale;
    }
    return scale;
}

/* Adds a unit of a warp's two tiles. */
__device__ __forceinline__ void add_unit_of_one(float y[2][2], const uint8_t *w, const uint8_t *x, float sx) {
    const int lane = threadIdx.x % 32, g = lane / 4;
    float sum[2][2][4] = {}; /* of both chunks: their products do not wait for each other */
#pragma unroll
    for (int c = 0; c < UNIT / SAC_BLOCK_CHUNK; c++) {
        uint4 codes[2][2];
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int of = 0; of < 2; of++)
                codes[i][of] = *(const uint4 *)(w + i * E4M3_TILE_BYTES + (of * 2 + c) * 512 + lane * 16);
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            const uint2 b = *(const uint2 *)(x + 2 * (c * SAC_BLOCK_CHUNK + step * 16));
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint32_t a[4];
                e4m3_pairs(word_of(codes[i][0], step), a[0], a[2]);
                e4m3_pairs(word_of(codes[i][1], step), a[1], a[3]);
                mma<half>(sum[i][c], a[0], a[1], a[2], a[3], b.x, b.y);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float *words = (const float *)(w + i * E4M3_TILE_BYTES + TILE_CODES);
        y[i][0] = fmaf(words[g] * sx, sum[i][0][0] + sum[i][1][0], y[i][0]);
        y[i][1] = fmaf(words[g + 8] * sx, sum[i][0][2] + sum[i][1][2], y[i][1]);
    }
}

/* JOB has tile(pair, i): its parts; finish<T>(pair, row, sums[2]), row < 16. */
template <typename T, typename JOB, bool BY_UNITS>
static __global__ void __launch_bounds__(E4M3_THREADS, 2) one_kernel(const one_input in, const JOB job) {
    extern __shared__ __align__(16) uint8_t shared[];
    __shared__ float part[32], sx[ONE_COLS / UNIT];
    __shared__ uint32_t largest[32];
    __shared__ bool is_last;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4;
    const int begin = (int)((int64_t)blockIdx.x * in.total / gridDim.x),
              end = (int)(((int64_t)blockIdx.x + 1) * in.total / gridDim.x);
    uint8_t *codes = shared + ONE_STAGES * E4M3_W_BYTES;

    /* the next unit to ask for */
    int group = begin / in.n_units, unit = begin - group * in.n_units, asked = begin;
    int ask_group = group, ask_unit = unit;
    block_parts b[2];
    auto find = [&]() {
#pragma unroll
        for (int i = 0; i < 2; i++) b[i] = job.tile(min(ask_group * E4M3_WARPS + warp, in.n_pairs - 1), i);
    };
    find();
    auto ask = [&]() {
        if (asked < end) {
            ask_unit_of_tiles(shared + (asked - begin) % ONE_STAGES * E4M3_W_BYTES, b, ask_unit);
            if (++ask_unit == in.n_units) {
                ask_unit = 0, ask_group++;
                if (asked + 1 < end) find();
            }
        }
        asked++;
        copy_commit();
    };
#pragma unroll 1
    for (int i = 0; i + 1 < ONE_STAGES; i++) ask();
    start_next();
    wait_for_last();
    const float scale = take_codes_of_x<T, BY_UNITS>(in, (half *)codes, sx, part, largest);
    const uint8_t *x = codes + 8 * (lane % 4);
    __syncthreads();

    float y[2][2] = {};
    int first_unit = unit;
    /* Of a group that other blocks have units of: the last one to come has the sums of all. */
    auto join = [&]() -> bool {
        const int first = block_of(group * in.n_units, in.total),
                  last = block_of(group * in.n_units + in.n_units - 1, in.total);
        const int at = warp * 8 + g, each = E4M3_WARPS * 8;
        if (lane % 4 == 0)
            __stcg(in.sums + (2 * blockIdx.x + (first_unit == 0)) * each + at,
                   make_float4(y[0][0], y[0][1], y[1][0], y[1][1]));
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            is_last = atomicAdd(&in.counters[first], 1u) == (unsigned)(last - first);
            if (is_last) in.counters[first] = 0;
            __threadfence();
        }
        __syncthreads();
        if (!is_last) return false;
        float4 sum = make_float4(0, 0, 0, 0);
        for (int of = first; of <= last; of++) {
            const float4 v = __ldcg(in.sums + (2 * of + (of == first)) * each + at);
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        y[0][0] = sum.x, y[0][1] = sum.y, y[1][0] = sum.z, y[1][1] = sum.w;
        return true;
    };

#pragma unroll 1
    for (int at = begin, stage = 0; at < end; at++) {
        copy_wait<ONE_STAGES - 2>();
        __syncwarp(); /* a warp's tiles are its own */
        ask();
        add_unit_of_one(y, shared + stage * E4M3_W_BYTES + warp * (2 * E4M3_TILE_BYTES),
                        x + unit * (2 * UNIT), BY_UNITS ? sx[unit] : 1.0f);
        stage = stage + 1 == ONE_STAGES ? 0 : stage + 1;
        __syncwarp();
        if (++unit < in.n_units && at + 1 < end) continue;
        if ((first_unit == 0 && unit == in.n_units) || join()) {
            const int pair = group * E4M3_WARPS + warp;
            const float of = BY_UNITS ? 1.0f : scale;
            if (lane % 4 == 0 && pair < in.n_pairs)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float sum[2] = {y[0][i] * of, y[1][i] * of};
                    job.template finish<T>(pair, g + 8 * i, sum);
                }
        }
        y[0][0] = y[0][1] = y[1][0] = y[1][1] = 0;
        group++, unit = first_unit = 0;
    }
}

template <typename T, typename JOB>
static sac_status run_one(const sac_stream *s, one_input in, const JOB &job) {
    const int64_t groups = ceil_div(in.n_pairs, E4M3_WARPS);
    in.n_units = (int)ceil_div(in.k, UNIT);
    const int n_bytes = ONE_STAGES * E4M3_W_BYTES + in.n_units * UNIT * 2;
    if (n_bytes > block_shared_bytes(s->device) - 2048 || groups * in.n_units > INT32_MAX / 2 || !groups)
        return SAC_UNSUPPORTED;
    in.total = (int)(groups * in.n_units);
    const int64_t blocks = min_of(in.total, s->device->n_processors);
    size_t room;
    in.sums = (float4 *)scratch_rest(s, &room), in.counters = scratch_counters(s);
    if ((size_t)blocks * 2 * E4M3_WARPS * 8 * sizeof(float4) > room ||
        (size_t)blocks * 4 > SCRATCH_COUNTER_BYTES)
        return SAC_UNSUPPORTED;
    launch_plan p = of_step({dim3((unsigned)blocks), dim3(E4M3_THREADS), (size_t)n_bytes});
    p.shared_limit = ONE_STAGES * E4M3_W_BYTES + ONE_COLS * 2;
    return in.rounding.how == SAC_X_FP8_GROUPS ? launch(s, p, one_kernel<T, JOB, true>, in, job)
                                               : launch(s, p, one_kernel<T, JOB, false>, in, job);
}

static bool takes_one(const sac_stream *s, x_rounding r, int64_t k) {
    if (s->device->no_e4m3 || s->device->no_wide_streams || s->device->compute < 90 || k > ONE_COLS)
        return false;
    return r.how == SAC_X_FP8_GROUPS ? r.group == UNIT
                                     : r.how == SAC_X_FP8_ROWS || (r.how == SAC_X_FP8_STATIC && r.scale != 0);
}

sac_status one_e4m3(const sac_stream *s, const product_job &j) {
    one_input in = {};
    if (j.x.rows != 1 || !takes_one(s, j.rounding, j.x.cols)) return SAC_UNSUPPORTED;
    in.x = j.x.data, in.norm = j.norm, in.eps = j.eps, in.rounding = j.rounding, in.k = (int)j.x.cols;
    const bool is_f16 = j.x.dtype == SAC_DTYPE_F16;
    if (j.gated) {
        in.n_pairs = (int)ceil_div(j.part[0].y.cols, TILE);
        return is_f16 ? run_one<half>(s, in, gate_up_pairs{j}) : run_one<bf16>(s, in, gate_up_pairs{j});
    }
    product_pairs pairs = {j};
    for (int i = 0; i < j.n_parts; i++) {
        pairs.job.part[i].first_block = in.n_pairs;
        in.n_pairs += (int)ceil_div(j.part[i].y.cols, 2 * TILE);
    }
    return is_f16 ? run_one<half>(s, in, pairs) : run_one<bf16>(s, in, pairs);
}

sac_status qkv_one_e4m3(const sac_stream *s, const qkv_product &j) {
    one_input in = {};
    if (!takes_one(s, j.rounding, j.n_cols)) return SAC_UNSUPPORTED;
    in.x = j.x, in.norm = j.norm, in.eps = j.eps, in.rounding = j.rounding, in.k = j.n_cols;
    in.n_pairs = (j.n_heads + 2 * j.n_kv_heads) * (j.head_dim / (2 * TILE));
    return j.x_type == SAC_DTYPE_F16 ? run_one<half>(s, in, qkv_pairs{j})
                                     : run_one<bf16>(s, in, qkv_pairs{j});
}

} // namespace sac::blocks
