/* cuda_bench.h - one row of the table of speeds: a case whose buffers lie in an arena of random numbers. */
#ifndef SAC_CHECK_CUDA_BENCH_H
#define SAC_CHECK_CUDA_BENCH_H

#include "cuda_twin.h"

#define ARENA_BYTES  ((size_t)12 << 30)
#define SHARED_BYTES ((size_t)32 << 20)
#define FAR_BYTES    ((size_t)512 << 20) /* what one walk covers at least */

typedef struct bench {
    check_case c;
    cuda_twin *w;
    uint8_t *arena;
    size_t span; /* bytes of the arena that one call uses */
    double bytes, flops;
    char shape[64];
    int n_more;         /* ops that follow c in one call, each reading what those before it wrote */
    check_case more[9]; /* no parts, no many */
    const char *name;   /* of such a chain */
} bench;

/* cuda_bench_rows.c: arguments, and the bytes and operations of a call. */
/* A product with weights in blocks of type t, as the device has them. */
void cuda_bench_blocks(bench *b, sac_dtype t, int64_t m, int64_t n, int64_t k);
void cuda_bench_fp8(bench *b, int64_t m, int64_t n, int64_t k, bool by_blocks);
/* What a step of Llama-3.1-8B has besides products, in such blocks; of values in blocks of their own. */
void cuda_bench_qkv_blocks(bench *b, sac_dtype t, sac_dtype of_values, bool interleaved);
void cuda_bench_gate_blocks(bench *b, sac_dtype t);
void cuda_bench_linear(bench *b, int64_t m, int64_t n, int64_t k, sac_activation act, bool bias,
                       bool accumulate);
void cuda_bench_attention(bench *b, int64_t n_batch, int64_t n_q, int64_t n_kv, int heads, int kv_heads,
                          int d, bool causal);
/* Causal, with scores capped at 50. */
void cuda_bench_capped_attention(bench *b, int64_t n_q, int64_t n_kv, int heads, int kv_heads, int d);
void cuda_bench_elementwise(bench *b, check_op op, int64_t rows, int64_t n);
void cuda_bench_scores(bench *b, int64_t n, int n_queries, bool turned); /* keys turned back first */
void cuda_bench_vote(bench *b, check_op op, int groups, int64_t n);      /* softmax, soft_vote */
void cuda_bench_sums(bench *b, int64_t n, int64_t n_q, int n_sums);
void cuda_bench_gather(bench *b, int64_t n, int64_t every, int n_lists);
void cuda_bench_listed_attention(bench *b, int64_t n, int64_t every, int n_lists);
void cuda_bench_choice(bench *b, check_op op, int rows, int64_t n, int64_t k); /* top_p: k < 0 of scores */
void cuda_bench_largest(bench *b, int rows, int64_t n);
void cuda_bench_weights(bench *b, int rows, int64_t n);
void cuda_bench_edits(bench *b, int rows, int64_t n);
void cuda_bench_pages(bench *b, check_op op, int64_t n_keys); /* page_bounds, page_scores: 16 keys a page */
void cuda_bench_channel_sums(bench *b, int64_t n);
void cuda_bench_labels(bench *b, int64_t n);
void cuda_bench_qkv_step(bench *b);
void cuda_bench_gate_up_step(bench *b, int64_t rows);
void cuda_bench_even_step(bench *b, int64_t n); /* n rows, keys in 4 bits and values in 2 */
void cuda_bench_pack_even(bench *b, int64_t n, bool factors);
void cuda_bench_packed_step(bench *b, int64_t n); /* 42 % of n rows in 4 bits, the others in 2 */
/* n sequences of so many rows. */
void cuda_bench_attention_many(bench *b, int n, int64_t rows);
void cuda_bench_packed_step_many(bench *b, int n, int64_t rows);
void cuda_bench_pack_rows(bench *b, int64_t n);
void cuda_bench_pack_keys(bench *b, int64_t n, int64_t n_new);        /* the last n_new of n */
void cuda_bench_packed_scores(bench *b, int64_t n, int64_t n_listed); /* 0: all */
void cuda_bench_packed_vote(bench *b, int64_t n);
void cuda_bench_kept_rows(bench *b, int64_t n, int n_lists);
void cuda_bench_selection(bench *b, int64_t n, int64_t k, int bits, bool listed); /* cuda_bench_chain.c */
/* Sixteen chunks of a prompt whose last token is the n-th; a layer's keys turned back. */
void cuda_bench_prefill_selection(bench *b, int64_t n);
void cuda_bench_unturn(bench *b, int64_t n);
/* A layer's step over one row, or without attention over several; up to STEP_FUSED_ROWS, or STEP_E4M3_ROWS of FP8 as plain
 * rows, norm, gate and up are one op; `out_in_one`: so are they with the products either side (cuda_bench_step.c). */
typedef enum bench_weights { STEP_BF16, STEP_FP8, STEP_FP8_BLOCKS } bench_weights;
enum { STEP_FUSED_ROWS = 8, STEP_E4M3_ROWS = 64 };
void cuda_bench_step(bench *b, bench_weights of, int64_t rows, bool out_in_one);
void cuda_bench_patchify(bench *b, int64_t n_tiles);

#endif
