#include "check.h"
#include "packed_rows.h"

#include <math.h>
#include <stdlib.h>

#define EPS 0x1p-24

typedef struct packed_shape {
    int64_t n[4], capacity[4]; /* of up to four parts */
    int bits[4];
    int n_heads, n_kv_heads, head_dim;
    int64_t k_group; /* -1: one for all rows of a part */
    int v_group;     /* -1: over all heads */
    bool channel;
} packed_shape;

/* Narrow last tiles, padded words of values, ranges by channel, by row and by groups of rows, heads that are
 * no multiple of a vector, several parts in one run, groups of 1, 3, 7, 8 and 9 heads. */
static const packed_shape shapes[] = {
    {{1}, {1}, {4}, 1, 1, 16, -1, -1, true},
    {{5, 11}, {5, 11}, {4, 2}, 2, 1, 8, -1, -1, true},
    {{17, 83}, {17, 83}, {4, 2}, 6, 2, 64, -1, -1, true},
    {{130, 401}, {130, 401}, {4, 2}, 6, 2, 64, -1, -1, true},
    {{130, 401}, {130, 401}, {4, 2}, 6, 2, 64, 32, -1, true},
    {{600, 1100, 37, 63}, {600, 1100, 37, 63}, {4, 2, 4, 2}, 14, 2, 64, -1, -1, true},
    {{700, 0, 90}, {700, 1, 90}, {8, 2, 8}, 4, 4, 80, -1, -1, true},
    {{1537, 1000}, {1537, 1000}, {4, 2}, 28, 4, 128, -1, -1, true},
    {{257}, {640}, {4}, 8, 1, 64, 0, 64, false},
    {{300}, {320}, {4}, 7, 7, 24, 0, 24, false},
    {{96, 300}, {96, 320}, {2, 4}, 9, 1, 64, 32, 32, false},
    {{1000}, {1024}, {2}, 6, 2, 80, 32, 32, false},
    {{515}, {2048}, {4}, 4, 2, 96, 128, 64, false},
    {{1030}, {1536}, {8}, 3, 1, 256, 512, 128, false},
};
#define N_SHAPES ((int)SAC_COUNT(shapes))

/* Halves between low and high. */
static uint16_t *halves(check_case *c, uint16_t **at, int64_t n, double low, double high) {
    uint16_t *h = *at;
    *at += n;
    for (int64_t i = 0; i < n; i++) h[i] = sac_f32_to_f16((float)(low + (high - low) * check_rand_unit(c)));
    return h;
}

static int64_t n_key_ranges(const sac_packed_rows *p) {
    int64_t groups = p->k_group ? (p->capacity + p->k_group - 1) / p->k_group : 0;
    return p->n_heads * (p->k_group ? groups * p->head_dim : p->capacity);
}
static int64_t n_value_ranges(const sac_packed_rows *p) {
    return sac_packed_value_groups(p->n_heads, p->head_dim, p->v_group) * p->capacity;
}

/* Random codes under sane ranges; one buffer of words and one of halves for all parts, of which there may be
 * more than the shape names. */
static void make_parts(check_case *c, const packed_shape *sh, int n_parts, int n_named) {
    int64_t n_words = 0, n_halves = 0, d = sh->head_dim;
    for (int i = 0; i < n_parts; i++) {
        sac_packed_rows *p = &c->parts[i];
        int j = i % n_named;
        *p = (sac_packed_rows){.n = sh->n[j], .capacity = sh->capacity[j], .bits = sh->bits[j]};
        p->n_heads = sh->n_kv_heads;
        p->head_dim = sh->head_dim;
        p->k_group = sh->k_group < 0 ? p->capacity : sh->k_group;
        p->v_group = sh->v_group < 0 ? sh->n_kv_heads * sh->head_dim : sh->v_group;
        n_words += (int64_t)sac_packed_key_words(p->n_heads, p->head_dim, p->bits, p->capacity) +
                   (int64_t)sac_packed_value_words(p->n_heads, p->head_dim, p->bits, p->capacity);
        n_halves += 2 * n_key_ranges(p) + 2 * n_value_ranges(p) + d * p->n_heads;
    }
    uint32_t *words = check_buffer_add(c, false, SAC_DTYPE_F32, 1, n_words, n_words, 4);
    uint16_t *half = check_buffer_add(c, false, SAC_DTYPE_F16, 1, n_halves, n_halves, 2);
    for (int64_t i = 0; i < n_words; i++) words[i] = (uint32_t)check_rand(&c->rng);
    for (int i = 0; i < n_parts; i++) {
        sac_packed_rows *p = &c->parts[i];
        double step = 2.0 / ((1 << p->bits) - 1);
        p->k = words;
        words += sac_packed_key_words(p->n_heads, p->head_dim, p->bits, p->capacity);
        p->v = words;
        words += sac_packed_value_words(p->n_heads, p->head_dim, p->bits, p->capacity);
        p->k_scale = halves(c, &half, n_key_ranges(p), 0, step);
        p->k_min = halves(c, &half, n_key_ranges(p), -1, 0);
        p->v_scale = halves(c, &half, n_value_ranges(p), 0, step);
        p->v_min = halves(c, &half, n_value_ranges(p), -1, 0);
        if (sh->channel) p->v_channel = halves(c, &half, d * p->n_heads, 0.1, 2);
    }
}

/* Keys and values are at most 1 and 2 in size. A score's q is rounded to 2^-16 of its largest element times
 * its scale (a code's share is at most 2), independently for d channels; the output moves by twice that times
 * 2, and by weights rounded to 2^-16 of the largest, for n rows. */
static void allow_packed(check_case *c, int64_t n_rows) {
    const sac_packed_attention_args *a = &c->packed_attention;
    int64_t d = c->parts[0].head_dim, n = a->n_heads * (a->o ? d : n_rows + 1); /* scores, then lse */
    double q_max = 0;
    for (int64_t i = 0; i < a->n_heads * d; i++) q_max = fmax(q_max, fabs((double)a->q[i]));
    double score = 2 * q_max * (double)a->scale * sqrt((double)d) * (0x1p-15 + 2 * EPS * sqrt((double)d));
    double out = 2 * (2 * score + sqrt((double)n_rows) * (0x1p-15 + EPS));
    if (a->scores && a->o) out = 2 * (sqrt((double)n_rows) * (0x1p-15 + EPS) + 4 * EPS);
    if (a->weights && !a->o) score *= 2; /* of what is at most 1 */
    double *allowed = check_allow(c, n);
    for (int64_t i = 0; i < n; i++) allowed[i] = a->o ? out : score + 4 * EPS;
    c->relative = 4 * EPS;
}

/* Modes: the output alone; scores with lse; the output from given scores, of rows above a threshold; the
 * last two with weights. */
bool check_make_packed(check_case *c, int i, bool quick) {
    const packed_shape *sh = &shapes[i % N_SHAPES];
    int mode = i / N_SHAPES, n_parts = 0;
    int64_t n_rows = 0, cols = (int64_t)sh->n_heads * sh->head_dim;
    bool weights = mode > 2;
    if (mode >= 5) return false;
    if (quick && sh->n[0] > 1500 && mode != 0) return true;
    if (weights) mode -= 2;
    while (n_parts < 4 && sh->capacity[n_parts]) n_rows += sh->n[n_parts++];
    make_parts(c, sh, n_parts, n_parts);
    sac_packed_attention_args *a = &c->packed_attention;
    check_values v = check_rand_int(c, 0, 1) ? CHECK_UNIFORM : CHECK_OUTLIERS;
    *a = (sac_packed_attention_args){
        .parts = c->parts, .n_parts = n_parts, .n_heads = sh->n_heads, .weights = weights};
    a->scale = 1 / sqrtf((float)sh->head_dim);
    a->stride = n_rows + 3;
    if (mode == 0) a->q = a->o = check_mat(c, true, 1, cols, 0, 4, v).data; /* in place */
    if (mode != 0) a->q = check_mat(c, false, 1, cols, 0, 4, v).data;
    if (mode == 1) {
        a->scores = check_mat(c, true, sh->n_heads, n_rows, 3, 4, v).data;
        a->lse = check_mat(c, true, 1, sh->n_heads, 0, 4, v).data;
    }
    if (mode == 2) {
        a->o = check_mat(c, true, 1, cols, 0, 4, v).data;
        a->scores = check_mat(c, false, sh->n_heads, n_rows, 3, 4, CHECK_UNIFORM).data;
        float *least = check_mat(c, false, 1, sh->n_heads, 0, 4, CHECK_UNIFORM).data;
        if (sh->n_heads > 1) least[sh->n_heads - 1] = 2; /* nothing counts */
        for (int64_t j = 0; weights && j < sh->n_heads * a->stride - 3; j++)
            if (j % a->stride < n_rows) a->scores[j] = fabsf(a->scores[j]);
        a->min_score = least;
    }
    c->same_bits = true;
    allow_packed(c, n_rows);
    snprintf(c->text, sizeof c->text,
             "mode %d%s parts=%d rows=%lld bits=%d heads=%d/%d d=%d k_group=%lld v_group=%d %s", mode,
             weights ? " weights" : "", n_parts, (long long)n_rows, sh->bits[0], sh->n_heads, sh->n_kv_heads,
             sh->head_dim, (long long)sh->k_group, sh->v_group, check_values_name(v));
    return true;
}

/* ---------------------------------------------------------------- scores alone */

/* Of all rows; of lists; of lists whose keys are turned. Heads of 64 and 128 channels in 4 bits with a range
 * a row, rows about the size of a tile and many, groups of 1, 3, 7, 8 and 9 heads. */
static const struct scores_shape {
    packed_shape packed;
    int64_t n; /* 0: all rows */
    int n_lists, rot_dim;
    bool interleaved;
} scores_shapes[] = {
    {{{1003}, {1024}, {4}, 28, 4, 128, 0, -1, false}, 0, 0, 0, false},
    {{{7001}, {7008}, {4}, 14, 2, 128, 0, -1, false}, 0, 0, 0, false},
    {{{64}, {80}, {4}, 8, 8, 64, 0, -1, false}, 0, 0, 0, false},
    {{{15}, {16}, {4}, 8, 1, 64, 0, -1, false}, 0, 0, 0, false},
    {{{1}, {48}, {4}, 28, 4, 128, 0, -1, false}, 0, 0, 0, false},
    {{{100}, {100}, {4}, 6, 2, 128, 0, -1, false}, 0, 0, 0, false},
    {{{300}, {320}, {4}, 9, 1, 128, 0, -1, false}, 0, 0, 0, false},
    {{{333}, {340}, {2}, 6, 2, 64, 0, -1, false}, 0, 0, 0, false},
    {{{90}, {99}, {8}, 3, 3, 80, 0, -1, false}, 0, 0, 0, false},
    {{{130}, {256}, {4}, 4, 2, 72, 64, -1, false}, 0, 0, 0, false},
    {{{900}, {912}, {4}, 28, 4, 128, 0, -1, false}, 333, 1, 0, false},
    {{{900}, {912}, {4}, 28, 4, 128, 0, -1, false}, 333, 1, 128, false},
    {{{900}, {901}, {4}, 8, 2, 64, 0, -1, false}, 65, 2, 64, true},
    {{{60}, {60}, {4}, 6, 2, 80, 0, -1, false}, 33, 6, 40, false},
    {{{60}, {77}, {2}, 7, 1, 24, 0, -1, false}, 31, 7, 0, false},
    {{{2000}, {2016}, {4}, 8, 8, 128, 0, -1, false}, 0, 0, 0, false},
    {{{777}, {784}, {4}, 8, 2, 64, 0, -1, false}, 0, 0, 0, false},
    {{{530}, {544}, {4}, 8, 1, 80, 0, -1, false}, 0, 0, 0, false},
    {{{5003}, {5008}, {4}, 7, 1, 64, 0, -1, false}, 0, 0, 0, false},
};
#define N_SCORES ((int)SAC_COUNT(scores_shapes))

/* n of the rows, ascending, a list after the other; and turns. */
static void make_places(check_case *c, const struct scores_shape *sh) {
    sac_packed_scores_args *a = &c->packed_scores;
    int64_t all = sh->n * sh->n_lists;
    int32_t *rows = check_buffer_add(c, false, SAC_DTYPE_F32, 1, all, all, 4);
    for (int i = 0; i < sh->n_lists; i++)
        for (int64_t row = 0, left = sh->n; left > 0; row++)
            if (check_rand_int(c, 0, a->keys.n - row - 1) < left)
                rows[(i + 1) * sh->n - left--] = (int32_t)row;
    a->rows = rows;
    a->n_lists = sh->n_lists;
    if (!sh->rot_dim) return;
    int32_t *turn = check_buffer_add(c, false, SAC_DTYPE_F32, 1, all, all, 4);
    for (int64_t i = 0; i < all; i++) turn[i] = (int32_t)check_rand_int(c, 0, 59);
    a->turn_back = turn;
    a->rotation = check_rotation(c, 60, sh->rot_dim, sh->interleaved, 1.25f);
}

bool check_make_packed_scores(check_case *c, int i) {
    if (i >= 4 * N_SCORES) return false;
    const struct scores_shape *sh = &scores_shapes[i % N_SCORES];
    const packed_shape *p = &sh->packed;
    sac_packed_scores_args *a = &c->packed_scores;
    bool sums = i >= 2 * N_SCORES; /* from a row on, the beginning of a tile or any, where there is no list */
    int64_t n = sh->n ? sh->n : p->n[0], gap = i < N_SCORES ? 0 : check_rand_int(c, 1, 5), first = 0;
    if (sums && !sh->n) first = i < 3 * N_SCORES ? n / 3 / 16 * 16 : check_rand_int(c, 0, n - 1);
    n -= first;
    make_parts(c, p, 1, 1);
    *a = (sac_packed_scores_args){
        .first = first, .n = n, .stride = n + gap, .keys = c->parts[0], .n_heads = p->n_heads, .n_lists = 1};
    a->keys.v = NULL;
    a->scale = 1 / sqrtf((float)p->head_dim);
    a->q = check_mat(c, false, 1, (int64_t)p->n_heads * p->head_dim, 0, 0,
                     i < N_SCORES ? CHECK_UNIFORM : CHECK_OUTLIERS);
    a->scores = check_mat(c, true, p->n_heads, n, gap, 4, CHECK_UNIFORM).data;
    if (sh->n_lists) make_places(c, sh);
    double q_max = 0, d = p->head_dim;
    for (int64_t j = 0; j < a->q.cols; j++) q_max = fmax(q_max, fabs((double)sac_mat_row_f32(a->q, 0)[j]));
    if (sums) a->lse = check_mat(c, true, 1, p->n_heads, 0, 4, CHECK_UNIFORM).data;
    double *allowed = check_allow(c, p->n_heads * (n + 1)); /* keys are at most 2 in size, turned ones 2.5 */
    double rounded =
        a->turn_back ? 0 : 2 * q_max * (double)a->scale * sqrt(d) * 0x1p-15; /* see allow_packed */
    for (int64_t j = 0; j < p->n_heads * n; j++)
        allowed[j] = EPS * 2.5 * q_max * d * (double)a->scale * (8 + sqrt(d)) / sqrt(d) + rounded;
    for (int h = 0; h < p->n_heads; h++) /* a logarithm is off by that and its own rounding */
        allowed[p->n_heads * n + h] = allowed[0] + EPS * (32 + 4 * 2.5 * q_max * d * (double)a->scale);
    c->same_bits = true;
    a->skip = check_skip(c, i);
    snprintf(c->text, sizeof c->text,
             "n=%lld from %lld of %lld, bits=%d heads=%d/%d d=%d k_group=%lld lists=%d rot=%d%s",
             (long long)n, (long long)first, (long long)p->n[0], p->bits[0], p->n_heads, p->n_kv_heads,
             p->head_dim, (long long)p->k_group, sh->n_lists, sh->rot_dim,
             sh->interleaved ? " interleaved" : "");
    return true;
}

/* The last have more heads than a card's kernel takes, and more rows than a block of it votes for at once. */
static const packed_shape vote_shapes[] = {
    {{1003}, {1024}, {4}, 28, 4, 128, 0, -1, false},  {{7001}, {7008}, {4}, 14, 2, 128, 0, -1, false},
    {{64}, {80}, {4}, 8, 8, 64, 0, -1, false},        {{15}, {16}, {4}, 8, 1, 64, 0, -1, false},
    {{1}, {48}, {4}, 28, 4, 128, 0, -1, false},       {{9001}, {9008}, {4}, 32, 8, 128, 0, -1, false},
    {{2000}, {2016}, {4}, 16, 16, 128, 0, -1, false}, {{5003}, {5008}, {4}, 7, 1, 64, 0, -1, false},
    {{900}, {912}, {4}, 40, 8, 128, 0, -1, false},    {{300003}, {300016}, {4}, 4, 1, 64, 0, -1, false},
};
#define N_VOTES ((int)SAC_COUNT(vote_shapes))

bool check_make_packed_vote(check_case *c, int i, bool quick) {
    if (i >= 3 * (quick ? N_VOTES - 1 : N_VOTES)) return false;
    const packed_shape *p = &vote_shapes[i / 3];
    sac_packed_vote_args *a = &c->packed_vote;
    int64_t first = i % 3 == 0   ? 0
                    : i % 3 == 1 ? p->n[0] / 3 / SAC_PACKED_TILE * SAC_PACKED_TILE
                                 : check_rand_int(c, 0, p->n[0] - 1);
    make_parts(c, p, 1, 1);
    *a = (sac_packed_vote_args){.first = first, .n = p->n[0] - first, .keys = c->parts[0]};
    a->n_heads = p->n_heads;
    a->keys.v = NULL;
    a->scale = 1 / sqrtf((float)p->head_dim);
    a->q = check_mat(c, false, 1, (int64_t)p->n_heads * p->head_dim, 0, 0,
                     i % 3 == 0 ? CHECK_UNIFORM : CHECK_OUTLIERS);
    a->votes = check_mat(c, true, 1, a->n, 0, 4, CHECK_UNIFORM).data;
    a->stride = a->n + check_rand_int(c, 0, 5);
    a->scores = check_mat(c, true, p->n_heads, a->n, a->stride - a->n, 4, CHECK_UNIFORM).data;
    a->lse = check_mat(c, true, 1, p->n_heads, 0, 4, CHECK_UNIFORM).data;
    double q_max = 0, d = p->head_dim, *allowed = check_allow(c, a->n + p->n_heads * (a->n + 1));
    for (int64_t j = 0; j < p->n_heads * (a->n + 1); j++) allowed[a->n + j] = INFINITY; /* room */
    for (int64_t j = 0; j < a->q.cols; j++) q_max = fmax(q_max, fabs((double)sac_mat_row_f32(a->q, 0)[j]));
    for (int64_t j = 0; j < a->n; j++) /* of a score, of lse, and their own rounding */
        allowed[j] = EPS * 2.5 * q_max * d * (double)a->scale * (2 * (8 + sqrt(d)) / sqrt(d) + 8) + EPS * 64 +
                     4 * q_max * (double)a->scale * sqrt(d) * 0x1p-15;
    c->same_bits = true;
    a->skip = check_skip(c, i);
    snprintf(c->text, sizeof c->text, "n=%lld from %lld, heads=%d/%d d=%d", (long long)a->n, (long long)first,
             p->n_heads, p->n_kv_heads, p->head_dim);
    return true;
}

/* ---------------------------------------------------------------- with a plain tail */

/* Parts of one range a channel and whole rows, as blocks of a cache have them, and others; more parts than a
 * launch takes; several tiles for every warp of a card; tails about the size of their tiles; at last, ranges
 * that all begin on lines of 16 bytes. */
static const struct step_shape {
    packed_shape packed;
    int repeat;
    int64_t n_tail;
    bool by_head; /* the tail's order of rows and heads */
} step_shapes[] = {
    {{{17, 83}, {17, 83}, {4, 2}, 6, 2, 64, -1, -1, true}, 1, 1, true},
    {{{1537, 1000}, {1537, 1000}, {4, 2}, 28, 4, 128, -1, -1, true}, 1, 33, true},
    {{{600, 1100, 37, 63}, {600, 1100, 37, 63}, {4, 2, 4, 2}, 14, 2, 64, -1, -1, true}, 1, 100, true},
    {{{9}, {9}, {2}, 8, 1, 128, -1, -1, true}, 1, 5, false},
    {{{64, 64}, {64, 64}, {4, 2}, 9, 1, 128, -1, -1, true}, 1, 32, true},
    {{{65}, {65}, {4}, 7, 1, 128, -1, -1, false}, 1, 31, false},
    {{{130, 71}, {130, 71}, {2, 4}, 16, 2, 128, -1, -1, true}, 1, 64, true},
    {{{130, 71}, {130, 71}, {2, 4}, 16, 2, 128, 32, -1, true}, 1, 64, true},
    {{{42, 58}, {42, 58}, {4, 2}, 14, 2, 128, -1, -1, true}, 18, 99, true},
    {{{33, 40}, {33, 40}, {4, 2}, 4, 4, 64, -1, -1, true}, 1, 0, true},
    {{{5000}, {5000}, {2}, 4, 4, 128, -1, -1, true}, 1, 16, true},
    {{{14001, 30011}, {14001, 30011}, {4, 2}, 16, 16, 64, -1, -1, true}, 1, 50, true},
    {{{700, 0, 90}, {700, 1, 90}, {8, 2, 8}, 4, 4, 80, -1, -1, true}, 1, 40, true},
    {{{300}, {320}, {4}, 7, 7, 24, 0, 24, false}, 1, 12, false},
    {{{0}, {0}, {0}, 28, 4, 128, -1, -1, false}, 1, 70, true},
    {{{96}, {96}, {4}, 6, 2, 128, 32, -1, false}, 1, 7, true},
    {{{1000, 2008}, {1000, 2008}, {4, 2}, 8, 2, 64, -1, -1, true}, 1, 20, true},
    {{{2000, 1496}, {2000, 1496}, {4, 2}, 7, 1, 128, -1, -1, false}, 1, 3, true},
};

/* Rows of the tail, and some more. */
static sac_kv_view make_tail(check_case *c, const struct step_shape *sh, sac_dtype t) {
    const packed_shape *p = &sh->packed;
    int64_t rows = sh->n_tail + 3, cols = (int64_t)p->n_kv_heads * p->head_dim, n = rows * cols;
    sac_kv_view kv = {.dtype = t, .n_heads = p->n_kv_heads, .head_dim = p->head_dim, .n_rows = sh->n_tail};
    kv.row_stride = sh->by_head ? p->head_dim : cols;
    kv.head_stride = sh->by_head ? rows * p->head_dim : p->head_dim;
    for (int i = 0; i < 2; i++) {
        uint8_t *x = check_buffer_add(c, false, t, 1, n, n, 0);
        for (int64_t j = 0; j < n; j++) {
            float f = (float)(2 * check_rand_unit(c) - 1);
            uint16_t h = t == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
            memcpy(x + j * (t == SAC_DTYPE_F32 ? 4 : 2), t == SAC_DTYPE_F32 ? (void *)&f : (void *)&h,
                   t == SAC_DTYPE_F32 ? 4 : 2);
        }
        if (i)
            kv.v = x;
        else
            kv.k = x;
    }
    return kv;
}

/* As allow_packed; values are at most 4 (a factor of 2 and codes up to 2). Of the output, then of lse where
 * there is one. */
static void allow_step(check_case *c, const sac_packed_step_args *a, int64_t n_rows, double *allowed) {
    int64_t d = a->tail.head_dim, cols = a->n_heads * d;
    double score = 2 * (double)a->scale * sqrt((double)d) * (0x1p-15 + 2 * EPS * sqrt((double)d));
    for (int64_t j = 0; j < cols; j++) allowed[j] = 2 * (2 * score + sqrt((double)n_rows) * (0x1p-15 + EPS));
    for (int64_t j = 0; a->lse && j < a->n_heads; j++) allowed[cols + j] = score + 4 * EPS;
    c->relative = 4 * EPS;
}

/* Weights of the parts' rows, some of them 0, of which about two in three count. */
static void make_weights(check_case *c, sac_packed_step_args *a, int64_t n_rows) {
    a->stride = n_rows + 3;
    float *weights = check_mat(c, false, a->n_heads, a->stride, 0, 4, CHECK_UNIFORM).data;
    float *least = check_mat(c, false, 1, a->n_heads, 0, 0, CHECK_UNIFORM).data;
    for (int64_t j = 0; j < a->n_heads * a->stride; j++)
        weights[j] = check_rand_int(c, 0, 9) ? (float)check_rand_unit(c) / (float)a->stride : 0;
    for (int h = 0; h < a->n_heads; h++) least[h] = h % 3 == 2 ? 0 : 0.3f / (float)a->stride;
    a->weights = weights;
    a->least = least;
    a->lse_parts = check_mat(c, false, 1, a->n_heads, 0, 0, CHECK_UNIFORM).data;
}

/* Every shape twice: with keys, and with weights in their place. */
bool check_make_packed_step(check_case *c, int i, sac_dtype t) {
    if (i >= check_n_packed_steps()) return false;
    const bool weighed = i >= (int)SAC_COUNT(step_shapes);
    const struct step_shape *sh = &step_shapes[i % (int)SAC_COUNT(step_shapes)];
    const packed_shape *p = &sh->packed;
    sac_packed_step_args *a = &c->packed_step;
    int n_named = 0;
    int64_t n_rows = sh->n_tail, d = p->head_dim, cols = p->n_heads * d;
    while (n_named < 4 && p->capacity[n_named]) n_rows += sh->repeat * p->n[n_named++];
    *a = (sac_packed_step_args){.parts = c->parts,
                                .n_parts = n_named * sh->repeat,
                                .n_heads = p->n_heads,
                                .scale = 1 / sqrtf((float)d)};
    if (n_named) make_parts(c, p, a->n_parts, n_named);
    a->tail = make_tail(c, sh, t);
    a->q = check_mat(c, true, 1, cols, 0, 0, CHECK_UNIFORM);
    a->lse = check_mat(c, true, 1, p->n_heads, 0, 0, CHECK_UNIFORM).data;
    if (weighed) make_weights(c, a, n_rows - sh->n_tail);
    c->same_bits = true;
    allow_step(c, a, n_rows, check_allow(c, cols + p->n_heads));
    snprintf(c->text, sizeof c->text, "%s parts=%d rows=%lld tail=%lld heads=%d/%d d=%lld bits=%d%s",
             sac_dtype_name(t), a->n_parts, (long long)n_rows, (long long)sh->n_tail, p->n_heads,
             p->n_kv_heads, (long long)d, p->bits[0], weighed ? ", weighed" : "");
    return true;
}

int check_n_packed_steps(void) {
    return 2 * (int)SAC_COUNT(step_shapes);
}

/* ---------------------------------------------------------------- several sequences */

/* Of the parts of a shape each sequence takes some, cut short, and of the tail some rows; more sequences and
 * parts than a launch takes; one with more parts than that. */
static const struct many_shape {
    struct step_shape step;
    int n, n_parts[4]; /* taken in turn; of a sequence */
} many_shapes[] = {
    {{{{17, 83}, {17, 83}, {4, 2}, 6, 2, 64, -1, -1, true}, 1, 9, true}, 1, {2}},
    {{{{537, 400}, {537, 400}, {4, 2}, 14, 2, 128, -1, -1, true}, 1, 33, true}, 3, {2, 0, 1}},
    {{{{100, 140}, {100, 140}, {4, 2}, 28, 4, 128, -1, -1, true}, 1, 50, true}, 8, {2, 2, 2, 2}},
    {{{{64, 64}, {64, 64}, {4, 2}, 9, 1, 128, -1, -1, true}, 2, 32, true}, 5, {4, 1, 3, 2}},
    {{{{65}, {65}, {4}, 8, 8, 64, -1, -1, false}, 3, 31, false}, 4, {1, 3, 2, 1}},
    {{{{6, 9}, {6, 9}, {4, 2}, 14, 2, 128, -1, -1, true}, 36, 99, true}, 7, {72, 20, 2, 0}},
    {{{{33, 40}, {33, 40}, {4, 2}, 4, 4, 64, -1, -1, true}, 1, 0, true}, 20, {2, 1, 2, 1}},
    {{{{300}, {320}, {4}, 7, 7, 24, 0, 24, false}, 1, 12, false}, 2, {1, 1}},
};

bool check_make_packed_many(check_case *c, int i, sac_dtype t) {
    if (i >= check_n_packed_many()) return false;
    const struct many_shape *m = &many_shapes[i];
    const packed_shape *p = &m->step.packed;
    sac_packed_step_args *each = c->many.packed_step;
    int n_named = 0;
    int64_t d = p->head_dim, cols = p->n_heads * d;
    while (n_named < 4 && p->capacity[n_named]) n_named++;
    int n_parts = n_named * m->step.repeat;
    make_parts(c, p, n_parts, n_named);
    sac_kv_view tail = make_tail(c, &m->step, t);
    sac_mat q = check_mat(c, true, m->n, cols, 8, 0, CHECK_UNIFORM);
    double *allowed = check_allow(c, m->n * cols);
    for (int k = 0; k < m->n; k++) {
        int first = k % 2, n = m->n_parts[k % 4];
        if (first + n > n_parts) first = 0;
        each[k] = (sac_packed_step_args){.q = sac_mat_rows(q, m->n - 1 - k, 1),
                                         .parts = c->parts + first,
                                         .n_parts = n,
                                         .tail = tail,
                                         .n_heads = p->n_heads,
                                         .scale = 1 / sqrtf((float)d)};
        if (each[k].tail.n_rows > k) each[k].tail.n_rows -= k;
        int64_t n_rows = each[k].tail.n_rows;
        for (int j = 0; j < n; j++) n_rows += each[k].parts[j].n;
        allow_step(c, &each[k], n_rows, allowed + (m->n - 1 - k) * cols);
    }
    c->packed_step_many = (sac_packed_step_many_args){each, m->n};
    c->same_bits = true;
    snprintf(c->text, sizeof c->text, "%s %d sequences parts=%d, %d .. tail=%lld heads=%d/%d d=%lld bits=%d",
             sac_dtype_name(t), m->n, m->n_parts[0], m->n_parts[1], (long long)tail.n_rows, p->n_heads,
             p->n_kv_heads, (long long)d, p->bits[0]);
    return true;
}

int check_n_packed_many(void) {
    return (int)SAC_COUNT(many_shapes);
}
