/* main.c - `saccade COMMAND ...`: finds the command, prints its failure as one line and exits with its code.
 */
#define _GNU_SOURCE
#include "commands.h"
#include "exit_code.h"
#include "interrupt.h"
#include "output.h"
#include "status.h"
#include "suggest.h"
#include "version.h"

#include "intake_decoder.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const command *const commands[] = {&command_ask,   &command_inspect,  &command_bench,
                                          &command_eval,  &command_compare,  &command_caption,
                                          &command_serve, &command_calibrate};

static const char usage[] = "usage: saccade COMMAND [options]\n\n"
                            "Asks vision-language models about pictures and videos.\n\n"
                            "Commands:\n"
                            "  ask       answer a question; without one, on a terminal, a chat\n"
                            "  inspect   tell what a model is and the memory it takes\n"
                            "  bench     measure how fast each part is\n"
                            "  eval      ask and score a set of questions about videos\n"
                            "  compare   the same set under several attention methods, in one table\n"
                            "  caption   describe a folder, a manifest or tar shards of pictures and videos\n"
                            "  serve     answer over HTTP, with OpenAI's API\n"
                            "  calibrate measure which heads look far back, for --decode duo\n"
                            "  help      help [COMMAND]\n\n"
                            "Examples:\n"
                            "  saccade ask --image cat.jpg \"What is this?\"\n"
                            "  saccade ask -m MODEL --video clip.mp4 --num-frames 16 \"What happens?\"\n"
                            "  saccade help ask\n";

static const command *find_command(const char *name) {
    for (size_t i = 0; i < SAC_COUNT(commands); i++)
        if (!strcmp(commands[i]->name, name)) return commands[i];
    return NULL;
}

static sac_status unknown_command(const char *name, sac_error *err) {
    suggestion near = {.typed = name};
    for (size_t i = 0; i < SAC_COUNT(commands); i++) suggest_offer(&near, commands[i]->name);
    suggest_offer(&near, "help");
    suggest_offer(&near, "--help");
    suggest_offer(&near, "--version");
    return sac_fail(err, SAC_BAD_ARGUMENT, "unknown command '%.60s'; %s%s%see 'saccade --help'", name,
                    near.best ? "did you mean " : "", near.best ? near.best : "", near.best ? "? S" : "s");
}

static sac_status run_help(int argc, char **argv, sac_error *err) {
    const command *c = argc > 2 ? find_command(argv[2]) : NULL;
    if (argc > 2 && !c) return unknown_command(argv[2], err);
    if (c)
        options_print_help(c);
    else
        fputs(usage, stdout);
    return output_finish(err);
}

static sac_status run_command(const command *c, int argc, char **argv, sac_error *err) {
    settings s;
    int first_word;
    settings_init(&s);
    sac_status st = options_read(&s, c, argc, argv, &first_word, err);
    if (st == SAC_OK && s.help) {
        options_print_help(c);
        st = output_finish(err);
    } else if (st == SAC_OK) {
        st = c->run(&s, argv + first_word, argc - first_word, err);
    }
    settings_free(&s);
    return st;
}

static sac_status run_main(int argc, char **argv, sac_error *err) {
    const char *name = argc > 1 ? argv[1] : "";
    if (!*name) return sac_fail(err, SAC_BAD_ARGUMENT, "no command; see 'saccade --help'");
    if (!strcmp(name, "--version") || !strcmp(name, "version")) {
        version_print();
        return output_finish(err);
    }
    if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h"))
        return run_help(argc, argv, err);
    const command *c = find_command(name);
    return c ? run_command(c, argc - 1, argv + 1, err) : unknown_command(name, err);
}

int main(int argc, char **argv) {
    /* The process that decodes media for the server and for captions; before any thread, because it forks. */
    if (argc == 3 && !strcmp(argv[1], "media-helper")) return intake_child_run(atoi(argv[2]));
    output_start();
    interrupt_start();
    sac_error err = {0};
    sac_status st = run_main(argc, argv, &err);
    if (st == SAC_IO && output_has_no_reader()) { /* quietly, as `head` and its like expect */
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    if (st != SAC_OK) fprintf(stderr, "saccade: %s\n", err.text);
    return app_exit_code(st);
}
