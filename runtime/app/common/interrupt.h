/* interrupt.h - Ctrl-C: the first cancels the answer that is being written, the next one ends the command
 * (exit code 130).
 *
 * An answer that has not stopped 0.2 s after the first is told in a line on a terminal, and what the next one does.
 *
 * A thread waits for the signal, so that sac_session_cancel is called from a thread (as its contract says)
 * and not from a signal handler. When the caller ignores SIGINT (a job in the background of a script), so do
 * we. */
#ifndef APP_INTERRUPT_H
#define APP_INTERRUPT_H

#include <saccade/saccade.h>

/* Once, before any other thread starts. */
void interrupt_start(void);

/* From here on the first signal calls fn, the next one ends the command; NULL = no call. */
void interrupt_call(void (*fn)(void));

/* Ends the command as the second Ctrl-C does; from fn of interrupt_call only. */
void interrupt_quit(void);

/* From here on what is done is kept: the last line of a command that is ended says so. */
void interrupt_goes_on(void);

/* What is said behind "cancelled": "" or that. */
const char *interrupt_advice(void);

/* From here on the signal cancels what `s` runs. */
void interrupt_begin(sac_session *s);

/* From here on it ends the command; before sac_session_free. True when it came since interrupt_begin. */
bool interrupt_end(void);

/* It came since interrupt_begin. A signal that came just before the session's call began has cancelled
 * nothing: callbacks ask here. */
bool interrupt_pending(void);

#endif
