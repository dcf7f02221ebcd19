#include "scan.h"
#include "utf8.h"

int scan_fail(scan *s, const char *why) {
    if (!s->why) s->why = why;
    return -1;
}

bool scan_take(scan *s, char c) {
    if (s->at == s->end || *s->at != c) return false;
    s->at++;
    return true;
}

bool scan_character(scan *s, uint32_t *c) {
    size_t n;
    if (s->at == s->end) return scan_fail(s, "it ends too soon"), false;
    if (!sac_utf8_next(s->at, s->end, &n, NULL)) return scan_fail(s, "it is no UTF-8"), false;
    *c = sac_utf8_decode(s->at);
    s->at += n;
    return true;
}

bool scan_hex(scan *s, int n, uint32_t *c) {
    *c = 0;
    for (int i = 0; i < n; i++, s->at++) {
        char d = s->at < s->end ? *s->at : 0;
        int value = d >= '0' && d <= '9'                 ? d - '0'
                    : (d | 32) >= 'a' && (d | 32) <= 'f' ? (d | 32) - 'a' + 10
                                                         : -1;
        if (value < 0) return scan_fail(s, "an escape without its hexadecimal digits"), false;
        *c = *c << 4 | (uint32_t)value;
    }
    return *c <= 0x10ffff || (scan_fail(s, "an escape of no character"), false);
}

static bool scan_number(scan *s, int64_t *value) {
    const char *from = s->at;
    *value = 0;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
        if (*value <= SCAN_MAX_TIMES) *value = *value * 10 + (*s->at - '0');
    return s->at > from;
}

bool scan_times(scan *s, int64_t *min, int64_t *max) {
    const char *from = s->at;
    bool ok = scan_number(s, min);
    *max = *min;
    if (ok && scan_take(s, ',') && !scan_number(s, max)) *max = -1;
    if (ok && scan_take(s, '}')) {
        if (*min > SCAN_MAX_TIMES || *max > SCAN_MAX_TIMES || (*max >= 0 && *max < *min))
            scan_fail(s, "a number of times above 100000, or a minimum above its maximum");
        return true;
    }
    s->at = from;
    return false;
}
