/* Prompts to the letter as the two projects word them, and which subtitles go with which frames. */
#include "test.h"

#include "eval_prompt.h"
#include "eval_subtitles.h"

#include <stdlib.h>

static sac_error err;

static const eval_question question = {.text = "What is it?",
                                       .options = {"A. a cat", "B. a dog", "C. a hen", "D. a cow"}};

static void assert_prompt(eval_prompt p, const char *subtitles, const char *expected) {
    char *text = eval_prompt_text(p, &question, subtitles, "Say {question} of\n{options}!");
    assert_string_equal(text, expected);
    free(text);
}

#define OFFICIAL                                                                                             \
    "Select the best answer to the following multiple-choice question based on the video. Respond with "     \
    "only the "                                                                                              \
    "letter (A, B, C, or D) of the correct option.\nWhat is it?\nA. a cat\nB. a dog\nC. a hen\nD. a "        \
    "cow\nThe best "                                                                                         \
    "answer is:"
#define LMMS                                                                                                 \
    "Select the best answer to the following multiple-choice question based on the video and the "           \
    "subtitles. Respond "                                                                                    \
    "with only the letter (A, B, C, or D) of the correct option.\nWhat is it?\nA. a cat\nB. a dog\nC. a "    \
    "hen\nD. a "                                                                                             \
    "cow\n"

static void wordings(void **state) {
    (void)state;
    assert_prompt(EVAL_PROMPT_OFFICIAL, NULL, OFFICIAL);
    assert_prompt(EVAL_PROMPT_OFFICIAL, "Hi.\nBye.",
                  "This video's subtitles are listed below:\nHi.\nBye.\n" OFFICIAL);
    assert_prompt(EVAL_PROMPT_LMMS, NULL,
                  LMMS "\nAnswer with the option's letter from the given choices directly.");
    assert_prompt(EVAL_PROMPT_LMMS, "Hi.",
                  "This video's subtitles are listed below: \nHi.\n" LMMS "The best answer is:");
    assert_prompt(EVAL_PROMPT_BARE, NULL,
                  "What is it?\nA. a cat\nB. a dog\nC. a hen\nD. a cow\nThe best answer is:");
    assert_prompt(EVAL_PROMPT_OPEN, NULL, "What is it?");
    assert_prompt(EVAL_PROMPT_OWN, NULL, "Say What is it? of\nA. a cat\nB. a dog\nC. a hen\nD. a cow!");
    assert_prompt(EVAL_PROMPT_OWN, "Hi.",
                  "This video's subtitles are listed below:\nHi.\nSay What is it? of\nA. a cat\nB. a dog\nC. a hen\nD. a cow!");
    assert_prompt(EVAL_PROMPT_OPEN, "Hi.", "This video's subtitles are listed below:\nHi.\nWhat is it?");
}

static void names(void **state) {
    (void)state;
    eval_prompt p;
    assert_ok(eval_prompt_parse(NULL, &p, &err), err);
    assert_int_equal(p, EVAL_PROMPT_OFFICIAL);
    for (eval_prompt k = EVAL_PROMPT_OFFICIAL; k <= EVAL_PROMPT_OPEN; k++) {
        assert_ok(eval_prompt_parse(eval_prompt_name(k), &p, &err), err);
        assert_int_equal(p, k);
    }
    assert_ok(eval_prompt_parse("tell me: {question}", &p, &err), err);
    assert_int_equal(p, EVAL_PROMPT_OWN);
    assert_int_equal(eval_prompt_parse("other", &p, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(eval_prompt_letter(EVAL_PROMPT_BARE, &question, "C"), 'C');
    assert_int_equal(eval_prompt_letter(EVAL_PROMPT_OPEN, &question, "C"), 0);
    assert_int_equal(eval_prompt_letter(EVAL_PROMPT_OPEN, &question, "a hen"), 'C');
}

#define FONT(text) "<font color=\"white\" size=\".72c\">" text "</font>"

static const char srt[] = "\xef\xbb\xbf"
                          "1\r\n00:00:01,000 --> 00:00:02,000\r\n" FONT(
                              "one") "\r\n\r\n"
                                     "2\n00:00:01,500 --> 00:00:03,000 X1:40\n<i>two</i>\nlines\n\n\n"
                                     "00:01:00.250 --> 01:00:00.000\n" FONT("{\\an8}three") "\n";

static void reading(void **state) {
    (void)state;
    eval_subtitles list;
    assert_ok(eval_subtitles_parse(&list, srt, sizeof srt - 1, "x.srt", &err), err);
    assert_int_equal(list.n, 3);
    assert_int_equal(list.items[1].start_ms, 1500);
    assert_int_equal(list.items[1].end_ms, 3000);
    assert_string_equal(list.items[1].text, "<i>two</i> lines");
    assert_int_equal(list.items[2].start_ms, 60250);
    assert_int_equal(list.items[2].end_ms, 3600000);
    eval_subtitles_free(&list);
    static const char *const bad[] = {"1\nno times\n", "hello\n", "1\n00:00:01,000 -> 00:00:02,000\nx\n",
                                      "1\n00:00:01,000 --> soon\nx\n",
                                      "1\n2\n00:00:01,000 --> 00:00:02,000\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(eval_subtitles_parse(&list, bad[i], strlen(bad[i]), "x.srt", &err), SAC_BAD_FILE);
        assert_non_null(strstr(err.text, "x.srt:"));
        eval_subtitles_free(&list);
    }
    assert_int_equal(eval_subtitles_parse(&list, "1\0", 3, "x.srt", &err), SAC_BAD_FILE);
    assert_ok(eval_subtitles_parse(&list, "", 0, "x.srt", &err), err);
    assert_int_equal(list.n, 0);
    eval_subtitles_free(&list);
}

/* Frames at 1.0 (at a start: outside), 1.2, 1.6 (two cover it: the first), 2.0 (at an end: the
 * second), 2.5, 70. */
static void the_official_choice(void **state) {
    (void)state;
    static const double times[] = {0, 1.0, 1.2, 1.6, 2.0, 2.5, 3.0, 70};
    eval_subtitles list;
    size_t n;
    assert_ok(eval_subtitles_parse(&list, srt, sizeof srt - 1, "x.srt", &err), err);
    char *text = eval_subtitles_official(&list, times, sizeof times / sizeof times[0], &n);
    assert_string_equal(text, "one\none\ntwo lines\ntwo lines\nthree");
    assert_int_equal(n, 5);
    free(text);
    text = eval_subtitles_official(&list, times, 1, &n);
    assert_string_equal(text, "");
    assert_int_equal(n, 0);
    free(text);
    eval_subtitles_free(&list);
}

/* At 10 frames a second the first covers frames 10 to 19, the third 602 on; the second has no mark. */
static void the_choice_of_lmms_eval(void **state) {
    (void)state;
    static const double before[] = {0.9, 2.0}, both[] = {1.0, 1.9, 60.2}, late[] = {60.1};
    eval_subtitles list;
    size_t n;
    assert_ok(eval_subtitles_parse(&list, srt, sizeof srt - 1, "x.srt", &err), err);
    char *text = eval_subtitles_lmms(&list, both, 3, 10, &n);
    assert_string_equal(text, "one\n{\\an8}three");
    assert_int_equal(n, 2);
    free(text);
    text = eval_subtitles_lmms(&list, before, 2, 10, &n);
    assert_string_equal(text, "");
    free(text);
    text = eval_subtitles_lmms(&list, late, 1, 10, &n);
    assert_string_equal(text, "");
    free(text);
    eval_subtitles_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wordings),
        cmocka_unit_test(names),
        cmocka_unit_test(reading),
        cmocka_unit_test(the_official_choice),
        cmocka_unit_test(the_choice_of_lmms_eval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
