#include "utf8.h"

/* Length of a character by its first byte, and the range of its second (table 3-7 of the Unicode standard);
 * 0 = no character starts so. */
static int lead_byte(unsigned char b, unsigned char *low, unsigned char *high) {
    *low = 0x80;
    *high = 0xbf;
    if (b < 0x80) return 1;
    if (b < 0xc2) return 0;
    if (b < 0xe0) return 2;
    if (b < 0xf0) {
        if (b == 0xe0) *low = 0xa0;
        if (b == 0xed) *high = 0x9f;
        return 3;
    }
    if (b == 0xf0) *low = 0x90;
    if (b == 0xf4) *high = 0x8f;
    return b <= 0xf4 ? 4 : 0;
}

bool sac_utf8_next(const char *p, const char *end, size_t *n_bytes, bool *cut) {
    unsigned char low, high;
    int n = lead_byte((unsigned char)*p, &low, &high);
    if (cut) *cut = false;
    *n_bytes = 1;
    for (int i = 1; i < n; i++) {
        if (p + i == end) {
            if (cut) *cut = true;
            return false;
        }
        unsigned char b = (unsigned char)p[i];
        if (b < low || b > high) return false;
        low = 0x80;
        high = 0xbf;
        ++*n_bytes;
    }
    return n > 0;
}

bool sac_utf8_valid(const char *text, size_t n_bytes) {
    const char *end = text + n_bytes;
    for (size_t n; text < end; text += n)
        if (!sac_utf8_next(text, end, &n, NULL)) return false;
    return true;
}

size_t sac_utf8_encode(uint32_t c, char *out) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 63));
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63));
    out[3] = (char)(0x80 | (c & 63));
    return 4;
}
