#define _GNU_SOURCE
#include "chat_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char chat_path_unquote(char *path) {
    char quote = 0, *to = path;
    for (const char *p = path; *p; p++) {
        if (quote ? *p == quote : *p == '\'' || *p == '"')
            quote = quote ? 0 : *p;
        else if (*p == '\\' && quote != '\'' && p[1])
            *to++ = *++p;
        else
            *to++ = *p;
    }
    *to = 0;
    return quote;
}

char *chat_path_from_home(const char *path) {
    const char *home = getenv("HOME");
    char *full;
    if (path[0] != '~' || path[1] != '/' || !home) return strdup(path);
    return asprintf(&full, "%s%s", home, path + 1) < 0 ? NULL : full;
}

char *chat_path_read(const char *typed) {
    char *path = strdup(typed);
    if (!path || access(path, F_OK) == 0) return path;
    chat_path_unquote(path);
    char *full = typed[0] == '~' ? chat_path_from_home(path) : strdup(path);
    free(path);
    return full;
}
