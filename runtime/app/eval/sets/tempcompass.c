/* TempCompass (arXiv:2403.00476): multi-choice.json, yes_no.json, caption_matching.json, captioning.json, or the folder of
 * them: {"VIDEO_ID": {"action": [{"question", "answer"}], ...}}; or rows {"video_id", "question", "answer", "dim", "task"}
 * (converted). Videos are VIDEO_ID.mp4. The kind of task is the file's name. */
#include "eval_row.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

static const char *const kinds[][2] = {{"multi-choice", "\nPlease directly give the best option:"},
                                       {"yes_no", "\nPlease answer yes or no:"},
                                       {"caption_matching", "\nPlease directly give the best option:"},
                                       {"captioning", ""}};

static sac_status add(eval_reader *r, const json_t *row, const char *video, const char *dimension,
                      const char *kind, size_t number) {
    eval_item item = {0};
    const char *ending = NULL;
    for (size_t i = 0; i < SAC_COUNT(kinds); i++)
        if (!strcmp(kinds[i][0], kind)) item.kind = kinds[i][0], ending = kinds[i][1];
    if (!ending)
        return eval_row_refuse(
            r, "task", "expected a file multi-choice, yes_no, caption_matching or captioning, found '%.40s'",
            kind);
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    SAC_TRY(eval_row_file(r, "video_id", video, true, &item));
    if (strcmp(item.kind, "captioning")) SAC_TRY(eval_row_text(r, row, "answer", &item.answer));
    eval_row_dimension(&item, "task", item.kind);
    eval_row_dimension(&item, "aspect", dimension);
    item.prompt = eval_row_format(r, "%s%s", item.question, ending);
    return eval_row_add(r, eval_row_format(r, "%s-%s-%s-%zu", kind, video, dimension, number), &item);
}

static sac_status add_flat(eval_reader *r, const json_t *row) {
    const char *video, *dimension, *kind;
    SAC_TRY(eval_row_text(r, row, "video_id", &video));
    SAC_TRY(eval_row_text(r, row, "dim", &dimension));
    SAC_TRY(eval_row_optional(r, row, "task", &kind));
    return add(r, row, video, dimension, kind ? kind : r->stem, r->number);
}

static sac_status add_video(eval_reader *r, const char *video, const json_t *dimensions) {
    const char *dimension;
    json_t *list;
    r->key = video;
    if (!json_is_object(dimensions)) return eval_row_refuse(r, "the video", "expected an object of lists");
    json_object_foreach((json_t *)dimensions, dimension, list) {
        if (!json_is_array(list)) return eval_row_refuse(r, dimension, "expected a list of questions");
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *row = json_array_get(list, i);
            if (!json_is_object(row)) return eval_row_refuse(r, dimension, "expected an object");
            SAC_TRY(add(r, row, video, dimension, r->stem, i + 1));
        }
    }
    return SAC_OK;
}

static sac_status read_all(eval_reader *r, const json_t *root) {
    const char *video;
    json_t *dimensions;
    if (json_object_get(root, "dim")) return add_flat(r, root);
    for (size_t i = 0; i < json_array_size(root); i++) {
        r->number = i + 1;
        SAC_TRY(add_flat(r, json_array_get(root, i)));
    }
    if (json_is_array(root)) return SAC_OK;
    json_object_foreach((json_t *)root, video, dimensions) SAC_TRY(add_video(r, video, dimensions));
    return SAC_OK;
}

const eval_bench eval_bench_tempcompass = {
    .name = "tempcompass",
    .title = "TempCompass",
    .fields = "question,answer|question,mc_question|video_id,question,dim",
    .within = "**",
    .scorer = &eval_scorer_tempcompass,
    .max_tokens = 64,
    .figure = "accuracy",
    .read_all = read_all,
    .note = "Answers that no rule of the benchmark reads count as wrong (its scripts can ask ChatGPT); "
            "captions need that judge."};
