/* faults_skip.c - faults of ops that a device may skip, and of what decides that. */
#include "faults.h"

#define RUNS_ALL_THE_SAME(op)                                                                                \
    static sac_status op##_not_skipped(const sac_stream *s, const sac_##op##_args *a) {                      \
        sac_##op##_args b = *a;                                                                              \
        b.skip = NULL;                                                                                       \
        return ref().op(s, &b);                                                                              \
    }
RUNS_ALL_THE_SAME(key_scores)
RUNS_ALL_THE_SAME(packed_scores)
RUNS_ALL_THE_SAME(packed_vote)
RUNS_ALL_THE_SAME(softmax)
RUNS_ALL_THE_SAME(soft_vote)
RUNS_ALL_THE_SAME(top_k)
RUNS_ALL_THE_SAME(choice_step)

/* Skipped because there is a flag, whatever it says. */
static sac_status top_k_skipped_by_pointer(const sac_stream *s, const sac_top_k_args *a) {
    return a->skip ? SAC_OK : ref().top_k(s, a);
}
static sac_status packed_scores_from_row_0(const sac_stream *s, const sac_packed_scores_args *a) {
    sac_packed_scores_args b = *a;
    b.first = 0;
    return ref().packed_scores(s, &b);
}
static sac_status packed_scores_no_sums(const sac_stream *s, const sac_packed_scores_args *a) {
    sac_packed_scores_args b = *a;
    b.lse = NULL;
    return ref().packed_scores(s, &b);
}

static sac_status packed_vote_from_row_0(const sac_stream *s, const sac_packed_vote_args *a) {
    sac_packed_vote_args b = *a;
    b.first = 0;
    return ref().packed_vote(s, &b);
}

static sac_status reuse_of_nothing(const sac_stream *s, const sac_choice_reuse_args *a) {
    sac_choice_reuse_args b = *a;
    b.empty = false;
    return ref().choice_reuse(s, &b);
}
static sac_status reuse_without_end(const sac_stream *s, const sac_choice_reuse_args *a) {
    sac_choice_reuse_args b = *a;
    b.max_hits = 0;
    return ref().choice_reuse(s, &b);
}
static sac_status reuse_less_alike(const sac_stream *s, const sac_choice_reuse_args *a) {
    sac_choice_reuse_args b = *a;
    b.theta *= 0.9;
    return ref().choice_reuse(s, &b);
}

#define FAULTS(X)                                                                                            \
    X("not_skipped", key_scores, key_scores_not_skipped)                                                     \
    X("not_skipped", packed_scores, packed_scores_not_skipped)                                               \
    X("not_skipped", packed_vote, packed_vote_not_skipped)                                                   \
    X("not_skipped", softmax, softmax_not_skipped)                                                           \
    X("not_skipped", soft_vote, soft_vote_not_skipped)                                                       \
    X("not_skipped", top_k, top_k_not_skipped)                                                               \
    X("not_skipped", choice_step, choice_step_not_skipped)                                                   \
    X("by_pointer", top_k, top_k_skipped_by_pointer)                                                         \
    X("from_row_0", packed_scores, packed_scores_from_row_0)                                                 \
    X("from_row_0", packed_vote, packed_vote_from_row_0)                                                     \
    X("no_sums", packed_scores, packed_scores_no_sums)                                                       \
    X("of_nothing", choice_reuse, reuse_of_nothing)                                                          \
    X("without_end", choice_reuse, reuse_without_end)                                                        \
    X("less_alike", choice_reuse, reuse_less_alike)

FAULT_LIST(check_faults_skip, FAULTS)
