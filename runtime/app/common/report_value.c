#include "report_value.h"
#include "status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 6, BUFFER_BYTES = 64 };

static char *next_buffer(void) {
    static char buffers[BUFFERS][BUFFER_BYTES];
    static int turn;
    return buffers[turn++ % BUFFERS];
}

const char *report_bytes(double n) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    size_t u = 0;
    while (n >= 999.5 && u + 1 < SAC_COUNT(units)) n /= 1000, u++;
    char *text = next_buffer();
    snprintf(text, BUFFER_BYTES, u && n < 99.95 ? "%.1f %s" : "%.0f %s", n, units[u]);
    return text;
}

const char *report_count(int64_t n) {
    char digits[24], *text = next_buffer(), *to = text;
    int len = snprintf(digits, sizeof digits, "%" PRId64, n);
    for (int i = 0; i < len; i++) {
        *to++ = digits[i];
        if (digits[i] != '-' && i + 1 < len && (len - 1 - i) % 3 == 0) *to++ = ',';
    }
    *to = 0;
    return text;
}

const char *report_counted(int64_t n, const char *noun) {
    const char *count = report_count(n);
    char *text = next_buffer();
    snprintf(text, BUFFER_BYTES, "%s %s%s", count, noun, n == 1 ? "" : "s");
    return text;
}

const char *report_rate(double per_second) {
    char *text = next_buffer();
    snprintf(text, BUFFER_BYTES, per_second < 99.95 ? "%.1f tokens/s" : "%.0f tokens/s", per_second);
    return text;
}

json_t *report_real(double v) {
    return isfinite(v) ? json_real(v) : json_null();
}

json_t *report_nine_digits(double v) {
    char text[32];
    snprintf(text, sizeof text, "%.9g", v);
    return report_real(strtod(text, NULL));
}

json_t *report_text(const char *text) {
    if (!text) return json_null();
    json_t *j = json_string(text);
    if (j) return j;
    char *copy = malloc(strlen(text) + 1);
    if (!copy) return NULL;
    char *to = copy;
    for (; *text; text++) *to++ = (unsigned char)*text < 0x80 ? *text : '?';
    *to = 0;
    j = json_string(copy);
    free(copy);
    return j;
}
