/* Pictures that go through a tower together, on a device without one (late_device.h) and on the host: their rows are as near to those
 * that each gets by itself as sums in another order are, and on the host the same, in as few pieces as there are batches; events tell
 * them one after the other; the cache has each. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "late_tower.h"
#include "work.h"

#include <math.h>

#define GOLDEN "tests/golden/models/"

enum { PICTURES = 4, MOST_EVENTS = 32, VOCAB = 1024, N_CTX = 2000, SIDE = 56 };
enum { WIDE = PICTURES, FLAT, TALL, SMALL, SMALL_TOO, N_PICTURES }; /* FLAT and TALL have as many patches */

typedef struct seen {
    float logits[VOCAB];
    int progress[MOST_EVENTS], n_progress;
    int tile_of[MOST_EVENTS], n_tiles; /* the medium of each tile */
    uint64_t tiles;                    /* a sum that the order changes */
    int n_batches;                     /* pieces of the tower in which tiles went through */
    bool from_cache[PICTURES];
} seen;

static void on_progress(void *ctx, const char *what, int64_t done, int64_t total) {
    seen *t = ctx;
    assert_true(total > 0);
    if (!strcmp(what, "vision") && t->n_progress < MOST_EVENTS) t->progress[t->n_progress++] = (int)done;
}
static void on_tile(void *ctx, size_t media, int64_t tile, int width, int height, const uint8_t *rgb) {
    seen *t = ctx;
    if (t->n_tiles < MOST_EVENTS) t->tile_of[t->n_tiles] = (int)media;
    t->n_tiles++;
    t->tiles = t->tiles * 31 + (uint64_t)tile;
    for (int i = 0; i < width * height * 3; i++) t->tiles = t->tiles * 31 + rgb[i];
}

/* Picture k, of SIDE x SIDE pixels or what its name says. */
static sac_part picture(int k) {
    static uint8_t all[N_PICTURES][SIDE * 2 * SIDE * 3];
    uint64_t seed = 77 + (uint64_t)k;
    for (size_t i = 0; i < sizeof all[0]; i++) all[k][i] = (uint8_t)(128 + 127 * test_rand_float(&seed));
    const bool small = k >= SMALL;
    const int width = small ? SIDE / 2 : k == WIDE ? 2 * SIDE : k == TALL ? SIDE / 2 : SIDE, height = small || k == FLAT ? SIDE / 2 : SIDE;
    return (sac_part){.kind = SAC_PART_PIXELS, .pixels = {.width = width, .height = height, .rgb = all[k]}};
}

typedef struct question {
    const char *path;
    int batch; /* tiles */
    int n;
    int picture[PICTURES];
    double within; /* seconds of a piece; 0: any */
    int joined;    /* patches of several pictures; 0: as many as are the rule there */
} question;

/* The first measured pace is of the tower's own time: pictures that are opened within the piece do not count. */
static void expect_pace(const sac_work *w, const sac_media_work *before) {
    const double n_patches = (double)((w->encoding.n_done - before->n_done) * w->encoding.m->tower.n_patches),
                 seconds = w->encoding.vision_seconds - before->vision_seconds;
    assert_true(n_patches > 0 && seconds > 0);
    assert_true(fabs(w->pace.rate[SAC_PACE_TOWER] * seconds / n_patches - 1) < 1e-9);
}

static void ask(sac_session *s, const question *q, seen *t, int fail_at) {
    sac_error err = {0};
    sac_part parts[PICTURES + 1];
    const sac_media_report *media;
    memset(t, 0, sizeof *t);
    for (int i = 0; i < q->n; i++) parts[i] = picture(q->picture[i]);
    parts[q->n] = (sac_part){.kind = SAC_PART_TEXT, .text = "How many numbers appear?"};
    const sac_message message = {"user", parts, (size_t)q->n + 1, NULL};
    const sac_events events = {.ctx = t, .progress = on_progress, .tile = on_tile};
    const sac_input in = {.messages = &message, .n_messages = 1};
    sac_status st = sac_session_begin_work(s, &in, NULL, &events, &err);
    for (bool done = false; st == SAC_OK && !done;) {
        const bool at_tower = s->work->stage == SAC_WORK_MEDIA;
        const int before = t->n_tiles;
        const sac_media_work encoded = s->work->encoding;
        const bool is_measured = s->work->pace.rate[SAC_PACE_TOWER] > 0;
        if (at_tower && fail_at) late_fail_at = fail_at, fail_at = 0;
        late_prompt = at_tower ? 0 : LATE_STREAMS;
        st = sac_session_work_within(s, q->within, &done, &err);
        t->n_batches += t->n_tiles > before;
        if (st == SAC_OK && !is_measured && t->n_tiles > before) expect_pace(s->work, &encoded);
    }
    late_prompt = LATE_STREAMS;
    assert_int_equal(late_in_flight(), 0);
    if (late_failed) {
        assert_int_equal(st, SAC_DEVICE);
        return;
    }
    assert_ok(st, err);
    memcpy(t->logits, sac_session_logits(s), (size_t)s->model->loaded.decoder.config.vocab * sizeof *t->logits);
    assert_int_equal(sac_session_media(s, &media), q->n);
    for (int i = 0; i < q->n; i++) t->from_cache[i] = media[i].from_cache;
}

static const char *reducer; /* of all sessions; NULL: none */

static sac_session *open_session(const sac_model *m, const question *q) {
    sac_error err;
    sac_session *s;
    const sac_session_config config = {.n_ctx = N_CTX, .kv = "f32", .reduce = reducer};
    assert_ok(sac_session_create(&s, m, &config, &err), err);
    s->vision.batch_tiles = q->batch;
    if (q->joined) s->vision.joined_patches = q->joined;
    return s;
}

static void ask_once(const question *q, seen *t) {
    card c;
    open_card(&c, q->path, 0);
    sac_session *s = open_session(c.m, q);
    ask(s, q, t, 0);
    sac_session_free(s);
    close_card(&c);
}

/* The same with the tower on the host. */
static void ask_host(const question *q, seen *t) {
    sac_error err;
    sac_model *m;
    sac_model_options o;
    sac_model_options_default(&o);
    o.n_threads = 2;
    assert_ok(sac_model_open(&m, q->path, &o, &err), err);
    sac_session *s = open_session(m, q);
    ask(s, q, t, 0);
    sac_session_free(s);
    sac_model_free(m);
}

static void expect_near(const seen *a, const seen *b) {
    for (int i = 0; i < VOCAB; i++) assert_true(fabsf(a->logits[i] - b->logits[i]) <= 1e-4f * (1 + fabsf(b->logits[i])));
    assert_int_equal(a->n_progress, b->n_progress);
    assert_memory_equal(a->progress, b->progress, sizeof a->progress);
    assert_int_equal(a->n_tiles, b->n_tiles);
    assert_memory_equal(a->tile_of, b->tile_of, sizeof a->tile_of);
    assert_true(a->tiles == b->tiles);
}

/* A batch of one tile joins nothing. A picture of another size goes by itself where it has other patches; where a batch is as large
 * as the largest picture, here as one of these, each does (Pixtral's golden). */
static void pictures_go_together(void **state) {
    (void)state;
    static seen alone, joined;
    static const struct {
        const char *path;
        int n_batches;
    } models[] = {{GOLDEN "llava", 1},    {GOLDEN "llava_siglip", 1}, {GOLDEN "qwen2_vl", 3},       {GOLDEN "qwen2_5_vl", 3}, {GOLDEN "qwen3_vl", 3},
                  {GOLDEN "internvl", 2}, {GOLDEN "gemma3", 1},       {GOLDEN "llava_onevision", 1}, {GOLDEN "pixtral", 4},    {GOLDEN "minicpmv4_6", 3},
                  {GOLDEN "llava_next", 1}, {GOLDEN "smolvlm", 3}};
    for (size_t k = 0; k < SAC_COUNT(models); k++) {
        question q = {models[k].path, 1, PICTURES, {0, 1, WIDE, 2}, 0, 0};
        ask_once(&q, &alone);
        q.batch = 32;
        ask_once(&q, &joined);
        expect_near(&joined, &alone);
        assert_true(alone.n_batches >= PICTURES);
        assert_int_equal(joined.n_batches, models[k].n_batches);
        const int want[] = {0, 1, 0, 1, 0, 1, 0, 1};
        assert_int_equal(joined.n_progress, 2 * PICTURES);
        assert_memory_equal(joined.progress, want, sizeof want);
    }
}

/* As many patches in other rows. */
static void other_grids_stay_apart(void **state) {
    (void)state;
    static seen alone, joined;
    question q = {GOLDEN "qwen2_vl", 1, 4, {FLAT, TALL, TALL, FLAT}, 0, 0};
    ask_once(&q, &alone);
    q.batch = 32;
    ask_once(&q, &joined);
    assert_int_equal(alone.n_batches, 4);
    assert_int_equal(joined.n_batches, 4); /* the second of each pair was there before, and no cache */
    expect_near(&joined, &alone);
}

/* As many as the batch has room for. */
static void batches_are_full(void **state) {
    (void)state;
    static seen alone, joined;
    question q = {GOLDEN "llava", 1, PICTURES, {0, 1, 2, 3}, 0, 0};
    ask_once(&q, &alone);
    q.batch = 3;
    ask_once(&q, &joined);
    assert_int_equal(alone.n_batches, PICTURES);
    assert_int_equal(joined.n_batches, 2);
    expect_near(&joined, &alone);
    q.batch = 32, q.joined = 3 * 16; /* patches of a tile there */
    ask_once(&q, &joined);
    assert_int_equal(joined.n_batches, 2);
    expect_near(&joined, &alone);
}

/* On the host small ones go together as well, and their rows have the same bits as by themselves: tiles of several pictures
 * (LLaVA-NeXT's), odd sizes, windows; a batch that ends between pictures, a limit that does, one that a picture alone is
 * beyond. */
static void the_host_keeps_bits(void **state) {
    (void)state;
    static seen alone, joined;
    enum { NONE = 1 }; /* patches */
    static const struct {
        const char *path;
        int joined, n_batches;
    } cases[] = {{GOLDEN "llava", 0, 1},        {GOLDEN "llava", 48, 2},     {GOLDEN "llava_next", 0, 2},  {GOLDEN "llava_next", 128, 3},
                 {GOLDEN "llava_next", 15, 4},  {GOLDEN "gemma3", 0, 1},     {GOLDEN "qwen2_vl", 0, 3},    {GOLDEN "qwen2_5_vl", 0, 3},
                 {GOLDEN "qwen3_vl", 0, 3},       {GOLDEN "llava_onevision", 0, 1}};
    for (size_t k = 0; k < SAC_COUNT(cases); k++) {
        question q = {cases[k].path, 16, PICTURES, {0, 1, WIDE, 2}, 0, NONE};
        ask_host(&q, &alone);
        q.joined = cases[k].joined;
        ask_host(&q, &joined);
        assert_int_equal(alone.n_batches, PICTURES);
        assert_int_equal(joined.n_batches, cases[k].n_batches);
        expect_near(&joined, &alone);
        assert_memory_equal(joined.logits, alone.logits, sizeof joined.logits);
    }
}

/* Tiles of so few rows (InternVL's golden has 4) would have other bits beside others, and go alone there. */
static void few_rows_go_alone(void **state) {
    (void)state;
    static seen host, there;
    const question q = {GOLDEN "internvl", 16, 2, {SMALL, SMALL_TOO}, 0, 0};
    ask_host(&q, &host);
    ask_once(&q, &there);
    assert_int_equal(host.n_tiles, 2);
    assert_int_equal(host.n_batches, 2);
    assert_int_equal(there.n_batches, 1);
    expect_near(&there, &host);
}

/* What a reducer keeps of a picture it chooses by what the tower's class token looks at, of one picture at a time. */
static void chosen_pictures_go_alone(void **state) {
    (void)state;
    static seen alone, joined;
    question q = {GOLDEN "llava", 16, PICTURES, {0, 1, WIDE, 2}, 0, 1};
    reducer = "hired:rate=0.5";
    ask_host(&q, &alone);
    q.joined = 0;
    ask_host(&q, &joined);
    reducer = NULL;
    assert_int_equal(joined.n_batches, PICTURES);
    expect_near(&joined, &alone);
}

/* Where answers of others wait, as many as go into the caller's time: one until it is known how long one takes. */
static void short_pieces_join_less(void **state) {
    (void)state;
    static seen alone, longer, shorter;
    question q = {GOLDEN "llava", 1, PICTURES, {0, 1, 2, 3}, 0, 0};
    ask_once(&q, &alone);
    q.batch = 32, q.within = 1000;
    ask_once(&q, &longer);
    q.within = 1e-9;
    ask_once(&q, &shorter);
    assert_int_equal(longer.n_batches, 2);
    assert_int_equal(shorter.n_batches, PICTURES);
    expect_near(&longer, &alone);
    expect_near(&shorter, &alone);
}

/* What the cache has is not encoded again, also between others; one that comes twice is encoded once. */
static void the_cache_has_each(void **state) {
    (void)state;
    static seen one, all, again, twice, want;
    card c;
    open_card(&c, GOLDEN "llava", (size_t)8 << 20);
    sac_session *s = open_session(c.m, &(question){.batch = 32});
    ask(s, &(question){NULL, 32, 1, {1}, 0, 0}, &one, 0);
    sac_session_reset(s);
    ask(s, &(question){NULL, 32, 3, {0, 1, 2}, 0, 0}, &all, 0);
    assert_true(!all.from_cache[0] && all.from_cache[1] && !all.from_cache[2]);
    assert_int_equal(all.n_batches, 1);
    assert_int_equal(all.n_tiles, 2);
    sac_session_reset(s);
    ask(s, &(question){NULL, 32, 3, {0, 1, 2}, 0, 0}, &again, 0);
    assert_true(again.from_cache[0] && again.from_cache[1] && again.from_cache[2]);
    assert_memory_equal(again.logits, all.logits, sizeof all.logits);
    sac_session_free(s);
    close_card(&c);
    ask_once(&(question){GOLDEN "llava", 1, 3, {0, 1, 2}, 0, 0}, &want);
    for (int i = 0; i < VOCAB; i++) assert_true(fabsf(all.logits[i] - want.logits[i]) <= 1e-4f * (1 + fabsf(want.logits[i])));
    open_card(&c, GOLDEN "llava", (size_t)8 << 20);
    s = open_session(c.m, &(question){.batch = 32});
    ask(s, &(question){NULL, 32, 4, {0, 1, 0, 2}, 0, 0}, &twice, 0);
    assert_true(!twice.from_cache[0] && !twice.from_cache[1] && twice.from_cache[2] && !twice.from_cache[3]);
    assert_int_equal(twice.n_tiles, 3);
    sac_session_free(s);
    close_card(&c);
}

/* Whatever op or copy the card fails at, nothing is in flight, nothing half is kept, and the next answer is as ever. */
static void failures_leave_nothing(void **state) {
    (void)state;
    static seen want, t;
    const question q = {GOLDEN "llava", 32, 3, {0, 1, 2}, 0, 0};
    ask_once(&q, &want);
    bool reached = true;
    for (int at = 1; reached; at += 1 + at / 4) {
        card c;
        open_card(&c, q.path, (size_t)8 << 20);
        sac_session *s = open_session(c.m, &q);
        ask(s, &q, &t, at);
        reached = late_failed;
        late_fail_at = 0, late_failed = false;
        for (sac_vision_entry *e = c.m->vision_cache->first; e; e = e->next) assert_true(e->is_listed && !e->n_users);
        sac_session_reset(s);
        ask(s, &q, &t, 0);
        for (int i = 0; i < VOCAB; i++) assert_true(fabsf(t.logits[i] - want.logits[i]) <= 1e-4f * (1 + fabsf(want.logits[i])));
        sac_session_free(s);
        close_card(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pictures_go_together), cmocka_unit_test(other_grids_stay_apart), cmocka_unit_test(batches_are_full),
                                       cmocka_unit_test(the_host_keeps_bits), cmocka_unit_test(few_rows_go_alone),
                                       cmocka_unit_test(chosen_pictures_go_alone), cmocka_unit_test(short_pieces_join_less),
                                       cmocka_unit_test(the_cache_has_each), cmocka_unit_test(failures_leave_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
