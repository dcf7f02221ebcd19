/* run.h - a model and a session as the settings ask for them, and one answer with progress, streaming and
 * Ctrl-C.
 */
#ifndef APP_RUN_H
#define APP_RUN_H

#include "attention_view.h"
#include "conversation.h"
#include "progress.h"
#include "settings.h"

#include <saccade/saccade.h>

typedef struct run {
    const settings *s;
    const char *model_path;
    const char
        *device; /* where it runs, as the option says or, with "auto", as it turned out; NULL: the CPU */
    sac_model *model;
    sac_model_info info;
    sac_session *session;
    sac_session_config session_config;
    sac_sampling sampling;
    sac_controls *controls; /* what sampling.controls points to */
    sac_chat_options chat;  /* of every session */
    char *tools;            /* what chat.tools points to */
    const char **adapters;  /* the settings', those to merge before those to keep apart */
    const char **names;     /* of the latter, [n_names] */
    size_t n_names;
    attention_view *view; /* what is looked at goes there too, or NULL */
    progress progress;
    double load_seconds;
    char own_path[4096]; /* of the demo model, when it lies beside the installed command */
} run;

/* What an answer leaves besides sac_result. */
typedef struct answer {
    char *text; /* all that was written, NUL-terminated; also when the answer was cut short */
    size_t n_bytes, room;
    bool quiet; /* keep the text, write nothing */
    double margin; /* with sampling.top_logprobs of 2 or more: nats between a token and the next likeliest, the least of all; INFINITY before the first */
    run *r;
    bool write_failed;
} answer;

/* Finds and opens the model. On failure, too, run_close frees what there is. */
sac_status run_open(run *r, const settings *s, size_t vision_cache_bytes, sac_error *err);

/* A session for the model as the settings ask for it, for whoever keeps several. */
sac_status run_make_session(const run *r, sac_session **out, sac_error *err);

/* The run's own: takes the session's memory. */
sac_status run_create_session(run *r, sac_error *err);
void run_free_session(run *r);
void run_close(run *r);

/* Answers the conversation, writing the text to standard output as it comes. Ctrl-C: SAC_CANCELLED. A failed
 * write: SAC_IO. */
sac_status run_answer(run *r, const conversation *c, answer *a, sac_result *result, sac_error *err);
/* The same for a text as it stands, without chat format. */
sac_status run_answer_text(run *r, const char *text, size_t n_bytes, answer *a, sac_result *result,
                           sac_error *err);
void answer_free(answer *a);

/* The session's and the sampler's settings: the model's or the library's, with what was given on top. */
sac_session_config run_session_config(const settings *s);
sac_sampling run_sampling(const settings *s, const sac_model *m);
/* The model's further settings with those of --set on top; the caller's, on failure too. */
sac_status run_controls(sac_controls **out, const settings *s, const sac_model *m, sac_error *err);

#endif
