/* eval_journal.h - the journal (journal.h) that a run of a set leaves while it goes on, and from which it is
 * resumed: a header, {"saccade_eval": 1, ...} with all that answers depend on, then the record of each
 * question as soon as it is there. */
#ifndef APP_EVAL_JOURNAL_H
#define APP_EVAL_JOURNAL_H

#include "eval_set.h"
#include "journal.h"

typedef struct eval_journal {
    journal_file file;
    size_t n_resumed; /* records that were there */
} eval_journal;

/* Opens or makes the file. The records in it go to records[set->n_questions] (owned by the array); with
 * `retry` those that are errors stay away, to be asked again. BAD_CONFIG when its header is another run's:
 * the line says what differs. Records of questions that are beyond --limit now are left in the file. `header` takes from it when the run was started. */
sac_status eval_journal_open(eval_journal *j, const char *path, json_t *header, const eval_set *set,
                             bool retry, json_t **records, sac_error *err);
sac_status eval_journal_write(eval_journal *j, const json_t *record, sac_error *err);

/* IO when the last lines did not reach the disk. A journal that was never opened (zeroed) is fine. */
sac_status eval_journal_close(eval_journal *j, sac_error *err);

#endif
