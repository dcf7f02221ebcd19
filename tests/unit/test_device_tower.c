/* Pictures and videos through a tower on a device, without one (late_device.h): whatever is late, the prompt's rows
 * are those of a device that does everything at once; they never visit the host; and what is given up in the
 * middle leaves nothing behind. A whole session runs on the device, its activations in f32 as the CPU's ops want
 * them. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "device_tower.h"
#include "late_tower.h"
#include "work.h"
#include "workspace.h"

#include <math.h>

#define GOLDEN "tests/golden/models/"

enum { FRAMES = 8, BATCH = 3, VOCAB = 1024, N_CTX = 2000 };

static const char *reducer; /* of all sessions; NULL: none */

static sac_session *open_session(const sac_model *m, int batch) {
    sac_error err;
    sac_session *s;
    sac_session_config config = {.n_ctx = N_CTX, .kv = "f32", .reduce = reducer};
    assert_ok(sac_session_create(&s, m, &config, &err), err);
    s->vision.batch_tiles = batch;
    return s;
}

/* ---------------------------------------------------------------- a question */

typedef struct seen {
    float logits[VOCAB];
    int64_t progress[FRAMES + 2];
    int n_progress, n_tiles, n_blocks;
    uint64_t tiles; /* a sum that the order changes */
    int n_pieces;   /* of the tower */
    size_t n_downloaded;
    bool from_cache;
} seen;

static void on_progress(void *ctx, const char *what, int64_t done, int64_t total) {
    seen *t = ctx;
    (void)total;
    if (!strcmp(what, "vision") && t->n_progress < FRAMES + 2) t->progress[t->n_progress++] = done;
}
static void on_tile(void *ctx, size_t media, int64_t tile, int width, int height, const uint8_t *rgb) {
    seen *t = ctx;
    (void)media;
    assert_int_equal(tile, t->n_tiles++);
    for (int i = 0; i < width * height * 3; i++) t->tiles = t->tiles * 31 + rgb[i];
}

static const char a_picture[] = GOLDEN "wide.png", a_video[] = "samples/video0000_16.mp4";

/* Pieces until the tower is through, the device late. */
static void to_prefill(sac_session *s) {
    sac_error err;
    for (bool done = false; s->work->stage <= SAC_WORK_MEDIA;) {
        late_prompt = s->work->stage == SAC_WORK_MEDIA ? 0 : LATE_STREAMS;
        assert_ok(sac_session_work_next(s, &done, &err), err);
    }
    late_prompt = LATE_STREAMS;
}

/* The pieces of the tower run with the device as late as `n_prompt` says, all else at once: what is under test is
 * whose rows are where when. */
static sac_status pieces(sac_session *s, seen *t, int n_prompt, int stop_at, sac_error *err) {
    sac_status st = SAC_OK;
    late_prompt = LATE_STREAMS;
    for (bool done = false; st == SAC_OK && !done;) {
        bool at_tower = s->work->stage == SAC_WORK_MEDIA || s->work->stage == SAC_WORK_CHOOSE;
        if (at_tower && stop_at && t->n_pieces == stop_at) return SAC_OK;
        t->n_pieces += at_tower;
        size_t before = late_n_downloaded;
        late_prompt = at_tower ? n_prompt : LATE_STREAMS;
        st = sac_session_work_next(s, &done, err);
        late_prompt = LATE_STREAMS;
        if (at_tower) t->n_downloaded += late_n_downloaded - before;
    }
    return st;
}

static sac_part part_of(const char *path) {
    sac_part p = {.kind = path == a_picture ? SAC_PART_IMAGE : SAC_PART_VIDEO, .path = path};
    if (p.kind == SAC_PART_VIDEO) p.video.num_frames = FRAMES;
    return p;
}

typedef struct asking {
    sac_part parts[2];
    sac_message message;
    sac_events events;
} asking;

static void begin(asking *q, sac_session *s, seen *t, const char *path) {
    sac_error err;
    memset(t, 0, sizeof *t);
    *q = (asking){.parts = {part_of(path), {.kind = SAC_PART_TEXT, .text = "How many numbers appear?"}},
                  .events = {.ctx = t, .progress = on_progress, .tile = on_tile}};
    q->message = (sac_message){"user", q->parts, 2, NULL};
    sac_input in = {.messages = &q->message, .n_messages = 1};
    assert_ok(sac_session_begin_work(s, &in, NULL, &q->events, &err), err);
}

static void see_end(const sac_session *s, seen *t) {
    const sac_media_report *media;
    size_t n_vocab = (size_t)s->model->loaded.decoder.config.vocab;
    assert_true(n_vocab <= VOCAB);
    memcpy(t->logits, sac_session_logits(s), n_vocab * sizeof *t->logits);
    assert_int_equal(sac_session_media(s, &media), 1);
    t->from_cache = media[0].from_cache;
    t->n_blocks = (int)s->media[0].n_blocks;
}

static sac_status ask(sac_session *s, seen *t, const char *path, int n_prompt) {
    static asking q; /* the session's until the work is done */
    sac_error err;
    begin(&q, s, t, path);
    sac_status st = pieces(s, t, n_prompt, 0, &err);
    assert_int_equal(late_in_flight(), 0);
    if (st == SAC_OK) see_end(s, t);
    return st;
}

static void see(card *c, seen *t, const char *path, int batch, int n_prompt) {
    sac_session *s = open_session(c->m, batch);
    assert_int_equal(ask(s, t, path, n_prompt), SAC_OK);
    sac_session_free(s);
}

static void expect_same(const seen *a, const seen *b) {
    assert_memory_equal(a->logits, b->logits, sizeof a->logits);
    assert_int_equal(a->n_tiles, b->n_tiles);
    assert_true(a->tiles == b->tiles);
    assert_int_equal(a->n_progress, b->n_progress);
    assert_memory_equal(a->progress, b->progress, sizeof a->progress);
}

/* Of the same model on the CPU: other sums, the same answer. */
static void expect_like_the_cpu(const char *model, const char *path, const seen *t) {
    sac_error err;
    sac_model *m;
    sac_session *s;
    asking q;
    seen here;
    assert_ok(sac_model_open(&m, model, NULL, &err), err);
    sac_session_config config = {.n_ctx = N_CTX, .kv = "f32", .reduce = reducer};
    assert_ok(sac_session_create(&s, m, &config, &err), err);
    begin(&q, s, &here, path);
    for (bool done = false; !done;) assert_ok(sac_session_work_next(s, &done, &err), err);
    const float *want = sac_session_logits(s);
    for (int i = 0; i < m->loaded.decoder.config.vocab; i++)
        assert_true(fabsf(t->logits[i] - want[i]) <= 1e-3f * (1 + fabsf(want[i])));
    assert_int_equal(here.n_tiles, t->n_tiles);
    assert_true(here.tiles == t->tiles);
    sac_session_free(s);
    sac_model_free(m);
}

/* ---------------------------------------------------------------- what is late is the same */

/* parts: places that a step of a video is copied to, where text stands between it and the next; -1: one for each row of its
 * tokens, or each crop. */
static const struct {
    const char *path;
    int frames, parts;
} models[] = {
    {GOLDEN "llava", 1, 1},        {GOLDEN "llava_next", 1, 1},      {GOLDEN "longva", 1, 0},
    {GOLDEN "qwen2_vl", 2, 0},     {GOLDEN "qwen2_5_vl", 2, 0},      {GOLDEN "qwen3_vl", 2, 2},
    {GOLDEN "llava_siglip", 1, 1}, {GOLDEN "llava_onevision", 1, 0}, {GOLDEN "llava_onevision_max", 1, 0},
    {GOLDEN "llava_video", 1, 0},  {GOLDEN "llava_next_video", 1, 0},
    {GOLDEN "internvl", 1, 1},     {GOLDEN "internvl_rms", 1, 1},
    {GOLDEN "smolvlm", 1, 1},      {GOLDEN "idefics3", 1, 1},        {GOLDEN "glm4v", 2, 1},
    {GOLDEN "pixtral", 1, -1},     {GOLDEN "mistral3", 1, -1},       {GOLDEN "kimi_vl", 1, 1},       {GOLDEN "glm_ocr", 2, 1},
    {GOLDEN "lighton_ocr", 1, 0},    {GOLDEN "paddleocr_vl", 1, 1},
    {GOLDEN "minicpmv4_6", 1, -1}};

static void videos_and_pictures_are_the_same_late(void **state) {
    (void)state;
    static seen now, late;
    static const char *const paths[] = {a_picture, a_video};
    for (size_t k = 0; k < SAC_COUNT(models); k++)
        for (size_t i = 0; i < SAC_COUNT(paths); i++) {
            card c;
            open_card(&c, models[k].path, 0);
            see(&c, &now, paths[i], BATCH, LATE_STREAMS);
            see(&c, &late, paths[i], BATCH, 0);
            expect_same(&now, &late);
            assert_int_equal(late.n_downloaded, 0); /* no visual row visits the host */
            /* nor another place on the device, unless text stands between steps of one batch */
            int n_steps = FRAMES / models[k].frames, n_alone = n_steps % BATCH == 1;
            int n_copies = 2 * (n_steps - n_alone) * models[k].parts;
            if (models[k].parts < 0) n_copies = 2 * now.n_blocks;
            if (models[k].parts >= 0 && paths[i] == a_picture) /* its tiles, where they stand apart */
                n_copies = sac_processor_has_texts(&c.m->loaded.processor) ? 2 * now.n_tiles : 0;
            if (models[k].parts < 0) assert_true(now.n_blocks >= now.n_tiles && now.n_blocks > 1);
            assert_int_equal(late_n_copies, n_copies);
            expect_like_the_cpu(models[k].path, paths[i], &late);
            close_card(&c);
        }
}

/* Where a reducer chooses among a video's rows these visit the host, all that the tower made and nothing else, whatever is late. */
static void reduced_videos_are_the_same_late(void **state) {
    (void)state;
    static seen now, late;
    static const char *const some[] = {GOLDEN "llava", GOLDEN "llava_onevision", GOLDEN "qwen2_5_vl", GOLDEN "qwen3_vl",
                                       GOLDEN "minicpmv4_6"};
    static const char *const lines[] = {"evs:prune=0.6", "vidcom2:rate=0.4", "flashvid:rate=0.3"};
    for (size_t k = 0; k < SAC_COUNT(some); k++)
        for (size_t i = 0; i < SAC_COUNT(lines); i++) {
            card c;
            reducer = lines[i];
            open_card(&c, some[k], 0);
            see(&c, &now, a_video, BATCH, LATE_STREAMS);
            sac_memo_free(c.m->memo); /* chosen anew */
            sac_memo_init(c.m->memo);
            see(&c, &late, a_video, BATCH, 0);
            expect_same(&now, &late);
            assert_true(late.n_downloaded > 0 && late.n_downloaded == now.n_downloaded);
            expect_like_the_cpu(some[k], a_video, &late);
            close_card(&c);
            reducer = NULL;
        }
}

/* Frames that stand alone, with text between them, and frames in one row give the tower the same batches. */
static void batches_are_pieces(void **state) {
    (void)state;
    static seen t;
    card c;
    open_card(&c, "models/demo", 0);
    see(&c, &t, a_video, BATCH, 0);
    static const int64_t want[] = {0, 3, 6, 8};
    assert_int_equal(t.n_progress, 4);
    assert_memory_equal(t.progress, want, sizeof want);
    assert_int_equal(t.n_tiles, FRAMES);
    assert_int_equal(t.n_pieces, 1 + 3); /* opened, and three batches */
    expect_like_the_cpu("models/demo", a_video, &t);
    close_card(&c);
}

/* A decoder of another type than the tower's: the merger's rows pass through a buffer in f32. */
static void rows_of_another_type_are_converted(void **state) {
    (void)state;
    static seen plain, converted;
    sac_error err;
    card c;
    open_card(&c, GOLDEN "longva", 0);
    see(&c, &plain, a_video, BATCH, LATE_STREAMS);
    sac_session *s = open_session(c.m, BATCH);
    sac_workspace *w; /* that the session will borrow */
    assert_ok(sac_workspace_borrow(c.m, &(sac_workspace_need){.vision = true}, SAC_FOR_PROMPT, &w, &err),
              err);
    sac_device_vision *v = &w->device_vision;
    void *wide, *every_row;
    static int32_t numbers[1 << 14];
    for (int i = 0; i < (int)SAC_COUNT(numbers); i++) numbers[i] = i;
    assert_ok(late_alloc(&c.m->device, 1 << 24, &wide, &err), err);
    assert_ok(late_alloc(&c.m->device, sizeof numbers, &every_row, &err), err);
    assert_int_equal(late_upload(&w->device_stream, every_row, numbers, sizeof numbers), SAC_OK);
    sac_workspace_give_back(c.m, w);
    v->wide = wide;
    v->every_row = every_row;
    assert_int_equal(ask(s, &converted, a_video, 0), SAC_OK);
    expect_same(&plain, &converted);
    sac_session_free(s);
    late_free(&c.m->device, wide);
    late_free(&c.m->device, every_row);
    close_card(&c);
}

/* Batches that the device has no kernels for run on the host, and their rows go up. */
static void refused_batches_run_on_the_host(void **state) {
    (void)state;
    static seen now, late;
    static asking q;
    static const char *const paths[] = {a_picture, a_video};
    sac_error err;
    for (size_t i = 0; i < SAC_COUNT(paths); i++)
        for (int from = 1; from < 3; from++) { /* the tower's piece from which on they are refused */
            card c;
            open_card(&c, GOLDEN "longva", 0);
            see(&c, &now, paths[i], 1, LATE_STREAMS);
            sac_session *s = open_session(c.m, 1);
            begin(&q, s, &late, paths[i]);
            assert_ok(pieces(s, &late, 0, from, &err), err);
            bool done = false;
            while (s->work->stage ==
                   SAC_WORK_MEDIA) { /* at once, and late where there is something to wait for */
                late_has_no_attention = true;
                late_prompt = 0;
                assert_ok(sac_session_work_next(s, &done, &err), err);
            }
            late_has_no_attention = false;
            assert_ok(pieces(s, &late, 0, 0, &err), err);
            for (int j = 0; j < c.m->loaded.decoder.config.vocab; j++)
                assert_true(fabsf(sac_session_logits(s)[j] - now.logits[j]) <=
                            1e-3f * (1 + fabsf(now.logits[j])));
            assert_true(late.tiles == now.tiles);
            sac_session_free(s);
            close_card(&c);
        }
}

/* ---------------------------------------------------------------- the cache */

/* The second session has a stream of its own: rows that the first has only ordered are not there yet. */
static void rows_of_the_cache_stay_on_the_device(void **state) {
    (void)state;
    static seen first, again, other;
    static asking q, r;
    static const char *const paths[] = {a_picture, a_video};
    sac_error err;
    for (size_t k = 0; k < SAC_COUNT(models); k++)
        for (size_t i = 0; i < SAC_COUNT(paths); i++) {
            card c;
            open_card(&c, models[k].path, (size_t)8 << 20);
            sac_session *s = open_session(c.m, BATCH), *t = open_session(c.m, BATCH);
            begin(&q, s, &first, paths[i]);
            to_prefill(s); /* its rows are kept, and it has not gone on yet */
            begin(&r, t, &again, paths[i]);
            assert_ok(pieces(t, &again, 0, 0, &err), err);
            see_end(t, &again);
            assert_ok(pieces(s, &first, 0, 0, &err), err);
            see_end(s, &first);
            sac_session_reset(s);
            assert_int_equal(ask(s, &other, paths[i], 0), SAC_OK);
            assert_true(!first.from_cache && again.from_cache && other.from_cache);
            assert_memory_equal(first.logits, again.logits, sizeof first.logits);
            assert_memory_equal(first.logits, other.logits, sizeof first.logits);
            assert_int_equal(first.n_downloaded + again.n_downloaded + other.n_downloaded, 0);
            assert_int_equal(again.n_tiles, 0);
            assert_int_equal(again.n_pieces, 1);
            sac_session_free(s);
            sac_session_free(t);
            close_card(&c);
        }
}

/* The cache has room for one of the two: each question drops what the one before kept. */
static void what_is_dropped_is_encoded_again(void **state) {
    (void)state;
    static seen picture, video, t;
    card c;
    open_card(&c, GOLDEN "longva", 0);
    see(&c, &picture, a_picture, BATCH, LATE_STREAMS);
    see(&c, &video, a_video, BATCH, LATE_STREAMS);
    close_card(&c);
    sac_session *s;
    open_card(&c, GOLDEN "longva", (size_t)8 << 20);
    s = open_session(c.m, BATCH);
    assert_int_equal(ask(s, &t, a_video, 0), SAC_OK);
    size_t of_video = c.m->vision_cache->used_bytes;
    assert_int_equal(ask(s, &t, a_picture, 0), SAC_OK);
    size_t of_picture = c.m->vision_cache->used_bytes - of_video;
    sac_session_free(s);
    close_card(&c);
    open_card(&c, GOLDEN "longva", of_video > of_picture ? of_video : of_picture);
    s = open_session(c.m, BATCH);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ask(s, &t, a_video, 0), SAC_OK);
        assert_false(t.from_cache);
        expect_same(&video, &t);
        assert_int_equal(ask(s, &t, a_picture, 0), SAC_OK);
        assert_false(t.from_cache);
        expect_same(&picture, &t);
        sac_session_reset(s);
        assert_int_equal(ask(s, &t, a_picture, 0), SAC_OK);
        assert_true(t.from_cache);
        sac_session_reset(s);
    }
    sac_session_free(s);
    close_card(&c);
}

/* What a session has found is in its prompt before it lets go: another may drop it and fill its place at once. */
static void what_was_found_is_copied_before_it_can_go(void **state) {
    (void)state;
    static seen want, found, t;
    static asking q, other;
    sac_error err;
    card c;
    open_card(&c, GOLDEN "longva", (size_t)8 << 20);
    sac_session *s = open_session(c.m, BATCH), *finder = open_session(c.m, BATCH);
    assert_int_equal(ask(s, &want, a_video, 0), SAC_OK);
    sac_session_reset(s);
    c.m->vision_cache->capacity_bytes = c.m->vision_cache->used_bytes; /* room for one */
    begin(&q, finder, &found, a_video);
    to_prefill(finder);
    begin(&other, s, &t, a_picture);
    assert_ok(pieces(s, &t, LATE_STREAMS, 0, &err), err);
    assert_memory_equal(&c.m->vision_cache->newest->key, &s->media[0].key, sizeof(sac_vision_key));
    assert_null(c.m->vision_cache->first->next);
    assert_ok(pieces(finder, &found, 0, 0, &err), err);
    assert_memory_equal(sac_session_logits(finder), want.logits,
                        (size_t)c.m->loaded.decoder.config.vocab * sizeof(float));
    sac_session_free(s);
    sac_session_free(finder);
    close_card(&c);
}

/* ---------------------------------------------------------------- given up in the middle */

typedef enum way_out { BY_CANCEL, BY_END, BY_RESET, BY_NEXT, BY_FREE, N_WAYS } way_out;

/* After every batch of the tower: nothing is in flight, nothing is kept, and the next answer is as ever. */
static void given_up_between_batches(void **state) {
    (void)state;
    static seen want, t, cut;
    static asking q;
    static const char *const paths[] = {a_picture, a_video};
    sac_error err;
    for (size_t i = 0; i < SAC_COUNT(paths); i++) {
        card c;
        open_card(&c, GOLDEN "longva", (size_t)8 << 20);
        see(&c, &want, paths[i], 1, LATE_STREAMS);
        int n_stops = want.n_pieces < 4 ? want.n_pieces : 4;
        assert_true(n_stops > 2);
        for (int stop = 1; stop < n_stops; stop++)
            for (way_out way = 0; way < N_WAYS; way++) {
                close_card(&c);
                open_card(&c, GOLDEN "longva", (size_t)8 << 20);
                sac_session *s = open_session(c.m, 1);
                begin(&q, s, &cut, paths[i]);
                assert_ok(pieces(s, &cut, 0, stop, &err), err);
                assert_true(s->work->stage == SAC_WORK_MEDIA);
                if (paths[i] == a_video && stop > 1) assert_true(late_in_flight() > 0);
                if (way == BY_CANCEL) {
                    bool done;
                    sac_session_cancel(s);
                    assert_int_equal(sac_session_work_next(s, &done, &err), SAC_CANCELLED);
                }
                if (way == BY_END) sac_session_end(s, NULL);
                if (way == BY_RESET) sac_session_reset(s);
                if (way == BY_FREE) {
                    sac_session_free(s);
                    s = open_session(c.m, 1);
                }
                if (way != BY_NEXT) assert_int_equal(late_in_flight(), 0);
                assert_int_equal(c.m->vision_cache->used_bytes, 0);
                assert_int_equal(ask(s, &t, paths[i], 0), SAC_OK);
                assert_false(t.from_cache);
                expect_same(&want, &t);
                sac_session_free(s);
            }
        close_card(&c);
    }
}

/* Every op and copy of the tower's pieces in turn is the one at which the card fails. */
static void a_card_that_fails_is_said(void **state) {
    (void)state;
    static seen t, whole, want;
    static asking q;
    static const char *const paths[] = {a_picture, a_video};
    sac_error err;
    for (size_t i = 0; i < SAC_COUNT(paths); i++)
        for (int at = 1, reached = 1; reached; at += 1 + at / 4) {
            card c;
            open_card(&c, GOLDEN "llava_next", (size_t)8 << 20);
            sac_session *s = open_session(c.m, BATCH);
            begin(&q, s, &t, paths[i]);
            bool done = false;
            while (s->work->stage != SAC_WORK_MEDIA) assert_ok(sac_session_work_next(s, &done, &err), err);
            late_fail_at = at;
            sac_status st = SAC_OK;
            late_prompt = 0;
            while (st == SAC_OK && s->work->stage == SAC_WORK_MEDIA) {
                memset(&err, 0, sizeof err);
                st = sac_session_work_next(s, &done, &err);
            }
            reached = late_failed;
            if (reached) {
                assert_int_equal(st, SAC_DEVICE);
                assert_string_equal(err.text, "the late device is broken");
                assert_int_equal(late_in_flight(), 0);
                for (sac_vision_entry *e = c.m->vision_cache->first; e; e = e->next)
                    assert_true(e->is_listed && !e->n_users); /* whole, or not there */
            }
            late_fail_at = 0;
            late_failed = false;
            sac_session_free(s);
            s = open_session(c.m, BATCH);
            assert_int_equal(ask(s, &whole, paths[i], 0), SAC_OK); /* as if the card had come back */
            if (at == 1) want = whole;
            assert_memory_equal(whole.logits, want.logits, sizeof want.logits);
            sac_session_free(s);
            close_card(&c);
        }
}

/* A frame that cannot be read ends the work while a batch is on its way. */
static void a_frame_that_fails_ends_the_work(void **state) {
    (void)state;
    static seen t;
    sac_error err;
    card c;
    open_card(&c, GOLDEN "longva", (size_t)8 << 20);
    sac_session *s = open_session(c.m, 1);
    sac_frame frames[3] = {{.path = a_picture}, {.path = a_picture, .time_s = 1}, {.path = "/", .time_s = 2}};
    sac_part parts[] = {{.kind = SAC_PART_FRAMES, .frames = frames, .n_frames = 3},
                        {.kind = SAC_PART_TEXT, .text = "What is seen?"}};
    sac_message message = {"user", parts, 2, NULL};
    sac_frame whole[3] = {frames[0], frames[1], {.path = GOLDEN "tall.png", .time_s = 2}};
    sac_input in = {.messages = &message, .n_messages = 1};
    parts[0].frames = whole;
    memset(&t, 0, sizeof t);
    assert_ok(sac_session_begin_work(s, &in, NULL, NULL, &err), err);
    assert_ok(pieces(s, &t, 0, 2, &err), err);
    whole[2].path = "/"; /* what was measured is gone */
    assert_true(late_in_flight() > 0);
    assert_int_not_equal(pieces(s, &t, 0, 0, &err), SAC_OK);
    assert_int_equal(late_in_flight(), 0);
    assert_null(c.m->vision_cache->first);
    sac_session_free(s);
    close_card(&c);
}

/* ---------------------------------------------------------------- the plan */

static size_t planned_for(const sac_memory_report *r, const char *tag) {
    for (int i = 0; i < r->n_parts; i++)
        if (strcmp(r->parts[i].tag, tag) == 0) return r->parts[i].n_bytes;
    return 0;
}

/* A reducer wants to look into the tower: it runs on the host, and its rows go up. Where it does not, the host's pages for it are no
 * part of the plan. */
static void the_plan_says_where_the_tower_runs(void **state) {
    (void)state;
    sac_error err;
    sac_model *m;
    sac_memory_report here, there, reduced;
    card c;
    assert_ok(sac_model_open(&m, "models/demo", NULL, &err), err);
    assert_ok(sac_session_plan(m, NULL, &here, &err), err);
    sac_model_free(m);
    open_card(&c, "models/demo", (size_t)8 << 20);
    assert_ok(sac_session_plan(c.m, NULL, &there, &err), err);
    assert_ok(sac_session_plan(c.m, &(sac_session_config){.reduce = "hired:rate=0.2"}, &reduced, &err), err);
    assert_true(here.device_vision_bytes == 0 && here.device_bytes == 0 && here.device_cache_bytes == 0);
    assert_true(there.device_vision_bytes > 0);
    assert_int_equal(reduced.device_vision_bytes, 0);
    assert_int_equal(there.workspace_device_bytes - reduced.workspace_device_bytes,
                     there.device_vision_bytes);
    assert_int_equal(there.device_cache_bytes, (size_t)8 << 20);
    assert_true(planned_for(&there, "vision") > 0 && planned_for(&there, "vision") < planned_for(&reduced, "vision"));
    assert_true(planned_for(&there, "op scratch") < planned_for(&reduced, "op scratch"));
    close_card(&c);
}

static void logits_on_the_cpu(const char *path, const char *about, const sac_session_config *config,
                              float *logits) {
    static asking q;
    static seen t;
    sac_error err;
    sac_model *m;
    sac_session *s;
    assert_ok(sac_model_open(&m, path, NULL, &err), err);
    assert_ok(sac_session_create(&s, m, config, &err), err);
    begin(&q, s, &t, about);
    for (bool done = false; !done;) assert_ok(sac_session_work_next(s, &done, &err), err);
    memcpy(logits, sac_session_logits(s), (size_t)m->loaded.decoder.config.vocab * sizeof *logits);
    sac_session_free(s);
    sac_model_free(m);
}

static void a_reducer_keeps_the_tower_on_the_host(void **state) {
    (void)state;
    static const char *const paths[] = {a_picture, a_video};
    static const sac_session_config config = {.n_ctx = N_CTX, .kv = "f32", .reduce = "hired:rate=0.3"};
    static seen t;
    sac_error err;
    sac_session *s;
    float want[VOCAB];
    for (size_t k = 0; k < 4; k++) { /* llava, llava_next, of each a picture and a video */
        card c;
        logits_on_the_cpu(models[k / 2].path, paths[k % 2], &config, want);
        open_card(&c, models[k / 2].path, (size_t)8 << 20);
        for (int round = 0; round < 2; round++) { /* the second time out of the cache */
            assert_ok(sac_session_create(&s, c.m, &config, &err), err);
            s->vision.batch_tiles = 1;
            assert_int_equal(ask(s, &t, paths[k % 2], 0), SAC_OK);
            assert_int_equal(t.from_cache, round == 1);
            for (int j = 0; j < c.m->loaded.decoder.config.vocab; j++)
                assert_true(fabsf(t.logits[j] - want[j]) <= 1e-4f * (1 + fabsf(want[j])));
            sac_session_free(s);
        }
        close_card(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(videos_and_pictures_are_the_same_late),
                                       cmocka_unit_test(reduced_videos_are_the_same_late),
        cmocka_unit_test(batches_are_pieces),
                                       cmocka_unit_test(rows_of_another_type_are_converted),
                                       cmocka_unit_test(refused_batches_run_on_the_host),
                                       cmocka_unit_test(rows_of_the_cache_stay_on_the_device),
                                       cmocka_unit_test(what_is_dropped_is_encoded_again),
                                       cmocka_unit_test(what_was_found_is_copied_before_it_can_go),
                                       cmocka_unit_test(given_up_between_batches),
                                       cmocka_unit_test(a_card_that_fails_is_said),
                                       cmocka_unit_test(a_frame_that_fails_ends_the_work),
                                       cmocka_unit_test(the_plan_says_where_the_tower_runs),
                                       cmocka_unit_test(a_reducer_keeps_the_tower_on_the_host)};
    return cmocka_run_group_tests_name("the tower on a late device", tests, NULL, NULL);
}
