#define _GNU_SOURCE
#include "caption_queue.h"
#include "status.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Enough to hide a slow disk. */
enum { AHEAD_ITEMS = 8 };
static const size_t ahead_bytes = (size_t)512 << 20;

struct caption_queue {
    const caption_input *in;
    const caption_how *how;
    bool (*due)(void *ctx, size_t source, size_t index);
    void *ctx;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    caption_request items[AHEAD_ITEMS]; /* [first, first + n), in a ring */
    size_t first, n, n_bytes;
    bool all_read, stopped;
};

/* False after a stop; the item is then freed. */
static bool put(caption_queue *q, caption_request *item) {
    pthread_mutex_lock(&q->lock);
    while (!q->stopped && (q->n == AHEAD_ITEMS || (q->n && q->n_bytes + item->n_bytes > ahead_bytes)))
        pthread_cond_wait(&q->changed, &q->lock);
    bool goes_on = !q->stopped;
    if (goes_on) {
        q->items[(q->first + q->n++) % AHEAD_ITEMS] = *item;
        q->n_bytes += item->n_bytes;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    if (!goes_on) caption_request_free(item);
    return goes_on;
}

static void *read_all(void *ctx) {
    caption_queue *q = ctx;
    caption_reader reader;
    caption_reader_init(&reader, q->in, q->how);
    bool goes_on = true;
    for (size_t s = 0; goes_on && s < q->in->n_sources; s++)
        for (size_t i = 0; goes_on && i < q->in->sources[s].n_items; i++) {
            if (!q->due(q->ctx, s, i)) continue;
            caption_request item;
            caption_request_read(&reader, s, i, &item);
            goes_on = put(q, &item);
        }
    caption_reader_close(&reader);
    pthread_mutex_lock(&q->lock);
    q->all_read = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

sac_status caption_queue_start(caption_queue **out, const caption_input *in, const caption_how *how,
                               bool (*due)(void *ctx, size_t source, size_t index), void *ctx,
                               sac_error *err) {
    caption_queue *q = *out = calloc(1, sizeof *q);
    if (!q) return sac_fail_no_memory(err);
    q->in = in;
    q->how = how;
    q->due = due;
    q->ctx = ctx;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    if (!pthread_create(&q->thread, NULL, read_all, q)) return SAC_OK;
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    free(q);
    *out = NULL;
    return sac_fail(err, SAC_NO_MEMORY, "no thread could be started");
}

bool caption_queue_take(caption_queue *q, caption_request *out) {
    pthread_mutex_lock(&q->lock);
    while (!q->stopped && !q->n && !q->all_read) pthread_cond_wait(&q->changed, &q->lock);
    bool any = !q->stopped && q->n;
    if (any) {
        *out = q->items[q->first];
        q->first = (q->first + 1) % AHEAD_ITEMS;
        q->n--;
        q->n_bytes -= out->n_bytes;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return any;
}

void caption_queue_stop(caption_queue *q) {
    pthread_mutex_lock(&q->lock);
    q->stopped = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

void caption_queue_free(caption_queue *q) {
    if (!q) return;
    caption_queue_stop(q);
    pthread_join(q->thread, NULL);
    for (size_t i = 0; i < q->n; i++) caption_request_free(&q->items[(q->first + i) % AHEAD_ITEMS]);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    free(q);
}
