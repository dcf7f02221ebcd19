/* NExT-QA (arXiv:2105.08276), multiple choice: val.csv or test.csv, "video,frame_count,width,height,question,answer,qid,type,
 * a0,...,a4"; videos are VIDEO.mp4 (or in VidOR's folders, when `video` has them). Types begin with C (causal), T (temporal) or
 * D (descriptive), by which its table goes. The benchmark words no prompt; this is lmms-eval's. */
#include "eval_row.h"
#include "status.h"

#include <stdio.h>

static const char *group_of(char first) {
    return first == 'C' ? "causal" : first == 'T' ? "temporal" : first == 'D' ? "descriptive" : "other";
}

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {.n_options = 5};
    const char *video, *qid, *type;
    int64_t right;
    SAC_TRY(eval_row_text(r, row, "video", &video));
    SAC_TRY(eval_row_file(r, "video", video, true, &item));
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    SAC_TRY(eval_row_text(r, row, "qid", &qid));
    SAC_TRY(eval_row_text(r, row, "type", &type));
    for (int i = 0; i < 5; i++) {
        char field[8];
        snprintf(field, sizeof field, "a%d", i);
        SAC_TRY(eval_row_text(r, row, field, &item.options[i]));
    }
    SAC_TRY(eval_row_int(r, row, "answer", 0, 4, &right));
    SAC_TRY(eval_row_letter(r, "answer", right, &item));
    eval_row_dimension(&item, "kind", group_of(type[0]));
    eval_row_dimension(&item, "type", type);
    const char *options = eval_row_letters(r, &item, "", ". ");
    if (!options) return sac_fail_no_memory(r->err);
    item.prompt =
        eval_row_format(r, "%s\n%s\nAnswer with the option's letter from the given choices directly.",
                        item.question, options);
    return eval_row_add(r, eval_row_format(r, "%s-%s", video, qid), &item);
}

/* Reads letters as MMMU does. */
const eval_bench eval_bench_nextqa = {.name = "nextqa",
                                      .title = "NExT-QA",
                                      .fields = "video,question,answer,qid,type,a0,a4",
                                      .scorer = &eval_scorer_mmmu,
                                      .max_tokens = 16,
                                      .figure = "accuracy",
                                      .read = read_row};
