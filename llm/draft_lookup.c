/* draft_lookup.c - the next tokens are those that followed the last time the same ones stood here.
 * Prompt lookup decoding (Saxena 2023); Yang et al. 2023, "Inference with Reference" (arXiv:2304.04487), copy from
 * a given text in the same way. The longest run of tokens that ends the sequence, at most n, is looked for in what
 * is before it, prompt and answer; of equally long ones the last is taken. Ours differs in one way: a run that
 * reaches into its own end goes on as a period, so that what repeats every two tokens fills a whole draft. */
#include "draft.h"

enum { P_MOST, P_N, P_LEAST };
#define LONGEST 16

static const sac_method_param params[] = {
    {"most", 7, 1, SAC_DRAFT_MOST, "tokens drafted at a time", SAC_WHOLE},
    {"n", 3, 1, LONGEST, "tokens that are looked for, at most", SAC_WHOLE},
    {"least", 2, 1, LONGEST, "tokens that must have been found; n, if that is less", SAC_WHOLE},
    {0}};

/* How many tokens before `end` equal the last ones of ids [n], at most `most`. */
static int64_t equal_before(const int32_t *ids, int64_t n, int64_t end, int64_t most) {
    int64_t k = 0;
    while (k < most && k < end && ids[end - 1 - k] == ids[n - 1 - k]) k++;
    return k;
}

static int propose(const double *p, const int32_t *ids, int64_t n, int most, int32_t *out) {
    int64_t longest = (int64_t)p[P_N], least = (int64_t)p[P_LEAST], at = 0;
    int64_t best = (least < longest ? least : longest) - 1;
    for (int64_t end = n - 1; end > 0 && best < longest; end--) {
        int64_t k = equal_before(ids, n, end, longest);
        if (k > best) best = k, at = end;
    }
    if (!at) return 0;
    for (int i = 0; i < most; i++) out[i] = at + i < n ? ids[at + i] : out[at + i - n];
    return most;
}

const sac_draft_method sac_draft_lookup = {.name = "lookup",
                                           .source = "Saxena 2023; Yang et al. 2023, arXiv:2304.04487",
                                           .params = params,
                                           .propose = propose};
