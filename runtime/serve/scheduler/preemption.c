#include "preemption.h"

#include "metrics.h"

/* The first in line behind `after` (NULL = of all); NULL = none waits. */
static serve_slot *next_waiting(const serve_server *s, const serve_slot *after) {
    serve_slot *best = NULL;
    for (int i = 0; i < s->config->n_slots; i++) {
        serve_slot *slot = &s->slots[i];
        if (!slot->job || !slot->lacks_pages || (after && slot->turn.ticket <= after->turn.ticket)) continue;
        if (!best || slot->turn.ticket < best->turn.ticket) best = slot;
    }
    return best;
}

bool serve_lacks_pages(const serve_server *s) {
    return next_waiting(s, NULL) != NULL;
}

bool serve_owes_pages(const serve_server *s) {
    for (int i = 0; i < s->config->n_slots; i++) {
        const serve_slot *slot = &s->slots[i];
        if (slot->job && (slot->lacks_pages || (slot->session && sac_session_lacks(slot->session) > 0))) return true;
    }
    return false;
}

static size_t free_bytes(const serve_server *s) {
    sac_kv_pages p;
    sac_model_kv_pages(s->model, &p);
    return p.n_free * p.page_bytes;
}

static bool has_enough(const serve_server *s, const serve_slot *slot) {
    return free_bytes(s) >= sac_session_lacks(slot->session);
}

static bool has_pages(const serve_slot *slot) {
    return slot->session && sac_session_paged_bytes(slot->session) > 0;
}

static void trim_all(const serve_server *s, const serve_slot *but) {
    for (int i = 0; i < s->config->n_slots; i++)
        if (&s->slots[i] != but && s->slots[i].session) sac_session_trim(s->slots[i].session);
}

/* Pages that no other slot has: all that comes free when it lets go of its own. */
static bool frees_pages(const serve_slot *slot) {
    return has_pages(slot) && sac_sessions_hold((const sac_session *const[]){slot->session}, 1) > 0;
}

/* The conversation of the idle slot that was not used for longest, of those that free pages or, where it comes to that, have some in common
 * with others; false: there is none. */
static bool forget_one(const serve_server *s, bool frees) {
    serve_slot *oldest = NULL;
    for (int i = 0; i < s->config->n_slots; i++) {
        serve_slot *slot = &s->slots[i];
        if (slot->job || !(frees ? frees_pages(slot) : has_pages(slot))) continue;
        if (!oldest || slot->turn.ticket < oldest->turn.ticket) oldest = slot;
    }
    if (!oldest) return false;
    serve_trace_free(oldest->trace);
    oldest->trace = NULL;
    const size_t had = sac_session_paged_bytes(oldest->session);
    sac_session_reset(oldest->session);
    return sac_session_paged_bytes(oldest->session) < had; /* the system may have failed to take them */
}

/* The answer, or prompt that waits, which was let in last, of the same; not before the slot. It ends where the host has no memory for its
 * rows either. False: there is none. */
static bool park_one(const serve_server *s, const serve_slot *for_whom, bool frees) {
    serve_slot *last = NULL;
    for (int i = 0; i < s->config->n_slots; i++) {
        serve_slot *slot = &s->slots[i];
        if (!slot->job || !(slot->decoding || slot->lacks_pages) || !(frees ? frees_pages(slot) : has_pages(slot))) continue;
        if (slot->turn.ticket > (last ? last : for_whom)->turn.ticket) last = slot;
    }
    if (!last) return false;
    sac_error err;
    const sac_status st = sac_session_park(last->session, &err);
    if (st != SAC_OK) {
        serve_slot_give_up(last, st, &err);
        return true;
    }
    last->lacks_pages = true;
    serve_metrics_count(s->metrics, SERVE_COUNT_preemptions, 1);
    return true;
}

/* Idle slots, and those that were let in later and can be parked: all together, since they may have pages in common. */
static size_t could_give(const serve_server *s, const serve_slot *to) {
    const sac_session *all[SERVE_MOST_TURNS];
    size_t n = 0;
    for (int i = 0; i < s->config->n_slots; i++) {
        const serve_slot *slot = &s->slots[i];
        if (slot == to || !slot->session) continue;
        if (!slot->job || ((slot->decoding || slot->lacks_pages) && slot->turn.ticket > to->turn.ticket)) all[n++] = slot->session;
    }
    return sac_sessions_hold(all, n);
}

/* Nobody gives anything where all of it would not be enough: then those who were let in before have to end. */
static void make_way(const serve_server *s, const serve_slot *slot) {
    if (has_enough(s, slot) || free_bytes(s) + could_give(s, slot) < sac_session_lacks(slot->session)) return;
    trim_all(s, slot);
    for (int frees = 1; frees >= 0; frees--)
        while (!has_enough(s, slot) && (forget_one(s, frees) || park_one(s, slot, frees))) {
        }
}

void serve_preempt(serve_server *s) {
    serve_slot *first = next_waiting(s, NULL);
    if (!first) return;
    make_way(s, first);
    size_t left = free_bytes(s);
    for (serve_slot *slot = first; slot; slot = next_waiting(s, slot)) {
        const size_t lacks = sac_session_lacks(slot->session);
        if (lacks > left) return;
        left -= lacks;
        slot->lacks_pages = false;
    }
}
