#include "failure.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void keep_one_line(char *text) {
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = '?';
}

sac_status app_fail(sac_error *err, sac_status s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    keep_one_line(err->text);
    err->status = s;
    return s;
}

sac_status app_fail_prefix(sac_error *err, const char *format, ...) {
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t used = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    snprintf(text + used, sizeof text - used, "%s", err->text);
    memcpy(err->text, text, sizeof text);
    keep_one_line(err->text);
    return err->status;
}

sac_status app_fail_no_memory(sac_error *err) {
    return app_fail(err, SAC_NO_MEMORY, "out of memory");
}

static bool partial;

void app_note_partial(void) {
    partial = true;
}

int app_exit_code(sac_status s) {
    return s == SAC_OK && partial ? APP_EXIT_PARTIAL : sac_status_exit_code(s);
}
