/* POPE: coco_pope_random.json, _popular, _adversarial (JSONL): {"question_id", "image", "text", "label"}; the split is in
 * the file's name, or in a field "category" (the table on Hugging Face, converted). Asked as POPE words it: the text. */
#include "eval_row.h"
#include "status.h"

#include <string.h>

static const char *split_of(const char *stem) {
    static const char *const splits[] = {"random", "popular", "adversarial"};
    for (size_t i = 0; i < SAC_COUNT(splits); i++)
        if (strstr(stem, splits[i])) return splits[i];
    return stem;
}

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {0};
    const char *id, *split;
    SAC_TRY(eval_row_text(r, row, "question_id", &id));
    SAC_TRY(eval_row_text(r, row, "text", &item.question));
    SAC_TRY(eval_row_picture(r, row, "image", &item));
    SAC_TRY(eval_row_optional(r, row, "category", &split));
    SAC_TRY(eval_row_text(r, row, "label", &item.answer));
    if (strcmp(item.answer, "yes") && strcmp(item.answer, "no"))
        return eval_row_refuse(r, "label", "expected yes or no, found '%.40s'", item.answer);
    if (!split) split = split_of(r->stem);
    eval_row_dimension(&item, "split", split);
    item.prompt = item.question;
    return eval_row_add(r, eval_row_format(r, "%s-%s", split, id), &item);
}

const eval_bench eval_bench_pope = {.name = "pope",
                                    .title = "POPE",
                                    .fields = "question_id,image,text,label",
                                    .scorer = &eval_scorer_pope,
                                    .max_tokens = 64,
                                    .figure = "accuracy",
                                    .read = read_row};
