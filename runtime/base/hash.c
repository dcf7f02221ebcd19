#include "hash.h"

#include <openssl/evp.h>
#include <string.h>

sac_status sac_sha256_open(sac_sha256 **out, sac_error *err) {
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    if (!c || EVP_DigestInit_ex(c, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(c);
        *out = NULL;
        return sac_fail(err, SAC_NO_MEMORY, "cannot set up SHA-256");
    }
    *out = (sac_sha256 *)c;
    return SAC_OK;
}

void sac_sha256_update(sac_sha256 *h, const void *bytes, size_t n_bytes) {
    if (n_bytes) EVP_DigestUpdate((EVP_MD_CTX *)h, bytes, n_bytes);
}

void sac_sha256_finish(sac_sha256 *h, uint8_t hash[32]) {
    if (EVP_DigestFinal_ex((EVP_MD_CTX *)h, hash, NULL) != 1) memset(hash, 0, 32);
    EVP_MD_CTX_free((EVP_MD_CTX *)h);
}

uint64_t sac_hash_quick(uint64_t start, const void *bytes, size_t n_bytes) {
    const unsigned char *p = bytes;
    uint64_t h = start ? start : 14695981039346656037u;
    for (size_t i = 0; i < n_bytes; i++) h = (h ^ p[i]) * 1099511628211u;
    return h;
}

enum { LANES = 4 };

/* Each step takes a lane to another one to one, for every word: a word that differs is never lost. */
static uint64_t stir(uint64_t lane, uint64_t word) {
    lane = (lane ^ word) * 0x9e3779b97f4a7c15u;
    return lane ^ (lane >> 32);
}

uint64_t sac_hash_wide(uint64_t start, const void *bytes, size_t n_bytes) {
    const unsigned char *p = bytes;
    uint64_t lane[LANES] = {1, 2, 3, 4}, word[LANES], h = stir(start, n_bytes);
    for (size_t left = n_bytes; left > 0;) {
        size_t n = left < sizeof word ? left : sizeof word;
        if (n < sizeof word) memset(word, 0, sizeof word);
        memcpy(word, p, n);
        for (int i = 0; i < LANES; i++) lane[i] = stir(lane[i], word[i]);
        p += n, left -= n;
    }
    for (int i = 0; i < LANES; i++) h = stir(h, lane[i]);
    return h;
}
