/* draft_sparse.c - the model itself guesses, reading few of its rows: a step through a sparse decode policy costs less than one
 * that reads all, and where keys and values are most of what a step reads, so does a draft. One dense pass then verifies.
 * Sparse-to-Dense (arXiv:2505.19155). Ours differs in one way: as in all drafts here the answer is what a dense step chooses, with
 * any sampling, bit for bit. */
#include "draft.h"

#include "policy.h"
#include "status.h"

#include <stdio.h>
#include <string.h>

enum { P_MOST, P_ADAPT, P_METHOD };

#define X(name) #name,
static const char *const names[] = {SAC_DECODE_POLICIES(X) NULL};
#undef X
#define X(name) IS_##name,
enum { SAC_DECODE_POLICIES(X) };
#undef X

static const sac_method_param params[] = {
    {"most", 5, 1, SAC_DRAFT_MOST, "tokens drafted at a time", SAC_WHOLE},
    {"adapt", 1, 0, 1, "1: as many as pay by the clock, down to none; 0: always `most`", SAC_WHOLE},
    {"method", IS_quest, 0, sizeof names / sizeof *names - 2, "decode policy; its settings stand beside", names},
    {0}};

static sac_status read_rest(const double *p, const char *rest, char line[SAC_DRAFT_REST_BYTES], sac_error *err) {
    const char *name = names[(size_t)p[P_METHOD]];
    const int n = snprintf(line, SAC_DRAFT_REST_BYTES, "%s%s%s", name, rest[0] ? ":" : "", rest);
    if (n < SAC_DRAFT_REST_BYTES) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "draft sparse: settings of %s of more than %d bytes", name, SAC_DRAFT_REST_BYTES - 1);
}

const sac_draft_method sac_draft_sparse = {.name = "sparse",
                                           .source = "Sparse-to-Dense, arXiv:2505.19155",
                                           .params = params,
                                           .from = SAC_DRAFT_OF_SPARSE,
                                           .read_rest = read_rest};
