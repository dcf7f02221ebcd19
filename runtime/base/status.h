/* status.h - raising and forwarding failures inside the library (the public half is saccade/status.h). */
#ifndef SAC_BASE_STATUS_H
#define SAC_BASE_STATUS_H

#include "saccade/status.h"

#include <stddef.h>

/* Writes the one line of a failure and returns `s`, so that a check reads: return sac_fail(err, SAC_BAD_FILE,
 * "..."). Control characters in the text (names from hostile files) are replaced; err may be NULL. */
sac_status sac_fail(sac_error *err, sac_status s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the text of a failure that a callee wrote, e.g. the file that it was reading. */
sac_status sac_fail_prefix(sac_error *err, sac_status s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

sac_status sac_fail_no_memory(sac_error *err); /* "out of memory" */

#define SAC_TRY(expr)                                                                                        \
    do {                                                                                                     \
        sac_status sac_try_status_ = (expr);                                                                 \
        if (sac_try_status_ != SAC_OK) return sac_try_status_;                                               \
    } while (0)

/* For functions that hold resources: sets `st` and jumps to the one label that frees them. */
#define SAC_TRY_GOTO(st, expr, label)                                                                        \
    do {                                                                                                     \
        (st) = (expr);                                                                                       \
        if ((st) != SAC_OK) goto label;                                                                      \
    } while (0)

/* Overflow-checked size arithmetic: false on overflow, then *out is unspecified. */
static inline int sac_mul_size(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline int sac_add_size(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

#define SAC_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
