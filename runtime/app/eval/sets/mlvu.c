/* MLVU (arXiv:2406.04264), its multiple-choice files (1_plotQA.json to 7_topic_reasoning.json) or the folder of them:
 * [{"video", "duration", "question", "candidates", "answer", "question_type"}]; videos lie below their type's folder or
 * together. Its figure, M-Avg, is the mean over the types. The generation tasks are judged by GPT-4 and not read. */
#include "eval_row.h"
#include "status.h"

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {0};
    const char *video, *answer, *type;
    SAC_TRY(eval_row_text(r, row, "video", &video));
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    SAC_TRY(eval_row_options(r, row, "candidates", &item));
    SAC_TRY(eval_row_text(r, row, "answer", &answer));
    SAC_TRY(eval_row_right_option(r, "answer", answer, &item));
    SAC_TRY(eval_row_text(r, row, "question_type", &type));
    if (!(video = eval_row_format(r, "%s/%s", r->stem, video))) return sac_fail_no_memory(r->err);
    SAC_TRY(eval_row_file(r, "video", video, true, &item));
    eval_row_dimension(&item, "type", type);
    const char *options = eval_row_letters(r, &item, "(", ") ");
    if (!options) return sac_fail_no_memory(r->err);
    item.prompt = eval_row_format(
        r,
        "Carefully watch this video and pay attention to every detail. Based on your observations, "
        "select the best option that accurately addresses the question.\nQuestion: %s\nOptions:\n%s\n"
        "Only give the best option.\nBest option: (",
        item.question, options);
    return eval_row_add(r, eval_row_format(r, "%s-%zu", type, r->number), &item);
}

const eval_bench eval_bench_mlvu = {.name = "mlvu",
                                    .title = "MLVU",
                                    .fields = "video,duration,question,candidates,answer,question_type",
                                    .scorer = &eval_scorer_mlvu,
                                    .max_tokens = 16,
                                    .figure = "M-Avg",
                                    .mean_over = "type",
                                    .read = read_row};
