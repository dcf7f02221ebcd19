#define _GNU_SOURCE
#include "files.h"
#include "uploads.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* What ends a part: "\r\n--" and the boundary. */
typedef struct delimiter {
    char text[80];
    size_t n, n_matched; /* of its bytes, at the end of what came so far */
} delimiter;

struct serve_upload {
    serve_uploads *uploads;
    const serve_config *config;
    struct MHD_PostProcessor *post;
    int fd; /* of an unnamed file, -1 before the file's part begins */
    size_t n_bytes;
    size_t n_room; /* taken of the room for all uploads, until the file is kept */
    delimiter delimiter;
    size_t n_ended;                  /* parts */
    size_t file_part, purpose_part;  /* which they are, from 1; 0 = none yet */
    char name[200], purpose[64], unknown[64]; /* "": none */
    serve_problem problem;
};

/* ---------------------------------------------------------------- receiving */

static bool take_room(serve_upload *u, size_t n) {
    if (!serve_uploads_take_room(u->uploads, n))
        return serve_refuse(&u->problem, 507, "file", "uploads_full",
                            "uploads have reached their limit of %zu bytes: delete some",
                            u->config->max_uploads_bytes);
    u->n_room += n;
    return true;
}

static bool write_all(serve_upload *u, const char *data, size_t n) {
    const serve_config *c = u->config;
    if (n > c->max_media_bytes - u->n_bytes)
        return serve_refuse(&u->problem, 413, "file", "file_too_large", "the file is longer than %zu bytes",
                            c->max_media_bytes);
    if (!take_room(u, n)) return false;
    u->n_bytes += n;
    while (n) {
        ssize_t k = write(u->fd, data, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return serve_uploads_refuse(&u->problem, errno);
        data += k;
        n -= (size_t)k;
    }
    return true;
}

/* Is this a second part of the kind? Offsets do not tell: a part that comes in pieces may begin twice at 0, first with no bytes. */
static bool is_another(const serve_upload *u, size_t *first) {
    if (!*first) *first = u->n_ended + 1;
    return *first != u->n_ended + 1;
}

static bool take_purpose(serve_upload *u, const char *data, uint64_t at, size_t n) {
    if (is_another(u, &u->purpose_part))
        return serve_refuse(&u->problem, 400, "purpose", NULL, "the upload has more than one part 'purpose'");
    if (memchr(data, 0, n))
        return serve_refuse(&u->problem, 400, "purpose", NULL, "'purpose' has a byte of 0");
    if (at + n >= sizeof u->purpose)
        return serve_refuse(&u->problem, 400, "purpose", NULL, "'purpose' is longer than %zu bytes",
                            sizeof u->purpose - 1);
    memcpy(u->purpose + at, data, n);
    return true;
}

/* What is not known is refused, or named in the reply. */
static bool pass_over(serve_upload *u, const char *key) {
    if (!u->config->lenient_fields)
        return serve_refuse(&u->problem, 400, key, "unknown_field",
                            "'%.80s' is not known here: an upload has the parts 'file' and 'purpose'", key);
    snprintf(u->unknown, sizeof u->unknown, "%s", key);
    return true;
}

/* Of a long one the beginning, in whole characters. */
static void take_name(serve_upload *u, const char *name) {
    size_t n = strlen(name);
    if (n >= sizeof u->name)
        for (n = sizeof u->name - 1; n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80;) n--;
    memcpy(u->name, name, n);
    u->name[n] = 0;
}

static enum MHD_Result on_field(void *cls, enum MHD_ValueKind kind, const char *key, const char *filename,
                                const char *content_type, const char *encoding, const char *data, uint64_t at,
                                size_t n) {
    serve_upload *u = cls;
    (void)kind, (void)content_type, (void)encoding;
    if (u->problem.status) return MHD_NO;
    if (!key) return serve_refuse(&u->problem, 400, NULL, NULL, "a part of the upload has no name") ? MHD_YES : MHD_NO;
    if (!strcmp(key, "purpose")) return take_purpose(u, data, at, n) ? MHD_YES : MHD_NO;
    if (strcmp(key, "file")) return pass_over(u, key) ? MHD_YES : MHD_NO;
    if (is_another(u, &u->file_part))
        return serve_refuse(&u->problem, 400, "file", NULL, "the upload has more than one part 'file'")
                   ? MHD_YES
                   : MHD_NO;
    if (u->fd < 0) {
        if (!take_room(u, SERVE_UPLOAD_ENTRY_BYTES)) return MHD_NO;
        u->fd = serve_uploads_begin(u->uploads);
        if (u->fd < 0) return serve_uploads_refuse(&u->problem, errno) ? MHD_YES : MHD_NO;
        if (filename) take_name(u, filename);
    }
    return write_all(u, data, n) ? MHD_YES : MHD_NO;
}

/* From the Content-Type, as libmicrohttpd reads the boundary: all behind "boundary=", without quotes. It would take a form's other encoding,
 * too, which has no name for the file. RFC 2046, section 5.1.1: a boundary has at most 70 bytes. */
static bool read_delimiter(delimiter *d, struct MHD_Connection *connection) {
    static const char kind[] = "multipart/form-data", key[] = "boundary=";
    const char *type = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Type");
    const char *at = type && !strncasecmp(type, kind, sizeof kind - 1) ? strstr(type, key) : NULL;
    if (!at) return false;
    at += sizeof key - 1;
    size_t n = strlen(at);
    if (n > 2 && at[0] == '"' && at[n - 1] == '"') at++, n -= 2;
    if (n < 1 || n > 70) return false;
    d->n = (size_t)snprintf(d->text, sizeof d->text, "\r\n--%.*s", (int)n, at);
    return true;
}

/* Bytes of the piece to the end of the first delimiter; all where it ends none. */
static size_t cut_at_delimiter(delimiter *d, const char *data, size_t n, bool *ends) {
    for (size_t i = 0; i < n; i++) {
        if (d->n_matched == 0) {
            const char *cr = memchr(data + i, '\r', n - i);
            if (!cr) return n;
            i = (size_t)(cr - data);
        }
        d->n_matched = data[i] == d->text[d->n_matched] ? d->n_matched + 1 : data[i] == '\r';
        if (d->n_matched < d->n) continue;
        d->n_matched = 0;
        *ends = true;
        return i + 1;
    }
    return n;
}

bool serve_files_begin(serve_server *s, struct MHD_Connection *connection, serve_upload **out,
                       serve_problem *p) {
    if (!s->uploads)
        return serve_refuse(p, 403, NULL, "uploads_off", "uploads are off; --upload-dir turns them on");
    serve_upload *u = calloc(1, sizeof *u);
    if (!u) return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for an upload");
    u->uploads = s->uploads;
    u->config = s->config;
    u->fd = -1;
    if (read_delimiter(&u->delimiter, connection)) u->post = MHD_create_post_processor(connection, 65536, on_field, u);
    if (!u->post) {
        free(u);
        return serve_refuse(p, 400, NULL, NULL, "an upload must be multipart/form-data, with a boundary of 1 to 70 bytes");
    }
    *out = u;
    return true;
}

bool serve_files_receive(serve_upload *u, const char *data, size_t n, serve_problem *p) {
    while (n) {
        bool ends = false;
        const size_t k = cut_at_delimiter(&u->delimiter, data, n, &ends);
        const bool ok = MHD_post_process(u->post, data, k) == MHD_YES;
        if (u->problem.status) return *p = u->problem, false;
        if (!ok) return serve_refuse(p, 400, NULL, NULL, "the multipart body is malformed");
        u->n_ended += ends;
        data += k;
        n -= k;
    }
    return true;
}

void serve_files_abandon(serve_upload *u) {
    if (!u) return;
    if (u->post) MHD_destroy_post_processor(u->post);
    if (u->fd >= 0) close(u->fd);
    if (u->n_room) serve_uploads_return_room(u->uploads, u->n_room);
    free(u);
}

static bool is_text(const char *bytes) {
    json_t *j = json_string(bytes);
    json_decref(j);
    return j != NULL;
}

/* Whether all of it came, and makes sense. */
static bool check_whole(serve_upload *u, serve_problem *p) {
    const bool ended = MHD_destroy_post_processor(u->post) == MHD_YES; /* its last piece comes now */
    u->post = NULL;
    if (u->problem.status) return *p = u->problem, false;
    if (!ended)
        return serve_refuse(p, 400, "file", NULL,
                            "the multipart body does not end with its boundary and '--': it was cut off, or has other line ends than CRLF");
    if (u->fd < 0) return serve_refuse(p, 400, "file", NULL, "the upload has no part 'file'");
    if (u->n_bytes == 0) return serve_refuse(p, 400, "file", NULL, "the file is empty");
    return is_text(u->purpose) || serve_refuse(p, 400, "purpose", NULL, "'purpose' is not UTF-8");
}

/* ---------------------------------------------------------------- routes */

/* The description is the index's, too. */
static json_t *with_warning(json_t *described, const char *unknown) {
    if (!*unknown) return described;
    json_t *j = json_copy(described);
    json_decref(described);
    char text[120];
    snprintf(text, sizeof text, "'%s' is not known here and has no effect", is_text(unknown) ? unknown : "a part");
    json_object_set_new(j, "warnings", json_pack("[s]", text));
    return j;
}

enum MHD_Result serve_files_finish(serve_exchange *x) {
    serve_upload *u = x->upload;
    if (!check_whole(u, &x->problem)) return serve_reply_problem(x, &x->problem);
    json_t *j = serve_uploads_keep(u->uploads, u->fd, u->n_bytes, u->name, u->purpose, &x->problem);
    if (j) u->n_room = 0; /* the file's from here on */
    return j ? serve_reply_json(x, 200, with_warning(j, u->unknown)) : serve_reply_problem(x, &x->problem);
}

static enum MHD_Result reply_unknown(serve_exchange *x) {
    serve_refuse(&x->problem, 404, "file_id", "file_not_found", "there is no such file");
    return serve_reply_problem(x, &x->problem);
}

static const char *argument(const serve_exchange *x, const char *name) {
    return MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, name);
}

static bool read_page(const serve_exchange *x, serve_uploads_page *page, serve_problem *p) {
    enum { MOST = 10000 };
    const char *limit = argument(x, "limit"), *order = argument(x, "order");
    char *end = NULL;
    long n = limit ? strtol(limit, &end, 10) : MOST;
    if (limit && (!*limit || *end || n < 1 || n > MOST))
        return serve_refuse(p, 400, "limit", NULL, "'limit' must be 1 to %d", MOST);
    if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return serve_refuse(p, 400, "order", NULL, "'order' must be asc or desc");
    *page = (serve_uploads_page){.after = argument(x, "after"),
                                 .purpose = argument(x, "purpose"),
                                 .limit = (size_t)n,
                                 .oldest_first = order && !strcmp(order, "asc")};
    return true;
}

enum MHD_Result serve_files_list(serve_exchange *x) {
    serve_uploads_page page;
    if (!read_page(x, &page, &x->problem)) return serve_reply_problem(x, &x->problem);
    json_t *list = serve_uploads_list(x->server->uploads, &page);
    if (list) return serve_reply_json(x, 200, list);
    serve_refuse(&x->problem, 404, "after", "file_not_found", "there is no file '%.40s'",
                 page.after ? page.after : "");
    return serve_reply_problem(x, &x->problem);
}

static enum MHD_Result send_content(serve_exchange *x, const char *id) {
    int fd = serve_uploads_descriptor(x->server->uploads, id);
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
    x->status = 200;
    enum MHD_Result ok = MHD_queue_response(x->connection, 200, r);
    MHD_destroy_response(r);
    return ok;
}

enum MHD_Result serve_files_get(serve_exchange *x) {
    char id[64];
    const char *rest = x->path + strlen("/v1/files/"), *slash = strchr(rest, '/');
    snprintf(id, sizeof id, "%.*s", slash ? (int)(slash - rest) : (int)strlen(rest), rest);
    if (!x->server->uploads || !serve_uploads_is_id(id)) return reply_unknown(x);
    if (slash && !strcmp(slash, "/content")) return send_content(x, id);
    json_t *j = slash ? NULL : serve_uploads_describe(x->server->uploads, id);
    return j ? serve_reply_json(x, 200, j) : reply_unknown(x);
}

enum MHD_Result serve_files_delete(serve_exchange *x) {
    const char *id = x->path + strlen("/v1/files/");
    if (!serve_uploads_delete(x->server->uploads, id)) return reply_unknown(x);
    return serve_reply_json(x, 200, json_pack("{s:s, s:s, s:b}", "id", id, "object", "file", "deleted", 1));
}
