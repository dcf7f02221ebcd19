/* options.h - the command line of a subcommand, read with the table of settings. */
#ifndef APP_OPTIONS_H
#define APP_OPTIONS_H

#include "settings.h"

typedef struct command {
    const char *name;     /* "ask" */
    unsigned mask;        /* COMMAND_ASK */
    const char *brief;    /* "answer a question": a line of a list of subcommands */
    const char *synopsis; /* "[options] \"question\"" */
    const char *summary;
    const char *examples;
    sac_status (*run)(const settings *s, char **words, int n_words, sac_error *err);
} command;

/* Reads argv[1..] (and the config file that it names) into `s`; the words that are no options are
 * argv[*first_word..] (options may stand before and after them). */
sac_status options_read(settings *s, const command *c, int argc, char **argv, int *first_word,
                        sac_error *err);

/* The --help text of a subcommand, to stdout. */
void options_print_help(const command *c);

/* The heading of --help under which a row stands. */
const char *options_heading(const setting *row);

/* The names that an option takes come from the library, so that no list can miss one; NULL-terminated. NULL: it takes
 * no names, or others too. */
const char *const *options_names(const setting *row);

#endif
