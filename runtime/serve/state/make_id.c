#define _GNU_SOURCE
#include "make_id.h"
#include "clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

void serve_make_id(char *out, size_t room, const char *prefix) {
    uint8_t bytes[12] = {0};
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        int64_t t = sac_now_ns();
        memcpy(bytes, &t, sizeof t);
    }
    int n = snprintf(out, room, "%s", prefix);
    for (size_t i = 0; i < sizeof bytes && (size_t)n + 2 < room; i++)
        n += snprintf(out + n, room - (size_t)n, "%02x", bytes[i]);
}
