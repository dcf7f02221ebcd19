/* group.h - several devices that hold parts of one model, and what they tell each other.
 *
 * A rank is one device's stream. Tensor parallelism (Shoeybi et al., arXiv:1909.08053, section 3) needs two
 * operations: all_reduce after a product whose input was split, all_gather where a result was split. Both go
 * through host memory, piece by piece, so they work for every kind of device; a direct link between cards
 * would take the place of this file behind the same functions.
 *
 * Sums run over the ranks in their order, in f32, and are rounded once, so a result depends neither on timing
 * nor on which rank asks. */
#ifndef SAC_GROUP_H
#define SAC_GROUP_H

#include "device.h"

enum { SAC_GROUP_MAX_RANKS = 16 };

typedef struct sac_group {
    int n_ranks;
    const sac_stream *stream[SAC_GROUP_MAX_RANKS]; /* borrowed; each with a device */
    size_t piece_bytes;                            /* how much of a rank's data travels at a time */
    uint8_t *piece[SAC_GROUP_MAX_RANKS];           /* on the host, of the rank's device, piece_bytes each */
    float *sum;                                    /* [piece_bytes / 2] */
} sac_group;

/* Host memory that sac_group_open takes. */
size_t sac_group_bytes(int n_ranks, size_t piece_bytes);

/* `streams` and their devices outlive the group; piece_bytes is a multiple of 4. On failure the group is
 * zeroed. */
sac_status sac_group_open(sac_group *g, const sac_stream *const *streams, int n_ranks, size_t piece_bytes,
                          sac_error *err);
void sac_group_close(sac_group *g); /* a zeroed group is fine */

/* data[rank][i] becomes the sum over all ranks of data[rank][i], for n elements in F32, F16 or BF16 on the
 * rank's device. Waits for all streams: the sums are in place when it returns. After a failure the data is
 * undefined. */
sac_status sac_group_all_reduce(const sac_group *g, void *const *data, int64_t n, sac_dtype dtype,
                                sac_error *err);

/* to[rank] [n_ranks][n_bytes] becomes part[0], part[1] ... of all ranks; part[rank] may be the place of it in
 * to[rank]. */
sac_status sac_group_all_gather(const sac_group *g, void *const *to, const void *const *part, size_t n_bytes,
                                sac_error *err);

#endif
