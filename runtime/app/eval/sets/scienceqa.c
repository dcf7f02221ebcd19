/* ScienceQA (arXiv:2209.09513): problems.json, {"ID": {"question", "choices", "answer", "hint", "image", "subject", "topic",
 * "category", "grade", "split"}}, of which the test split is asked; or rows of the same fields (converted). Pictures are
 * test/ID/image.png. Its wording is of GPT-3's time; this is LLaVA's (arXiv:2310.03744), with which models of this kind are
 * compared. Groups as its own table: subject, context (TXT, IMG, NO), grades 1 to 6 and 7 to 12. */
#include "eval_row.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

static const char *subject_of(const char *subject) {
    return !strcmp(subject, "natural science")    ? "NAT"
           : !strcmp(subject, "social science")   ? "SOC"
           : !strcmp(subject, "language science") ? "LAN"
                                                  : subject;
}

static const char *grades_of(const char *grade) {
    long n = strncmp(grade, "grade", 5) ? 0 : strtol(grade + 5, NULL, 10);
    return n >= 1 && n <= 6 ? "G1-6" : n >= 7 && n <= 12 ? "G7-12" : "other";
}

static sac_status read_picture(eval_reader *r, const json_t *row, eval_item *item, const char *split) {
    const char *image;
    SAC_TRY(eval_row_optional(r, row, "image", &image));
    if (!image) return SAC_OK;
    if (!r->key || strchr(image, '/') || strlen(image) > 60) return eval_row_picture(r, row, "image", item);
    const char *path = eval_row_format(r, "%s/%s/%s", split, r->key, image);
    return path ? eval_row_file(r, "image", path, false, item) : sac_fail_no_memory(r->err);
}

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {0};
    const char *split, *hint, *subject, *grade;
    int64_t right;
    SAC_TRY(eval_row_optional(r, row, "split", &split));
    if (r->key && split && strcmp(split, "test")) return SAC_OK;
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    SAC_TRY(eval_row_options(r, row, "choices", &item));
    SAC_TRY(eval_row_int(r, row, "answer", 0, EVAL_LETTERS_MAX, &right));
    SAC_TRY(eval_row_letter(r, "answer", right, &item));
    SAC_TRY(eval_row_optional(r, row, "hint", &hint));
    SAC_TRY(eval_row_text(r, row, "subject", &subject));
    SAC_TRY(eval_row_text(r, row, "grade", &grade));
    SAC_TRY(read_picture(r, row, &item, split ? split : "test"));
    eval_row_dimension(&item, "subject", subject_of(subject));
    if (hint) eval_row_dimension(&item, "context", "TXT");
    if (item.n_media) eval_row_dimension(&item, "context", "IMG");
    if (!hint && !item.n_media) eval_row_dimension(&item, "context", "NO");
    eval_row_dimension(&item, "grades", grades_of(grade));
    eval_row_dimension(&item, "grade", grade);
    const char *options = eval_row_letters(r, &item, "", ". ");
    if (!options) return sac_fail_no_memory(r->err);
    item.prompt =
        eval_row_format(r, "%s%s%s%s\n%s\nAnswer with the option's letter from the given choices directly.",
                        hint ? "Context: " : "", hint ? hint : "", hint ? "\n" : "", item.question, options);
    return eval_row_add_numbered(r, row, &item);
}

const eval_bench eval_bench_scienceqa = {.name = "scienceqa",
                                         .title = "ScienceQA",
                                         .fields = "question,choices,answer,hint,subject,grade",
                                         .within = "*",
                                         .scorer = &eval_scorer_scienceqa,
                                         .max_tokens = 16,
                                         .figure = "accuracy",
                                         .read = read_row};
