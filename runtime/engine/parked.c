#include "parked.h"

#include "workspace.h"

#include <stdlib.h>

static sac_parked_key key_of(const sac_session *s, int64_t row) {
    sac_parked_key k = {.identity = s->identity[row]};
    for (int axis = 0; axis < SAC_POSITION_AXES; axis++) k.number[axis] = sac_row_number(&s->decoder.numbers, axis, row);
    if (s->decoder.device) k.page = sac_kv_cache_page_of(&s->decoder.cache, row);
    return k;
}

static bool same_key(const sac_parked_key *a, const sac_parked_key *b) {
    if (!sac_identity_equal(a->identity, b->identity) || a->page != b->page) return false;
    for (int axis = 0; axis < SAC_POSITION_AXES; axis++)
        if (a->number[axis] != b->number[axis]) return false;
    return true;
}

sac_status sac_parked_take(sac_parked_block **out, const sac_session *s, int64_t n, sac_error *err) {
    sac_parked_list *l = sac_workspaces_parked(s->model);
    sac_page_pool *pool = s->decoder.cache.pool;
    const size_t n_bytes = sac_kv_cache_block_bytes(&s->decoder.cache, n), most = sac_page_pool_n_pages(pool) * sac_page_pool_page_bytes(pool);
    pthread_mutex_lock(&l->lock);
    const bool fits = n_bytes <= most - l->n_bytes;
    if (fits) l->n_bytes += n_bytes;
    pthread_mutex_unlock(&l->lock);
    *out = NULL;
    if (!fits)
        return sac_fail(err, SAC_NO_MEMORY, "no more rows are parked than have memory in pages, and %lld would be too many: come again later, or give more pages", (long long)n);
    sac_parked_block *b = calloc(1, sizeof *b);
    uint8_t *rows = malloc(n_bytes);
    if (b && rows) {
        *b = (sac_parked_block){.rows = rows, .n = n, .n_bytes = n_bytes, .n_users = 1};
        *out = b;
        return SAC_OK;
    }
    free(b);
    free(rows);
    pthread_mutex_lock(&l->lock);
    l->n_bytes -= n_bytes;
    pthread_mutex_unlock(&l->lock);
    return sac_fail(err, SAC_NO_MEMORY, "no memory for %lld rows that are parked", (long long)n);
}

static bool holds(const sac_parked_block *b, const sac_session *s, int64_t n) {
    if (b->n < n || !sac_decoder_same_rows(&b->like, &s->decoder) || !sac_reduce_same(&b->reduce, &s->reduce)) return false;
    for (int64_t i = 0; i < n; i++) {
        const sac_parked_key k = key_of(s, i);
        if (!same_key(&b->keys[i], &k)) return false;
    }
    return true;
}

sac_parked_block *sac_parked_find(const sac_session *s, int64_t n) {
    sac_parked_list *l = sac_workspaces_parked(s->model);
    pthread_mutex_lock(&l->lock);
    sac_parked_block *b = l->known;
    while (b && !holds(b, s, n)) b = b->next;
    if (b) b->n_users++;
    pthread_mutex_unlock(&l->lock);
    return b;
}

void sac_parked_tell(const sac_session *s, sac_parked_block *b) {
    sac_parked_list *l = sac_workspaces_parked(s->model);
    b->keys = calloc((size_t)b->n, sizeof *b->keys);
    if (!b->keys) return;
    for (int64_t i = 0; i < b->n; i++) b->keys[i] = key_of(s, i);
    b->like = s->decoder;
    b->reduce = s->reduce;
    pthread_mutex_lock(&l->lock);
    b->next = l->known;
    l->known = b;
    pthread_mutex_unlock(&l->lock);
}

void sac_parked_drop(const sac_session *s, sac_parked_block *b) {
    sac_parked_list *l = sac_workspaces_parked(s->model);
    if (!b) return;
    pthread_mutex_lock(&l->lock);
    const bool is_last = --b->n_users == 0;
    sac_parked_block **at = &l->known;
    while (*at && *at != b) at = &(*at)->next;
    if (is_last && *at) *at = b->next;
    if (is_last) l->n_bytes -= b->n_bytes;
    pthread_mutex_unlock(&l->lock);
    if (!is_last) return;
    free(b->keys);
    free(b->rows);
    free(b);
}

void sac_session_drop_parked(sac_session *s) {
    for (size_t i = 0; i < SAC_COUNT(s->paging.parked); i++) {
        sac_parked_drop(s, s->paging.parked[i].block);
        s->paging.parked[i] = (sac_parked){0};
    }
}

bool sac_session_is_parked(const sac_session *s) {
    return s->paging.parked[0].block || s->paging.parked[1].block;
}
