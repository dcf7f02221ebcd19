/* hash.h - SHA-256 (libcrypto's, which uses the processor's SHA instructions), for keys that a stranger's
 * file must not forge. */
#ifndef SAC_BASE_HASH_H
#define SAC_BASE_HASH_H

#include "status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sac_sha256 sac_sha256;

sac_status sac_sha256_open(sac_sha256 **out, sac_error *err);
void sac_sha256_update(sac_sha256 *h, const void *bytes, size_t n_bytes);
void sac_sha256_finish(sac_sha256 *h, uint8_t hash[32]); /* frees h */

#endif
