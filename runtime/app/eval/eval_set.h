/* eval_set.h - a set of questions about videos, in Video-MME's own schema.
 *
 * Either the annotation as one JSON list,
 *     [{"video_id", "duration", "domain", "sub_category", "url", "videoID",
 *       "questions": [{"question_id", "task_type", "question", "options": ["A. ...", ...4], "answer": "A"}]}]
 * or one question a line (JSONL, the rows of the published table), which carries the fields of its video in
 * each line. Further keys are ignored. duration is short, medium or long. The file of a video is named by
 * videoID, else by the "v=" of url, else by video_id. A result file (each question with its "response") is a
 * set, too.
 *
 * The file may come from a stranger: what is not expected is refused with file, line and field before any
 * work. */
#ifndef APP_EVAL_SET_H
#define APP_EVAL_SET_H

#include "saccade/status.h"

#include "eval_item.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVAL_SET_MAX_BYTES ((size_t)256 << 20)
#define EVAL_OPTIONS       4

/* Texts belong to the set. */
typedef struct eval_question {
    const char *id, *task_type, *text;
    const char *options[EVAL_OPTIONS]; /* as they stand, "A. a circle" */
    char answer;                       /* 'A'..'D' */
    const char *response;              /* of a result file; NULL = none */
    eval_item
        *item; /* of another benchmark (eval_bench.h), owned: then only id and text are used; else NULL */
} eval_question;

typedef struct eval_video {
    const char *id, *duration, *domain, *sub_category;
    const char *url, *video_id; /* NULL = not given; video_id is the key videoID */
    const char *file;           /* name of its file without ending; holds no '/' */
    eval_question *questions;
    size_t n_questions;
    size_t first; /* index of its first question, counted over the whole set */
} eval_video;

struct eval_bench;

typedef struct eval_set {
    const struct eval_bench *bench; /* of which the questions are; NULL = Video-MME */
    eval_video *videos;             /* in order of first appearance */
    size_t n_videos, n_questions;
    uint64_t fingerprint; /* of the file's bytes */
    json_t *json, *video_index, *question_index;
    uint64_t subtitles; /* of the files of subtitles that its rows have; 0 = none has */
} eval_set;

/* On failure, too, eval_set_free frees what there is. */
sac_status eval_set_read(eval_set *set, const char *path, sac_error *err);

/* The same from memory; `name` stands for the file in errors. */
sac_status eval_set_parse(eval_set *set, const char *text, size_t n_bytes, const char *name, sac_error *err);
void eval_set_free(eval_set *set);

/* Keeps the first n questions; 0 = all. */
void eval_set_cut(eval_set *set, size_t n);

/* Index of a question over the whole set, or SIZE_MAX. */
size_t eval_set_find(const eval_set *set, const char *question_id);

/* "options[i]" without its letter: "a circle". */
const char *eval_option_text(const char *option);

#endif
