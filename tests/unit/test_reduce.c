/* Reducers of videos: what stays against definitions in fp64 by plain sorting; then whole sessions over models of every kind of
 * prompt: rows that stay are those of the whole video, bit for bit, at the positions that they have in it; prefixes are used again. */
#include "engine.h"
#include "media.h"
#include "test.h"

#include <math.h>

#define FOLDER "tests/golden/models/"

/* ---------------------------------------------------------------- definitions */

static double random_number(uint64_t *random) {
    return (double)test_rand_int(random, -1000, 1000) / 500;
}

/* 1 - cosine with the row of the same cell a step before. */
static void evs_scores(const sac_reduce_video *v, const float *x, double *score) {
    for (int64_t i = 0; i < v->n_tiles * v->cells; i++) {
        const float *a = x + i * v->cols, *b = a - v->cells * v->cols;
        double dot = 0, aa = 0, bb = 0;
        score[i] = 255;
        if (i < v->cells) continue;
        for (int64_t c = 0; c < v->cols; c++) {
            dot += (double)a[c] * (double)b[c];
            aa += (double)a[c] * (double)a[c];
            bb += (double)b[c] * (double)b[c];
        }
        score[i] = 1 - dot / fmax(sqrt(aa * bb), 1e-8);
    }
}

static double gauss(const double *x, const double *centre, int64_t n) {
    static const double twice[] = {0.25, 0.5, 1, 2, 4};
    double d = 0, g = 0;
    for (int64_t c = 0; c < n; c++) d += pow(x[c] - centre[c], 2);
    for (int k = 0; k < 5; k++) g += exp(-d / twice[k]);
    return g;
}

/* Each cell's -(both G), and each frame's wish: rate * (1 + softmax - mean) * P. */
static void vidcom2_scores(const sac_reduce_video *v, const float *x, double rate, double temperature,
                           double *score, double *wish) {
    const int64_t n = v->n_tiles * v->cells, half = v->cols / 2;
    double *y = calloc((size_t)(n * half), sizeof *y), *variance = calloc((size_t)v->cols, sizeof *variance);
    double *video = calloc((size_t)half, sizeof *video), *frame = calloc((size_t)half, sizeof *frame),
           most = -1e9, sum = 0;
    for (int64_t c = 0; c < v->cols; c++) {
        double mean = 0;
        for (int64_t i = 0; i < n; i++) mean += (double)x[i * v->cols + c] / (double)n;
        for (int64_t i = 0; i < n; i++) variance[c] += pow((double)x[i * v->cols + c] - mean, 2);
    }
    for (int64_t c = 0, to = 0; c < v->cols; c++) {
        int64_t before = 0;
        for (int64_t d = 0; d < v->cols; d++)
            before += variance[d] < variance[c] || (variance[d] == variance[c] && d < c);
        if (before >= half) continue;
        for (int64_t i = 0; i < n; i++) y[i * half + to] = (double)x[i * v->cols + c];
        to++;
    }
    for (int64_t i = 0; i < n; i++) {
        double length = 0;
        for (int64_t c = 0; c < half; c++) length += pow(y[i * half + c], 2);
        for (int64_t c = 0; c < half; c++) video[c] += (y[i * half + c] /= sqrt(length)) / (double)n;
    }
    for (int64_t f = 0; f < v->n_tiles; f++) {
        const double *z = y + f * v->cells * half;
        memset(frame, 0, (size_t)half * sizeof *frame);
        for (int64_t i = 0; i < v->cells * half; i++) frame[i % half] += z[i] / (double)v->cells;
        wish[f] = 0;
        for (int64_t i = 0; i < v->cells; i++) {
            const double g = gauss(z + i * half, video, half);
            score[f * v->cells + i] = -g - gauss(z + i * half, frame, half);
            wish[f] -= g / (double)v->cells;
        }
        most = fmax(most, wish[f]);
    }
    for (int64_t f = 0; f < v->n_tiles; f++) sum += wish[f] = exp((wish[f] - most) / temperature);
    for (int64_t f = 0; f < v->n_tiles; f++)
        wish[f] = fmin(1, rate * (1 + wish[f] / sum - 1 / (double)v->n_tiles)) * (double)v->cells;
    free(y), free(variance), free(video), free(frame);
}

/* Ascending and unique, and within [first, first + n) the n_best highest scores, but for those that are as near as rounding. */
static void expect_best(const double *score, int64_t first, int64_t n, const int32_t *kept, int64_t n_best) {
    double lowest = INFINITY, highest = -INFINITY;
    bool *stays = calloc((size_t)n, 1);
    for (int64_t i = 0; i < n_best; i++) {
        assert_true(kept[i] >= first && kept[i] < first + n && (i == 0 || kept[i] > kept[i - 1]));
        stays[kept[i] - first] = true;
    }
    for (int64_t i = 0; i < n; i++) {
        if (stays[i])
            lowest = fmin(lowest, score[first + i]);
        else
            highest = fmax(highest, score[first + i]);
    }
    assert_true(lowest >= highest - 1e-6);
    free(stays);
}

/* ---------------------------------------------------------------- choices */

static sac_reduce reducer(const char *line) {
    sac_reduce r;
    sac_error err;
    assert_ok(sac_reduce_parse(&r, line, &err), err);
    return r;
}

/* All at once, the tiles shown one by one. */
static int64_t choose(const sac_reduce *r, const sac_reduce_video *v, float *x, int32_t *kept) {
    const int64_t n = r->reducer->count_video(r->p, v), all = v->n_tiles * v->cells;
    void *state = calloc(1, r->reducer->state_bytes(r->p, v));
    for (int64_t t = 0; r->reducer->see && t < v->n_tiles; t++)
        r->reducer->see(r->p, v, state, t, x + t * v->cells * v->cols);
    if (n < all) r->reducer->choose_video(r->p, v, state, v->n_tiles, sac_mat_f32(x, all, v->cols), kept, n);
    free(state);
    return n;
}

/* A scene that changes a little, with a cut, and a cell of zeros. */
static float *draw(const sac_reduce_video *v, uint64_t *random) {
    const int64_t each = v->cells * v->cols;
    float *x = malloc((size_t)(v->n_tiles * each) * sizeof *x);
    for (int64_t i = 0; i < v->n_tiles * each; i++) {
        const int64_t t = i / each;
        if (t == 0 || t == v->n_tiles / 2)
            x[i] = (float)random_number(random);
        else
            x[i] = x[i - each] + (float)(random_number(random) * ((i / v->cols) % 3 == 0 ? 0.5 : 0.01));
    }
    return x;
}

static const sac_reduce_video videos[] = {{1, 6, 8},   {2, 1, 4},   {3, 5, 7},   {8, 16, 32}, {5, 49, 24},
                                          {17, 9, 16}, {24, 12, 9}, {40, 3, 12}, {9, 64, 48}};

static void evs_keeps_what_changes(void **state) {
    (void)state;
    static const double rates[] = {0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999};
    uint64_t random = 1;
    for (size_t k = 0; k < SAC_COUNT(videos); k++)
        for (size_t q = 0; q < SAC_COUNT(rates); q++) {
            const sac_reduce_video *v = &videos[k];
            const int64_t all = v->n_tiles * v->cells;
            char line[40];
            snprintf(line, sizeof line, "evs:prune=%g", rates[q]);
            const sac_reduce r = reducer(line);
            float *x = draw(v, &random);
            int32_t *kept = malloc((size_t)all * sizeof *kept);
            double *score = malloc((size_t)all * sizeof *score);
            const int64_t n = choose(&r, v, x, kept), want = (int64_t)floor((double)all * (1 - rates[q]));
            assert_int_equal(n, want > v->cells ? want : v->cells);
            evs_scores(v, x, score);
            if (n < all) {
                expect_best(score, 0, all, kept, n);
                for (int32_t i = 0; i < v->cells; i++)
                    assert_int_equal(kept[i], i); /* the first step is whole */
            }
            free(x), free(kept), free(score);
        }
}

/* Nothing changes: equal ones stay by their place. And what fell out on the way never comes back. */
static void evs_breaks_ties_by_place(void **state) {
    (void)state;
    const sac_reduce_video v = {6, 4, 3};
    const sac_reduce r = reducer("evs:prune=0.5");
    float x[6 * 4 * 3];
    int32_t kept[24], some[24];
    for (int i = 0; i < 72; i++) x[i] = (float)(i % 12 + 1);
    x[3 * 12 + 4] = -7; /* cell 1 of step 3, and so of step 4 */
    assert_int_equal(choose(&r, &v, x, kept), 12);
    static const int32_t want[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 17};
    assert_memory_equal(kept, want, sizeof want);
    void *s = calloc(1, r.reducer->state_bytes(r.p, &v));
    for (int t = 0; t < 4; t++) r.reducer->see(r.p, &v, s, t, x + t * 12);
    r.reducer->choose_video(r.p, &v, s, 4, (sac_mat){0}, some, 12);
    for (int i = 0; i < 12; i++) {
        bool stays = kept[i] >= 16;
        for (int k = 0; k < 12; k++) stays = stays || some[k] == kept[i];
        assert_true(stays);
    }
    free(s);
}

static void expect_vidcom2(const sac_reduce_video *v, float *x, double rate, double temperature) {
    const int64_t all = v->n_tiles * v->cells;
    char line[80];
    snprintf(line, sizeof line, "vidcom2:rate=%g,temperature=%g", rate, temperature);
    const sac_reduce r = reducer(line);
    int32_t *kept = malloc((size_t)all * sizeof *kept);
    double *score = malloc((size_t)all * sizeof *score), *wish = malloc((size_t)v->n_tiles * sizeof *wish),
           cut = 0;
    const int64_t n = choose(&r, v, x, kept), want = (int64_t)floor((double)all * rate + 0.5);
    assert_int_equal(n, want > v->n_tiles ? want : v->n_tiles);
    vidcom2_scores(v, x, rate, temperature, score, wish);
    for (int64_t f = 0; f < v->n_tiles; f++)
        cut += wish[f]; /* the count, unless a frame is full or would have none */
    int64_t at = 0;
    for (int64_t f = 0; n < all && f < v->n_tiles; f++) {
        int64_t mine = 0;
        while (at + mine < n && kept[at + mine] < (f + 1) * v->cells) mine++;
        assert_true(mine >= 1);
        expect_best(score, f * v->cells, v->cells, kept + at, mine);
        if (fabs(cut - (double)n) < 0.5 && wish[f] >= 1) assert_true(fabs((double)mine - wish[f]) < 2);
        at += mine;
    }
    if (n < all) assert_int_equal(at, n);
    free(kept), free(score), free(wish);
}

static void vidcom2_keeps_what_is_unlike_the_rest(void **state) {
    (void)state;
    static const double rates[] = {0.01, 0.1, 0.25, 0.5, 0.75, 0.95};
    uint64_t random = 2;
    for (size_t k = 0; k < SAC_COUNT(videos); k++)
        for (size_t q = 0; q < SAC_COUNT(rates); q++) {
            float *x = draw(&videos[k], &random);
            expect_vidcom2(&videos[k], x, rates[q], q % 2 ? 0.01 : 0.3);
            free(x);
        }
}

/* One frame is unlike all others: it has more. */
static void vidcom2_gives_a_unique_frame_more(void **state) {
    (void)state;
    const sac_reduce_video v = {10, 20, 16};
    const sac_reduce r = reducer("vidcom2:rate=0.25");
    float x[10 * 20 * 16];
    int32_t kept[200];
    int of_frame[10] = {0};
    uint64_t random = 3;
    for (int i = 0; i < 3200; i++)
        x[i] = (float)((i / 320 != 7 ? 1 : i % 2 ? -1 : 3) + 0.05 * random_number(&random));
    assert_int_equal(choose(&r, &v, x, kept), 50);
    for (int i = 0; i < 50; i++) of_frame[kept[i] / 20]++;
    for (int f = 0; f < 10; f++) assert_true(f == 7 ? of_frame[f] > 8 : of_frame[f] <= 5);
}

static void uniform_is_even(void **state) {
    (void)state;
    const sac_reduce_video v = {3, 4, 2};
    const sac_reduce r = reducer("uniform:rate=0.5");
    float x[24] = {0};
    int32_t kept[12];
    static const int32_t want[] = {1, 3, 5, 7, 9, 11};
    assert_int_equal(choose(&r, &v, x, kept), 6);
    assert_memory_equal(kept, want, sizeof want);
}

static void half_rows_are_read(void **state) {
    (void)state;
    uint16_t half[4];
    float row[2];
    for (int i = 0; i < 4; i++) half[i] = sac_f32_to_bf16((float)i - 1.5f);
    sac_reduce_row((sac_mat){half, 2, 2, 2, SAC_DTYPE_BF16}, 1, row);
    assert_true(row[0] == 0.5f && row[1] == 1.5f);
    for (int i = 0; i < 4; i++) half[i] = sac_f32_to_f16((float)i - 1.5f);
    sac_reduce_row((sac_mat){half, 2, 2, 2, SAC_DTYPE_F16}, 0, row);
    assert_true(row[0] == -1.5f && row[1] == -0.5f);
}

static void lines_are_read(void **state) {
    (void)state;
    sac_reduce r;
    sac_error err;
    char text[80];
    static const char *const off[] = {"none", "evs:prune=0", "vidcom2:rate=1", "uniform:rate=1"};
    for (size_t i = 0; i < SAC_COUNT(off); i++) {
        r = reducer(off[i]);
        sac_reduce_print(&r, text, sizeof text);
        assert_false(r.is_on);
        assert_string_equal(text, "none");
    }
    r = reducer("vidcom2");
    sac_reduce_print(&r, text, sizeof text);
    assert_string_equal(text, "vidcom2:rate=0.25,temperature=0.01");
    assert_int_equal(sac_reduce_parse(&r, "evs:prune=1", &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_reduce_parse(&r, "evs:rate=0.5", &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_reduce_parse(&r, "evss", &err), SAC_BAD_ARGUMENT);
    assert_true(strstr(err.text, "none, hired, evs, vidcom2") != NULL);
    /* equal numbers of different reducers are not the same */
    sac_reduce a = reducer("vidcom2:rate=0.5,temperature=0.5"), b = reducer("hired:rate=0.5,alpha=0.5"),
               c = reducer("none");
    assert_memory_equal(a.p, b.p, sizeof a.p);
    assert_false(sac_reduce_same(&a, &b));
    assert_false(sac_reduce_same(&a, &c));
    assert_true(sac_reduce_same(&a, &a) && sac_reduce_same(&c, &c));
}

/* ---------------------------------------------------------------- sessions */

enum { CTX = 4000, MOST_LOGITS = 2048, N_FRAMES = 5, AXES = SAC_POSITION_AXES };

typedef struct seen {
    float logits[MOST_LOGITS];
    int64_t n_prompt, n_visual, n_reused;
    bool from_cache;
} seen;

static sac_model *open_model(const char *path) {
    sac_model_options o;
    sac_model *m;
    sac_error err;
    sac_model_options_default(&o);
    if (strcmp(path, "models/demo") != 0) o.chat_format = "plain";
    assert_ok(sac_model_open(&m, path, &o, &err), err);
    return m;
}

static sac_session *session(const sac_model *m, const char *reduce) {
    sac_session_config c;
    sac_session *s;
    sac_error err;
    sac_session_config_default(&c);
    c.n_ctx = CTX;
    c.prefill_chunk = 64;
    c.kv = "f32";
    c.reduce = reduce;
    assert_ok(sac_session_create(&s, m, &c, &err), err);
    return s;
}

/* A video of n frames, a list of frames, or both with a picture between them. */
typedef enum shows { A_VIDEO, A_LIST, A_MIX } shows;

static void look(sac_session *s, shows what, int n_frames, const char *question, seen *t) {
    static char paths[N_FRAMES][80];
    sac_frame frames[N_FRAMES];
    sac_part parts[4] = {{.kind = SAC_PART_VIDEO, .path = "samples/video0000_16.mp4"}};
    size_t n = 0;
    sac_sampling o;
    sac_result r;
    sac_error err;
    for (int i = 0; i < N_FRAMES; i++) {
        snprintf(paths[i], sizeof paths[i], FOLDER "frame%d.png", i);
        frames[i] = (sac_frame){.path = paths[i], .time_s = i / 2.0};
    }
    parts[0].video.num_frames = n_frames;
    n += what != A_LIST;
    if (what == A_MIX) parts[n++] = (sac_part){.kind = SAC_PART_IMAGE, .path = FOLDER "tall.png"};
    if (what != A_VIDEO)
        parts[n++] = (sac_part){.kind = SAC_PART_FRAMES, .frames = frames, .n_frames = N_FRAMES};
    parts[n++] = (sac_part){.kind = SAC_PART_TEXT, .text = question};
    sac_message message = {"user", parts, n, NULL};
    sac_sampling_default(&o);
    o.max_tokens = 1;
    o.ignore_eos = true;
    assert_ok(sac_session_generate(s, &message, 1, &o, NULL, &r, &err), err);
    sac_model_info info;
    sac_model_get_info(s->model, &info);
    assert_true(info.vocab <= MOST_LOGITS);
    memset(t, 0, sizeof *t);
    memcpy(t->logits, sac_session_logits(s), (size_t)info.vocab * sizeof *t->logits);
    t->n_prompt = r.n_prompt_tokens;
    t->n_visual = r.n_visual_tokens;
    t->n_reused = r.n_reused_tokens;
    t->from_cache = r.media[0].from_cache;
    int64_t n_reported = 0;
    for (size_t i = 0; i < r.n_media; i++) n_reported += r.media[i].n_tokens;
    assert_int_equal(n_reported, t->n_visual);
}

/* Rows of an item as the model's cache has them: the decoder's, then what is added to them later. */
static const sac_vision_entry *rows_of(const sac_session *s, const sac_media *m) {
    const int64_t width = s->decoder.shape.hidden * (1 + s->decoder.n_deep);
    const sac_vision_entry *e = sac_vision_cache_find(s->model->vision_cache, &m->key,
                                                      (size_t)(m->report.n_tokens * width) * sizeof(float));
    assert_non_null(e);
    return e;
}

static void expect_row(const sac_session *s, const sac_media *m, const sac_vision_entry *e, int64_t i,
                       const sac_media *whole, const sac_vision_entry *f, int64_t k) {
    const int64_t cols = s->decoder.shape.hidden, deep = cols * s->decoder.n_deep;
    const float *a = e->rows, *b = f->rows;
    assert_memory_equal(a + i * cols, b + k * cols, (size_t)cols * sizeof *a);
    a += m->report.n_tokens * cols, b += whole->report.n_tokens * cols;
    assert_memory_equal(a + i * deep, b + k * deep, (size_t)deep * sizeof *a);
}

/* Token of the whole item that a cell is: newlines stand between cells, a class token before each tile's. */
static int64_t token_of(const sac_media *whole, int64_t cell) {
    const sac_visual_plan *p = &whole->plan;
    const int64_t each = sac_grid_cells(p->tokens),
                  n_class = p->tokens_per_tile - each - sac_visual_newlines(p);
    const int64_t tile = cell / each, inside = cell % each;
    const int64_t newlines = p->newlines == SAC_NEWLINES_ROWS ? inside / p->tokens.w : 0;
    return tile * p->tokens_per_tile + n_class + inside + newlines;
}

static int32_t number_of(const sac_session *s, int64_t n, int axis, int64_t row) {
    return s->positions[axis * n + row];
}

/* Every row that stays is the whole video's; where a family numbers grids, with the number that it has there. */
static void expect_parts_of(const sac_session *s, const seen *a, const sac_session *dense, const seen *b,
                            const char *reduce) {
    const bool by_grid = s->model->loaded.positions != sac_positions_plain;
    for (size_t i = 0; i < s->n_media; i++) {
        const sac_media *m = &s->media[i], *whole = &dense->media[i];
        if (!m->n_kept) continue;
        const sac_vision_entry *e = rows_of(s, m), *f = rows_of(dense, whole);
        const sac_reduce_video v = {m->report.n_tiles, sac_grid_cells(m->plan.tokens),
                                    s->decoder.shape.hidden};
        float *x = malloc((size_t)(m->n_cells * v.cols) * sizeof *x);
        int32_t *want = malloc((size_t)m->n_cells * sizeof *want);
        for (int64_t c = 0; c < m->n_cells; c++)
            memcpy(x + c * v.cols, (const float *)f->rows + token_of(whole, c) * v.cols,
                   (size_t)v.cols * sizeof *x);
        const sac_reduce r = reducer(reduce);
        assert_int_equal(choose(&r, &v, x, want), m->n_kept);
        assert_memory_equal(want, m->kept, (size_t)m->n_kept * sizeof *want);
        for (int64_t k = 0, b_at = 0; k < m->n_kept; k++) {
            const int64_t token = token_of(whole, m->kept[k]);
            expect_row(s, m, e, k, whole, f, token);
            while (k >= (m->spans[b_at].cells - m->kept) + m->spans[b_at].n) b_at++;
            const int64_t row = m->spans[b_at].first + k - (m->spans[b_at].cells - m->kept);
            assert_int_equal(b_at, m->kept[k] / (m->n_cells / m->n_blocks));
            const int64_t there =
                whole->spans[token / whole->block_tokens].first + token % whole->block_tokens;
            for (int axis = 0; axis < AXES; axis++)
                assert_int_equal(number_of(s, a->n_prompt, axis, row),
                                 by_grid ? number_of(dense, b->n_prompt, axis, there) : row);
        }
        if (s->model->loaded.video_newline)
            expect_row(s, m, e, m->n_kept, whole, f, whole->report.n_tokens - 1);
        sac_vision_cache_release(s->model->vision_cache, (sac_vision_entry *)(uintptr_t)e);
        sac_vision_cache_release(s->model->vision_cache, (sac_vision_entry *)(uintptr_t)f);
        free(x), free(want);
    }
    assert_int_equal(a->n_prompt - a->n_visual, b->n_prompt - b->n_visual); /* the texts are the same */
    assert_int_equal(s->next_position, by_grid ? dense->next_position : a->n_prompt);
}

static const char *const folders[] = {"models/demo",
                                      FOLDER "longva",
                                      FOLDER "llava_onevision",
                                      FOLDER "llava_video",
                                      FOLDER "llava_video_frame",
                                      FOLDER "llava_next_video",
                                      FOLDER "llava_full",
                                      FOLDER "qwen2_vl",
                                      FOLDER "qwen2_5_vl",
                                      FOLDER "qwen3_vl",
                                      FOLDER "qwen3_vl_moe",
                                      FOLDER "qwen3_5",
                                      FOLDER "internvl",
                                      FOLDER "internvl_chat",
                                      FOLDER "smolvlm",
                                      FOLDER "idefics3",
                                      FOLDER "gemma3",
                                      FOLDER "glm4v",
                                      FOLDER "glm46v",
                                      FOLDER "pixtral",
                                      FOLDER "mistral3"};
static const char *const lines[] = {"evs:prune=0.5", "evs:prune=0.75", "vidcom2:rate=0.5,temperature=0.01",
                                    "vidcom2:rate=0.25,temperature=0.01", "uniform:rate=0.3"};

/* Of a model: what it makes of a video, a list and both, whole and reduced. */
static void try_model(const char *folder, shows what) {
    static seen whole, part, again, other, fresh;
    sac_model *m = open_model(folder);
    sac_session *dense = session(m, NULL);
    look(dense, what, N_FRAMES, "What happens?", &whole);
    sac_session *off = session(m, "evs:prune=0");
    look(off, what, N_FRAMES, "What happens?", &part);
    assert_memory_equal(whole.logits, part.logits, sizeof whole.logits);
    sac_session_free(off);
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        sac_session *s = session(m, lines[i]);
        look(s, what, N_FRAMES, "What happens?", &part);
        assert_true(part.n_visual < whole.n_visual && !part.from_cache);
        expect_parts_of(s, &part, dense, &whole, lines[i]);
        assert_true(memcmp(part.logits, whole.logits, sizeof whole.logits) != 0);
        look(s, what, N_FRAMES, "Is it an owl?", &other); /* the video's rows are used again */
        assert_true(other.n_reused >= s->media[s->n_media - 1].spans[0].first ||
                    m->loaded.decoder.config.linear.n_key_heads);
        sac_session_free(s);
        s = session(m, lines[i]); /* what stays is known, and its rows are in the cache */
        look(s, what, N_FRAMES, "What happens?", &again);
        assert_memory_equal(part.logits, again.logits, sizeof part.logits);
        assert_true(again.from_cache && again.n_reused == 0);
        sac_memo_free(m->memo); /* it is not known any more, the rows are */
        sac_memo_init(m->memo);
        sac_session_free(s);
        s = session(m, lines[i]);
        look(s, what, N_FRAMES, "Is it an owl?", &fresh);
        assert_memory_equal(other.logits, fresh.logits, sizeof other.logits);
        sac_session_free(s);
    }
    sac_session_free(dense);
    sac_model_free(m);
}

static void every_family_keeps_rows_of_the_whole(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(folders); i++) {
        print_message("%s\n", folders[i]);
        try_model(folders[i], A_LIST);
    }
}

static void videos_and_pictures_mixed(void **state) {
    (void)state;
    static const char *const some[] = {"models/demo",     FOLDER "llava_onevision", FOLDER "qwen2_5_vl",
                                       FOLDER "qwen3_vl", FOLDER "internvl",        FOLDER "smolvlm"};
    for (size_t i = 0; i < SAC_COUNT(some); i++) try_model(some[i], A_MIX);
}

/* A video file; one of one frame; more frames than it has. */
static void videos_of_any_length(void **state) {
    (void)state;
    static seen whole, part;
    sac_model *m = open_model("models/demo");
    static const int n_frames[] = {1, 2, 16, 100};
    for (size_t i = 0; i < SAC_COUNT(n_frames); i++) {
        sac_session *dense = session(m, NULL), *evs = session(m, "evs:prune=0.9"),
                    *two = session(m, "vidcom2:rate=0.1");
        const int n = n_frames[i] < 16 ? n_frames[i] : 16;
        look(dense, A_VIDEO, n_frames[i], "What happens?", &whole);
        look(evs, A_VIDEO, n_frames[i], "What happens?", &part);
        assert_int_equal(whole.n_visual, 64 * n);
        assert_int_equal(part.n_visual, n == 16 ? 102 : 64);
        if (n == 1) assert_memory_equal(whole.logits, part.logits, sizeof part.logits);
        if (n > 1) expect_parts_of(evs, &part, dense, &whole, "evs:prune=0.9");
        look(two, A_VIDEO, n_frames[i], "What happens?", &part);
        assert_int_equal(part.n_visual, n == 16 ? 102 : n == 2 ? 13 : 6);
        expect_parts_of(two, &part, dense, &whole, "vidcom2:rate=0.1");
        sac_session_free(dense), sac_session_free(evs), sac_session_free(two);
    }
    sac_model_free(m);
}

/* A frame that lost all its tokens keeps its place among the texts. */
static void frames_without_tokens(void **state) {
    (void)state;
    static seen t;
    sac_model *m = open_model(FOLDER "qwen3_vl");
    sac_session *s = session(m, "evs:prune=0.999");
    look(s, A_LIST, 0, "What happens?", &t);
    const sac_media *v = &s->media[0];
    assert_true(v->n_blocks > 1 && v->spans[0].n == v->n_kept);
    for (int64_t b = 1; b < v->n_blocks; b++)
        assert_true(v->spans[b].n == 0 && v->spans[b].first > v->spans[b - 1].first);
    sac_session_free(s);
    sac_model_free(m);
}

/* Sessions that share beginnings: rows of one's video serve another's question, and a reducer's never another's. */
static void beginnings_are_shared(void **state) {
    (void)state;
    static seen first, alone, shared, other;
    sac_model *m = open_model(FOLDER "qwen2_5_vl");
    sac_error err;
    sac_beginnings *b;
    sac_session *s = session(m, "vidcom2:rate=0.5"), *t = session(m, "vidcom2:rate=0.5"),
                *u = session(m, "uniform:rate=0.5");
    look(t, A_LIST, 0, "Is it an owl?", &alone);
    sac_session_free(t);
    t = session(m, "vidcom2:rate=0.5");
    assert_ok(sac_beginnings_open(&b, m, &err), err);
    sac_session *all[] = {s, t, u};
    for (int i = 0; i < 3; i++) assert_ok(sac_session_join(all[i], b, &err), err);
    look(s, A_LIST, 0, "What happens?", &first);
    look(t, A_LIST, 0, "Is it an owl?", &shared);
    assert_true(shared.n_reused >= s->media[0].n_kept);
    assert_memory_equal(alone.logits, shared.logits, sizeof alone.logits);
    look(u, A_LIST, 0, "Is it an owl?", &other);
    assert_int_equal(other.n_reused, 0);
    for (int i = 0; i < 3; i++) sac_session_free(all[i]);
    sac_beginnings_close(b);
    sac_model_free(m);
}

/* More frames go into the same room, and as many tokens as are counted. */
static void more_frames_have_room(void **state) {
    (void)state;
    sac_model *m = open_model("models/demo");
    sac_part parts[] = {{.kind = SAC_PART_VIDEO, .path = "samples/video0002_256.mp4"},
                        {.kind = SAC_PART_TEXT, .text = "What?"}};
    sac_message message = {"user", parts, 2, NULL};
    sac_error err;
    int64_t frames[2];
    for (int i = 0; i < 2; i++) {
        const char *line = i ? "evs:prune=0.75" : NULL;
        sac_room room;
        sac_session *s = session(m, line);
        size_t n = 0;
        assert_ok(sac_room_open(&room, m, CTX, line, &message, 1, &err), err);
        frames[i] = sac_room_frames(&room);
        assert_ok(sac_session_prompt(s, &message, 1, NULL, 0, &n, &err), err);
        assert_int_equal(s->media[0].report.n_frames, frames[i] < 256 ? frames[i] : 256);
        assert_true((int64_t)n < CTX && (int64_t)n > CTX - 700);
        int64_t n_prompt, n_reusable;
        assert_ok(sac_session_n_reusable(s, &message, 1, &n_prompt, &n_reusable, &err), err);
        assert_true(n_prompt == (int64_t)n && n_reusable == 0);
        sac_session_free(s);
    }
    assert_true(frames[1] > 3 * frames[0] && frames[1] < 5 * frames[0]);
    sac_model_free(m);
}

static void refused_where_nothing_is_seen(void **state) {
    (void)state;
    sac_model *m = open_model(FOLDER "llama_f32");
    sac_session_config c;
    sac_session *s;
    sac_error err;
    sac_session_config_default(&c);
    c.reduce = "evs";
    assert_int_equal(sac_session_create(&s, m, &c, &err), SAC_UNSUPPORTED);
    assert_true(strstr(err.text, "reads text only") != NULL);
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evs_keeps_what_changes),
        cmocka_unit_test(evs_breaks_ties_by_place),
        cmocka_unit_test(vidcom2_keeps_what_is_unlike_the_rest),
        cmocka_unit_test(vidcom2_gives_a_unique_frame_more),
        cmocka_unit_test(uniform_is_even),
        cmocka_unit_test(half_rows_are_read),
        cmocka_unit_test(lines_are_read),
        cmocka_unit_test(every_family_keeps_rows_of_the_whole),
        cmocka_unit_test(videos_and_pictures_mixed),
        cmocka_unit_test(videos_of_any_length),
        cmocka_unit_test(frames_without_tokens),
        cmocka_unit_test(beginnings_are_shared),
        cmocka_unit_test(more_frames_have_room),
        cmocka_unit_test(refused_where_nothing_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
