/* MMBench (arXiv:2307.06281): MMBench_DEV_EN.tsv and its like, "index, question, hint, A, B, C, D, answer, category, image
 * (base64), source, l2-category, split"; rows whose index is above a million are rotations of the one at the index less the
 * millions, scored together (circular evaluation). An image that is a small number is that row's. Wording of VLMEvalKit, which
 * is the official evaluation. A test split has no answers: it is asked, not scored. */
#include "eval_row.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

/* Some files have the picture of a rotation as the index of another row. */
static const json_t *row_of_index(eval_reader *r, const char *index) {
    for (size_t i = 0; i < json_array_size(r->root); i++) {
        const json_t *row = json_array_get(r->root, i);
        const char *other = json_string_value(json_object_get(row, "index"));
        if (other && !strcmp(other, index)) return row;
    }
    return NULL;
}

static sac_status read_picture(eval_reader *r, const json_t *row, eval_item *item) {
    const char *image;
    SAC_TRY(eval_row_text(r, row, "image", &image));
    if (image[strspn(image, "0123456789")] || strlen(image) > 12)
        return eval_row_picture(r, row, "image", item);
    const json_t *other = row_of_index(r, image);
    if (!other) return eval_row_refuse(r, "image", "no row has the index %.20s", image);
    return eval_row_picture(r, other, "image", item);
}

static sac_status read_options(eval_reader *r, const json_t *row, eval_item *item) {
    for (char c = 'A'; c <= 'E'; c++) {
        char field[2] = {c};
        const char *text;
        SAC_TRY(eval_row_optional(r, row, field, &text));
        if (!text || !strcmp(text, "nan")) break;
        item->options[item->n_options++] = text;
    }
    return item->n_options >= 2 ? SAC_OK : eval_row_refuse(r, "B", "is missing");
}

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {0};
    const char *id, *hint, *category, *group, *answer;
    SAC_TRY(eval_row_int(r, row, "index", 0, (int64_t)1 << 53, &item.group));
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    SAC_TRY(eval_row_optional(r, row, "hint", &hint));
    SAC_TRY(read_options(r, row, &item));
    SAC_TRY(read_picture(r, row, &item));
    SAC_TRY(eval_row_optional(r, row, "answer", &answer));
    if (answer) SAC_TRY(eval_row_right_letter(r, "answer", answer, &item));
    SAC_TRY(eval_row_text(r, row, "category", &category));
    SAC_TRY(eval_row_optional(r, row, "l2-category", &group));
    if (hint && !strcmp(hint, "nan")) hint = NULL;
    eval_row_dimension(&item, "l2-category", group);
    eval_row_dimension(&item, "category", category);
    const char *options = eval_row_letters(r, &item, "", ". ");
    if (!options || !(id = eval_row_format(r, "%lld", (long long)item.group)))
        return sac_fail_no_memory(r->err);
    item.prompt = eval_row_format(
        r, "%s%s%sQuestion: %s\nOptions:\n%s\nPlease select the correct answer from the options above.",
        hint ? "Hint: " : "", hint ? hint : "", hint ? "\n" : "", item.question, options);
    return eval_row_add(r, id, &item);
}

const eval_bench eval_bench_mmbench = {
    .name = "mmbench",
    .title = "MMBench",
    .fields = "index,question,A,B,category,image",
    .scorer = &eval_scorer_mmbench,
    .circle = 1000000,
    .max_tokens = 32,
    .figure = "circular accuracy",
    .read = read_row,
    .note = "Answers without a letter or one option's text count as wrong (the official script "
            "can ask ChatGPT for the letter)."};
