/* TextVQA: TextVQA_0.5.1_val.json, {"data": [{"question_id", "question", "image_id", "answers": [ten texts], ...}]}; the
 * pictures are IMAGE_ID.jpg. A test split has no answers: it is asked, not scored. The benchmark has no wording for models
 * that are asked in words; this is LLaVA's (arXiv:2310.03744), without OCR tokens. */
#include "eval_row.h"
#include "status.h"

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {0};
    const char *id, *image;
    SAC_TRY(eval_row_text(r, row, "question_id", &id));
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    if (json_object_get(row, "image")) {
        SAC_TRY(eval_row_picture(r, row, "image", &item));
    } else {
        SAC_TRY(eval_row_text(r, row, "image_id", &image));
        SAC_TRY(eval_row_file(r, "image_id", image, false, &item));
    }
    SAC_TRY(eval_row_texts(r, row, "answers", true, &item.answers));
    if (item.answers) item.answer = json_string_value(json_array_get(item.answers, 0));
    item.prompt = eval_row_format(r, "%s\nAnswer the question using a single word or phrase.", item.question);
    return eval_row_add(r, id, &item);
}

const eval_bench eval_bench_textvqa = {.name = "textvqa",
                                       .title = "TextVQA",
                                       .fields = "question_id,question,image_id",
                                       .within = "data",
                                       .scorer = &eval_scorer_vqa,
                                       .max_tokens = 16,
                                       .figure = "VQA accuracy",
                                       .read = read_row};
