/* How far a setting's answers have moved from dense's: in the units of what is lost, and by what the set's scorer reads. */
#include "test.h"

#include "eval_bench.h"
#include "tune_cost.h"

#include <math.h>

static sac_error err;

static json_t *record(const char *response, double margin) {
    return json_pack("{s:s, s:f, s:i, s:{s:f}}", "response", response, "margin", margin, "prompt_tokens", 100, "methods",
                     "kv_bytes_per_token", 4.0);
}

/* Two rows, dense and another, over a set that was read. */
static void open_rows(comparison *c, compare_row rows[2], method_line *line) {
    c->task.set = &c->set;
    c->rows = rows;
    c->n_rows = 2;
    for (int i = 0; i < 2; i++)
        rows[i] = (compare_row){.line = line, .records = calloc(c->set.n_questions, sizeof(json_t *))};
}

static tune_point point_of(comparison *c) {
    for (int i = 0; i < 2; i++) assert_ok(compare_score_make(&c->rows[i].score, &c->task, c->rows[i].records, &err), err);
    return tune_cost(c, 1, NULL, (tune_aim){.want = TUNE_MEMORY});
}

static void close_rows(comparison *c) {
    for (int i = 0; i < 2; i++) {
        for (size_t q = 0; q < c->set.n_questions; q++) json_decref(c->rows[i].records[q]);
        free(c->rows[i].records);
        compare_score_free(&c->rows[i].score);
    }
    eval_set_free(&c->set);
}

#define QUESTION(ID, ANSWER)                                                                                          \
    "{\"video_id\": \"v\", \"duration\": \"short\", \"domain\": \"d\", \"sub_category\": \"s\", \"question_id\": \"" ID \
    "\", \"task_type\": \"t\", \"question\": \"q\", \"options\": [\"A. a hat\", \"B. a cat\", \"C. a bat\", \"D. a rat\"], "  \
    "\"answer\": \"" ANSWER "\"}\n"

/* The same letter said with more words is the same answer. What dense had wrong may change, to right or to another wrong one. */
static void only_right_answers_move(void **state) {
    (void)state;
    static const char text[] = QUESTION("1", "B") QUESTION("2", "B") QUESTION("3", "B") QUESTION("4", "B") QUESTION("5", "A");
    static const char *const said[2][5] = {{"B", "B", "A", "A", "A"}, {"B. The cat", "C", "B", "D", "A."}};
    comparison c = {0};
    compare_row rows[2];
    method_line line = {.name = (char *)"x"};
    assert_ok(eval_set_parse(&c.set, text, sizeof text - 1, "set", &err), err);
    open_rows(&c, rows, &line);
    for (int i = 0; i < 2; i++)
        for (size_t q = 0; q < 5; q++) rows[i].records[q] = record(said[i][q], i && q == 4 ? 1 : 2);
    tune_point p = point_of(&c);
    assert_true(fabs(p.moved - 1.25) < 1e-9); /* 2: another letter; 5: half of its margin is gone */
    assert_true(fabs(p.lost) < 1e-9);         /* 2 lost, 3 gained */
    c.task.prompt = EVAL_PROMPT_OPEN;
    static const char *const open[2] = {"a cat", " A cat.\n"};
    for (int i = 0; i < 2; i++)
        for (size_t q = 0; q < 5; q++) {
            json_decref(rows[i].records[q]);
            rows[i].records[q] = record(open[i], 2);
        }
    p = point_of(&c);
    assert_true(fabs(p.moved) < 1e-9 && fabs(p.lost) < 1e-9);
    close_rows(&c);
}

#define ROW(INDEX, A, B, ANSWER) INDEX "\tq\t\t" A "\t" B "\t" ANSWER "\tc\taGVsbG8=\n"

/* Two questions of four and two rotations: each counts once, by the mean of what its rotations moved. */
static void rotations_are_one_question(void **state) {
    (void)state;
    static const char text[] = "index\tquestion\thint\tA\tB\tanswer\tcategory\timage\n" ROW("1", "cat", "hat", "A")
        ROW("2", "cat", "hat", "A") ROW("1000001", "hat", "cat", "B") ROW("1000002", "hat", "cat", "B")
            ROW("2000001", "cat", "bat", "A") ROW("3000001", "bat", "cat", "B");
    static const char *const right[6] = {"A", "A", "B", "B", "A", "B"};
    comparison c = {0};
    compare_row rows[2];
    method_line line = {.name = (char *)"x"};
    assert_ok(eval_bench_parse(&c.set, text, sizeof text - 1, "MMBench_DEV_EN.tsv", NULL, "mmbench", &err), err);
    assert_int_equal(c.set.n_questions, 6);
    open_rows(&c, rows, &line);
    for (size_t q = 0; q < 6; q++) {
        rows[0].records[q] = record(right[q], 2);
        rows[1].records[q] = record(q == 3 ? "B. cat" : right[q], q == 3 ? 2 : 1); /* half of the margin, of all but one */
    }
    tune_point p = point_of(&c);
    assert_true(fabs(p.moved - (0.25 + 0.125)) < 1e-9);
    assert_true(fabs(p.lost) < 1e-9);
    json_decref(rows[1].records[4]);
    rows[1].records[4] = record("B", 2);
    p = point_of(&c);
    assert_true(fabs(p.lost - 1) < 1e-9); /* the circle is broken */
    assert_true(fabs(p.moved - (1.75 / 4 + 0.125)) < 1e-9);
    close_rows(&c);
}

/* By what the scorer reads out of them. */
static void texts_are_compared_as_they_are_scored(void **state) {
    (void)state;
    static const char text[] = "{\"question_id\": 1, \"image\": \"a.jpg\", \"text\": \"q\", \"label\": \"no\"}\n"
                               "{\"question_id\": 2, \"image\": \"a.jpg\", \"text\": \"r\", \"label\": \"yes\"}\n";
    comparison c = {0};
    compare_row rows[2];
    method_line line = {.name = (char *)"x"};
    assert_ok(eval_bench_parse(&c.set, text, sizeof text - 1, "coco_pope_random.json", NULL, "pope", &err), err);
    open_rows(&c, rows, &line);
    rows[0].records[0] = record("No", 2), rows[1].records[0] = record("No, there is none.", 2);
    rows[0].records[1] = record("Yes", 2), rows[1].records[1] = record("No", 2);
    tune_point p = point_of(&c);
    assert_true(fabs(p.moved - 1) < 1e-9 && fabs(p.lost - 1) < 1e-9);
    close_rows(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_right_answers_move),
        cmocka_unit_test(rotations_are_one_question),
        cmocka_unit_test(texts_are_compared_as_they_are_scored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
