#include "client.h"
#include "clock.h"

#include <string.h>
#include <sys/random.h>

void serve_client_seed(uint8_t seed[SERVE_SEED_BYTES]) {
    if (getrandom(seed, SERVE_SEED_BYTES, 0) == SERVE_SEED_BYTES) return;
    const int64_t now = sac_now_ns();
    memset(seed, 0, SERVE_SEED_BYTES);
    memcpy(seed, &now, sizeof now);
}

/* ---------------------------------------------------------------- SipHash-2-4 */

typedef struct sip {
    uint64_t a, b, c, d;
} sip;

static uint64_t rotate(uint64_t x, int bits) {
    return x << bits | x >> (64 - bits);
}

static void mix(sip *s, int rounds) {
    for (; rounds > 0; rounds--) {
        s->a += s->b;
        s->c += s->d;
        s->b = rotate(s->b, 13) ^ s->a;
        s->d = rotate(s->d, 16) ^ s->c;
        s->a = rotate(s->a, 32) + s->d;
        s->c += s->b;
        s->d = rotate(s->d, 21) ^ s->a;
        s->b = rotate(s->b, 17) ^ s->c;
        s->c = rotate(s->c, 32);
    }
}

static uint64_t word_at(const uint8_t *bytes, size_t n) {
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++) word |= (uint64_t)bytes[i] << 8 * i;
    return word;
}

static void take(sip *s, uint64_t word) {
    s->d ^= word;
    mix(s, 2);
    s->a ^= word;
}

uint64_t serve_client_hash(const uint8_t seed[SERVE_SEED_BYTES], const void *bytes, size_t n_bytes) {
    const uint8_t *from = bytes;
    const uint64_t k0 = word_at(seed, 8), k1 = word_at(seed + 8, 8);
    sip s = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u};
    size_t i = 0;
    for (; i + 8 <= n_bytes; i += 8) take(&s, word_at(from + i, 8));
    take(&s, word_at(from + i, n_bytes - i) | (uint64_t)n_bytes << 56);
    s.c ^= 0xff;
    mix(&s, 4);
    return s.a ^ s.b ^ s.c ^ s.d;
}
