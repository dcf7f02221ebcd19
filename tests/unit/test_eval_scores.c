/* The benchmarks' scorers against their official scripts: some hundreds of answers, odd ones too, whose scores
 * tools/make_eval_golden.py had from those; and what the scorers themselves promise. */
#define _GNU_SOURCE
#include "test.h"

#include "eval_score.h"
#include "scores/ptb.h"
#include "scores/score.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static json_t *golden;

static int load(void **state) {
    (void)state;
    golden = json_load_file("tests/golden/eval_scores.json", 0, NULL);
    return golden ? 0 : -1;
}

static int unload(void **state) {
    (void)state;
    json_decref(golden);
    return 0;
}

static eval_item item_of(const json_t *j) {
    eval_item item = {.answer = json_string_value(json_object_get(j, "answer")),
                      .answers = json_object_get(j, "answers"),
                      .question = json_string_value(json_object_get(j, "question")),
                      .kind = json_string_value(json_object_get(j, "kind")),
                      .classes = json_object_get(j, "classes")};
    const json_t *options = json_object_get(j, "options");
    item.n_options = json_array_size(options);
    for (size_t i = 0; i < item.n_options; i++)
        item.options[i] = json_string_value(json_array_get(options, i));
    return item;
}

static eval_mark mark_one(const eval_scorer *s, const eval_item *item, const char *response) {
    const eval_item *items[] = {item};
    const char *ids[] = {"id"}, *responses[] = {response};
    const eval_answers a = {items, ids, responses, 1};
    eval_mark mark;
    assert_true(eval_score_all(s, &a, &mark));
    return mark;
}

/* Every response to every item of a scorer; differences are counted, and the first are told. */
static void check(const char *name, const eval_scorer *s) {
    const json_t *table = json_object_get(json_object_get(golden, "scorers"), name),
                 *responses = json_object_get(golden, "responses");
    const json_t *items = json_object_get(table, "items"), *rows = json_object_get(table, "scores");
    size_t n_fractions = 0, n_wrong = 0;
    assert_true(json_array_size(items) > 0);
    for (size_t i = 0; i < json_array_size(items); i++) {
        const eval_item item = item_of(json_array_get(items, i));
        const char *row = json_string_value(json_array_get(rows, i));
        assert_int_equal(strlen(row), json_array_size(responses));
        for (size_t k = 0; row[k]; k++) {
            const char *response = json_string_value(json_array_get(responses, k));
            eval_mark m = mark_one(s, &item, response);
            double expected = row[k] == '1';
            if (row[k] == 'f')
                expected =
                    json_number_value(json_array_get(json_object_get(table, "fractions"), n_fractions++));
            bool same = row[k] == 'd' ? m.drawn : !m.drawn && fabs(m.score - expected) < 1e-9;
            if (!same && n_wrong++ < 8)
                print_error("%s, item %zu, '%s': %g%s, official %c %g\n", name, i, response, m.score,
                            m.drawn ? " drawn" : "", row[k], expected);
        }
    }
    assert_int_equal(n_fractions, json_array_size(json_object_get(table, "fractions")));
    assert_int_equal(n_wrong, 0);
}

/* Video-MME's letter, which is no scorer of items. */
static bool one_videomme(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    (void)id;
    out->score = eval_letter(response) == item->answer[0];
    return true;
}

static bool one_flexible(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    bool ok = eval_scorer_gsm8k.one(item, id, response, out);
    out->score = out->second;
    return ok;
}

static const eval_scorer videomme = {.name = "videomme", .one = one_videomme},
                         gsm8k_flexible = {.name = "gsm8k_flexible", .one = one_flexible};

static void official(void **state) {
    (void)state;
    check("videomme", &videomme);
    check("mvbench", &eval_scorer_mvbench);
    check("pope", &eval_scorer_pope);
    check("exact", &eval_scorer_exact);
    check("mme", &eval_scorer_mme);
    check("gsm8k", &eval_scorer_gsm8k);
    check("gsm8k_flexible", &gsm8k_flexible);
    check("longbench", &eval_scorer_longbench);
    check("mmmu", &eval_scorer_mmmu);
    check("egoschema", &eval_scorer_egoschema);
    check("longvideobench", &eval_scorer_longvideobench);
    check("scienceqa", &eval_scorer_scienceqa);
    check("mmbench", &eval_scorer_mmbench);
    check("vqa", &eval_scorer_vqa);
    check("anls", &eval_scorer_anls);
    check("relaxed", &eval_scorer_relaxed);
    check("tempcompass", &eval_scorer_tempcompass);
}

/* POPE's figures of all responses, as its script prints them. */
static void pope_figures(void **state) {
    (void)state;
    enum { MOST = 400 };
    const json_t *table = json_object_get(json_object_get(golden, "scorers"), "pope"),
                 *said = json_object_get(golden, "responses"), *expected = json_object_get(table, "figures");
    static const char *const names[] = {"Precision", "Recall", "F1 score", "Yes ratio"};
    static eval_item items[MOST];
    static const eval_item *pointers[MOST];
    static const char *responses[MOST], *ids[MOST];
    static eval_mark marks[MOST];
    size_t n = json_array_size(said);
    double right = 0;
    assert_true(n > 100 && n <= MOST);
    for (size_t i = 0; i < n; i++) {
        items[i].answer = json_string_value(json_array_get(json_object_get(table, "labels"), i));
        pointers[i] = &items[i];
        ids[i] = "";
        responses[i] = json_string_value(json_array_get(said, i));
    }
    const eval_answers a = {pointers, ids, responses, n};
    assert_true(eval_score_all(&eval_scorer_pope, &a, marks));
    for (size_t i = 0; i < n; i++) right += marks[i].score;
    assert_true(fabs(right / (double)n - json_number_value(json_object_get(expected, "Accuracy"))) < 1e-12);
    eval_figure figures[EVAL_FIGURES_MAX];
    assert_int_equal(eval_scorer_pope.figures(&a, marks, figures), 4);
    for (int i = 0; i < 4; i++)
        assert_true(fabs(figures[i].value - json_number_value(json_object_get(expected, names[i]))) < 1e-12);
}

/* Each word of the processor's table becomes what the processor makes of it. */
static void contractions(void **state) {
    (void)state;
    const json_t *words =
        json_object_get(json_object_get(json_object_get(golden, "scorers"), "vqa"), "words");
    assert_true(json_array_size(words) > 100);
    for (size_t i = 0; i < json_array_size(words); i++) {
        json_t *answers = json_pack("[O, O, O, O]", json_array_get(json_array_get(words, i), 1),
                                    json_array_get(json_array_get(words, i), 1),
                                    json_array_get(json_array_get(words, i), 1),
                                    json_array_get(json_array_get(words, i), 1));
        const eval_item item = {.answers = answers};
        eval_mark m =
            mark_one(&eval_scorer_vqa, &item, json_string_value(json_array_get(json_array_get(words, i), 0)));
        assert_string_equal(m.said, json_string_value(json_array_get(json_array_get(words, i), 1)));
        json_decref(answers);
    }
}

static void captions_cut(void **state) {
    (void)state;
    const json_t *cut = json_object_get(json_object_get(golden, "cider"), "cut");
    size_t n_wrong = 0;
    assert_true(json_array_size(cut) > 10);
    for (size_t i = 0; i < json_array_size(cut); i++) {
        const char *caption = json_string_value(json_array_get(json_array_get(cut, i), 0));
        const char *official_words = json_string_value(json_array_get(json_array_get(cut, i), 1));
        text_pool p = {0};
        const char *words = ptb_words(&p, caption);
        if (strcmp(words, official_words) != 0) {
            print_error("'%s': '%s', official '%s'\n", caption, words, official_words);
            n_wrong++;
        }
        text_pool_free(&p);
    }
    assert_int_equal(n_wrong, 0);
}

static void cider(void **state) {
    (void)state;
    const json_t *t = json_object_get(golden, "cider"), *said = json_object_get(t, "responses");
    enum { N = 40 };
    eval_item items[N];
    const eval_item *pointers[N];
    const char *responses[N], *ids[N];
    eval_mark marks[N];
    double mean = 0;
    assert_int_equal(json_array_size(said), N);
    for (size_t i = 0; i < N; i++) {
        items[i] = item_of(json_array_get(json_object_get(t, "items"), i));
        pointers[i] = &items[i];
        ids[i] = "";
        responses[i] = json_string_value(json_array_get(said, i));
    }
    const eval_answers a = {pointers, ids, responses, N};
    assert_true(eval_score_all(&eval_scorer_cider, &a, marks));
    for (size_t i = 0; i < N; i++) {
        assert_true(
            fabs(marks[i].score - json_number_value(json_array_get(json_object_get(t, "scores"), i))) < 1e-9);
        mean += marks[i].score / N;
    }
    assert_true(fabs(mean - json_number_value(json_object_get(t, "mean"))) < 1e-9);
}

/* Rotations of a question are one question, right when all are. */
static void circles(void **state) {
    (void)state;
    const eval_item rows[] = {{.options = {"cat", "dog"}, .n_options = 2, .answer = "A", .group = 7},
                              {.options = {"dog", "cat"}, .n_options = 2, .answer = "B", .group = 1000007},
                              {.options = {"cat", "dog"}, .n_options = 2, .answer = "A", .group = 8}};
    const eval_item *items[] = {&rows[1], &rows[2], &rows[0]};
    const char *ids[] = {"1000007", "8", "7"}, *right[] = {"B", "A", "A"}, *wrong[] = {"A", "A", "A"};
    eval_mark m[3];
    const eval_answers a = {items, ids, right, 3}, b = {items, ids, wrong, 3};
    assert_true(eval_score_all(&eval_scorer_mmbench, &a, m));
    assert_true(m[0].apart && !m[1].apart && !m[2].apart && m[2].score == 1 && m[1].score == 1);
    assert_true(eval_score_all(&eval_scorer_mmbench, &b, m));
    assert_true(m[0].apart && m[2].score == 0 && m[1].score == 1);
}

/* A draw depends on the question alone, and is spread over the options. */
static void draws(void **state) {
    (void)state;
    int counts[4] = {0};
    for (int i = 0; i < 400; i++) {
        char id[16];
        snprintf(id, sizeof id, "q%d", i);
        assert_int_equal(eval_draw(id, 4), eval_draw(id, 4));
        counts[eval_draw(id, 4) - 'A']++;
    }
    for (int i = 0; i < 4; i++) assert_true(counts[i] > 60);
}

/* Far more than a sanitizer's build takes; the quadratic ways that the answers aim at take minutes there. */
enum { MOST_S = 60 };

static double cpu_seconds(clock_t since) {
    return (double)(clock() - since) / CLOCKS_PER_SEC;
}

static double longbench_score(const char *dataset, const json_t *answers, const char *response) {
    const eval_item item = {.answers = answers, .kind = dataset};
    return mark_one(&eval_scorer_longbench, &item, response).score;
}

static char *put(char *to, uint32_t code_point) {
    *to++ = (char)(0xe0 | code_point >> 12);
    *to++ = (char)(0x80 | (code_point >> 6 & 63));
    *to++ = (char)(0x80 | (code_point & 63));
    *to = 0;
    return to;
}

/* Answers made to be slow to compare with cost no more than their length, or a text's own bound. */
static void crafted_answers_are_cheap(void **state) {
    (void)state;
    enum { WORDS = 30000, PAIRS = 1000, TIMES = 10 };
    clock_t start = clock();
    char *text = malloc(WORDS * strlen("Paragraph ") + 2), *to = text;
    for (int i = 0; i < WORDS; i++) to = stpcpy(to, "Paragraph ");
    json_t *answers = json_pack("[s, s+]", text, text, "7");
    assert_true(longbench_score("passage_retrieval_en", answers, "it is 7") > 0.99);
    free(text);
    json_decref(answers);
    assert_true(cpu_seconds(start) < MOST_S);

    char said[6 * PAIRS + 1], right[6 * PAIRS + 1], *a = said, *b = right; /* every second character is the same */
    for (uint32_t i = 0; i < PAIRS; i++) {
        a = put(put(a, 0x4e00 + i), 0x5e00 + i);
        b = put(put(b, 0x4e00 + i), 0x6e00 + i);
    }
    start = clock();
    answers = json_array();
    for (int i = 0; i < TIMES; i++) json_array_append_new(answers, json_string(right));
    assert_true(fabs(longbench_score("lcc", answers, said) - 0.5) < 1e-9);
    json_decref(answers);
    assert_true(cpu_seconds(start) < MOST_S);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(official), cmocka_unit_test(pope_figures), cmocka_unit_test(contractions),
                                       cmocka_unit_test(cider),    cmocka_unit_test(captions_cut),
                                       cmocka_unit_test(circles),  cmocka_unit_test(draws),
                                       cmocka_unit_test(crafted_answers_are_cheap)};
    return cmocka_run_group_tests(tests, load, unload);
}
