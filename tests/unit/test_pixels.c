#define _GNU_SOURCE
/* Decoded pixels and prepared pictures through the public API: the answers are those of files, bit for bit, and
 * what a model has met under a key is not looked at again. */
#include "image.h"
#include "saccade/saccade.h"
#include "test.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#define FOLDER "tests/golden/models/"
enum { N_CTX = 4096, N_FRAMES = 4 };

/* A processor of each kind. */
static const char *const model_paths[] = {FOLDER "llava", FOLDER "llava_next", FOLDER "longva",
                                          "models/demo"};
static const char *const picture_paths[] = {FOLDER "wide.png", FOLDER "tall.png", FOLDER "small.png"};

typedef struct bench {
    sac_model *model;
    sac_session *session;
    int n_vocab;
    int n_tiles; /* that the tower was given, since this was set to 0 */
} bench;

static sac_session *open_session(const sac_model *m) {
    sac_session_config c;
    sac_error err;
    sac_session *s;
    sac_session_config_default(&c);
    c.n_ctx = N_CTX;
    c.kv = "f32";
    assert_ok(sac_session_create(&s, m, &c, &err), err);
    return s;
}

static bench open_bench(const char *path) {
    bench b = {0};
    sac_error err;
    sac_model_info info;
    assert_ok(sac_model_open(&b.model, path, NULL, &err), err);
    sac_model_get_info(b.model, &info);
    b.n_vocab = info.vocab;
    b.session = open_session(b.model);
    return b;
}

static void close_bench(bench *b) {
    sac_session_free(b->session);
    sac_model_free(b->model);
}

static void on_tile(void *ctx, size_t media, int64_t tile, int width, int height, const uint8_t *rgb) {
    (void)media, (void)tile, (void)width, (void)height, (void)rgb;
    ((bench *)ctx)->n_tiles++;
}

static sac_status try_part(bench *b, sac_session *s, const sac_part *part, sac_error *err) {
    sac_part parts[] = {*part, {.kind = SAC_PART_TEXT, .text = "What is this?"}};
    sac_message m = {.role = "user", .parts = parts, .n_parts = 2};
    sac_events events = {.ctx = b, .tile = on_tile};
    return sac_session_prefill(s, &m, 1, &events, err);
}

/* The logits of a question about the part, in a session that knows nothing of it. To be freed. */
static float *ask(bench *b, const sac_part *part) {
    sac_error err;
    size_t n_bytes = (size_t)b->n_vocab * sizeof(float);
    sac_session_reset(b->session);
    b->n_tiles = 0;
    assert_ok(try_part(b, b->session, part, &err), err);
    float *logits = malloc(n_bytes);
    memcpy(logits, sac_session_logits(b->session), n_bytes);
    return logits;
}

static void same_report(const sac_media_report *a, const sac_media_report *b) {
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->height, b->height);
    assert_int_equal(a->n_frames, b->n_frames);
    assert_int_equal(a->n_tiles, b->n_tiles);
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_int_equal(a->source_frames, b->source_frames);
    assert_true(a->source_fps == b->source_fps && a->duration_s == b->duration_s);
    assert_string_equal(a->rule, b->rule);
    assert_int_equal(a->time_s == NULL, b->time_s == NULL);
    for (int i = 0; a->time_s && i < a->n_frames; i++) assert_true(a->time_s[i] == b->time_s[i]);
}

/* Two parts get the same answer and the same report, both of them by work: neither is in the cache. */
static void same_answer(bench *b, const sac_part *one, const sac_part *other) {
    const sac_media_report *report;
    static double times[N_FRAMES];
    float *want = ask(b, one);
    assert_true(b->n_tiles > 0);
    assert_int_equal(sac_session_media(b->session, &report), 1);
    sac_media_report had = *report;
    char rule[200];
    snprintf(rule, sizeof rule, "%s", had.rule);
    had.rule = rule;
    if (had.time_s) had.time_s = memcpy(times, had.time_s, (size_t)had.n_frames * sizeof *times);
    int n_tiles = b->n_tiles;
    float *got = ask(b, other);
    assert_int_equal(b->n_tiles, n_tiles);
    assert_int_equal(sac_session_media(b->session, &report), 1);
    same_report(&had, report);
    assert_memory_equal(want, got, (size_t)b->n_vocab * sizeof(float));
    free(want);
    free(got);
}

static sac_image open_image(const char *path) {
    sac_image image;
    sac_error err;
    assert_ok(sac_image_open(&image, path, NULL, &err), err);
    return image;
}

static sac_part pixels_of(const sac_image *image) {
    return (sac_part){.kind = SAC_PART_PIXELS,
                      .pixels = {.width = image->width, .height = image->height, .rgb = image->rgb}};
}

/* The same picture with noise between its rows. */
static sac_image widen(const sac_image *image, size_t row_bytes) {
    sac_image wide = {malloc(row_bytes * (size_t)image->height), image->width, image->height};
    memset(wide.rgb, 0xa5, row_bytes * (size_t)image->height);
    for (int y = 0; y < image->height; y++)
        memcpy(wide.rgb + (size_t)y * row_bytes, image->rgb + (size_t)y * (size_t)image->width * 3,
               (size_t)image->width * 3);
    return wide;
}

static void pixels_equal_a_file(void **state) {
    (void)state;
    for (size_t m = 0; m < sizeof model_paths / sizeof *model_paths; m++) {
        bench b = open_bench(model_paths[m]);
        for (size_t i = 0; i < sizeof picture_paths / sizeof *picture_paths; i++) {
            sac_image image = open_image(picture_paths[i]);
            sac_part file = {.kind = SAC_PART_IMAGE, .path = picture_paths[i]}, pixels = pixels_of(&image);
            same_answer(&b, &file, &pixels);
            size_t row_bytes = (size_t)image.width * 3 + 7;
            sac_image wide = widen(&image, row_bytes);
            pixels.pixels.rgb = wide.rgb;
            pixels.pixels.row_bytes = row_bytes;
            pixels.pixels.key = (const uint8_t *)"another key than what was hashed";
            pixels.pixels.n_frames = 1;
            file.video.no_rotate = true; /* another key, so that what was encoded above does not serve */
            same_answer(&b, &file, &pixels);
            sac_image_free(&wide);
            sac_image_free(&image);
        }
        close_bench(&b);
    }
}

/* ---------------------------------------------------------------- videos */

/* Four frames of one size, in one block of pixels and as files. */
typedef struct clip {
    int width, height;
    uint8_t *rgb;
    char paths[N_FRAMES][64];
    sac_frame frames[N_FRAMES];
    double time_s[N_FRAMES];
} clip;

static void put_u32(uint8_t *to, uint32_t v) {
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> 8 * i);
}

static void write_bmp(const char *path, const uint8_t *rgb, int width, int height) {
    size_t row_bytes = ((size_t)width * 3 + 3) / 4 * 4, n_bytes = 54 + row_bytes * (size_t)height;
    uint8_t *file = calloc(1, n_bytes);
    file[0] = 'B', file[1] = 'M', file[26] = 1, file[28] = 24;
    put_u32(file + 2, (uint32_t)n_bytes), put_u32(file + 10, 54), put_u32(file + 14, 40);
    put_u32(file + 18, (uint32_t)width), put_u32(file + 22, (uint32_t)-height);
    for (int y = 0; y < height; y++)
        for (int i = 0; i < width * 3; i++)
            file[54 + (size_t)y * row_bytes + (size_t)i] = rgb[(y * width + i / 3) * 3 + 2 - i % 3];
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(file, 1, n_bytes, f), n_bytes);
    fclose(f);
    free(file);
}

static void make_clip(clip *c, uint64_t seed) {
    c->width = 61;
    c->height = 37;
    size_t each = (size_t)c->width * (size_t)c->height * 3;
    c->rgb = malloc(each * N_FRAMES);
    for (size_t i = 0; i < each * N_FRAMES; i++) c->rgb[i] = (uint8_t)test_rand(&seed);
    for (int i = 0; i < N_FRAMES; i++) {
        snprintf(c->paths[i], sizeof c->paths[i], "/tmp/saccade-pixels-%d-%d.bmp", (int)getpid(), i);
        write_bmp(c->paths[i], c->rgb + (size_t)i * each, c->width, c->height);
        c->time_s[i] = i * 0.5 + 1;
        c->frames[i] = (sac_frame){.path = c->paths[i], .time_s = c->time_s[i]};
    }
}

static void free_clip(clip *c) {
    for (int i = 0; i < N_FRAMES; i++) unlink(c->paths[i]);
    free(c->rgb);
}

static sac_part clip_pixels(const clip *c) {
    return (sac_part){.kind = SAC_PART_PIXELS,
                      .pixels = {.width = c->width,
                                 .height = c->height,
                                 .rgb = c->rgb,
                                 .n_frames = N_FRAMES,
                                 .time_s = c->time_s}};
}

static sac_part clip_files(const clip *c) {
    return (sac_part){.kind = SAC_PART_FRAMES, .frames = c->frames, .n_frames = N_FRAMES};
}

/* Each frame's picture on its own; the pixels are not kept. */
static void prepare_clip(const clip *c, const sac_model *m, sac_frame frames[N_FRAMES]) {
    size_t each = (size_t)c->width * (size_t)c->height * 3;
    uint8_t *copy = malloc(each);
    for (int i = 0; i < N_FRAMES; i++) {
        sac_error err;
        sac_prepared *p;
        memcpy(copy, c->rgb + (size_t)i * each, each);
        sac_part picture = {.kind = SAC_PART_PIXELS,
                            .pixels = {.width = c->width, .height = c->height, .rgb = copy}};
        assert_ok(sac_prepared_create(&p, m, &picture, true, &err), err);
        memset(copy, 0, each);
        frames[i] = (sac_frame){.prepared = p, .time_s = c->time_s[i]};
    }
    free(copy);
}

static void free_frames(sac_frame frames[N_FRAMES]) {
    for (int i = 0; i < N_FRAMES; i++) sac_prepared_free((sac_prepared *)(uintptr_t)frames[i].prepared);
}

static void a_video_of_pixels_equals_its_files(void **state) {
    (void)state;
    for (size_t m = 0; m < sizeof model_paths / sizeof *model_paths; m++) {
        bench b = open_bench(model_paths[m]);
        clip c;
        make_clip(&c, m);
        for (int n = 0; n < 3; n++) { /* all frames, and two ways to choose some */
            sac_part pixels = clip_pixels(&c), files = clip_files(&c), prepared = files;
            sac_frame frames[N_FRAMES];
            files.video = pixels.video = (sac_video_options){.num_frames = n == 1 ? 3 : 0, .fps = n == 2};
            prepared.video = files.video;
            same_answer(&b, &files, &pixels);
            prepare_clip(&c, b.model, frames);
            prepared.frames = frames;
            same_answer(&b, &prepared,
                        &(sac_part){.kind = SAC_PART_PIXELS,
                                    .pixels = {.width = c.width,
                                               .height = c.height,
                                               .rgb = c.rgb,
                                               .n_frames = N_FRAMES,
                                               .time_s = c.time_s,
                                               .key = (const uint8_t *)"0123456789abcdef"
                                                                       "0123456789abcdef"},
                                    .video = files.video});
            free_frames(frames);
        }
        free_clip(&c);
        close_bench(&b);
    }
}

/* ---------------------------------------------------------------- what is known is not looked at */

/* Pages that can be made unreadable: a look at them would end the test. */
static uint8_t *guarded(const uint8_t *from, size_t n_bytes) {
    uint8_t *p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    memcpy(p, from, n_bytes);
    return p;
}

static void a_known_key_is_enough(void **state) {
    (void)state;
    bench b = open_bench("models/demo");
    clip c;
    make_clip(&c, 7);
    for (int video = 0; video < 2; video++) {
        sac_part part = clip_pixels(&c);
        size_t n_bytes = (size_t)c.width * (size_t)c.height * 3 * N_FRAMES;
        uint8_t *rgb = guarded(c.rgb, n_bytes), key[32] = {1, 2, 3};
        part.pixels.rgb = rgb;
        part.pixels.key = key;
        if (!video) part.pixels.n_frames = 0, part.pixels.time_s = NULL;
        float *first = ask(&b, &part);
        assert_int_equal(b.n_tiles, video ? N_FRAMES : 1);
        assert_int_equal(mprotect(rgb, n_bytes, PROT_NONE), 0);
        float *second = ask(&b, &part);
        assert_int_equal(b.n_tiles, 0);
        assert_memory_equal(first, second, (size_t)b.n_vocab * sizeof(float));
        sac_session *other = open_session(b.model);
        sac_error err;
        const sac_media_report *report;
        assert_ok(try_part(&b, other, &part, &err), err);
        assert_int_equal(sac_session_media(other, &report), 1);
        assert_true(report->from_cache);
        sac_session_free(other);
        /* under another key, or in another shape, it is something else */
        assert_int_equal(mprotect(rgb, n_bytes, PROT_READ), 0);
        key[31] = 9;
        free(ask(&b, &part));
        assert_true(b.n_tiles > 0);
        part.pixels.height--;
        free(ask(&b, &part));
        assert_true(b.n_tiles > 0);
        munmap(rgb, n_bytes);
        free(first);
        free(second);
    }
    free_clip(&c);
    close_bench(&b);
}

static void pixels_without_a_key_are_known_by_what_they_are(void **state) {
    (void)state;
    bench b = open_bench("models/demo");
    clip c;
    make_clip(&c, 8);
    sac_part part = clip_pixels(&c);
    float *first = ask(&b, &part);
    float *again = ask(&b, &part);
    assert_int_equal(b.n_tiles, 0); /* hashed, and not resized */
    assert_memory_equal(first, again, (size_t)b.n_vocab * sizeof(float));
    c.rgb[(size_t)c.width * (size_t)c.height * 3 * N_FRAMES - 1] ^= 0x80;
    free(ask(&b, &part));
    assert_int_equal(b.n_tiles, N_FRAMES);
    free(first);
    free(again);
    free_clip(&c);
    close_bench(&b);
}

/* ---------------------------------------------------------------- prepared pictures */

static void a_prepared_picture_equals_its_file(void **state) {
    (void)state;
    for (size_t m = 0; m < sizeof model_paths / sizeof *model_paths; m++) {
        bench b = open_bench(model_paths[m]);
        for (size_t i = 0; i < sizeof picture_paths / sizeof *picture_paths; i++) {
            sac_part file = {.kind = SAC_PART_IMAGE, .path = picture_paths[i]};
            sac_prepared *p, *twin;
            sac_error err;
            assert_ok(sac_prepared_create(&p, b.model, &file, false, &err), err);
            sac_part prepared = {.kind = SAC_PART_IMAGE, .prepared = p};
            same_answer(&b, &file, &prepared);
            assert_true(sac_prepared_bytes(p) > 3 * 16 * 16);
            /* made again of the same picture it is the same, to another session too */
            assert_ok(sac_prepared_create(&twin, b.model, &file, false, &err), err);
            sac_prepared_free(p);
            prepared.prepared = twin;
            float *again = ask(&b, &prepared);
            assert_int_equal(b.n_tiles, 0);
            free(again);
            sac_prepared_free(twin);
        }
        close_bench(&b);
    }
    sac_prepared_free(NULL);
}

/* ---------------------------------------------------------------- refusals */

static void refuses(bench *b, const sac_part *part, const char *needle) {
    sac_error err = {0};
    sac_prepared *p;
    sac_session_reset(b->session);
    assert_int_equal(try_part(b, b->session, part, &err), SAC_BAD_ARGUMENT);
    assert_says(err, needle);
    assert_int_equal(sac_prepared_create(&p, b->model, part, false, &err), SAC_BAD_ARGUMENT);
    assert_null(p);
}

static void sizes_that_cannot_be(void **state) {
    (void)state;
    bench b = open_bench("models/demo");
    static const uint8_t rgb[12];
    static const double backwards[] = {1, 1}, nowhere[] = {0, NAN};
    const sac_pixels good = {.width = 2, .height = 2, .rgb = rgb};
    struct {
        sac_pixels p;
        const char *needle;
    } cases[] = {
        {{.width = 2, .height = 2}, "has none"},
        {{.width = 0, .height = 2, .rgb = rgb}, "0 x 2"},
        {{.width = 2, .height = -1, .rgb = rgb}, "2 x -1"},
        {{.width = INT32_MAX, .height = 1, .rgb = rgb}, "x 1"},
        {{.width = 1 << 14, .height = 1 << 14, .rgb = rgb}, "16384 x 16384"},
        {{.width = 2, .height = 2, .rgb = rgb, .row_bytes = 5}, "rows of 5 bytes"},
        {{.width = 2, .height = 2, .rgb = rgb, .row_bytes = SIZE_MAX / 2 + 1}, "more than there can be"},
        {{.width = 2, .height = 2, .rgb = rgb, .row_bytes = SIZE_MAX / 4 + 1}, "more than there can be"},
        {{.width = 2, .height = 2, .rgb = rgb, .n_frames = SIZE_MAX / 12 + 1}, "more than there can be"},
        {{.width = 2, .height = 1, .rgb = rgb, .n_frames = 2, .time_s = backwards}, "does not come after"},
        {{.width = 2, .height = 1, .rgb = rgb, .n_frames = 2, .time_s = nowhere}, "give times of at most"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses(&b, &(sac_part){.kind = SAC_PART_PIXELS, .pixels = cases[i].p}, cases[i].needle);
    free(ask(&b, &(sac_part){.kind = SAC_PART_PIXELS, .pixels = good}));
    close_bench(&b);
}

static void what_is_prepared_fits_its_place(void **state) {
    (void)state;
    bench b = open_bench("models/demo"), other = open_bench(FOLDER "llava");
    sac_part file = {.kind = SAC_PART_IMAGE, .path = picture_paths[0]};
    sac_prepared *picture, *frame;
    sac_error err;
    assert_ok(sac_prepared_create(&picture, b.model, &file, false, &err), err);
    assert_ok(sac_prepared_create(&frame, b.model, &file, true, &err), err);
    sac_part prepared = {.kind = SAC_PART_IMAGE, .prepared = picture};
    sac_frame frames[] = {{.prepared = frame, .time_s = 0}, {.prepared = picture, .time_s = 1}};
    refuses(&other, &prepared, "another model");
    prepared.prepared = frame;
    refuses(&b, &prepared, "as a frame");
    refuses(&b, &(sac_part){.kind = SAC_PART_FRAMES, .frames = frames, .n_frames = 2}, "not as a frame");
    sac_prepared *p;
    assert_int_equal(
        sac_prepared_create(&p, b.model, &(sac_part){.kind = SAC_PART_IMAGE, .path = "no"}, false, &err),
        SAC_NOT_FOUND);
    bench text = open_bench(FOLDER "qwen2");
    assert_int_equal(sac_prepared_create(&p, text.model, &file, false, &err), SAC_UNSUPPORTED);
    assert_null(p);
    close_bench(&text);
    sac_prepared_free(picture);
    sac_prepared_free(frame);
    close_bench(&b);
    close_bench(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_equal_a_file),
        cmocka_unit_test(a_video_of_pixels_equals_its_files),
        cmocka_unit_test(a_known_key_is_enough),
        cmocka_unit_test(pixels_without_a_key_are_known_by_what_they_are),
        cmocka_unit_test(a_prepared_picture_equals_its_file),
        cmocka_unit_test(sizes_that_cannot_be),
        cmocka_unit_test(what_is_prepared_fits_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
