/* answers_media.c - groups of answers_probe over what is shown, how a token is chosen, and how text is cut. */
#define _GNU_SOURCE
#include "answers_groups.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CTX = 1024, STEPS = 3, MAX_IDS = 4096 };

#define PICTURES "tests/golden/vision/pictures"

/* ---------------------------------------------------------------- pixels and their answers */

typedef struct seen {
    uint64_t tiles;
    int n_tiles;
} seen;

/* A square is told by one side, so that records made when all tiles were squares stay good. */
static void hear_tile(void *ctx, size_t media, int64_t tile, int width, int height, const uint8_t *rgb) {
    seen *t = ctx;
    int64_t head[] = {(int64_t)media, tile, width, height};
    size_t n_head = width == height ? 3 : 4;
    t->tiles = answer_hash(t->tiles, head, n_head * sizeof *head);
    t->tiles = answer_hash(t->tiles, rgb, (size_t)width * (size_t)height * 3);
    t->n_tiles++;
}

static void hear_media(answer *a, const sac_session *s) {
    const sac_media_report *m;
    size_t n = sac_session_media(s, &m);
    uint64_t times = 0;
    for (size_t i = 0; i < n; i++) {
        if (m[i].time_s) times = answer_hash(times, m[i].time_s, (size_t)m[i].n_frames * sizeof(double));
        answer_fact(a, "%dx%d frames=%d tiles=%d tokens=%lld rule=\"%s\"", m[i].width, m[i].height,
                    m[i].n_frames, m[i].n_tiles, (long long)m[i].n_tokens, m[i].rule ? m[i].rule : "");
    }
    answer_other(a, "times", times);
}

static void hear_places(answer *a, sac_session *s) {
    static sac_token_place places[MAX_IDS];
    static int32_t told[MAX_IDS * 6];
    int64_t n = sac_session_token_places(s, places, MAX_IDS);
    if (n > MAX_IDS) n = MAX_IDS;
    size_t n_told = 0;
    for (int64_t i = 0; i < n; i++) { /* one side of a square, as above */
        const sac_token_place *p = &places[i];
        int32_t words[] = {p->media, p->tile, p->row, p->column, p->columns, p->rows};
        size_t n_words = p->rows == p->columns ? 5 : 6;
        memcpy(told + n_told, words, n_words * sizeof *words);
        n_told += n_words;
    }
    answer_other(a, "places", answer_hash(0, told, n_told * sizeof *told));
}

static void show(const probe *p, const char *what, const prompt *q, const char *reduce) {
    static answer a;
    sac_session *s = NULL;
    sac_error err = {0};
    sac_sampling o = greedy(STEPS);
    seen t = {0};
    sac_events events = {.ctx = &t, .tile = hear_tile};
    answer_open(&a, "%s shown threads=%d %s", p->model_name, p->n_threads, what);
    if (!is_wanted(p, &a)) return;
    answer_fail(&a, session_open(&s, p, &(setting){.reduce = reduce}, N_CTX, 0, &err), &err);
    if (s) {
        hear_answer(p, &a, s, q, &o, &events);
        answer_other(&a, "tiles", t.tiles);
        answer_fact(&a, "tiles=%d", t.n_tiles);
    }
    if (a.status == SAC_OK) {
        hear_media(&a, s);
        hear_places(&a, s);
    }
    answer_print(&a);
    sac_session_free(s);
}

static bool is_video(const char *path) {
    static const char *const ends[] = {".mp4", ".avi", ".webm", ".ts", ".mkv", ".mov"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
        if (strcmp(dot, ends[i]) == 0) return true;
    return false;
}

static void show_file(const probe *p, const char *path) {
    question q;
    show(p, path, ask_about(&q, path, is_video(path) ? 3 : 0, "Describe it."), NULL);
}

static int is_visible(const struct dirent *d) {
    return d->d_name[0] != '.';
}

/* Pictures of every kind that the decoders know, and broken ones. */
static void show_folder(const probe *p, const char *folder) {
    struct dirent **entries;
    int n = scandir(folder, &entries, is_visible, alphasort);
    for (int i = 0; i < n; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        show_file(p, path);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

/* ---------------------------------------------------------------- requests of several parts */

static const sac_frame frames[] = {{.path = "tests/golden/models/wide.png", .time_s = 0},
                                   {.path = "tests/golden/models/tall.png", .time_s = 0.5},
                                   {.path = "tests/golden/models/square.png", .time_s = 1},
                                   {.path = "tests/golden/models/small.png", .time_s = 1.5}};

static void show_parts(const probe *p) {
    const sac_part picture = {.kind = SAC_PART_IMAGE, .path = "tests/golden/models/wide.png"},
                   second = {.kind = SAC_PART_IMAGE, .path = "tests/golden/models/tall.png"},
                   text = {.kind = SAC_PART_TEXT, .text = "Which is the first?"},
                   words = {.kind = SAC_PART_TEXT, .text = "and this"},
                   some = {.kind = SAC_PART_FRAMES, .frames = frames, .n_frames = 4},
                   video = {
                       .kind = SAC_PART_VIDEO, .path = "samples/video0000_16.mp4", .video.num_frames = 2};
    sac_part both[] = {picture, second, text}, between[] = {text, picture, words, second, picture},
             frames_and[] = {some, text}, all[] = {video, picture, some, words};
    sac_message user = {"user", both, 3, NULL}, said = {"assistant", &words, 1, NULL};
    sac_message turns[] = {user, said, {"user", between, 5, NULL}};
    show(p, "two pictures", &(prompt){&user, 1, NULL, 0, 0}, NULL);
    show(p, "pictures between words", &(prompt){&turns[2], 1, NULL, 0, 0}, NULL);
    show(p, "frames", &(prompt){&(sac_message){"user", frames_and, 2, NULL}, 1, NULL, 0, 0}, NULL);
    show(p, "video, picture, frames", &(prompt){&(sac_message){"user", all, 4, NULL}, 1, NULL, 0, 0}, NULL);
    show(p, "three turns", &(prompt){turns, 3, NULL, 0, 0}, NULL);
    show(p, "two pictures reduced", &(prompt){&user, 1, NULL, 0, 0}, "hired:rate=0.4");
}

static void show_video(const probe *p) {
    static const struct {
        const char *name;
        sac_video_options options;
    } ways[] = {{"fps", {.fps = 0.7}},
                {"num_frames", {.num_frames = 5}},
                {"max_frames", {.fps = 4, .max_frames = 3}},
                {"max_pixels", {.max_pixels = 5 * 112 * 112}},
                {"no_rotate", {.num_frames = 2, .no_rotate = true}},
                {"as the context allows", {.fps = 0}}};
    question q;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char what[128];
        const char *path =
            ways[i].options.no_rotate ? "tests/golden/video/rotated.mp4" : "samples/video0001_64.mp4";
        snprintf(what, sizeof what, "video by %s", ways[i].name);
        ask_about(&q, path, 1, "How many numbers appear?");
        q.parts[0].video = ways[i].options;
        show(p, what, &q.prompt, NULL);
    }
}

/* A file's bytes instead of its path. */
static void show_bytes(const probe *p, const char *path) {
    question q;
    FILE *f = fopen(path, "rb");
    size_t room = (size_t)1 << 22;
    uint8_t *bytes = malloc(room);
    if (f && bytes) {
        ask_about(&q, path, is_video(path) ? 2 : 0, "Describe it.");
        q.parts[0].path = NULL, q.parts[0].bytes = bytes, q.parts[0].n_bytes = fread(bytes, 1, room, f);
        char what[256];
        snprintf(what, sizeof what, "bytes of %s", path);
        show(p, what, &q.prompt, NULL);
    }
    if (f) fclose(f);
    free(bytes);
}

void group_media(probe *p) {
    if (p->is_quick || !is_demo(p)) {
        static const char *const few[] = {"tests/golden/models/wide.png",   "tests/golden/models/tall.png",
                                          "tests/golden/models/square.png", "tests/golden/models/small.png",
                                          "tests/golden/models/long.png",   "samples/picture0001.jpg"};
        for (size_t i = 0; i < sizeof few / sizeof *few; i++) show_file(p, few[i]);
        show_parts(p);
        return;
    }
    for (size_t i = 0; i < n_media_files; i++) show_file(p, media_files[i]);
    show_folder(p, PICTURES);
    show_parts(p);
    show_video(p);
    show_bytes(p, "samples/picture0001.jpg");
    show_bytes(p, "samples/video0000_16.mp4");
}

/* ---------------------------------------------------------------- how a token is chosen */

static void hear_logprobs(void *ctx, const sac_token_event *t) {
    uint64_t *hash = ctx;
    *hash = answer_hash(*hash, &t->logprob, sizeof t->logprob);
    for (int i = 0; i < t->n_top; i++) {
        *hash = answer_hash(*hash, &t->top[i].id, sizeof t->top[i].id);
        *hash = answer_hash(*hash, &t->top[i].logprob, sizeof t->top[i].logprob);
    }
}

static void ban_some(void *ctx, float *logits, int n_vocab) {
    (void)ctx;
    for (int i = 0; i < n_vocab; i += 2) logits[i] -= 4;
}

static void sample(const probe *p, const sampling_case *c, bool bans) {
    static answer a;
    sac_session *s = NULL;
    sac_error err = {0};
    question q;
    uint64_t logprobs = 0;
    sac_sampling o = c->options;
    sac_events events = {.ctx = &logprobs, .token = hear_logprobs, .logits = bans ? ban_some : NULL};
    o.logprobs = true, o.top_logprobs = 5;
    answer_open(&a, "%s sampled threads=%d %s%s", p->model_name, p->n_threads, c->name,
                bans ? ", some banned" : "");
    if (!is_wanted(p, &a)) return;
    answer_fail(&a, session_open(&s, p, &(setting){0}, N_CTX, 0, &err), &err);
    if (s)
        hear_answer(p, &a, s, ask_about(&q, "samples/picture0000.png", 0, "Describe the image."), &o,
                    &events);
    answer_other(&a, "logprobs", logprobs);
    answer_print(&a);
    sac_session_free(s);
}

void group_sampling(probe *p) {
    for (size_t i = 0; i < n_sampling_cases; i++)
        for (int bans = 0; bans < 2; bans++) sample(p, &sampling_cases[i], bans);
}

/* ---------------------------------------------------------------- text */

static const char *const texts[] = {
    "Three owls sat on the wire; two of them saw 47 mice, the third one slept.",
    "  leading and trailing  \n\n\ttabs, and CAPITALS don't matter  ",
    "Gr\xc3\xbc\xc3\x9f"
    "e, \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80 1234567890",
    "<|user|>\nhello<|end|><image>[INST] x [/INST]</s>",
    "\xff\xfe broken \xc3 utf-8",
};

static void cut_texts(const probe *p) {
    static answer a;
    static int32_t ids[MAX_IDS];
    for (size_t i = 0; i < 4 * sizeof texts / sizeof *texts; i++) {
        const char *text = texts[i / 4];
        size_t n = 0;
        char back[MAX_IDS];
        sac_error err = {0};
        answer_open(&a, "%s cut threads=%d text %zu, special %zu", p->model_name, p->n_threads, i / 4, i % 4);
        if (!is_wanted(p, &a)) continue;
        answer_fail(&a, sac_tokenize_text(p->model, text, strlen(text), i & 1, i & 2, ids, MAX_IDS, &n, &err),
                    &err);
        answer_other(&a, "ids", answer_hash(0, ids, n * sizeof *ids));
        answer_fail(&a, sac_detokenize_ids(p->model, ids, n, i & 1, back, sizeof back, &n, &err), &err);
        answer_other(&a, "back", answer_hash(0, back, n));
        answer_print(&a);
    }
}

/* The ids of a conversation, with a system message or without. */
static void cut_conversation(const probe *p, bool with_system) {
    static answer a;
    static int32_t ids[MAX_IDS];
    sac_session *s = NULL;
    sac_error err = {0};
    size_t n = 0;
    sac_part parts[] = {{.kind = SAC_PART_TEXT, .text = "Be brief."},
                        {.kind = SAC_PART_TEXT, .text = "  How many\nnumbers?  "},
                        {.kind = SAC_PART_TEXT, .text = "two"},
                        {.kind = SAC_PART_TEXT, .text = "And now?"}};
    sac_message turns[] = {{"system", &parts[0], 1, NULL},
                           {"user", &parts[1], 1, NULL},
                           {"assistant", &parts[2], 1, NULL},
                           {"user", &parts[3], 1, NULL}};
    answer_open(&a, "%s conversation threads=%d%s", p->model_name, p->n_threads,
                with_system ? ", with system" : "");
    if (!is_wanted(p, &a)) return;
    answer_fail(&a, session_open(&s, p, &(setting){0}, 512, 0, &err), &err);
    if (s)
        answer_fail(&a, sac_session_prompt(s, turns + !with_system, 3 + with_system, ids, MAX_IDS, &n, &err),
                    &err);
    answer_other(&a, "ids", answer_hash(0, ids, n * sizeof *ids));
    answer_fact(&a, "format=%s n=%zu", p->info.chat_format ? p->info.chat_format : "", n);
    answer_print(&a);
    sac_session_free(s);
}

void group_prompts(probe *p) {
    cut_texts(p);
    group_conversation(p);
}

void group_conversation(probe *p) {
    cut_conversation(p, false);
    cut_conversation(p, true);
}
