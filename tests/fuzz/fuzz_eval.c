/* A benchmark's file: recognised and read, or refused in one line; what was read can be asked and scored. The first byte says
 * as which benchmark (0 = by its fields; a task of InfiniteBench is the file's name). */
#include "fuzz.h"

#include "eval_bench.h"
#include "eval_prompt.h"
#include "scores/score.h"

#include <stdlib.h>
#include <string.h>

static const char *const responses[] = {"",
                                        "(B)",
                                        "A. x",
                                        "1,234.5%",
                                        "yes, it isn't",
                                        "\xe6\x9d\xb1\xe4\xba\xac B.",
                                        "#### 4. The answer is -1.",
                                        "x = 1\n# y",
                                        "[1, 4]. Paragraph 3"};

static void check_item(const eval_question *q) {
    if (!q->item || !q->item->prompt || q->item->n_media > EVAL_MEDIA_MAX ||
        q->item->n_options > EVAL_LETTERS_MAX)
        abort();
    for (size_t i = 0; i < q->item->n_media; i++) { /* no path leaves the folder */
        const char *path = q->item->media[i].path;
        if (path && (*path == '/' || !strncmp(path, "../", 3) || strstr(path, "/../"))) abort();
    }
    for (eval_prompt p = EVAL_PROMPT_OFFICIAL; p <= EVAL_PROMPT_OWN; p++)
        free(eval_prompt_text(p, q, NULL, "{question}{options}"));
}

static void score(const eval_set *set) {
    const eval_video *v = &set->videos[0];
    size_t n = v->n_questions < 50 ? v->n_questions : 50;
    const eval_item *items[50];
    const char *ids[50], *said[50];
    eval_mark marks[50];
    for (size_t i = 0; i < n; i++) {
        items[i] = v->questions[i].item;
        ids[i] = v->questions[i].id;
        said[i] = i % 10 == 9 ? NULL : responses[i % 9];
    }
    const eval_answers a = {items, ids, said, n};
    eval_figure figures[EVAL_FIGURES_MAX];
    if (!eval_score_all(set->bench->scorer, &a, marks)) return;
    if (set->bench->scorer->figures) set->bench->scorer->figures(&a, marks, figures);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
#define NAME(set) #set,
    static const char *const names[] = {NULL, "videomme", SAC_EVAL_SETS(NAME)};
    sac_error err = {0};
    eval_set set = {0};
    if (!size) return 0;
    static const char *const tasks[] = {"passkey.jsonl",
                                        "code_run.jsonl",
                                        "code_debug.jsonl",
                                        "longbook_choice_eng.jsonl",
                                        "math_find.jsonl",
                                        "math_calc.jsonl",
                                        "longbook_sum_eng.jsonl",
                                        "longbook_qa_chn.jsonl",
                                        "longdialogue_qa_eng.jsonl"};
    const size_t n_names = sizeof names / sizeof *names;
    const char *name = names[data[0] % n_names];
    bool is_task = name && !strcmp(name, "infinitebench");
    const char *file = is_task ? tasks[data[0] / n_names % (sizeof tasks / sizeof *tasks)] : "fuzz.json";
    sac_status st = eval_bench_parse(&set, (const char *)data + 1, size - 1, file, NULL, name, &err);
    if (st != SAC_OK && (!err.text[0] || strchr(err.text, '\n'))) abort();
    if (st == SAC_OK && set.bench) {
        for (size_t i = 0; i < set.videos[0].n_questions; i++) check_item(&set.videos[0].questions[i]);
        score(&set);
    }
    eval_set_free(&set);
    return 0;
}
