/* main.c - `saccade COMMAND ...`: finds the command, prints its failure as one line and exits with its code.
 */
#define _GNU_SOURCE
#include "commands.h"
#include "completion.h"
#include "exit_code.h"
#include "interrupt.h"
#include "manual.h"
#include "output.h"
#include "status.h"
#include "suggest.h"
#include "version.h"

#if defined APP_CAPTION || defined APP_SERVE
#define APP_INTAKE 1
#include "intake_decoder.h"
#endif

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const command *const command_list[] = {
    &command_ask,       &command_inspect,  &command_bench, &command_eval, &command_compare,
#ifdef APP_CAPTION
    &command_caption,
#endif
#ifdef APP_SERVE
    &command_serve,
#endif
    &command_calibrate, &command_quantize, NULL,
};

/* Those that a build may be told to leave out. */
static const struct {
    const char *name, *option, *needs;
} optional[] = {
    {"caption", "SAC_CAPTION", "libarchive and libseccomp"},
    {"serve", "SAC_SERVE", "libmicrohttpd, libcurl and libseccomp"},
};

static void print_usage(void) {
    puts("usage: saccade COMMAND [options]\n\n"
         "Asks vision-language models about pictures and videos.\n\n"
         "Commands:");
    for (const command *const *c = command_list; *c; c++) printf("  %-12s%s\n", (*c)->name, (*c)->brief);
    puts("  help        help [COMMAND]: its options\n"
         "  manual      manual [COMMAND]: its manual page, for 'man -l -'\n"
         "  completion  completion bash|zsh|fish: a script for the shell's Tab key\n\n"
         "Examples:\n"
         "  saccade ask --image cat.jpg \"What is this?\"\n"
         "  saccade ask -m MODEL --video clip.mp4 --num-frames 16 \"What happens?\"\n"
         "  saccade help ask");
}

static const command *find_command(const char *name) {
    for (const command *const *c = command_list; *c; c++)
        if (!strcmp((*c)->name, name)) return *c;
    return NULL;
}

static sac_status unknown_command(const char *name, sac_error *err) {
    for (size_t i = 0; i < SAC_COUNT(optional); i++)
        if (!strcmp(optional[i].name, name))
            return sac_fail(err, SAC_UNSUPPORTED,
                            "this build has no '%s': build with -D%s=ON, which needs %s", name,
                            optional[i].option, optional[i].needs);
    suggestion near = {.typed = name};
    static const char *const others[] = {"help", "--help", "manual", "completion", "--version"};
    for (const command *const *c = command_list; *c; c++) suggest_offer(&near, (*c)->name);
    for (size_t i = 0; i < SAC_COUNT(others); i++) suggest_offer(&near, others[i]);
    return sac_fail(err, SAC_BAD_ARGUMENT, "unknown command '%.60s'; %s%s%see 'saccade --help'", name,
                    near.best ? "did you mean " : "", near.best ? near.best : "", near.best ? "? S" : "s");
}

static sac_status run_help(int argc, char **argv, sac_error *err) {
    const command *c = argc > 2 ? find_command(argv[2]) : NULL;
    if (argc > 2 && !c) return unknown_command(argv[2], err);
    if (c)
        options_print_help(c);
    else
        print_usage();
    return output_finish(err);
}

static sac_status run_manual(int argc, char **argv, sac_error *err) {
    const command *c = argc > 2 ? find_command(argv[2]) : NULL;
    if (argc > 2 && !c) return unknown_command(argv[2], err);
    manual_print(c);
    return output_finish(err);
}

static sac_status run_completion(int argc, char **argv, sac_error *err) {
    SAC_TRY(completion_print(argc > 2 ? argv[2] : "", err));
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
    if (!strcmp(name, "manual")) return run_manual(argc, argv, err);
    if (!strcmp(name, "completion")) return run_completion(argc, argv, err);
    const command *c = find_command(name);
    return c ? run_command(c, argc - 1, argv + 1, err) : unknown_command(name, err);
}

int main(int argc, char **argv) {
    /* The process that decodes media for the server and for captions; before any thread, because it forks. */
#ifdef APP_INTAKE
    if (argc == 3 && !strcmp(argv[1], "media-helper")) return intake_child_run(atoi(argv[2]));
#endif
    output_start();
    interrupt_start();
    sac_error err = {0};
    sac_status st = run_main(argc, argv, &err);
    if (st == SAC_IO && output_has_no_reader()) { /* quietly, as `head` and its like expect */
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    if (st != SAC_OK) fprintf(stderr, "saccade: %s%s\n", err.text, st == SAC_CANCELLED ? interrupt_advice() : "");
    return app_exit_code(st);
}
