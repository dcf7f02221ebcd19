#include "manual.h"
#include "commands.h"
#include "exit_code.h"

#include <saccade/saccade.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* `n` bytes of text as roff reads them: dashes that can be copied, backslashes, no line that begins like a
 * request. */
static void print_bytes(const char *text, size_t n, bool begins_line) {
    for (size_t i = 0; i < n; i++) {
        if (begins_line && (text[i] == '.' || text[i] == '\'')) fputs("\\&", stdout);
        if (text[i] == '-')
            fputs("\\-", stdout);
        else if (text[i] == '\\')
            fputs("\\e", stdout);
        else
            putchar(text[i]);
        begins_line = text[i] == '\n';
    }
}

static void print_text(const char *text) {
    print_bytes(text, strlen(text), true);
    putchar('\n');
}

/* Lines as they stand, less the blanks that all begin with. */
static void print_examples(const char *lines) {
    puts(".SH EXAMPLES\n.EX");
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        size_t blanks = strspn(lines, " ");
        if (blanks > 2) blanks = 2;
        if (n >= blanks) print_bytes(lines + blanks, n - blanks, true);
        putchar('\n');
        lines += n + (lines[n] == '\n');
    }
    puts(".EE");
}

static void print_option(const setting *row) {
    fputs(".TP\n", stdout);
    if (row->letter) printf("\\fB\\-%c\\fR, ", row->letter);
    fputs("\\fB\\-\\-", stdout);
    print_bytes(row->name, strlen(row->name), false);
    fputs("\\fR", stdout);
    if (row->value) {
        fputs(" \\fI", stdout);
        print_bytes(row->value, strlen(row->value), false);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    print_bytes(row->help, strlen(row->help), true);
    const char *const *names = options_names(row);
    for (size_t i = 0; names && names[i]; i++) {
        fputs(i ? ", " : ": ", stdout);
        print_bytes(names[i], strlen(names[i]), false);
    }
    putchar('\n');
}

static void print_options(const command *c) {
    const char *heading = NULL;
    puts(".SH OPTIONS");
    for (size_t i = 0; i < settings_n; i++) {
        const setting *row = &settings_table[i];
        if (!(row->commands & c->mask)) continue;
        const char *own = options_heading(row);
        if (!heading || strcmp(own, heading)) {
            fputs(".SS ", stdout);
            print_text(own);
        }
        heading = own;
        print_option(row);
    }
    puts(".PP\nOptions may be cut short as long as no other begins like that.");
}

static void print_synopsis(const command *c) {
    puts(".SH SYNOPSIS");
    printf(".B saccade %s\n", c->name);
    const char *end = strchr(c->synopsis, '\n');
    size_t n = end ? (size_t)(end - c->synopsis) : strlen(c->synopsis);
    print_bytes(c->synopsis, n, true);
    putchar('\n');
    if (!end) return;
    puts(".br");
    print_text(end + strspn(end, "\n "));
}

static void print_exit_codes(void) {
    static const struct {
        int code;
        const char *text;
    } rows[] = {
#define X(name, value, text, exit_code) {exit_code, text},
        SAC_STATUS_LIST(X)
#undef X
            {APP_EXIT_PARTIAL, "done, but not all of it"}};
    puts(".SH EXIT STATUS\nA failure is one line on standard error.");
    for (int code = 0; code < 256; code++) {
        bool is_first = true;
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            if (rows[i].code != code) continue;
            if (is_first) printf(".TP\n.B %d\n", code);
            printf("%s%s", is_first ? "" : "; ", rows[i].text);
            is_first = false;
        }
        if (!is_first) putchar('\n');
    }
}

static void print_end(const command *c) {
    print_exit_codes();
    puts(".SH ENVIRONMENT\n.TP\n.B SACCADE_MODEL\nthe model when\n.B \\-m\nis not given\n"
         ".TP\n.B NO_COLOR\nno colours on a terminal\n"
         ".TP\n.B SACCADE_PICTURES\nhow a chat shows pictures: auto, kitty, iterm2, sixel or none\n.SH SEE ALSO");
    if (c) {
        puts(".BR saccade (1)");
        return;
    }
    for (const command *const *other = command_list; *other; other++)
        printf(".BR saccade\\-%s (1)%s\n", (*other)->name, other[1] ? "," : "");
}

static void print_overview(void) {
    puts(".TH SACCADE 1 \"\" \"saccade " SAC_VERSION "\" \"Saccade\"\n.SH NAME\n"
         "saccade \\- ask vision\\-language models about pictures and videos\n.SH SYNOPSIS\n.B saccade\n"
         ".I COMMAND\n[options]\n.SH COMMANDS");
    for (const command *const *c = command_list; *c; c++) {
        printf(".TP\n.B %s\n", (*c)->name);
        print_text((*c)->brief);
    }
    puts(".TP\n.BR help \" [\\fICOMMAND\\fR]\"\nthe options of a command\n"
         ".TP\n.BR manual \" [\\fICOMMAND\\fR]\"\nits manual page, for\n.B man \\-l \\-\n"
         ".TP\n.BR completion \" bash|zsh|fish\"\nwhat a shell has to know for its Tab key\n"
         ".TP\n.B \\-\\-version\nversion, how this binary was built, and its licence");
    print_examples("  saccade ask --image cat.jpg \"What is this?\"\n"
                   "  saccade ask -m MODEL --video clip.mp4 --num-frames 16 \"What happens?\"\n");
}

void manual_print(const command *c) {
    if (!c) {
        print_overview();
    } else {
        printf(".TH SACCADE\\-%s 1 \"\" \"saccade " SAC_VERSION "\" \"Saccade\"\n.SH NAME\nsaccade\\-%s \\- ",
               c->name, c->name);
        print_text(c->brief);
        print_synopsis(c);
        puts(".SH DESCRIPTION");
        print_text(c->summary);
        print_options(c);
        print_examples(c->examples);
    }
    print_end(c);
}
