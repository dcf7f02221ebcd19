/* Letters and tallies against cases worked out by hand from Video-MME's script. */
#include "test.h"

#include "eval_prompt.h"
#include "eval_score.h"

#include <math.h>

static sac_error err;

static void letters_by_the_official_rule(void **state) {
    (void)state;
    static const struct {
        const char *response;
        char letter;
    } cases[] = {
        {"A", 'A'},
        {"B.", 'B'},
        {"  C\n", 'C'},
        {"(D) a dog", 'D'},
        {"D. a Dog", 'D'},
        {"The best answer is C", 'C'},
        {"The correct answer is: D.", 'D'},
        {"The answer is B, because A is wrong", 'B'},
        {"A cat, or B", 'A'},
        {"Because of the light", 'B'}, /* the first capital, in a word too */
        {"I think it is the second one: (C)", 'C'},
        /* the missing commas: these phrases stay, and their capitals are found */
        {"Best answer: C", 'B'},
        {"Best option: D", 'B'},
        {"Best answer:Best option:D", 'D'},
        {"The best option is D", 'D'},
        {"Answer: C", 'A'},
        /* no answer */
        {"", 0},
        {"  \n", 0},
        {"b", 0},
        {"I do not know", 0},
        {"none of these fits what is seen in the video from its start to the end", 0},
        {"The answer is", 0},
        {NULL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char got = eval_letter(cases[i].response);
        if (got != cases[i].letter)
            fail_msg("'%s' gives %d, expected %d", cases[i].response ? cases[i].response : "(none)", got,
                     cases[i].letter);
    }
}

static void letters_of_texts(void **state) {
    (void)state;
    const eval_question q = {.options = {"A. red", "B. Dark blue.", "C) 41", "D. red square"}};
    assert_int_equal(eval_letter_of_text(&q, "red"), 'A');
    assert_int_equal(eval_letter_of_text(&q, " Red.\n"), 'A');
    assert_int_equal(eval_letter_of_text(&q, "dark blue"), 'B');
    assert_int_equal(eval_letter_of_text(&q, "41"), 'C');
    assert_int_equal(eval_letter_of_text(&q, "red square"), 'D');
    static const char *const none[] = {"", ".", "blue", "4", "411", "A", "red red", "it is red"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(eval_letter_of_text(&q, none[i]), 0);
    assert_int_equal(eval_letter_of_text(&q, NULL), 0);
    const eval_question twice = {.options = {"A. red", "B. Red", "C. blue", "D. green"}};
    assert_int_equal(eval_letter_of_text(&twice, "red"), 0);
    assert_int_equal(eval_letter_of_text(&twice, "blue"), 'C');
}

/* Six questions about three videos. By hand: official 3 of 4 answered, strict 3 of 6. */
static const char made_up[] =
    "[{\"video_id\": \"1\", \"duration\": \"short\", \"domain\": \"Knowledge\", "
    "\"sub_category\": \"Law\",\n"
    "  \"questions\": [\n"
    "   {\"question_id\": \"1-1\", \"task_type\": \"OCR\", \"question\": \"q\", \"answer\": "
    "\"A\", \"response\": \"A\",\n"
    "    \"options\": [\"A. a\", \"B. b\", \"C. c\", \"D. d\"]},\n" /* right */
    "   {\"question_id\": \"1-2\", \"task_type\": \"Count\", \"question\": \"q\", \"answer\": "
    "\"B\",\n"
    "    \"response\": \"I cannot tell.\", \"options\": [\"A. a\", \"B. b\", \"C. c\", \"D. "
    "d\"]},\n" /* none */
    "   {\"question_id\": \"1-3\", \"task_type\": \"OCR\", \"question\": \"q\", \"answer\": "
    "\"C\",\n"
    "    \"response\": \"Best answer: C\", \"options\": [\"A. a\", \"B. b\", \"C. c\", \"D. "
    "d\"]}]},\n" /* B: wrong */
    " {\"video_id\": \"2\", \"duration\": \"long\", \"domain\": \"Knowledge\", \"sub_category\": "
    "\"Geography\",\n"
    "  \"questions\": [\n"
    "   {\"question_id\": \"2-1\", \"task_type\": \"OCR\", \"question\": \"q\", \"answer\": "
    "\"D\",\n"
    "    \"response\": \"The best answer is D\", \"options\": [\"A. a\", \"B. b\", \"C. c\", "
    "\"D. d\"]},\n" /* right */
    "   {\"question_id\": \"2-2\", \"task_type\": \"Count\", \"question\": \"q\", \"answer\": "
    "\"A\",\n"
    "    \"options\": [\"A. a\", \"B. b\", \"C. c\", \"D. d\"]}]},\n" /* not asked */
    " {\"video_id\": \"3\", \"duration\": \"long\", \"domain\": \"Sports\", \"sub_category\": "
    "\"Football\",\n"
    "  \"questions\": [\n"
    "   {\"question_id\": \"3-1\", \"task_type\": \"Count\", \"question\": \"q\", \"answer\": "
    "\"B\", \"response\": \"B\",\n"
    "    \"options\": [\"A. a\", \"B. b\", \"C. c\", \"D. d\"]}]}]\n"; /* right */

static void assert_tally(const eval_scores *s, const char *scope, const char *dimension, const char *key,
                         int asked, int answered, int correct) {
    const eval_score_row *row = eval_scores_find(s, scope, dimension, key);
    assert_non_null(row);
    assert_int_equal(row->tally.asked, asked);
    assert_int_equal(row->tally.answered, answered);
    assert_int_equal(row->tally.correct, correct);
}

static void tallies_of_a_made_up_result(void **state) {
    (void)state;
    eval_set set;
    eval_scores s = {0};
    assert_ok(eval_set_parse(&set, made_up, sizeof made_up - 1, "set.json", &err), err);
    for (size_t i = 0; i < set.n_videos; i++)
        for (size_t k = 0; k < set.videos[i].n_questions; k++) {
            const eval_question *q = &set.videos[i].questions[k];
            assert_ok(eval_scores_add(&s, &set.videos[i], q, eval_letter(q->response), &err), err);
        }
    assert_tally(&s, "all", "overall", "", 6, 4, 3);
    assert_tally(&s, "short", "overall", "", 3, 2, 1);
    assert_tally(&s, "long", "overall", "", 3, 2, 2);
    assert_null(eval_scores_find(&s, "medium", "overall", ""));
    assert_tally(&s, "all", "domain", "Knowledge", 5, 3, 2);
    assert_tally(&s, "all", "domain", "Sports", 1, 1, 1);
    assert_tally(&s, "long", "domain", "Knowledge", 2, 1, 1);
    assert_tally(&s, "all", "sub_category", "Law", 3, 2, 1);
    assert_tally(&s, "all", "sub_category", "Geography", 2, 1, 1);
    assert_tally(&s, "all", "task_type", "OCR", 3, 3, 2);
    assert_tally(&s, "all", "task_type", "Count", 3, 1, 1);
    assert_tally(&s, "short", "task_type", "Count", 1, 0, 0);
    const eval_tally *all = &eval_scores_find(&s, "all", "overall", "")->tally;
    const eval_tally *none = &eval_scores_find(&s, "short", "task_type", "Count")->tally;
    assert_true(eval_official(all) == 0.75 && eval_strict(all) == 0.5);
    assert_true(eval_official(none) == 0 && eval_strict(none) == 0);
    eval_scores_free(&s);
    eval_set_free(&set);
}

/* Figures of the formula worked out apart, to six digits. */
static void intervals(void **state) {
    (void)state;
    static const struct {
        int k, n;
        double low, high;
    } cases[] = {{8, 10, 0.490162, 0.943318},    {0, 10, 0, 0.277533}, {10, 10, 0.722467, 1},
                 {150, 300, 0.443780, 0.556220}, {1, 1, 0.206549, 1},  {0, 0, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double low, high;
        eval_wilson(cases[i].k, cases[i].n, &low, &high);
        assert_true(fabs(low - cases[i].low) < 1e-6 && fabs(high - cases[i].high) < 1e-6);
    }
}

/* Worked out apart; the p of 4 against 9 is 2 (1 + 13 + 78 + 286 + 715) / 8192. */
static void paired_differences(void **state) {
    (void)state;
    static const struct {
        eval_pairs pairs;
        double difference, low, high, p;
    } cases[] = {{{100, 4, 9}, -0.05, -0.120285, 0.022245, 2186.0 / 8192},
                 {{336, 0, 0}, 0, -0.005799, 0.005799, 1},
                 {{10, 0, 3}, -0.3, -0.544448, 0.044448, 0.25},
                 {{1, 1, 0}, 1, -0.510101, 1, 1},
                 {{336, 30, 12}, 18 / 336.0, 0.015656, 0.090853, 0.007916}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double low, high, difference = eval_paired(&cases[i].pairs, &low, &high);
        assert_true(fabs(difference - cases[i].difference) < 1e-12);
        assert_true(fabs(low - cases[i].low) < 1e-6 && fabs(high - cases[i].high) < 1e-6);
        assert_true(fabs(eval_mcnemar(&cases[i].pairs) - cases[i].p) < 1e-6);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_by_the_official_rule), cmocka_unit_test(letters_of_texts),
        cmocka_unit_test(tallies_of_a_made_up_result),  cmocka_unit_test(intervals),
        cmocka_unit_test(paired_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
