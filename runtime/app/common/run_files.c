#define _GNU_SOURCE
#include "run_files.h"
#include "draft.h"
#include "hash.h"
#include "status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *run_files_path(const char *folder, const char *name) {
    char *path;
    size_t n = strlen(folder);
    return asprintf(&path, "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name) < 0 ? NULL : path;
}

sac_status run_files_make_folder(const char *folder, sac_error *err) {
    struct stat st;
    char *above = strdup(folder);
    if (!above) return sac_fail_no_memory(err);
    for (char *p = above; *p; p++) {
        if (*p != '/' || p == above) continue;
        *p = '\0';
        (void)mkdir(above, 0777); /* where it cannot be made, neither can the last */
        *p = '/';
    }
    free(above);
    if (mkdir(folder, 0777) == 0) return SAC_OK;
    int failed = errno;
    if (failed == EEXIST && stat(folder, &st) == 0 && S_ISDIR(st.st_mode)) return SAC_OK;
    return sac_fail(err, failed == ENOENT ? SAC_NOT_FOUND : SAC_IO, "%s: cannot be made a folder: %s", folder,
                    strerror(failed));
}

void run_files_sync_folder(const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

sac_status run_files_write_text(const char *folder, const char *name, const char *text, sac_error *err) {
    draft d = {0};
    char *path = run_files_path(folder, name);
    sac_status st = path ? draft_open(&d, path, err) : sac_fail_no_memory(err);
    if (st == SAC_OK) {
        fputs(text, d.f);
        fputc('\n', d.f);
        st = draft_close(&d, err); /* which looks at both */
    }
    if (st == SAC_OK) run_files_sync_folder(folder);
    free(path);
    return st;
}

sac_status run_files_write_json(const char *folder, const char *name, json_t *json, sac_error *err) {
    char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(json);
    sac_status st = text ? run_files_write_text(folder, name, text, err) : sac_fail_no_memory(err);
    free(text);
    return st;
}

/* ---------------------------------------------------------------- fingerprint */

/* Size, and 4 KB out of every 256 KB: training changes nearly every page. */
static sac_status hash_file(int folder, const char *name, uint64_t *h, sac_error *err) {
    enum { SAMPLE = 4096, STEP = 256 << 10 };
    static char bytes[SAMPLE];
    struct stat st;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && fstat(fd, &st) == 0;
    if (ok && S_ISREG(st.st_mode)) {
        int64_t size = st.st_size;
        *h = sac_hash_quick(*h, &size, sizeof size);
        for (off_t at = 0; ok && at < st.st_size; at += STEP) {
            ssize_t n = pread(fd, bytes, SAMPLE, at);
            ok = n >= 0;
            if (ok) *h = sac_hash_quick(*h, bytes, (size_t)n);
        }
    }
    int failed = errno;
    if (fd >= 0) close(fd);
    return ok ? SAC_OK : sac_fail(err, SAC_IO, "%s: %s", name, strerror(failed));
}

static int visible(const struct dirent *e) {
    return e->d_name[0] != '.';
}

sac_status run_files_fingerprint(const char *path, char out[17], sac_error *err) {
    uint64_t h = 0;
    struct stat info;
    sac_status st = SAC_OK;
    if (stat(path, &info)) return sac_fail(err, SAC_NOT_FOUND, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(info.st_mode)) {
        st = hash_file(AT_FDCWD, path, &h, err);
    } else {
        struct dirent **names;
        int n = scandir(path, &names, visible, alphasort),
            folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (n < 0 || folder < 0) st = sac_fail(err, SAC_IO, "%s: %s", path, strerror(errno));
        for (int i = 0; i < n; i++) {
            h = sac_hash_quick(h, names[i]->d_name, strlen(names[i]->d_name) + 1);
            if (st == SAC_OK) st = hash_file(folder, names[i]->d_name, &h, err);
            free(names[i]);
        }
        if (n >= 0) free(names);
        if (folder >= 0) close(folder);
    }
    snprintf(out, 17, "%016" PRIx64, h);
    return st;
}
