#include "base64.h"

static int value_of(unsigned char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+' || c == '-') return 62;
    if (c == '/' || c == '_') return 63;
    return -1;
}

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

bool sac_base64_decode(const char *text, size_t n, uint8_t *out, size_t *n_out) {
    uint32_t bits = 0;
    unsigned n_bits = 0;
    size_t n_chars = 0, n_pad = 0, at = 0;
    for (size_t i = 0; i < n; i++) {
        if (is_space(text[i])) continue;
        if (text[i] == '=') {
            n_pad++;
            continue;
        }
        int v = value_of((unsigned char)text[i]);
        if (v < 0 || n_pad) return false;
        n_chars++;
        bits = bits << 6 | (uint32_t)v;
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        out[at++] = (uint8_t)(bits >> n_bits);
    }
    *n_out = at;
    return n_chars % 4 != 1 && n_pad <= 2 && (n_pad == 0 || (n_chars + n_pad) % 4 == 0);
}
