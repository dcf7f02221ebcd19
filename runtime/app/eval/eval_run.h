/* eval_run.h - asks the questions of a set, one after another: what `eval` and `compare` have in common.
 *
 * A question's record is a JSON object, {"question_id", "response", "finish", "frames", "rule", "subtitles",
 * "prompt_tokens", "visual_tokens", "reused_tokens", "answer_tokens", "methods": {...} (method_record.h),
 * "seconds": {"media", "vision", "prefill", "decode", "total", "select", "attend"}}, with "left_out_tokens" besides where a text
 * was cut in its middle (eval_cut.h), or {"question_id",
 * "error": {"status", "text"}} when it could not be asked: a missing or broken video, subtitles that cannot
 * be read, a prompt that does not fit. Only Ctrl-C, lack of memory and a failing device end the run. */
#ifndef APP_EVAL_RUN_H
#define APP_EVAL_RUN_H

#include "eval_prompt.h"
#include "eval_set.h"
#include "run.h"

#include <jansson.h>

typedef struct eval_task {
    const eval_set *set;
    const char *videos, *subtitles; /* folders; subtitles NULL = asked without */
    eval_prompt prompt;
    const char *own_prompt; /* the text of EVAL_PROMPT_OWN */
    /* Keep the keys and values that the questions of a video share. Otherwise each question starts from an
     * empty session, so that its answer does not depend on those before it, and a prefill policy sees every
     * prompt whole. */
    bool reuse;
    const char *title; /* of the progress line, "questions"; NULL = the caller shows one */
    char *own_videos;  /* the set's folder, where no other was given (eval_open.h) */
} eval_task;

/* Videos [first, first + n) of the set, and of their questions [from, end), counted over the whole set; end 0: all. */
typedef struct eval_part {
    size_t first, n, from, end;
} eval_part;

/* After each question, with its record (borrowed). */
typedef sac_status (*eval_record_fn)(void *ctx, size_t question, const json_t *record, sac_error *err);

/* r: an open model with a session. part: NULL = all videos. records: [set->n_questions]; questions that have
 * one are passed over, the others get theirs (owned by the array). The session's statistics are those of the
 * last question afterwards. Videos come in the order of the set, so that the embeddings of a
 * video are found in the cache by its further questions. On failure the records made so far stay. */
sac_status eval_run(run *r, const eval_task *t, const eval_part *part, json_t **records, eval_record_fn done,
                    void *ctx, sac_error *err);

/* Questions of the part that have no record. */
int64_t eval_run_missing(const eval_set *set, const eval_part *part, json_t *const *records);

/* The response of a record, NULL where it is an error. */
const char *eval_record_response(const json_t *record);

/* "NOT_FOUND: videos/x.mp4: ..." of an error, or NULL. */
const char *eval_record_error(const json_t *record);

#endif
