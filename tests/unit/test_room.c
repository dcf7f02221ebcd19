/* How a context is shared out among media: what sac_room_* tells a decoder beforehand is what a session keeps, for
 * models whose pictures take many tiles (AnyRes) as for those whose pictures take one. */
#include "test.h"

#include "saccade/saccade.h"

enum { N_FRAMES = 400, N_CTX = 2048, SIDE = 4 };

/* A white picture as a BMP file, which every decoder reads. */
static uint8_t *new_bmp(int width, int height, size_t *n_bytes) {
    size_t row = ((size_t)width * 3 + 3) / 4 * 4;
    *n_bytes = 54 + row * (size_t)height;
    uint8_t *b = malloc(*n_bytes);
    assert_non_null(b);
    memset(b, 255, *n_bytes);
    memset(b, 0, 54);
    const uint32_t head[][2] = {{2, (uint32_t)*n_bytes}, {10, 54}, {14, 40}, {18, (uint32_t)width},
                                {22, (uint32_t)height},  {26, 1},  {28, 24}};
    memcpy(b, "BM", 2);
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        for (int k = 0; k < (head[i][0] >= 26 ? 2 : 4); k++)
            b[head[i][0] + (size_t)k] = (uint8_t)(head[i][1] >> 8 * k);
    return b;
}

/* A wide picture, a list of frames far longer than the context, and a short one behind it. */
typedef struct asked {
    uint8_t *picture, *frame;
    size_t n_picture, n_frame;
    sac_frame frames[N_FRAMES];
    sac_part parts[4];
    sac_message message;
} asked;

static void ask(asked *a, int width, int height, size_t n_short) {
    a->picture = new_bmp(width, height, &a->n_picture);
    a->frame = new_bmp(SIDE, SIDE, &a->n_frame);
    for (int i = 0; i < N_FRAMES; i++)
        a->frames[i] = (sac_frame){.bytes = a->frame, .n_bytes = a->n_frame, .time_s = i};
    a->parts[0] = (sac_part){.kind = SAC_PART_FRAMES, .frames = a->frames, .n_frames = n_short};
    a->parts[1] = (sac_part){.kind = SAC_PART_IMAGE, .bytes = a->picture, .n_bytes = a->n_picture};
    a->parts[2] = (sac_part){.kind = SAC_PART_FRAMES, .frames = a->frames, .n_frames = N_FRAMES};
    a->parts[3] = (sac_part){.kind = SAC_PART_TEXT, .text = "What happens in these?"};
    a->message = (sac_message){.role = "user", .parts = a->parts, .n_parts = 4};
}

static void expect_same_share(const char *folder, const char *reduce, int width, int height, size_t n_short) {
    sac_model *m;
    sac_session *s;
    sac_error err;
    sac_room room;
    asked *a = calloc(1, sizeof *a);
    assert_non_null(a);
    ask(a, width, height, n_short);
    sac_model_options o;
    sac_model_options_default(&o);
    assert_ok(sac_model_open(&m, folder, &o, &err), err);
    sac_session_config c;
    sac_session_config_default(&c);
    c.n_ctx = N_CTX;
    c.reduce = reduce;
    assert_ok(sac_session_create(&s, m, &c, &err), err);

    size_t n_ids;
    const sac_media_report *media;
    assert_ok(sac_session_prompt(s, &a->message, 1, NULL, 0, &n_ids, &err), err);
    assert_int_equal(sac_session_media(s, &media), 3);

    assert_ok(sac_room_open(&room, m, N_CTX, reduce, &a->message, 1, &err), err);
    assert_int_equal(room.n_videos, 2);
    assert_ok(sac_room_picture(&room, width, height, &err), err);
    int64_t first = sac_room_frames(&room);
    assert_int_equal(media[0].n_frames, (int64_t)n_short < first ? (int64_t)n_short : first);
    sac_room_video(&room, (int64_t)n_short);
    assert_int_equal(media[2].n_frames, sac_room_frames(&room));
    assert_in_range(media[2].n_frames, 2, N_FRAMES - 1); /* the context binds */
    sac_room_video(&room, N_FRAMES);
    assert_int_equal(room.n_videos, 0);
    assert_int_equal(sac_room_frames(&room), 1);

    sac_session_free(s);
    sac_model_free(m);
    free(a->picture);
    free(a->frame);
    free(a);
}

static void rooms_are_what_sessions_keep(void **state) {
    (void)state;
    for (size_t n_short = 2; n_short <= N_FRAMES; n_short *= 14) {
        expect_same_share("tests/golden/models/llava", NULL, 60, 20, n_short);
        expect_same_share("tests/golden/models/llava_next", NULL, 60, 20, n_short);
        expect_same_share("tests/golden/models/llava_next", "none", 20, 90, n_short);
        expect_same_share("tests/golden/models/llava_next", "hired:rate=0.5", 60, 20, n_short);
        expect_same_share("tests/golden/models/longva", NULL, 90, 90, n_short);
    }
}

/* A picture of AnyRes takes its tiles' tokens, not those of one frame; a reducer leaves some of them out. */
static void pictures_take_their_tiles(void **state) {
    (void)state;
    sac_model *m;
    sac_error err;
    sac_room room, reduced;
    sac_model_info info;
    sac_message none = {.role = "user"};
    sac_model_options o;
    sac_model_options_default(&o);
    assert_ok(sac_model_open(&m, "tests/golden/models/llava_next", &o, &err), err);
    sac_model_get_info(m, &info);
    assert_ok(sac_room_open(&room, m, N_CTX, NULL, &none, 1, &err), err);
    assert_ok(sac_room_open(&reduced, m, N_CTX, "hired:rate=0.5", &none, 1, &err), err);
    int64_t before = room.n_tokens;
    assert_ok(sac_room_picture(&room, 60, 60, &err), err);
    assert_ok(sac_room_picture(&reduced, 60, 60, &err), err);
    assert_true(before - room.n_tokens > 2 * info.tokens_per_frame);
    assert_true(reduced.n_tokens > room.n_tokens);
    assert_int_equal(sac_room_picture(&room, 0, 60, &err), SAC_BAD_ARGUMENT);
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rooms_are_what_sessions_keep),
        cmocka_unit_test(pictures_take_their_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
