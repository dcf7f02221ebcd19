/* A set in two parts: no video in both, the same parts whatever the order and --limit, and answers found again. */
#define _GNU_SOURCE
#include "test.h"

#include "eval_bench.h"
#include "eval_split.h"

#include <stdio.h>

static sac_error err;

/* n videos of 3 questions, the first of the set with number `from`. */
static void make(eval_set *set, int from, int n) {
    char *text;
    size_t n_bytes;
    FILE *f = open_memstream(&text, &n_bytes);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 3; k++)
            fprintf(f,
                    "{\"video_id\": \"v%d\", \"duration\": \"short\", \"domain\": \"d\", \"sub_category\": "
                    "\"s\", \"question_id\": "
                    "\"v%d-%d\", \"task_type\": \"t\", \"question\": \"q\", \"options\": [\"A. a\", \"B. "
                    "b\", \"C. c\", \"D. d\"], "
                    "\"answer\": \"A\"}\n",
                    from + i, from + i, k);
    fclose(f);
    assert_ok(eval_set_parse(set, text, n_bytes, "set", &err), err);
    free(text);
}

static size_t count(const bool *marks, size_t n) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += marks[i];
    return sum;
}

static void parts_share_no_video(void **state) {
    (void)state;
    eval_set set, more;
    bool a[90], b[90];
    make(&set, 0, 30);
    for (uint64_t seed = 0; seed < 5; seed++) {
        assert_ok(eval_split(&set, seed, 0.4, a, &err), err);
        assert_int_equal(count(a, 90), 36);
        for (size_t v = 0; v < 30; v++) assert_true(a[3 * v] == a[3 * v + 1] && a[3 * v] == a[3 * v + 2]);
        assert_ok(eval_split(&set, seed + 1, 0.4, b, &err), err);
        assert_memory_not_equal(a, b, sizeof a);
    }
    make(&more, 29, 2); /* two videos are one and one */
    assert_ok(eval_split(&more, 0, 0.95, a, &err), err);
    assert_int_equal(count(a, 6), 3);
    eval_set_free(&more);
    make(&more, 5, 1);
    assert_int_equal(eval_split(&more, 0, 0.5, a, &err), SAC_BAD_ARGUMENT);
    eval_set_free(&more);
    eval_set_free(&set);
}

static void a_beginning_is_about_many_videos(void **state) {
    (void)state;
    eval_set set;
    size_t order[30];
    bool seen[30] = {0};
    make(&set, 0, 10);
    assert_ok(eval_spread(&set, 7, 1, order, &err), err);
    for (size_t i = 0; i < 30; i++) {
        assert_false(seen[order[i]]);
        seen[order[i]] = true;
        if (i % 10 != 9) continue;
        for (size_t v = 0; v < 10; v++) assert_int_equal(count(seen + 3 * v, 3), i / 10 + 1);
    }
    eval_set_free(&set);
}

/* Two of each of ten videos, then the third. */
static void questions_of_a_video_may_come_together(void **state) {
    (void)state;
    eval_set set;
    size_t order[30];
    bool seen[30] = {0};
    make(&set, 0, 10);
    assert_ok(eval_spread(&set, 7, 2, order, &err), err);
    for (size_t i = 0; i < 20; i += 2) assert_int_equal(order[i] / 3, order[i + 1] / 3);
    for (size_t i = 0; i < 30; i++) {
        assert_false(seen[order[i]]);
        seen[order[i]] = true;
        if (i == 19)
            for (size_t v = 0; v < 10; v++) assert_int_equal(count(seen + 3 * v, 3), 2);
    }
    eval_set_free(&set);
}

static void what_is_kept_is_numbered_anew(void **state) {
    (void)state;
    eval_set set;
    const bool keep[9] = {false, true, false, false, false, false, true, true, false};
    make(&set, 0, 3);
    assert_ok(eval_set_keep(&set, keep, &err), err);
    assert_int_equal(set.n_questions, 3);
    assert_int_equal(set.n_videos, 2);
    assert_string_equal(set.videos[1].id, "v2");
    assert_int_equal(set.videos[1].first, 1);
    assert_int_equal(eval_set_find(&set, "v0-1"), 0);
    assert_int_equal(eval_set_find(&set, "v2-1"), 2);
    assert_true(eval_set_find(&set, "v1-0") == SIZE_MAX);
    assert_non_null(json_object_get(set.question_index, "v1-0")); /* a journal may have it */
    eval_set_free(&set);
}

static void two_parts_of_one_reading(void **state) {
    (void)state;
    eval_set set, other;
    const bool take[9] = {false, true, false, true, true, true, false, false, false};
    make(&set, 0, 3);
    assert_ok(eval_set_part(&set, take, &other, &err), err);
    assert_int_equal(set.n_questions, 5);
    assert_int_equal(set.n_videos, 2);
    assert_int_equal(other.n_questions, 4);
    assert_int_equal(other.n_videos, 2);
    assert_int_equal(other.videos[1].first, 1);
    assert_int_equal(eval_set_find(&set, "v2-2"), 4);
    assert_int_equal(eval_set_find(&other, "v1-2"), 3);
    assert_true(eval_set_find(&other, "v2-2") == SIZE_MAX && eval_set_find(&set, "v0-1") == SIZE_MAX);
    assert_non_null(json_object_get(other.question_index, "v2-2")); /* a journal may have it */
    assert_true(other.fingerprint == set.fingerprint);
    eval_set_free(&set); /* texts belong to both */
    assert_string_equal(other.videos[1].questions[2].id, "v1-2");
    eval_set_free(&other);
}

/* Pictures a, b, a, c, b: of a benchmark, whose questions are all of one eval_video. */
static void parts_share_no_picture(void **state) {
    (void)state;
    static const char text[] =
        "{\"question_id\": 1, \"image\": \"a.jpg\", \"text\": \"q\", \"label\": \"no\"}\n"
        "{\"question_id\": 2, \"image\": \"b.jpg\", \"text\": \"q\", \"label\": \"no\"}\n"
        "{\"question_id\": 3, \"image\": \"a.jpg\", \"text\": \"r\", \"label\": \"no\"}\n"
        "{\"question_id\": 4, \"image\": \"c.jpg\", \"text\": \"q\", \"label\": \"no\"}\n"
        "{\"question_id\": 5, \"image\": \"b.jpg\", \"text\": \"r\", \"label\": \"no\"}\n";
    eval_set set, other;
    bool a[5];
    size_t order[5];
    for (uint64_t seed = 0; seed < 8; seed++) {
        assert_ok(eval_bench_parse(&set, text, sizeof text - 1, "coco_pope_random.json", NULL, "pope", &err),
                  err);
        assert_ok(eval_split(&set, seed, 0.5, a, &err), err);
        assert_true(a[0] == a[2] && a[1] == a[4] && count(a, 5) > 0 && count(a, 5) < 5);
        assert_ok(eval_spread(&set, seed, 1, order, &err), err);
        bool seen[5] = {0};
        for (int i = 0; i < 3; i++) seen[order[i]] = true; /* each picture once before any comes again */
        assert_true(seen[0] != seen[2] && seen[1] != seen[4] && seen[3]);
        assert_ok(eval_set_part(&set, a, &other, &err), err);
        assert_int_equal(set.n_questions + other.n_questions, 5);
        assert_true(other.bench == set.bench && other.videos[0].questions[0].item->n_media == 1);
        eval_set_free(&set);
        eval_set_free(&other);
    }
}

/* Questions that are asked one after the other in a session: about one picture, or without any. */
static void turns(void **state) {
    (void)state;
    static const char pictures[] = "{\"question_id\": 1, \"image\": \"a.jpg\", \"text\": \"q\", \"label\": \"no\"}\n"
                                   "{\"question_id\": 2, \"image\": \"a.jpg\", \"text\": \"r\", \"label\": \"no\"}\n"
                                   "{\"question_id\": 3, \"image\": \"b.jpg\", \"text\": \"q\", \"label\": \"no\"}\n";
    static const char texts[] = "{\"question\": \"1 + 1?\", \"answer\": \"#### 2\"}\n{\"question\": \"1 + 2?\", \"answer\": \"#### 3\"}\n"
                                "{\"question\": \"1 + 3?\", \"answer\": \"#### 4\"}\n{\"question\": \"1 + 4?\", \"answer\": \"#### 5\"}\n"
                                "{\"question\": \"1 + 5?\", \"answer\": \"#### 6\"}\n";
    eval_set set;
    assert_ok(eval_bench_parse(&set, pictures, sizeof pictures - 1, "coco_pope_random.json", NULL, "pope", &err), err);
    assert_int_equal(eval_turn_end(&set, set.videos, 0, SIZE_MAX), 2);
    assert_int_equal(eval_turn_end(&set, set.videos, 0, 1), 2); /* the picture is encoded once */
    assert_int_equal(eval_turn_end(&set, set.videos, 2, SIZE_MAX), 3);
    eval_set_free(&set);
    assert_ok(eval_bench_parse(&set, texts, sizeof texts - 1, "test.jsonl", NULL, "gsm8k", &err), err);
    assert_int_equal(eval_turn_end(&set, set.videos, 0, SIZE_MAX), 5);
    assert_int_equal(eval_turn_end(&set, set.videos, 0, 2), 2);
    assert_int_equal(eval_turn_end(&set, set.videos, 4, 2), 5);
    eval_set_free(&set);
    make(&set, 0, 2);
    assert_int_equal(eval_turn_end(&set, &set.videos[1], 4, 1), 6);
    eval_set_free(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_share_no_video),          cmocka_unit_test(a_beginning_is_about_many_videos),
        cmocka_unit_test(questions_of_a_video_may_come_together),
        cmocka_unit_test(what_is_kept_is_numbered_anew), cmocka_unit_test(two_parts_of_one_reading),
        cmocka_unit_test(parts_share_no_picture),        cmocka_unit_test(turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
