/* hash.h - SHA-256 (libcrypto's, which uses the processor's SHA instructions), for keys that a stranger's
 * file must not forge; and a quick hash for what nobody gains by forging. */
#ifndef SAC_BASE_HASH_H
#define SAC_BASE_HASH_H

#include "status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sac_sha256 sac_sha256;

sac_status sac_sha256_open(sac_sha256 **out, sac_error *err);
void sac_sha256_update(sac_sha256 *h, const void *bytes, size_t n_bytes);
void sac_sha256_finish(sac_sha256 *h, uint8_t hash[32]); /* frees h */

/* FNV-1a with 64 bits. start: 0 for the first piece, otherwise the value so far. Different bytes get different
 * values by chance only: whoever wants two that collide will find them. Journals and result files hold its
 * values, so it stays as it is. */
uint64_t sac_hash_quick(uint64_t start, const void *bytes, size_t n_bytes);

/* A checksum of 64 bits for long memory, many bytes a cycle: where one aligned word of 8 bytes differs and nothing else, so
 * does the value. start: 0, or the value of the piece before. Forged as easily as the one above. Files hold its values, on
 * machines whose words are little-endian. */
uint64_t sac_hash_wide(uint64_t start, const void *bytes, size_t n_bytes);

#endif
