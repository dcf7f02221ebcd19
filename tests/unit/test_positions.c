/* Spans of a prompt: which rows show which picture or frame, and the numbers that a family gives to the rows. */
#include "engine.h"
#include "media.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

#define TINY "tests/golden/models/"

enum { CTX = 2000 };

static void plain_numbers_are_places(void **state) {
    (void)state;
    int32_t out[SAC_POSITION_AXES * 5];
    assert_int_equal(sac_positions_plain(NULL, 0, 5, out), 5);
    for (int axis = 0; axis < SAC_POSITION_AXES; axis++)
        for (int i = 0; i < 5; i++) assert_int_equal(out[axis * 5 + i], i);
}

/* A family whose pictures are numbered along their axes, as in M-RoPE, and stand still in time otherwise. */
static int64_t by_axes(const sac_prompt_span *spans, int n_spans, int64_t n, int32_t *out) {
    int32_t next = 0;
    for (int64_t row = 0, k = 0; row < n; row++) {
        if (k < n_spans && spans[k].first == row) {
            sac_grid g = spans[k].grid;
            assert_int_equal(spans[k].n, sac_grid_cells(g));
            for (int64_t i = 0; i < spans[k].n; i++) {
                int32_t place[] = {(int32_t)(i / (g.h * g.w)), (int32_t)(i / g.w % g.h), (int32_t)(i % g.w)};
                for (int axis = 0; axis < SAC_POSITION_AXES; axis++)
                    out[axis * n + row + i] = next + place[axis];
            }
            next += g.t > g.w ? g.t : g.w;
            row += spans[k++].n - 1;
            continue;
        }
        for (int axis = 0; axis < SAC_POSITION_AXES; axis++) out[axis * n + row] = next;
        next++;
    }
    return next;
}

/* Two words, a video of three steps of a 2 x 3 grid that lie 1.5 apart, a word, a picture of 1 x 4, a word. */
static void numbers_on_three_axes(void **state) {
    (void)state;
    enum { N = 2 + 18 + 1 + 4 + 1 };
    const sac_prompt_span spans[] = {
        {.first = 2, .n = 18, .n_frames = 6, .time_step = 1.5, .grid = {3, 2, 3}},
        {.first = 21, .n = 4, .media = 1, .n_frames = 1, .time_step = 1, .grid = {1, 1, 4}}};
    int32_t out[SAC_POSITION_AXES * N], *row = out + N, *column = out + 2 * N;
    /* as trained: behind the largest number, which is of time here: 2 + floor(2 * 1.5) = 5 */
    assert_int_equal(sac_positions_mrope(spans, 2, N, out), 12);
    static const int32_t time[N] = {0, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 5, 5, 5, 5, 5, 5, 6, 7, 7, 7, 7, 11};
    assert_memory_equal(out, time, sizeof time);
    for (int i = 0; i < 18; i++) {
        assert_int_equal(row[2 + i], 2 + i / 3 % 2);
        assert_int_equal(column[2 + i], 2 + i % 3);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(row[21 + i], 7);
        assert_int_equal(column[21 + i], 7 + i);
    }
    assert_int_equal(row[25], 11);
    /* by the grid: 2 + 3 columns, whatever the time */
    assert_int_equal(sac_positions_mrope_grid(spans, 2, N, out), 11);
    assert_int_equal(out[19], 5);
    assert_int_equal(out[20], 5);
    assert_int_equal(row[21], 6);
    assert_int_equal(column[24], 9);
    assert_int_equal(out[25], 10);
    /* and steps go on behind the largest number, also where that is of time */
    const sac_prompt_span long_video = {.first = 0, .n = 4, .n_frames = 8, .time_step = 10, .grid = {4, 1, 1}};
    assert_int_equal(sac_positions_mrope_grid(&long_video, 1, 5, out), 31);
    assert_int_equal(out[4], 1);
}

static sac_model *open_model(const char *path, sac_session **s) {
    sac_error err;
    sac_model *m;
    assert_ok(sac_model_open(&m, path, NULL, &err), err);
    m->loaded.positions = by_axes;
    assert_ok(sac_session_create(s, m, &(sac_session_config){.n_ctx = CTX}, &err), err);
    return m;
}

/* Rows inside spans have the placeholder's id, rows outside have not. */
static void expect_spans_are_the_placeholders(const sac_session *s, const int32_t *ids, int64_t n) {
    int k = 0;
    for (int64_t i = 0; i < n; i++) {
        while (k < s->n_spans && i >= s->spans[k].first + s->spans[k].n) k++;
        bool inside = k < s->n_spans && i >= s->spans[k].first;
        assert_int_equal(ids[i] == s->model->loaded.image_token, inside);
    }
    assert_true(k >= s->n_spans - 1);
}

static int64_t run(sac_session *s, const sac_part *parts, size_t n_parts, int32_t *ids) {
    sac_error err;
    size_t n;
    sac_message message = {"user", parts, n_parts, NULL};
    assert_ok(sac_session_prompt(s, &message, 1, ids, CTX, &n, &err), err);
    assert_ok(sac_session_prefill(s, &message, 1, NULL, &err), err);
    assert_int_equal(sac_session_n_tokens(s), n);
    return (int64_t)n;
}

static void spans_say_what_they_show(void **state) {
    (void)state;
    sac_session *s;
    static int32_t ids[CTX], want[SAC_POSITION_AXES * CTX];
    sac_model *m = open_model("models/demo", &s);
    sac_part parts[] = {{.kind = SAC_PART_VIDEO, .path = "samples/video0000_16.mp4"},
                        {.kind = SAC_PART_IMAGE, .path = TINY "wide.png"},
                        {.kind = SAC_PART_TEXT, .text = "What?"}};
    parts[0].video.num_frames = 3;
    int64_t n = run(s, parts, 3, ids);
    assert_int_equal(s->n_spans, 4);
    expect_spans_are_the_placeholders(s, ids, n);
    for (int k = 0; k < 4; k++) {
        const sac_prompt_span *span = &s->spans[k];
        assert_int_equal(span->media, k == 3);
        assert_int_equal(span->frame, k == 3 ? 0 : k);
        assert_int_equal(span->n_frames, 1);
        assert_true(span->step_s == 0 && span->grid.t == 1 && span->grid.h == span->grid.w);
    }
    assert_int_equal(s->next_position, by_axes(s->spans, s->n_spans, n, want));
    assert_true(s->next_position < n);
    assert_memory_equal(s->positions, want, (size_t)(SAC_POSITION_AXES * n) * sizeof *want);
    sac_session_free(s);
    sac_model_free(m);
}

static void places_have_rows_and_columns(void **state) {
    (void)state;
    enum { ROWS = 4, COLUMNS = 16 };
    sac_session *s;
    static int32_t ids[CTX];
    static sac_token_place places[CTX];
    sac_model *m = open_model("models/demo", &s);
    m->loaded.positions = sac_positions_plain;
    sac_part parts[] = {{.kind = SAC_PART_VIDEO, .path = "samples/video0000_16.mp4"},
                        {.kind = SAC_PART_TEXT, .text = "What?"}};
    parts[0].video.num_frames = 2;
    int64_t n = run(s, parts, 2, ids);
    assert_int_equal(s->media[0].plan.tokens_per_tile, ROWS * COLUMNS);
    s->media[0].plan.tokens = (sac_grid){1, ROWS, COLUMNS};
    assert_int_equal(sac_session_token_places(s, places, CTX), n);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            const sac_token_place *p = &places[s->spans[k].first + i];
            assert_true(p->media == 0 && p->tile == k && p->rows == ROWS && p->columns == COLUMNS);
            assert_true(p->row == i / COLUMNS && p->column == i % COLUMNS);
        }
    assert_true(places[n - 1].tile == -1 && places[n - 1].rows == 0);
    sac_session_free(s);
    sac_model_free(m);
}

static void joined_frames_are_one_span_in_time(void **state) {
    (void)state;
    sac_session *s;
    static int32_t ids[CTX];
    sac_model *m = open_model(TINY "longva", &s);
    sac_part parts[] = {{.kind = SAC_PART_VIDEO, .path = "samples/video0000_16.mp4"},
                        {.kind = SAC_PART_TEXT, .text = "What?"}};
    parts[0].video.num_frames = 4;
    expect_spans_are_the_placeholders(s, ids, run(s, parts, 2, ids));
    assert_int_equal(s->n_spans, 1);
    assert_int_equal(s->spans[0].n_frames, 4);
    assert_int_equal(s->spans[0].grid.t, 4);
    assert_true(s->spans[0].step_s > 0);
    sac_session_free(s);
    sac_model_free(m);
}

/* The newlines between the rows of LLaVA-NeXT's tiles leave no grid. */
static void tiles_are_no_grid(void **state) {
    (void)state;
    sac_session *s;
    static int32_t ids[CTX];
    sac_model *m = open_model(TINY "llava_next", &s);
    m->loaded.positions = sac_positions_plain;
    sac_part parts[] = {{.kind = SAC_PART_IMAGE, .path = TINY "wide.png"},
                        {.kind = SAC_PART_TEXT, .text = "What?"}};
    expect_spans_are_the_placeholders(s, ids, run(s, parts, 2, ids));
    assert_int_equal(s->n_spans, 1);
    assert_int_equal(sac_grid_cells(s->spans[0].grid), 0);
    assert_int_equal(s->next_position, sac_session_n_tokens(s));
    sac_session_free(s);
    sac_model_free(m);
}

static int64_t shifted(const sac_prompt_span *spans, int n_spans, int64_t n, int32_t *out) {
    (void)spans, (void)n_spans;
    for (int axis = 0; axis < SAC_POSITION_AXES; axis++)
        for (int64_t i = 0; i < n; i++) out[axis * n + i] = (int32_t)i + 10;
    return n + 10;
}

static void expect_angles(const sac_session *s, const sac_row_numbers *numbers, int64_t n) {
    const sac_rope_config *rope = &s->decoder.rope;
    float *want = malloc((size_t)(n * rope->rot_dim) * sizeof *want);
    sac_rope_fill(rope, numbers, 0, n, n, want);
    assert_memory_equal(s->decoder.cos_sin, want, (size_t)(n * rope->rot_dim) * sizeof *want);
    free(want);
}

/* Rows are turned by the family's numbers; tokens behind a prompt go on from its next, in the next prompt too. */
static void rows_are_turned_by_their_numbers(void **state) {
    (void)state;
    sac_session *s;
    sac_error err;
    static int32_t ids[CTX], want[SAC_POSITION_AXES * CTX];
    sac_model *m = open_model("models/demo", &s);
    sac_part parts[] = {{.kind = SAC_PART_VIDEO, .path = "samples/video0000_16.mp4"},
                        {.kind = SAC_PART_TEXT, .text = "What?"}};
    parts[0].video.num_frames = 3;
    for (int turn = 0; turn < 2; turn++) {
        int64_t n = run(s, parts, 2, ids), next = by_axes(s->spans, s->n_spans, n, want);
        sac_row_numbers numbers = {want, n, n, next};
        for (int i = 0; i < 3; i++) assert_ok(sac_session_append(s, ids, 1, NULL, &err), err);
        expect_angles(s, &numbers, n + 3);
        assert_int_equal(sac_row_number(&numbers, 1, n + 2), next + 2);
        parts[0].video.num_frames = 2; /* other numbers in the same rows */
    }
    sac_session_free(s);
    sac_model_free(m);
}

/* Rotary embedding knows distances only. */
static void numbers_may_begin_anywhere(void **state) {
    (void)state;
    sac_part text = {.kind = SAC_PART_TEXT, .text = "How many numbers appear in the pictures?"};
    float logits[2][2048];
    for (int i = 0; i < 2; i++) {
        sac_session *s;
        sac_error err;
        static int32_t ids[CTX];
        sac_model *m = open_model("models/demo", &s);
        m->loaded.positions = i ? shifted : sac_positions_plain;
        run(s, &text, 1, ids);
        for (int k = 0; k < 3; k++) assert_ok(sac_session_append(s, ids, 1, NULL, &err), err);
        int vocab = m->loaded.decoder.config.vocab;
        assert_true(vocab <= 2048);
        memcpy(logits[i], sac_session_logits(s), (size_t)vocab * sizeof(float));
        for (int v = 0; i && v < vocab; v++)
            assert_true(fabsf(logits[0][v] - logits[1][v]) <= 2e-3f * (1 + fabsf(logits[0][v])));
        assert_true(!i || memcmp(logits[0], logits[1], (size_t)vocab * sizeof(float)) != 0);
        sac_session_free(s);
        sac_model_free(m);
    }
}

static void what_comes_after_a_cut_goes_on_behind_the_largest(void **state) {
    (void)state;
    static const int32_t ids[SAC_POSITION_AXES * 4] = {0, 1, 1, 2, 0, 1, 5, 2, 0, 3, 1, 2};
    sac_row_numbers r = {ids, 4, 4, 6};
    sac_row_numbers_cut(&r, 4);
    assert_int_equal(sac_row_number(&r, 1, 2), 5);
    assert_int_equal(sac_row_number(&r, 0, 5), 7);
    sac_row_numbers_cut(&r, 2);
    assert_int_equal(sac_row_number(&r, 2, 1), 3);
    assert_int_equal(sac_row_number(&r, 1, 2), 4);
    assert_int_equal(sac_row_number(&r, 1, 3), 5);
    assert_int_equal(sac_row_number(&(sac_row_numbers){0}, 2, 7), 7);
}

static void methods_that_turn_keys_back_are_refused(void **state) {
    (void)state;
    sac_session *s, *other;
    sac_error err;
    sac_model *m = open_model("models/demo", &s);
    sac_session_config c = {.n_ctx = CTX, .decode = "tokenselect:k=100"};
    assert_int_equal(sac_session_create(&other, m, &c, &err), SAC_UNSUPPORTED);
    m->loaded.positions = sac_positions_plain;
    assert_ok(sac_session_create(&other, m, &c, &err), err);
    sac_session_free(other);
    sac_session_free(s);
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(plain_numbers_are_places),
                                       cmocka_unit_test(numbers_on_three_axes),
                                       cmocka_unit_test(spans_say_what_they_show),
                                       cmocka_unit_test(places_have_rows_and_columns),
                                       cmocka_unit_test(joined_frames_are_one_span_in_time),
                                       cmocka_unit_test(tiles_are_no_grid),
                                       cmocka_unit_test(rows_are_turned_by_their_numbers),
                                       cmocka_unit_test(numbers_may_begin_anywhere),
                                       cmocka_unit_test(what_comes_after_a_cut_goes_on_behind_the_largest),
                                       cmocka_unit_test(methods_that_turn_keys_back_are_refused)};
    return cmocka_run_group_tests_name("spans and positions", tests, NULL, NULL);
}
