/* cuda_sequence.c - rows packed anew and a step over them, one behind the other in a stream: a step asks for
 * codes before the kernel before it is through, and has to find the new ones. */
#include "cuda_twin.h"
#include "even_tiles.h"

#include <math.h>
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

/* ---------------------------------------------------------------- tiles of turned rows */

enum { TILES = 9, EVEN_N = TILES * SAC_EVEN_TILE, EVEN_KV_BYTES = EVEN_N * COLS * 2 };

static sac_kv_view even_rows_at(void *k) {
    sac_kv_view kv = rows_at(k, EVEN_N);
    kv.v = (uint8_t *)k + EVEN_KV_BYTES;
    return kv;
}

static sac_status pack_tiles(const sac_ops *t, const sac_stream *s, sac_even_tiles tiles, sac_kv_view kv) {
    SAC_TRY(t->even_factors(s, &(sac_even_factors_args){tiles, kv, 0}));
    return t->pack_even(s, &(sac_pack_even_args){tiles, kv, 0});
}

/* The root of the mean square of what packing takes from keys, and from values: some rows and channels are large. */
static double root_of_errors(const uint16_t *x, const uint16_t *y) {
    double sum = 0;
    for (int64_t i = 0; i < EVEN_N * COLS; i++) {
        double d = (double)sac_bf16_to_f32(x[i]) - (double)sac_bf16_to_f32(y[i]);
        sum += d * d;
    }
    return sqrt(sum / (EVEN_N * COLS));
}

/* Which round's factors are kept is a matter of rounding; how much is lost is not. */
static bool loses_as_the_host(const uint16_t *rows, const uint16_t *back, sac_even_tiles tiles) {
    static check_stream host;
    uint16_t *want = malloc(2 * EVEN_KV_BYTES);
    sac_ops ref;
    bool ok = true;
    tiles.at = malloc((size_t)tiles.n * sac_even_tile_bytes(KV_HEADS, D, tiles.k_bits, tiles.v_bits));
    sac_ops_init_ref(&ref);
    if (!check_stream_open(&host, 1)) return false;
    pack_tiles(&ref, &host.s, tiles, even_rows_at((void *)(uintptr_t)rows));
    ref.unpack_even(&host.s, &(sac_unpack_even_args){tiles, even_rows_at(want), 0});
    for (int i = 0; i < 2; i++) {
        const uint16_t *x = rows + i * EVEN_N * COLS;
        double here = root_of_errors(x, want + i * EVEN_N * COLS), there = root_of_errors(x, back + i * EVEN_N * COLS);
        printf("%s of tiles come back off by %.5f, on the host by %.5f\n", i ? "values" : "keys", there, here);
        ok = ok && there < 1.01 * here && here < 1.01 * there;
    }
    check_stream_free(&host);
    free(tiles.at);
    free(want);
    return ok;
}

int cuda_check_even_sequence(cuda_twin *w, const sac_ops *t) {
    const sac_device *d = w->device;
    const sac_stream *s = &w->stream;
    uint8_t *at = w->memory, *q[3], *kv[2], *out[3], *back, *on_host = w->image + 3 * Q_BYTES;
    uint16_t *host = random_halves(4 * EVEN_N * COLS);
    for (int64_t i = 0; i < 4 * EVEN_N * COLS; i++)
        if (i / COLS % 50 == 7 || i % D == 11) host[i] = sac_f32_to_bf16(20 * sac_bf16_to_f32(host[i]));
    for (int i = 0; i < 3; i++) q[i] = take(&at, Q_BYTES), out[i] = w->image + i * Q_BYTES;
    for (int i = 0; i < 2; i++) kv[i] = take(&at, 2 * EVEN_KV_BYTES);
    back = take(&at, 2 * EVEN_KV_BYTES);
    sac_even_tiles tiles = {.n = TILES, .n_heads = KV_HEADS, .head_dim = D, .k_bits = 4, .v_bits = 2};
    tiles.at = take(&at, TILES * sac_even_tile_bytes(KV_HEADS, D, 4, 2));
    sac_even_step_args a = {.tiles = {tiles}, .tail = rows_at(kv[0], N_TAIL), .n_heads = HEADS, .scale = 0.01f};
    a.tail.v = kv[0] + EVEN_KV_BYTES;
    for (int i = 0; i < 3; i++) d->upload(s, q[i], host, Q_BYTES);
    for (int i = 0; i < 2; i++) d->upload(s, kv[i], host + i * 2 * EVEN_N * COLS, 2 * EVEN_KV_BYTES);
    sac_status st = SAC_OK;
    for (int i = 0; i < 3 && st == SAC_OK; i++) { /* other rows, and those again when all is through */
        if (i < 2) st = pack_tiles(t, s, tiles, even_rows_at(kv[i]));
        a.q = (sac_mat){q[i], 1, HEADS * D, HEADS * D, SAC_DTYPE_BF16};
        if (st == SAC_OK) st = t->even_step(s, &a);
        if (i == 1 && d->stream_sync(s, NULL) != SAC_OK) st = SAC_DEVICE;
    }
    if (st == SAC_OK) st = t->unpack_even(s, &(sac_unpack_even_args){tiles, even_rows_at(back), 0});
    for (int i = 0; i < 3; i++) d->download(s, out[i], q[i], Q_BYTES);
    d->download(s, on_host, back, 2 * EVEN_KV_BYTES);
    bool ok = d->stream_sync(s, NULL) == SAC_OK && st == SAC_OK && memcmp(out[1], out[2], Q_BYTES) == 0 &&
              memcmp(out[0], out[1], Q_BYTES) != 0;
    ok = ok && loses_as_the_host(host + 2 * EVEN_N * COLS, (const uint16_t *)on_host, tiles);
    printf("even_step behind pack_even: %s\n", ok ? "ok" : "FAILED");
    free(host);
    return !ok;
}
