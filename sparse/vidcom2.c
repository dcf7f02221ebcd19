/* VidCom2: frames that are unlike the rest of a video keep more of its visual tokens; within one those stay that are unlike
 * the video and unlike their frame.
 *
 * Source: Liu et al., Video Compression Commander, EMNLP 2025, arXiv:2505.14454, and its published code. Of the rows, as the
 * language model would get them, the half of the channels that varies least over the video counts; rows are made as long as 1.
 * How like a centre c a row x is: G(x, c) = sum over k = -3..1 of exp(-|x - c|^2 / (2 * 2^k)); centres are the means of all
 * rows and of a frame's. A frame is as unique as u = -mean of its rows' G to the video's centre. Frame f keeps rate * (1 +
 * softmax(u / temperature)_f - 1 / T) of its P tokens, at most all: those with the lowest sum of both G.
 *
 * Ours: the published code rounds each frame's share by itself, so that the number of tokens depends on what the video shows.
 * Here max(T, floor(T P rate + 1/2)) stay in all and frames get whole parts of their shares, at least 1, then one at a time where
 * the most is missing (also what a full frame cannot take). Of equal channels and tokens the earlier stays; sums are in double. */
#include "reduce.h"

#include <math.h>
#include <string.h>

enum { RATE, TEMPERATURE };
enum { FIRST_SCALE = -3, LAST_SCALE = 1 };

static const sac_method_param params[] = {
    [RATE] = {"rate", 0.25, 0.001, 1, "share of a video's visual tokens that stay", NULL},
    [TEMPERATURE] = {"temperature", 0.01, 0.0001, 1000, "of the softmax over frames: higher is more even",
                     NULL},
    {0}};

/* All of [n_tiles] or [cols] or so many cells. */
typedef struct vidcom2 {
    double *video, *frame; /* [cols] centres; before that means and variances of channels */
    double *unique, *want; /* [n_tiles] */
    double *like;          /* [n_tiles * cells] both G */
    uint64_t *keys;        /* [cells or cols, the larger] */
    int64_t *budget;       /* [n_tiles] */
    float *row;            /* [cols] */
    int32_t *channels;     /* [cols] */
} vidcom2;

static bool is_off(const double *p) {
    return p[RATE] >= 1;
}

static int64_t count(const double *p, const sac_reduce_video *v) {
    int64_t n = (int64_t)floor((double)(v->n_tiles * v->cells) * p[RATE] + 0.5);
    return n > v->n_tiles ? n : v->n_tiles;
}

static int64_t most_keys(const sac_reduce_video *v) {
    return v->cells > v->cols ? v->cells : v->cols;
}

static size_t state_bytes(const double *p, const sac_reduce_video *v) {
    (void)p;
    const size_t eights =
        2 * (size_t)v->cols + 3 * (size_t)v->n_tiles + (size_t)(v->n_tiles * v->cells) + (size_t)most_keys(v);
    return eights * 8 + (size_t)v->cols * (sizeof(float) + sizeof(int32_t));
}

static vidcom2 view(const sac_reduce_video *v, void *state) {
    vidcom2 s = {.video = state};
    s.frame = s.video + v->cols;
    s.unique = s.frame + v->cols;
    s.want = s.unique + v->n_tiles;
    s.like = s.want + v->n_tiles;
    s.keys = (uint64_t *)(s.like + v->n_tiles * v->cells);
    s.budget = (int64_t *)(s.keys + most_keys(v));
    s.row = (float *)(s.budget + v->n_tiles);
    s.channels = (int32_t *)(s.row + v->cols);
    return s;
}

/* The half of the channels with the lowest variance; how many. */
static int64_t choose_channels(vidcom2 *s, const sac_reduce_video *v, sac_mat rows) {
    const int64_t n = v->n_tiles * v->cells, half = v->cols / 2 > 0 ? v->cols / 2 : 1;
    double *mean = s->video, *variance = s->frame;
    memset(mean, 0, (size_t)v->cols * sizeof *mean);
    memset(variance, 0, (size_t)v->cols * sizeof *variance);
    for (int64_t i = 0; i < n; i++) {
        sac_reduce_row(rows, i, s->row);
        for (int64_t c = 0; c < v->cols; c++) mean[c] += (double)s->row[c] / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        sac_reduce_row(rows, i, s->row);
        for (int64_t c = 0; c < v->cols; c++) {
            double d = (double)s->row[c] - mean[c];
            variance[c] += d * d;
        }
    }
    for (int64_t c = 0; c < v->cols; c++) s->keys[c] = sac_reduce_key(-(float)variance[c], (int32_t)c);
    sac_reduce_take_best(s->keys, v->cols, s->channels, half);
    return half;
}

/* The chosen channels of row i to the front of s->row, and what makes them as long as 1. */
static double read_row(vidcom2 *s, sac_mat rows, int64_t i, int64_t n) {
    double squares = 0;
    sac_reduce_row(rows, i, s->row);
    for (int64_t c = 0; c < n; c++) {
        s->row[c] = s->row[s->channels[c]]; /* channels ascend */
        squares += (double)s->row[c] * (double)s->row[c];
    }
    return 1 / fmax(sqrt(squares), 1e-12);
}

static void add_mean(vidcom2 *s, sac_mat rows, int64_t first, int64_t n_rows, int64_t n, double share,
                     double *centre) {
    for (int64_t i = first; i < first + n_rows; i++) {
        const double scale = read_row(s, rows, i, n);
        for (int64_t c = 0; c < n; c++) centre[c] += (double)s->row[c] * scale * share;
    }
}

static double likeness(const vidcom2 *s, const double *centre, int64_t n, double scale) {
    double squares = 0, g = 0;
    for (int64_t c = 0; c < n; c++) {
        const double d = (double)s->row[c] * scale - centre[c];
        squares += d * d;
    }
    for (int k = FIRST_SCALE; k <= LAST_SCALE; k++) g += exp(-squares / (2 * ldexp(1, k)));
    return g;
}

static void judge_frame(vidcom2 *s, const sac_reduce_video *v, sac_mat rows, int64_t frame, int64_t n) {
    const int64_t first = frame * v->cells;
    double sum = 0;
    memset(s->frame, 0, (size_t)n * sizeof *s->frame);
    add_mean(s, rows, first, v->cells, n, 1 / (double)v->cells, s->frame);
    for (int64_t i = first; i < first + v->cells; i++) {
        const double scale = read_row(s, rows, i, n), g = likeness(s, s->video, n, scale);
        s->like[i] = g + likeness(s, s->frame, n, scale);
        sum += g;
    }
    s->unique[frame] = -sum / (double)v->cells;
}

/* Shares whose whole parts are more than there is, since frames have one at least, become smaller. */
static void leave_room(double *want, int64_t n, double room) {
    double whole = 0, all = 0;
    for (int64_t f = 0; f < n; f++) {
        whole += floor(want[f]);
        all += want[f];
    }
    for (int64_t f = 0; whole > room && f < n; f++) want[f] *= room / all;
}

/* Tokens of each frame. One stands aside for each, so that none is without. */
static void set_budgets(vidcom2 *s, const double *p, const sac_reduce_video *v, int64_t n_kept) {
    double most = -INFINITY, sum = 0;
    const double per = (double)v->cells, n = (double)v->n_tiles;
    for (int64_t f = 0; f < v->n_tiles; f++) most = fmax(most, s->unique[f]);
    for (int64_t f = 0; f < v->n_tiles; f++) sum += exp((s->unique[f] - most) / p[TEMPERATURE]);
    for (int64_t f = 0; f < v->n_tiles; f++) {
        const double share = exp((s->unique[f] - most) / p[TEMPERATURE]) / sum;
        s->want[f] = fmax(fmin(p[RATE] * (1 + share - 1 / n), 1) * per - 1, 0);
    }
    leave_room(s->want, v->n_tiles, (double)(n_kept - v->n_tiles));
    sac_reduce_split(n_kept - v->n_tiles, s->want, v->n_tiles, v->cells - 1, s->budget);
    for (int64_t f = 0; f < v->n_tiles; f++) s->budget[f]++;
}

static bool choose(const sac_reduce_run *run, const double *p, const sac_reduce_video *v, void *state,
                   int64_t n_seen, sac_mat rows, int32_t *kept, int64_t n_kept) {
    (void)run;
    vidcom2 s = view(v, state);
    const int64_t n = choose_channels(&s, v, rows), n_rows = n_seen * v->cells;
    memset(s.video, 0, (size_t)n * sizeof *s.video);
    add_mean(&s, rows, 0, n_rows, n, 1 / (double)n_rows, s.video);
    for (int64_t f = 0; f < v->n_tiles; f++) judge_frame(&s, v, rows, f, n);
    set_budgets(&s, p, v, n_kept);
    for (int64_t f = 0; f < v->n_tiles; f++) {
        for (int64_t i = 0; i < v->cells; i++)
            s.keys[i] = sac_reduce_key(-(float)s.like[f * v->cells + i], (int32_t)(f * v->cells + i));
        sac_reduce_take_best(s.keys, v->cells, kept, s.budget[f]);
        kept += s.budget[f];
    }
    return true;
}

const sac_reducer sac_reducer_vidcom2 = {
    .name = "vidcom2",
    .source = "Liu et al., EMNLP 2025, arXiv:2505.14454",
    .params = params,
    .is_off = is_off,
    .count_video = count,
    .needs_all = true,
    .state_bytes = state_bytes,
    .choose_video = choose,
};
