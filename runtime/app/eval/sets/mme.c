/* MME (arXiv:2306.13394): rows {"question_id": "color/000000012120.jpg", "category", "question", "answer", "image"}, as
 * tools/convert_eval.py makes them of the table on Hugging Face or of the benchmark's own CATEGORY.txt (picture, question and answer
 * between tabs). Both questions about a picture have its id. Asked as the benchmark words it: the question, which ends with "Please answer
 * yes or no.", or lmms-eval's ending in its place. */
#include "eval_row.h"
#include "hash.h"
#include "status.h"

#include <string.h>

static sac_status read_answer(eval_reader *r, const json_t *row, eval_item *item) {
    const char *answer;
    SAC_TRY(eval_row_text(r, row, "answer", &answer));
    bool yes = !strncmp(answer, "Yes", 3) || !strncmp(answer, "yes", 3);
    bool no = !strncmp(answer, "No", 2) || !strncmp(answer, "no", 2);
    const char *rest = answer + (yes ? 3 : no ? 2 : 0);
    if ((!yes && !no) || rest[*rest == '.'])
        return eval_row_refuse(r, "answer", "expected Yes or No, found '%.40s'", answer);
    item->answer = yes ? "yes" : "no";
    return SAC_OK;
}

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {0};
    const char *id;
    SAC_TRY(eval_row_text(r, row, "question_id", &id));
    SAC_TRY(eval_row_text(r, row, "category", &item.kind));
    if (!eval_mme_has_category(item.kind))
        return eval_row_refuse(r, "category", "'%.40s' is none of MME's", item.kind);
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    SAC_TRY(read_answer(r, row, &item));
    if (json_object_get(row, "image"))
        SAC_TRY(eval_row_picture(r, row, "image", &item));
    else
        SAC_TRY(eval_row_file(r, "question_id", id, false, &item));
    eval_row_dimension(&item, "category", item.kind);
    item.group = (int64_t)sac_hash_quick(7, id, strlen(id));
    static const char ending[] = " Please answer yes or no.";
    size_t n = strlen(item.question), k = sizeof ending - 1;
    if (n > k && !strcmp(item.question + n - k, ending)) n -= k;
    item.prompt =
        eval_row_format(r, "%.*s\nAnswer the question using a single word or phrase.", (int)n, item.question);
    return eval_row_add(r, eval_row_format(r, "%s-%zu", r->stem, r->number), &item);
}

const eval_bench eval_bench_mme = {
    .name = "mme",
    .title = "MME",
    .fields = "question_id,category,question,answer,image|question_id,category,question,answer",
    .scorer = &eval_scorer_mme,
    .max_tokens = 16,
    .figure = "perception score",
    .main = "perception",
    .read = read_row};
