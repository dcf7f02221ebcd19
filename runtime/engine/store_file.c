/* store_file.c - the files of the store. A file is, in this order and little-endian:
 *   magic[8] version(4) rows(4) data bytes(8) key[32] before[32] checksum(8) zeros, 128 bytes in all;
 *   the rows' identities and numbers; the data. */
#define _GNU_SOURCE
#include "store_file.h"

#include "clock.h"
#include "hash.h"
#include "status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC "SACROWS\n"
enum { VERSION = 1, NAME_BYTES = 80, MOST_LINES = 16, CHECKSUM_AT = 88 };
#define RETRY_NS 60000000000

typedef struct header {
    char magic[8];
    uint32_t version, n_rows;
    uint64_t n_bytes;
    sac_store_key key, before;
    uint64_t checksum, zeros[4];
} header;
_Static_assert(sizeof(header) == SAC_STORE_HEADER && offsetof(header, checksum) == CHECKSUM_AT, "as written");

/* ---------------------------------------------------------------- what a file is */

static header header_of(const sac_store_block *b) {
    header h = {.version = VERSION, .n_rows = SAC_STORE_ROWS, .n_bytes = b->n_bytes, .key = b->key, .before = b->before};
    memcpy(h.magic, MAGIC, sizeof h.magic);
    return h;
}

/* Over the header without it, the rows and the data. */
static uint64_t checksum(const header *h, const void *rows, const uint8_t *data) {
    header plain = *h;
    plain.checksum = 0;
    uint64_t sum = sac_hash_wide(0, &plain, sizeof plain);
    return sac_hash_wide(sac_hash_wide(sum, rows, SAC_STORE_ROWS * sizeof(sac_store_row)), data, (size_t)h->n_bytes);
}

void sac_store_file_head(uint8_t head[SAC_STORE_FILE_HEAD], const sac_store_block *b) {
    header h = header_of(b);
    h.checksum = checksum(&h, b->rows, b->data);
    memcpy(head, &h, sizeof h);
    memcpy(head + sizeof h, b->rows, sizeof b->rows);
}

const char *sac_store_file_check(const uint8_t *bytes, size_t n_bytes, const sac_store_block *b, const uint8_t **data) {
    header h, want = header_of(b);
    *data = NULL;
    if (n_bytes < SAC_STORE_FILE_HEAD) return "it is cut off";
    memcpy(&h, bytes, sizeof h);
    if (memcmp(h.magic, want.magic, sizeof h.magic)) return "it holds no rows";
    if (h.version != want.version) return "it is of another version of saccade";
    if (h.n_rows != want.n_rows || h.n_bytes != want.n_bytes || memcmp(&h.key, &want.key, sizeof h.key) ||
        memcmp(&h.before, &want.before, sizeof h.before) ||
        memcmp(bytes + sizeof h, b->rows, sizeof b->rows))
        return "it is of another model or prompt";
    if (n_bytes != SAC_STORE_FILE_HEAD + b->n_bytes) return "it has not the size that it says";
    if (checksum(&h, bytes + sizeof h, bytes + SAC_STORE_FILE_HEAD) != h.checksum) return "its checksum is wrong";
    *data = bytes + SAC_STORE_FILE_HEAD;
    return NULL;
}

/* ---------------------------------------------------------------- names and times */

static void name_of(const sac_store_key *key, char name[NAME_BYTES]) {
    for (size_t i = 0; i < sizeof key->hash; i++) sprintf(name + 2 * i, "%02x", key->hash[i]);
    strcpy(name + 2 * sizeof key->hash, ".rows");
}

static bool is_name(const char *name) {
    return strlen(name) == 64 + 5 && strspn(name, "0123456789abcdef") == 64 && !strcmp(name + 64, ".rows");
}

/* Of a use now: a block's file is a little older than its parent's, so that it goes first. */
static void times_of(const sac_store_dir *d, const sac_store_block *b, struct timespec times[2]) {
    char parent[NAME_BYTES];
    struct stat st;
    clock_gettime(CLOCK_REALTIME, &times[0]);
    name_of(&b->before, parent); /* no file has what stands for the beginning */
    if (!fstatat(d->fd, parent, &st, AT_SYMLINK_NOFOLLOW)) {
        int64_t ns = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec - 1000;
        times[0] = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    }
    times[1] = times[0];
}

static void say(sac_store_dir *d, const char *name, const char *what) {
    char line[400];
    if (!d->say) return;
    snprintf(line, sizeof line, "%.200s%s%s: %s", d->path, name ? "/" : "", name ? name : "", what);
    d->say(d->say_ctx, line);
}

/* ---------------------------------------------------------------- the folder */

typedef struct found {
    int64_t used_ns;
    size_t n_bytes;
    char name[NAME_BYTES];
} found;

typedef struct listing {
    found *item;
    size_t n, capacity, n_bytes;
} listing;

/* What a writer that lives holds locked. */
static void remove_unfinished(const sac_store_dir *d, const char *name) {
    int fd = openat(d->fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    if (!flock(fd, LOCK_EX | LOCK_NB)) unlinkat(d->fd, name, 0);
    close(fd);
}

static void list_one(const sac_store_dir *d, listing *l, const char *name) {
    struct stat st;
    if (!strncmp(name, "unfinished-", 11)) remove_unfinished(d, name);
    if (!is_name(name) || fstatat(d->fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode)) return;
    if (l->n == l->capacity) {
        size_t more = l->capacity ? 2 * l->capacity : 256;
        found *item = realloc(l->item, more * sizeof *item);
        if (!item) return; /* it is seen the next time */
        l->item = item;
        l->capacity = more;
    }
    found *f = &l->item[l->n++];
    *f = (found){st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec, (size_t)st.st_size, ""};
    snprintf(f->name, sizeof f->name, "%s", name);
    l->n_bytes += f->n_bytes;
}

static listing look_through(const sac_store_dir *d) {
    listing l = {0};
    int fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0) close(fd);
        return l;
    }
    for (const struct dirent *e; (e = readdir(dir));) list_one(d, &l, e->d_name);
    closedir(dir);
    return l;
}

static int by_use(const void *x, const void *y) {
    const found *a = x, *b = y;
    return (a->used_ns > b->used_ns) - (a->used_ns < b->used_ns);
}

/* Removes files until n bytes more have room. */
static void trim(sac_store_dir *d, size_t n_bytes) {
    listing l = look_through(d);
    if (n_bytes > d->limit_bytes || l.n_bytes > d->limit_bytes - n_bytes) {
        size_t most = d->limit_bytes - d->limit_bytes / 16; /* not for every block anew */
        qsort(l.item, l.n, sizeof *l.item, by_use);
        for (size_t i = 0; i < l.n && l.n_bytes + n_bytes > most; i++) {
            if (unlinkat(d->fd, l.item[i].name, 0) && errno != ENOENT) continue;
            l.n_bytes -= l.item[i].n_bytes;
        }
    }
    atomic_store(&d->used_bytes, l.n_bytes);
    d->unscanned_bytes = 0;
    free(l.item);
}

sac_status sac_store_dir_open(sac_store_dir *d, const sac_store_options *o, sac_error *err) {
    *d = (sac_store_dir){.fd = -1, .limit_bytes = o->disk_bytes, .say = o->say, .say_ctx = o->say_ctx};
    if (!(d->path = strdup(o->dir))) return sac_fail(err, SAC_NO_MEMORY, "no memory for the store of rows");
    if (mkdir(o->dir, 0700) && errno != EEXIST)
        return sac_fail(err, SAC_IO, "%s: cannot make the folder for rows: %s", o->dir, strerror(errno));
    d->fd = open(o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd < 0) return sac_fail(err, SAC_IO, "%s: cannot open the folder for rows: %s", o->dir, strerror(errno));
    if (faccessat(d->fd, ".", R_OK | W_OK | X_OK, 0))
        return sac_fail(err, SAC_IO, "%s: rows cannot be kept there: %s", o->dir, strerror(errno));
    trim(d, 0);
    return SAC_OK;
}

void sac_store_dir_close(sac_store_dir *d) {
    if (d->path && d->fd >= 0) close(d->fd);
    free(d->path);
    *d = (sac_store_dir){.fd = -1};
}

/* ---------------------------------------------------------------- reading */

bool sac_store_dir_has(const sac_store_dir *d, const sac_store_key *key) {
    char name[NAME_BYTES];
    name_of(key, name);
    return !faccessat(d->fd, name, R_OK, 0);
}

static bool read_all(int fd, uint8_t *to, size_t n_bytes) {
    for (size_t at = 0; at < n_bytes;) {
        ssize_t n = read(fd, to + at, n_bytes - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += (size_t)n;
    }
    return true;
}

/* NULL, or what is wrong. */
static const char *read_block(int fd, sac_store_block *b) {
    struct stat st;
    size_t n_bytes = SAC_STORE_FILE_HEAD + b->n_bytes;
    const uint8_t *data;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) return "it is no file";
    if ((uint64_t)st.st_size != n_bytes) return "it is cut off, or of another model";
    uint8_t *bytes = malloc(n_bytes);
    if (!bytes) return "no memory";
    const char *wrong = read_all(fd, bytes, n_bytes) ? sac_store_file_check(bytes, n_bytes, b, &data) : "it cannot be read";
    if (!wrong) memcpy(b->data, data, b->n_bytes);
    free(bytes);
    return wrong;
}

bool sac_store_dir_read(sac_store_dir *d, sac_store_block *b) {
    char name[NAME_BYTES], line[120];
    struct timespec times[2];
    name_of(&b->key, name);
    int fd = openat(d->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return false;
    const char *wrong = read_block(fd, b);
    times_of(d, b, times);
    if (!wrong) futimens(fd, times);
    close(fd);
    if (!wrong) return true;
    unlinkat(d->fd, name, 0);
    snprintf(line, sizeof line, "rows are not taken from it and it is removed: %s", wrong);
    if (atomic_fetch_add(&d->n_said, 1) < MOST_LINES) say(d, name, line);
    return false;
}

/* ---------------------------------------------------------------- writing */

static bool write_all(int fd, const uint8_t *from, size_t n_bytes) {
    for (size_t at = 0; at < n_bytes;) {
        ssize_t n = write(fd, from + at, n_bytes - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += (size_t)n;
    }
    return true;
}

static bool write_block(const sac_store_dir *d, const sac_store_block *b, const char *name) {
    static atomic_uint number;
    char unfinished[NAME_BYTES];
    uint8_t head[SAC_STORE_FILE_HEAD];
    snprintf(unfinished, sizeof unfinished, "unfinished-%ld-%u", (long)getpid(), atomic_fetch_add(&number, 1));
    unlinkat(d->fd, unfinished, 0); /* of a process that had this number before */
    int fd = openat(d->fd, unfinished, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return false;
    flock(fd, LOCK_EX | LOCK_NB);
    sac_store_file_head(head, b);
    bool ok = write_all(fd, head, sizeof head) && write_all(fd, b->data, b->n_bytes) &&
              !renameat(d->fd, unfinished, d->fd, name);
    int why = errno;
    if (!ok) unlinkat(d->fd, unfinished, 0);
    close(fd);
    errno = why;
    return ok;
}

static void stop(sac_store_dir *d) {
    char line[160];
    snprintf(line, sizeof line, "rows cannot be written there (%s): prompts are answered without, and it is tried again now and then",
             strerror(errno));
    d->stopped_until_ns = sac_now_ns() + RETRY_NS;
    if (!d->has_said_full) say(d, NULL, line);
    d->has_said_full = true;
}

bool sac_store_dir_write(sac_store_dir *d, const sac_store_block *b) {
    char name[NAME_BYTES];
    struct timespec times[2];
    size_t n_bytes = SAC_STORE_FILE_HEAD + b->n_bytes;
    name_of(&b->key, name);
    times_of(d, b, times);
    if (!utimensat(d->fd, name, times, AT_SYMLINK_NOFOLLOW)) return true;
    if (n_bytes > d->limit_bytes || sac_now_ns() < d->stopped_until_ns) return false;
    if (atomic_load(&d->used_bytes) + n_bytes > d->limit_bytes || d->unscanned_bytes > d->limit_bytes / 16) trim(d, n_bytes);
    if (!write_block(d, b, name)) {
        stop(d);
        return false;
    }
    utimensat(d->fd, name, times, AT_SYMLINK_NOFOLLOW);
    atomic_fetch_add(&d->used_bytes, n_bytes);
    d->unscanned_bytes += n_bytes;
    return true;
}
