/* draft_eagle3.c - a head trained for the model guesses, from hidden rows of three of its layers (eagle.h): EAGLE-3, Li et al.
 * 2025, arXiv:2503.01840. Ours differs in two ways: drafts are a chain, not a tree; and as in all drafts here the answer is
 * what a step of the model chooses, with any sampling, bit for bit. */
#include "draft.h"

#include "status.h"

#include <stdio.h>
#include <string.h>

static const sac_method_param params[] = {
    {"most", 5, 1, SAC_DRAFT_MOST, "tokens drafted at a time", SAC_WHOLE},
    {"adapt", 1, 0, 1, "1: as many as pay by the clock, down to none; 0: always `most`", SAC_WHOLE},
    {0}};

/* "eagle3:PATH", "eagle3:most=3,PATH", "eagle3:path=PATH": the path. */
static sac_status read_rest(const double *p, const char *rest, char line[SAC_DRAFT_REST_BYTES],
                            sac_error *err) {
    (void)p;
    if (!strncmp(rest, "path=", 5)) rest += 5;
    if (!rest[0])
        return sac_fail(err, SAC_BAD_ARGUMENT, "draft eagle3: which head? give eagle3:PATH, a folder");
    snprintf(line, SAC_DRAFT_REST_BYTES, "%s", rest);
    return SAC_OK;
}

const sac_draft_method sac_draft_eagle3 = {.name = "eagle3",
                                           .source = "Li et al. 2025, arXiv:2503.01840",
                                           .params = params,
                                           .from = SAC_DRAFT_OF_HEAD,
                                           .read_rest = read_rest};
