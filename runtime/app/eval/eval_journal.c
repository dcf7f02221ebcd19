#define _GNU_SOURCE
#include "eval_journal.h"
#include "eval_header.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

sac_status eval_journal_write(eval_journal *j, const json_t *record, sac_error *err) {
    return journal_write(&j->file, record, 9, NULL, NULL, err);
}

sac_status eval_journal_close(eval_journal *j, sac_error *err) {
    return journal_close(&j->file, err);
}

typedef struct reader {
    eval_journal *j;
    json_t *header;
    const eval_set *set;
    bool retry;
    json_t **records;
    sac_error *err;
} reader;

static sac_status check_header(reader *r, const json_t *line) {
    char what[200];
    if (json_integer_value(json_object_get(line, "saccade_eval")) != EVAL_FORMAT)
        return sac_fail(r->err, SAC_BAD_FILE,
                        "%s:1: not the header of a run of this version; give another --out", r->j->file.path);
    if (!eval_header_differs(line, r->header, what, sizeof what)) {
        json_t *started = json_object_get(line, "started");
        return started && json_object_set(r->header, "started", started) ? sac_fail_no_memory(r->err)
                                                                         : SAC_OK;
    }
    return sac_fail(r->err, SAC_BAD_CONFIG, "%s: begun with other settings: %s; give these, or another --out",
                    r->j->file.path, what);
}

static sac_status keep_record(reader *r, size_t number, json_t *line) {
    const char *id = json_string_value(json_object_get(line, "question_id"));
    size_t at = id ? eval_set_find(r->set, id) : SIZE_MAX;
    bool is_error = json_is_object(json_object_get(line, "error"));
    if (id && at == SIZE_MAX && json_object_get(r->set->question_index, id))
        return SAC_OK; /* beyond --limit, which was larger */
    if (at == SIZE_MAX || (!is_error && !json_is_string(json_object_get(line, "response"))))
        return sac_fail(r->err, SAC_BAD_FILE,
                        "%s:%zu: no answer to a question of this set; give another --out", r->j->file.path,
                        number);
    json_decref(
        r->records[at]); /* a later line about the same question counts: an error that was asked again */
    r->records[at] = is_error && r->retry ? NULL : json_incref(line);
    return SAC_OK;
}

static sac_status on_line(void *ctx, const journal_line *line, sac_error *err) {
    reader *r = ctx;
    (void)err; /* the reader's own */
    return line->number == 1 ? check_header(r, line->json) : keep_record(r, line->number, line->json);
}

sac_status eval_journal_open(eval_journal *j, const char *path, json_t *header, const eval_set *set,
                             bool retry, json_t **records, sac_error *err) {
    reader r = {.j = j, .header = header, .set = set, .retry = retry, .records = records, .err = err};
    *j = (eval_journal){0};
    SAC_TRY(journal_open(&j->file, path, JOURNAL_WRITE, on_line, &r, err));
    for (size_t i = 0; i < set->n_questions; i++) j->n_resumed += records[i] != NULL;
    return j->file.n_lines ? SAC_OK : journal_write(&j->file, header, 17, NULL, NULL, err);
}
