/* VQAv2 (Goyal et al., arXiv:1612.00837): v2_OpenEnded_mscoco_val2014_questions.json, {"questions": [{"image_id", "question",
 * "question_id"}], "data_subtype"}, with the answers in v2_mscoco_val2014_annotations.json beside it, {"annotations": [{"question_id",
 * "question_type", "answer_type", "answers": [{"answer"}, ...]}]}; or rows that have both (converted). Pictures are
 * COCO_val2014_000000262148.jpg. Without the annotations it is asked, not scored. The benchmark words no prompt; this is lmms-eval's. */
#include "eval_row.h"
#include "eval_table.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- the annotations */

/* "v2_OpenEnded_mscoco_val2014_questions" to the annotations' file; NULL = another name. */
static const char *annotations_path(eval_reader *r) {
    static const char before[] = "v2_OpenEnded_", after[] = "_questions";
    size_t n = strlen(r->stem), a = sizeof before - 1, z = sizeof after - 1;
    if (!r->folder || n <= a + z || strncmp(r->stem, before, a) || strcmp(r->stem + n - z, after))
        return NULL;
    return eval_row_format(r, "%s/v2_%.*s_annotations.json", r->folder, (int)(n - a - z), r->stem + a);
}

static sac_status read_file(eval_reader *r, const char *path, json_t **out) {
    char *text;
    size_t n;
    SAC_TRY(eval_table_bytes(&text, &n, path, EVAL_TABLE_MAX_BYTES, r->err));
    sac_status st = eval_table_parse(out, text, n, path, r->err);
    free(text);
    return st;
}

/* question_id: annotation. */
static sac_status read_annotations(eval_reader *r, json_t **file, json_t **by_id) {
    const char *path = annotations_path(r);
    FILE *f = path ? fopen(path, "rbe") : NULL;
    if (!f) return SAC_OK;
    fclose(f);
    SAC_TRY(read_file(r, path, file));
    const json_t *list = json_object_get(*file, "annotations");
    if (!json_is_array(list))
        return sac_fail(r->err, SAC_BAD_FILE, "%s: annotations: expected a list of objects", path);
    if (!(*by_id = json_object())) return sac_fail_no_memory(r->err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        char key[32];
        json_t *row = json_array_get(list, i);
        const json_t *id = json_object_get(row, "question_id");
        if (!json_is_integer(id))
            return sac_fail(r->err, SAC_BAD_FILE, "%s: annotation %zu: question_id: expected a whole number",
                            path, i + 1);
        snprintf(key, sizeof key, "%" JSON_INTEGER_FORMAT, json_integer_value(id));
        if (json_object_set(*by_id, key, row)) return sac_fail_no_memory(r->err);
    }
    return SAC_OK;
}

/* [{"answer"}, ...], or texts, as a list of texts. */
static sac_status take_answers(eval_reader *r, const json_t *row, eval_item *item) {
    const json_t *list = json_object_get(row, "answers");
    if (!list || json_is_null(list)) return SAC_OK;
    if (!json_is_array(list) || !json_array_size(list) || json_array_size(list) > 1000)
        return eval_row_refuse(r, "answers", "expected a list of 1 to 1000 answers");
    json_t *texts = json_array();
    if (!texts || json_array_append_new(r->set->json, texts)) return sac_fail_no_memory(r->err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *v = json_array_get(list, i), *answer = json_is_object(v) ? json_object_get(v, "answer") : v;
        if (!json_is_string(answer))
            return eval_row_refuse(r, "answers", "expected texts, or objects with one");
        if (json_array_append(texts, answer)) return sac_fail_no_memory(r->err);
    }
    item->answers = texts;
    item->answer = json_string_value(json_array_get(texts, 0));
    return SAC_OK;
}

/* ---------------------------------------------------------------- questions */

static sac_status take_picture(eval_reader *r, const json_t *row, eval_item *item) {
    int64_t id;
    const char *part;
    if (json_object_get(row, "image")) return eval_row_picture(r, row, "image", item);
    SAC_TRY(eval_row_int(r, row, "image_id", 0, INT64_C(999999999999), &id));
    SAC_TRY(eval_row_optional(r, r->root, "data_subtype", &part));
    const char *path = eval_row_format(r, "COCO_%s_%012" PRId64 ".jpg", part ? part : "val2014", id);
    return path ? eval_row_file(r, "image_id", path, false, item) : sac_fail_no_memory(r->err);
}

static sac_status add(eval_reader *r, const json_t *row, const json_t *annotations) {
    eval_item item = {0};
    const char *id, *kind = NULL, *type = NULL;
    if (!json_is_object(row)) return eval_row_refuse(r, "questions", "expected objects");
    SAC_TRY(eval_row_text(r, row, "question_id", &id));
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    SAC_TRY(take_picture(r, row, &item));
    const json_t *said = annotations ? json_object_get(annotations, id) : row;
    if (said) {
        SAC_TRY(take_answers(r, said, &item));
        SAC_TRY(eval_row_optional(r, said, "answer_type", &kind));
        SAC_TRY(eval_row_optional(r, said, "question_type", &type));
    }
    eval_row_dimension(&item, "answer type", kind);
    eval_row_dimension(&item, "question type", type);
    item.prompt = eval_row_format(r, "%s\nAnswer the question using a single word or phrase.", item.question);
    return eval_row_add(r, id, &item);
}

static sac_status read_all(eval_reader *r, const json_t *root) {
    const json_t *list = json_is_array(root) ? root : json_object_get(root, "questions");
    json_t *file = NULL, *annotations = NULL;
    sac_status st = read_annotations(r, &file, &annotations);
    if (st == SAC_OK && !list) st = add(r, root, annotations);
    for (size_t i = 0; i < json_array_size(list) && st == SAC_OK; i++) {
        r->number = i + 1;
        st = add(r, json_array_get(list, i), annotations);
    }
    /* what questions point to stays */
    if (st == SAC_OK && file && json_array_append(r->set->json, file)) st = sac_fail_no_memory(r->err);
    json_decref(annotations);
    json_decref(file);
    return st;
}

const eval_bench eval_bench_vqav2 = {
    .name = "vqav2",
    .title = "VQAv2",
    .fields = "image_id,question,question_id|question_id,question,answers,answer_type,image",
    .within = "questions",
    .scorer = &eval_scorer_vqav2,
    .max_tokens = 16,
    .figure = "VQA accuracy",
    .read_all = read_all};
