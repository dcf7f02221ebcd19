#define _GNU_SOURCE
#include "files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct serve_files {
    serve_server *server;
    int folder;           /* descriptor */
    pthread_mutex_t lock; /* for the total */
    size_t total_bytes;   /* of finished uploads and those under way */
};

struct serve_upload {
    serve_files *files;
    struct MHD_PostProcessor *post;
    int fd; /* of an unnamed file, -1 before the file's part begins */
    size_t n_bytes;
    bool has_file;
    char name[200], purpose[64];
    serve_problem problem;
};

/* ---------------------------------------------------------------- ids and room */

static bool is_id(const char *id) {
    if (strncmp(id, "file-", 5) || strlen(id) != 29) return false;
    for (const char *c = id + 5; *c; c++)
        if (!isdigit((unsigned char)*c) && !(*c >= 'a' && *c <= 'f')) return false;
    return true;
}

static bool take_room(serve_files *f, size_t n) {
    pthread_mutex_lock(&f->lock);
    bool fits = n <= f->server->config->max_uploads_bytes - f->total_bytes;
    if (fits) f->total_bytes += n;
    pthread_mutex_unlock(&f->lock);
    return fits;
}

static void return_room(serve_files *f, size_t n) {
    pthread_mutex_lock(&f->lock);
    f->total_bytes -= n < f->total_bytes ? n : f->total_bytes;
    pthread_mutex_unlock(&f->lock);
}

int serve_files_descriptor(const serve_files *f, const char *id) {
    return f && is_id(id) ? openat(f->folder, id, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
}

/* Bytes of what an earlier server left there. */
static size_t count_bytes(int folder) {
    size_t total = 0;
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct stat st;
    for (struct dirent *e; d && (e = readdir(d));)
        if (is_id(e->d_name) && fstatat(folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            total += (size_t)st.st_size;
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    return total;
}

sac_status serve_files_open(serve_files **out, serve_server *s, sac_error *err) {
    const char *path = s->config->upload_dir;
    *out = NULL;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return sac_fail(err, SAC_IO, "%s: cannot make the folder for uploads: %s", path, strerror(errno));
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return sac_fail(err, SAC_IO, "%s: %s", path, strerror(errno));
    serve_files *f = calloc(1, sizeof *f);
    if (!f) {
        close(folder);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for uploads");
    }
    *f = (serve_files){.server = s, .folder = folder, .total_bytes = count_bytes(folder)};
    pthread_mutex_init(&f->lock, NULL);
    *out = f;
    return SAC_OK;
}

void serve_files_close(serve_files *f) {
    if (!f) return;
    close(f->folder);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* ---------------------------------------------------------------- receiving */

static bool refuse_write(serve_problem *p, int error) {
    if (error == ENOSPC || error == EDQUOT || error == EFBIG)
        return serve_refuse(p, 507, NULL, "disk_full", "no room on the disk for uploads");
    return serve_refuse(p, 500, NULL, NULL, "the upload cannot be kept: %s", strerror(error));
}

static bool write_all(serve_upload *u, const char *data, size_t n) {
    const serve_config *c = u->files->server->config;
    if (n > c->max_media_bytes - u->n_bytes)
        return serve_refuse(&u->problem, 413, "file", "file_too_large", "the file is longer than %zu bytes",
                            c->max_media_bytes);
    if (!take_room(u->files, n))
        return serve_refuse(&u->problem, 507, "file", "uploads_full",
                            "uploads have reached their limit of %zu bytes: delete some",
                            c->max_uploads_bytes);
    u->n_bytes += n;
    while (n) {
        ssize_t k = write(u->fd, data, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return refuse_write(&u->problem, errno);
        data += k;
        n -= (size_t)k;
    }
    return true;
}

static enum MHD_Result on_field(void *cls, enum MHD_ValueKind kind, const char *key, const char *filename,
                                const char *content_type, const char *encoding, const char *data, uint64_t at,
                                size_t n) {
    serve_upload *u = cls;
    (void)kind, (void)content_type, (void)encoding;
    if (u->problem.status) return MHD_NO;
    if (!strcmp(key, "purpose")) {
        if (at + n < sizeof u->purpose) memcpy(u->purpose + at, data, n);
        return MHD_YES;
    }
    if (strcmp(key, "file")) return MHD_YES;
    if (!u->has_file) {
        u->fd = openat(u->files->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (u->fd < 0) return refuse_write(&u->problem, errno) ? MHD_YES : MHD_NO;
        u->has_file = true;
        if (filename) snprintf(u->name, sizeof u->name, "%s", filename);
    }
    return write_all(u, data, n) ? MHD_YES : MHD_NO;
}

bool serve_files_begin(serve_server *s, struct MHD_Connection *connection, serve_upload **out,
                       serve_problem *p) {
    if (!s->files)
        return serve_refuse(p, 403, NULL, "uploads_off", "uploads are off; --upload-dir turns them on");
    serve_upload *u = calloc(1, sizeof *u);
    if (!u) return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for an upload");
    u->files = s->files;
    u->fd = -1;
    u->post = MHD_create_post_processor(connection, 65536, on_field, u);
    if (!u->post) {
        free(u);
        return serve_refuse(p, 400, NULL, NULL, "an upload must be multipart/form-data");
    }
    *out = u;
    return true;
}

bool serve_files_receive(serve_upload *u, const char *data, size_t n, serve_problem *p) {
    if (MHD_post_process(u->post, data, n) == MHD_YES) return true;
    if (u->problem.status) {
        *p = u->problem;
        return false;
    }
    return serve_refuse(p, 400, NULL, NULL, "the multipart body is malformed");
}

void serve_files_abandon(serve_upload *u) {
    if (!u) return;
    if (u->post) MHD_destroy_post_processor(u->post);
    if (u->fd >= 0) close(u->fd);
    if (u->n_bytes) return_room(u->files, u->n_bytes);
    free(u);
}

/* ---------------------------------------------------------------- descriptions */

/* A client's file name may hold anything; only UTF-8 can be said in JSON. */
static json_t *name_json(const char *name) {
    json_t *j = json_string(name);
    return j ? j : json_string("file");
}

static json_t *read_description(const serve_files *f, const char *id) {
    char name[40];
    snprintf(name, sizeof name, "%s.json", id);
    int fd = openat(f->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return NULL;
    json_t *j = json_loadfd(fd, 0, NULL);
    close(fd);
    return j;
}

static bool write_description(const serve_files *f, const char *id, const json_t *j) {
    char name[40];
    snprintf(name, sizeof name, "%s.json", id);
    int fd = openat(f->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && json_dumpfd(j, fd, JSON_COMPACT) == 0;
    if (fd >= 0) ok = close(fd) == 0 && ok;
    if (!ok && fd >= 0) unlinkat(f->folder, name, 0);
    return ok;
}

static bool link_file(const serve_files *f, int fd, const char *id) {
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, path, f->folder, id, AT_SYMLINK_FOLLOW) == 0;
}

/* Gives the upload its name; its room is then the file's. */
static json_t *keep(serve_upload *u, serve_problem *p) {
    char id[40];
    serve_make_id(id, sizeof id, "file-");
    json_t *j = json_pack("{s:s, s:s, s:I, s:I, s:o, s:s}", "id", id, "object", "file", "bytes",
                          (json_int_t)u->n_bytes, "created_at", (json_int_t)time(NULL), "filename",
                          name_json(u->name), "purpose", u->purpose[0] ? u->purpose : "vision");
    if (!j || !write_description(u->files, id, j)) {
        refuse_write(p, errno);
    } else if (!link_file(u->files, u->fd, id)) {
        refuse_write(p, errno);
        char name[48];
        snprintf(name, sizeof name, "%s.json", id);
        unlinkat(u->files->folder, name, 0);
    } else {
        u->n_bytes = 0;
        return j;
    }
    json_decref(j);
    return NULL;
}

/* ---------------------------------------------------------------- routes */

enum MHD_Result serve_files_finish(serve_exchange *x) {
    serve_upload *u = x->upload;
    MHD_destroy_post_processor(u->post); /* its last piece comes now */
    u->post = NULL;
    if (u->problem.status) return serve_reply_problem(x, &u->problem);
    if (!u->has_file) {
        serve_refuse(&x->problem, 400, "file", NULL, "the upload has no part 'file'");
        return serve_reply_problem(x, &x->problem);
    }
    json_t *j = keep(u, &x->problem);
    return j ? serve_reply_json(x, 200, j) : serve_reply_problem(x, &x->problem);
}

static enum MHD_Result reply_unknown(serve_exchange *x) {
    serve_refuse(&x->problem, 404, "file_id", "file_not_found", "there is no such file");
    return serve_reply_problem(x, &x->problem);
}

enum MHD_Result serve_files_list(serve_exchange *x) {
    const serve_files *f = x->server->files;
    json_t *data = json_array();
    int fd = f ? openat(f->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        json_t *j = is_id(e->d_name) ? read_description(f, e->d_name) : NULL;
        if (j) json_array_append_new(data, j);
    }
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    return serve_reply_json(x, 200, json_pack("{s:s, s:o}", "object", "list", "data", data));
}

static enum MHD_Result send_content(serve_exchange *x, const char *id) {
    int fd = serve_files_descriptor(x->server->files, id);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        if (fd >= 0) close(fd);
        return reply_unknown(x);
    }
    struct MHD_Response *r = MHD_create_response_from_fd64((uint64_t)st.st_size, fd);
    if (!r) {
        close(fd);
        return MHD_NO;
    }
    MHD_add_response_header(r, "Content-Type", "application/octet-stream");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    enum MHD_Result ok = MHD_queue_response(x->connection, 200, r);
    MHD_destroy_response(r);
    return ok;
}

enum MHD_Result serve_files_get(serve_exchange *x) {
    char id[64];
    const char *rest = x->path + strlen("/v1/files/"), *slash = strchr(rest, '/');
    snprintf(id, sizeof id, "%.*s", slash ? (int)(slash - rest) : (int)strlen(rest), rest);
    if (!x->server->files || !is_id(id)) return reply_unknown(x);
    if (slash && !strcmp(slash, "/content")) return send_content(x, id);
    json_t *j = slash ? NULL : read_description(x->server->files, id);
    return j ? serve_reply_json(x, 200, j) : reply_unknown(x);
}

enum MHD_Result serve_files_delete(serve_exchange *x) {
    const char *id = x->path + strlen("/v1/files/");
    serve_files *f = x->server->files;
    struct stat st;
    char name[48];
    if (!f || !is_id(id) || fstatat(f->folder, id, &st, AT_SYMLINK_NOFOLLOW) != 0) return reply_unknown(x);
    snprintf(name, sizeof name, "%s.json", id);
    unlinkat(f->folder, name, 0);
    if (unlinkat(f->folder, id, 0) == 0) return_room(f, (size_t)st.st_size);
    return serve_reply_json(x, 200, json_pack("{s:s, s:s, s:b}", "id", id, "object", "file", "deleted", 1));
}
