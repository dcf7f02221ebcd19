/* FlashVID's outer stages: of each frame the tokens that differ most stay as they are; the others are merged along trees through
 * time and then by density within their frame, and stand where their tree begins and their cluster has its centre.
 *
 * Source: Fan et al., ICLR 2026, arXiv:2602.08024, and its published code, with its choice by diversity alone ("div"). Rows are
 * those that the language model would get. A frame of P tokens gets b = ceil(P rate expansion).
 * 1. The video is cut where the cosine of the means of two frames is below `cut`, and where there would be fewer than `segments`
 *    parts, at the lowest of the other cosines.
 * 2. ceil(alpha b) tokens of each frame are picked: the one whose nearest other is the farthest by cosine, then again and again
 *    the one that is farthest from all picked.
 * 3. Within a part each token that is not picked looks for the nearest one of the frame before that is not; above a cosine of
 *    `merge` it goes into that, last frame first, but only as many of the nearest as leave b tokens a frame. A token that stays becomes the mean of its tree.
 * 4. What stays of a part's frames is to be b - ceil(alpha b) tokens a frame: each frame gets its share, and so many centres with the
 *    largest product of density, exp(-mean square distance to the k nearest, itself counted), and distance to the nearest denser one. The others join the nearest centre, which becomes the mean.
 *
 * Ours: the number of tokens is T b whatever the video shows (the published code rounds each frame's share up); a parent counts all
 * of a child's tree (there a child counts as one, so that longer chains come out too large); the picked ones of a part of one frame are
 * not merged once more; equal ones by their place in place of random noise. What looks into the tower (attention that weighs the picks) and
 * into the language model (FlashVID's inner stage) is left out: fastv is that. DeepStack's rows are not merged: a token keeps those of its place. */
#include "reduce.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { RATE, EXPANSION, ALPHA, CUT, SEGMENTS, MERGE, NEIGHBOURS };

static const sac_method_param params[] = {
    [RATE] = {"rate", 0.1, 0.001, 1, "share of a video's visual tokens that stay, before the expansion",
              NULL},
    [EXPANSION] = {"expansion", 1.25, 1, 10, "times as many, where a stage in the model drops more", NULL},
    [ALPHA] = {"alpha", 0.7, 0, 1, "share of these that are picked as they are", NULL},
    [CUT] = {"cut", 0.9, -1, 1, "cosine of two frames below which a new part begins", NULL},
    [SEGMENTS] = {"segments", 8, 1, 65536, "parts at least", SAC_WHOLE},
    [MERGE] = {"merge", 0.8, -1, 1, "cosine above which a token goes into one of the frame before", NULL},
    [NEIGHBOURS] = {"k", 7, 1, 64, "nearest tokens that density is measured by", SAC_WHOLE},
    {0}};

typedef struct flashvid {
    const sac_reduce_run *run;
    const double *p;
    const sac_reduce_video *v;
    int64_t budget, n_picked; /* of a frame */
    uint64_t *keys;           /* [n] or [cells] */
    double *near, *density;   /* [cells] distances; scores */
    double *far;              /* [cells][cells] distances */
    double *wish;             /* [n_tiles] */
    int64_t *share;           /* [n_tiles] */
    float *x;                 /* [n][cols] rows; sums, then means */
    float *length;            /* [n] of rows */
    float *mean;              /* [2][cols] of frames */
    float *likeness;          /* [n] cosine with the parent; [n_tiles] with the frame before */
    int32_t *parent;          /* [n] of a token in the frame before, or -1 */
    int32_t *count;           /* [n] of a tree */
    int32_t *list;            /* [cells] tokens of a frame that are left */
    int32_t *centre;          /* [cells] places in the list */
    uint8_t *is_cut;          /* [n_tiles] a part begins */
    uint8_t *is_picked;       /* [n] */
    uint8_t *goes;            /* [n] into its parent */
    uint8_t *is_kept;         /* [n] */
    sac_mat rows;             /* as they came */
    int64_t first, n_list;    /* of the tasks at hand: the frame's first token; of the list */
} flashvid;

static int64_t budget_of(const double *p, const sac_reduce_video *v) {
    const int64_t b = (int64_t)ceil((double)v->cells * p[RATE] * p[EXPANSION]);
    return b < v->cells ? b : v->cells;
}

static bool is_off(const double *p) {
    return p[RATE] * p[EXPANSION] >= 1;
}

static int64_t count(const double *p, const sac_reduce_video *v) {
    return v->n_tiles * budget_of(p, v);
}

/* A block at *at, or how far it would go. */
static void *block(uint8_t *base, size_t *at, size_t n_bytes) {
    const size_t first = *at;
    *at += (n_bytes + 7) & ~(size_t)7;
    return base ? base + first : NULL;
}

static size_t lay_out(flashvid *s, const double *p, const sac_reduce_video *v, void *state) {
    const size_t n = (size_t)(v->n_tiles * v->cells), cells = (size_t)v->cells, tiles = (size_t)v->n_tiles;
    size_t at = 0;
    *s = (flashvid){.p = p, .v = v, .budget = budget_of(p, v)};
    s->n_picked = (int64_t)ceil((double)s->budget * p[ALPHA]);
    s->keys = block(state, &at, n * sizeof *s->keys);
    s->near = block(state, &at, cells * sizeof *s->near);
    s->density = block(state, &at, cells * sizeof *s->density);
    s->far = block(state, &at, cells * cells * sizeof *s->far);
    s->wish = block(state, &at, tiles * sizeof *s->wish);
    s->share = block(state, &at, tiles * sizeof *s->share);
    s->x = block(state, &at, n * (size_t)v->cols * sizeof *s->x);
    s->length = block(state, &at, n * sizeof *s->length);
    s->mean = block(state, &at, 2 * (size_t)v->cols * sizeof *s->mean);
    s->likeness = block(state, &at, (n + tiles) * sizeof *s->likeness);
    s->parent = block(state, &at, n * sizeof *s->parent);
    s->count = block(state, &at, n * sizeof *s->count);
    s->list = block(state, &at, cells * sizeof *s->list);
    s->centre = block(state, &at, cells * sizeof *s->centre);
    s->is_cut = block(state, &at, tiles);
    s->is_picked = block(state, &at, n);
    s->goes = block(state, &at, n);
    s->is_kept = block(state, &at, n);
    return at;
}

static size_t state_bytes(const double *p, const sac_reduce_video *v) {
    flashvid s;
    return lay_out(&s, p, v, NULL);
}

static double dot(const float *x, const float *y, int64_t n) {
    double sum[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) sum[k] += (double)x[i + k] * (double)y[i + k];
    for (; i < n; i++) sum[0] += (double)x[i] * (double)y[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static double cosine(const float *x, double x_length, const float *y, double y_length, int64_t n) {
    return dot(x, y, n) / fmax(x_length * y_length, 1e-12);
}

static const float *row(const flashvid *s, int64_t i) {
    return s->x + i * s->v->cols;
}

static double likeness(const flashvid *s, int64_t i, int64_t k) {
    return cosine(row(s, i), (double)s->length[i], row(s, k), (double)s->length[k], s->v->cols);
}

/* ---------------------------------------------------------------- 1. parts */

static void mean_of_frame(const flashvid *s, int64_t frame, float *mean) {
    for (int64_t c = 0; c < s->v->cols; c++) {
        double sum = 0;
        for (int64_t i = 0; i < s->v->cells; i++) sum += (double)row(s, frame * s->v->cells + i)[c];
        mean[c] = (float)(sum / (double)s->v->cells);
    }
}

static void cut(flashvid *s) {
    const int64_t cols = s->v->cols, n = s->v->n_tiles;
    float *like = s->likeness + n * s->v->cells;
    int64_t n_parts = 1, n_others = 0;
    memset(s->is_cut, 0, (size_t)n);
    s->is_cut[0] = 1;
    mean_of_frame(s, 0, s->mean);
    for (int64_t f = 1; f < n; f++) {
        float *before = s->mean + (f - 1) % 2 * cols, *now = s->mean + f % 2 * cols;
        mean_of_frame(s, f, now);
        like[f] =
            (float)cosine(before, sqrt(dot(before, before, cols)), now, sqrt(dot(now, now, cols)), cols);
        s->is_cut[f] = like[f] < (float)s->p[CUT];
        if (s->is_cut[f])
            n_parts++;
        else
            s->keys[n_others++] = sac_reduce_key(-like[f], (int32_t)f);
    }
    int64_t more = (int64_t)s->p[SEGMENTS] - n_parts;
    if (more > n_others) more = n_others;
    for (int64_t k = 0; k < more; k++) { /* the lowest key is the lowest cosine */
        int64_t best = k;
        for (int64_t i = k + 1; i < n_others; i++)
            if (s->keys[i] < s->keys[best]) best = i;
        const uint64_t key = s->keys[best];
        s->keys[best] = s->keys[k];
        s->keys[k] = key;
        s->is_cut[(int32_t)(uint32_t)key] = 1;
    }
}

/* ---------------------------------------------------------------- 2. picks */

/* Of token i to those before it. */
static void measure_token(void *ctx, int64_t i, int thread) {
    const flashvid *s = ctx;
    const int64_t n = s->v->cells;
    (void)thread;
    for (int64_t k = 0; k <= i; k++)
        s->far[i * n + k] = s->far[k * n + i] = i == k ? 0 : 1 - likeness(s, s->first + i, s->first + k);
}

static void measure_frame(flashvid *s, int64_t first) {
    s->first = first;
    sac_reduce_each(s->run, s->v->cells, measure_token, s);
}

/* Of those that are not picked; a row of no numbers is as good as any. */
static int64_t farthest(const double *near, const uint8_t *is_picked, int64_t n) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (!is_picked[i] && (best < 0 || near[i] > near[best])) best = i;
    return best;
}

static void pick(flashvid *s, int64_t frame) {
    const int64_t n = s->v->cells, first = frame * n;
    if (s->n_picked == 0) return;
    measure_frame(s, first);
    for (int64_t i = 0; i < n; i++) {
        s->near[i] = INFINITY;
        for (int64_t k = 0; k < n; k++)
            if (k != i) s->near[i] = fmin(s->near[i], s->far[i * n + k]);
    }
    for (int64_t picked = 0; picked < s->n_picked; picked++) {
        const int64_t best = farthest(s->near, s->is_picked + first, n);
        s->is_picked[first + best] = s->is_kept[first + best] = 1;
        for (int64_t i = 0; i < n; i++) {
            const double d = s->far[best * n + i];
            if (picked == 0 || d < s->near[i]) s->near[i] = s->is_picked[first + i] ? -1 : d;
        }
        s->near[best] = -1;
    }
}

/* ---------------------------------------------------------------- 3. trees */

/* Of a token in the frame before, which is of the same part. */
static void find_parent(void *ctx, int64_t cell, int thread) {
    const flashvid *s = ctx;
    const int64_t i = s->first + cell;
    double most = -INFINITY;
    (void)thread;
    if (s->is_picked[i]) return;
    for (int64_t k = s->first - s->v->cells; k < s->first; k++) {
        const double like = s->is_picked[k] ? -INFINITY : likeness(s, i, k);
        if (like > most) most = like, s->parent[i] = (int32_t)k;
    }
    s->likeness[i] = (float)most;
}

static void find_parents(flashvid *s, int64_t frame) {
    const int64_t n = s->v->cells;
    s->first = frame * n;
    for (int64_t i = s->first; i < s->first + n; i++) s->parent[i] = -1;
    if (!s->is_cut[frame]) sac_reduce_each(s->run, n, find_parent, s);
}

/* Of a part of the frames [from, to). */
static void choose_who_goes(flashvid *s, int64_t from, int64_t to) {
    const int64_t n = s->v->cells, most = (to - from) * (n - s->budget);
    int64_t n_keys = 0;
    for (int64_t i = from * n; i < to * n; i++)
        if (s->parent[i] >= 0 && s->likeness[i] > (float)s->p[MERGE])
            s->keys[n_keys++] = sac_reduce_key(s->likeness[i], (int32_t)i);
    const int64_t n_go = n_keys < most ? n_keys : most;
    sac_reduce_sort(s->keys, n_keys);
    for (int64_t k = 0; k < n_go; k++) s->goes[(int32_t)(uint32_t)s->keys[k]] = 1;
}

static void add(float *to, const float *from, int64_t n) {
    for (int64_t c = 0; c < n; c++) to[c] += from[c];
}

static void grow_trees(flashvid *s, int64_t from, int64_t to) {
    const int64_t n = s->v->cells, cols = s->v->cols;
    for (int64_t i = to * n - 1; i >= from * n; i--) { /* children before their parents */
        float *mine = s->x + i * cols;
        if (s->goes[i]) {
            add(s->x + s->parent[i] * cols, mine, cols);
            s->count[s->parent[i]] += s->count[i];
        } else
            for (int64_t c = 0; c < cols; c++) mine[c] /= (float)s->count[i];
    }
}

/* ---------------------------------------------------------------- 4. clusters */

static int64_t list_left(flashvid *s, int64_t frame) {
    int64_t n = 0;
    for (int64_t i = frame * s->v->cells; i < (frame + 1) * s->v->cells; i++)
        if (!s->is_picked[i] && !s->goes[i]) s->list[n++] = (int32_t)i;
    return n;
}

/* Of the list's token i to those before it. */
static void measure_listed(void *ctx, int64_t i, int thread) {
    const flashvid *s = ctx;
    const int64_t n = s->n_list;
    const double scale = 1 / sqrt((double)s->v->cols);
    const float *x = row(s, s->list[i]);
    (void)thread;
    for (int64_t k = 0; k <= i; k++) {
        const float *y = row(s, s->list[k]);
        double squares = 0;
        for (int64_t c = 0; c < s->v->cols; c++)
            squares += ((double)x[c] - (double)y[c]) * ((double)x[c] - (double)y[c]);
        s->far[i * n + k] = s->far[k * n + i] = sqrt(squares) * scale;
    }
}

static void measure_list(flashvid *s, int64_t n) {
    s->n_list = n;
    sac_reduce_each(s->run, n, measure_listed, s);
}

/* exp(-mean square distance to the k nearest). */
static double density_at(flashvid *s, int64_t i, int64_t n, int64_t k) {
    double sum = 0;
    for (int64_t c = 0; c < n; c++) s->near[c] = s->far[i * n + c];
    for (int64_t t = 0; t < k; t++) {
        int64_t best = t;
        for (int64_t c = t + 1; c < n; c++)
            if (s->near[c] < s->near[best]) best = c;
        const double d = s->near[best];
        s->near[best] = s->near[t];
        sum += d * d;
    }
    return exp(-sum / (double)k);
}

static bool is_denser(const flashvid *s, int64_t a, int64_t b) {
    return s->density[a] > s->density[b] || (s->density[a] == s->density[b] && a < b);
}

/* The places in the list of n_centres of its n tokens, ascending. */
static void find_centres(flashvid *s, int64_t n, int64_t n_centres) {
    const int64_t asked = (int64_t)s->p[NEIGHBOURS], k = asked < n_centres ? asked : n_centres;
    double widest = 0;
    for (int64_t i = 0; i < n; i++) s->density[i] = density_at(s, i, n, k);
    for (int64_t i = 0; i < n * n; i++) widest = fmax(widest, s->far[i]);
    for (int64_t i = 0; i < n; i++) {
        double nearest = widest;
        for (int64_t c = 0; c < n; c++)
            if (is_denser(s, c, i)) nearest = fmin(nearest, s->far[i * n + c]);
        s->keys[i] = sac_reduce_key((float)(nearest * s->density[i]), (int32_t)i);
    }
    sac_reduce_take_best(s->keys, n, s->centre, n_centres);
}

/* Each of the list's tokens goes into the nearest centre. */
static void join_clusters(flashvid *s, int64_t n, int64_t n_centres) {
    const int64_t cols = s->v->cols;
    for (int64_t c = 0; c < n_centres; c++) {
        s->is_kept[s->list[s->centre[c]]] = 1;
        s->count[s->list[s->centre[c]]] = 1;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t best = 0;
        if (s->is_kept[s->list[i]]) continue;
        for (int64_t c = 1; c < n_centres; c++)
            if (s->far[i * n + s->centre[c]] < s->far[i * n + s->centre[best]]) best = c;
        const int32_t to = s->list[s->centre[best]];
        add(s->x + to * cols, row(s, s->list[i]), cols);
        s->count[to]++;
    }
    for (int64_t c = 0; c < n_centres; c++) {
        float *mine = s->x + s->list[s->centre[c]] * cols;
        for (int64_t k = 0; k < cols; k++) mine[k] /= (float)s->count[s->list[s->centre[c]]];
    }
}

/* What a part's frames may keep beside the picked ones, in proportion to what each has left. */
static void share_out(flashvid *s, int64_t from, int64_t to) {
    const int64_t rest = (to - from) * (s->budget - s->n_picked);
    int64_t n_left = 0;
    for (int64_t f = from; f < to; f++) n_left += s->share[f] = list_left(s, f);
    assert(n_left >= rest);
    for (int64_t f = from; f < to; f++)
        s->wish[f] = n_left ? (double)s->share[f] * (double)rest / (double)n_left : 0;
    sac_reduce_split(rest, s->wish + from, to - from, s->v->cells, s->share + from);
}

static void cluster(flashvid *s, int64_t frame) {
    const int64_t n = list_left(s, frame), n_centres = s->share[frame];
    if (n_centres == 0) return;
    assert(n_centres <= n);
    measure_list(s, n);
    find_centres(s, n, n_centres);
    join_clusters(s, n, n_centres);
}

/* ---------------------------------------------------------------- the video */

/* A frame is a piece. */
static bool each_frame(flashvid *s, int64_t from, int64_t to, void (*piece)(flashvid *s, int64_t frame)) {
    for (int64_t f = from; f < to; f++) {
        if (sac_reduce_is_stopped(s->run)) return false;
        piece(s, f);
    }
    return true;
}

static bool run_part(flashvid *s, int64_t from, int64_t to) {
    if (!each_frame(s, from, to, pick) || !each_frame(s, from, to, find_parents)) return false;
    choose_who_goes(s, from, to);
    grow_trees(s, from, to);
    share_out(s, from, to);
    return each_frame(s, from, to, cluster);
}

static void read_token(void *ctx, int64_t i, int thread) {
    const flashvid *s = ctx;
    (void)thread;
    sac_reduce_row(s->rows, i, s->x + i * s->v->cols);
    s->length[i] = (float)sqrt(dot(row(s, i), row(s, i), s->v->cols));
    s->count[i] = 1;
}

static bool choose(const sac_reduce_run *run, const double *p, const sac_reduce_video *v, void *state,
                   int64_t n_seen, sac_mat rows, int32_t *kept, int64_t n_kept) {
    flashvid s;
    lay_out(&s, p, v, state);
    s.run = run;
    s.rows = rows;
    const int64_t n = n_seen * v->cells;
    sac_reduce_each(run, n, read_token, &s);
    cut(&s);
    for (int64_t from = 0, to; from < v->n_tiles; from = to) {
        for (to = from + 1; to < v->n_tiles && !s.is_cut[to];) to++;
        if (!run_part(&s, from, to)) return false;
    }
    int64_t k = 0;
    for (int64_t i = 0; i < n && k < n_kept; i++) {
        if (!s.is_kept[i]) continue;
        if (!s.is_picked[i]) sac_reduce_put_row(rows, i, row(&s, i));
        kept[k++] = (int32_t)i;
    }
    assert(k == n_kept);
    return true;
}

/* Every pair of cells of a frame, and of two frames that follow one another. */
static double work(const double *p, const sac_reduce_video *v) {
    (void)p;
    return 1.5 * (double)v->n_tiles * (double)v->cells * (double)v->cells * (double)v->cols;
}

const sac_reducer sac_reducer_flashvid = {
    .name = "flashvid",
    .source = "Fan et al., ICLR 2026, arXiv:2602.08024",
    .params = params,
    .is_off = is_off,
    .count_video = count,
    .needs_all = true,
    .changes_rows = true,
    .state_bytes = state_bytes,
    .choose_video = choose,
    .work = work,
};
