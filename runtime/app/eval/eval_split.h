/* eval_split.h - a question set in two parts that share no video and no picture: one to choose by, one to judge by. */
#ifndef APP_EVAL_SPLIT_H
#define APP_EVAL_SPLIT_H

#include "eval_set.h"

/* What question `at` (counted over the whole set) is about: the name of its video's file, of another benchmark the first of its
 * media (its path, or the picture itself), or its id where it has none. */
const char *eval_set_source(const eval_set *set, const eval_video *v, size_t at);

/* The end of the run of questions from `from` on that share a source, or that have no media: of these `most` at most. Of a set of
 * videos, all of the video's. */
size_t eval_turn_end(const eval_set *set, const eval_video *v, size_t from, size_t most);

/* Marks the questions of the test part, which has `test_share` of the questions as nearly as whole sources allow. The seed and
 * the sources' names decide, nothing else: the order of the set and --limit do not. Questions with one source stay
 * together. is_test: [set->n_questions]. BAD_ARGUMENT when the set has one source only. */
sac_status eval_split(const eval_set *set, uint64_t seed, double test_share, bool *is_test, sac_error *err);

/* The order of the set's questions in which a beginning of any length is about as many sources as can be: the first of every
 * source, then the second, each by the seed; or so many of each at a time (`block`, 1 at least), where those that follow one
 * another share work. Rotations of one question (MMBench) follow one another. order: [set->n_questions], indices over the
 * whole set. */
sac_status eval_spread(const eval_set *set, uint64_t seed, size_t block, size_t *order, sac_error *err);

/* Whether two questions are rotations of one, which are scored together. */
bool eval_set_is_rotation(const eval_set *set, size_t a, size_t b);

/* Keeps the questions for which keep[] is true (indices over the whole set), and the videos that have any. They are
 * numbered anew; the others are as questions beyond --limit to journals (eval_journal.h). */
sac_status eval_set_keep(eval_set *set, const bool *keep, sac_error *err);

/* The questions for which take[] is true go to `out`, as eval_set_keep leaves them; `set` keeps the others. Texts belong to
 * both. On failure, too, eval_set_free frees what there is of each. */
sac_status eval_set_part(eval_set *set, const bool *take, eval_set *out, sac_error *err);

#endif
