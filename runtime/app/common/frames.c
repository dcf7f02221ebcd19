#define _GNU_SOURCE /* strverscmp */
#include "frames.h"
#include "input.h"
#include "status.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

void frame_list_free(frame_list *list) {
    for (size_t i = 0; i < list->n; i++) free((char *)list->items[i].path);
    free(list->items);
    *list = (frame_list){0};
}

/* Adds folder/name (or name, when it is absolute or folder_bytes is 0). */
static sac_status add_frame(frame_list *list, const char *folder, size_t folder_bytes, const char *name,
                            double time_s, sac_error *err) {
    if (list->n == FRAMES_MAX)
        return sac_fail(err, SAC_BAD_ARGUMENT, "more than %zu frames", (size_t)FRAMES_MAX);
    if ((list->n & (list->n - 1)) == 0) { /* the room is the next power of two */
        sac_frame *items = realloc(list->items, (list->n ? 2 * list->n : 1) * sizeof *items);
        if (!items) return sac_fail_no_memory(err);
        list->items = items;
    }
    char *path;
    int n = name[0] == '/' || folder_bytes == 0 ? asprintf(&path, "%s", name)
                                                : asprintf(&path, "%.*s/%s", (int)folder_bytes, folder, name);
    if (n < 0) return sac_fail_no_memory(err);
    list->items[list->n++] = (sac_frame){.path = path, .time_s = time_s};
    return SAC_OK;
}

static bool is_picture_name(const char *name) {
    static const char *const endings[] = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif"};
    const char *dot = strrchr(name, '.');
    if (!dot || name[0] == '.') return false;
    for (size_t i = 0; i < SAC_COUNT(endings); i++)
        if (!strcasecmp(dot, endings[i])) return true;
    return false;
}

static int by_name(const void *a, const void *b) {
    return strverscmp(((const sac_frame *)a)->path, ((const sac_frame *)b)->path);
}

static sac_status read_folder(frame_list *list, const char *path, sac_error *err) {
    DIR *d = opendir(path);
    if (!d) return sac_fail(err, SAC_NOT_FOUND, "%s: %s", path, strerror(errno));
    sac_status st = SAC_OK;
    for (struct dirent *e; st == SAC_OK && (e = readdir(d));)
        if (is_picture_name(e->d_name)) st = add_frame(list, path, strlen(path), e->d_name, 0, err);
    closedir(d);
    if (st != SAC_OK) return st;
    if (!list->n) return sac_fail(err, SAC_BAD_FILE, "%s: no pictures in this folder", path);
    qsort(list->items, list->n, sizeof *list->items, by_name);
    for (size_t i = 0; i < list->n; i++) list->items[i].time_s = (double)i;
    return SAC_OK;
}

/* Cuts "FILE SECONDS" at its last blank; false when the line is a file alone. */
static bool cut_time(char *line, double *time_s) {
    char *blank = line + strlen(line);
    while (blank > line && blank[-1] != ' ' && blank[-1] != '\t') blank--;
    char *end;
    *time_s = strtod(blank, &end);
    if (blank == line || *end || end == blank) return false;
    do *--blank = 0;
    while (blank > line && (blank[-1] == ' ' || blank[-1] == '\t'));
    return true;
}

/* Adds the frame of line `number`. */
static sac_status read_line(frame_list *list, const char *path, size_t number, char *line, size_t *n_times,
                            sac_error *err) {
    const char *slash = strrchr(path, '/');
    double t;
    bool has_time = cut_time(line, &t);
    if (!has_time) t = (double)list->n;
    if (!isfinite(t))
        return sac_fail(err, SAC_BAD_FILE, "%s:%zu: the time is %g; give seconds", path, number, t);
    *n_times += has_time;
    SAC_TRY(add_frame(list, path, slash ? (size_t)(slash - path) : 0, line, t, err));
    if (*n_times != 0 && *n_times != list->n)
        return sac_fail(err, SAC_BAD_FILE, "%s:%zu: some lines have a time and some have none", path, number);
    const sac_frame *added = &list->items[list->n - 1];
    if (list->n > 1 && !(t > added[-1].time_s))
        return sac_fail(err, SAC_BAD_FILE, "%s:%zu: %g s does not come after the %g s of the frame before",
                        path, number, t, added[-1].time_s);
    if (access(added->path, R_OK))
        return sac_fail(err, SAC_NOT_FOUND, "%s:%zu: %s: %s", path, number, added->path, strerror(errno));
    return SAC_OK;
}

static sac_status read_lines(frame_list *list, const char *path, FILE *f, sac_error *err) {
    size_t room = 0, n_bytes = 0, n_lines = 0, n_times = 0;
    char *line = NULL;
    sac_status st = SAC_OK;
    for (ssize_t n; st == SAC_OK && (n = getline(&line, &room, f)) >= 0;) {
        n_lines++;
        if ((n_bytes += (size_t)n) > FRAMES_LIST_MAX_BYTES || memchr(line, 0, (size_t)n))
            st = sac_fail(err, SAC_BAD_FILE, "%s:%zu: not a list of frames (lines 'FILE SECONDS')", path,
                          n_lines);
        while (n && strchr("\r\n \t", line[n - 1])) line[--n] = 0;
        char *start = line + strspn(line, " \t");
        if (st != SAC_OK || !*start || *start == '#') continue;
        st = read_line(list, path, n_lines, start, &n_times, err);
    }
    free(line);
    if (st == SAC_OK && ferror(f)) st = sac_fail(err, SAC_IO, "%s: %s", path, strerror(errno));
    if (st == SAC_OK && !list->n) st = sac_fail(err, SAC_BAD_FILE, "%s: no frames in this list", path);
    return st;
}

sac_status frame_list_read(frame_list *list, const char *path, sac_error *err) {
    *list = (frame_list){0};
    struct stat info;
    sac_status st;
    if (stat(path, &info)) return sac_fail(err, SAC_NOT_FOUND, "%s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) {
        st = read_folder(list, path, err);
    } else {
        FILE *f;
        SAC_TRY(input_open(&f, path, true, err));
        st = read_lines(list, path, f, err);
        fclose(f);
    }
    if (st != SAC_OK) frame_list_free(list);
    return st;
}
