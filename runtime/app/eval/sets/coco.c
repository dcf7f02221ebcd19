/* COCO captions (arXiv:1504.00325): captions_val2014.json, {"images": [{"id", "file_name"}], "annotations": [{"image_id",
 * "caption"}]}; Karpathy's dataset_coco.json, {"images": [{"filename", "split", "sentences": [{"raw"}], "cocoid"}]}, of which the
 * test split is asked; or rows {"image_id", "image", "captions"} (converted). The prompt is lmms-eval's; the benchmark has none. */
#include "eval_row.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

static sac_status add(eval_reader *r, const char *id, eval_item *item) {
    item->question = item->prompt = "Provide a one-sentence caption for the provided image.";
    item->answer = json_string_value(json_array_get(item->answers, 0));
    return eval_row_add(r, id, item);
}

/* ---------------------------------------------------------------- the official file */

/* Lists of captions by the picture's id. */
static sac_status group_captions(eval_reader *r, const json_t *annotations, json_t *by_image) {
    for (size_t i = 0; i < json_array_size(annotations); i++) {
        const json_t *row = json_array_get(annotations, i);
        const char *id, *caption;
        r->number = i + 1;
        SAC_TRY(eval_row_text(r, row, "image_id", &id));
        SAC_TRY(eval_row_text(r, row, "caption", &caption));
        json_t *list = json_object_get(by_image, id);
        if (!list &&
            (json_object_set_new(by_image, id, json_array()) || !(list = json_object_get(by_image, id))))
            return sac_fail_no_memory(r->err);
        if (json_array_append_new(list, json_string(caption))) return sac_fail_no_memory(r->err);
    }
    return SAC_OK;
}

static sac_status read_official(eval_reader *r, const json_t *images, const json_t *annotations) {
    json_t *by_image = json_object();
    if (!by_image || json_array_append_new(r->set->json, by_image)) return sac_fail_no_memory(r->err);
    SAC_TRY(group_captions(r, annotations, by_image));
    for (size_t i = 0; i < json_array_size(images); i++) {
        const json_t *row = json_array_get(images, i);
        const char *id, *file;
        eval_item item = {0};
        r->number = i + 1;
        SAC_TRY(eval_row_text(r, row, "id", &id));
        SAC_TRY(eval_row_text(r, row, "file_name", &file));
        SAC_TRY(eval_row_file(r, "file_name", file, false, &item));
        item.answers = json_object_get(by_image, id);
        if (item.answers) SAC_TRY(add(r, id, &item));
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- Karpathy's split */

static sac_status read_karpathy(eval_reader *r, const json_t *row) {
    eval_item item = {0};
    const char *split, *id, *file;
    SAC_TRY(eval_row_text(r, row, "split", &split));
    if (strcmp(split, "test")) return SAC_OK;
    SAC_TRY(eval_row_text(r, row, "cocoid", &id));
    SAC_TRY(eval_row_text(r, row, "filename", &file));
    SAC_TRY(eval_row_file(r, "filename", file, false, &item));
    json_t *captions = json_array();
    if (!captions || json_array_append_new(r->set->json, captions)) return sac_fail_no_memory(r->err);
    const json_t *sentences = json_object_get(row, "sentences");
    for (size_t i = 0; i < json_array_size(sentences); i++) {
        const char *raw;
        SAC_TRY(eval_row_text(r, json_array_get(sentences, i), "raw", &raw));
        if (json_array_append_new(captions, json_string(raw))) return sac_fail_no_memory(r->err);
    }
    if (!json_array_size(captions)) return eval_row_refuse(r, "sentences", "is no list of captions");
    item.answers = captions;
    return add(r, id, &item);
}

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {0};
    const char *id;
    SAC_TRY(eval_row_text(r, row, "image_id", &id));
    SAC_TRY(eval_row_picture(r, row, "image", &item));
    SAC_TRY(eval_row_texts(r, row, "captions", false, &item.answers));
    return add(r, id, &item);
}

static sac_status read_all(eval_reader *r, const json_t *root) {
    const json_t *images = json_object_get(root, "images"),
                 *annotations = json_object_get(root, "annotations");
    if (json_is_array(annotations)) return read_official(r, images, annotations);
    const json_t *list = images ? images : root;
    if (!json_is_array(list)) return read_row(r, root);
    for (size_t i = 0; i < json_array_size(list); i++) {
        r->number = i + 1;
        SAC_TRY(images ? read_karpathy(r, json_array_get(list, i)) : read_row(r, json_array_get(list, i)));
    }
    return SAC_OK;
}

const eval_bench eval_bench_coco = {
    .name = "coco",
    .title = "COCO captions",
    .fields = "image_id,caption|filename,split,sentences,cocoid|image_id,image,captions",
    .within = "annotations|images",
    .scorer = &eval_scorer_cider,
    .max_tokens = 64,
    .figure = "CIDEr-D",
    .read_all = read_all};
