/* exit_code.h - the exit code of the command. */
#ifndef APP_EXIT_CODE_H
#define APP_EXIT_CODE_H

#include "saccade/status.h"

/* Exit code of a command that did its work, but not all of it (EX_TEMPFAIL of sysexits.h). */
#define APP_EXIT_PARTIAL 75
void app_note_partial(void);

/* Of the process, for what its command returned. */
int app_exit_code(sac_status s);

#endif
