#define _GNU_SOURCE
#include "caption_tar.h"
#include "caption_list.h"
#include "status.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>

struct caption_tar {
    struct archive *a;
    char *path;
    int64_t n_members; /* read so far */
    int64_t member_bytes;
};

static sac_status tar_failure(const caption_tar *t, sac_error *err) {
    const char *why = archive_error_string(t->a);
    return sac_fail(err, SAC_BAD_FILE, "%s: member %lld: %s", t->path, (long long)t->n_members,
                    why ? why : "broken");
}

sac_status caption_tar_open(caption_tar **out, const char *path, sac_error *err) {
    caption_tar *t = *out = calloc(1, sizeof *t);
    if (!t || !(t->path = strdup(path)) || !(t->a = archive_read_new())) {
        caption_tar_close(t);
        *out = NULL;
        return sac_fail_no_memory(err);
    }
    archive_read_support_filter_gzip(t->a);
    archive_read_support_filter_zstd(t->a);
    archive_read_support_format_tar(t->a);
    archive_read_set_option(t->a, "tar", "hdrcharset", "BINARY");
    if (archive_read_open_filename(t->a, path, (size_t)1 << 18) == ARCHIVE_OK) return SAC_OK;
    sac_status st = tar_failure(t, err);
    caption_tar_close(t);
    *out = NULL;
    return st;
}

void caption_tar_close(caption_tar *t) {
    if (!t) return;
    archive_read_free(t->a);
    free(t->path);
    free(t);
}

static const char *name_of(struct archive_entry *e) {
    const char *name = archive_entry_pathname(e);
    if (!name) name = archive_entry_pathname_utf8(e);
    return name ? name : "";
}

sac_status caption_tar_next(caption_tar *t, caption_member *m, bool *more, sac_error *err) {
    struct archive_entry *e;
    int got;
    do got = archive_read_next_header(t->a, &e);
    while (got == ARCHIVE_RETRY);
    *more = got == ARCHIVE_OK || got == ARCHIVE_WARN;
    if (got == ARCHIVE_EOF) return SAC_OK;
    if (!*more) return tar_failure(t, err);
    if (t->n_members == CAPTION_TAR_MEMBERS_MAX)
        return sac_fail(err, SAC_BAD_FILE, "%s: more than %lld members", t->path,
                        (long long)CAPTION_TAR_MEMBERS_MAX);
    *m = (caption_member){.name = name_of(e),
                          .number = t->n_members++,
                          .n_bytes = archive_entry_size(e),
                          .is_file = archive_entry_filetype(e) == AE_IFREG && !archive_entry_hardlink(e)};
    t->member_bytes = m->n_bytes;
    return SAC_OK;
}

/* The size in the header is believed only as far as bytes come. */
sac_status caption_tar_read(caption_tar *t, uint8_t **bytes, size_t *n_bytes, sac_error *err) {
    size_t room = 1 << 16, n = 0;
    if (t->member_bytes < 0 || t->member_bytes > CAPTION_MEMBER_MAX_BYTES)
        return sac_fail(err, SAC_BAD_FILE, "%s: a member of %lld bytes, at most %lld are read", t->path,
                        (long long)t->member_bytes, (long long)CAPTION_MEMBER_MAX_BYTES);
    uint8_t *data = malloc(room);
    sac_status st = data ? SAC_OK : sac_fail_no_memory(err);
    while (st == SAC_OK) {
        la_ssize_t got = archive_read_data(t->a, data + n, room - n);
        if (got < 0) st = tar_failure(t, err);
        if (got <= 0) break;
        n += (size_t)got;
        if (n < room) continue;
        uint8_t *larger = realloc(data, 2 * room); /* the end is found with room to spare */
        if (!larger) st = sac_fail_no_memory(err);
        if (larger) data = larger, room *= 2;
    }
    if (st == SAC_OK && (int64_t)n != t->member_bytes)
        st = sac_fail(err, SAC_BAD_FILE, "%s: a member ends after %zu of %lld bytes", t->path, n,
                      (long long)t->member_bytes);
    if (st != SAC_OK) free(data);
    *bytes = st == SAC_OK ? data : NULL;
    *n_bytes = st == SAC_OK ? n : 0;
    return st;
}

const char *caption_tar_key(const char *name, size_t *n_key) {
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name, *dot = strchr(base, '.');
    *n_key = dot ? (size_t)(dot - name) : strlen(name);
    return dot ? dot + 1 : NULL;
}

/* ---------------------------------------------------------------- listing */

/* The sample whose members are being read. */
typedef struct sample {
    char key[CAPTION_MEMBER_NAME_BYTES];
    size_t n_key;
    bool any;
    int64_t first, media, media_bytes; /* media: the member to look at, -1 = none yet */
} sample;

static sac_status end_sample(caption_source *s, sample *p, sac_error *err) {
    if (!p->any) return SAC_OK;
    p->any = false;
    bool has = p->media >= 0;
    SAC_TRY(caption_add(s, p->key, p->n_key, has ? p->media : p->first, has ? p->media_bytes : 0, err));
    if (!has) return caption_spoil(s, NULL, err, "no picture or video among its members");
    if (p->media_bytes < 0 || p->media_bytes > CAPTION_MEMBER_MAX_BYTES)
        return caption_spoil(s, NULL, err, "a member of %lld bytes, at most %lld are read",
                             (long long)p->media_bytes, (long long)CAPTION_MEMBER_MAX_BYTES);
    return SAC_OK;
}

static sac_status see_member(caption_source *s, sample *p, const caption_member *m, sac_error *err) {
    const char *name = m->name;
    size_t n_key;
    while (name[0] == '.' && name[1] == '/') name += 2; /* as "tar c ." writes them */
    const char *ending = caption_tar_key(name, &n_key);
    if (!m->is_file || !ending) return SAC_OK;
    if (n_key >= sizeof p->key) n_key = sizeof p->key - 1; /* far too long for an id in any case */
    if (!p->any || n_key != p->n_key || memcmp(p->key, name, n_key)) {
        SAC_TRY(end_sample(s, p, err));
        memcpy(p->key, name, n_key);
        p->n_key = n_key;
        p->any = true;
        p->first = m->number;
        p->media = -1;
    }
    if (p->media >= 0 || caption_media_of(ending) == CAPTION_NO_MEDIA) return SAC_OK;
    p->media = m->number;
    p->media_bytes = m->n_bytes;
    return SAC_OK;
}

/* What is behind the place where a tar is broken is lost: one error says so. */
sac_status caption_list_tar(caption_source *s, sac_error *err) {
    sac_error broken = {0};
    caption_tar *t;
    caption_member m;
    sample *p = calloc(1, sizeof *p);
    if (!p) return sac_fail_no_memory(err);
    bool more = true;
    sac_status st = caption_tar_open(&t, s->path, &broken), added = SAC_OK;
    while (st == SAC_OK && added == SAC_OK && more) {
        st = caption_tar_next(t, &m, &more, &broken);
        if (st == SAC_OK && more) added = see_member(s, p, &m, err);
    }
    if (added == SAC_OK) added = end_sample(s, p, err);
    if (added == SAC_OK && st == SAC_NO_MEMORY) added = sac_fail_no_memory(err);
    s->broken = st != SAC_OK;
    if (added == SAC_OK && st != SAC_OK) added = caption_add(s, s->name, strlen(s->name), 0, 0, err);
    if (added == SAC_OK && st != SAC_OK) added = caption_spoil(s, NULL, err, "%s", broken.text);
    caption_tar_close(t);
    free(p);
    return added;
}
