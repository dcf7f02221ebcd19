#include "pages.h"

#include "ahead.h"
#include "beginnings.h"
#include "mask_call.h"
#include "work.h"
#include "workspace.h"

#include <stdlib.h>

/* What is lacking then is told to whoever asks (sac_session_lacks). */
static sac_status tell(sac_session *s, int64_t n_rows, sac_status st) {
    s->paging.wanted_rows = st == SAC_NO_MEMORY ? n_rows : 0;
    return st;
}

static sac_status wait_for(const sac_session *s, const sac_stream *stream, sac_error *err) {
    return sac_model_on_device(s->model) ? s->model->device.stream_sync(stream, err) : SAC_OK;
}

void sac_session_drop_parked(sac_session *s) {
    if (!s->paging.parked) return;
    sac_workspaces_unpark(s->model, s->paging.parked_bytes);
    free(s->paging.parked);
    s->paging.parked = NULL;
    s->paging.n_parked = 0;
    s->paging.parked_bytes = 0;
}

/* Of those that were parked, the ones that are still held. */
static sac_status bring_back(sac_session *s, const sac_stream *stream, sac_error *err) {
    sac_kv_cache *c = &s->decoder.cache;
    const int64_t n = c->n_rows < s->paging.n_parked ? c->n_rows : s->paging.n_parked;
    if (n > 0 && sac_kv_cache_from_block(c, stream, 0, n, s->paging.parked, 0, s->paging.n_parked) != SAC_OK)
        return sac_fail(err, SAC_DEVICE, "%s: bringing rows back failed", s->model->device.name);
    SAC_TRY(wait_for(s, stream, err));
    sac_session_drop_parked(s);
    sac_beginnings_offer(s);
    return SAC_OK;
}

sac_status sac_session_make_room(sac_session *s, const sac_stream *stream, int64_t n_rows, sac_error *err) {
    sac_kv_cache *c = &s->decoder.cache;
    if (!c->pool) return SAC_OK;
    if (n_rows < c->n_rows) n_rows = c->n_rows;
    if (!s->paging.parked && !sac_kv_cache_lack(c, n_rows)) return tell(s, n_rows, SAC_OK);
    SAC_TRY(tell(s, n_rows, sac_kv_cache_make_room(c, stream, n_rows, err)));
    return s->paging.parked ? bring_back(s, stream, err) : wait_for(s, stream, err);
}

void sac_session_trim_packed(sac_session *s) {
    sac_kv_cache *c = &s->decoder.cache;
    if (sac_kv_cache_is_packed(c)) sac_kv_cache_trim(c, c->n_rows + 1);
}

bool sac_session_is_waiting(const sac_session *s, sac_status st) {
    return st == SAC_NO_MEMORY && s->paging.waits && sac_session_lacks(s) > 0;
}

sac_status sac_session_take_room(sac_session *s, int64_t n_rows, sac_error *err) {
    sac_kv_cache *c = &s->decoder.cache;
    if (s->paging.parked) SAC_TRY(sac_session_make_room_apart(s, n_rows, err));
    return tell(s, n_rows, sac_kv_cache_take_room(c, n_rows, err));
}

sac_status sac_session_make_room_apart(sac_session *s, int64_t n_rows, sac_error *err) {
    if (!s->decoder.cache.pool) return SAC_OK;
    const bool has_one = s->workspace; /* a prompt that looked at its video */
    if (!has_one) SAC_TRY(sac_session_borrow(s, SAC_FOR_PROMPT, err));
    const sac_status st = sac_session_make_room(s, sac_decoder_stream(s), n_rows, err);
    if (!has_one) sac_session_give_back(s);
    return st;
}

void sac_session_give_pages(sac_session *s) {
    sac_session_drop_parked(s);
    s->paging.wanted_rows = 0;
    sac_kv_cache_trim(&s->decoder.cache, 0);
}

sac_status sac_session_check_pages(const sac_session *s, sac_error *err) {
    const sac_kv_cache *c = &s->decoder.cache;
    if (!c->pool) return SAC_OK;
    const double most = (double)sac_page_pool_n_pages(c->pool) * (double)sac_page_pool_page_bytes(c->pool),
                 all = (double)sac_kv_cache_paged_bytes(c, c->capacity);
    if (all <= most) return SAC_OK;
    return sac_fail(err, SAC_NO_MEMORY,
                    "a context of %lld tokens takes %.1f MiB for keys and values, and there are %.1f in pages: give a smaller "
                    "context or more of these",
                    (long long)s->memory.n_ctx, all / (1 << 20), most / (1 << 20));
}

/* ---------------------------------------------------------------- for whoever shares them out */

void sac_model_kv_pages(const sac_model *m, sac_kv_pages *out) {
    sac_page_pool *p = sac_workspaces_pages(m);
    *out = (sac_kv_pages){0};
    if (p) *out = (sac_kv_pages){sac_page_pool_page_bytes(p), sac_page_pool_n_pages(p), sac_page_pool_n_free(p)};
}

void sac_session_wait_for_pages(sac_session *s, bool waits) {
    s->paging.waits = waits;
}

size_t sac_session_lacks(const sac_session *s) {
    return sac_kv_cache_lack(&s->decoder.cache, s->paging.wanted_rows);
}

size_t sac_session_paged_bytes(const sac_session *s) {
    const sac_page_planes *p = &s->decoder.cache.planes;
    return p->pool ? p->n_planes * p->n_taken * sac_page_pool_page_bytes(p->pool) : 0;
}

/* A prompt that has not got its memory is not at anything yet. */
static bool is_at_rest(const sac_session *s) {
    const sac_work *w = s->work;
    if (sac_work_is_done(w)) return !s->reply.busy;
    return (w->stage == SAC_WORK_ROOM || w->stage == SAC_WORK_APPEND) && !w->inside;
}

void sac_session_trim(sac_session *s) {
    if (is_at_rest(s) && !s->paging.parked) sac_kv_cache_trim(&s->decoder.cache, s->decoder.cache.n_rows);
}

static sac_status to_block(const sac_session *s, const sac_stream *stream) {
    SAC_TRY(sac_kv_cache_to_block(&s->decoder.cache, stream, 0, s->paging.n_parked, s->paging.parked, 0, s->paging.n_parked));
    return wait_for(s, stream, NULL);
}

static sac_status to_host(sac_session *s, sac_error *err) {
    const int64_t n = s->decoder.cache.n_rows;
    const size_t n_bytes = sac_kv_cache_block_bytes(&s->decoder.cache, n);
    if (!n_bytes) return SAC_OK; /* few rows of a packed format: all are in its tails */
    if (!sac_workspaces_park(s->model, n_bytes))
        return sac_fail(err, SAC_NO_MEMORY, "no more rows are parked than have memory in pages, and %lld would be too many: come again later, or give more pages", (long long)n);
    s->paging.parked = malloc(n_bytes);
    if (!s->paging.parked) {
        sac_workspaces_unpark(s->model, n_bytes);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for %lld rows that are parked", (long long)n);
    }
    s->paging.n_parked = n;
    s->paging.parked_bytes = n_bytes;
    const sac_status st = sac_session_with_stream(s, to_block);
    if (st == SAC_OK) return SAC_OK;
    sac_session_drop_parked(s);
    return sac_fail(err, st, "%s: parking a session failed", s->model->device.name);
}

sac_status sac_session_park(sac_session *s, sac_error *err) {
    sac_kv_cache *c = &s->decoder.cache;
    if (!c->pool) return sac_fail(err, SAC_UNSUPPORTED, "parking a session whose keys and values are not in pages");
    if (!is_at_rest(s))
        return sac_fail(err, SAC_BAD_ARGUMENT, "parking a session that is at work");
    if (s->paging.parked) return SAC_OK;
    SAC_TRY(sac_mask_check(s->model, err)); /* its copy would wait for the workspace that the callback's step has */
    sac_ahead_drop(s);
    sac_beginnings_withdraw(s);
    const sac_status st = c->n_rows > 0 ? to_host(s, err) : SAC_OK;
    if (st != SAC_OK) {
        sac_beginnings_offer(s);
        return st;
    }
    if (!s->paging.wanted_rows) s->paging.wanted_rows = c->n_rows + 1;
    sac_kv_cache_trim(c, 0);
    return SAC_OK;
}
