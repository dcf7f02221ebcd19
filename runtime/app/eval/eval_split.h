/* eval_split.h - a question set in two parts that share no video: one to choose by, one to judge by. */
#ifndef APP_EVAL_SPLIT_H
#define APP_EVAL_SPLIT_H

#include "eval_set.h"

/* Marks the questions of the test part, which has `test_share` of the questions as nearly as whole videos allow. The seed and
 * the names of the videos' files decide, nothing else: the order of the set and --limit do not. Videos with one file stay
 * together. is_test: [set->n_questions]. BAD_ARGUMENT when the set has one file only. */
sac_status eval_split(const eval_set *set, uint64_t seed, double test_share, bool *is_test, sac_error *err);

/* The order of the set's questions in which a beginning of any length is about as many videos as can be: the first of every
 * video, then the second, each by the seed. order: [set->n_questions], indices over the whole set. */
sac_status eval_spread(const eval_set *set, uint64_t seed, size_t *order, sac_error *err);

/* Keeps the questions for which keep[] is true (indices over the whole set), and the videos that have any. They are
 * numbered anew; the others are as questions beyond --limit to journals (eval_journal.h). */
sac_status eval_set_keep(eval_set *set, const bool *keep, sac_error *err);

#endif
