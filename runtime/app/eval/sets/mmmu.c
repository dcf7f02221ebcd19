/* MMMU (arXiv:2311.16502): rows {"id", "question", "options", "answer", "question_type", "subfield", "image_1" ... "image_7"} in
 * JSONL, as tools/convert_eval.py makes them of the published Parquet; pictures in base64. "<image 1>" in the question and the
 * options is where picture 1 stands. Official wording (llava1.5.yaml of its repository); subjects are in the ids. */
#include "eval_row.h"
#include "status.h"

#include <stdio.h>
#include <string.h>

static const char *const disciplines[][2] = {{"Art", "Art & Design"},
                                             {"Art_Theory", "Art & Design"},
                                             {"Design", "Art & Design"},
                                             {"Music", "Art & Design"},
                                             {"Accounting", "Business"},
                                             {"Economics", "Business"},
                                             {"Finance", "Business"},
                                             {"Manage", "Business"},
                                             {"Marketing", "Business"},
                                             {"Biology", "Science"},
                                             {"Chemistry", "Science"},
                                             {"Geography", "Science"},
                                             {"Math", "Science"},
                                             {"Physics", "Science"},
                                             {"Basic_Medical_Science", "Health & Medicine"},
                                             {"Clinical_Medicine", "Health & Medicine"},
                                             {"Diagnostics_and_Laboratory_Medicine", "Health & Medicine"},
                                             {"Pharmacy", "Health & Medicine"},
                                             {"Public_Health", "Health & Medicine"},
                                             {"History", "Humanities & Social Science"},
                                             {"Literature", "Humanities & Social Science"},
                                             {"Sociology", "Humanities & Social Science"},
                                             {"Psychology", "Humanities & Social Science"},
                                             {"Agriculture", "Tech & Engineering"},
                                             {"Architecture_and_Engineering", "Tech & Engineering"},
                                             {"Computer_Science", "Tech & Engineering"},
                                             {"Electronics", "Tech & Engineering"},
                                             {"Energy_and_Power", "Tech & Engineering"},
                                             {"Materials", "Tech & Engineering"},
                                             {"Mechanical_Engineering", "Tech & Engineering"}};

/* "validation_Art_Theory_12": Art_Theory. */
static const char *subject_of(eval_reader *r, const char *id) {
    const char *first = strchr(id, '_'), *last = strrchr(id, '_');
    if (!first || last <= first) return "other";
    return eval_row_format(r, "%.*s", (int)(last - first - 1), first + 1);
}

static sac_status read_pictures(eval_reader *r, const json_t *row, eval_item *item) {
    for (int i = 1; i <= 7; i++) {
        char field[16];
        const char *there;
        snprintf(field, sizeof field, "image_%d", i);
        SAC_TRY(eval_row_optional(r, row, field, &there));
        if (!there) break;
        SAC_TRY(eval_row_picture(r, row, field, item));
    }
    return item->n_media ? SAC_OK : eval_row_refuse(r, "image_1", "is missing");
}

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {.marks = true};
    const char *id, *type;
    SAC_TRY(eval_row_text(r, row, "id", &id));
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    SAC_TRY(eval_row_text(r, row, "question_type", &type));
    SAC_TRY(read_pictures(r, row, &item));
    bool choice = !strcmp(type, "multiple-choice");
    if (choice) SAC_TRY(eval_row_options(r, row, "options", &item));
    if (json_is_array(json_object_get(row, "answer"))) {
        SAC_TRY(eval_row_texts(r, row, "answer", false, &item.answers));
        item.answer = json_string_value(json_array_get(item.answers, 0));
    } else {
        SAC_TRY(eval_row_optional(r, row, "answer", &item.answer));
    }
    if (item.answer && !strcmp(item.answer, "?")) item.answer = NULL; /* the test split */
    if (choice && item.answer) SAC_TRY(eval_row_right_letter(r, "answer", item.answer, &item));
    const char *subject = subject_of(r, id);
    if (!subject) return sac_fail_no_memory(r->err);
    for (size_t i = 0; i < SAC_COUNT(disciplines); i++)
        if (!strcmp(disciplines[i][0], subject)) eval_row_dimension(&item, "discipline", disciplines[i][1]);
    eval_row_dimension(&item, "subject", subject);
    const char *options = eval_row_letters(r, &item, "(", ") ");
    if (!options) return sac_fail_no_memory(r->err);
    item.prompt =
        choice
            ? eval_row_format(r, "%s\n%s\n\nAnswer with the option's letter from the given choices directly.",
                              item.question, options)
            : eval_row_format(r, "%s\n\nAnswer the question using a single word or phrase.", item.question);
    return eval_row_add(r, id, &item);
}

const eval_bench eval_bench_mmmu = {.name = "mmmu",
                                    .title = "MMMU",
                                    .fields = "id,question,options,answer,question_type,image_1",
                                    .scorer = &eval_scorer_mmmu,
                                    .max_tokens = 32,
                                    .figure = "accuracy",
                                    .read = read_row};
