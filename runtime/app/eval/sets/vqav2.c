/* VQAv2 (Goyal et al., arXiv:1612.00837): v2_OpenEnded_mscoco_val2014_questions.json, {"questions": [{"image_id", "question",
 * "question_id"}], "data_subtype"}, with the answers in v2_mscoco_val2014_annotations.json beside it, {"annotations": [{"question_id",
 * "question_type", "answer_type", "answers": [{"answer"}, ...]}]}; or rows that have both (converted). Pictures are
 * COCO_val2014_000000262148.jpg. Without the annotations it is asked, not scored. The benchmark words no prompt; this is lmms-eval's. */
#include "eval_row.h"
#include "eval_table.h"
#include "file_map.h"
#include "json.h"
#include "json_stream.h"
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

/* The published ones have ten answers in about 1,100 bytes. */
#define MOST_ANNOTATION_BYTES ((size_t)64 << 10)

/* The file as it is read: in one pass, of which stays what the questions need. */
typedef struct annotations {
    const char *path;
    sac_json_stream in;
    size_t n;      /* so far */
    json_t *by_id; /* question_id: annotation, or null where it is not read yet; the questions' alone */
} annotations;

/* The questions that there are. */
static sac_status ask_for(eval_reader *r, const json_t *root, const json_t *list, annotations *a) {
    if (!(a->by_id = json_object())) return sac_fail_no_memory(r->err);
    for (size_t i = 0; i < (list ? json_array_size(list) : 1); i++) {
        const char *id;
        const json_t *row = list ? json_array_get(list, i) : root;
        if (list) r->number = i + 1;
        if (!json_is_object(row)) return eval_row_refuse(r, "questions", "expected objects");
        SAC_TRY(eval_row_text(r, row, "question_id", &id));
        if (json_object_set_new(a->by_id, id, json_null())) return sac_fail_no_memory(r->err);
    }
    return SAC_OK;
}

static bool drop_but(json_t *row, const char *const *names) {
    const char *key;
    void *next;
    json_t *value;
    json_object_foreach_safe(row, next, key, value) {
        size_t i = 0;
        while (names[i] && strcmp(names[i], key) != 0) i++;
        if (!names[i] && json_object_del(row, key)) return false;
    }
    return true;
}

/* One of the list, which stays where it is of a question. */
static sac_status read_annotation(annotations *a, sac_error *err) {
    static const char *const used[] = {"answers", "answer_type", "question_type", NULL};
    const char *text;
    size_t n_bytes;
    char key[32];
    json_t *row;
    a->n++;
    SAC_TRY(sac_json_stream_skip(&a->in, &text, &n_bytes, err));
    if (n_bytes > MOST_ANNOTATION_BYTES)
        return sac_fail(err, SAC_BAD_FILE, "annotation %zu: more than %zu bytes", a->n, MOST_ANNOTATION_BYTES);
    SAC_TRY(sac_json_parse(&row, text, n_bytes, err));
    const json_t *id = json_object_get(row, "question_id");
    sac_status st = json_is_integer(id)
                        ? SAC_OK
                        : sac_fail(err, SAC_BAD_FILE, "annotation %zu: question_id: expected a whole number", a->n);
    snprintf(key, sizeof key, "%" JSON_INTEGER_FORMAT, json_integer_value(id));
    if (st == SAC_OK && json_object_get(a->by_id, key) &&
        (!drop_but(row, used) || json_object_set(a->by_id, key, row)))
        st = sac_fail_no_memory(err);
    json_decref(row);
    return st;
}

static sac_status read_list(annotations *a, sac_error *err) {
    if (sac_json_stream_peek(&a->in) != SAC_JSON_ARRAY)
        return sac_fail(err, SAC_BAD_FILE, "annotations: expected a list of objects");
    SAC_TRY(sac_json_stream_enter(&a->in, '[', err));
    for (bool more;;) {
        SAC_TRY(sac_json_stream_next(&a->in, &more, err));
        if (!more) return SAC_OK;
        SAC_TRY(read_annotation(a, err));
    }
}

static sac_status read_stream(annotations *a, sac_error *err) {
    static const char name[] = "annotations";
    bool found = false;
    if (sac_json_stream_peek(&a->in) == SAC_JSON_OBJECT) SAC_TRY(sac_json_stream_enter(&a->in, '{', err));
    for (bool more = a->in.depth > 0; more;) {
        const char *key;
        size_t n;
        SAC_TRY(sac_json_stream_next(&a->in, &more, err));
        if (!more) break;
        SAC_TRY(sac_json_stream_key(&a->in, &key, &n, err));
        const bool is_list = n == sizeof name - 1 && !memcmp(key, name, n);
        SAC_TRY(is_list ? read_list(a, err) : sac_json_stream_skip(&a->in, NULL, NULL, err));
        found |= is_list;
    }
    return found ? sac_json_stream_end(&a->in, err)
                 : sac_fail(err, SAC_BAD_FILE, "annotations: expected a list of objects");
}

/* by_id stays NULL where there is no such file. */
static sac_status read_annotations(eval_reader *r, const json_t *root, const json_t *list, annotations *a) {
    char *text;
    size_t n_bytes;
    *a = (annotations){.path = annotations_path(r)};
    if (!a->path || !sac_file_exists(a->path)) return SAC_OK;
    SAC_TRY(ask_for(r, root, list, a));
    SAC_TRY(sac_file_read(&text, &n_bytes, a->path, EVAL_TABLE_MAX_BYTES, r->err));
    sac_json_stream_open(&a->in, text, n_bytes);
    sac_status st = read_stream(a, r->err);
    sac_json_stream_close(&a->in);
    free(text);
    return st == SAC_OK ? SAC_OK : sac_fail_prefix(r->err, st, "%s", a->path);
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

static sac_status add(eval_reader *r, const json_t *row, const json_t *by_id) {
    eval_item item = {0};
    const char *id, *kind = NULL, *type = NULL;
    if (!json_is_object(row)) return eval_row_refuse(r, "questions", "expected objects");
    SAC_TRY(eval_row_text(r, row, "question_id", &id));
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    SAC_TRY(take_picture(r, row, &item));
    const json_t *said = by_id ? json_object_get(by_id, id) : row;
    if (said && !json_is_null(said)) {
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
    annotations a;
    sac_status st = read_annotations(r, root, list, &a);
    if (st == SAC_OK && !list) st = add(r, root, a.by_id);
    for (size_t i = 0; i < json_array_size(list) && st == SAC_OK; i++) {
        r->number = i + 1;
        st = add(r, json_array_get(list, i), a.by_id);
    }
    /* what questions point to stays */
    if (st == SAC_OK && a.by_id && json_array_append(r->set->json, a.by_id)) st = sac_fail_no_memory(r->err);
    json_decref(a.by_id);
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
