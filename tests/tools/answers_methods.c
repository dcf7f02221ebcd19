/* answers_methods.c - groups of answers_probe over settings: one session at a time. */
#define _GNU_SOURCE
#include "answers_groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CTX = 512, N_IDS = 230, STEPS = 8, N_DRAWN_CTX = 1536, N_LONG_CTX = 2048 };

static const char *const one_word = "What is in it?";
#define PICTURE      "samples/picture0000.png"
#define VIDEO        "samples/video0000_16.mp4"
#define TINY_PICTURE "tests/golden/models/wide.png"

/* Weights in another format meet every method in the same way: one line of each will do. */
static bool is_packed(const probe *p) {
    return strncmp(p->model_name, "gguf", 4) == 0 && strcmp(p->info.dtype, "f32") != 0;
}

/* ---------------------------------------------------------------- whether a method acted */

/* Sums of answers without prefill, decode and reduce, by what else they depend on. */
static struct reference {
    char key[256];
    uint64_t sum;
} references[64];
static size_t n_references;

static void run_setting(const probe *p, answer *a, const setting *m, const prompt *q, int64_t n_ctx,
                        int steps) {
    sac_session *s;
    sac_error err = {0};
    sac_sampling o = greedy(steps);
    answer_fail(a, session_open(&s, p, m, n_ctx, 0, &err), &err);
    if (a->status == SAC_OK) {
        hear_answer(p, a, s, q, &o, NULL);
        answer_statistics(a, s);
    }
    sac_session_free(s);
}

static uint64_t reference_sum(const probe *p, const setting *m, const char *what, const prompt *q,
                              int64_t n_ctx, int steps) {
    static answer a;
    bool lone = !m->prefill && !m->decode && !m->reduce;
    setting plain = {.kv = lone ? NULL : m->kv, .rope = lone ? NULL : m->rope};
    char key[256], text[200];
    snprintf(key, sizeof key, "%s %s %d %s", p->model_name, what, p->n_threads,
             setting_text(&plain, text, sizeof text));
    for (size_t i = 0; i < n_references; i++)
        if (strcmp(references[i].key, key) == 0) return references[i].sum;
    answer_open(&a, "%s", key);
    run_setting(p, &a, &plain, q, n_ctx, steps);
    if (n_references == sizeof references / sizeof *references) return answer_sum(&a);
    struct reference *r = &references[n_references++];
    snprintf(r->key, sizeof r->key, "%s", key);
    return r->sum = answer_sum(&a);
}

/* A refusal is an answer of its own. Only of the demo model is it known what acts. */
static void see_whether_it_acted(probe *p, answer *a, const setting *m, const char *what, const prompt *q,
                                 int64_t n_ctx, int steps) {
    if (a->status != SAC_OK || !is_demo(p)) return;
    bool same = answer_sum(a) == reference_sum(p, m, what, q, n_ctx, steps);
    bool as_dense = (m->is & AS_DENSE) || ((m->is & FOR_MEDIA) && !q->messages);
    answer_fact(a, "as_dense=%d", same);
    if (same == as_dense) return;
    fprintf(stderr, "answers_probe: %s: answers %s\n", a->name,
            same ? "as dense does" : "otherwise than dense");
    p->n_wrong++;
}

static void ask_setting(probe *p, const setting *m, const char *what, const prompt *q, int64_t n_ctx,
                        int steps) {
    static answer a;
    char text[400];
    answer_open(&a, "%s %s threads=%d %s", p->model_name, what, p->n_threads,
                setting_text(m, text, sizeof text));
    if (!is_wanted(p, &a)) return;
    run_setting(p, &a, m, q, n_ctx, steps);
    see_whether_it_acted(p, &a, m, what, q, n_ctx, steps);
    answer_print(&a);
}

void group_settings(probe *p) {
    prompt tokens = {.n_ids = N_IDS};
    question video, picture;
    ask_about(&video, VIDEO, 4, "How many numbers appear?");
    ask_about(&picture, is_demo(p) ? PICTURE : TINY_PICTURE, 0, one_word);
    for (size_t i = 0; i < n_settings; i++) {
        const setting *m = &settings[i];
        bool is_quick = m->is & QUICK, for_media = m->is & FOR_MEDIA;
        if (!is_quick && (p->is_quick || is_packed(p))) continue;
        if (!for_media) ask_setting(p, m, "tokens", &tokens, N_CTX, STEPS);
        if (!p->info.has_vision || !(for_media || (is_quick && !p->is_quick))) continue;
        if (is_demo(p) && !m->reduce) /* frames of a video are not reduced */
            ask_setting(p, m, "video", &video.prompt, N_CTX, STEPS);
        else
            ask_setting(p, m, "picture", &picture.prompt, N_CTX, STEPS);
    }
}

/* ---------------------------------------------------------------- long answers */

void group_long_answers(probe *p) {
    enum { LONG = 70 };
    prompt tokens = {.n_ids = 101, .seed = 1};
    for (size_t i = 0; i < n_settings; i++) {
        const setting *m = &settings[i];
        if ((!m->decode && !m->kv) || (m->is & FOR_MEDIA)) continue;
        if (!(m->is & QUICK) && (p->is_quick || is_packed(p))) continue;
        ask_setting(p, m, "long answer", &tokens, N_CTX, LONG);
    }
}

/* ---------------------------------------------------------------- prompts by parts */

typedef struct kept_hash {
    uint64_t hash;
    int n_calls;
} kept_hash;

static void hear_kept(void *ctx, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens) {
    kept_hash *k = ctx;
    int64_t head[] = {layer, n_kept, n_tokens};
    k->hash = answer_hash(answer_hash(k->hash, head, sizeof head), kept, (size_t)n_kept * sizeof *kept);
    k->n_calls++;
}

static void append(const probe *p, answer *a, sac_session *s, const int32_t *ids, int64_t n, float *rows) {
    sac_error err = {0};
    if (a->status != SAC_OK) return;
    answer_fail(a, sac_session_append(s, ids, (size_t)n, rows, &err), &err);
    answer_hear(a, s, p->info.vocab);
    if (rows && a->status == SAC_OK)
        answer_other(a, "rows", answer_hash(0, rows, (size_t)n * (size_t)p->info.vocab * sizeof *rows));
}

/* 150 tokens, three steps, 70 tokens, three steps; then all forgotten and the first ones again. */
static void append_parts(const probe *p, answer *a, sac_session *s, float *rows) {
    enum { FIRST = 150, SECOND = 70 };
    int32_t ids[FIRST + SECOND + 6];
    draw_ids(ids, FIRST + SECOND + 6, 3);
    kept_hash kept = {0};
    sac_session_observe_kept(s, hear_kept, &kept);
    append(p, a, s, ids, FIRST, rows);
    for (int i = 0; i < 3; i++) append(p, a, s, ids + FIRST + SECOND + i, 1, NULL);
    append(p, a, s, ids + FIRST, SECOND, rows);
    for (int i = 3; i < 6; i++) append(p, a, s, ids + FIRST + SECOND + i, 1, NULL);
    answer_statistics(a, s);
    sac_session_reset(s);
    append(p, a, s, ids, FIRST, NULL);
    append(p, a, s, ids + FIRST + SECOND, 1, NULL);
    answer_fact(a, "kept=%016llx calls=%d", (unsigned long long)kept.hash, kept.n_calls);
}

void group_appended(probe *p) {
    static answer a;
    float *rows = malloc(150 * (size_t)p->info.vocab * sizeof *rows);
    for (size_t i = 0; i < n_settings && rows; i++) {
        char text[400];
        sac_session *s;
        sac_error err = {0};
        if (!(settings[i].is & QUICK) && (p->is_quick || is_packed(p))) continue;
        if (p->is_quick && !is_demo(p)) continue;
        answer_open(&a, "%s appended threads=%d %s", p->model_name, p->n_threads,
                    setting_text(&settings[i], text, sizeof text));
        if (!is_wanted(p, &a)) continue;
        answer_fail(&a, session_open(&s, p, &settings[i], N_CTX, 37, &err), &err);
        bool drops = settings[i].is & FOR_MEDIA; /* then not every row has logits */
        if (s) append_parts(p, &a, s, drops ? NULL : rows);
        answer_print(&a);
        sac_session_free(s);
    }
    free(rows);
}

/* ---------------------------------------------------------------- longer prompts */

void group_drawn(probe *p) {
    question q;
    const prompt *video = ask_about(&q, VIDEO, 16, "How many numbers appear?");
    for (size_t i = 0; i < n_drawn_settings; i++)
        ask_setting(p, &drawn_settings[i], "drawn", video, N_DRAWN_CTX, 4);
}

static const char *const tale =
    "A small red diamond stood at the bottom right and a large green star at the top left on a gray "
    "background. "
    "Behind it the number 47 appeared, and after it the number 12; nobody had counted the circles, which "
    "were "
    "blue, yellow and white. How many numbers appear? Is there a square? What color is the background?\n";

void group_long_text(probe *p) {
    static const setting on_long_text[] = {
        {.is = AS_DENSE},
        {0, .prefill = "zipvl:min=0", .kv = "mixed"},
        {0, .prefill = "minference:v=64,s=200"},
        {0, .prefill = "tokenselect:init=16,local=128,chunk=128,k=128",
         .decode = "tokenselect:init=16,local=128,k=128"},
        {0, .prefill = "infllm:init=16,local=256,block=32,topk=4,chunk=128"},
        {0, .decode = "twilight:base=quest,base.budget=512,p=0.9"},
        {0, .decode = "snapkv:cap=256", .kv = "f32"},
    };
    char text[4096];
    size_t n = 0;
    for (int i = 0; i < 6; i++) n += (size_t)snprintf(text + n, sizeof text - n, "%d: %s", i, tale);
    prompt long_text = {.text = text};
    for (size_t i = 0; i < sizeof on_long_text / sizeof *on_long_text; i++)
        ask_setting(p, &on_long_text[i], "long text", &long_text, N_LONG_CTX, 4);
}

/* ---------------------------------------------------------------- measuring, and other models */

void group_measured(probe *p) {
    static answer a;
    prompt tokens = {.n_ids = N_IDS};
    sac_sampling o = greedy(4);
    for (size_t i = 0; i < n_settings; i++) {
        const setting *m = &settings[i];
        char text[400];
        sac_session *s = NULL;
        sac_error err = {0};
        sac_session_config c;
        if (!(m->is & QUICK) || (m->is & FOR_MEDIA)) continue;
        answer_open(&a, "%s measured threads=%d %s", p->model_name, p->n_threads,
                    setting_text(m, text, sizeof text));
        if (!is_wanted(p, &a)) continue;
        sac_session_config_default(&c);
        c.n_ctx = N_CTX, c.measure_mass = true;
        c.prefill = m->prefill, c.decode = m->decode, c.kv = m->kv, c.rope = m->rope;
        answer_fail(&a, sac_session_create(&s, p->model, &c, &err), &err);
        if (s) hear_answer(p, &a, s, &tokens, &o, NULL);
        if (s) answer_statistics(&a, s);
        answer_print(&a);
        sac_session_free(s);
    }
}

void group_variant(probe *p) {
    static const setting variants[] = {{.is = AS_DENSE},
                                       {0, .prefill = "zipvl:min=0,tau=0.7", .kv = "mixed:gap=32"},
                                       {0, .decode = "quest:skip=0,budget=48"}};
    prompt tokens = {.n_ids = N_IDS};
    question q;
    const prompt *picture = ask_about(&q, PICTURE, 0, "Describe the image.");
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        ask_setting(p, &variants[i], "tokens", &tokens, N_CTX, STEPS);
        ask_setting(p, &variants[i], "picture", picture, N_CTX, STEPS);
    }
}
