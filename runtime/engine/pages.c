#include "pages.h"

#include "ahead.h"
#include "beginnings.h"
#include "mask_call.h"
#include "parked.h"
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

/* Of those that were parked, the ones that are still held. */
static sac_status bring_back(sac_session *s, const sac_stream *stream, sac_error *err) {
    sac_kv_cache *c = &s->decoder.cache;
    for (size_t i = 0; i < SAC_COUNT(s->paging.parked); i++) {
        const sac_parked *p = &s->paging.parked[i];
        const int64_t held = c->n_rows - p->first, n = held < p->n ? held : p->n;
        if (p->block && n > 0 && sac_kv_cache_from_block(c, stream, p->first, n, p->block->rows, 0, p->block->n) != SAC_OK)
            return sac_fail(err, SAC_DEVICE, "%s: bringing rows back failed", s->model->device.name);
    }
    SAC_TRY(wait_for(s, stream, err));
    sac_session_drop_parked(s);
    sac_beginnings_offer(s);
    return SAC_OK;
}

/* Where pages that others have are to be dropped or replaced nobody may be taking them. Whether they are to be offered again. */
static bool withdraw_shared(sac_session *s) {
    const bool was_offered = s->beginnings && s->n_shared > 0; /* changed by its own calls alone */
    if (!sac_kv_cache_is_shared(&s->decoder.cache)) return false;
    sac_beginnings_withdraw(s);
    return was_offered;
}

sac_status sac_session_make_room(sac_session *s, const sac_stream *stream, int64_t n_rows, sac_error *err) {
    sac_kv_cache *c = &s->decoder.cache;
    if (!c->pool) return SAC_OK;
    if (n_rows < c->n_rows) n_rows = c->n_rows;
    if (!sac_session_is_parked(s) && !sac_kv_cache_lack(c, n_rows)) return tell(s, n_rows, SAC_OK);
    const bool was_offered = withdraw_shared(s);
    const sac_status st = tell(s, n_rows, sac_kv_cache_make_room(c, stream, n_rows, err));
    if (was_offered) sac_beginnings_offer(s);
    SAC_TRY(st);
    return sac_session_is_parked(s) ? bring_back(s, stream, err) : wait_for(s, stream, err);
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
    const bool is_read = sac_session_is_parked(s) || (sac_kv_cache_is_shared(c) && sac_model_on_device(s->model));
    if (is_read) SAC_TRY(sac_session_make_room_apart(s, n_rows, err)); /* in a stream */
    const bool was_offered = withdraw_shared(s);
    const sac_status st = tell(s, n_rows, sac_kv_cache_take_room(c, n_rows, err));
    if (was_offered) sac_beginnings_offer(s);
    return st;
}

sac_status sac_session_make_room_apart(sac_session *s, int64_t n_rows, sac_error *err) {
    if (!s->decoder.cache.pool) return SAC_OK;
    const bool has_one = s->workspace; /* a prompt that looked at its video */
    if (!has_one) SAC_TRY(tell(s, 0, sac_session_borrow(s, SAC_FOR_PROMPT, err))); /* what it lacks are no pages */
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
    if (!is_at_rest(s) || sac_session_is_parked(s)) return;
    sac_kv_cache_trim(&s->decoder.cache, s->decoder.cache.n_rows);
    if (s->decoder.cache.planes.is_broken) sac_beginnings_withdraw(s);
}

static sac_status copy_parked(const sac_session *s, const sac_stream *stream, const sac_parked *p) {
    SAC_TRY(sac_kv_cache_to_block(&s->decoder.cache, stream, p->first, p->n, p->block->rows, 0, p->block->n));
    return wait_for(s, stream, NULL);
}

static sac_status copy_first(const sac_session *s, const sac_stream *stream) {
    return copy_parked(s, stream, &s->paging.parked[0]);
}

static sac_status copy_second(const sac_session *s, const sac_stream *stream) {
    return copy_parked(s, stream, &s->paging.parked[1]);
}

/* Whether others may have the same rows: those of a prompt, no steps' (sac_decoder_shares). */
static bool may_be_others(const sac_session *s, int64_t first, int64_t n) {
    return first == 0 && n <= s->n_exact && sac_beginnings_may_share(s);
}

/* Rows [first, first + n). */
static sac_status to_host(sac_session *s, int which, int64_t first, int64_t n, sac_error *err) {
    sac_parked *p = &s->paging.parked[which];
    if (n <= 0 || !sac_kv_cache_block_bytes(&s->decoder.cache, n)) return SAC_OK; /* few rows of a packed format: all are in its tails */
    if (p->block) return SAC_OK; /* bringing it back has failed */
    const bool common = may_be_others(s, first, n);
    *p = (sac_parked){common ? sac_parked_find(s, n) : NULL, first, n};
    if (p->block) return SAC_OK;
    sac_status st = sac_parked_take(&p->block, s, n, err);
    if (st != SAC_OK) {
        *p = (sac_parked){0};
        return st;
    }
    st = sac_session_with_stream(s, which ? copy_second : copy_first);
    if (st == SAC_OK) {
        if (common) sac_parked_tell(s, p->block);
        return SAC_OK;
    }
    sac_parked_drop(s, p->block);
    *p = (sac_parked){0};
    return sac_fail(err, st, "%s: parking a session failed", s->model->device.name);
}

/* Rows whose pages others have too take no memory of their own: they stay where they are, and go when asked for again, or where there is
 * nothing else to give. */
static int64_t rows_to_leave(const sac_session *s) {
    const sac_kv_cache *c = &s->decoder.cache;
    int64_t n = sac_kv_cache_shared_rows(c);
    while (n > c->n_rows) n -= sac_kv_cache_page_rows(c);
    const bool gives = sac_session_paged_bytes(s) > sac_kv_cache_kept_bytes(c, n);
    return gives && !sac_session_is_parked(s) ? n : 0;
}

/* Of rows of which some may be parked already. */
static sac_status park(sac_session *s, int64_t n_left, sac_error *err) {
    const sac_parked *tail = &s->paging.parked[0];
    const int64_t n = s->decoder.cache.n_rows;
    if (!tail->block) return to_host(s, 0, n_left, n - n_left, err);
    return to_host(s, 1, 0, tail->first < n ? tail->first : n, err); /* which they have in common */
}

sac_status sac_session_park(sac_session *s, sac_error *err) {
    sac_kv_cache *c = &s->decoder.cache;
    if (!c->pool) return sac_fail(err, SAC_UNSUPPORTED, "parking a session whose keys and values are not in pages");
    if (!is_at_rest(s))
        return sac_fail(err, SAC_BAD_ARGUMENT, "parking a session that is at work");
    if (sac_session_is_parked(s) && !sac_session_paged_bytes(s)) return SAC_OK;
    SAC_TRY(sac_mask_check(s->model, err)); /* its copy would wait for the workspace that the callback's step has */
    sac_ahead_drop(s);
    const bool was_parked = sac_session_is_parked(s);
    if (!was_parked) sac_beginnings_withdraw(s);
    const int64_t n_left = rows_to_leave(s);
    const sac_status st = park(s, n_left, err);
    if (st != SAC_OK) {
        if (!was_parked) sac_beginnings_offer(s);
        return st;
    }
    if (!s->paging.wanted_rows) s->paging.wanted_rows = c->n_rows + 1;
    sac_kv_cache_keep(c, n_left);
    if (!sac_session_is_parked(s)) sac_beginnings_offer(s); /* all that it holds is still there */
    return SAC_OK;
}

size_t sac_sessions_hold(const sac_session *const *sessions, size_t n) {
    const sac_page_planes **all = calloc(n + 1, sizeof *all);
    size_t m = 0;
    for (size_t i = 0; all && i < n; i++)
        if (sac_session_paged_bytes(sessions[i])) all[m++] = &sessions[i]->decoder.cache.planes;
    const size_t sum = m ? sac_page_planes_only(all, m) * sac_page_pool_page_bytes(all[0]->pool) : 0;
    free(all);
    return sum;
}
