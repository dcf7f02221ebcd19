/* attention_any.cu - attention of any types, strides and head sizes: for parity, and for what the fast
 * kernels refuse. Slow. A block has one query and head, and takes 128 keys at a time. Everything is in
 * f32. */
#include "attention.cuh"

namespace sac::attention {

enum { KEYS = 128 };

static __device__ __forceinline__ float plain_score(const attention_job &, float product, float scale) {
    return product * scale;
}
static __device__ __forceinline__ float plain_score(const capped_job &a, float product, float scale) {
    const float cap = a.cap_log2 * LN_2;
    return cap * tanhf(product * scale / cap);
}

/* Shared: q[d], sums[d]. Thread i scores key i of a tile, then mixes channels i, i + KEYS, ... */
template <typename T, typename JOB>
static __global__ void attention_any_kernel(JOB a, sac_dtype q_type, sac_dtype o_type) {
    extern __shared__ float shared[];
    __shared__ float part[32], weight[KEYS];
    float *q = shared, *acc = shared + a.d;
    int64_t query = blockIdx.x, batch = blockIdx.z;
    int head = blockIdx.y, problem = head / (a.n_heads / a.n_problems);
    attention_keys keys = keys_of(a, problem, query);
    int64_t head_at = (int64_t)(head / a.heads_per_kv) * a.k_head, base = batch * a.batch_rows,
            kv_base = batch * a.kv_batch_rows;
    const T *k = (const T *)a.k + head_at, *v = (const T *)a.v + head_at;
    for (int c = threadIdx.x; c < a.d; c += KEYS) {
        q[c] = load_any(q_type, a.q, (base + query) * a.q_stride + (int64_t)head * a.d + c);
        acc[c] = 0;
    }
    __syncthreads();
    float max = -CUDART_INF_F, sum = 0, scale = a.scale_log2 * LN_2;
    for (int64_t j0 = keys.begin; j0 < keys.end; j0 += KEYS) {
        int64_t j = j0 + threadIdx.x, row = j < keys.end ? key_row(keys, j) : -1;
        bool seen = row >= 0 && (!a.causal || row <= a.first + query) &&
                    (a.window == 0 || row > a.first + query - a.window);
        float score = -CUDART_INF_F;
        if (seen) {
            const T *kr = k + (kv_base + row) * a.k_row;
            score = 0;
            for (int c = 0; c < a.d; c++) score += q[c] * to_f32(kr[c]);
            score = plain_score(a, score, scale);
        }
        float new_max = fmaxf(max, block_max_of<KEYS / 32>(score, part));
        if (new_max == -CUDART_INF_F) continue; /* the same for the whole block */
        float rescale = expf(max - new_max), p = seen ? expf(score - new_max) : 0.0f;
        weight[threadIdx.x] = p;
        sum = sum * rescale + block_sum(p, part); /* its barriers also publish the weights */
        max = new_max;
        int n = (int)min((int64_t)KEYS, keys.end - j0);
        __syncthreads();
        for (int c = threadIdx.x; c < a.d; c += KEYS) {
            float x = acc[c] * rescale;
            for (int i = 0; i < n; i++)
                if (weight[i] > 0)
                    x += weight[i] * to_f32(v[(kv_base + key_row(keys, j0 + i)) * a.k_row + c]);
            acc[c] = x;
        }
        __syncthreads();
    }
    for (int c = threadIdx.x; c < a.d; c += KEYS)
        store_any(o_type, a.o, (base + query) * a.o_stride + (int64_t)head * a.d + c,
                  sum > 0 ? acc[c] / sum : 0.0f);
    if (a.lse && threadIdx.x == 0)
        a.lse[query * a.n_heads + head] = sum > 0 ? logf(sum) + max : -CUDART_INF_F;
}

template <typename JOB> static sac_status run_plain(const sac_stream *s, const sac_attention_args *a) {
    const JOB j = attention_job_of<JOB>(a);
    dim3 grid((unsigned)a->n_q, (unsigned)a->n_heads, (unsigned)a->n_batch);
    size_t shared = 2 * (size_t)a->kv.head_dim * sizeof(float);
    BY_DTYPE(a->kv.dtype,
             return launch(s, {grid, KEYS, shared}, attention_any_kernel<T, JOB>, j, a->q.dtype, a->o.dtype));
    return SAC_OK;
}

extern "C" sac_status sac_cuda_attention_any(const sac_stream *s, const sac_attention_args *a) {
    if (a->segment_start || !is_float(a->q.dtype) || !is_float(a->o.dtype) || a->kv.head_dim > 4096 || a->n_batch > 65535)
        return SAC_UNSUPPORTED;
    if (a->n_q == 0) return SAC_OK;
    return a->softcap > 0 ? run_plain<capped_job>(s, a) : run_plain<attention_job>(s, a);
}

} // namespace sac::attention
