#define _GNU_SOURCE
#include "chat_edit.h"
#include "interrupt.h"
#include "status.h"

#ifdef SAC_LIBEDIT
#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#define PASTE_MAX ((size_t)1 << 20) /* characters; more are dropped */
#define SHOWN_MAX 200               /* names that Tab lists */

struct chat_edit {
    EditLine *line;
    History *history;
    locale_t utf8; /* what is typed is UTF-8, whatever LANG says: so is all that a model reads and writes */
    const chat_word *words;
    size_t n_words;
    const char *prompt;
    char *text;
    bool interrupted;
};

static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";
static struct termios terminal_before; /* for a SIGINT from elsewhere while a line is edited */

static void leave_terminal(void) {
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
    if (write(STDERR_FILENO, paste_off, sizeof paste_off - 1) > 0) interrupt_quit();
    interrupt_quit();
}

static chat_edit *editor_of(EditLine *line) {
    void *e = NULL;
    el_get(line, EL_CLIENTDATA, &e);
    return e;
}

static char *prompt_of(EditLine *line) {
    return (char *)editor_of(line)->prompt;
}

/* ---------------------------------------------------------------- keys */

/* Ends the line as Enter does; the reader drops it. */
static unsigned char on_interrupt(EditLine *line, wint_t key) {
    (void)key;
    editor_of(line)->interrupted = true;
    el_push(line, "\n");
    return CC_NORM;
}

/* Within this call libedit's handlers give the terminal back and take it again. */
static unsigned char on_stop(EditLine *line, wint_t key) {
    (void)line, (void)key;
    raise(SIGTSTP);
    return CC_REDISPLAY;
}

static bool ends_with(const wchar_t *text, size_t n, const wchar_t *end) {
    size_t n_end = wcslen(end);
    return n >= n_end && !wmemcmp(text + n - n_end, end, n_end);
}

/* Everything up to the end mark, as it is: a line end within does not send it. */
static unsigned char on_paste(EditLine *line, wint_t key) {
    static const wchar_t mark[] = L"\033[201~";
    size_t n = 0, n_mark = wcslen(mark);
    wchar_t *text = malloc((PASTE_MAX + 1) * sizeof *text), c;
    (void)key;
    if (!text) return CC_ERROR;
    bool whole = false;
    while (!whole && el_wgetc(line, &c) == 1) {
        if (n == PASTE_MAX) { /* only the mark is looked for */
            wmemmove(text + n - n_mark, text + n - n_mark + 1, n_mark - 1);
            n--;
        }
        text[n++] = c == L'\r' ? L'\n' : c;
        whole = ends_with(text, n, mark);
    }
    n -= whole ? n_mark : 0;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if ((text[i] >= 0x20 && (text[i] < 0x7f || text[i] >= 0xa0)) || text[i] == L'\n' || text[i] == L'\t') text[kept++] = text[i];
    while (kept && text[kept - 1] == L'\n') kept--;
    text[kept] = 0;
    bool put = !kept || el_winsertstr(line, text) == 0;
    free(text);
    return put ? CC_REFRESH : CC_ERROR;
}

static size_t columns_of(const char *name) {
    wchar_t wide[256];
    size_t n = mbstowcs(wide, name, 255);
    int width = n < 255 ? wcswidth(wide, n) : -1;
    return width < 0 ? strlen(name) : (size_t)width;
}

static void show_names(const chat_completion *c) {
    struct winsize w;
    size_t room = ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : 80, at = 0;
    fputc('\n', stderr);
    for (size_t i = 0; i < c->n_names && i < SHOWN_MAX; i++) {
        size_t n = columns_of(c->names[i]);
        if (at && at + n >= room) {
            fputc('\n', stderr);
            at = 0;
        }
        fprintf(stderr, "%s  ", c->names[i]);
        at += n + 2;
    }
    if (c->n_names > SHOWN_MAX) fprintf(stderr, "and %zu more", c->n_names - SHOWN_MAX);
    fputc('\n', stderr);
}

static unsigned char on_tab(EditLine *line, wint_t key) {
    const chat_edit *e = editor_of(line);
    const LineInfo *info = el_line(line);
    char *before = strndup(info->buffer, (size_t)(info->cursor - info->buffer));
    chat_completion c = {0};
    unsigned char todo = CC_ERROR;
    (void)key;
    if (before && chat_complete(&c, before, e->words, e->n_words)) {
        if (*c.insert) {
            if (el_insertstr(line, c.insert) == 0) todo = CC_REFRESH;
        } else if (c.n_names > 1) {
            show_names(&c);
            todo = CC_REDISPLAY;
        }
    }
    chat_completion_free(&c);
    free(before);
    return todo;
}

static void bind_keys(EditLine *line) {
    static const char *const keys[][2] = {
        {"^C", "chat-interrupt"},
        {"^Z", "chat-stop"},
        {"\\e[200~", "chat-paste"},
        {"^I", "chat-complete"},
        {"^R", "em-inc-search-prev"},
        {"^U", "vi-kill-line-prev"}, /* as a shell: what is before the cursor */
        {"^W", "ed-delete-prev-word"},
        {"\\e[H", "ed-move-to-beg"},
        {"\\eOH", "ed-move-to-beg"},
        {"\\e[1~", "ed-move-to-beg"},
        {"\\e[7~", "ed-move-to-beg"},
        {"\\e[F", "ed-move-to-end"},
        {"\\eOF", "ed-move-to-end"},
        {"\\e[4~", "ed-move-to-end"},
        {"\\e[8~", "ed-move-to-end"},
        {"\\e[3~", "ed-delete-next-char"},
        {"\\e[1;5D", "ed-prev-word"},
        {"\\e[1;5C", "em-next-word"},
    };
    /* el_set would copy the names and never free them. */
    el_wset(line, EL_ADDFN, L"chat-interrupt", L"Drops the line", on_interrupt);
    el_wset(line, EL_ADDFN, L"chat-stop", L"Stops as Ctrl-Z does", on_stop);
    el_wset(line, EL_ADDFN, L"chat-paste", L"Takes in what is pasted", on_paste);
    el_wset(line, EL_ADDFN, L"chat-complete", L"Completes commands and paths", on_tab);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        el_set(line, EL_BIND, keys[i][0], keys[i][1], NULL);
}

/* ---------------------------------------------------------------- the editor */

static bool has_terminal(void) {
    const char *term = getenv("TERM");
    return term && *term && strcmp(term, "dumb") && isatty(STDIN_FILENO) && isatty(STDERR_FILENO) &&
           tcgetattr(STDIN_FILENO, &terminal_before) == 0;
}

void chat_edit_remember(chat_edit *e, const char *text) {
    HistEvent event;
    history(e->history, &event, H_ENTER, text);
}

void chat_edit_push(chat_edit *e, const char *keys) {
    locale_t had = uselocale(e->utf8);
    el_push(e->line, keys);
    uselocale(had);
}

static bool start(chat_edit *e, const chat_history *past) {
    HistEvent event;
    e->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!e->utf8) return false;
    locale_t had = uselocale(e->utf8);
    e->line = el_init("saccade", stdin, stderr, stderr);
    e->history = history_init();
    bool ok = e->line && e->history;
    if (ok) {
        history(e->history, &event, H_SETSIZE, CHAT_HISTORY_MAX);
        history(e->history, &event, H_SETUNIQUE, 1);
        el_set(e->line, EL_CLIENTDATA, e);
        el_set(e->line, EL_HIST, history, e->history);
        el_set(e->line, EL_PROMPT, prompt_of);
        el_set(e->line, EL_EDITOR, "emacs");
        el_set(e->line, EL_SIGNAL, 1);
        el_source(e->line, NULL);
        el_set(e->line, EL_SETTY, "-d", "-isig", NULL); /* Ctrl-C is a key */
        bind_keys(e->line);
        for (size_t i = 0; i < past->n_entries; i++) chat_edit_remember(e, past->entries[i]);
    }
    uselocale(had);
    return ok;
}

chat_edit *chat_edit_open(const chat_history *past, const chat_word *words, size_t n_words) {
    chat_edit *e = has_terminal() ? calloc(1, sizeof *e) : NULL;
    if (!e) return NULL;
    e->words = words;
    e->n_words = n_words;
    if (start(e, past)) return e;
    chat_edit_close(e);
    return NULL;
}

sac_status chat_edit_read(chat_edit *e, const char *prompt, char **text, bool *interrupted, sac_error *err) {
    int n = 0;
    free(e->text);
    e->text = *text = NULL;
    e->prompt = prompt;
    e->interrupted = false;
    locale_t had = uselocale(e->utf8);
    fputs(paste_on, stderr);
    fflush(stderr);
    interrupt_call(leave_terminal);
    el_set(e->line, EL_PREP_TERM, 1); /* before the prompt is seen: a key typed at once is a key */
    const char *typed = el_gets(e->line, &n);
    int bad = n < 0 ? errno : 0;
    interrupt_call(NULL);
    fputs(paste_off, stderr);
    fflush(stderr);
    uselocale(had);
    *interrupted = e->interrupted;
    if (bad) return sac_fail(err, SAC_IO, "standard input: %s", strerror(bad));
    if (!typed || n == 0) return SAC_OK;
    if (typed[n - 1] == '\n') n--;
    *text = e->text = strndup(typed, (size_t)n);
    return e->text ? SAC_OK : sac_fail_no_memory(err);
}

void chat_edit_close(chat_edit *e) {
    if (!e) return;
    if (e->line) el_end(e->line);
    if (e->history) history_end(e->history);
    if (e->utf8) freelocale(e->utf8);
    free(e->text);
    free(e);
}

#else

chat_edit *chat_edit_open(const chat_history *past, const chat_word *words, size_t n_words) {
    (void)past, (void)words, (void)n_words;
    return NULL;
}

sac_status chat_edit_read(chat_edit *e, const char *prompt, char **text, bool *interrupted, sac_error *err) {
    (void)e, (void)prompt, (void)text, (void)interrupted;
    return sac_fail(err, SAC_INTERNAL, "this build has no line editor");
}

void chat_edit_remember(chat_edit *e, const char *text) {
    (void)e, (void)text;
}

void chat_edit_push(chat_edit *e, const char *keys) {
    (void)e, (void)keys;
}

void chat_edit_close(chat_edit *e) {
    (void)e;
}
#endif
