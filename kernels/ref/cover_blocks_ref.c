#include "ref.h"

#include <string.h>

/* Of n sums the largest that is not chosen yet, the first of equal ones; -1 where all are. */
static int64_t next_best(const float *sums, int64_t n, const uint8_t *chosen) {
    int64_t best = -1;
    for (int64_t j = 0; j < n; j++)
        if (!chosen[j] && (best < 0 || sac_cover_parts(sums[j]) > sac_cover_parts(sums[best]))) best = j;
    return best;
}

/* One list: n blocks of keys, of which those from `own` on are the queries' own. */
static void cover(const sac_cover_blocks_args *a, const float *sums, int64_t n, int64_t own, uint8_t *chosen,
                  int32_t *columns) {
    int64_t total = 0, held = 0, at = 0;
    for (int64_t j = 0; j < n; j++) {
        chosen[j] = j < a->n_first || j > own - a->n_local;
        total += sac_cover_parts(sums[j]);
        if (chosen[j]) held += sac_cover_parts(sums[j]);
    }
    while ((double)held < a->cover * (double)total) {
        int64_t j = next_best(sums, n, chosen);
        if (j < 0) break;
        chosen[j] = 1;
        held += sac_cover_parts(sums[j]);
    }
    for (int64_t j = 0; j < n; j++)
        if (chosen[j]) columns[at++] = (int32_t)j;
    while (at < a->stride) columns[at++] = -1;
}

sac_status sac_ref_cover_blocks(const sac_stream *s, const sac_cover_blocks_args *a) {
    uint8_t *chosen = sac_stream_thread_scratch(s, 0);
    assert(a->columns && a->sums && a->n_blocks > 0 && a->n_heads > 0 && a->block > 0 && a->first >= 0);
    assert(a->first + (a->n_blocks - 1) * a->block < a->n_rows && a->n_local >= 1 && a->n_first >= 0);
    assert(a->stride >= (a->n_rows + a->block - 1) / a->block &&
           (size_t)a->stride <= SAC_THREAD_SCRATCH_BYTES);
    for (int64_t i = 0; i < a->n_blocks * a->n_heads; i++) {
        int64_t begin = a->first + i / a->n_heads * a->block;
        int64_t end = begin + a->block < a->n_rows ? begin + a->block : a->n_rows;
        cover(a, a->sums + i * a->stride, (end + a->block - 1) / a->block, begin / a->block, chosen,
              a->columns + i * a->stride);
    }
    return SAC_OK;
}
