/* commands.h - the subcommands; each is in the file of its name. */
#ifndef APP_COMMANDS_H
#define APP_COMMANDS_H

#include "options.h"
#include "run.h"

extern const command command_ask, command_inspect, command_bench, command_eval, command_compare, command_tune, command_reproduce,
    command_caption, command_serve, command_calibrate, command_quantize;

/* Those of this build, as lists show them, NULL-terminated; main.c has it. */
extern const command *const command_list[];

/* A conversation on a terminal, until /quit or the end of input. media: shown with the first question. */
sac_status chat_run(run *r, const media_list *media, sac_error *err);

#endif
