/* packed_attention.cu - one query against keys and values in 2, 4 or 8 bits, unpacked on the way.
 *
 * Rows go in tiles of one part. A block has a key-value head, up to eight of its query heads and a run of
 * tiles: it unpacks a tile's keys to shared memory, scores them, keeps a running maximum, unpacks the values
 * and adds them up, a thread a channel. Runs leave their sums in scratch, and a second kernel joins them in
 * order. */
#include "context.cuh"
#include "packed.cuh"

enum { TILE = 32, THREADS = 256, HEADS = 8, MAX_D = 256, MAX_SPLITS = 128 };

typedef struct packed_job {
    packed_parts parts;
    float *o, *scores, *lse, *partial; /* partial [split][head][2 + d]: maximum, sum, mix */
    const float *q, *min_score;
    int64_t stride, n_tiles;
    int n_heads, group, d, n_splits, n_subgroups;
    float scale;
    bool given, weights; /* scores are read; what stands there is exp(score - lse) */
} packed_job;

/* Tile `index` of all parts. */
typedef struct packed_tile {
    int part, n;
    int64_t row, at; /* within the part; within all rows */
} packed_tile;

__device__ __forceinline__ packed_tile tile_at(const packed_job &a, int64_t index) {
    packed_tile t = {0, 0, 0, 0};
    while (t.part < a.parts.n - 1) {
        int64_t n = (a.parts.rows[t.part].n + TILE - 1) / TILE;
        if (index < n) break;
        index -= n;
        t.at += a.parts.rows[t.part++].n;
    }
    t.row = index * TILE;
    t.at += t.row;
    t.n = (int)min((int64_t)TILE, a.parts.rows[t.part].n - t.row);
    return t;
}

static __global__ void __launch_bounds__(THREADS) packed_kernel(packed_job a) {
    __shared__ float q[HEADS][MAX_D], rows[TILE][MAX_D + 1], p[HEADS][TILE], rescale[HEADS], max[HEADS],
        sum[HEADS];
    int split = blockIdx.x, kv_head = blockIdx.y / a.n_subgroups, sub = blockIdx.y % a.n_subgroups;
    int head0 = kv_head * a.group + sub * HEADS, n_heads = min((int)HEADS, a.group - sub * HEADS), d = a.d;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, c = threadIdx.x;
    float acc[HEADS] = {0};
    for (int i = threadIdx.x; i < n_heads * d; i += THREADS) q[i / d][i % d] = a.q[(int64_t)head0 * d + i];
    if (c < HEADS) max[c] = -CUDART_INF_F, sum[c] = 0;
    int64_t from = a.n_tiles * split / a.n_splits, to = a.n_tiles * (split + 1) / a.n_splits;
    for (int64_t index = from; index < to; index++) {
        packed_tile t = tile_at(a, index);
        const sac_packed_rows &part = a.parts.rows[t.part];
        __syncthreads();
        for (int i = threadIdx.x; i < TILE * d && !a.given; i += THREADS) {
            int row = i % TILE, channel = i / TILE;
            rows[row][channel] = row < t.n ? packed_key(part, kv_head, t.row + row, channel) : 0;
        }
        __syncthreads();
        if (warp < n_heads) { /* a warp a head, a lane a row */
            int64_t at = (head0 + warp) * a.stride + t.at + lane;
            bool valid = lane < t.n;
            float s = valid && a.given ? a.scores[at] : 0;
            for (int i = 0; i < d && !a.given; i++) s += q[warp][i] * rows[lane][i];
            if (!a.given) s *= a.scale;
            if (a.scores && !a.given && valid) a.scores[at] = s;
            if (!valid || (a.min_score && s < a.min_score[head0 + warp]))
                s = -CUDART_INF_F;
            else if (a.given && a.weights)
                s = logf(s); /* a weight of 0 counts for nothing */
            float top = fmaxf(s, max[warp]);
#pragma unroll
            for (int i = 16; i > 0; i /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, i));
            float base = top == -CUDART_INF_F ? 0 : top, w = expf(s - base), scale = expf(max[warp] - base);
            p[warp][lane] = w;
            w = warp_sum(w);
            __syncwarp();
            if (lane == 0) {
                sum[warp] = sum[warp] * scale + w;
                max[warp] = top;
                rescale[warp] = scale;
            }
        }
        if (!a.o) continue;
        __syncthreads();
        if (c < d) {
            float value[TILE];
            packed_values<TILE>(part, kv_head, t.row, t.n, c, value);
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                if (h >= n_heads) break;
                acc[h] *= rescale[h];
#pragma unroll
                for (int i = 0; i < TILE; i++) acc[h] += p[h][i] * value[i];
            }
        }
    }
    __syncthreads();
    for (int h = 0; h < HEADS; h++) {
        if (h >= n_heads) break;
        float *out = a.partial + ((int64_t)split * a.n_heads + head0 + h) * (d + 2);
        if (c == 0) out[0] = max[h], out[1] = sum[h];
        if (c < d) out[2 + c] = acc[h];
    }
}

/* A block a head: joins the splits. */
static __global__ void __launch_bounds__(THREADS) packed_join_kernel(packed_job a) {
    int head = blockIdx.x, c = threadIdx.x;
    const float *parts = a.partial + (int64_t)head * (a.d + 2);
    int64_t step = (int64_t)a.n_heads * (a.d + 2);
    float max = -CUDART_INF_F, sum = 0, x = 0;
    for (int i = 0; i < a.n_splits; i++) max = fmaxf(max, parts[i * step]);
    float base = max == -CUDART_INF_F ? 0 : max;
    for (int i = 0; i < a.n_splits; i++) {
        float w = expf(parts[i * step] - base);
        sum += w * parts[i * step + 1];
        if (c < a.d) x += w * parts[i * step + 2 + c];
    }
    if (a.o && c < a.d) a.o[head * a.d + c] = sum > 0 ? x / sum : 0;
    __syncthreads(); /* the first part has been read by all */
    if (c == 0) {
        float lse = sum > 0 ? logf(sum) + max : -CUDART_INF_F;
        if (a.lse) a.lse[head] = lse;
        a.partial[(int64_t)head * (a.d + 2)] = lse; /* for the kernel below */
    }
}

static __global__ void packed_weights_kernel(packed_job a, int64_t n) {
    float lse = a.partial[(int64_t)blockIdx.y * (a.d + 2)];
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float *x = a.scores + blockIdx.y * a.stride + i;
    if (i < n) *x = expf(*x - lse);
}

extern "C" sac_status sac_cuda_packed_attention(const sac_stream *s, const sac_packed_attention_args *a) {
    packed_job j;
    size_t n_bytes;
    int64_t n = 0;
    if (a->n_parts < 1 || a->n_parts > PACKED_MAX_PARTS || a->parts[0].head_dim > MAX_D)
        return SAC_UNSUPPORTED;
    j.n_tiles = 0;
    j.parts.n = a->n_parts;
    for (int i = 0; i < a->n_parts; i++) {
        j.parts.rows[i] = a->parts[i];
        j.n_tiles += ceil_div(a->parts[i].n, TILE);
        n += a->parts[i].n;
    }
    j.o = a->o, j.scores = a->scores, j.lse = a->lse, j.q = a->q, j.min_score = a->min_score;
    j.partial = (float *)scratch_rest(s, &n_bytes);
    j.stride = a->stride, j.n_heads = a->n_heads, j.d = a->parts[0].head_dim, j.scale = a->scale;
    j.given = a->scores && a->o, j.weights = a->weights;
    int n_kv_heads = a->parts[0].n_heads;
    j.group = a->n_heads / n_kv_heads;
    j.n_subgroups = (int)ceil_div(j.group, HEADS);
    int64_t problems = (int64_t)n_kv_heads * j.n_subgroups;
    int64_t splits = min_of(ceil_div(j.n_tiles, 4), ceil_div(4 * s->device->n_processors, problems));
    j.n_splits = (int)max_of(1, min_of(splits, MAX_SPLITS));
    if ((size_t)j.n_splits * (size_t)a->n_heads * (size_t)(j.d + 2) * sizeof(float) > n_bytes ||
        problems > 65535)
        return SAC_UNSUPPORTED;
    packed_kernel<<<dim3((unsigned)j.n_splits, (unsigned)problems), THREADS, 0, cuda_stream(s)>>>(j);
    packed_join_kernel<<<(unsigned)a->n_heads, THREADS, 0, cuda_stream(s)>>>(j);
    if (a->weights && !a->o && n)
        packed_weights_kernel<<<dim3((unsigned)ceil_div(n, 256), (unsigned)a->n_heads), 256, 0,
                                cuda_stream(s)>>>(j, n);
    return launched();
}
