/* bench.h - one row of the table of speeds: a case, what it moves and computes, and its data. */
#ifndef SAC_CHECK_BENCH_H
#define SAC_CHECK_BENCH_H

#include "check.h"

typedef struct bench {
    check_case c;
    const char *shape;
    double flops, bytes; /* of one call; bytes 0: not bound by memory */
    int n_copies;        /* of what is streamed, taken in turn */
    size_t copy_bytes;
    const char *first_copy; /* the streamed tensor, or the keys */
    const char *copy;       /* of packed rows: the one at hand */
} bench;

void *bench_pages(size_t n);
float *bench_floats(bench *b, int64_t n); /* random */
/* Copies of rows x cols weights or keys, more than the caches hold in all when `far`. */
char *bench_copies(bench *b, sac_dtype t, int64_t rows, int64_t cols, bool far);

/* A row of attention over lists, key_scores, attention_sums, kv_gather, top_k or top_p: bench_keys.c says
 * what the numbers are. */
void bench_keys(bench *b, check_op op, const int64_t a[8]);

/* A row of packed_attention (bench_packed.c). */
void bench_packed(bench *b, const int64_t a[8]);
void bench_packed_turn(bench *b, const char *copy);

#endif
