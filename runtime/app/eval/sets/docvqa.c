/* DocVQA (arXiv:2007.00398): val_v1.0_withQT.json and its like, {"data": [{"questionId", "question", "question_types", "image",
 * "answers"}]}; pictures are documents/NAME.png. The test split has no answers: it is asked, not scored. The benchmark words no
 * prompt; this is lmms-eval's. */
#include "eval_row.h"
#include "status.h"

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {0};
    const char *id;
    const json_t *types;
    SAC_TRY(eval_row_text(r, row, "questionId", &id));
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    SAC_TRY(eval_row_picture(r, row, "image", &item));
    SAC_TRY(eval_row_texts(r, row, "answers", true, &item.answers));
    if (item.answers) item.answer = json_string_value(json_array_get(item.answers, 0));
    SAC_TRY(eval_row_texts(r, row, "question_types", true, &types));
    for (size_t i = 0; i < json_array_size(types); i++)
        eval_row_dimension(&item, "question type", json_string_value(json_array_get(types, i)));
    item.prompt = eval_row_format(r, "%s\nAnswer the question using a single word or phrase.", item.question);
    return eval_row_add(r, id, &item);
}

const eval_bench eval_bench_docvqa = {.name = "docvqa",
                                      .title = "DocVQA",
                                      .fields = "questionId,question,image",
                                      .within = "data",
                                      .scorer = &eval_scorer_anls,
                                      .max_tokens = 32,
                                      .figure = "ANLS",
                                      .read = read_row};
