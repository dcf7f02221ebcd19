#define _GNU_SOURCE
#include "chat_complete.h"
#include "chat_path.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void chat_completion_free(chat_completion *c) {
    for (size_t i = 0; i < c->n_names; i++) free(c->names[i]);
    free(c->names);
    free(c->insert);
    *c = (chat_completion){0};
}

/* name, and '/' behind a folder's */
static bool add_name(chat_completion *c, const char *name, bool is_folder) {
    char **names = realloc(c->names, (c->n_names + 1) * sizeof *names);
    if (!names) return false;
    c->names = names;
    char *copy;
    if (asprintf(&copy, "%s%s", name, is_folder ? "/" : "") < 0) return false;
    names[c->n_names++] = copy;
    return true;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* How many bytes all names begin with, whole characters of UTF-8 only. */
static size_t common_bytes(const chat_completion *c) {
    const char *first = c->n_names ? c->names[0] : "";
    size_t n = strlen(first);
    for (size_t i = 1; i < c->n_names; i++) {
        size_t k = 0;
        while (k < n && first[k] == c->names[i][k]) k++;
        n = k;
    }
    while (n && ((unsigned char)first[n] & 0xc0) == 0x80) n--;
    return n;
}

/* What all names have in common behind the n_typed bytes that are there. Within quotes a blank is itself. */
static bool set_insert(chat_completion *c, size_t n_typed, char quote, bool is_path) {
    size_t n = common_bytes(c);
    char *to = c->insert = malloc(2 * n + 2);
    if (!to) return false;
    for (size_t i = n_typed; i < n; i++) {
        char byte = c->names[0][i];
        if (is_path &&
            (quote ? byte == quote || (quote == '"' && byte == '\\') : strchr(" \t'\"\\", byte) != NULL))
            *to++ = '\\';
        *to++ = byte;
    }
    bool is_whole = c->n_names == 1 && n && c->names[0][n - 1] != '/';
    if (is_whole && is_path && quote) *to++ = quote;
    if (is_whole && !is_path) *to++ = ' ';
    *to = 0;
    return true;
}

static bool is_printable(const char *name) {
    for (; *name; name++)
        if ((unsigned char)*name < 0x20 || *name == 0x7f ||
            ((unsigned char)*name == 0xc2 && (unsigned char)name[1] < 0xa0))
            return false;
    return true;
}

static bool add_files(chat_completion *c, const char *folder, const char *base) {
    size_t n = strlen(base);
    DIR *d = opendir(*folder ? folder : ".");
    bool ok = true;
    for (struct dirent *e; ok && d && (e = readdir(d));) {
        struct stat st;
        if (strncmp(e->d_name, base, n) || (e->d_name[0] == '.' && !n) || !is_printable(e->d_name)) continue;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        ok = add_name(c, e->d_name, fstatat(dirfd(d), e->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode));
    }
    if (d) closedir(d);
    return ok;
}

static bool complete_path(chat_completion *c, const char *typed) {
    char *path = strdup(typed), *full = NULL;
    char quote = path ? chat_path_unquote(path) : 0;
    if (path) full = typed[0] == '~' ? chat_path_from_home(path) : strdup(path);
    bool ok = full != NULL;
    if (ok) {
        char *slash = strrchr(full, '/');
        char *folder = slash ? strndup(full, (size_t)(slash + 1 - full)) : strdup("");
        const char *base = slash ? slash + 1 : full;
        ok = folder && add_files(c, folder, base);
        if (ok && c->n_names) qsort(c->names, c->n_names, sizeof *c->names, by_name);
        ok = ok && set_insert(c, strlen(base), quote, true);
        free(folder);
    }
    free(path);
    free(full);
    return ok;
}

/* The last word of `typed`. */
static bool complete_value(chat_completion *c, const char *typed, const char *const *values) {
    const char *blank = strrchr(typed, ' '), *word = blank ? blank + 1 : typed;
    size_t n = strlen(word);
    bool ok = true;
    for (; ok && *values; values++)
        if (!strncmp(*values, word, n)) ok = add_name(c, *values, false);
    if (ok && c->n_names) qsort(c->names, c->n_names, sizeof *c->names, by_name);
    bool is_whole = c->n_names == 1 && !strchr(c->names[0], '=');
    return ok && set_insert(c, n, 0, !is_whole);
}

/* A path in the place of a command, to be attached: "~/", or one that begins as no command does. */
static bool is_dropped_path(const char *before, const chat_word *words, size_t n_words) {
    size_t n = strcspn(before, " \t");
    if (before[0] == '~') return before[1] == '/';
    if (before[0] != '/') return false;
    for (size_t i = 0; i < n_words; i++)
        if (!strncmp(words[i].name, before, n)) return false;
    return true;
}

bool chat_complete(chat_completion *c, const char *before, const chat_word *words, size_t n_words) {
    *c = (chat_completion){0};
    size_t n = strcspn(before, " \t");
    if (is_dropped_path(before, words, n_words)) return complete_path(c, before);
    const char *value = before + n + strspn(before + n, " \t");
    bool ok = true;
    for (size_t i = 0; ok && before[0] == '/' && i < n_words; i++) {
        if (!before[n] && !strncmp(words[i].name, before, n)) ok = add_name(c, words[i].name, false);
        if (before[n] && words[i].takes_path && strlen(words[i].name) == n &&
            !strncmp(words[i].name, before, n))
            return complete_path(c, value);
        if (before[n] && words[i].values && strlen(words[i].name) == n && !strncmp(words[i].name, before, n))
            return complete_value(c, value, words[i].values);
    }
    if (ok && c->n_names) qsort(c->names, c->n_names, sizeof *c->names, by_name);
    return ok && set_insert(c, n, 0, false);
}
