#include "completion.h"
#include "commands.h"
#include "status.h"

#include <stdio.h>
#include <string.h>

/* What stands after an option. */
typedef enum operand { OPERAND_NONE, OPERAND_NAMES, OPERAND_FILE, OPERAND_FOLDER, OPERAND_OTHER } operand;

static operand operand_of(const setting *row) {
    if (row->kind == SETTING_FLAG) return OPERAND_NONE;
    if (options_names(row)) return OPERAND_NAMES;
    if (strstr(row->value, "FILE") || strstr(row->value, "LIST") || !strcmp(row->value, "MODEL"))
        return OPERAND_FILE;
    return strncmp(row->value, "DIR", 3) ? OPERAND_OTHER : OPERAND_FOLDER;
}

static void print_names(const setting *row) {
    const char *const *names = options_names(row);
    for (size_t i = 0; names[i]; i++) printf("%s%s", i ? " " : "", names[i]);
}

static void print_commands(void) {
    for (const command *const *c = command_list; *c; c++)
        printf("%s%s", c == command_list ? "" : " ", (*c)->name);
}

/* Within single quotes: a backslash before each of `special`, and `quote` for a single quote. */
static void print_quoted(const char *text, size_t n, const char *special, const char *quote) {
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\'') {
            fputs(quote, stdout);
            continue;
        }
        if (strchr(special, text[i])) putchar('\\');
        putchar(text[i]);
    }
}

/* Of the first clause of what an option does. */
static size_t clause_bytes(const char *help) {
    static const char *const ends[] = {"; ", ": ", " ("};
    size_t n = strlen(help);
    for (size_t i = 0; i < SAC_COUNT(ends); i++) {
        const char *end = strstr(help, ends[i]);
        if (end && (size_t)(end - help) < n) n = (size_t)(end - help);
    }
    return n;
}

/* ---------------------------------------------------------------- bash */

static void print_bash_options(void) {
    for (const command *const *c = command_list; *c; c++) {
        printf("    %s) options=\"", (*c)->name);
        for (size_t i = 0; i < settings_n; i++)
            if (settings_table[i].commands & (*c)->mask) printf("--%s ", settings_table[i].name);
        puts("\" ;;");
    }
}

static void print_bash_values(operand kind, const char *action) {
    const char *before = "    ";
    for (size_t i = 0; i < settings_n; i++) {
        const setting *row = &settings_table[i];
        if (operand_of(row) != kind) continue;
        printf("%s--%s", before, row->name);
        if (row->letter) printf("|-%c", row->letter);
        before = "|";
        if (kind != OPERAND_NAMES) continue;
        printf(") words=\"");
        print_names(row);
        puts("\" ;;");
        before = "    ";
    }
    if (kind != OPERAND_NAMES) printf(") %s ;;\n", action);
}

static void print_bash(void) {
    puts("# Completions of saccade for bash; made by 'saccade completion bash'.\n"
         "_saccade() {\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} options='' words=''\n"
         "    COMPREPLY=()\n"
         "    if [ \"$cur\" = = ]; then\n"
         "        cur=''\n"
         "    elif [ \"$prev\" = = ]; then\n"
         "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
         "    fi\n"
         "    case ${COMP_WORDS[1]} in");
    print_bash_options();
    printf("    help|manual) words=\"");
    print_commands();
    puts("\" ;;\n"
         "    completion) words='bash zsh fish' ;;\n"
         "    esac\n"
         "    if [ \"$COMP_CWORD\" -eq 1 ]; then");
    printf("        words=\"");
    print_commands();
    puts(" help manual completion --help --version\"\n"
         "    else\n"
         "    case $prev in");
    print_bash_values(OPERAND_NAMES, NULL);
    print_bash_values(OPERAND_FILE, "_saccade_files -f; return");
    print_bash_values(OPERAND_FOLDER, "_saccade_files -d; return");
    print_bash_values(OPERAND_OTHER, "return");
    puts("    *) case $cur in -*) words=$options ;; esac ;;\n"
         "    esac\n"
         "    fi\n"
         "    if [ -n \"$words\" ]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
         "    else\n"
         "        _saccade_files -f\n"
         "    fi\n"
         "}\n"
         "_saccade_files() {\n"
         "    compopt -o filenames 2>/dev/null\n"
         "    mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$cur\")\n"
         "}\n"
         "complete -F _saccade saccade");
}

/* ---------------------------------------------------------------- zsh */

static void print_zsh_option(const setting *row) {
    const char *repeat = row->kind == SETTING_MEDIA || row->kind == SETTING_TEXTS ? "*" : "";
    operand kind = operand_of(row);
    if (row->letter)
        printf("      '%s'{-%c,--%s}'[", repeat, row->letter, row->name);
    else
        printf("      '%s--%s[", repeat, row->name);
    print_quoted(row->help, clause_bytes(row->help), "[]:\\", "'\\''");
    putchar(']');
    if (kind != OPERAND_NONE) {
        putchar(':');
        print_quoted(row->value, strlen(row->value), ":", "");
        putchar(':');
    }
    if (kind == OPERAND_NAMES) {
        putchar('(');
        print_names(row);
        putchar(')');
    }
    puts(kind == OPERAND_FILE ? "_files' \\" : kind == OPERAND_FOLDER ? "_files -/' \\" : "' \\");
}

static void print_zsh(void) {
    puts("#compdef saccade\n"
         "# Completions of saccade for zsh; made by 'saccade completion zsh'.\n"
         "_saccade() {\n"
         "  local -a others=('help:the options of a command' 'manual:its manual page' 'completion:for a "
         "shell')\n"
         "  local -a commands=(");
    for (const command *const *c = command_list; *c; c++) {
        printf("    '%s:", (*c)->name);
        print_quoted((*c)->brief, strlen((*c)->brief), ":\\", "'\\''");
        puts("'");
    }
    puts("  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe command commands -- others\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $command in");
    for (const command *const *c = command_list; *c; c++) {
        printf("    %s) _arguments \\\n", (*c)->name);
        for (size_t i = 0; i < settings_n; i++)
            if (settings_table[i].commands & (*c)->mask) print_zsh_option(&settings_table[i]);
        puts("      '*:file:_files' ;;");
    }
    puts("    help|manual) _describe command commands ;;\n"
         "    completion) compadd bash zsh fish ;;\n"
         "  esac\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _saccade ]; then\n"
         "  _saccade \"$@\"\n"
         "else\n"
         "  compdef _saccade saccade\n"
         "fi");
}

/* ---------------------------------------------------------------- fish */

static void print_fish_option(const setting *row) {
    unsigned here = 0;
    for (const command *const *c = command_list; *c; c++) here |= (*c)->mask;
    if (!(row->commands & here)) return;
    printf("complete -c saccade -n '__fish_seen_subcommand_from");
    for (const command *const *c = command_list; *c; c++)
        if (row->commands & (*c)->mask) printf(" %s", (*c)->name);
    printf("' -l %s", row->name);
    if (row->letter) printf(" -s %c", row->letter);
    switch (operand_of(row)) {
    case OPERAND_NONE: break;
    case OPERAND_NAMES:
        printf(" -x -a '");
        print_names(row);
        putchar('\'');
        break;
    case OPERAND_FILE: printf(" -r -F"); break;
    case OPERAND_FOLDER: printf(" -x -a '(__fish_complete_directories)'"); break;
    case OPERAND_OTHER: printf(" -x"); break;
    }
    printf(" -d '");
    print_quoted(row->help, clause_bytes(row->help), "\\", "\\'");
    puts("'");
}

static void print_fish(void) {
    puts("# Completions of saccade for fish; made by 'saccade completion fish'.\n"
         "complete -c saccade -n __fish_use_subcommand -f");
    for (const command *const *c = command_list; *c; c++) {
        printf("complete -c saccade -n __fish_use_subcommand -a %s -d '", (*c)->name);
        print_quoted((*c)->brief, strlen((*c)->brief), "\\", "\\'");
        puts("'");
    }
    puts("complete -c saccade -n __fish_use_subcommand -a help -d 'the options of a command'\n"
         "complete -c saccade -n __fish_use_subcommand -a manual -d 'its manual page'\n"
         "complete -c saccade -n __fish_use_subcommand -a completion -d 'for a shell'\n"
         "complete -c saccade -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'");
    printf("complete -c saccade -n '__fish_seen_subcommand_from help manual' -f -a '");
    print_commands();
    puts("'");
    for (size_t i = 0; i < settings_n; i++) print_fish_option(&settings_table[i]);
}

sac_status completion_print(const char *shell, sac_error *err) {
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    for (size_t i = 0; i < SAC_COUNT(shells); i++)
        if (!strcmp(shells[i].name, shell)) {
            shells[i].print();
            return SAC_OK;
        }
    return sac_fail(err, SAC_BAD_ARGUMENT, "completion '%.60s': give bash, zsh or fish", shell);
}
