#include "exit_code.h"

#include <stdbool.h>

static bool partial;

void app_note_partial(void) {
    partial = true;
}

int app_exit_code(sac_status s) {
    return s == SAC_OK && partial ? APP_EXIT_PARTIAL : sac_status_exit_code(s);
}
