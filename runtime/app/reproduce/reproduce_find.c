#define _GNU_SOURCE
#include "reproduce_find.h"
#include "installed.h"
#include "status.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_yaml(const char *name, size_t n) {
    return n > 5 && !strncmp(name + n - 5, ".yaml", 5);
}

static int is_paper(const struct dirent *entry) {
    return is_yaml(entry->d_name, strlen(entry->d_name));
}

/* "adore, twilight, zipvl" of a folder. */
static void list_papers(char *text, size_t room, const char *folder) {
    struct dirent **found;
    int n = scandir(folder, &found, is_paper, alphasort);
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < n; i++) {
        size_t length = strlen(found[i]->d_name) - 5;
        if (used + length + 3 < room)
            used += (size_t)snprintf(text + used, room - used, "%s%.*s", used ? ", " : "", (int)length, found[i]->d_name);
        free(found[i]);
    }
    if (n >= 0) free(found);
}

sac_status reproduce_find(char *path, size_t room, const char *word, size_t n, sac_error *err) {
    char own[4096], papers[200];
    int shown = n < 80 ? (int)n : 80;
    if (is_yaml(word, n)) {
        if (n >= room) return sac_fail(err, SAC_NOT_FOUND, "%.*s...: a path that long names no file", shown, word);
        memcpy(path, word, n);
        path[n] = 0;
        return SAC_OK;
    }
    const char *folder = installed_find(own, sizeof own, "reproduce", SAC_REPRODUCE_DIR);
    if (!folder)
        return sac_fail(err, SAC_NOT_FOUND,
                        "%.*s: the papers' tables (share/saccade/reproduce) are not installed here; FILE.yaml:TABLE names a file", shown, word);
    int m = snprintf(path, room, "%s/%.*s.yaml", folder, shown, word);
    bool is_name = n == (size_t)shown && m > 0 && (size_t)m < room && !memchr(word, '/', n);
    if (is_name && access(path, R_OK) == 0) return SAC_OK;
    list_papers(papers, sizeof papers, folder);
    return sac_fail(err, SAC_NOT_FOUND, "%.*s: no such paper here (there are %s); zipvl:table2, or FILE.yaml:TABLE is expected",
                    shown, word, papers);
}
