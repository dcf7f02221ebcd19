#define _GNU_SOURCE
#include "chat_path.h"
#include "chat_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_BYTES ((size_t)1 << 16) /* of a line that may be nothing but paths */

static const char blanks[] = " \t\r\n";

/* ---------------------------------------------------------------- quotes */

static int digits(const char *p, int base, int n_max, unsigned char *value) {
    static const char all[] = "0123456789abcdefABCDEF";
    int n = 0, v = 0;
    for (; n < n_max && p[n]; n++) {
        const char *at = strchr(all, p[n]);
        int digit = at ? (int)(at - all) : 99;
        if (digit >= 16 && digit < 22) digit -= 6;
        if (digit >= base) break;
        v = v * base + digit;
    }
    *value = (unsigned char)v;
    return n;
}

/* What stands behind a backslash within $'...': its value, and how many bytes it is written with. */
static unsigned char escaped(const char *p, size_t *n) {
    static const char names[] = "abefnrtv", values[] = "\a\b\033\f\n\r\t\v";
    const char *at = strchr(names, *p);
    unsigned char value = 0;
    int used = *p == 'x' ? digits(p + 1, 16, 2, &value) : 0;
    *n = 1;
    if (used) *n = 1 + (size_t)used;
    if (used && value) return value;
    used = digits(p, 8, 3, &value);
    if (used) *n = (size_t)used;
    if (used && value) return value;
    return at ? (unsigned char)values[at - names] : (unsigned char)*p;
}

/* A word without its quotes and backslashes to `to` (never longer than it is written): up to a blank outside of quotes, or
 * with `whole` to the end. Returns where it ended; *quote: the one that is still open, or 0. */
static const char *read_word(const char *p, char *to, bool whole, char *quote) {
    bool ansi = false;
    *quote = 0;
    for (; *p && (whole || *quote || !strchr(blanks, *p)); p++) {
        size_t n = 1;
        if (*quote ? *p == *quote : *p == '\'' || *p == '"') {
            *quote = *quote ? 0 : *p;
            ansi = false;
        } else if (!*quote && p[0] == '$' && p[1] == '\'') {
            *quote = *++p;
            ansi = true;
        } else if (*p == '\\' && p[1] && ansi) {
            *to++ = (char)escaped(p + 1, &n);
            p += n;
        } else if (*p == '\\' && p[1] && (!*quote || (*quote == '"' && strchr("\"\\$`", p[1])))) {
            *to++ = *++p;
        } else {
            *to++ = *p;
        }
    }
    *to = 0;
    return p;
}

char chat_path_unquote(char *path) {
    char quote;
    read_word(path, path, true, &quote);
    return quote;
}

/* ---------------------------------------------------------------- one path */

char *chat_path_from_home(const char *path) {
    const char *home = getenv("HOME");
    char *full;
    if (path[0] != '~' || (path[1] && path[1] != '/') || !home) return strdup(path);
    return asprintf(&full, "%s%s", home, path + 1) < 0 ? NULL : full;
}

/* In place. False: it is no valid coding of a path. */
static bool decode_percents(char *text) {
    char *to = text;
    for (const char *p = text; *p; p++) {
        unsigned char byte = (unsigned char)*p;
        if (*p == '%') {
            if (digits(p + 1, 16, 2, &byte) != 2 || !byte) return false;
            p += 2;
        }
        *to++ = (char)byte;
    }
    *to = 0;
    return true;
}

/* Of a file:// address the path, in place. */
static void strip_scheme(char *path) {
    static const char scheme[] = "file://", host[] = "localhost";
    size_t n = sizeof scheme - 1;
    if (strncasecmp(path, scheme, n)) return;
    if (!strncasecmp(path + n, host, sizeof host - 1)) n += sizeof host - 1;
    char *copy = path[n] == '/' ? strdup(path + n) : NULL;
    if (copy && decode_percents(copy)) strcpy(path, copy);
    free(copy);
}

static bool is_there(const char *path) {
    return *path && access(path, F_OK) == 0;
}

/* The name as the folder has it: `path` (which is given away) or another spelling of it that is there. */
static char *settle(char *path) {
    if (!path || is_there(path)) return path;
    char *other = chat_find_accents(path);
    if (!other && strchr(path, '%') && (other = strdup(path)) &&
        !(decode_percents(other) && is_there(other))) {
        char *both = chat_find_accents(other);
        free(other);
        other = both;
    }
    if (!other) return path;
    free(path);
    return other;
}

/* The file that a word means; `word` is without quotes, `typed` with them. */
static char *find_word(const char *typed, char *word) {
    strip_scheme(word);
    return settle(typed[0] == '~' ? chat_path_from_home(word) : strdup(word));
}

/* ---------------------------------------------------------------- several */

void chat_paths_free(chat_paths *paths) {
    for (size_t i = 0; i < paths->n; i++) free(paths->items[i]);
    free(paths->items);
    *paths = (chat_paths){0};
}

/* Takes the path over. */
static bool add(chat_paths *paths, char *path) {
    char **items = path ? realloc(paths->items, (paths->n + 1) * sizeof *items) : NULL;
    if (items) paths->items = items;
    if (items) items[paths->n++] = path;
    if (!items) free(path);
    return items != NULL;
}

static bool add_words(chat_paths *out, const char *typed) {
    char *word = malloc(strlen(typed) + 1), quote;
    bool ok = word != NULL;
    for (const char *p = typed + strspn(typed, blanks); ok && *p; p += strspn(p, blanks)) {
        const char *end = read_word(p, word, false, &quote);
        ok = add(out, find_word(p, word));
        p = end;
    }
    free(word);
    return ok;
}

/* `typed` as one path, blanks and all. */
static bool add_whole(chat_paths *out, const char *typed, bool unquote) {
    char *word = strdup(typed), *path = NULL;
    if (word && unquote) chat_path_unquote(word);
    if (word) path = find_word(typed, word);
    free(word);
    return add(out, path);
}

static size_t count_there(const chat_paths *paths) {
    size_t n = 0;
    for (size_t i = 0; i < paths->n; i++) n += is_there(paths->items[i]);
    return n;
}

bool chat_paths_read(chat_paths *out, const char *typed) {
    chat_paths words = {0};
    *out = (chat_paths){0};
    if (!add_whole(out, typed, false)) return false;
    if (count_there(out)) return true; /* "my pic.png", which nobody quoted */
    chat_paths_free(out);
    bool ok = add_words(&words, typed);
    bool one = words.n < 2 || count_there(&words) == 0;
    if (ok && one && words.n != 1)
        ok = add_whole(out, typed, true);
    else if (ok)
        *out = words, words = (chat_paths){0};
    chat_paths_free(&words);
    return ok;
}

/* A file of that name, or a folder whose path has a '/': a question of one word is none. */
static bool is_meant(const char *path) {
    struct stat st;
    if (stat(path, &st)) return false;
    return S_ISDIR(st.st_mode) ? strchr(path, '/') != NULL : strpbrk(path, "./") != NULL;
}

bool chat_paths_find(chat_paths *out, const char *line) {
    size_t n = strlen(line);
    char *word = n <= LINE_MAX_BYTES ? malloc(n + 1) : NULL, quote;
    *out = (chat_paths){0};
    if (!word) return n > LINE_MAX_BYTES;
    bool ok = true, all = strpbrk(line, "./") && add_whole(out, line, false);
    if (all && !is_meant(out->items[0])) {
        chat_paths_free(out);
        for (const char *p = line + strspn(line, blanks); ok && all && *p; p += strspn(p, blanks)) {
            const char *end = read_word(p, word, false, &quote);
            all = strpbrk(word, "./") != NULL;
            if (all) ok = add(out, find_word(p, word));
            all = all && ok && is_meant(out->items[out->n - 1]);
            p = end;
        }
    }
    if (!ok || !all) chat_paths_free(out);
    free(word);
    return ok;
}

char *chat_path_read(const char *typed) {
    char *word = strdup(typed), *path = NULL;
    if (word && !is_there(word)) chat_path_unquote(word);
    if (word) path = find_word(typed, word);
    free(word);
    return path;
}
