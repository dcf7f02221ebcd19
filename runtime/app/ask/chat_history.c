#define _GNU_SOURCE
#include "chat_history.h"
#include "draft.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------------------------------------------------------------- the file's name */

static char *find_path(void) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int n = -1;
    if (state && state[0] == '/')
        n = asprintf(&path, "%s/saccade/history", state);
    else if (home && home[0] == '/')
        n = asprintf(&path, "%s/.local/state/saccade/history", home);
    return n < 0 ? NULL : path;
}

/* All folders above the file. */
static sac_status make_folders(char *path, sac_error *err) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int bad = mkdir(path, 0700) && errno != EEXIST ? errno : 0;
        if (bad) sac_fail(err, SAC_IO, "%s: %s", path, strerror(bad));
        *slash = '/';
        if (bad) return SAC_IO;
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- lines */

static char *escape(const char *text) {
    char *line = malloc(2 * strlen(text) + 2), *to = line;
    if (!line) return NULL;
    for (; *text; text++) {
        if (*text == '\n' || *text == '\\') *to++ = '\\';
        *to++ = *text;
        if (*text == '\n') to[-1] = 'n';
    }
    *to++ = '\n';
    *to = 0;
    return line;
}

static void unescape(char *line) {
    char *to = line;
    for (const char *p = line; *p && *p != '\n'; p++) {
        if (*p == '\\' && p[1] && p[1] != '\n') {
            *to++ = *++p;
            if (*p == 'n') to[-1] = '\n';
        } else {
            *to++ = *p;
        }
    }
    *to = 0;
}

/* The entry takes the line; the oldest makes room. */
static void keep(chat_history *h, char *line) {
    unescape(line);
    if (h->n_entries == CHAT_HISTORY_MAX) {
        free(h->entries[0]);
        memmove(h->entries, h->entries + 1, --h->n_entries * sizeof *h->entries);
    }
    h->entries[h->n_entries++] = line;
}

/* *n_bytes: of the whole file. Lines longer than the file may be are left out; so is what is no text. */
static sac_status read_entries(chat_history *h, size_t *n_bytes, sac_error *err) {
    int fd = open(h->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *n_bytes = 0;
    if (fd < 0) return errno == ENOENT ? SAC_OK : sac_fail(err, SAC_IO, "%s: %s", h->path, strerror(errno));
    struct stat st;
    FILE *f = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? fdopen(fd, "r") : NULL;
    if (!f) {
        close(fd);
        return sac_fail(err, SAC_IO, "%s: not a regular file", h->path);
    }
    h->entries = calloc(CHAT_HISTORY_MAX, sizeof *h->entries);
    *n_bytes = (size_t)st.st_size;
    if (*n_bytes > 2 * CHAT_HISTORY_MAX_BYTES) fseeko(f, -(off_t)CHAT_HISTORY_MAX_BYTES, SEEK_END);
    char *line = NULL;
    size_t room = 0;
    for (ssize_t n; h->entries && (n = getline(&line, &room, f)) > 0; room = 0) {
        if (strlen(line) == (size_t)n && n > 1)
            keep(h, line);
        else
            free(line);
        line = NULL;
    }
    free(line);
    fclose(f);
    return h->entries ? SAC_OK : sac_fail_no_memory(err);
}

static sac_status rewrite(const chat_history *h, sac_error *err) {
    draft d;
    SAC_TRY(draft_open(&d, h->path, err));
    bool ok = fchmod(fileno(d.f), 0600) == 0;
    size_t from = h->n_entries > CHAT_HISTORY_MAX / 2 ? h->n_entries - CHAT_HISTORY_MAX / 2 : 0;
    for (size_t i = from; ok && i < h->n_entries; i++) {
        char *line = escape(h->entries[i]);
        if (!line || fputs(line, d.f) < 0) ok = false;
        free(line);
    }
    if (ok) return draft_close(&d, err);
    draft_abandon(&d);
    return sac_fail(err, SAC_IO, "%s: cannot be written anew", h->path);
}

/* ---------------------------------------------------------------- the history */

sac_status chat_history_open(chat_history *h, sac_error *err) {
    size_t n_bytes = 0;
    *h = (chat_history){.path = find_path()};
    if (!h->path) return SAC_OK;
    sac_status st = make_folders(h->path, err);
    if (st == SAC_OK) st = read_entries(h, &n_bytes, err);
    if (st == SAC_OK && n_bytes > CHAT_HISTORY_MAX_BYTES) st = rewrite(h, err);
    if (st == SAC_OK) return SAC_OK;
    free(h->path);
    h->path = NULL;
    return st;
}

/* One write, so that lines of two chats do not mix. */
sac_status chat_history_add(const chat_history *h, const char *text, sac_error *err) {
    if (!h->path) return SAC_OK;
    char *line = escape(text);
    if (!line) return sac_fail_no_memory(err);
    size_t n = strlen(line);
    int fd = open(h->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    sac_status st = SAC_OK;
    if (fd < 0 || write(fd, line, n) != (ssize_t)n)
        st = sac_fail(err, SAC_IO, "%s: %s", h->path, strerror(errno));
    if (fd >= 0) close(fd);
    free(line);
    return st;
}

void chat_history_close(chat_history *h) {
    for (size_t i = 0; i < h->n_entries; i++) free(h->entries[i]);
    free(h->entries);
    free(h->path);
    *h = (chat_history){0};
}
