/* draft_model.c - a smaller model with the same tokens guesses (Leviathan et al. 2023, arXiv:2211.17192; Chen et al. 2023,
 * arXiv:2302.01318), always its likeliest token. Ours differs in one way: as in all drafts here the answer is what a step of the
 * large model chooses, with any sampling, bit for bit. */
#include "draft.h"

#include "status.h"

#include <stdio.h>
#include <string.h>

static const sac_method_param params[] = {
    {"most", 5, 1, SAC_DRAFT_MOST, "tokens drafted at a time", SAC_WHOLE},
    {"adapt", 1, 0, 1, "1: as many as pay by the clock, down to none; 0: always `most`", SAC_WHOLE},
    {0}};

/* "model:PATH", "model:most=3,PATH", "model:path=PATH": the path. */
static sac_status read_rest(const double *p, const char *rest, char line[SAC_DRAFT_REST_BYTES], sac_error *err) {
    (void)p;
    if (!strncmp(rest, "path=", 5)) rest += 5;
    if (!rest[0]) return sac_fail(err, SAC_BAD_ARGUMENT, "draft model: which? give model:PATH, a folder or a .gguf file");
    snprintf(line, SAC_DRAFT_REST_BYTES, "%s", rest);
    return SAC_OK;
}

const sac_draft_method sac_draft_model = {.name = "model",
                                          .source = "Leviathan et al. 2023, arXiv:2211.17192",
                                          .params = params,
                                          .from = SAC_DRAFT_OF_MODEL,
                                          .read_rest = read_rest};
