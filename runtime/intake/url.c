#include "url.h"

#include <string.h>
#include <strings.h>

const char *intake_data_text(const char *url) {
    const char *comma = strchr(url, ',');
    if (strncasecmp(url, "data:", 5) || !comma || comma - url < 12) return NULL;
    return strncasecmp(comma - 7, ";base64", 7) ? NULL : comma + 1;
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool unescape(char *to, size_t room, const char *from) {
    size_t n = 0;
    for (; *from && n + 1 < room; from++, n++) {
        int high = *from == '%' ? hex_value(from[1]) : -1, low = high >= 0 ? hex_value(from[2]) : -1;
        if (*from == '%' && low < 0) return false;
        to[n] = *from;
        if (*from == '%') to[n] = (char)(unsigned char)(high * 16 + low);
        if (*from == '%') from += 2;
        if (!to[n]) return false;
    }
    to[n] = 0;
    return !*from;
}

bool intake_file_path(const char *url, char *path, size_t room) {
    if (strncasecmp(url, "file://", 7)) return false;
    const char *from = url + 7;
    if (!strncasecmp(from, "localhost/", 10)) from += 9;
    return *from == '/' && unescape(path, room, from);
}
