/* answers_session.h - sessions of answers_probe: a model, a setting, a prompt, and steps after it, heard into
 * an answer. */
#ifndef ANSWERS_SESSION_H
#define ANSWERS_SESSION_H

#include "answers_cases.h"
#include "answers_record.h"

#include <regex.h>

typedef struct probe {
    sac_model *model;
    sac_model_info info;
    const char *model_name; /* "demo", "llava_next": begins every case's name */
    int n_threads;
    bool is_quick, is_list;
    regex_t only;
    bool has_only;
    int n_wrong; /* cases that answered as dense attention where they must not, or the other way round */
} probe;

/* What is asked. Of messages, text and n_ids the first one given counts. */
typedef struct prompt {
    const sac_message *messages;
    size_t n_messages;
    const char *text;
    int64_t n_ids; /* token ids out of a hat */
    int seed;
} prompt;

/* A question about pictures, videos, or nothing, with room for its parts. */
enum { QUESTION_PARTS = 8 };
typedef struct question {
    sac_part parts[QUESTION_PARTS];
    sac_message message;
    prompt prompt;
} question;

/* Whether the demo model is open: it is trained, so what its methods leave out is known to matter. */
bool is_demo(const probe *p);

/* A picture, or n_frames of a video; NULL path: text alone. The prompt points into q. */
const prompt *ask_about(question *q, const char *path, int n_frames, const char *text);

/* 250 ids that every model here has, in an order that `seed` decides. */
void draw_ids(int32_t *ids, int64_t n, int seed);

/* Whether the case is asked for; with --list its name is printed and it is not run. */
bool is_wanted(const probe *p, const answer *a);

/* The setting's lines, as they stand in names. */
const char *setting_text(const setting *m, char *text, size_t n_bytes);

sac_status session_open(sac_session **s, const probe *p, const setting *m, int64_t n_ctx, int64_t chunk,
                        sac_error *err);

sac_sampling greedy(int n_tokens);

/* Runs a prompt; its logits are heard. */
bool hear_prompt(const probe *p, answer *a, sac_session *s, const prompt *q, const sac_sampling *o,
                 const sac_events *events);
/* Steps to the end of the answer; each one's logits are heard. */
void hear_steps(const probe *p, answer *a, sac_session *s, const sac_events *events);
/* Both, and the result. */
void hear_answer(const probe *p, answer *a, sac_session *s, const prompt *q, const sac_sampling *o,
                 const sac_events *events);

#endif
