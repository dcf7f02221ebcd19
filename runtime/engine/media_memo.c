#include "media_memo.h"

#include <stdlib.h>
#include <string.h>

void sac_memo_init(sac_media_memo *m) {
    memset(m, 0, sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
}

void sac_memo_free(sac_media_memo *m) {
    for (size_t i = 0; i < SAC_MEMO_ENTRIES; i++) free(m->entry[i].data);
    pthread_mutex_destroy(&m->lock);
}

static void *copy_of(const void *data, size_t n_bytes) {
    void *copy = malloc(n_bytes ? n_bytes : 1);
    if (copy && n_bytes) memcpy(copy, data, n_bytes);
    return copy;
}

static sac_memo_entry *find(sac_media_memo *m, const sac_vision_key *key) {
    for (size_t i = 0; i < SAC_MEMO_ENTRIES; i++)
        if (m->entry[i].data && memcmp(&m->entry[i].key, key, sizeof *key) == 0) return &m->entry[i];
    return NULL;
}

void *sac_memo_get(sac_media_memo *m, const sac_vision_key *key, size_t *n_bytes) {
    pthread_mutex_lock(&m->lock);
    sac_memo_entry *e = find(m, key);
    void *copy = e ? copy_of(e->data, e->n_bytes) : NULL;
    if (copy) {
        *n_bytes = e->n_bytes;
        e->used = ++m->clock;
    }
    pthread_mutex_unlock(&m->lock);
    return copy;
}

void sac_memo_put(sac_media_memo *m, const sac_vision_key *key, const void *data, size_t n_bytes) {
    void *copy = copy_of(data, n_bytes);
    if (!copy) return;
    pthread_mutex_lock(&m->lock);
    sac_memo_entry *e = find(m, key), *oldest = &m->entry[0];
    for (size_t i = 0; !e && i < SAC_MEMO_ENTRIES; i++) {
        if (m->entry[i].used < oldest->used) oldest = &m->entry[i]; /* free ones were never used */
    }
    if (!e) e = oldest;
    free(e->data);
    *e = (sac_memo_entry){*key, copy, n_bytes, ++m->clock};
    pthread_mutex_unlock(&m->lock);
}
