/* StreamingBench (arXiv:2411.03628), questions with options: questions_real.json and its like, [{"video_path", "time",
 * "questions": [{"task_type", "question", "time_stamp", "answer", "options"}]}], or the table on Hugging Face (CSV:
 * question_id, task_type, question, time_stamp, answer, options as a list in Python's notation). A question is asked about
 * the video up to its time; the whole context, as the official script with context_time -1. Questions without options
 * (proactive output) are refused: their score is of when a model speaks. */
#include "eval_row.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sac_status read_time(eval_reader *r, const char *text, double *out) {
    double sum = 0;
    for (const char *p = text; p; p = strchr(p, ':'), p = p ? p + 1 : NULL) {
        char *end;
        long n = strtol(p, &end, 10);
        if (end == p || (*end && *end != ':') || n < 0 || n > 100000)
            return eval_row_refuse(r, "time_stamp", "expected hours:minutes:seconds, found '%.40s'", text);
        sum = 60 * sum + (double)n;
    }
    *out = sum;
    return sum < 1e6 ? SAC_OK : eval_row_refuse(r, "time_stamp", "is too late");
}

/* "A. cat" without its letter. */
static const char *without_letter(const char *option, size_t i) {
    if (option[0] != (char)('A' + i) || option[1] != '.') return option;
    return option + 2 + strspn(option + 2, " ");
}

static sac_status add(eval_reader *r, const json_t *q, const char *video, const char *id) {
    eval_item item = {0};
    const char *answer, *time, *type;
    SAC_TRY(eval_row_text(r, q, "question", &item.question));
    SAC_TRY(eval_row_options(r, q, "options", &item));
    SAC_TRY(eval_row_text(r, q, "answer", &answer));
    SAC_TRY(eval_row_text(r, q, "time_stamp", &time));
    SAC_TRY(eval_row_text(r, q, "task_type", &type));
    SAC_TRY(eval_row_file(r, "video_path", video, true, &item));
    SAC_TRY(read_time(r, time, &item.media[0].end_s));
    for (size_t i = 0; i < item.n_options; i++) item.options[i] = without_letter(item.options[i], i);
    SAC_TRY(eval_row_right_letter(r, "answer", answer, &item));
    eval_row_dimension(&item, "task", type);
    const char *options = eval_row_letters(r, &item, "", ". ");
    if (!options) return sac_fail_no_memory(r->err);
    item.prompt = eval_row_format(r,
                                  "You are an advanced video question-answering AI assistant. You have been "
                                  "provided with some frames from the video and a "
                                  "multiple-choice question related to the video. Your task is to carefully "
                                  "analyze the video and provide the best answer "
                                  "to question, choosing from the four options provided. Respond with only "
                                  "the letter (A, B, C, or D) of the correct "
                                  "option.\n\nQuestion: %s\n\nOptions:\n%s\n\nThe best option is:",
                                  item.question, options);
    return eval_row_add(r, id, &item);
}

/* The table's options are one text, ['A. x', "B. y's"]: a list of texts in single or double quotes. */
static json_t *read_python_list(const char *s) {
    json_t *list = json_array();
    char *text = malloc(strlen(s) + 1);
    bool ok = list && text && *s == '[';
    for (s += ok; ok && *s && *s != ']';) {
        s += strspn(s, " ,\n");
        char quote = *s, *to = text;
        if (quote != '\'' && quote != '"') break;
        for (s++; *s && *s != quote; s++) {
            if (*s == '\\' && s[1]) s++;
            *to++ = *s;
        }
        ok = *s == quote && !json_array_append_new(list, json_stringn(text, (size_t)(to - text)));
        s += *s == quote;
    }
    free(text);
    if (ok && *s == ']') return list;
    json_decref(list);
    return NULL;
}

/* A row of the table: "Real-Time Visual Understanding_sample_1_5" is about sample_1. */
static sac_status add_flat(eval_reader *r, const json_t *row) {
    const char *id, *options;
    SAC_TRY(eval_row_text(r, row, "question_id", &id));
    const char *name = strstr(id, "sample_"), *last = strrchr(id, '_');
    if (!name || last < name + 7)
        return eval_row_refuse(r, "question_id", "expected ..._sample_N_M, found '%.60s'", id);
    const char *video = eval_row_format(r, "%.*s/video.mp4", (int)(last - name), name);
    if (!video) return sac_fail_no_memory(r->err);
    if (!json_is_string(json_object_get(row, "options"))) return add(r, row, video, id);
    SAC_TRY(eval_row_text(r, row, "options", &options));
    json_t *list = read_python_list(options), *copy = list ? json_copy((json_t *)row) : NULL;
    if (!list) return eval_row_refuse(r, "options", "expected a list of texts, found '%.60s'", options);
    if (!copy) json_decref(list);
    bool kept = copy && !json_object_set_new(copy, "options", list) && !json_array_append(r->set->json, copy);
    sac_status st = kept ? add(r, copy, video, id) : sac_fail_no_memory(r->err);
    json_decref(copy);
    return st;
}

static sac_status read_row(eval_reader *r, const json_t *row) {
    const json_t *questions = json_object_get(row, "questions");
    const char *video;
    if (!questions) return add_flat(r, row);
    SAC_TRY(eval_row_text(r, row, "video_path", &video));
    if (!json_is_array(questions)) return eval_row_refuse(r, "questions", "expected a list");
    for (size_t i = 0; i < json_array_size(questions); i++) {
        const json_t *q = json_array_get(questions, i);
        if (!json_is_object(q)) return eval_row_refuse(r, "questions", "expected objects");
        SAC_TRY(add(r, q, video, eval_row_format(r, "%s-%zu-%zu", r->stem, r->number, i + 1)));
    }
    return SAC_OK;
}

const eval_bench eval_bench_streamingbench = {
    .name = "streamingbench",
    .title = "StreamingBench",
    .fields = "questions,video_path,time|question_id,task_type,question,time_stamp,answer,options",
    .scorer = &eval_scorer_first_letter,
    .max_tokens = 16,
    .figure = "accuracy",
    .read = read_row};
