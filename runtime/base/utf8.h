/* utf8.h - characters as bytes. "Valid" is RFC 3629: no overlong forms, no surrogates, at most U+10FFFF. */
#ifndef SAC_BASE_UTF8_H
#define SAC_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAC_UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* What stands at p (p < end). *n_bytes is the length of the character; for broken bytes the result is false
 * and *n_bytes the length of the maximal subpart (Unicode, chapter 3: what Python's errors="replace", Rust's
 * from_utf8_lossy and browsers turn into one U+FFFD), at least 1. *cut (may be NULL) is true when the bytes
 * up to `end` are a proper start of a character, so that more input could complete it. */
bool sac_utf8_next(const char *p, const char *end, size_t *n_bytes, bool *cut);

bool sac_utf8_valid(const char *text, size_t n_bytes);

/* The code point of a valid character at p. */
static inline uint32_t sac_utf8_decode(const char *p) {
    const unsigned char *b = (const unsigned char *)p;
    if (b[0] < 0x80) return b[0];
    if (b[0] < 0xe0) return (uint32_t)(b[0] & 31) << 6 | (b[1] & 63u);
    if (b[0] < 0xf0) return (uint32_t)(b[0] & 15) << 12 | (uint32_t)(b[1] & 63) << 6 | (b[2] & 63u);
    return (uint32_t)(b[0] & 7) << 18 | (uint32_t)(b[1] & 63) << 12 | (uint32_t)(b[2] & 63) << 6 |
           (b[3] & 63u);
}

/* Length of the valid character whose first byte this is. */
static inline size_t sac_utf8_length(char first) {
    unsigned char b = (unsigned char)first;
    return b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

static inline bool sac_utf8_continues(char byte) {
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Writes a code point (not a surrogate) into out[4]; returns its length. */
size_t sac_utf8_encode(uint32_t code_point, char *out);

#endif
