/* failure.h - how the command's own code says what went wrong: as the library does, one line into a
 * sac_error. */
#ifndef APP_FAILURE_H
#define APP_FAILURE_H

#include <saccade/status.h>

/* Writes the line and returns `s`. Control characters (names from the command line, files) become '?'. */
sac_status app_fail(sac_error *err, sac_status s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts a prefix before the line that a callee wrote; returns err->status. */
sac_status app_fail_prefix(sac_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

sac_status app_fail_no_memory(sac_error *err);

/* Exit code of a command that did its work, but not all of it (EX_TEMPFAIL of sysexits.h). */
#define APP_EXIT_PARTIAL 75
void app_note_partial(void);

/* Of the process, for what its command returned. */
int app_exit_code(sac_status s);

#define APP_TRY(expr)                                                                                        \
    do {                                                                                                     \
        sac_status app_try_status_ = (expr);                                                                 \
        if (app_try_status_ != SAC_OK) return app_try_status_;                                               \
    } while (0)

#define APP_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
