/* ChartQA (arXiv:2203.10244): test_human.json and test_augmented.json, or the folder of them: [{"imgname", "query", "label"}];
 * pictures are png/IMGNAME. The half is in the file's name, or in a field "type" (converted). The benchmark words no prompt;
 * this is lmms-eval's. */
#include "eval_row.h"
#include "status.h"

#include <string.h>

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {0};
    const char *half;
    SAC_TRY(eval_row_picture(r, row, "imgname", &item));
    if (item.media[0].path && !strchr(item.media[0].path, '/') &&
        !(item.media[0].path = eval_row_format(r, "png/%s", item.media[0].path)))
        return sac_fail_no_memory(r->err);
    SAC_TRY(eval_row_text(r, row, "query", &item.question));
    SAC_TRY(eval_row_text(r, row, "label", &item.answer));
    SAC_TRY(eval_row_optional(r, row, "type", &half));
    if (!half) half = r->stem;
    eval_row_dimension(&item, "half",
                       strstr(half, "human")       ? "human"
                       : strstr(half, "augmented") ? "augmented"
                                                   : half);
    item.prompt = eval_row_format(r, "%s\nAnswer the question with a single word.", item.question);
    return eval_row_add(r, eval_row_format(r, "%s-%zu", r->stem, r->number), &item);
}

const eval_bench eval_bench_chartqa = {.name = "chartqa",
                                       .title = "ChartQA",
                                       .fields = "imgname,query,label",
                                       .scorer = &eval_scorer_relaxed,
                                       .max_tokens = 16,
                                       .figure = "relaxed accuracy",
                                       .read = read_row};
