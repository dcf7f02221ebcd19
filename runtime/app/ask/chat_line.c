#define _GNU_SOURCE
#include "chat_line.h"
#include "chat_edit.h"
#include "chat_history.h"
#include "status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX_BYTES ((size_t)16 << 20)

struct chat_line {
    chat_edit *edit; /* NULL: lines as they come */
    chat_history history;
    char *plain; /* the line as it came */
    size_t plain_room;
    char *text; /* what was typed, all lines */
    size_t n, room;
};

sac_status chat_line_open(chat_line **out, const chat_word *words, size_t n_words, sac_error *err) {
    chat_line *l = *out = calloc(1, sizeof *l);
    if (!l) return sac_fail_no_memory(err);
    sac_error why;
    if (chat_history_open(&l->history, &why) != SAC_OK)
        fprintf(stderr, "saccade: what is typed is not kept for the next chat: %s\n", why.text);
    l->edit = chat_edit_open(&l->history, words, n_words);
    return SAC_OK;
}

void chat_line_close(chat_line *l) {
    if (!l) return;
    chat_edit_close(l->edit);
    chat_history_close(&l->history);
    free(l->plain);
    free(l->text);
    free(l);
}

bool chat_line_has_history(const chat_line *l) {
    return l->edit != NULL;
}

void chat_line_push(chat_line *l, const char *keys) {
    if (l->edit && *keys) chat_edit_push(l->edit, keys);
}

static sac_status read_plain(chat_line *l, const char *prompt, char **line, sac_error *err) {
    fputs(prompt, stderr);
    ssize_t n = getline(&l->plain, &l->plain_room, stdin);
    *line = NULL;
    if (n < 0 && ferror(stdin)) return sac_fail(err, SAC_IO, "standard input: %s", strerror(errno));
    if (n < 0) return SAC_OK;
    while (n && strchr("\r\n", l->plain[n - 1])) l->plain[--n] = 0;
    *line = l->plain;
    return SAC_OK;
}

/* Adds a line, and a line end before it when it is not the first. */
static sac_status append(chat_line *l, const char *line, bool is_first, sac_error *err) {
    size_t more = strlen(line);
    if (is_first) l->n = 0;
    if (l->n + more + 2 > TEXT_MAX_BYTES)
        return sac_fail(err, SAC_TOO_LONG, "more than %zu bytes", TEXT_MAX_BYTES);
    if (l->n + more + 2 > l->room) {
        char *text = realloc(l->text, l->room = 2 * (l->n + more + 2));
        if (!text) return sac_fail_no_memory(err);
        l->text = text;
    }
    if (!is_first) l->text[l->n++] = '\n';
    memcpy(l->text + l->n, line, more + 1);
    l->n += more;
    return SAC_OK;
}

/* Whether a backslash that is none itself stands before the byte at i. */
static bool is_escaped(const char *text, size_t i) {
    size_t n = 0;
    while (n < i && text[i - 1 - n] == '\\') n++;
    return n % 2 == 1;
}

/* But for a blank that a backslash makes part of a path. */
static void trim_end(chat_line *l, const char *blanks) {
    while (l->n && strchr(blanks, l->text[l->n - 1]) && !is_escaped(l->text, l->n - 1)) l->text[--l->n] = 0;
}

static bool ends_in_quotes(const chat_line *l) {
    return l->n >= 6 && !memcmp(l->text + l->n - 3, "\"\"\"", 3);
}

/* Whether another line belongs to the text; a backslash that says so is taken off. */
static bool goes_on(chat_line *l) {
    if (!strncmp(l->text, "\"\"\"", 3)) return !ends_in_quotes(l);
    if (!l->n || l->text[l->n - 1] != '\\' || l->text[0] == '/') return false;
    l->text[--l->n] = 0;
    return true;
}

/* Without the quotes and the blanks around it. */
static char *inside(chat_line *l) {
    trim_end(l, " \t\r\n");
    char *text = l->text;
    if (!strncmp(text, "\"\"\"", 3)) {
        text += 3;
        if (ends_in_quotes(l)) l->text[l->n -= 3] = 0;
        trim_end(l, " \t\r\n");
    }
    return text < l->text + l->n ? text + strspn(text, " \t\r\n") : l->text + l->n;
}

/* A text that begins with a blank is not remembered, as in a shell. */
static void remember(chat_line *l) {
    sac_error why;
    if (!l->edit || !l->n || strchr(" \t", l->text[0])) return;
    chat_edit_remember(l->edit, l->text);
    if (chat_history_add(&l->history, l->text, &why) == SAC_OK) return;
    fprintf(stderr, "saccade: what is typed is not kept for the next chat: %s\n", why.text);
    free(l->history.path);
    l->history.path = NULL;
}

sac_status chat_line_read(chat_line *l, const char *prompt, char **text, sac_error *err) {
    bool is_first = true, interrupted = false;
    *text = NULL;
    do {
        char *line;
        const char *shown = is_first ? prompt : "... ";
        SAC_TRY(l->edit ? chat_edit_read(l->edit, shown, &line, &interrupted, err)
                        : read_plain(l, shown, &line, err));
        if (interrupted) {
            if (is_first && !(line && *line)) return sac_fail(err, SAC_CANCELLED, "cancelled");
            SAC_TRY(append(l, "", true, err));
            *text = l->text;
            return SAC_OK;
        }
        if (!line && is_first) {
            fputc('\n', stderr);
            return SAC_OK;
        }
        if (!line) break;
        SAC_TRY(append(l, line, is_first, err));
        trim_end(l, " \t\r");
        is_first = false;
    } while (goes_on(l));
    trim_end(l, " \t\r\n");
    remember(l);
    *text = inside(l);
    return SAC_OK;
}
