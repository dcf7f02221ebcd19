/* HiRED: a picture in several tiles keeps the visual tokens that its tower's class token looks at.
 *
 * Source: Arif et al., AAAI 2025, arXiv:2408.10945, and its published code. Of n tiles of N tokens, n * N *
 * rate stay. The tile that shows the whole picture gets the share `alpha`, N at most. What is left goes to
 * the parts in proportion to the whole picture's best N * (1 - alpha) tokens that fall into each, ranked by
 * the tower's first layer, which tells where there is content. Within a tile the tokens stay that the last
 * layer ranks best. There are no newline tokens between rows.
 *
 * Ours: parts cover the whole picture's grid as they lie in the picture; the published code cuts the flat
 * list of tokens instead, which makes horizontal strips (compat=strip). Rounding down loses a few tokens
 * there; here the remainder goes to the largest fractions, so that the number of tokens depends on the rate
 * alone and is known before the picture is encoded. A picture of one tile keeps its best N * rate. */
#include "reduce.h"

#include <assert.h>

enum { RATE, ALPHA, COMPAT };
enum { COMPAT_GRID, COMPAT_STRIP };

static const char *const compats[] = {"grid", "strip", NULL};
static const sac_method_param params[] = {
    [RATE] = {"rate", 0.2, 0.001, 1, "share of a picture's visual tokens that stay", NULL},
    [ALPHA] = {"alpha", 0.5, 0, 1, "share of these for the tile of the whole picture", NULL},
    [COMPAT] = {"compat", COMPAT_GRID, 0, 1, "where parts lie in the whole: grid, strip (published code)",
                compats},
    {0}};

static bool is_off(const double *p) {
    return p[RATE] >= 1;
}

static int64_t count(const double *set, const sac_reduce_picture *p) {
    int64_t n = (int64_t)((double)p->n_tiles * p->rows * p->columns * set[RATE]);
    return n > 0 ? n : 1;
}

/* Tokens of a tile that come before token i by (score descending, number ascending). */
static int64_t rank_of(const float *score, int64_t n, int64_t i) {
    int64_t rank = 0;
    for (int64_t j = 0; j < n; j++) rank += score[j] > score[i] || (score[j] == score[i] && j < i);
    return rank;
}

/* The part that a token of the whole picture lies in. */
static int part_of(const double *set, const sac_reduce_picture *p, int64_t token) {
    int64_t per = (int64_t)p->rows * p->columns;
    if ((int)set[COMPAT] == COMPAT_STRIP) return (int)(token * (p->n_tiles - 1) / per);
    int64_t x = token % p->columns * p->tiles_w / p->columns;
    int64_t y = token / p->columns * p->tiles_h / p->rows;
    return (int)(y * p->tiles_w + x);
}

/* Splits `rest` tokens over the parts by weight, none more than per. */
static void split(int64_t rest, const int64_t *weight, int n_parts, int64_t per, int64_t *budget) {
    double sum = 0, want[SAC_REDUCE_MAX_TILES];
    for (int k = 0; k < n_parts; k++) sum += (double)weight[k];
    for (int k = 0; k < n_parts; k++)
        want[k] = sum > 0 ? (double)rest * (double)weight[k] / sum : (double)rest / n_parts;
    sac_reduce_split(rest, want, n_parts, per, budget);
}

static void set_budgets(const double *set, const sac_reduce_picture *p, const float *first,
                        int64_t *budget) {
    int64_t per = (int64_t)p->rows * p->columns, total = count(set, p);
    int64_t weight[SAC_REDUCE_MAX_TILES] = {0}, room = per * (p->n_tiles - 1);
    budget[0] = total;
    if (p->n_tiles == 1) return;
    budget[0] = (int64_t)((double)total * set[ALPHA]);
    if (budget[0] > per) budget[0] = per;
    if (total - budget[0] > room) budget[0] = total - room;
    int64_t n_best = (int64_t)((double)per * (1 - set[ALPHA]));
    for (int64_t i = 0; i < per; i++)
        if (rank_of(first, per, i) < n_best) weight[part_of(set, p, i)]++;
    split(total - budget[0], weight, p->n_tiles - 1, per, budget + 1);
}

static void choose(const double *set, const sac_reduce_picture *p, const float *first, const float *last,
                   int64_t stride, int32_t *source) {
    int64_t per = (int64_t)p->rows * p->columns, budget[SAC_REDUCE_MAX_TILES], n = 0;
    assert(p->n_tiles >= 1 && p->n_tiles <= SAC_REDUCE_MAX_TILES && stride >= per);
    assert(p->n_tiles == 1 || p->tiles_w * p->tiles_h == p->n_tiles - 1);
    set_budgets(set, p, first, budget);
    for (int t = 0; t < p->n_tiles; t++)
        for (int64_t i = 0; i < per; i++)
            if (rank_of(last + t * stride, per, i) < budget[t]) source[n++] = (int32_t)(t * per + i);
    assert(n == count(set, p));
}

const sac_reducer sac_reducer_hired = {
    .name = "hired",
    .source = "Arif et al., AAAI 2025, arXiv:2408.10945",
    .params = params,
    .is_off = is_off,
    .count = count,
    .choose = choose,
};
