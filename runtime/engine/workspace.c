/* workspace.c - the workspaces of a model, which calls take in turn. */
#include "workspace.h"

#include "mask_call.h"
#include "parked.h"

#include <pthread.h>
#include <stdlib.h>

struct sac_workspaces {
    pthread_mutex_t lock;
    sac_workspace *all;
    sac_workspace_need need[SAC_N_USES]; /* the largest of the sessions' */
    size_t n_sessions, n_prompts;        /* workspaces for prompts that are kept ready */
    sac_session_block kept;              /* of a session that went */
    sac_page_pool *pages;
    sac_parked_list parked;
};

sac_status sac_workspaces_create(sac_workspaces **out, sac_error *err) {
    *out = calloc(1, sizeof **out);
    if (!*out) return sac_fail(err, SAC_NO_MEMORY, "no memory for a model");
    pthread_mutex_init(&(*out)->lock, NULL);
    pthread_mutex_init(&(*out)->parked.lock, NULL);
    (*out)->n_prompts = 1;
    return SAC_OK;
}

static void drop(const sac_model *m, sac_workspace **at) {
    sac_workspace *gone = *at;
    *at = gone->next;
    sac_workspace_close(gone, m);
    free(gone);
}

void sac_workspaces_free(sac_workspaces *w, const sac_model *m) {
    if (!w) return;
    while (w->all) drop(m, &w->all);
    sac_page_pool_close(w->pages);
    pthread_mutex_destroy(&w->parked.lock);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* ---------------------------------------------------------------- sizes */

static bool fits(const sac_workspace_need *has, const sac_workspace_need *need) {
    return has->rows_bytes >= need->rows_bytes && has->device_rows_bytes >= need->device_rows_bytes &&
           has->scratch_bytes >= need->scratch_bytes && has->vision >= need->vision &&
           has->device_vision >= need->device_vision;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static sac_workspace_need both(const sac_workspace_need *a, const sac_workspace_need *b) {
    return (sac_workspace_need){.rows_bytes = larger(a->rows_bytes, b->rows_bytes),
                                .device_rows_bytes = larger(a->device_rows_bytes, b->device_rows_bytes),
                                .scratch_bytes = larger(a->scratch_bytes, b->scratch_bytes),
                                .vision = a->vision || b->vision,
                                .device_vision = a->device_vision || b->device_vision};
}

/* It is kept when it serves every session. */
static bool is_useless(const sac_workspaces *w, const sac_workspace *one) {
    return !w->n_sessions || !fits(&one->has, &w->need[one->made_for]);
}

/* ---------------------------------------------------------------- making them; under the lock */

/* Of a device's memory what the driver and the libraries still take as kernels are used for the first time, beside what
 * is planned: 546 MiB were seen (docs/speed.md), and there is no telling how much of them is taken already. */
#define LEFT_TO_LIBRARIES ((size_t)640 << 20)

static void drop_kept(sac_workspaces *w, const sac_model *m) {
    if (w->kept.memory) m->device.free(&m->device, w->kept.memory);
    w->kept = (sac_session_block){0};
}

/* At most twice what is asked for: the rest is lost to others. */
static bool is_kept_for(const sac_workspaces *w, size_t n_bytes) {
    return n_bytes && w->kept.n_bytes >= n_bytes && w->kept.n_bytes - n_bytes <= n_bytes;
}

static sac_status check_device(sac_workspaces *w, const sac_model *m, size_t wanted, sac_error *err) {
    const sac_device *d = &m->device;
    size_t left = d->memory_left(d); /* 0: not known */
    if (!left || !wanted || wanted + LEFT_TO_LIBRARIES <= left) return SAC_OK;
    if (w->kept.memory) {
        drop_kept(w, m);
        left = d->memory_left(d);
        if (wanted + LEFT_TO_LIBRARIES <= left) return SAC_OK;
    }
    return sac_fail(
        err, SAC_NO_MEMORY,
        "%.1f GiB of %s are needed and %.1f more for its libraries, %.1f are left: give a smaller context",
        (double)wanted / (1 << 30), d->name, (double)LEFT_TO_LIBRARIES / (1 << 30), (double)left / (1 << 30));
}

static sac_status make(sac_workspaces *w, const sac_model *m, sac_decoder_use use, size_t n_bytes,
                       sac_error *err) {
    const sac_workspace_need *need = &w->need[use];
    SAC_TRY(check_device(w, m, sac_workspace_device_bytes(m, need) + n_bytes, err));
    sac_workspace *one = calloc(1, sizeof *one);
    if (!one) return sac_fail(err, SAC_NO_MEMORY, "no memory for a workspace");
    sac_status st = sac_workspace_open(one, m, need, err);
    if (st != SAC_OK) {
        sac_workspace_close(one, m);
        free(one);
        return st;
    }
    one->made_for = use;
    one->next = w->all;
    w->all = one;
    return SAC_OK;
}

static size_t n_for_prompts(const sac_workspaces *w) {
    size_t n = 0;
    for (const sac_workspace *one = w->all; one; one = one->next)
        n += one->made_for == SAC_FOR_PROMPT && !is_useless(w, one);
    return n;
}

static void drop_useless(sac_workspaces *w, const sac_model *m) {
    for (sac_workspace **at = &w->all; *at;)
        if (!(*at)->is_lent && is_useless(w, *at))
            drop(m, at);
        else
            at = &(*at)->next;
}

/* As many for prompts as are to be ready. What is too small by now goes first, so that its memory can be had. */
static sac_status make_ready(sac_workspaces *w, const sac_model *m, size_t n_bytes, sac_error *err) {
    drop_useless(w, m);
    if (!w->n_sessions) return SAC_OK;
    while (n_for_prompts(w) < w->n_prompts) SAC_TRY(make(w, m, SAC_FOR_PROMPT, n_bytes, err));
    return check_device(w, m, n_bytes, err);
}

/* ---------------------------------------------------------------- sessions */

sac_status sac_workspaces_enter(const sac_model *m, const sac_workspace_need need[SAC_N_USES], size_t n_bytes,
                                sac_error *err) {
    sac_workspaces *w = m->workspaces;
    sac_workspace_need before[SAC_N_USES];
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < SAC_N_USES; i++) {
        before[i] = w->need[i];
        w->need[i] = both(&w->need[i], &need[i]);
    }
    w->n_sessions++;
    if (is_kept_for(w, n_bytes)) n_bytes = 0;
    sac_status st = make_ready(w, m, n_bytes, err);
    if (st != SAC_OK) {
        for (int i = 0; i < SAC_N_USES; i++) w->need[i] = before[i];
        w->n_sessions--;
        drop_useless(w, m);
    }
    pthread_mutex_unlock(&w->lock);
    return st;
}

void sac_workspaces_leave(const sac_model *m) {
    sac_workspaces *w = m->workspaces;
    pthread_mutex_lock(&w->lock);
    if (--w->n_sessions == 0) {
        drop_kept(w, m);
        for (int i = 0; i < SAC_N_USES; i++) w->need[i] = (sac_workspace_need){0};
    }
    drop_useless(w, m);
    pthread_mutex_unlock(&w->lock);
}

sac_status sac_session_block_take(const sac_model *m, size_t n_bytes, sac_session_block *out,
                                  sac_error *err) {
    sac_workspaces *w = m->workspaces;
    pthread_mutex_lock(&w->lock);
    *out = (sac_session_block){.n_bytes = n_bytes};
    sac_status st = SAC_OK;
    if (is_kept_for(w, n_bytes)) {
        *out = w->kept;
        w->kept = (sac_session_block){0};
    } else {
        st = m->device.alloc(&m->device, n_bytes, &out->memory, err);
        if (st == SAC_NO_MEMORY && w->kept.memory) {
            drop_kept(w, m);
            st = m->device.alloc(&m->device, n_bytes, &out->memory, err);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return st;
}

void sac_session_block_give_back(const sac_model *m, sac_session_block *b) {
    sac_workspaces *w = m->workspaces;
    if (!b->memory) return;
    pthread_mutex_lock(&w->lock);
    drop_kept(w, m);
    if (w->n_sessions > 1)
        w->kept = *b;
    else
        m->device.free(&m->device, b->memory);
    pthread_mutex_unlock(&w->lock);
    *b = (sac_session_block){0};
}

sac_status sac_model_reserve_workspaces(const sac_model *m, size_t n_prompts, sac_error *err) {
    sac_workspaces *w = m->workspaces;
    if (n_prompts < 1) return sac_fail(err, SAC_BAD_ARGUMENT, "workspaces for no prompt: give 1 or more");
    pthread_mutex_lock(&w->lock);
    w->n_prompts = n_prompts;
    sac_status st = make_ready(w, m, 0, err);
    pthread_mutex_unlock(&w->lock);
    return st;
}

size_t sac_model_workspace_bytes(const sac_model *m, size_t *device_bytes) {
    sac_workspaces *w = m->workspaces;
    size_t host = 0, device = 0;
    pthread_mutex_lock(&w->lock);
    for (const sac_workspace *one = w->all; one; one = one->next) {
        host +=
            one->fixed.capacity_bytes + one->rows.capacity_bytes + sac_workspace_pinned_bytes(m, &one->has);
        device += one->device_stream.shared_scratch_bytes + one->device_fixed.capacity_bytes +
                  one->device_rows.capacity_bytes;
    }
    pthread_mutex_unlock(&w->lock);
    if (device_bytes) *device_bytes = device;
    return host;
}

/* ---------------------------------------------------------------- pages of keys and values */

sac_page_pool *sac_workspaces_pages(const sac_model *m) {
    return m->workspaces->pages;
}

sac_parked_list *sac_workspaces_parked(const sac_model *m) {
    return &m->workspaces->parked;
}

static sac_status open_pages(sac_workspaces *w, const sac_model *m, size_t n_bytes, sac_error *err) {
    if (w->pages || w->n_sessions)
        return sac_fail(err, SAC_BAD_ARGUMENT, "memory for keys and values in pages: ask for it once, and before there are sessions");
    SAC_TRY(check_device(w, m, n_bytes, err));
    return sac_page_pool_open(&w->pages, &m->device, n_bytes, err);
}

sac_status sac_model_page_kv(const sac_model *m, size_t n_bytes, sac_error *err) {
    sac_workspaces *w = m->workspaces;
    pthread_mutex_lock(&w->lock);
    const sac_status st = open_pages(w, m, n_bytes, err);
    pthread_mutex_unlock(&w->lock);
    return st;
}

/* ---------------------------------------------------------------- loans */

/* The smallest that will do: those for prompts are left to prompts. Of equal ones the last given back, which the
 * processor's caches still hold. */
static sac_workspace *find(const sac_workspaces *w, const sac_workspace_need *need) {
    sac_workspace *best = NULL;
    for (sac_workspace *one = w->all; one; one = one->next) {
        if (one->is_lent || !fits(&one->has, need)) continue;
        if (!best || one->has.rows_bytes + one->has.device_rows_bytes <
                         best->has.rows_bytes + best->has.device_rows_bytes)
            best = one;
    }
    return best;
}

/* To the head of the list. */
static void move_up(sac_workspaces *w, sac_workspace *one) {
    sac_workspace **at = &w->all;
    while (*at != one) at = &(*at)->next;
    *at = one->next;
    one->next = w->all;
    w->all = one;
}

static sac_status borrow(sac_workspaces *w, const sac_model *m, const sac_workspace_need *need,
                         sac_decoder_use use, sac_workspace **out, sac_error *err) {
    *out = find(w, need);
    if (!*out) {
        SAC_TRY(make(w, m, use, 0, err));
        *out = w->all;
    }
    (*out)->is_lent = true;
    return SAC_OK;
}

sac_status sac_workspace_borrow(const sac_model *m, const sac_workspace_need *need, sac_decoder_use use,
                                sac_workspace **out, sac_error *err) {
    sac_workspaces *w = m->workspaces;
    SAC_TRY(sac_mask_check(m, err));
    pthread_mutex_lock(&w->lock);
    sac_status st = borrow(w, m, need, use, out, err);
    pthread_mutex_unlock(&w->lock);
    return st;
}

void sac_workspace_give_back(const sac_model *m, sac_workspace *one) {
    sac_workspaces *w = m->workspaces;
    if (one->device_stream.device) m->device.stream_sync(&one->device_stream, NULL);
    sac_arena_release(&one->rows, 0);
    sac_arena_release(&one->device_rows, 0);
    pthread_mutex_lock(&w->lock);
    one->is_lent = false;
    move_up(w, one);
    if (is_useless(w, one)) drop_useless(w, m);
    pthread_mutex_unlock(&w->lock);
}
