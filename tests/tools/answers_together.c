/* answers_together.c - groups of answers_probe over several sessions, and over several questions to one. */
#define _GNU_SOURCE
#include "answers_groups.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { N_CTX = 512, MOST = 8 };

#define VIDEO        "samples/video0000_16.mp4"
#define TINY_PICTURE "tests/golden/models/tall.png"

/* ---------------------------------------------------------------- batches */

/* A session of a batch; those that are refused sit out. */
typedef struct guest {
    answer a;
    sac_session *session;
    question q;
    bool done;
} guest;

static guest guests[MOST];

static bool guest_begin(const probe *p, guest *g, const setting *m, int number) {
    static const int64_t lengths[MOST] = {110, 40, 163, 77, 5, 200, 91, 128};
    sac_error err = {0};
    sac_sampling o = greedy(4 + number % 3);
    if (number % 4 == 3) o.temperature = 1.2, o.seed = (uint64_t)number;
    prompt ids = {.n_ids = lengths[number % MOST], .seed = number};
    const prompt *q = &ids;
    if ((m->is & FOR_MEDIA) || (p->info.has_vision && number % 5 == 4))
        q = ask_about(&g->q, is_demo(p) ? VIDEO : TINY_PICTURE, is_demo(p) ? 2 : 0,
                      "How many numbers appear?");
    g->done = true;
    answer_fail(&g->a, session_open(&g->session, p, m, N_CTX, 0, &err), &err);
    if (g->session) g->done = !hear_prompt(p, &g->a, g->session, q, &o, NULL);
    return !g->done;
}

/* A step of all that are not done; false when all are. */
static bool step_guests(const probe *p, sac_batch *b, size_t n) {
    sac_batch_item items[MOST];
    guest *at[MOST];
    size_t n_items = 0;
    sac_error err = {0};
    for (size_t i = 0; i < n; i++) {
        if (guests[i].done) continue;
        at[n_items] = &guests[i];
        items[n_items++] = (sac_batch_item){.session = guests[i].session};
    }
    if (!n_items) return false;
    sac_status st = sac_batch_step(b, items, n_items, &err);
    for (size_t i = 0; i < n_items; i++) {
        guest *g = at[i];
        answer_fail(&g->a, st, &err);
        answer_fail(&g->a, items[i].status, &items[i].error);
        answer_token(&g->a, items[i].token);
        answer_hear(&g->a, g->session, p->info.vocab);
        g->done = items[i].done || g->a.status != SAC_OK;
    }
    return true;
}

static void run_guests(const probe *p, size_t n) {
    sac_batch *b = NULL;
    sac_error err = {0};
    sac_status st = sac_batch_create(&b, p->model, MOST, &err);
    for (size_t i = 0; i < n; i++) answer_fail(&guests[i].a, st, &err);
    while (b && step_guests(p, b, n)) {
    }
    for (size_t i = 0; i < n; i++) {
        sac_result r;
        if (guests[i].session) {
            sac_session_end(guests[i].session, &r);
            if (guests[i].a.status == SAC_OK) answer_result(&guests[i].a, &r);
            answer_statistics(&guests[i].a, guests[i].session);
        }
        answer_print(&guests[i].a);
        sac_session_free(guests[i].session);
    }
    sac_batch_free(b);
}

/* n sessions with settings[which[i]]; their cases are run when the last one's name is wanted. */
static void ask_together(const probe *p, const char *what, const size_t *which, size_t n) {
    bool wanted = false;
    for (size_t i = 0; i < n; i++) {
        char text[400];
        guests[i] = (guest){.done = true};
        answer_open(&guests[i].a, "%s %s threads=%d %zu of %zu %s", p->model_name, what, p->n_threads, i + 1,
                    n, setting_text(&settings[which[i]], text, sizeof text));
        wanted = is_wanted(p, &guests[i].a) || wanted;
    }
    if (!wanted) return;
    for (size_t i = 0; i < n; i++) guest_begin(p, &guests[i], &settings[which[i]], (int)i);
    run_guests(p, n);
}

/* Settings that may sit in a batch of this recording. */
static size_t list_settings(const probe *p, size_t *which, size_t room, int with, int without) {
    size_t n = 0;
    for (size_t i = 0; i < n_settings && n < room; i++)
        if ((settings[i].is & with) == with && !(settings[i].is & without) &&
            (p->info.has_vision || !(settings[i].is & FOR_MEDIA)))
            which[n++] = i;
    return n;
}

void group_batches(probe *p) {
    static const size_t sizes[] = {1, 2, 3, 5, 8}, dense[MOST] = {0};
    bool few = p->is_quick || strncmp(p->model_name, "gguf", 4) == 0;
    size_t which[256], n = list_settings(p, which, 256, few ? QUICK : 0, AS_DENSE), next = 0;
    char what[64];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(what, sizeof what, "batch of %zu, dense", sizes[i]);
        if (!p->is_quick || sizes[i] == 3) ask_together(p, what, dense, sizes[i]);
    }
    for (size_t i = 0; next < n; i++) {
        size_t size = p->is_quick || n - next > 24 ? MOST : sizes[1 + i % 4]; /* the last few by 2, 3 and 5 */
        if (size > n - next) size = n - next;
        snprintf(what, sizeof what, "batch %zu, mixed", i);
        ask_together(p, what, which + next, size);
        next += size;
    }
    if (p->is_quick) return;
    n = list_settings(p, which, 256, QUICK, AS_DENSE);
    for (size_t i = 0; i < n; i++)
        ask_together(p, "batch of one method", (size_t[]){which[i], which[i], which[i]}, 3);
}

/* ---------------------------------------------------------------- again, and again */

static void ask_three_times(const probe *p, answer *a, sac_session *s) {
    question q;
    sac_sampling o = greedy(5);
    sac_part said = {.kind = SAC_PART_TEXT, .text = "gray"},
             next = {.kind = SAC_PART_TEXT, .text = "And the star?"};
    const char *path = is_demo(p) ? VIDEO : TINY_PICTURE;
    int n_frames = is_demo(p) ? 3 : 0;
    hear_answer(p, a, s, ask_about(&q, path, n_frames, "How many numbers appear?"), &o, NULL);
    hear_answer(p, a, s, ask_about(&q, path, n_frames, "Describe it."), &o, NULL);
    sac_message turns[3] = {q.message, {"assistant", &said, 1, NULL}, {"user", &next, 1, NULL}};
    hear_answer(p, a, s, &(prompt){.messages = turns, .n_messages = 3}, &o, NULL);
}

void group_reuse(probe *p) {
    static answer a;
    for (size_t i = 0; i < n_settings; i++) {
        char text[400];
        sac_session *s;
        sac_error err = {0};
        if (!(settings[i].is & QUICK)) continue;
        answer_open(&a, "%s asked again threads=%d %s", p->model_name, p->n_threads,
                    setting_text(&settings[i], text, sizeof text));
        if (!is_wanted(p, &a)) continue;
        answer_fail(&a, session_open(&s, p, &settings[i], N_CTX, 0, &err), &err);
        if (s) {
            ask_three_times(p, &a, s);
            answer_statistics(&a, s);
        }
        answer_print(&a);
        sac_session_free(s);
    }
}

/* ---------------------------------------------------------------- between one another */

typedef struct interrupted {
    const probe *p;
    answer inner;
    sac_session *session; /* begins after the first piece of the other's prompt, then steps */
    bool has_begun, is_done;
} interrupted;

static void step_inner(interrupted *w) {
    sac_error err = {0};
    int32_t token = -1;
    bool done = false;
    answer_fail(&w->inner, sac_session_step(w->session, NULL, &token, &done, &err), &err);
    answer_token(&w->inner, token);
    answer_hear(&w->inner, w->session, w->p->info.vocab);
    w->is_done = done || w->inner.status != SAC_OK;
}

static void run_inner(interrupted *w) {
    sac_sampling o = greedy(8);
    if (w->has_begun && !w->is_done) step_inner(w);
    if (w->has_begun) return;
    w->has_begun = true;
    w->is_done = !hear_prompt(w->p, &w->inner, w->session, &(prompt){.n_ids = 90, .seed = 5}, &o, NULL);
}

/* The outer prompt piece by piece, the inner session in between. */
static void hear_pieces(answer *a, sac_session *s, const prompt *q, const sac_sampling *o, interrupted *w) {
    sac_error err = {0};
    sac_input input = {.messages = q->messages, .n_messages = q->n_messages};
    sac_status st = sac_session_begin_work(s, &input, o, NULL, &err);
    for (bool done = false; st == SAC_OK && !done;) {
        st = sac_session_work_next(s, &done, &err);
        if (!done) run_inner(w);
    }
    answer_fail(a, st, &err);
    answer_hear(a, s, w->p->info.vocab);
}

static void answer_in_pieces(answer *a, sac_session *s, const prompt *q, interrupted *w) {
    sac_sampling o = greedy(4);
    sac_result r;
    hear_pieces(a, s, q, &o, w);
    if (a->status != SAC_OK) return;
    hear_steps(w->p, a, s, NULL);
    sac_session_end(s, &r);
    answer_result(a, &r);
}

/* A session that begins and steps between the layers of another's prompt. */
static void ask_between(probe *p, const setting *outer, const setting *inner) {
    static answer a;
    static interrupted w;
    char text[400], inner_text[400];
    sac_session *s = NULL;
    sac_error err = {0};
    question q;
    setting_text(outer, text, sizeof text), setting_text(inner, inner_text, sizeof inner_text);
    memset(&w, 0, sizeof w);
    w.p = p;
    answer_open(&a, "%s outer threads=%d %s, inner %s", p->model_name, p->n_threads, text, inner_text);
    answer_open(&w.inner, "%s inner threads=%d %s, outer %s", p->model_name, p->n_threads, inner_text, text);
    bool wanted = is_wanted(p, &a);
    if (!is_wanted(p, &w.inner) && !wanted) return;
    answer_fail(&a, session_open(&s, p, outer, 1024, 100, &err), &err);
    answer_fail(&w.inner, session_open(&w.session, p, inner, N_CTX, 0, &err), &err);
    if (s && w.session) answer_in_pieces(&a, s, ask_about(&q, VIDEO, 6, "How many numbers appear?"), &w);
    while (w.session && w.has_begun && !w.is_done) step_inner(&w);
    answer_print(&a);
    answer_print(&w.inner);
    sac_session_free(s);
    sac_session_free(w.session);
}

typedef struct lone {
    const probe *p;
    answer a;
    const setting *setting;
    int seed;
} lone;

static void *ask_alone(void *arg) {
    lone *l = arg;
    sac_session *s = NULL;
    sac_error err = {0};
    sac_sampling o = greedy(8);
    answer_fail(&l->a, session_open(&s, l->p, l->setting, N_CTX, 0, &err), &err);
    if (s) hear_answer(l->p, &l->a, s, &(prompt){.n_ids = 120, .seed = l->seed}, &o, NULL);
    sac_session_free(s);
    return NULL;
}

static void ask_in_threads(probe *p, const setting *first, const setting *second) {
    static lone both[2];
    pthread_t threads[2];
    bool wanted = false;
    for (int i = 0; i < 2; i++) {
        char text[400];
        both[i] = (lone){.p = p, .setting = i ? second : first, .seed = i};
        answer_open(&both[i].a, "%s in threads threads=%d %d of 2 %s", p->model_name, p->n_threads, i + 1,
                    setting_text(both[i].setting, text, sizeof text));
        wanted = is_wanted(p, &both[i].a) || wanted;
    }
    if (!wanted) return;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, ask_alone, &both[i])) return;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) answer_print(&both[i].a);
}

static bool at_once(void *ctx) {
    (void)ctx;
    return true;
}

/* What a call that was given up leaves changes nothing of the next one's answer. */
static void ask_after_cancelling(probe *p, const setting *m) {
    static answer a, given_up;
    sac_session *s = NULL;
    sac_error err = {0};
    question q, other;
    sac_sampling o = greedy(4);
    sac_events events = {.stopped = at_once};
    char text[400];
    answer_open(&a, "%s cancelled threads=%d %s", p->model_name, p->n_threads,
                setting_text(m, text, sizeof text));
    answer_open(&given_up, "given up");
    if (!is_wanted(p, &a)) return;
    answer_fail(&a, session_open(&s, p, m, N_CTX, 0, &err), &err);
    if (s) {
        hear_answer(p, &a, s, ask_about(&q, VIDEO, 2, "How many numbers appear?"), &o, NULL);
        hear_answer(p, &given_up, s, ask_about(&other, VIDEO, 3, "Describe it."), &o, &events);
        answer_other(&a, "given_up", (uint64_t)-given_up.status);
        hear_answer(p, &a, s, ask_about(&q, VIDEO, 2, "Describe it."), &o, NULL);
    }
    answer_print(&a);
    sac_session_free(s);
}

void group_between(probe *p) {
    static const setting dense = {0}, zip = {.prefill = "zipvl:min=0,tau=0.7", .kv = "mixed:gap=32"},
                         quest = {.decode = "quest:skip=0,budget=48"},
                         select = {.prefill = "tokenselect:init=4,k=20,local=16,chunk=16",
                                   .decode = "tokenselect:init=4,k=20,local=16"};
    ask_between(p, &dense, &zip);
    ask_between(p, &zip, &select);
    ask_in_threads(p, &dense, &zip);
    ask_after_cancelling(p, &dense);
    if (p->is_quick) return;
    ask_between(p, &select, &quest);
    ask_between(p, &quest, &dense);
    ask_in_threads(p, &quest, &select);
    ask_after_cancelling(p, &zip);
}
