#define _GNU_SOURCE
#include "uploads.h"
#include "make_id.h"
#include "status.h"
#include "uploads_index.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct serve_uploads {
    const serve_config *config;
    int folder;           /* descriptor */
    pthread_mutex_t lock; /* for what follows */
    serve_uploads_index index;
    size_t total_bytes; /* of finished uploads and those under way, with their entries */
};

/* ---------------------------------------------------------------- ids and room */

bool serve_uploads_is_id(const char *id) {
    if (strncmp(id, "file-", 5) || strlen(id) != 29) return false;
    for (const char *c = id + 5; *c; c++)
        if (!isdigit((unsigned char)*c) && !(*c >= 'a' && *c <= 'f')) return false;
    return true;
}

bool serve_uploads_take_room(serve_uploads *u, size_t n) {
    pthread_mutex_lock(&u->lock);
    const size_t most = u->config->max_uploads_bytes; /* what an earlier server left may be more */
    bool fits = u->total_bytes <= most && n <= most - u->total_bytes;
    if (fits) u->total_bytes += n;
    pthread_mutex_unlock(&u->lock);
    return fits;
}

void serve_uploads_return_room(serve_uploads *u, size_t n) {
    pthread_mutex_lock(&u->lock);
    u->total_bytes -= n < u->total_bytes ? n : u->total_bytes;
    pthread_mutex_unlock(&u->lock);
}

int serve_uploads_descriptor(const serve_uploads *u, const char *id) {
    return u && serve_uploads_is_id(id) ? openat(u->folder, id, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
}

int serve_uploads_begin(const serve_uploads *u) {
    return openat(u->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

static json_t *read_description(const serve_uploads *u, const char *id) {
    char name[40];
    snprintf(name, sizeof name, "%s.json", id);
    int fd = openat(u->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return NULL;
    json_t *j = json_loadfd(fd, 0, NULL);
    close(fd);
    return j;
}

/* One that an earlier server left. Its own name counts, whatever its description says. */
static void take_in(serve_uploads *u, const char *id) {
    struct stat st;
    if (!serve_uploads_is_id(id) || fstatat(u->folder, id, &st, AT_SYMLINK_NOFOLLOW) != 0) return;
    u->total_bytes += (size_t)st.st_size + SERVE_UPLOAD_ENTRY_BYTES;
    json_t *j = read_description(u, id);
    if (json_is_object(j) && json_object_set_new(j, "id", json_string(id)) == 0)
        serve_uploads_index_add(&u->index, j);
    json_decref(j);
}

static void take_in_all(serve_uploads *u) {
    int fd = openat(u->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) take_in(u, e->d_name);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}

sac_status serve_uploads_open(serve_uploads **out, const serve_config *c, sac_error *err) {
    const char *path = c->upload_dir;
    *out = NULL;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return sac_fail(err, SAC_IO, "%s: cannot make the folder for uploads: %s", path, strerror(errno));
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return sac_fail(err, SAC_IO, "%s: %s", path, strerror(errno));
    serve_uploads *u = calloc(1, sizeof *u);
    if (!u) {
        close(folder);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for uploads");
    }
    *u = (serve_uploads){.config = c, .folder = folder};
    pthread_mutex_init(&u->lock, NULL);
    take_in_all(u);
    *out = u;
    return SAC_OK;
}

void serve_uploads_close(serve_uploads *u) {
    if (!u) return;
    close(u->folder);
    serve_uploads_index_free(&u->index);
    pthread_mutex_destroy(&u->lock);
    free(u);
}

bool serve_uploads_refuse(serve_problem *p, int error) {
    if (error == ENOSPC || error == EDQUOT || error == EFBIG)
        return serve_refuse(p, 507, NULL, "disk_full", "no room on the disk for uploads");
    return serve_refuse(p, 500, NULL, NULL, "the upload cannot be kept: %s", strerror(error));
}

/* ---------------------------------------------------------------- descriptions */

/* A client's file name may hold anything; only UTF-8 can be said in JSON. */
static json_t *name_json(const char *name) {
    json_t *j = json_string(name);
    return j ? j : json_string("file");
}

json_t *serve_uploads_describe(const serve_uploads *u, const char *id) {
    return read_description(u, id);
}

static bool write_description(const serve_uploads *u, const char *id, const json_t *j) {
    char name[40];
    snprintf(name, sizeof name, "%s.json", id);
    int fd = openat(u->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && json_dumpfd(j, fd, JSON_COMPACT) == 0;
    if (fd >= 0) ok = close(fd) == 0 && ok;
    if (!ok && fd >= 0) unlinkat(u->folder, name, 0);
    return ok;
}

static bool link_file(const serve_uploads *u, int fd, const char *id) {
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, path, u->folder, id, AT_SYMLINK_FOLLOW) == 0;
}

json_t *serve_uploads_keep(serve_uploads *u, int fd, size_t n_bytes, const char *name, const char *purpose,
                           serve_problem *p) {
    char id[40];
    serve_make_id(id, sizeof id, "file-");
    json_t *j = json_pack("{s:s, s:s, s:I, s:I, s:o, s:s}", "id", id, "object", "file", "bytes",
                          (json_int_t)n_bytes, "created_at", (json_int_t)time(NULL), "filename",
                          name_json(name), "purpose", purpose[0] ? purpose : "vision");
    if (!j || !write_description(u, id, j)) {
        serve_uploads_refuse(p, errno);
    } else if (!link_file(u, fd, id)) {
        serve_uploads_refuse(p, errno);
        char description[48];
        snprintf(description, sizeof description, "%s.json", id);
        unlinkat(u->folder, description, 0);
    } else {
        pthread_mutex_lock(&u->lock);
        serve_uploads_index_add(&u->index, j);
        pthread_mutex_unlock(&u->lock);
        return j;
    }
    json_decref(j);
    return NULL;
}

json_t *serve_uploads_list(serve_uploads *u, const serve_uploads_page *page) {
    static const serve_uploads_index none;
    if (!u) return serve_uploads_index_list(&none, page);
    pthread_mutex_lock(&u->lock);
    json_t *list = serve_uploads_index_list(&u->index, page);
    pthread_mutex_unlock(&u->lock);
    return list;
}

bool serve_uploads_delete(serve_uploads *u, const char *id) {
    struct stat st;
    char name[48];
    if (!u || !serve_uploads_is_id(id) || fstatat(u->folder, id, &st, AT_SYMLINK_NOFOLLOW) != 0) return false;
    snprintf(name, sizeof name, "%s.json", id);
    unlinkat(u->folder, name, 0);
    if (unlinkat(u->folder, id, 0) == 0) serve_uploads_return_room(u, (size_t)st.st_size + SERVE_UPLOAD_ENTRY_BYTES);
    pthread_mutex_lock(&u->lock);
    serve_uploads_index_remove(&u->index, id);
    pthread_mutex_unlock(&u->lock);
    return true;
}
