/* client.h - who asks, as a number: a hash of an address or an API key under a key of this server's own. What a stranger sends
 * tells nothing of the number, so nobody can make requests that count as somebody else's, or fall into the same bucket. */
#ifndef SERVE_CLIENT_H
#define SERVE_CLIENT_H

#include <stddef.h>
#include <stdint.h>

enum { SERVE_SEED_BYTES = 16 };

/* Random, of the kernel; whatever it has when it has no entropy yet. */
void serve_client_seed(uint8_t seed[SERVE_SEED_BYTES]);

/* SipHash-2-4 (Aumasson, Bernstein 2012). */
uint64_t serve_client_hash(const uint8_t seed[SERVE_SEED_BYTES], const void *bytes, size_t n_bytes);

#endif
