/* attention_hopper.cu - the host's side of attention_hopper.cuh: where tensors lie, how the grid is cut. */
#include "attention_hopper.cuh"
#include "tensor_map.cuh"

namespace sac::attention::hopper {

template <typename T, int KEYS>
static sac_status launch_hopper(const sac_stream *s, const sac_attention_args *a, hopper_job *j) {
    encode_map encode = find_encode_map();
    const sac_kv_view *kv = &a->kv;
    const int64_t batch = a->n_batch > 1 ? a->batch_rows : 0,
                  kv_batch = a->kv_batch_rows ? a->kv_batch_rows : batch;
    if (!encode ||
        !make_map(encode, &j->q, a->q.dtype, a->q.data, D, j->n_q, a->q.stride, j->n_heads, D, a->n_batch,
                  batch * a->q.stride, QUERIES) ||
        !make_map(encode, &j->k, kv->dtype, kv->k, D, j->n_kv, kv->row_stride, kv->n_heads, kv->head_stride,
                  a->n_batch, kv_batch * kv->row_stride, KEYS) ||
        !make_map(encode, &j->v, kv->dtype, kv->v, D, j->n_kv, kv->row_stride, kv->n_heads, kv->head_stride,
                  a->n_batch, kv_batch * kv->row_stride, KEYS))
        return SAC_UNSUPPORTED;
    const int n_bytes = (int)sizeof(hopper_shared<KEYS>) + 1024;
    auto kernel = hopper_kernel<T, KEYS, false>;
    bool is_built;
    SAC_TRY(is_built_for_hopper(kernel, &is_built));
    if (!is_built) return SAC_UNSUPPORTED;
    return launch(s,
                  {(unsigned)min_of(s->device->n_processors, j->n_tiles), THREADS, (size_t)n_bytes, n_bytes},
                  kernel, *j);
}

static sac_status prepare_hopper(const sac_stream *s, const sac_attention_args *a, hopper_job *to) {
    const sac_kv_view *kv = &a->kv;
    if (a->segment_start || a->softcap > 0 || !attention_is_half(a) || !attention_fits_int(a) || a->lists || a->window ||
        !tuning_of(s->device).has_wgmma)
        return SAC_UNSUPPORTED;
    if (kv->head_dim != D || a->first < 0 || a->n_q < 1 || a->n_kv < 1 || !(a->scale > 0))
        return SAC_UNSUPPORTED;
    hopper_job j = {};
    j.o = a->o.data, j.o_stride = a->o.stride, j.o_batch = a->n_batch > 1 ? a->batch_rows * a->o.stride : 0;
    j.lse = a->lse;
    j.n_q = (int)a->n_q, j.first = (int)a->first, j.causal = a->causal;
    j.n_kv = (int)(a->causal ? min_of(a->n_kv, a->first + a->n_q) : a->n_kv);
    j.n_heads = a->n_heads, j.group = a->n_heads / kv->n_heads;
    j.n_blocks = (int)ceil_div(a->n_q, QUERIES);
    const int64_t n_tiles = j.n_blocks * a->n_heads * a->n_batch, head_bytes = (int64_t)j.n_kv * D * 4;
    if (n_tiles > INT32_MAX / 2 || j.n_kv > INT32_MAX / 2 - 1024) return SAC_UNSUPPORTED;
    j.n_tiles = (int)n_tiles;
    j.section = (int)min_of(n_tiles / j.n_blocks, max_of(1, HOPPER_L2_BYTES / head_bytes) * j.group);
    j.scale_log2 = a->scale * LOG2_E;
    j.drawn = scratch_counters(s), j.through = j.drawn + 1;
    *to = j;
    return SAC_OK;
}

template <int KEYS> static sac_status run_hopper(const sac_stream *s, const sac_attention_args *a) {
    hopper_job j;
    SAC_TRY(prepare_hopper(s, a, &j));
    return a->kv.dtype == SAC_DTYPE_F16 ? launch_hopper<half, KEYS>(s, a, &j)
                                        : launch_hopper<bf16, KEYS>(s, a, &j);
}

extern "C" sac_status sac_cuda_attention_hopper(const sac_stream *s, const sac_attention_args *a) {
    return a->n_kv < LONG_KEYS ? run_hopper<128>(s, a) : run_hopper<176>(s, a);
}
extern "C" sac_status sac_cuda_attention_hopper_long(const sac_stream *s, const sac_attention_args *a) {
    return run_hopper<176>(s, a);
}

} // namespace sac::attention::hopper
