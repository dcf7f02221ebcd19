/* attention_spread.cu - a few queries over many keys on Hopper: drafted rows of a step that are verified, a second question about a long
 * text. Too many rows for the split kernel, which reads all keys for every 16 of them, and too few for tiles of queries to fill the card.
 *
 * Rows of a key-value head (queries times the heads of its group) are laid side by side and go through the kernel of attention_hopper.cuh,
 * 128 at a time. Keys that all of them see are cut into parts of the same length, each of which is a problem of its own with the same
 * queries. What is left, a part's rest and the keys on the diagonal, goes through attention_decode or attention_flash. All are joined by the
 * sums of their weights (Flash-Decoding). Parts are kept in f32. */
#include "attention_hopper.cuh"
#include "tensor_map.cuh"

namespace sac::attention::spread {

using hopper::D;

enum { KEYS = 176, LEAST_KEYS = 2 * KEYS, MOST_PARTS = 64, LANES = D / 8 };

/* Buffers in scratch, and what the kernels below read. */
typedef struct spread_job {
    void *o;            /* [n_q][n_heads * D], the output */
    const void *q;      /* likewise */
    float *lse;         /* [n_q][n_heads], or NULL */
    int64_t o_stride, q_stride;
    void *packed;       /* [n_q * group][n_kv_heads * D] */
    float *parts;       /* [n_parts][n_q * group][n_kv_heads * D] */
    float *part_lse;    /* [n_parts][n_q * group][n_kv_heads] */
    void *rest;         /* [n_q][n_heads * D] */
    float *rest_lse;    /* [n_q][n_heads] */
    int n_parts, n_q, n_heads, n_kv_heads, group;
} spread_job;

/* Eight channels a thread. */
static __global__ void pack_kernel(spread_job a) {
    start_next();
    wait_for_last();
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, head = i / (D / 8), query = head / a.n_heads;
    if (query >= a.n_q) return;
    const int h = (int)(head % a.n_heads), c = (int)(i % (D / 8)) * 8, kv = h / a.group, g = h % a.group;
    const uint4 x = *(const uint4 *)((const uint16_t *)a.q + query * a.q_stride + h * D + c);
    *(uint4 *)((uint16_t *)a.packed + ((query * a.group + g) * a.n_kv_heads + kv) * D + c) = x;
}

/* Half a warp has a query's head, a lane eight of its channels. */
template <typename T> static __global__ void join_kernel(spread_job a) {
    start_next();
    wait_for_last();
    const int64_t head = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / LANES, query = head / a.n_heads;
    if (query >= a.n_q) return;
    const int lane = threadIdx.x % LANES, h = (int)(head % a.n_heads), c = lane * 8;
    const int64_t row = (query * a.group + h % a.group) * a.n_kv_heads + h / a.group,
                  rows = (int64_t)a.n_q * a.group * a.n_kv_heads;
    float max = a.rest_lse[head], x[8], sum;
    for (int p = 0; p < a.n_parts; p++) max = fmaxf(max, a.part_lse[p * rows + row]);
    load<8>(x, (const T *)a.rest + head * D + c);
    sum = expf(a.rest_lse[head] - max);
#pragma unroll
    for (int k = 0; k < 8; k++) x[k] *= sum;
    for (int p = 0; p < a.n_parts; p++) {
        const float w = expf(a.part_lse[p * rows + row] - max);
        const float4 *y = (const float4 *)(a.parts + (p * rows + row) * D + c), y0 = y[0], y1 = y[1];
        x[0] += w * y0.x, x[1] += w * y0.y, x[2] += w * y0.z, x[3] += w * y0.w;
        x[4] += w * y1.x, x[5] += w * y1.y, x[6] += w * y1.z, x[7] += w * y1.w;
        sum += w;
    }
#pragma unroll
    for (int k = 0; k < 8; k++) x[k] /= sum;
    if (a.lse && lane == 0) a.lse[head] = max + logf(sum);
    store<8>((T *)a.o + query * a.o_stride + h * D + c, x);
}

/* From the end of the scratch; what is left is the kernels' of few keys. */
static void *cut(sac_stream *s, size_t n_bytes) {
    n_bytes = (n_bytes + 255) / 256 * 256;
    if (s->shared_scratch_bytes < n_bytes + (SAC_CUDA_SCRATCH_BYTES >> 2)) return NULL;
    s->shared_scratch_bytes = (s->shared_scratch_bytes - n_bytes) / 256 * 256;
    return s->shared_scratch + s->shared_scratch_bytes;
}

static bool take(sac_stream *rest, spread_job *j) {
    const size_t rows = (size_t)j->n_q * (size_t)j->n_heads, parts = (size_t)j->n_parts;
    return (j->packed = cut(rest, rows * D * 2)) && (j->rest = cut(rest, rows * D * 2)) &&
           (j->rest_lse = (float *)cut(rest, rows * 4)) && (j->part_lse = (float *)cut(rest, parts * rows * 4)) &&
           (j->parts = (float *)cut(rest, parts * rows * D * 4));
}

template <typename T>
static sac_status launch_parts(const sac_stream *s, const sac_attention_args *a, const spread_job &j, int64_t keys) {
    const sac_kv_view *kv = &a->kv;
    const int64_t rows = (int64_t)j.n_q * j.group, row = (int64_t)j.n_kv_heads * D;
    const encode_map encode = find_encode_map();
    hopper::hopper_job h = {};
    if (!encode ||
        !make_map(encode, &h.q, a->q.dtype, j.packed, D, rows, row, j.n_kv_heads, D, 1, 0, hopper::QUERIES) ||
        !make_map(encode, &h.k, kv->dtype, kv->k, D, keys, kv->row_stride, j.n_kv_heads, kv->head_stride, j.n_parts,
                  keys * kv->row_stride, KEYS) ||
        !make_map(encode, &h.v, kv->dtype, kv->v, D, keys, kv->row_stride, j.n_kv_heads, kv->head_stride, j.n_parts,
                  keys * kv->row_stride, KEYS))
        return SAC_UNSUPPORTED;
    h.o = j.parts, h.o_stride = row, h.o_batch = rows * row;
    h.lse = j.part_lse, h.lse_batch = rows * j.n_kv_heads;
    h.same_queries = h.in_floats = true;
    h.n_q = (int)rows, h.n_kv = (int)keys;
    h.n_heads = j.n_kv_heads, h.group = 1;
    h.n_blocks = (int)ceil_div(rows, hopper::QUERIES);
    h.n_tiles = h.n_blocks * j.n_kv_heads * j.n_parts;
    h.section = j.n_kv_heads * j.n_parts;
    h.scale_log2 = a->scale * LOG2_E;
    h.drawn = scratch_counters(s), h.through = h.drawn + 1;
    const int n_bytes = (int)sizeof(hopper::hopper_shared<KEYS>) + 1024;
    return launch(s, {(unsigned)min_of(s->device->n_processors, h.n_tiles), hopper::THREADS, (size_t)n_bytes, n_bytes},
                  hopper::hopper_kernel<T, KEYS, false>, h);
}

/* Keys from `far` on. */
static sac_status attend_rest(const sac_stream *s, const sac_attention_args *a, const spread_job &j, int64_t far) {
    sac_attention_args b = *a;
    const int64_t bytes = far * a->kv.row_stride * 2, cols = (int64_t)j.n_heads * D;
    b.o = sac_mat{j.rest, j.n_q, cols, cols, a->o.dtype};
    b.lse = j.rest_lse;
    b.kv.k = (uint8_t *)a->kv.k + bytes, b.kv.v = (uint8_t *)a->kv.v + bytes;
    b.kv.n_rows -= far, b.n_kv -= far, b.first -= far;
    const bool few = (int64_t)j.n_q * j.group <= FEW_ROWS;
    const sac_status st = few ? sac_cuda_attention_decode(s, &b) : SAC_UNSUPPORTED;
    return st == SAC_UNSUPPORTED ? sac_cuda_attention_flash(s, &b) : st;
}

template <typename T> static sac_status run(const sac_stream *s, const sac_attention_args *a, spread_job j, int64_t keys) {
    sac_stream rest = *s;
    bool is_built;
    SAC_TRY(is_built_for_hopper(hopper::hopper_kernel<T, KEYS, false>, &is_built));
    if (!is_built || !take(&rest, &j)) return SAC_UNSUPPORTED;
    const int64_t heads = (int64_t)j.n_q * j.n_heads;
    SAC_TRY(launch(s, early({(unsigned)ceil_div(heads * (D / 8), 256), 256}), pack_kernel, j));
    SAC_TRY(attend_rest(&rest, a, j, keys * j.n_parts));
    SAC_TRY(launch_parts<T>(&rest, a, j, keys));
    return launch(s, early({(unsigned)ceil_div(heads * LANES, 256), 256}), join_kernel<T>, j);
}

extern "C" sac_status sac_cuda_attention_spread(const sac_stream *s, const sac_attention_args *a) {
    const sac_kv_view *kv = &a->kv;
    if (a->segment_start || a->n_spans || a->softcap > 0 || a->lists || a->window || kv->pages || a->n_batch != 1 ||
        !attention_is_half(a) || !attention_fits_int(a) || !tuning_of(s->device).has_wgmma)
        return SAC_UNSUPPORTED;
    const int group = a->n_heads / kv->n_heads;
    const int64_t rows = a->n_q * group, blocks = ceil_div(rows, hopper::QUERIES) * kv->n_heads,
                  n_kv = a->n_kv, seen = a->first + 1; /* keys that all queries see */
    if (kv->head_dim != D || !a->causal || a->first < 0 || a->n_q < 1 || n_kv < a->first + a->n_q || rows > 1 << 20 || !(a->scale > 0))
        return SAC_UNSUPPORTED;
    const int64_t parts = min_of(MOST_PARTS, min_of(s->device->n_processors / blocks, (seen - 1) / LEAST_KEYS));
    if (parts < 2) return SAC_UNSUPPORTED;
    spread_job j = {};
    j.o = a->o.data, j.q = a->q.data, j.lse = a->lse, j.o_stride = a->o.stride, j.q_stride = a->q.stride;
    j.n_parts = (int)parts, j.n_q = (int)a->n_q, j.n_heads = a->n_heads, j.n_kv_heads = kv->n_heads, j.group = group;
    return kv->dtype == SAC_DTYPE_F16 ? run<half>(s, a, j, (seen - 1) / parts) : run<bf16>(s, a, j, (seen - 1) / parts);
}

} // namespace sac::attention::spread
