/* base64.h - RFC 4648, both alphabets, padding optional, white space skipped. */
#ifndef SAC_BASE_BASE64_H
#define SAC_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes n characters into out (room for 3 * (n / 4 + 1) bytes). False for a character that does not belong
 * there, or a length that cannot be. */
bool sac_base64_decode(const char *text, size_t n, uint8_t *out, size_t *n_out);

#endif
