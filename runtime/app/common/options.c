#define _GNU_SOURCE
#include "options.h"
#include "run_config.h"
#include "status.h"
#include "suggest.h"

#include <saccade/saccade.h>

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { HELP_COLUMNS = 80, HELP_AT = 30 }; /* where what an option does begins */
enum { FIRST_LONG = 256 };                /* getopt's value of the table's row 0; below are letters */

typedef struct getopt_tables {
    struct option longs[SETTINGS_MAX + 1];
    char letters[2 + 2 * SETTINGS_MAX + 1];
} getopt_tables;

static void fill_tables(getopt_tables *t, unsigned mask) {
    char *letter = t->letters;
    struct option *o = t->longs;
    *letter++ = ':'; /* tells a missing value from an unknown option */
    for (size_t i = 0; i < settings_n; i++) {
        const setting *row = &settings_table[i];
        if (!(row->commands & mask)) continue;
        int has_value = row->kind == SETTING_FLAG ? no_argument : required_argument;
        *o++ = (struct option){row->name, has_value, NULL, FIRST_LONG + (int)i};
        if (!row->letter) continue;
        *letter++ = row->letter;
        if (has_value == required_argument) *letter++ = ':';
    }
    *o = (struct option){0};
    *letter = 0;
}

static const setting *row_of(int value, unsigned mask) {
    if (value >= FIRST_LONG) return &settings_table[value - FIRST_LONG];
    for (size_t i = 0; i < settings_n; i++)
        if (settings_table[i].letter == value && (settings_table[i].commands & mask))
            return &settings_table[i];
    return NULL;
}

/* "--imgae=cat.jpg": image; NULL: none is near. */
static const char *nearest_option(const char *word, unsigned mask) {
    char typed[61];
    word += strspn(word, "-");
    snprintf(typed, sizeof typed, "%.*s", (int)strcspn(word, "="), word);
    suggestion near = {.typed = typed};
    for (size_t i = 0; i < settings_n; i++)
        if (settings_table[i].commands & mask) suggest_offer(&near, settings_table[i].name);
    return near.best;
}

static sac_status bad_option(const command *c, char **argv, sac_error *err) {
    const setting *row = optopt ? row_of(optopt, c->mask) : NULL;
    if (row) return sac_fail(err, SAC_BAD_ARGUMENT, "--%s takes no value", row->name);
    if (optopt && optopt < FIRST_LONG)
        return sac_fail(err, SAC_BAD_ARGUMENT, "unknown option '-%c'; see 'saccade %s --help'", optopt,
                        c->name);
    const char *near = nearest_option(argv[optind - 1], c->mask);
    return sac_fail(err, SAC_BAD_ARGUMENT, "unknown option '%.80s'; %s%s%see 'saccade %s --help'",
                    argv[optind - 1], near ? "did you mean --" : "", near ? near : "", near ? "? S" : "s",
                    c->name);
}

sac_status options_read(settings *s, const command *c, int argc, char **argv, int *first_word,
                        sac_error *err) {
    getopt_tables t;
    fill_tables(&t, c->mask);
    opterr = 0;
    optind = 1;
    for (int value; (value = getopt_long(argc, argv, t.letters, t.longs, NULL)) != -1;) {
        if (value == '?') return bad_option(c, argv, err);
        const setting *row = row_of(value == ':' ? optopt : value, c->mask);
        if (value == ':')
            return sac_fail(err, SAC_BAD_ARGUMENT, "--%s needs a value: %s", row->name, row->value);
        const char *text = row->kind == SETTING_FLAG ? "true" : optarg;
        if (settings_set(s, row, text, ORIGIN_COMMAND_LINE, err) != SAC_OK)
            return sac_fail_prefix(err, err->status, "--%s", row->name);
    }
    *first_word = optind;
    if (s->config && !s->help) return run_config_read(s, s->config, err);
    return SAC_OK;
}

/* `text` in lines of at most 80 bytes, the first continued from column `at`, the others indented to it. Its own line ends
 * are blanks. */
static void print_wrapped(const char *text, size_t at) {
    for (size_t column = at; *text;) {
        size_t n = strcspn(text, " \n");
        if (column > at && column + 1 + n > HELP_COLUMNS) {
            printf("\n%*s", (int)at, "");
            column = at;
        }
        if (column > at) column += (size_t)printf(" ");
        column += (size_t)printf("%.*s", (int)n, text);
        text += n;
        text += strspn(text, " \n");
    }
    putchar('\n');
}

const char *const *options_names(const setting *row) {
    if (!strcmp(row->name, "chat")) return sac_chat_format_names();
    if (row->commands == COMMAND_QUANTIZE && !strcmp(row->name, "format")) return sac_weight_format_names();
    if (!strcmp(row->name, "weights")) return sac_weight_format_names();
    if (!strcmp(row->name, "prefill")) return sac_prefill_names();
    if (!strcmp(row->name, "decode")) return sac_decode_names();
    if (!strcmp(row->name, "reduce")) return sac_reduce_names();
    return strcmp(row->name, "kv") ? NULL : sac_kv_names();
}

static void print_option(const setting *row) {
    char left[64], help[400];
    int used = snprintf(help, sizeof help, "%s", row->help);
    const char *const *names = options_names(row);
    for (size_t i = 0; names && names[i] && (size_t)used < sizeof help; i++)
        used += snprintf(help + used, sizeof help - (size_t)used, "%s%s", i ? ", " : ": ", names[i]);
    int n = snprintf(left, sizeof left, row->letter ? "  -%c, " : "      ", row->letter);
    snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", row->name, row->value ? " " : "",
             row->value ? row->value : "");
    printf("%-*s", HELP_AT - 1, left);
    if (strlen(left) < HELP_AT)
        putchar(' ');
    else
        printf("\n%*s", HELP_AT, "");
    print_wrapped(help, HELP_AT);
}

const char *options_heading(const setting *row) {
    if (row->kind == SETTING_MEDIA) return "Media (shown before the question, in the order given)";
    if (!row->group) return "General";
    return !strcmp(row->group, "video")       ? "Which frames of a video ('video:' in a config file)"
           : !strcmp(row->group, "sampling")  ? "The answer ('sampling:')"
           : !strcmp(row->group, "session")   ? "Context and attention ('session:')"
           : !strcmp(row->group, "bench")     ? "Measuring ('bench:')"
           : !strcmp(row->group, "compare")   ? "Methods ('compare:')"
           : !strcmp(row->group, "tune")      ? "The search ('tune:')"
           : !strcmp(row->group, "reproduce") ? "The benchmark ('reproduce:')"
           : !strcmp(row->group, "caption")   ? "Captions ('caption:')"
           : !strcmp(row->group, "serve")     ? "Requests ('serve:')"
                                              : "Question sets and jobs ('eval:')";
}

void options_print_help(const command *c) {
    printf("usage: saccade %s %s\n\n", c->name, c->synopsis);
    print_wrapped(c->summary, 0);
    const char *heading = NULL;
    for (size_t i = 0; i < settings_n; i++) {
        const setting *row = &settings_table[i];
        if (!(row->commands & c->mask)) continue;
        const char *own = options_heading(row);
        if (!heading || strcmp(own, heading)) printf("\n%s:\n", own);
        heading = own;
        print_option(row);
    }
    printf("\nOptions may be cut short as long as no other begins like that.\n");
    printf("\nExamples:\n%s", c->examples);
}
