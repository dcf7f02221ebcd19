/* needle_table.h - a needle set under one or several method lines, asked, kept and told as a table of tasks and lengths. */
#ifndef APP_NEEDLE_TABLE_H
#define APP_NEEDLE_TABLE_H

#include "method_list.h"
#include "needle_ask.h"

typedef struct needle_line {
    const char *name;
    const method_line *given; /* NULL: the methods of the settings */
    sac_session_config config;
    sac_status refused;
    sac_error why;
    sac_session_method_lines methods; /* as the session runs them */
    json_t *header;                   /* of its journal */
    json_t **records;                 /* [set->n_rows] */
} needle_line;

typedef struct needle_table {
    const settings *s;
    const char *set_path;
    run *r; /* the caller's, with an open model */
    needle_set set;
    char *folder; /* of media */
    needle_line *lines;
    size_t n_lines;
    progress line;
    int64_t done, todo;
} needle_table;

/* Asks all rows with each line of the list (NULL = once, with the settings' methods). r: an open model. With --out every
 * answer is kept in DIR/journals/, and a run cut short goes on there. On failure, too, needle_table_free frees what there
 * is. */
sac_status needle_table_ask(needle_table *t, const settings *s, run *r, const char *set_path,
                            const method_list *list, sac_error *err);
void needle_table_free(needle_table *t);

/* Mean score of a line over the rows of a task and length (NULL and 0 = all; of all, the mean over tasks and lengths, as
 * RULER's average is); n: how many rows. An answer that could not be had counts as 0. NAN: no row. */
double needle_table_mean(const needle_table *t, size_t line, const char *task, int64_t length, size_t *n);

/* In Markdown; to free, NULL = out of memory. */
char *needle_table_text(const needle_table *t);
/* {"saccade_needles": 1, "header", "rows": [...]}; NULL = out of memory. */
json_t *needle_table_json(const needle_table *t);

/* Rows that could not be asked, to standard error; the exit code tells them and refused lines. */
void needle_table_note_failed(const needle_table *t);

/* All of it, for a command: opens the model, asks, writes table.md and needles.json into --out and prints the table, or JSON
 * with --json. list: as above. */
sac_status needle_table_command(const settings *s, const char *set_path, const method_list *list,
                                sac_error *err);

#endif
