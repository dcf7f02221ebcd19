/* attention_many.cu - the kernels of attention_many.cuh for heads of up to 128 channels, and which of all is taken. */
#include "attention_many.cuh"

namespace sac::attention::decode {

/* One query over all rows of its cache or over lists of them, as a step asks. */
static bool is_step(const sac_attention_args *a) {
    bool all = !a->lists && a->n_kv >= 1 && (a->causal ? a->first >= 0 && a->first < a->n_kv : !a->window);
    bool listed = a->lists && !a->uneven && !a->list_block && a->n_kv >= 1 &&
                  (a->lists->n_lists == 1 || a->lists->n_lists == a->kv.n_heads);
    return a->n_q == 1 && a->n_batch == 1 && !a->kv.pages && !a->lse && !a->n_spans && (all || listed) &&
           attention_is_half(a) && attention_fits_int(a);
}
static bool is_alike(const sac_attention_args *a, const sac_attention_args *b) {
    return a->n_heads == b->n_heads && a->kv.n_heads == b->kv.n_heads && a->kv.dtype == b->kv.dtype &&
           a->kv.head_dim == b->kv.head_dim && a->scale == b->scale && a->softcap == b->softcap &&
           a->window == b->window && a->causal == b->causal;
}

template <typename T>
static sac_status launch_type(const sac_stream *s, const sac_attention_args *each, int n, bool do_it) {
    int d = each->kv.head_dim;
    if (d <= 64) return run_many<T, 64, 4>(s, each, n, do_it);
    if (d <= 80) return run_many<T, 80, 3>(s, each, n, do_it);
    if (d <= 96) return run_many<T, 96, 3>(s, each, n, do_it);
    return run_many<T, 128, 3>(s, each, n, do_it);
}

static sac_status launch_any(const sac_stream *s, const sac_attention_args *each, int n, bool do_it) {
    if (each->softcap > 0) return run_many_capped(s, each, n, do_it);
    if (each->kv.head_dim > 128) return run_many_wide(s, each, n, do_it);
    return each->kv.dtype == SAC_DTYPE_F16 ? launch_type<half>(s, each, n, do_it)
                                           : launch_type<bf16>(s, each, n, do_it);
}

extern "C" sac_status sac_cuda_attention_many(const sac_stream *s, const sac_attention_many_args *a) {
    for (int i = 0; i < a->n; i++)
        if (!is_step(&a->each[i]) || !is_alike(&a->each[0], &a->each[i])) return SAC_UNSUPPORTED;
    for (int do_it = a->n <= MANY; do_it < 2; do_it++) /* nothing is started before all is found to fit */
        for (int i = 0; i < a->n; i += MANY) {
            int n = (int)min_of(a->n - i, MANY);
            SAC_TRY(launch_any(s, a->each + i, n, do_it));
        }
    return SAC_OK;
}

} // namespace sac::attention::decode
