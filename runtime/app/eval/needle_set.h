/* needle_set.h - synthetic long-context questions, as tools/make_needles.py makes them: a row a line of JSONL,
 *
 *   {"id", "task", "length", "input", "outputs": ["...", ...], "metric", "max_tokens"}
 *
 * and, both optional, "turns": [{"input", "outputs"}], questions that follow in the same conversation, and "media":
 * ["a.png", "b.mp4"], files beside the set that are shown before the input; "<image>" in it is where the next of them stands.
 * RULER's own rows (arXiv:2404.06654) are rows, too: "index" in place of "id", "answer_prefix" behind the input.
 *
 * The file may come from a stranger: what is not expected is refused with its line. */
#ifndef APP_NEEDLE_SET_H
#define APP_NEEDLE_SET_H

#include "needle_score.h"

#include "saccade/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NEEDLE_TURNS_MAX = 64, NEEDLE_MEDIA_MAX = 512 };

typedef struct needle_turn {
    const char *input, *behind; /* behind: "" or what follows the input */
    const json_t *outputs;      /* texts, one at least */
} needle_turn;

/* Texts belong to the set. */
typedef struct needle_row {
    const char *id, *task;
    needle_metric metric;
    int64_t length, max_tokens; /* max_tokens 0: not said */
    bool new_task, new_length;  /* no row before has it */
    needle_turn *turns;         /* [n_turns], the first the row's own */
    size_t n_turns;
    const json_t *media; /* texts, or NULL */
    char *own_id;        /* where the file had a number */
} needle_row;

typedef struct needle_set {
    needle_row *rows;
    size_t n_rows;
    uint64_t fingerprint;    /* of the file's bytes */
    json_t *json, *index;    /* by id */
    json_t *tasks, *lengths; /* as keys: those that were met */
} needle_set;

/* Does the file begin with such a row? A file that cannot be read does not. */
bool needle_set_is(const char *path);

/* Of the first `limit` rows; 0 = all. On failure, too, needle_set_free frees what there is. */
sac_status needle_set_read(needle_set *set, const char *path, size_t limit, sac_error *err);
/* The same from memory; `name` stands for the file in errors. */
sac_status needle_set_parse(needle_set *set, const char *text, size_t n_bytes, const char *name, size_t limit,
                            sac_error *err);
void needle_set_free(needle_set *set);

/* Index of a row, or SIZE_MAX. */
size_t needle_set_find(const needle_set *set, const char *id);

#endif
