/* A server without its threads and without HTTP, for tests that run its scheduler round by round. */
#ifndef SCHEDULER_BENCH_H
#define SCHEDULER_BENCH_H

#include "job_end.h"
#include "rounds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LONG = 800, SHORT = 30 }; /* words of a prompt */

typedef struct bench {
    serve_config config;
    serve_server *s;
} bench;

/* models/demo, for all benches of a program, on one thread: a group's set-up and teardown. */
int open_model(void **state);
/* The same with pages for parts / 16 contexts of n_ctx tokens; *row_bytes (or NULL): of a token. */
int open_model_of_pages(void **state, int64_t n_ctx, size_t parts, size_t *row_bytes);
sac_model *bench_model(void); /* that it has opened */
int close_model(void **state);

/* The server points into the bench. */
void configure(bench *b, int n_slots);
void start_bench(bench *b); /* as it is configured */
void open_bench(bench *b, int n_slots);
void open_bench_of(bench *b, int n_slots, bool shares);
void close_bench(bench *b); /* no job is left */

/* {"messages": ...} about as long as n_words tokens. */
json_t *question(const char *word, int n_words, int n_tokens);
/* A job that is made ready as a preparer does it, of a request that is taken over. */
serve_job *ask_json(bench *b, json_t *q);
serve_job *ask(bench *b, const char *word, int n_words, int n_tokens);

/* The slot that holds the job; NULL: it waits, or is over. */
serve_slot *slot_of(const bench *b, const serve_job *j);
bool has_begun_to_answer(const bench *b, const serve_job *j);

/* What the scheduler does in one round, and then what its sayer's thread does. */
void run_a_round(bench *b);
void run_rounds(bench *b, int n);
void run_all(bench *b); /* every job to its end */
void run_until_it_answers(bench *b, const serve_job *j);
void run_the_prompt(bench *b, const serve_job *j); /* to its last piece */
void run_to_the_end(bench *b, const serve_job *j);

/* Its reply; the job is let go of. */
json_t *reply_of(serve_job *j);
/* A choice's tokens and their logarithms of probability; borrowed. */
json_t *tokens_of(json_t *reply, size_t choice);
json_t *answer_alone(const char *word, int n_words, int n_tokens);
void expect_same(const json_t *alone, const json_t *here, int n_tokens);
/* As alone, bit for bit; the job is let go of. */
void expect_answer(serve_job *j, const char *word, int n_words, int n_tokens);
void expect_cancelled(serve_job *j);

/* Two answers go on and a step is measured; there is all the time that prompts' rows may take. They end as they do alone, and the bench. */
void begin_beside_answers(bench *b, serve_job *answers[2]);
void end_answers(bench *b, serve_job *answers[2]);
void run_before_the_step(bench *b); /* a round in which no step is due */

/* Of the page of metrics. */
double metric(const bench *b, const char *name);

#endif
