#define _GNU_SOURCE
#include "chat_find.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

/* In form C; NULL: no UTF-8. */
static char *composed(const char *text) {
    return (char *)utf8proc_NFC((const utf8proc_uint8_t *)text);
}

static bool is_ascii(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text >= 0x80) return false;
    return true;
}

/* The entry of a folder ("" is the working directory) that is `name`; NULL: none. */
static char *find_entry(const char *folder, const char *name) {
    char *wanted = composed(name), *found = NULL;
    DIR *d = wanted ? opendir(*folder ? folder : ".") : NULL;
    for (struct dirent *e; !found && d && (e = readdir(d));) {
        if (is_ascii(e->d_name)) continue;
        char *other = composed(e->d_name);
        if (other && !strcmp(wanted, other)) found = strdup(e->d_name);
        free(other);
    }
    if (d) closedir(d);
    free(wanted);
    return found;
}

/* "folder/name" in the place of `full`, with the name as the folder has it; NULL: it is not there. */
static char *step_into(char *full, const char *name) {
    char *next, *entry = NULL;
    if (asprintf(&next, "%s%s", full, name) < 0) next = NULL;
    if (next && access(next, F_OK) != 0) {
        free(next);
        next = NULL;
        entry = is_ascii(name) ? NULL : find_entry(full, name);
        if (entry && asprintf(&next, "%s%s", full, entry) < 0) next = NULL;
    }
    free(entry);
    free(full);
    return next;
}

char *chat_find_accents(const char *path) {
    char *full = is_ascii(path) ? NULL : strdup("");
    for (const char *p = path; full && *p;) {
        size_t n_slashes = strspn(p, "/"), n = strcspn(p + n_slashes, "/");
        char *slashes = strndup(p, n_slashes), *name = strndup(p + n_slashes, n), *next;
        if (slashes && name && asprintf(&next, "%s%s", full, slashes) >= 0) {
            free(full);
            full = *name ? step_into(next, name) : next;
        } else {
            free(full);
            full = NULL;
        }
        free(slashes);
        free(name);
        p += n_slashes + n;
    }
    return full;
}
