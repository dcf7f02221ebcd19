#include "vision_cache.h"

#include <stdlib.h>
#include <string.h>

enum { DEVICE_ALIGN = 256 }; /* of an entry's rows on a device */

sac_status sac_vision_cache_init(sac_vision_cache *c, size_t capacity_bytes, const sac_device *device,
                                 sac_error *err) {
    *c = (sac_vision_cache){.capacity_bytes = capacity_bytes, .device = device};
    pthread_mutex_init(&c->lock, NULL);
    if (!device || !capacity_bytes) return SAC_OK;
    sac_error why;
    sac_status st = device->alloc(device, capacity_bytes, (void **)&c->block, &why);
    if (st != SAC_NO_MEMORY) return st == SAC_OK ? st : sac_fail(err, st, "%s", why.text);
    return sac_fail(err, st, "%s has no %.0f MiB left for the cache of visual rows: give it fewer",
                    device->name, (double)capacity_bytes / (1 << 20));
}

/* ---------------------------------------------------------------- entries that are found, by their last use */

static void unlist(sac_vision_cache *c, sac_vision_entry *e) {
    if (e->newer)
        e->newer->older = e->older;
    else
        c->newest = e->older;
    if (e->older)
        e->older->newer = e->newer;
    else
        c->oldest = e->newer;
    e->is_listed = false;
}

static void list_as_newest(sac_vision_cache *c, sac_vision_entry *e) {
    e->newer = NULL;
    e->older = c->newest;
    if (c->newest)
        c->newest->newer = e;
    else
        c->oldest = e;
    c->newest = e;
    e->is_listed = true;
}

/* A cache holds tens of entries, each worth many milliseconds of encoding: a list walk is nothing beside
 * them. */
static sac_vision_entry *find(sac_vision_cache *c, const sac_vision_key *key) {
    for (sac_vision_entry *e = c->newest; e; e = e->older)
        if (memcmp(&e->key, key, sizeof *key) == 0) return e;
    return NULL;
}

/* ---------------------------------------------------------------- their memory */

static void free_entry(sac_vision_cache *c, sac_vision_entry *e) {
    if (e->before)
        e->before->next = e->next;
    else
        c->first = e->next;
    if (e->next) e->next->before = e->before;
    c->used_bytes -= e->taken_bytes;
    free(e);
}

static void unlist_and_free(sac_vision_cache *c, sac_vision_entry *e) {
    unlist(c, e);
    if (!e->n_users) free_entry(c, e);
}

static void insert_after(sac_vision_cache *c, sac_vision_entry *before, sac_vision_entry *e) {
    e->before = before;
    e->next = before ? before->next : c->first;
    if (e->next) e->next->before = e;
    if (before)
        before->next = e;
    else
        c->first = e;
    c->used_bytes += e->taken_bytes;
}

/* The first gap of the device's block that holds the entry. */
static bool take_gap(sac_vision_cache *c, sac_vision_entry *e) {
    sac_vision_entry *before = NULL, *next = c->first;
    uint8_t *at = c->block;
    for (;; before = next, next = next->next) {
        const uint8_t *end = next ? next->rows : c->block + c->capacity_bytes;
        if (before) at = (uint8_t *)before->rows + before->taken_bytes;
        if ((size_t)(end - at) >= e->taken_bytes) break;
        if (!next) return false;
    }
    e->rows = at;
    insert_after(c, before, e);
    return true;
}

static bool take_room(sac_vision_cache *c, sac_vision_entry *e) {
    if (c->device) return take_gap(c, e);
    if (c->capacity_bytes - c->used_bytes < e->taken_bytes) return false;
    insert_after(c, NULL, e);
    return true;
}

/* Of those that nobody uses: dropping another would give no memory yet. */
static bool drop_oldest_unused(sac_vision_cache *c) {
    for (sac_vision_entry *e = c->oldest; e; e = e->newer)
        if (!e->n_users) {
            unlist_and_free(c, e);
            return true;
        }
    return false;
}

void sac_vision_cache_free(sac_vision_cache *c) {
    while (c->oldest) unlist_and_free(c, c->oldest);
    if (c->block) c->device->free(c->device, c->block);
    pthread_mutex_destroy(&c->lock);
}

/* ---------------------------------------------------------------- references */

sac_vision_entry *sac_vision_cache_find(sac_vision_cache *c, const sac_vision_key *key, size_t n_bytes) {
    pthread_mutex_lock(&c->lock);
    sac_vision_entry *e = find(c, key);
    if (e && e->n_bytes != n_bytes) e = NULL;
    if (e) {
        unlist(c, e);
        list_as_newest(c, e);
        e->n_users++;
        c->n_hits++;
    } else
        c->n_misses++;
    pthread_mutex_unlock(&c->lock);
    return e;
}

/* With its rows behind it on the host. */
static sac_vision_entry *make_entry(const sac_vision_cache *c, const sac_vision_key *key, size_t n_bytes) {
    size_t rows = c->device ? 0 : n_bytes, gap = (size_t)DEVICE_ALIGN - 1;
    size_t taken = c->device ? (n_bytes + gap) & ~gap : n_bytes;
    if (n_bytes > c->capacity_bytes || taken > c->capacity_bytes) return NULL;
    sac_vision_entry *e = malloc(sizeof *e + rows);
    if (e) *e = (sac_vision_entry){*key, e + 1, n_bytes, .taken_bytes = taken, .n_users = 1};
    return e;
}

sac_vision_entry *sac_vision_cache_reserve(sac_vision_cache *c, const sac_vision_key *key, size_t n_bytes) {
    sac_vision_entry *e = make_entry(c, key, n_bytes);
    if (!e) return NULL;
    pthread_mutex_lock(&c->lock);
    bool has_room = take_room(c, e);
    while (!has_room && drop_oldest_unused(c)) has_room = take_room(c, e);
    pthread_mutex_unlock(&c->lock);
    if (has_room) return e;
    free(e);
    return NULL;
}

void sac_vision_cache_publish(sac_vision_cache *c, sac_vision_entry *e) {
    pthread_mutex_lock(&c->lock);
    sac_vision_entry *same = find(c, &e->key);
    if (same) unlist_and_free(c, same);
    list_as_newest(c, e);
    pthread_mutex_unlock(&c->lock);
}

void sac_vision_cache_release(sac_vision_cache *c, sac_vision_entry *e) {
    pthread_mutex_lock(&c->lock);
    if (--e->n_users == 0 && !e->is_listed) free_entry(c, e);
    pthread_mutex_unlock(&c->lock);
}
