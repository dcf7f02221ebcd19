/* Batches of frames through a tower on a device, without one (late_device.h): whatever is late, the prompt's
 * rows are those of a device that does everything at once. */
#include "clip.h"
#include "device_tower.h"
#include "late_device.h"
#include "test.h"
#include "vision_memory.h"
#include "workspace.h"

enum { FRAMES = 8, BATCH = 3, VOCAB = 1024 };

typedef struct seen {
    float logits[VOCAB];
    int64_t progress[FRAMES + 2];
    int n_progress, n_tiles;
    uint64_t tiles;   /* a sum that the order changes */
    int cancel_after; /* times that it is asked once a batch is on its way; 0: never */
    int n_asked;
} seen;

static void on_progress(void *ctx, const char *what, int64_t done, int64_t total) {
    seen *t = ctx;
    (void)total;
    if (!strcmp(what, "vision") && t->n_progress < FRAMES + 2) t->progress[t->n_progress++] = done;
}
static void on_tile(void *ctx, size_t media, int64_t tile, int size, const uint8_t *rgb) {
    seen *t = ctx;
    (void)media;
    assert_int_equal(tile, t->n_tiles++);
    for (int i = 0; i < size * size * 3; i++) t->tiles = t->tiles * 31 + rgb[i];
}
static bool on_stopped(void *ctx) {
    seen *t = ctx;
    return late_n_copies > 0 && ++t->n_asked == t->cancel_after;
}

static int n_processors; /* of the device: 0 takes a stretch of tiles for each, many one for all */

/* The demo's tower, its activations in f32 as the CPU's ops want them, on a device that is late. */
static sac_status see(seen *t, int n_prompt, bool refuse, int cancel_after) {
    sac_error err;
    sac_model_options o;
    sac_model *m;
    sac_session *s;
    sac_stream host;
    sac_arena arena, host_arena, small, measure = sac_arena_measure(), measure_small = sac_arena_measure();
    memset(t, 0, sizeof *t);
    sac_model_options_default(&o);
    o.n_threads = 1;
    assert_ok(sac_model_open(&m, "models/demo", &o, &err), err);
    assert_ok(sac_session_create(&s, m, &(sac_session_config){.n_ctx = 1000}, &err), err);
    const sac_tower_config *c = &m->loaded.tower.config;
    sac_clip_weights weights = *sac_clip_weights_of(&m->loaded.tower);
    int64_t n_start = (int64_t)sac_clip_tokens(c) * c->hidden;
    float *start = malloc((size_t)n_start * sizeof *start);
    for (int64_t i = 0; i < n_start; i++)
        start[i] = weights.pos_embed[i] + (i < c->hidden ? weights.class_embed[i] : 0);
    weights.start_rows = start;
    m->device_tower.tower = m->loaded.tower;
    m->device_tower.tower.weights = &weights;
    m->device_tower.merger = m->loaded.merger;
    sac_vision_sizes z = sac_vision_measure(m);
    sac_workspace *w; /* what the session will borrow */
    assert_ok(sac_workspace_borrow(m, &(sac_workspace_need){.vision = true}, SAC_FOR_PROMPT, &w, &err), err);
    sac_workspace_give_back(m, w);
    m->device = late_device();
    m->device.n_processors = n_processors;
    late_prompt = LATE_STREAMS;
    assert_ok(late_stream_open(&m->device, &w->device_stream, 0, &err), err);
    sac_device_vision *v = &w->device_vision;
    assert_ok(sac_device_vision_take(v, c, &z, SAC_DTYPE_F32, NULL, &measure, &measure_small, &err), err);
    assert_ok(sac_arena_open(&arena, measure.used_bytes, &err), err);
    assert_ok(sac_arena_open(&small, measure_small.used_bytes, &err), err);
    assert_ok(sac_device_vision_take(v, c, &z, SAC_DTYPE_F32, &w->device_stream, &arena, &small, &err), err);
    assert_int_equal(arena.used_bytes, measure.used_bytes);
    assert_int_equal(small.used_bytes, measure_small.used_bytes);
    assert_ok(sac_device_vision_open(v, &z, &m->device, &err), err);
    size_t scratch = m->ops.linear_scratch_bytes(4096, 4096) + 64;
    assert_ok(sac_arena_open(&host_arena, sac_stream_bytes(1, scratch), &err), err);
    assert_ok(sac_stream_init(&host, m->pool, &host_arena, scratch, &err), err);
    late_host = &host;
    w->device_ops = late_ops(&m->ops);
    w->vision.batch_tiles = BATCH;
    late_stream_sync(&w->device_stream, NULL);
    late_prompt = n_prompt;
    late_ops_refuse = refuse;
    late_n_copies = 0;

    t->cancel_after = cancel_after;
    sac_events events = {.ctx = t, .progress = on_progress, .tile = on_tile, .stopped = on_stopped};
    sac_part parts[] = {{.kind = SAC_PART_VIDEO, .path = "samples/video0000_16.mp4"},
                        {.kind = SAC_PART_TEXT, .text = "How many numbers appear?"}};
    parts[0].video.num_frames = FRAMES;
    sac_status st = sac_session_prefill(s, &(sac_message){"user", parts, 2}, 1, &events, &err);
    assert_true(late_n_copies > 0);
    assert_int_equal(late_in_flight(), 0);
    if (st == SAC_OK)
        memcpy(t->logits, sac_session_logits(s), (size_t)m->loaded.decoder.config.vocab * sizeof *t->logits);
    sac_device_vision_close(v, &m->device);
    late_stream_close(&w->device_stream);
    *v = (sac_device_vision){0};
    sac_cpu_device_open(&m->device);
    sac_session_free(s);
    sac_model_free(m);
    sac_arena_free(&arena);
    sac_arena_free(&host_arena);
    sac_arena_free(&small);
    free(start);
    return st;
}

static void expect_same(const seen *a, const seen *b) {
    assert_memory_equal(a->logits, b->logits, sizeof a->logits);
    assert_int_equal(a->n_tiles, FRAMES);
    assert_int_equal(b->n_tiles, FRAMES);
    assert_true(a->tiles == b->tiles);
    assert_int_equal(a->n_progress, b->n_progress);
    assert_memory_equal(a->progress, b->progress, sizeof a->progress);
}

static void late_is_the_same(void **state) {
    (void)state;
    static seen now, late, copies_late;
    assert_int_equal(see(&now, LATE_STREAMS, false, 0), SAC_OK);
    assert_int_equal(see(&late, 0, false, 0), SAC_OK);
    expect_same(&now, &late);
    assert_int_equal(see(&copies_late, 1, false, 0), SAC_OK); /* the tower runs ahead of them */
    expect_same(&now, &copies_late);
    n_processors = 1000;
    assert_int_equal(see(&late, 0, false, 0), SAC_OK);
    n_processors = 0;
    expect_same(&now, &late);
    static const int64_t want[] = {0, 3, 6, 8};
    assert_int_equal(now.n_progress, 4);
    assert_memory_equal(now.progress, want, sizeof want);
}

static void refused_batches_run_on_the_host(void **state) {
    (void)state;
    static seen now, late;
    assert_int_equal(see(&now, LATE_STREAMS, true, 0), SAC_OK);
    assert_int_equal(see(&late, 0, true, 0), SAC_OK);
    expect_same(&now, &late);
}

/* see() asserts that nothing is in flight afterwards. */
static void cancelled_leaves_nothing_in_flight(void **state) {
    (void)state;
    static seen t;
    assert_int_equal(see(&t, 0, false, 1), SAC_CANCELLED);
    assert_int_equal(see(&t, 0, false, 2), SAC_CANCELLED);
}

/* A reducer wants to look into the tower: it runs on the host, and nothing overlaps. */
static void the_plan_says_where_the_tower_runs(void **state) {
    static uint8_t block;
    sac_error err;
    sac_model *m;
    sac_memory_report here, there, reduced;
    (void)state;
    assert_ok(sac_model_open(&m, "models/demo", NULL, &err), err);
    assert_ok(sac_session_plan(m, NULL, &here, &err), err);
    m->device_tower.tower = m->loaded.tower;
    m->device_tower.merger = m->loaded.merger;
    m->device_tower.block = &block;
    assert_ok(sac_session_plan(m, NULL, &there, &err), err);
    assert_ok(sac_session_plan(m, &(sac_session_config){.reduce = "hired:rate=0.2"}, &reduced, &err), err);
    m->device_tower.block = NULL;
    sac_model_free(m);
    assert_int_equal(here.device_vision_bytes, 0);
    assert_int_equal(reduced.device_vision_bytes, 0);
    assert_true(there.device_vision_bytes > 0 && there.device_bytes == 0);
    assert_int_equal(there.workspace_device_bytes, there.device_vision_bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(late_is_the_same),
                                       cmocka_unit_test(refused_batches_run_on_the_host),
                                       cmocka_unit_test(cancelled_leaves_nothing_in_flight),
                                       cmocka_unit_test(the_plan_says_where_the_tower_runs)};
    return cmocka_run_group_tests_name("the tower on a late device", tests, NULL, NULL);
}
