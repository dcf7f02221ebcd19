/* method_record.h - what attention methods did for one question, as its record keeps it, and the mean over
 * questions.
 *
 * Kept per question, because tables count that way (attention FLOPs are 1 - mean of kept^2 over questions and
 * layers, not of the mean) and because a run that was killed and resumed then gives the same figures. Times
 * are with the record's other "seconds". */
#ifndef APP_METHOD_RECORD_H
#define APP_METHOD_RECORD_H

#include "method_summary.h"

/* {"kept_ratio", "kept_by_layer": [...], "attention_flops_saved", "attention_pairs_saved",
 * "decode_rows_read", "decode_rows", "decode_budget", "prefill_mass", "decode_mass", "selection_cache_hits",
 * "kv_bytes_per_token", "kv_factor"}; null where there is nothing to tell (no step was made, mass is not
 * measured). Numbers have nine digits, so that a journal gives them back as they were. NULL = out of memory.
 */
json_t *method_record(const sac_session *s, const method_summary *m);

/* Means over the records that have a "methods" object (NULL and errors do not); lines are left as they are.
 * NAN where no record has the figure. kv_factor is that of the mean bytes; select_share is of all records'
 * seconds together. */
void method_record_mean(json_t *const *records, size_t n_records, method_summary *m);

/* Kept share of prefill by layer, a list; NULL = out of memory. */
json_t *method_record_mean_layers(json_t *const *records, size_t n_records);

#endif
