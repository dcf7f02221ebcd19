#include "cpu/cpu.h"
#include "cpu_flags.h"
#include "ref/ref.h"
#ifdef SAC_CUDA
#include "cuda/cuda_ops.h"
#endif

static size_t no_scratch(int64_t m, int64_t k) {
    (void)m;
    (void)k;
    return 0;
}

void sac_ops_init_ref(sac_ops *t) {
    *t = (sac_ops){.backend = "ref",
                   .linear_scratch_bytes = no_scratch,
#define X(op) .op = sac_ref_##op,
                   SAC_OPS(X)
#undef X
    };
}

/* Every level overwrites the slots that it does better than the one before. */
void sac_ops_init_cpu(sac_ops *t, unsigned cpu_flags) {
    sac_ops_init_ref(t);
    t->backend = "cpu";
    t->linear = sac_linear_find(cpu_flags);
    t->linear_group = sac_linear_group_find(cpu_flags);
    t->expert_linear = sac_expert_linear_find(cpu_flags);
    t->linear_scratch_bytes = sac_linear_scratch_find(cpu_flags);
    t->packed_attention = sac_packed_attention_find(cpu_flags);
    t->packed_scores = sac_packed_scores_find(cpu_flags);
    t->embed = sac_cpu_embed;
    t->largest = sac_cpu_largest;
    t->weigh_scores = sac_cpu_weigh_scores;
    t->patchify = sac_cpu_patchify;
    t->gather_rows = sac_cpu_gather_rows;
    t->scatter_rows = sac_cpu_scatter_rows;
    t->mix_rows = sac_cpu_mix_rows;
    t->choice_rows = sac_cpu_choice_rows;
    t->pattern_rows = sac_cpu_pattern_rows;
    t->cover_blocks = sac_cpu_cover_blocks;
    t->pick_channels = sac_cpu_pick_channels;
    t->join_attention = sac_cpu_join_attention;
    t->even_factors = sac_cpu_even_factors;
    t->pack_even = sac_cpu_pack_even;
    t->unpack_even = sac_cpu_unpack_even;
#if defined(__x86_64__)
    if (cpu_flags & SAC_CPU_AVX2) sac_ops_set_avx2(t);
    if (cpu_flags & SAC_CPU_AVX512) sac_ops_set_avx512(t);
#endif
}

#ifdef SAC_CUDA
void sac_ops_init_cuda(sac_ops *t, int compute) {
    (void)compute; /* kernels choose by what the card says of itself */
    *t = (sac_ops){.backend = "cuda",
                   .fuses = true,
                   .linear_scratch_bytes = no_scratch,
#define X(op) .op = sac_cuda_##op,
                   SAC_OPS(X)
#undef X
    };
}
#endif

const sac_ops_traits *sac_ops_traits_of(const sac_device *d) {
    static const sac_ops_traits cpu = {.queries_at_once = 256,
                                       .chunks_at_once = 1,
                                       .query_step = 1,
                                       .pattern_rows_max = (int64_t)SAC_THREAD_SCRATCH_BYTES * 8,
                                       .shares_sums = true};
#define OF_CUDA                                                                                              \
    .queries_at_once = 2048, .chunks_at_once = 16, .query_step = 1024,                                       \
    .pattern_rows_max = SAC_PATTERN_ROWS_MAX, .shares_lists = true, .reads_apart = true
    static const sac_ops_traits cuda = {OF_CUDA}, hopper = {OF_CUDA, .reads_blocks = true};
#undef OF_CUDA
    if (!d || d->kind == SAC_DEVICE_CPU) return &cpu;
    return d->compute == 90 ? &hopper : &cuda;
}

size_t sac_ops_scratch_bytes(const sac_device *d) {
#ifdef SAC_CUDA
    if (d->kind == SAC_DEVICE_CUDA) return SAC_CUDA_SCRATCH_BYTES;
#endif
    (void)d;
    return 0;
}

sac_status sac_ops_check(const sac_device *d, sac_error *err) {
#ifdef SAC_CUDA
    if (d && d->kind == SAC_DEVICE_CUDA) return sac_cuda_ops_check(err);
#else
    (void)d, (void)err;
#endif
    return SAC_OK;
}

sac_status sac_ops_open(sac_ops *t, sac_stream *s, sac_error *err) {
    if (!s->device || s->device->kind == SAC_DEVICE_CPU) {
        sac_ops_init_cpu(t, sac_cpu_flags());
        return SAC_OK;
    }
#ifdef SAC_CUDA
    sac_ops_init_cuda(t, s->device->compute);
    return sac_cuda_ops_open(s, err);
#else
    return sac_fail(err, SAC_UNSUPPORTED, "this build has no CUDA ops");
#endif
}

void sac_ops_close(sac_stream *s) {
#ifdef SAC_CUDA
    if (s->device && s->device->kind == SAC_DEVICE_CUDA) sac_cuda_ops_close(s);
#else
    (void)s;
#endif
}
