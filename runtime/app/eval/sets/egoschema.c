/* EgoSchema (arXiv:2308.09126): questions.json, [{"q_uid", "question", "option 0" to "option 4"}]; videos are Q_UID.mp4. The
 * answers to 500 of them are in subset_answers.json, {"q_uid": number}, which is read when it lies beside; the others are
 * asked and not scored. The benchmark words no prompt; this is lmms-eval's. */
#include "eval_row.h"
#include "eval_table.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>

#define ANSWERS_MAX_BYTES ((size_t)16 << 20)

static sac_status read_answers(eval_reader *r, json_t **out) {
    char *text;
    size_t n;
    *out = NULL;
    const char *path = r->folder ? eval_row_format(r, "%s/subset_answers.json", r->folder) : NULL;
    FILE *f = path ? fopen(path, "r") : NULL;
    if (!f) return SAC_OK;
    fclose(f);
    SAC_TRY(eval_table_bytes(&text, &n, path, ANSWERS_MAX_BYTES, r->err));
    sac_status st = eval_table_parse(out, text, n, path, r->err);
    free(text);
    return st;
}

static sac_status read_row(eval_reader *r, const json_t *row, const json_t *answers) {
    eval_item item = {.n_options = 5};
    const char *uid;
    SAC_TRY(eval_row_text(r, row, "q_uid", &uid));
    SAC_TRY(eval_row_file(r, "q_uid", uid, true, &item));
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    for (int i = 0; i < 5; i++) {
        char field[16];
        snprintf(field, sizeof field, "option %d", i);
        SAC_TRY(eval_row_text(r, row, field, &item.options[i]));
    }
    const json_t *right = json_object_get(row, "truth");
    if (!right) right = json_object_get(answers, uid);
    if (json_is_integer(right)) SAC_TRY(eval_row_letter(r, "the answer", json_integer_value(right), &item));
    const char *options = eval_row_letters(r, &item, "", ". ");
    if (!options) return sac_fail_no_memory(r->err);
    item.prompt =
        eval_row_format(r, "%s\n%s\nAnswer with the option's letter from the given choices directly.",
                        item.question, options);
    return eval_row_add(r, uid, &item);
}

static sac_status read_all(eval_reader *r, const json_t *root) {
    json_t *answers;
    SAC_TRY(read_answers(r, &answers));
    sac_status st = json_is_array(root) ? SAC_OK : read_row(r, root, answers);
    for (size_t i = 0; i < json_array_size(root) && st == SAC_OK; i++) {
        r->number = i + 1;
        st = read_row(r, json_array_get(root, i), answers);
    }
    json_decref(answers);
    return st;
}

const eval_bench eval_bench_egoschema = {.name = "egoschema",
                                         .title = "EgoSchema",
                                         .fields = "q_uid,question,option 0,option 4",
                                         .scorer = &eval_scorer_egoschema,
                                         .max_tokens = 16,
                                         .figure = "accuracy",
                                         .read_all = read_all};
