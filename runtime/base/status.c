#include "status.h"
#include "saccade/api.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

SAC_API const char *sac_status_name(sac_status s) {
    switch (s) {
#define X(name, value, text, exit_code)                                                                      \
    case SAC_##name: return #name;
        SAC_STATUS_LIST(X)
#undef X
    }
    return "UNKNOWN";
}

SAC_API const char *sac_status_text(sac_status s) {
    switch (s) {
#define X(name, value, text, exit_code)                                                                      \
    case SAC_##name: return text;
        SAC_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

SAC_API int sac_status_exit_code(sac_status s) {
    switch (s) {
#define X(name, value, text, exit_code)                                                                      \
    case SAC_##name: return exit_code;
        SAC_STATUS_LIST(X)
#undef X
    }
    return 70;
}

/* Names out of files end up in messages; a terminal must not see their escape codes (C0, DEL, and in UTF-8 C1) and a log
 * must stay one line. */
static void keep_one_line(char *text) {
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
        else if ((unsigned char)*p == 0xc2 && (unsigned char)p[1] >= 0x80 && (unsigned char)p[1] < 0xa0)
            *p = p[1] = '?';
}

sac_status sac_fail(sac_error *err, sac_status s, const char *format, ...) {
    if (!err) return s;
    err->status = s;
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    keep_one_line(err->text);
    return s;
}

sac_status sac_fail_prefix(sac_error *err, sac_status s, const char *format, ...) {
    if (!err) return s;
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t used = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    snprintf(text + used, sizeof text - used, ": %s", err->text);
    memcpy(err->text, text, sizeof text);
    err->status = s;
    keep_one_line(err->text);
    return s;
}

sac_status sac_fail_no_memory(sac_error *err) {
    return sac_fail(err, SAC_NO_MEMORY, "out of memory");
}
