/* Question sets: both forms give the same set, and what is wrong is refused with its line and field. */
#define _GNU_SOURCE
#include "test.h"

#include "eval_bench.h"
#include "eval_place.h"
#include "eval_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sac_error err;

#define OPTIONS "\"options\": [\"A. a\", \"B. b\", \"C. c\", \"D. d\"]"
#define VIDEO   "\"duration\": \"long\", \"domain\": \"x\", \"sub_category\": \"y\""
#define QUESTION(id)                                                                                         \
    "{\"question_id\": \"" id "\", \"task_type\": \"t\", \"question\": \"q\", " OPTIONS ", \"answer\": "     \
    "\"B\"}"
#define ROW(video, id)                                                                                       \
    "{\"video_id\": \"" video "\", " VIDEO ", \"question_id\": \"" id                                        \
    "\", \"task_type\": \"t\", \"question\": \"q\", " OPTIONS ", \"answer\": \"B\"}\n"

static sac_status parse(eval_set *set, const char *text) {
    err = (sac_error){0};
    return eval_set_parse(set, text, strlen(text), "set.json", &err);
}

static void a_list(void **state) {
    (void)state;
    eval_set set;
    assert_ok(parse(&set,
                    "[\n {\"video_id\": \"001\", " VIDEO ", \"url\": \"https://example.org/watch?v=Ab-_9\",\n"
                    "  \"extra\": {\"a\": [1, \"]}\"]}, \"questions\": [" QUESTION("1-1") ", " QUESTION(
                        "1-2") "]},\n"
                               " {\"video_id\": \"002\", " VIDEO
                               ", \"videoID\": \"name\", \"questions\": [" QUESTION(
                                   "2-1") "]},\n"
                                          " {\"video_id\": \"003\", " VIDEO
                                          ", \"questions\": [" QUESTION("3-1") "]}\n]\n"),
              err);
    assert_int_equal(set.n_videos, 3);
    assert_int_equal(set.n_questions, 4);
    assert_string_equal(set.videos[0].file, "Ab-_9");
    assert_string_equal(set.videos[1].file, "name");
    assert_string_equal(set.videos[2].file, "003");
    assert_int_equal(set.videos[2].first, 3);
    assert_int_equal(eval_set_find(&set, "1-2"), 1);
    assert_int_equal(eval_set_find(&set, "3-1"), 3);
    assert_true(eval_set_find(&set, "9-9") == SIZE_MAX);
    assert_int_equal(set.videos[0].questions[1].answer, 'B');
    assert_string_equal(eval_option_text(set.videos[0].questions[0].options[3]), "d");
    eval_set_cut(&set, 2);
    assert_int_equal(set.n_videos, 1);
    assert_int_equal(set.n_questions, 2);
    assert_true(eval_set_find(&set, "3-1") == SIZE_MAX);
    eval_set_free(&set);
}

static void rows_that_belong_together(void **state) {
    (void)state;
    eval_set set;
    assert_ok(parse(&set, "\xef\xbb\xbf" ROW("1", "1-1") "\r\n" ROW("2", "2-1") ROW("1", "1-2")), err);
    assert_int_equal(set.n_videos, 2);
    assert_int_equal(set.videos[0].n_questions, 2);
    assert_string_equal(set.videos[0].questions[1].id, "1-2");
    assert_int_equal(eval_set_find(&set, "1-2"), 1);
    assert_int_equal(eval_set_find(&set, "2-1"), 2);
    eval_set_free(&set);
}

static void assert_refused(const char *text, const char *needle) {
    eval_set set;
    sac_status st = parse(&set, text);
    if (st != SAC_BAD_FILE || !strstr(err.text, needle))
        fail_msg("expected '%s', got %d: '%s' for %s", needle, st, err.text, text);
    eval_set_free(&set);
}

static void refusals(void **state) {
    (void)state;
    assert_refused("", "set.json: is empty");
    assert_refused("  \n", "is empty");
    assert_refused("[]", "holds no question");
    assert_refused("hello", "set.json:1: not JSON");
    assert_refused("[\n\n{\"video_id\": ]", "set.json:3: not JSON");
    assert_refused("[1]", "set.json:1");
    assert_refused("[" QUESTION("1") "]", "video_id: is missing");
    assert_refused("[{\"video_id\": \"1\", " VIDEO ", \"questions\": [" QUESTION("1-1") "]}",
                   "the list does not end");
    assert_refused("[{\"video_id\": \"1\", " VIDEO ", \"questions\": [" QUESTION("1-1") "]}] x",
                   "follows the list");
    assert_refused("[{\"video_id\": \"1\", " VIDEO ", \"questions\": [" QUESTION("1-1") "]} {}]",
                   "expected after a video");
    assert_refused("[{\"video_id\": \"1\", \"video_id\": \"2\"}]", "not JSON: duplicate");
    assert_refused("[\n{\n\"video_id\": \"1\",\n\"duration\": \"brief\"}]",
                   "set.json:4: duration: expected short, medium or long, found 'brief'");
    assert_refused("[\n{\"video_id\": 7}]", "set.json:2: video_id: expected a text, found a number");
    assert_refused("[{\"video_id\": \"../x\", " VIDEO "}]", "video_id: names the video's file");
    assert_refused("[{\"video_id\": \"1\", \"videoID\": \".hidden\", " VIDEO "}]",
                   "videoID: names the video's file");
    assert_refused("[{\"video_id\": \"1\", " VIDEO "}]", "questions: is missing");
    assert_refused("[{\"video_id\": \"1\", " VIDEO ", \"questions\": [\n" QUESTION("1-1") ",\n7]}]",
                   "set.json:3: questions[1]: expected an object, found a number");
    assert_refused("[{\"video_id\": \"1\", " VIDEO
                   ", \"questions\": [\n" QUESTION("1-1") ",\n" QUESTION("1-1") "]}]",
                   "set.json:3: questions[1].question_id: '1-1' is there twice");
    assert_refused("[{\"video_id\": \"1\", " VIDEO
                   ", \"questions\": [" QUESTION("1-1") "]},\n{\"video_id\": \"1\", " VIDEO
                                                        ", \"questions\": [" QUESTION("1-2") "]}]",
                   "set.json:2: video_id: '1' is there twice");
    assert_refused(
        "[{\"video_id\": \"1\", " VIDEO
        ",\n\"questions\": [\n{\"question_id\": \"1\", \"task_type\": \"t\",\n"
        "\"question\": \"q\", \"options\": [\"A. a\",\n \"C. b\", \"C. c\", \"D. d\"], \"answer\": \"A\"}]}]",
        "set.json:5: questions[0].options[1]: expected a text that starts with 'B.', found 'C. b'");
    assert_refused(ROW("1", "1-1") "{\"video_id\": \"1\", \"duration\": \"short\"", "set.json:2: not JSON");
    assert_refused(ROW("1", "1-1") "\n{\"video_id\": \"2\", " VIDEO "}\n",
                   "set.json:3: question_id: is missing");
    assert_refused(
        ROW("1", "1-1") "{\"video_id\": \"1\", \"duration\": \"short\", \"domain\": \"x\", \"sub_category\": "
                        "\"y\", \"question_id\": \"1-2\", \"task_type\": \"t\", \"question\": \"q\", " OPTIONS
                        ", \"answer\": \"A\"}\n",
        "set.json:2: duration: differs");
    assert_refused("{\"video_id\": \"1\", " VIDEO
                   ", \"question_id\": \"1-1\", \"task_type\": \"t\", \"question\": \"q\", "
                   "\"options\": [\"A. a\", \"B. b\"], \"answer\": \"A\"}\n",
                   "options: expected 4 options, found 2");
    assert_refused("{\"video_id\": \"1\", " VIDEO
                   ", \"question_id\": \"1-1\", \"task_type\": \"t\", \"question\": \"q\", " OPTIONS
                   ", \"answer\": \"BC\"}\n",
                   "answer: expected a letter from A to D, found 'BC'");
}

static void places_in_a_text(void **state) {
    (void)state;
    static const char text[] =
        " {\"a\": \"\\\"}\",\n\"b\": [1,\n{\"c\": [[], {}, null]},\n-2.5e3], \"d\": true}";
    const char *end = text + sizeof text - 1;
    assert_int_equal(eval_place_line(text, eval_place_find(text, end, "a")), 1);
    assert_int_equal(eval_place_line(text, eval_place_find(text, end, "b")), 2);
    assert_int_equal(eval_place_line(text, eval_place_find(text, end, "b[1].c")), 3);
    assert_memory_equal(eval_place_find(text, end, "b[1].c[2]"), "null", 4);
    assert_memory_equal(eval_place_find(text, end, "b[2]"), "-2.5e3", 6);
    assert_memory_equal(eval_place_find(text, end, "d"), "true", 4);
    assert_int_equal(*eval_place_find(text, end, "b[3]"), '['); /* missing: what is around it */
    assert_int_equal(*eval_place_find(text, end, "b[1].x"), '{');
    assert_memory_equal(eval_place_find(text, end, "d.x"), "true", 4);
}

/* Of the file with the answers stays what the questions need, of the questions' alone. */
static void annotations_that_nobody_asks_for(void **state) {
    (void)state;
    static const char questions[] = "{\"questions\": [{\"image_id\": 4, \"question\": \"What?\", \"question_id\": 7}]}";
    char folder[] = "/tmp/sac_vqav2_XXXXXX", path[100];
    eval_set set;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/v2_mscoco_val2014_annotations.json", folder);
    FILE *f = fopen(path, "w");
    fprintf(f, "{\"license\": {\"annotations\": [1]}, \"annotations\": [");
    for (int i = 0; i < 50; i++)
        fprintf(f, "%s{\"question_id\": %d, \"image_id\": 4, \"answers\": [{\"answer\": \"a%d\"}], \"answer_type\": \"other\"}", i ? ", " : "", i, i);
    fprintf(f, "], \"n\": 3}");
    fclose(f);
    assert_ok(eval_bench_parse(&set, questions, sizeof questions - 1, "v2_OpenEnded_mscoco_val2014_questions.json", folder, "vqav2", &err), err);
    assert_int_equal(set.n_questions, 1);
    assert_string_equal(set.videos[0].questions[0].item->answer, "a7");
    size_t n_notes = 0;
    for (size_t i = 0; i < json_array_size(set.json); i++) {
        char *text = json_dumps(json_array_get(set.json, i), JSON_ENCODE_ANY);
        n_notes += strstr(text, "answer_type") != NULL;
        assert_true(!strstr(text, "a6") && !strstr(text, "a8"));
        if (strstr(text, "answer_type")) assert_null(strstr(text, "image_id"));
        free(text);
    }
    assert_int_equal(n_notes, 1);
    eval_set_free(&set);
    remove(path);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list),
        cmocka_unit_test(annotations_that_nobody_asks_for),
        cmocka_unit_test(rows_that_belong_together),
        cmocka_unit_test(refusals),
        cmocka_unit_test(places_in_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
