/* cuda_sequence.c - rows packed anew and a step over them, one behind the other in a stream: a step asks for
 * codes before the kernel before it is through, and has to find the new ones. */
#include "cuda_twin.h"
#include "packed_rows.h"

#include <stdlib.h>
#include <string.h>

enum { HEADS = 28, KV_HEADS = 4, D = 128, COLS = KV_HEADS * D, N_FOUR = 9000, N_TWO = 14000, N_TAIL = 20 };
enum { N = N_FOUR + N_TWO + N_TAIL, Q_BYTES = HEADS * D * 2, KV_BYTES = N * COLS * 2 };

static void *take(uint8_t **at, size_t n_bytes) {
    void *p = *at;
    *at += (n_bytes + 255) / 256 * 256;
    return p;
}

static sac_packed_rows part_at(uint8_t **at, int64_t n, int bits) {
    sac_packed_rows p = {.n = n, .capacity = n, .n_heads = KV_HEADS, .head_dim = D, .bits = bits};
    p.k = take(at, sac_packed_key_words(KV_HEADS, D, bits, n) * 4);
    p.v = take(at, sac_packed_value_words(KV_HEADS, D, bits, n) * 4);
    p.k_scale = take(at, COLS * 2), p.k_min = take(at, COLS * 2), p.v_channel = take(at, COLS * 2);
    p.v_scale = take(at, (size_t)n * 2), p.v_min = take(at, (size_t)n * 2);
    p.k_group = n, p.v_group = COLS;
    return p;
}

static sac_kv_view rows_at(uint8_t *k, int64_t n) {
    return (sac_kv_view){.k = k,
                         .v = k + KV_BYTES,
                         .dtype = SAC_DTYPE_BF16,
                         .n_heads = KV_HEADS,
                         .head_dim = D,
                         .n_rows = n,
                         .row_stride = COLS,
                         .head_stride = D};
}

static sac_status pack(const sac_ops *t, const sac_stream *s, sac_kv_view kv, const sac_packed_rows part[2]) {
    for (int i = 0; i < 2; i++) {
        sac_pack_rows rows = {NULL, part[i].n, i * N_FOUR, 1};
        SAC_TRY(t->pack_channels(s, &(sac_pack_channels_args){part[i].v_channel, kv, rows}));
        SAC_TRY(t->pack_rows(s, &(sac_pack_rows_args){part[i], kv, rows, 0}));
    }
    return SAC_OK;
}

static uint16_t *random_halves(int64_t n) {
    uint16_t *x = malloc((size_t)n * 2);
    uint64_t rng = 11;
    for (int64_t i = 0; i < n; i++)
        x[i] = sac_f32_to_bf16((float)((double)(check_rand(&rng) >> 11) * 0x1p-52 - 1));
    return x;
}

int cuda_check_sequence(cuda_twin *w, const sac_ops *t) {
    const sac_device *d = w->device;
    const sac_stream *s = &w->stream;
    uint8_t *at = w->memory, *q[3], *kv[2], *out[3];
    uint16_t *host = random_halves(4 * N * COLS);
    for (int i = 0; i < 3; i++) q[i] = take(&at, Q_BYTES), out[i] = w->image + i * Q_BYTES;
    for (int i = 0; i < 2; i++) kv[i] = take(&at, 2 * KV_BYTES);
    sac_packed_rows part[2] = {part_at(&at, N_FOUR, 4), part_at(&at, N_TWO, 2)};
    sac_packed_step_args a = {.parts = part, .n_parts = 2, .n_heads = HEADS, .scale = 0.3f};
    a.tail = rows_at(kv[0] + (N_FOUR + N_TWO) * COLS * 2, N_TAIL);
    for (int i = 0; i < 3; i++) d->upload(s, q[i], host, Q_BYTES);
    for (int i = 0; i < 2; i++) d->upload(s, kv[i], host + i * 2 * N * COLS, 2 * KV_BYTES);
    sac_status st = SAC_OK;
    for (int i = 0; i < 3 && st == SAC_OK; i++) { /* other rows, and those again when all is through */
        if (i < 2) st = pack(t, s, rows_at(kv[i], N), part);
        a.q = (sac_mat){q[i], 1, HEADS * D, HEADS * D, SAC_DTYPE_BF16};
        if (st == SAC_OK) st = t->packed_step(s, &a);
        if (i == 1 && d->stream_sync(s, NULL) != SAC_OK) st = SAC_DEVICE;
    }
    for (int i = 0; i < 3; i++) d->download(s, out[i], q[i], Q_BYTES);
    bool ok = d->stream_sync(s, NULL) == SAC_OK && st == SAC_OK && memcmp(out[1], out[2], Q_BYTES) == 0 &&
              memcmp(out[0], out[1], Q_BYTES) != 0;
    printf("packed_step behind pack_rows: %s\n", ok ? "ok" : "FAILED");
    free(host);
    return !ok;
}
