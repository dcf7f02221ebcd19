/* cpu.h - what the files of kernels/cpu share: entry points of each instruction set and how work is split. */
#ifndef SAC_CPU_H
#define SAC_CPU_H

#include "ops.h"
#include "weights/linear_quant.h"

/* Fills the slots of one instruction set. */
void sac_ops_set_avx2(sac_ops *t);
void sac_ops_set_avx512(sac_ops *t);

/* linear for these flags, quantised weights included. */
sac_linear_fn sac_linear_find(unsigned cpu_flags);
typedef sac_status (*sac_linear_group_fn)(const sac_stream *, const sac_linear_group_args *);
sac_linear_group_fn sac_linear_group_find(unsigned cpu_flags);
typedef sac_status (*sac_expert_linear_fn)(const sac_stream *, const sac_expert_linear_args *);
sac_expert_linear_fn sac_expert_linear_find(unsigned cpu_flags);
typedef size_t (*sac_linear_scratch_fn)(int64_t m, int64_t k);
sac_linear_scratch_fn sac_linear_scratch_find(unsigned cpu_flags);

/* packed_attention and packed_scores for these flags. */
typedef sac_status (*sac_packed_attention_fn)(const sac_stream *s, const sac_packed_attention_args *a);
sac_packed_attention_fn sac_packed_attention_find(unsigned cpu_flags);
typedef sac_status (*sac_packed_scores_fn)(const sac_stream *s, const sac_packed_scores_args *a);
sac_packed_scores_fn sac_packed_scores_find(unsigned cpu_flags);

/* F32, F16 and BF16 weights. */
sac_status sac_linear_float_avx2(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_float_avx512(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_float_amx(const sac_stream *s, const sac_linear_args *a);
size_t sac_linear_float_amx_scratch_bytes(int64_t m, int64_t k);

sac_status sac_attention_avx2(const sac_stream *s, const sac_attention_args *a);
sac_status sac_attention_avx512(const sac_stream *s, const sac_attention_args *a);
sac_status sac_attention_many_avx2(const sac_stream *s, const sac_attention_many_args *a);
sac_status sac_attention_many_avx512(const sac_stream *s, const sac_attention_many_args *a);
sac_status sac_attention_sums_avx2(const sac_stream *s, const sac_attention_sums_args *a);
sac_status sac_attention_sums_avx512(const sac_stream *s, const sac_attention_sums_args *a);

/* Plain C over the pool: memory moves and table look-ups, which no instruction set speeds up. */
sac_status sac_cpu_embed(const sac_stream *s, const sac_embed_args *a);
sac_status sac_cpu_patchify(const sac_stream *s, const sac_patchify_args *a);
sac_status sac_cpu_even_factors(const sac_stream *s, const sac_even_factors_args *a);
sac_status sac_cpu_pack_even(const sac_stream *s, const sac_pack_even_args *a);
sac_status sac_cpu_unpack_even(const sac_stream *s, const sac_unpack_even_args *a);
sac_status sac_cpu_gather_rows(const sac_stream *s, const sac_gather_rows_args *a);
sac_status sac_cpu_scatter_rows(const sac_stream *s, const sac_scatter_rows_args *a);
sac_status sac_cpu_choice_rows(const sac_stream *s, const sac_choice_rows_args *a);
sac_status sac_cpu_cover_blocks(const sac_stream *s, const sac_cover_blocks_args *a);
sac_status sac_cpu_pattern_rows(const sac_stream *s, const sac_pattern_rows_args *a);
sac_status sac_cpu_mix_rows(const sac_stream *s, const sac_mix_rows_args *a);
sac_status sac_cpu_pick_channels(const sac_stream *s, const sac_pick_channels_args *a);
sac_status sac_cpu_join_attention(const sac_stream *s, const sac_join_attention_args *a);
sac_status sac_cpu_largest(const sac_stream *s, const sac_largest_args *a);
sac_status sac_cpu_weigh_scores(const sac_stream *s, const sac_weigh_scores_args *a);

/* Starting the pool costs some microseconds, so a row op wakes it only for more than a few of these. A task
 * is about as many bytes of memory traffic (or as much arithmetic as moving them costs). */
#define SAC_TASK_BYTES ((int64_t)64 << 10)

/* fn over rows [first, end) */
typedef void (*sac_rows_fn)(const void *args, int64_t first, int64_t end);

/* Calls fn for all rows, on the caller alone when they are few. */
void sac_for_rows(const sac_stream *s, int64_t n_rows, int64_t row_bytes, sac_rows_fn fn, const void *args);

static inline int64_t sac_min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t sac_max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static inline int64_t sac_div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

#endif
