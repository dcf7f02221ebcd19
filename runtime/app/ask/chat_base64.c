#include "chat_base64.h"

#include <stdlib.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *chat_base64_write(const uint8_t *bytes, size_t n_bytes) {
    char *text = malloc((n_bytes + 2) / 3 * 4 + 1), *to = text;
    if (!text) return NULL;
    for (size_t i = 0; i < n_bytes; i += 3) {
        size_t n = n_bytes - i < 3 ? n_bytes - i : 3;
        uint32_t v = 0;
        for (size_t k = 0; k < 3; k++) v = v << 8 | (k < n ? bytes[i + k] : 0);
        for (size_t k = 0; k < 4; k++) *to++ = k <= n ? letters[v >> (18 - 6 * k) & 63] : '=';
    }
    *to = 0;
    return text;
}

uint8_t *chat_base64_read(const char *text, size_t *n_bytes) {
    size_t n = strlen(text), n_pad = 0;
    while (n_pad < 2 && n_pad < n && text[n - 1 - n_pad] == '=') n_pad++;
    uint8_t *bytes = n % 4 == 0 ? malloc(n / 4 * 3 + 1) : NULL, *to = bytes;
    for (size_t i = 0; bytes && i < n; i += 4) {
        uint32_t v = 0;
        for (size_t k = i; k < i + 4; k++) {
            const char *at = k < n - n_pad ? strchr(letters, text[k]) : letters;
            if (!at) {
                free(bytes);
                return NULL;
            }
            v = v << 6 | (uint32_t)(at - letters);
        }
        for (int shift = 16; shift >= 0; shift -= 8) *to++ = (uint8_t)(v >> shift);
    }
    *n_bytes = n / 4 * 3 - n_pad;
    return bytes;
}
