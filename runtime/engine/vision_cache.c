#include "vision_cache.h"

#include <stdlib.h>
#include <string.h>

struct sac_vision_entry {
    sac_vision_key key;
    sac_vision_entry *newer, *older;
    int64_t n_rows, cols;
    size_t n_bytes; /* of the rows, as counted against the capacity */
    float rows[];
};

void sac_vision_cache_init(sac_vision_cache *c, size_t capacity_bytes) {
    *c = (sac_vision_cache){.capacity_bytes = capacity_bytes};
    pthread_mutex_init(&c->lock, NULL);
}

static void unlink_entry(sac_vision_cache *c, sac_vision_entry *e) {
    if (e->newer)
        e->newer->older = e->older;
    else
        c->newest = e->older;
    if (e->older)
        e->older->newer = e->newer;
    else
        c->oldest = e->newer;
}

static void push_newest(sac_vision_cache *c, sac_vision_entry *e) {
    e->newer = NULL;
    e->older = c->newest;
    if (c->newest)
        c->newest->newer = e;
    else
        c->oldest = e;
    c->newest = e;
}

static void drop(sac_vision_cache *c, sac_vision_entry *e) {
    unlink_entry(c, e);
    c->used_bytes -= e->n_bytes;
    free(e);
}

void sac_vision_cache_free(sac_vision_cache *c) {
    while (c->oldest) drop(c, c->oldest);
    pthread_mutex_destroy(&c->lock);
}

/* A cache holds tens of entries, each worth many milliseconds of encoding: a list walk is nothing beside
 * them. */
static sac_vision_entry *find(sac_vision_cache *c, const sac_vision_key *key) {
    for (sac_vision_entry *e = c->newest; e; e = e->older)
        if (memcmp(&e->key, key, sizeof *key) == 0) return e;
    return NULL;
}

static size_t block_bytes(const sac_vision_blocks *b) {
    return (size_t)(b->block_rows * b->cols) * sizeof(float);
}

bool sac_vision_cache_get(sac_vision_cache *c, const sac_vision_key *key, const sac_vision_blocks *to) {
    pthread_mutex_lock(&c->lock);
    sac_vision_entry *e = find(c, key);
    bool hit = e && e->n_rows == to->n_blocks * to->block_rows && e->cols == to->cols;
    if (hit) {
        for (int64_t b = 0; b < to->n_blocks; b++)
            memcpy(to->base + to->spans[b].first * to->cols, e->rows + b * to->block_rows * to->cols,
                   block_bytes(to));
        unlink_entry(c, e);
        push_newest(c, e);
        c->n_hits++;
    } else
        c->n_misses++;
    pthread_mutex_unlock(&c->lock);
    return hit;
}

void sac_vision_cache_put(sac_vision_cache *c, const sac_vision_key *key, const sac_vision_blocks *from) {
    size_t n_bytes = (size_t)from->n_blocks * block_bytes(from);
    if (n_bytes > c->capacity_bytes) return;
    sac_vision_entry *e = malloc(sizeof *e + n_bytes);
    if (!e) return;
    e->key = *key;
    e->n_rows = from->n_blocks * from->block_rows;
    e->cols = from->cols;
    e->n_bytes = n_bytes;
    for (int64_t b = 0; b < from->n_blocks; b++)
        memcpy(e->rows + b * from->block_rows * from->cols, from->base + from->spans[b].first * from->cols,
               block_bytes(from));
    pthread_mutex_lock(&c->lock);
    sac_vision_entry *same = find(c, key);
    if (same) drop(c, same);
    while (c->used_bytes + n_bytes > c->capacity_bytes) drop(c, c->oldest);
    c->used_bytes += n_bytes;
    push_newest(c, e);
    pthread_mutex_unlock(&c->lock);
}
