/* MVBench (arXiv:2311.17005): a file a task (action_sequence.json, ...), or the folder of them: [{"video", "question",
 * "candidates", "answer", and "start", "end" of a stretch in seconds}]. Videos lie in folders of their sources; a frame
 * folder (tvqa) is not read: take the converted videos. Wording of VideoChat2's evaluation, system part first. */
#include "eval_row.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

/* Where the official archive has the videos of a task. */
static const char *const folders[][2] = {
    {"action_sequence", "star/Charades_v1_480"},
    {"action_prediction", "star/Charades_v1_480"},
    {"action_antonym", "ssv2_video"},
    {"fine_grained_action", "Moments_in_Time_Raw/videos"},
    {"unexpected_action", "FunQA_test/test"},
    {"object_existence", "clevrer/video_validation"},
    {"object_interaction", "star/Charades_v1_480"},
    {"object_shuffle", "perception/videos"},
    {"moving_direction", "clevrer/video_validation"},
    {"action_localization", "sta/sta_video"},
    {"scene_transition", "scene_qa/video"},
    {"action_count", "perception/videos"},
    {"moving_count", "clevrer/video_validation"},
    {"moving_attribute", "clevrer/video_validation"},
    {"state_change", "perception/videos"},
    {"fine_grained_pose", "nturgbd"},
    {"character_order", "perception/videos"},
    {"egocentric_navigation", "vlnqa"},
    {"episodic_reasoning", "tvqa/frames_fps3_hq"},
    {"counterfactual_inference", "clevrer/video_validation"},
};

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {0};
    const char *video, *answer, *task;
    SAC_TRY(eval_row_text(r, row, "video", &video));
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    SAC_TRY(eval_row_options(r, row, "candidates", &item));
    SAC_TRY(eval_row_text(r, row, "answer", &answer));
    SAC_TRY(eval_row_right_option(r, "answer", answer, &item));
    SAC_TRY(eval_row_optional(r, row, "task", &task));
    if (!task) task = r->stem;
    for (size_t i = 0; i < SAC_COUNT(folders); i++)
        if (!strcmp(folders[i][0], task) && !(video = eval_row_format(r, "%s/%s", folders[i][1], video)))
            return sac_fail_no_memory(r->err);
    SAC_TRY(eval_row_file(r, "video", video, true, &item));
    SAC_TRY(eval_row_seconds(r, row, "start", &item.media[0].start_s));
    SAC_TRY(eval_row_seconds(r, row, "end", &item.media[0].end_s));
    eval_row_dimension(&item, "task", task);
    const char *options = eval_row_letters(r, &item, "(", ") ");
    if (!options) return sac_fail_no_memory(r->err);
    item.prompt =
        eval_row_format(r,
                        "Carefully watch the video and pay attention to the cause and sequence of events, "
                        "the detail and movement of objects, "
                        "and the action and pose of persons. Based on your observations, select the best "
                        "option that accurately addresses the "
                        "question.\nQuestion: %s\nOptions:\n%s\nOnly give the best option.\nBest option:(",
                        item.question, options);
    return eval_row_add(r, eval_row_format(r, "%s-%zu", task, r->number), &item);
}

const eval_bench eval_bench_mvbench = {.name = "mvbench",
                                       .title = "MVBench",
                                       .fields = "video,question,candidates,answer",
                                       .scorer = &eval_scorer_mvbench,
                                       .max_tokens = 16,
                                       .figure = "average over tasks",
                                       .mean_over = "task",
                                       .read = read_row};
