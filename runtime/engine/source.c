#define _GNU_SOURCE
#include "source.h"

#include "hash.h"
#include "picture.h"
#include "prepared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void hash_bytes(sac_sha256 *h, const void *bytes, size_t n_bytes) {
    uint64_t n = n_bytes; /* lengths go in too: "ab"+"c" must differ from "a"+"bc" */
    sac_sha256_update(h, &n, sizeof n);
    sac_sha256_update(h, bytes, n_bytes);
}

static sac_status hash_of(const void *bytes, size_t n_bytes, const char *purpose, sac_vision_key *key,
                          sac_error *err) {
    sac_sha256 *h;
    SAC_TRY(sac_sha256_open(&h, err));
    hash_bytes(h, purpose, strlen(purpose));
    hash_bytes(h, bytes, n_bytes);
    sac_sha256_finish(h, key->hash);
    return SAC_OK;
}

/* ---------------------------------------------------------------- files */

/* What tells a file from another and from itself after a change, without reading it. */
typedef struct stamp {
    uint64_t device, inode, n_bytes;
    int64_t modified_s, modified_ns, changed_s, changed_ns;
} stamp;

static bool get_stamp(const char *path, stamp *to) {
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    *to = (stamp){(uint64_t)st.st_dev, (uint64_t)st.st_ino, (uint64_t)st.st_size, st.st_mtim.tv_sec,
                  st.st_mtim.tv_nsec,  st.st_ctim.tv_sec,   st.st_ctim.tv_nsec};
    return true;
}

/* A file that was changed a moment ago may change again within the same tick of its clock. */
static bool is_settled(const stamp *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec - t->changed_s > 2 && now.tv_sec - t->modified_s > 2;
}

/* Read, not mapped: the pages of an hour of video would otherwise count as this process's memory. */
static sac_status hash_file(sac_session *s, const char *path, sac_vision_key *digest, sac_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return sac_fail(err, SAC_IO, "%s: %s", path, strerror(errno));
    sac_sha256 *h;
    sac_status st = sac_sha256_open(&h, err);
    if (st != SAC_OK) {
        close(fd);
        return st;
    }
    uint8_t block[1 << 16];
    ssize_t n = 0;
    while (st == SAC_OK && (n = read(fd, block, sizeof block)) > 0) {
        sac_sha256_update(h, block, (size_t)n);
        st = sac_session_check_cancel(s, err);
    }
    if (st == SAC_OK && n < 0) st = sac_fail(err, SAC_IO, "%s: %s", path, strerror(errno));
    close(fd);
    sac_sha256_finish(h, digest->hash);
    return st;
}

/* The same file by path or as bytes gives the same digest. may_read false: *found tells. */
static sac_status digest_source(sac_session *s, const char *path, const void *bytes, size_t n_bytes,
                                bool may_read, sac_vision_key *digest, bool *found, sac_error *err) {
    *found = true;
    if (!path) {
        sac_sha256 *h;
        SAC_TRY(sac_sha256_open(&h, err));
        sac_sha256_update(h, bytes, bytes ? n_bytes : 0);
        sac_sha256_finish(h, digest->hash);
        return SAC_OK;
    }
    stamp t;
    sac_vision_key key;
    size_t n;
    bool has_stamp = get_stamp(path, &t);
    if (has_stamp) {
        SAC_TRY(hash_of(&t, sizeof t, "file", &key, err));
        sac_vision_key *known = sac_memo_get(s->model->memo, &key, &n);
        if (known) {
            *digest = *known;
            free(known);
            return SAC_OK;
        }
    }
    *found = may_read;
    if (!may_read) return SAC_OK;
    SAC_TRY(hash_file(s, path, digest, err));
    stamp after;
    if (has_stamp && is_settled(&t) && get_stamp(path, &after) && memcmp(&t, &after, sizeof t) == 0)
        sac_memo_put(s->model->memo, &key, digest, sizeof *digest);
    return SAC_OK;
}

/* ---------------------------------------------------------------- an item */

/* The stamps of all files of an item as one hash. */
static sac_status stamp_item(const sac_part *p, sac_vision_key *key, sac_error *err) {
    sac_sha256 *h;
    SAC_TRY(sac_sha256_open(&h, err));
    for (size_t i = 0; i < sac_part_n_pictures(p); i++) {
        sac_picture f = sac_part_picture(p, i);
        stamp t = {0};
        if (f.path) get_stamp(f.path, &t);
        sac_sha256_update(h, &t, sizeof t);
    }
    sac_sha256_finish(h, key->hash);
    return SAC_OK;
}

bool sac_source_is_unchanged(const sac_media *m) {
    sac_vision_key now;
    return stamp_item(m->part, &now, NULL) == SAC_OK && memcmp(&now, &m->stamp, sizeof now) == 0;
}

/* Decoded pixels: their key stands for them, or each row is read. */
static sac_status digest_pixels(sac_session *s, sac_media *m, sac_error *err) {
    const sac_pixels *p = &m->part->pixels;
    size_t n = sac_part_n_pictures(m->part);
    int64_t head[] = {p->width, p->height, (int64_t)n, p->key != NULL};
    sac_sha256 *h;
    SAC_TRY(sac_sha256_open(&h, err));
    hash_bytes(h, "pixels", 6);
    sac_sha256_update(h, head, sizeof head);
    if (p->key) sac_sha256_update(h, p->key, sizeof m->digest.hash);
    sac_status st = SAC_OK;
    for (size_t i = 0; !p->key && st == SAC_OK && i < n; i++) {
        sac_picture f = sac_part_picture(m->part, i);
        for (int y = 0; y < f.height; y++)
            sac_sha256_update(h, f.rgb + (size_t)y * f.row_bytes, (size_t)f.width * 3);
        st = sac_session_check_cancel(s, err);
    }
    sac_sha256_finish(h, m->digest.hash);
    m->has_digest = st == SAC_OK;
    return st;
}

/* What is prepared has its digest. */
static sac_status digest_picture(sac_session *s, const sac_picture *f, bool may_read, sac_vision_key *digest,
                                 bool *found, sac_error *err) {
    if (!f->prepared) return digest_source(s, f->path, f->bytes, f->n_bytes, may_read, digest, found, err);
    *digest = f->prepared->digest;
    *found = true;
    return SAC_OK;
}

static sac_status digest_item(sac_session *s, sac_media *m, bool may_read, sac_error *err) {
    const sac_part *p = m->part;
    if (m->has_digest) return SAC_OK;
    SAC_TRY(stamp_item(p, &m->stamp, err));
    if (p->kind == SAC_PART_PIXELS) return digest_pixels(s, m, err);
    sac_sha256 *h;
    SAC_TRY(sac_sha256_open(&h, err));
    sac_status st = SAC_OK;
    bool found = true;
    for (size_t i = 0; st == SAC_OK && found && i < sac_part_n_pictures(p); i++) {
        sac_picture f = sac_part_picture(p, i);
        sac_vision_key one;
        st = digest_picture(s, &f, may_read, &one, &found, err);
        if (st == SAC_OK && found) sac_sha256_update(h, one.hash, sizeof one.hash);
    }
    sac_sha256_finish(h, m->digest.hash);
    m->has_digest = st == SAC_OK && found;
    return st;
}

sac_status sac_source_find(sac_session *s, sac_media *m, sac_error *err) {
    return digest_item(s, m, false, err);
}

sac_status sac_source_read(sac_session *s, sac_media *m, sac_error *err) {
    return digest_item(s, m, true, err);
}

sac_status sac_source_key(sac_session *s, sac_media *m, sac_error *err) {
    const sac_part *p = m->part;
    sac_sha256 *h;
    SAC_TRY(sac_source_read(s, m, err));
    SAC_TRY(sac_sha256_open(&h, err));
    sac_sha256_update(h, s->model->loaded.fingerprint, sizeof s->model->loaded.fingerprint);
    int32_t how[] = {(int32_t)m->content, p->video.no_rotate, s->model->fast};
    sac_sha256_update(h, how, sizeof how);
    if (m->plan.is_among) hash_bytes(h, "among", 5);
    if (s->reduce.is_on) hash_bytes(h, s->reduce.p, sizeof s->reduce.p);
    if (sac_reduce_sees_videos(&s->reduce)) hash_bytes(h, s->reduce.reducer->name, strlen(s->reduce.reducer->name));
    if (m->frames.index) hash_bytes(h, m->frames.index, (size_t)m->frames.n_frames * sizeof *m->frames.index);
    sac_sha256_update(h, m->digest.hash, sizeof m->digest.hash);
    sac_sha256_finish(h, m->key.hash);
    return SAC_OK;
}

/* ---------------------------------------------------------------- what was measured */

/* As it lies in the memo; n_frames indices and n_frames times follow. */
typedef struct measured {
    int width, height;
    sac_frame_plan frames; /* its pointers mean nothing */
} measured;

static sac_status measured_key(const sac_media *m, const sac_frame_request *r, sac_vision_key *key) {
    double request[13] = {(double)m->content, m->part->video.no_rotate};
    if (r) {
        double asked[] = {r->has_fps ? r->fps : -1, r->has_num_frames ? (double)r->num_frames : -1,
                          r->has_max_frames ? (double)r->max_frames : -1,
                          r->has_max_pixels ? (double)r->max_pixels : -1, (double)r->frame_pixels};
        memcpy(request + 2, asked, sizeof asked);
        request[7] = r->max_frames_silent; /* the plan's text tells */
        request[8] = r->skip_s;
        request[9] = (double)r->skip_most;
        request[10] = r->pace;
        request[11] = r->most_s;
        request[12] = r->key_frames;
    }
    sac_sha256 *h;
    SAC_TRY(sac_sha256_open(&h, NULL));
    hash_bytes(h, "measured", 8);
    hash_bytes(h, request, sizeof request);
    sac_sha256_update(h, m->digest.hash, sizeof m->digest.hash);
    /* times of a list of frames are the caller's, not the files' */
    for (size_t i = 0; m->content == SAC_PART_FRAMES && i < sac_part_n_pictures(m->part); i++)
        sac_sha256_update(h, &(double){sac_part_picture(m->part, i).time_s}, sizeof(double));
    sac_sha256_finish(h, key->hash);
    return SAC_OK;
}

bool sac_source_recall(sac_session *s, sac_media *m, const sac_frame_request *request, int *width,
                       int *height) {
    sac_vision_key key;
    size_t n_bytes, n;
    if (!m->has_digest || measured_key(m, request, &key) != SAC_OK) return false;
    uint8_t *data = sac_memo_get(s->model->memo, &key, &n_bytes);
    if (!data) return false;
    measured found;
    memcpy(&found, data, sizeof found);
    n = (size_t)found.frames.n_frames;
    found.frames.index = n ? malloc(n * sizeof *found.frames.index) : NULL;
    found.frames.time_s = n ? malloc(n * sizeof *found.frames.time_s) : NULL;
    bool ok = !n || (found.frames.index && found.frames.time_s);
    if (ok && n) {
        memcpy(found.frames.index, data + sizeof found, n * sizeof(int64_t));
        memcpy(found.frames.time_s, data + sizeof found + n * sizeof(int64_t), n * sizeof(double));
    }
    free(data);
    if (!ok) {
        sac_frame_plan_free(&found.frames);
        return false;
    }
    m->frames = found.frames;
    *width = found.width;
    *height = found.height;
    return true;
}

void sac_source_remember(sac_session *s, const sac_media *m, const sac_frame_request *request, int width,
                         int height) {
    sac_vision_key key;
    size_t n = (size_t)m->frames.n_frames;
    if (!m->has_digest || measured_key(m, request, &key) != SAC_OK) return;
    size_t n_bytes = sizeof(measured) + n * (sizeof(int64_t) + sizeof(double));
    uint8_t *data = malloc(n_bytes);
    if (!data) return;
    measured what = {width, height, m->frames};
    what.frames.index = NULL;
    what.frames.time_s = NULL;
    memcpy(data, &what, sizeof what);
    if (n) {
        memcpy(data + sizeof what, m->frames.index, n * sizeof(int64_t));
        memcpy(data + sizeof what + n * sizeof(int64_t), m->frames.time_s, n * sizeof(double));
    }
    sac_memo_put(s->model->memo, &key, data, n_bytes);
    free(data);
}
