/* saccade/status.h - how every call says what went wrong.
 *
 * Functions return a sac_status. The fact behind a failure (file, tensor, expected and found shape, what to
 * do) is written once, by the code that knows it, into the caller's sac_error as one line. */
#ifndef SACCADE_STATUS_H
#define SACCADE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* name, value, text, process exit code (sysexits.h) */
#define SAC_STATUS_LIST(X)                                                                                   \
    X(OK, 0, "success", 0)                                                                                   \
    X(NO_MEMORY, -1, "out of memory", 71)                                                                    \
    X(BAD_ARGUMENT, -2, "bad argument", 64)                                                                  \
    X(BAD_FILE, -3, "malformed or unsupported file", 65)                                                     \
    X(NOT_FOUND, -4, "not found", 66)                                                                        \
    X(IO, -5, "input/output error", 74)                                                                      \
    X(DEVICE, -6, "device error", 69)                                                                        \
    X(UNSUPPORTED, -7, "not supported", 69)                                                                  \
    X(TOO_LONG, -8, "does not fit the context", 65)                                                          \
    X(CANCELLED, -9, "cancelled", 130)                                                                       \
    X(BAD_CONFIG, -10, "bad configuration", 78)                                                              \
    X(INTERNAL, -11, "internal error", 70)

typedef enum sac_status {
#define X(name, value, text, exit_code) SAC_##name = (value),
    SAC_STATUS_LIST(X)
#undef X
} sac_status;

/* Filled on failure, untouched on success; NULL is accepted wherever one is asked for. */
typedef struct sac_error {
    sac_status status;
    char text[400]; /* one line: what, where, what to do */
} sac_error;

const char *sac_status_name(sac_status s); /* "BAD_FILE" */
const char *sac_status_text(sac_status s); /* "malformed or unsupported file" */
int sac_status_exit_code(sac_status s);    /* sysexits-style process exit code */

#ifdef __cplusplus
}
#endif
#endif
