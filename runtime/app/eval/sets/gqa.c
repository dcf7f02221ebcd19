/* GQA (arXiv:1902.09506): testdev_balanced_questions.json and its like, {"QUESTIONID": {"imageId", "question", "answer", "types":
 * {"structural", "semantic"}}}; pictures are IMAGEID.jpg. A test split has no answers: it is asked, not scored. The benchmark words no
 * prompt; this is lmms-eval's. */
#include "eval_row.h"
#include "status.h"

static sac_status read_row(eval_reader *r, const json_t *row) {
    static const char *const kinds[] = {"structural", "semantic"};
    eval_item item = {0};
    const char *id;
    const json_t *types = json_object_get(row, "types");
    if (json_object_get(row, "image")) {
        SAC_TRY(eval_row_picture(r, row, "image", &item));
    } else {
        SAC_TRY(eval_row_text(r, row, "imageId", &id));
        SAC_TRY(eval_row_file(r, "imageId", id, false, &item));
    }
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    SAC_TRY(eval_row_optional(r, row, "answer", &item.answer));
    for (size_t i = 0; i < SAC_COUNT(kinds); i++)
        eval_row_dimension(&item, kinds[i], json_string_value(json_object_get(types, kinds[i])));
    item.prompt = eval_row_format(r, "%s\nAnswer the question using a single word or phrase.", item.question);
    return eval_row_add_numbered(r, row, &item);
}

const eval_bench eval_bench_gqa = {.name = "gqa",
                                   .title = "GQA",
                                   .fields = "imageId,question,answer|imageId,question,isBalanced",
                                   .within = "*",
                                   .scorer = &eval_scorer_exact,
                                   .max_tokens = 16,
                                   .figure = "accuracy",
                                   .read = read_row};
