#define _GNU_SOURCE
#include "store.h"

#include "beginnings.h"
#include "clock.h"
#include "hash.h"
#include "store_events.h"
#include "store_file.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES ((size_t)16 << 20)
#define TOUCH_NS    60000000000 /* a file's time of use is told again after so long */

struct sac_store {
    sac_beginnings *beginnings;
    uint8_t model[32]; /* what makes rows, beside a session's settings */
    sac_store_index index;
    bool has_dir, has_device, has_thread, quits;
    sac_store_dir dir;
    sac_stream stream; /* of a device, with pinned memory for a block */
    uint8_t *pinned;
    size_t pinned_bytes;
    sac_store_block *to_write, *last_to_write; /* each with a user */
    size_t to_write_bytes;
    pthread_t thread;
    pthread_cond_t stirred;
    sac_beginnings_report report;
    sac_store_watch watch;
};

/* ---------------------------------------------------------------- keys */

/* The settings that rows depend on: those that sac_decoder_same_rows compares, and the reducer's. */
sac_status sac_store_enter(const sac_store *t, sac_session *s, sac_error *err) {
    const sac_decoder_state *d = &s->decoder;
    const bool own_rope = strncmp(d->rope_line, "model", 5) != 0;
    const int64_t numbers[] = {d->cache.dtype, own_rope ? d->n_ctx : 0, d->device ? 0 : d->chunk, d->fast, s->reduce.is_on,
                               d->shape.n_layers, d->shape.n_kv_heads, d->shape.head_dim, SAC_STORE_ROWS};
    const char *names[] = {d->prefill.policy->name, d->cache.choice.format->name, d->rope_line};
    sac_sha256 *h;
    s->stored = (sac_stored){0};
    SAC_TRY(sac_sha256_open(&h, err));
    sac_sha256_update(h, t->model, sizeof t->model);
    for (size_t i = 0; i < SAC_COUNT(names); i++) sac_sha256_update(h, names[i], strlen(names[i]) + 1);
    sac_sha256_update(h, numbers, sizeof numbers);
    sac_sha256_update(h, d->prefill.p, sizeof d->prefill.p);
    if (d->cache.pool) sac_sha256_update(h, "pages", sizeof "pages"); /* blocks lie otherwise */
    if (s->reduce.is_on) sac_sha256_update(h, s->reduce.p, sizeof s->reduce.p);
    if (sac_reduce_sees_videos(&s->reduce)) sac_sha256_update(h, s->reduce.reducer->name, strlen(s->reduce.reducer->name));
    sac_sha256_finish(h, s->stored.beginning.hash);
    return SAC_OK;
}

/* Of the machine's kernels, too: theirs are the bits. */
static sac_status fingerprint(sac_store *t, const sac_model *m, sac_error *err) {
    uint8_t weights[32];
    sac_sha256 *h;
    SAC_TRY(sac_loaded_model_rows_fingerprint(&m->loaded, weights, err));
    SAC_TRY(sac_sha256_open(&h, err));
    sac_sha256_update(h, weights, sizeof weights);
    sac_sha256_update(h, sac_version(), strlen(sac_version()) + 1);
    sac_sha256_update(h, m->cpu_text, strlen(m->cpu_text) + 1);
    sac_sha256_update(h, &m->activations, sizeof m->activations);
    if (sac_model_on_device(m)) sac_sha256_update(h, m->device.name, strlen(m->device.name) + 1);
    sac_sha256_finish(h, t->model);
    return SAC_OK;
}

/* What the block of the session's rows from `first` on is, behind the block of that key. False: no memory. */
static bool describe(const sac_session *s, const sac_store_key *before, int64_t first, sac_store_key *key,
                     sac_store_row rows[SAC_STORE_ROWS]) {
    sac_sha256 *h;
    for (int i = 0; i < SAC_STORE_ROWS; i++) {
        const sac_identity *id = &s->identity[first + i];
        rows[i] = (sac_store_row){.a = id->a, .b = id->b};
        for (int axis = 0; axis < SAC_POSITION_AXES; axis++)
            rows[i].number[axis] = (int32_t)sac_row_number(&s->decoder.numbers, axis, first + i);
    }
    if (sac_sha256_open(&h, NULL) != SAC_OK) return false;
    sac_sha256_update(h, before, sizeof *before);
    sac_sha256_update(h, rows, SAC_STORE_ROWS * sizeof *rows);
    sac_sha256_finish(h, key->hash);
    return true;
}

/* ---------------------------------------------------------------- copies */

/* Rows [first, first + n) of the session to or from the block; over pinned memory on a device. */
static sac_status copy(sac_store *t, sac_session *s, sac_store_block *b, int64_t first, int64_t n, bool to_block) {
    sac_kv_cache *c = &s->decoder.cache;
    const int64_t at = first % SAC_STORE_ROWS;
    uint8_t *data = t->has_device ? t->pinned : b->data;
    const sac_stream *stream = t->has_device ? &t->stream : NULL;
    if (t->has_device && b->n_bytes > t->pinned_bytes) {
        const sac_device *d = t->stream.device;
        d->host_free(d, t->pinned);
        t->pinned = NULL, t->pinned_bytes = 0;
        SAC_TRY(d->host_alloc(d, b->n_bytes, (void **)&t->pinned, NULL));
        t->pinned_bytes = b->n_bytes;
        data = t->pinned;
    }
    if (t->has_device && !to_block) memcpy(data, b->data, b->n_bytes);
    SAC_TRY(to_block ? sac_kv_cache_to_block(c, stream, first, n, data, at, SAC_STORE_ROWS)
                     : sac_kv_cache_from_block(c, stream, first, n, data, at, SAC_STORE_ROWS));
    if (t->has_device) SAC_TRY(t->stream.device->stream_sync(&t->stream, NULL));
    if (t->has_device && to_block) memcpy(b->data, data, b->n_bytes);
    return SAC_OK;
}

/* ---------------------------------------------------------------- saving */

/* It gets to the disk, and to be known there as used just now. Not more than half of the memory waits for that. */
static void queue_write(sac_store *t, sac_store_block *b) {
    int64_t now = sac_now_ns();
    if (!t->has_dir || b->n_users || (b->on_disk_ns && now - b->on_disk_ns < TOUCH_NS)) return;
    if (t->to_write_bytes + b->n_bytes > t->index.capacity_bytes / 2) return;
    b->on_disk_ns = now;
    b->n_users++;
    b->next_to_write = NULL;
    *(t->to_write ? &t->last_to_write->next_to_write : &t->to_write) = b;
    t->last_to_write = b;
    t->to_write_bytes += b->n_bytes;
}

static sac_store_block *make(sac_store *t, sac_session *s, const sac_store_block *like, sac_store_block *parent) {
    sac_store_block *b = sac_store_block_new(sac_kv_cache_block_bytes(&s->decoder.cache, SAC_STORE_ROWS));
    if (!b) return NULL;
    b->key = like->key;
    b->before = like->before;
    memcpy(b->rows, like->rows, sizeof b->rows);
    if (copy(t, s, b, s->stored.n_saved, SAC_STORE_ROWS, true) == SAC_OK && sac_store_index_add(&t->index, b, parent)) {
        sac_store_tell_stored(&t->watch, s, s->stored.n_saved, b);
        return b;
    }
    free(b);
    return NULL;
}

/* The parent is there as long as nobody else's blocks have taken its room. */
static sac_store_block *find_parent(const sac_store *t, const sac_session *s) {
    return s->stored.n_saved ? sac_store_index_find_key(&t->index, &s->stored.key) : NULL;
}

/* The next block of what the session offers; where that cannot be kept, none of the rest is. */
static void save_block(sac_store *t, sac_session *s) {
    sac_stored *at = &s->stored;
    sac_store_block like = {.before = at->n_saved ? at->key : at->beginning}, *parent = find_parent(t, s), *b = NULL;
    size_t n_bytes = sac_kv_cache_block_bytes(&s->decoder.cache, SAC_STORE_ROWS);
    if ((parent || !at->n_saved) && describe(s, &like.before, at->n_saved, &like.key, like.rows)) {
        b = sac_store_index_find(&t->index, &like.key, &like.before, like.rows, n_bytes);
        if (b)
            sac_store_index_use(&t->index, b);
        else
            b = make(t, s, &like, parent);
    }
    if (b) {
        queue_write(t, b);
        at->key = like.key;
        at->n_saved += SAC_STORE_ROWS;
    } else {
        at->n_saved = INT64_MAX / 2;
    }
}

static bool has_more(const sac_session *s) {
    return s->stored.n_saved + SAC_STORE_ROWS <= s->n_shared && sac_decoder_shares(&s->decoder);
}

void sac_store_offer(sac_store *t, sac_session *s) {
    s->stored.n_saved = 0;
    if (has_more(s)) pthread_cond_signal(&t->stirred);
}

void sac_store_save(sac_store *t, sac_session *s) {
    while (has_more(s)) save_block(t, s);
    if (t->to_write) pthread_cond_signal(&t->stirred);
}

/* ---------------------------------------------------------------- the thread */

static void write_one(sac_store *t) {
    sac_store_block *b = t->to_write;
    pthread_mutex_unlock(&t->beginnings->lock);
    bool ok = sac_store_dir_write(&t->dir, b);
    pthread_mutex_lock(&t->beginnings->lock);
    if (!ok) b->on_disk_ns = 0;
    t->to_write = b->next_to_write;
    t->to_write_bytes -= b->n_bytes;
    b->n_users--;
}

static sac_session *find_offer(const sac_store *t) {
    sac_session *s = t->beginnings->sharers;
    while (s && !has_more(s)) s = s->next_sharer;
    return s;
}

/* What is offered may be lost soon, but room for it may have to be written first. */
static void *work(void *store) {
    sac_store *t = store;
    pthread_mutex_lock(&t->beginnings->lock);
    for (;;) {
        sac_session *s = find_offer(t);
        if (t->to_write && (!s || t->to_write_bytes > t->index.capacity_bytes / 4))
            write_one(t);
        else if (s)
            save_block(t, s);
        else if (t->quits)
            break;
        else
            pthread_cond_wait(&t->stirred, &t->beginnings->lock);
        if (!s) continue;
        pthread_mutex_unlock(&t->beginnings->lock); /* whoever waits for it goes first */
        pthread_mutex_lock(&t->beginnings->lock);
    }
    pthread_mutex_unlock(&t->beginnings->lock);
    return NULL;
}

/* Signals are the program's; a file beyond its limit is an error of the write then, and no signal. */
static sac_status start(sac_store *t, sac_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    t->has_thread = !pthread_create(&t->thread, NULL, work, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return t->has_thread ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "cannot start a thread for the store of rows");
}

/* ---------------------------------------------------------------- open and close */

sac_status sac_store_open(sac_store **out, sac_beginnings *b, const sac_store_options *o, sac_error *err) {
    const sac_model *m = b->model;
    sac_status st;
    sac_store *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t || !sac_store_index_init(&t->index, o->memory_bytes)) {
        free(t);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for the store of rows");
    }
    t->beginnings = b;
    pthread_cond_init(&t->stirred, NULL);
    SAC_TRY_GOTO(st, fingerprint(t, m, err), fail);
    if (o->dir) SAC_TRY_GOTO(st, sac_store_dir_open(&t->dir, o, err), fail);
    t->has_dir = o->dir != NULL;
    if (sac_model_on_device(m)) SAC_TRY_GOTO(st, m->device.stream_open(&m->device, &t->stream, 0, err), fail);
    t->has_device = sac_model_on_device(m);
    SAC_TRY_GOTO(st, start(t, err), fail);
    *out = t;
    return SAC_OK;
fail:
    sac_store_close(t);
    return st;
}

void sac_store_close(sac_store *t) {
    if (!t) return;
    if (t->has_thread) {
        pthread_mutex_lock(&t->beginnings->lock);
        t->quits = true;
        pthread_cond_signal(&t->stirred);
        pthread_mutex_unlock(&t->beginnings->lock);
        pthread_join(t->thread, NULL);
    }
    if (t->has_device) {
        const sac_device *d = t->stream.device;
        d->host_free(d, t->pinned);
        d->stream_close(&t->stream);
    }
    sac_store_dir_close(&t->dir);
    sac_store_index_free(&t->index);
    pthread_cond_destroy(&t->stirred);
    free(t);
}

static void on_dropping(void *ctx, const sac_store_block *b) {
    const sac_store *t = ctx;
    sac_store_tell_removed(&t->watch, b);
}

void sac_store_watch_by(sac_store *t, void (*event)(void *ctx, const sac_block_event *e), void *ctx) {
    t->watch = (sac_store_watch){event, ctx};
    t->index.dropping = on_dropping;
    t->index.ctx = t;
}

void sac_store_report(const sac_store *t, sac_beginnings_report *r) {
    r->n_asked_rows = t->report.n_asked_rows;
    r->n_found = t->report.n_found;
    r->n_found_rows = t->report.n_found_rows;
    r->n_disk_rows = t->report.n_disk_rows;
    r->n_dropped_blocks = t->index.n_dropped;
    r->memory_bytes = t->index.used_bytes;
    r->disk_bytes = t->has_dir ? atomic_load(&t->dir.used_bytes) : 0;
}

/* ---------------------------------------------------------------- finding */

/* Is there a whole block of the prompt behind what is behind us, and is it wanted? */
static bool wants_more(const sac_store_walk *w, int64_t n_tokens) {
    int64_t first = w->n_blocks * SAC_STORE_ROWS;
    return first < w->most && first + SAC_STORE_ROWS <= n_tokens;
}

/* Rows that blocks in memory and on disk have, without a look into files. */
static int64_t count_rows(sac_store *t, const sac_session *s, sac_store_walk w, int64_t n_tokens) {
    size_t n_bytes = sac_kv_cache_block_bytes(&s->decoder.cache, SAC_STORE_ROWS);
    for (; wants_more(&w, n_tokens); w.n_blocks++) {
        sac_store_block like;
        if (!describe(s, &w.key, w.n_blocks * SAC_STORE_ROWS, &like.key, like.rows)) break;
        if (!sac_store_index_find(&t->index, &like.key, &w.key, like.rows, n_bytes) &&
            !(t->has_dir && sac_store_dir_has(&t->dir, &like.key)))
            break;
        w.key = like.key;
    }
    return w.n_blocks * SAC_STORE_ROWS;
}

bool sac_store_walk_begin(sac_store_walk *w, sac_session *s, const sac_prompt *prompt) {
    sac_beginnings *b = s->beginnings;
    sac_store *t = b ? b->store : NULL;
    if (!t || !sac_decoder_shares(&s->decoder) ||
        !sac_decoder_may_take(&s->decoder, prompt->n_tokens))
        return false;
    *w = (sac_store_walk){.key = s->stored.beginning, .most = sac_prompt_exact_rows(s, prompt->n_tokens, prompt->n_tokens)};
    pthread_mutex_lock(&b->lock);
    t->report.n_asked_rows += prompt->n_tokens - prompt->n_reused;
    int64_t n = w->most > prompt->n_reused ? count_rows(t, s, *w, prompt->n_tokens) : 0;
    w->most = sac_prompt_exact_rows(s, n < w->most ? n : w->most, prompt->n_tokens);
    bool more = w->most > prompt->n_reused;
    if (more) {
        s->n_shared = 0; /* until the rows are there */
        w->n = s->stored.n_first = sac_decoder_rewind(&s->decoder, s->n_exact);
    }
    pthread_mutex_unlock(&b->lock);
    return more;
}

/* The block out of its file, of no index yet; the lock is given up meanwhile. */
static sac_store_block *read_file(sac_store *t, const sac_store_block *like, size_t n_bytes) {
    if (!t->has_dir) return NULL;
    pthread_mutex_unlock(&t->beginnings->lock);
    sac_store_block *b = sac_store_block_new(n_bytes);
    if (b) {
        b->key = like->key;
        b->before = like->before;
        memcpy(b->rows, like->rows, sizeof b->rows);
        if (!sac_store_dir_read(&t->dir, b)) {
            free(b);
            b = NULL;
        }
    }
    pthread_mutex_lock(&t->beginnings->lock);
    return b;
}

/* Keeps what came from disk in memory where there is room beside its parent; *b is then the index's. */
static bool keep(sac_store *t, const sac_session *s, sac_store_block *b, int64_t first) {
    sac_store_block *parent = first ? sac_store_index_find_key(&t->index, &b->before) : NULL;
    if ((!parent && first) || sac_store_index_find(&t->index, &b->key, &b->before, b->rows, b->n_bytes)) return false;
    b->on_disk_ns = sac_now_ns();
    if (!sac_store_index_add(&t->index, b, parent)) return false;
    sac_store_tell_stored(&t->watch, s, first, b);
    return true;
}

static sac_status add_rows(sac_store *t, sac_session *s, sac_store_walk *w, sac_store_block *b, sac_error *err) {
    int64_t first = w->n_blocks * SAC_STORE_ROWS, end = first + SAC_STORE_ROWS;
    if (end > w->most) end = w->most;
    if (end <= w->n) return SAC_OK; /* the session has them */
    if (copy(t, s, b, w->n, end - w->n, false) != SAC_OK)
        return sac_fail(err, SAC_DEVICE, "%s: copying rows of a prompt failed", s->model->device.name);
    sac_decoder_add_rows(&s->decoder, end);
    w->n = s->n_prompted = s->n_exact = end;
    s->begins_few = false;
    return SAC_OK;
}

/* One block; false in *found: it is there no more. */
static sac_status walk_block(sac_store *t, sac_session *s, sac_store_walk *w, bool *found, sac_error *err) {
    size_t n_bytes = sac_kv_cache_block_bytes(&s->decoder.cache, SAC_STORE_ROWS);
    sac_store_block like = {.before = w->key};
    *found = describe(s, &w->key, w->n_blocks * SAC_STORE_ROWS, &like.key, like.rows);
    if (!*found) return SAC_OK;
    sac_store_block *b = sac_store_index_find(&t->index, &like.key, &w->key, like.rows, n_bytes), *read = NULL;
    if (b)
        sac_store_index_use(&t->index, b);
    else
        b = read = read_file(t, &like, n_bytes);
    *found = b != NULL;
    if (!b) return SAC_OK;
    int64_t n = w->n;
    sac_status st = add_rows(t, s, w, b, err);
    if (read) t->report.n_disk_rows += w->n - n;
    if (read && !keep(t, s, read, w->n_blocks * SAC_STORE_ROWS)) free(read);
    w->key = like.key;
    w->n_blocks++;
    return st;
}

static void end_walk(sac_store *t, sac_session *s, const sac_store_walk *w, sac_prompt *prompt) {
    int64_t first = s->stored.n_first;
    int64_t n = sac_decoder_rewind(&s->decoder, sac_prompt_exact_rows(s, w->n, prompt->n_tokens));
    prompt->n_reused = s->n_shared = s->n_prompted = s->n_exact = n;
    s->stored.n_found = n > first ? n - first : 0;
    t->report.n_found += n > first;
    t->report.n_found_rows += s->stored.n_found;
}

sac_status sac_store_walk_next(sac_store_walk *w, sac_session *s, sac_prompt *prompt, bool *done, sac_error *err) {
    sac_beginnings *b = s->beginnings;
    sac_store *t = b->store;
    size_t n_bytes = sac_kv_cache_block_bytes(&s->decoder.cache, SAC_STORE_ROWS);
    bool found = true;
    sac_status st = SAC_OK;
    pthread_mutex_lock(&b->lock);
    for (size_t at = 0; st == SAC_OK && found && wants_more(w, prompt->n_tokens) && at < PIECE_BYTES; at += n_bytes)
        st = walk_block(t, s, w, &found, err);
    *done = !found || !wants_more(w, prompt->n_tokens);
    if (st == SAC_OK && *done) end_walk(t, s, w, prompt);
    pthread_mutex_unlock(&b->lock);
    return st;
}
