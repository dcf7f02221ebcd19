#include "group.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

size_t sac_group_bytes(int n_ranks, size_t piece_bytes) {
    return (size_t)n_ranks * piece_bytes + piece_bytes / 2 * sizeof(float);
}

sac_status sac_group_open(sac_group *g, const sac_stream *const *streams, int n_ranks, size_t piece_bytes,
                          sac_error *err) {
    assert(n_ranks > 0 && piece_bytes > 0 && piece_bytes % 4 == 0);
    *g = (sac_group){.piece_bytes = piece_bytes};
    if (n_ranks > SAC_GROUP_MAX_RANKS)
        return sac_fail(err, SAC_UNSUPPORTED, "%d devices in one group; at most %d go together", n_ranks,
                        SAC_GROUP_MAX_RANKS);
    g->sum = malloc(piece_bytes / 2 * sizeof *g->sum);
    sac_status st =
        g->sum ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "no memory for sums over %d devices", n_ranks);
    for (int i = 0; i < n_ranks && st == SAC_OK; i++) {
        const sac_device *d = streams[i]->device;
        g->stream[i] = streams[i];
        st = d->host_alloc(d, piece_bytes, (void **)&g->piece[i], err);
        if (st == SAC_OK) g->n_ranks++;
    }
    if (st != SAC_OK) sac_group_close(g);
    return st;
}

void sac_group_close(sac_group *g) {
    for (int i = 0; i < g->n_ranks; i++) g->stream[i]->device->host_free(g->stream[i]->device, g->piece[i]);
    free(g->sum);
    *g = (sac_group){0};
}

static sac_status wait_for_all(const sac_group *g, sac_error *err) {
    for (int i = 0; i < g->n_ranks; i++) SAC_TRY(g->stream[i]->device->stream_sync(g->stream[i], err));
    return SAC_OK;
}

/* Bytes [at, at + n_bytes) of each rank's data to its piece on the host. */
static sac_status fetch(const sac_group *g, const void *const *data, size_t at, size_t n_bytes,
                        sac_error *err) {
    for (int i = 0; i < g->n_ranks; i++) {
        const sac_stream *s = g->stream[i];
        SAC_TRY(s->device->download(s, g->piece[i], (const uint8_t *)data[i] + at, n_bytes));
    }
    return wait_for_all(g, err);
}

static void add(float *sum, const void *x, int64_t n, sac_dtype dtype) {
    const float *f = x;
    const uint16_t *h = x;
    for (int64_t i = 0; i < n; i++)
        sum[i] += dtype == SAC_DTYPE_F32   ? f[i]
                  : dtype == SAC_DTYPE_F16 ? sac_f16_to_f32(h[i])
                                           : sac_bf16_to_f32(h[i]);
}

static void round_to(void *y, const float *sum, int64_t n, sac_dtype dtype) {
    uint16_t *h = y;
    if (dtype == SAC_DTYPE_F32)
        memcpy(y, sum, (size_t)n * sizeof *sum);
    else
        for (int64_t i = 0; i < n; i++)
            h[i] = dtype == SAC_DTYPE_F16 ? sac_f32_to_f16(sum[i]) : sac_f32_to_bf16(sum[i]);
}

/* The sum of the pieces to every piece. */
static void sum_pieces(const sac_group *g, int64_t n, sac_dtype dtype) {
    memset(g->sum, 0, (size_t)n * sizeof *g->sum);
    for (int i = 0; i < g->n_ranks; i++) add(g->sum, g->piece[i], n, dtype);
    for (int i = 0; i < g->n_ranks; i++) round_to(g->piece[i], g->sum, n, dtype);
}

sac_status sac_group_all_reduce(const sac_group *g, void *const *data, int64_t n, sac_dtype dtype,
                                sac_error *err) {
    assert(dtype == SAC_DTYPE_F32 || dtype == SAC_DTYPE_F16 || dtype == SAC_DTYPE_BF16);
    const void *const *from = (const void *const *)data;
    size_t element = sac_dtype_row_bytes(dtype, 1), n_bytes = (size_t)n * element;
    for (size_t at = 0; at < n_bytes; at += g->piece_bytes) {
        size_t part = n_bytes - at < g->piece_bytes ? n_bytes - at : g->piece_bytes;
        if (at > 0) SAC_TRY(wait_for_all(g, err)); /* the last piece may still be on its way up */
        SAC_TRY(fetch(g, from, at, part, err));
        sum_pieces(g, (int64_t)(part / element), dtype);
        for (int i = 0; i < g->n_ranks; i++) {
            const sac_stream *s = g->stream[i];
            SAC_TRY(s->device->upload(s, (uint8_t *)data[i] + at, g->piece[i], part));
        }
    }
    return wait_for_all(g, err);
}

/* One piece of every rank to its place with all others. */
static sac_status hand_round(const sac_group *g, void *const *to, size_t n_bytes, size_t at, size_t part) {
    for (int i = 0; i < g->n_ranks; i++)
        for (int k = 0; k < g->n_ranks; k++) {
            const sac_stream *s = g->stream[i];
            uint8_t *place = (uint8_t *)to[i] + (size_t)k * n_bytes + at;
            SAC_TRY(s->device->upload(s, place, g->piece[k], part));
        }
    return SAC_OK;
}

sac_status sac_group_all_gather(const sac_group *g, void *const *to, const void *const *part, size_t n_bytes,
                                sac_error *err) {
    for (size_t at = 0; at < n_bytes; at += g->piece_bytes) {
        size_t n = n_bytes - at < g->piece_bytes ? n_bytes - at : g->piece_bytes;
        if (at > 0) SAC_TRY(wait_for_all(g, err));
        SAC_TRY(fetch(g, part, at, n, err));
        SAC_TRY(hand_round(g, to, n_bytes, at, n));
    }
    return wait_for_all(g, err);
}
