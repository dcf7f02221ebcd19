#define _GNU_SOURCE
#include "media_source.h"
#include "base64.h"
#include "clock.h"
#include "fetch.h"
#include "hash.h"
#include "intake_decoder.h"
#include "metrics.h"
#include "uploads.h"
#include "url.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static bool too_large(const serve_server *s, const char *param, serve_problem *p) {
    return serve_refuse(p, 413, param, "media_too_large", "%s: the file is longer than %zu bytes", param,
                        s->config->max_media_bytes);
}

static bool no_memory(const char *param, serve_problem *p) {
    return serve_refuse(p, 503, param, "out_of_memory", "%s: no memory for it", param);
}

/* ---------------------------------------------------------------- data URIs */

static bool open_base64(serve_source *out, serve_server *s, const char *text, size_t n, const char *param,
                        serve_problem *p) {
    size_t room = n / 4 * 3 + 3, n_bytes = 0;
    if (room > s->config->max_media_bytes + 3) return too_large(s, param, p);
    out->fd = intake_memory_file("saccade-data");
    if (out->fd < 0 || ftruncate(out->fd, (off_t)room) != 0) return no_memory(param, p);
    void *map = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, out->fd, 0);
    if (map == MAP_FAILED) return no_memory(param, p);
    bool ok = sac_base64_decode(text, n, map, &n_bytes);
    munmap(map, room);
    if (!ok || n_bytes == 0)
        return serve_refuse(p, 400, param, "invalid_base64", "%s: the data URI is not valid base64", param);
    if (ftruncate(out->fd, (off_t)n_bytes) != 0) return no_memory(param, p);
    out->n_bytes = n_bytes;
    return true;
}

static bool open_data(serve_source *out, serve_server *s, const char *url, const char *param,
                      serve_problem *p) {
    const char *text = intake_data_text(url);
    if (!text)
        return serve_refuse(p, 400, param, "invalid_data_uri",
                            "%s: a data URI must look like data:TYPE;base64,...", param);
    return open_base64(out, s, text, strlen(text), param, p);
}

/* ---------------------------------------------------------------- files */

static bool open_upload(serve_source *out, serve_server *s, const char *id, const char *param,
                        serve_problem *p) {
    out->fd = serve_uploads_descriptor(s->uploads, id);
    return out->fd >= 0 ||
           serve_refuse(p, 404, param, "file_not_found", "%s: there is no file '%.40s'", param, id);
}

/* The kernel itself walks the path: nothing that leads out of the root, by "..", by a link or by a mount that
 * appears meanwhile, can be opened. An absolute path must begin with the root's own. */
static int open_beneath(const char *root, const char *path) {
    char real[4096];
    if (!realpath(root, real)) return -1;
    size_t n = strlen(real);
    const char *rest = NULL;
    if (!strncmp(path, real, n) && path[n] == '/') rest = path + n;
    size_t given = strlen(root);
    while (given > 1 && root[given - 1] == '/') given--;
    if (!rest && !strncmp(path, root, given) && path[given] == '/') rest = path + given;
    if (!rest) {
        errno = EXDEV;
        return -1;
    }
    while (*rest == '/') rest++;
    int folder = open(real, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return -1;
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, folder, rest, &how, sizeof how);
    int had = errno;
    close(folder);
    errno = had;
    return (int)fd;
}

static bool open_file(serve_source *out, serve_server *s, const char *url, const char *param,
                      serve_problem *p) {
    const char *root = s->config->media_root;
    char plain[4096];
    if (!root)
        return serve_refuse(p, 403, param, "file_urls_off",
                            "%s: file:// is off; --media-root allows a folder", param);
    if (!intake_file_path(url, plain, sizeof plain))
        return serve_refuse(p, 400, param, NULL, "%s: a file URL must look like file:///FOLDER/FILE", param);
    out->fd = open_beneath(root, plain);
    if (out->fd >= 0) return true;
    if (errno == EXDEV || errno == ELOOP)
        return serve_refuse(p, 403, param, "file_not_allowed", "%s: the file is not below the media root",
                            param);
    return serve_refuse(p, 404, param, "file_not_found", "%s: the file cannot be opened", param);
}

/* ---------------------------------------------------------------- all */

static bool hash_file(serve_source *out, const atomic_bool *cancelled, const char *param, serve_problem *p) {
    sac_sha256 *h;
    sac_error err;
    uint8_t block[1 << 16];
    size_t total = 0;
    ssize_t n = 0;
    if (sac_sha256_open(&h, &err) != SAC_OK) return no_memory(param, p);
    while (total < out->n_bytes && (n = pread(out->fd, block, sizeof block, (off_t)total)) > 0) {
        sac_sha256_update(h, block, (size_t)n);
        total += (size_t)n;
        if (cancelled && atomic_load(cancelled)) break;
    }
    sac_sha256_finish(h, out->hash);
    return total == out->n_bytes ||
           serve_refuse(p, 400, param, "invalid_media", "%s: it cannot be read", param);
}

/* A regular file of a size that is allowed. */
static bool check_file(serve_source *out, serve_server *s, const char *param, serve_problem *p) {
    struct stat st;
    if (fstat(out->fd, &st) != 0 || !S_ISREG(st.st_mode))
        return serve_refuse(p, 403, param, "file_not_allowed", "%s: it is no regular file", param);
    if (st.st_size == 0) return serve_refuse(p, 400, param, "invalid_media", "%s: the file is empty", param);
    if ((uint64_t)st.st_size > s->config->max_media_bytes) return too_large(s, param, p);
    out->n_bytes = (size_t)st.st_size;
    return true;
}

enum { MOST_FETCHED = 2 };

/* Fetched files are held in memory: few at a time. */
static bool wait_to_fetch(serve_source *out, serve_server *s, const char *param, const atomic_bool *cancelled, serve_problem *p) {
    bool left = false;
    pthread_mutex_lock(&s->lock);
    while (s->n_fetched >= MOST_FETCHED && !left) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_sec++;
        pthread_cond_timedwait(&s->stirred, &s->lock, &t);
        left = cancelled && atomic_load(cancelled);
    }
    if (!left) {
        s->n_fetched++;
        out->fetched_for = s;
    }
    pthread_mutex_unlock(&s->lock);
    return !left || serve_refuse(p, 400, param, "fetch_failed", "%s: nobody waits for it any more", param);
}

static void end_fetch(serve_source *source) {
    serve_server *s = source->fetched_for;
    if (!s) return;
    source->fetched_for = NULL;
    pthread_mutex_lock(&s->lock);
    s->n_fetched--;
    pthread_cond_broadcast(&s->stirred);
    pthread_mutex_unlock(&s->lock);
}

static bool open_url(serve_source *out, serve_server *s, const char *url, bool until_comma, const char *param,
                     const atomic_bool *cancelled, serve_problem *p) {
    if (until_comma) return open_base64(out, s, url, strcspn(url, ","), param, p);
    if (!strncasecmp(url, "data:", 5)) return open_data(out, s, url, param, p);
    if (!strncasecmp(url, "file://", 7)) return open_file(out, s, url, param, p);
    if (!strncasecmp(url, "http://", 7) || !strncasecmp(url, "https://", 8))
        return wait_to_fetch(out, s, param, cancelled, p) && serve_fetch(&out->fd, s->config, url, param, cancelled, p);
    if (!strncmp(url, "file-", 5)) return open_upload(out, s, url, param, p);
    return serve_refuse(p, 400, param, "unsupported_url",
                        "%s: data:, file:// and http(s):// URLs and ids of uploads are taken", param);
}

bool serve_source_open(serve_source *out, serve_server *s, const char *url, bool until_comma,
                       const char *param, const atomic_bool *cancelled, serve_problem *p) {
    *out = (serve_source){.fd = -1};
    int64_t start = sac_now_ns();
    bool ok = open_url(out, s, url, until_comma, param, cancelled, p) && check_file(out, s, param, p) &&
              hash_file(out, cancelled, param, p);
    if (ok)
        serve_metrics_observe(s->metrics, SERVE_TIME_fetch, sac_seconds_since(start));
    else
        serve_source_close(out);
    return ok;
}

void serve_source_close(serve_source *source) {
    if (source->fd >= 0) close(source->fd);
    source->fd = -1;
    end_fetch(source);
}
