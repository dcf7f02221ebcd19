/* HiRED: budgets and choices against plain sorting; what the tower's class token looks at against fp64; whole
 * sessions. */
#include "clip.h"
#include "method_session.h"
#include "model.h"
#include "reduce.h"
#include "thread_pool.h"

#include <math.h>

enum { MAX_GRID = 24, MAX_TOKENS = MAX_GRID * MAX_GRID, MAX_TILES = 10 };

/* ---------------------------------------------------------------- the choice */

static const float *sorted_by;
static int by_score(const void *a, const void *b) {
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    if (sorted_by[i] != sorted_by[j]) return sorted_by[i] < sorted_by[j] ? 1 : -1;
    return (i > j) - (i < j);
}

static void sort_tokens(const float *score, int n, int32_t *order) {
    for (int i = 0; i < n; i++) order[i] = i;
    sorted_by = score;
    qsort(order, (size_t)n, sizeof *order, by_score);
}

/* Tokens of each tile that were chosen; checks order, range and that they are the tile's best. */
static void count_chosen(const sac_reduce_picture *p, const float *last, int stride, const int32_t *source,
                         int64_t n, int *of_tile) {
    int per = p->rows * p->columns;
    memset(of_tile, 0, MAX_TILES * sizeof *of_tile);
    for (int64_t i = 0; i < n; i++) {
        assert_true(source[i] >= 0 && source[i] < p->n_tiles * per && (i == 0 || source[i] > source[i - 1]));
        of_tile[source[i] / per]++;
    }
    for (int t = 0; t < p->n_tiles; t++) {
        int32_t order[MAX_TOKENS];
        bool best[MAX_TOKENS] = {false};
        sort_tokens(last + t * stride, per, order);
        for (int i = 0; i < of_tile[t]; i++) best[order[i]] = true;
        for (int64_t i = 0; i < n; i++)
            if (source[i] / per == t) assert_true(best[source[i] % per]);
    }
}

/* Budgets differ from the exact shares by less than one token, unless a tile is full. */
static void expect_shares(const sac_reduce_picture *p, const sac_reduce *r, const float *first, bool strips,
                          double alpha, const int *of_tile) {
    int per = p->rows * p->columns, n_parts = p->n_tiles - 1, total = (int)sac_reduce_count(r, p);
    int base = (int)(total * alpha) < per ? (int)(total * alpha) : per, n_best = (int)(per * (1 - alpha));
    int held[MAX_TILES] = {0};
    int32_t order[MAX_TOKENS];
    sort_tokens(first, per, order);
    for (int i = 0; i < n_best; i++) {
        int y = order[i] / p->columns, x = order[i] % p->columns;
        int part = strips ? order[i] / (per / n_parts)
                          : y / (p->rows / p->tiles_h) * p->tiles_w + x / (p->columns / p->tiles_w);
        held[part]++;
    }
    bool is_full = false;
    for (int k = 0; k < n_parts; k++) is_full = is_full || of_tile[k + 1] == per;
    if (!is_full) assert_int_equal(of_tile[0], base);
    for (int k = 0; k < n_parts && !is_full && n_best; k++)
        assert_true(fabs(of_tile[k + 1] - (double)(total - base) * held[k] / n_best) < 1 + 1e-9);
}

static void budgets_follow_the_content(void **state) {
    (void)state;
    static const sac_reduce_picture pictures[] = {{1, 8, 8, 1, 1},    {5, 24, 24, 2, 2}, {3, 24, 24, 2, 1},
                                                  {4, 12, 12, 1, 3},  {7, 24, 24, 3, 2}, {2, 6, 6, 1, 1},
                                                  {10, 24, 24, 3, 3}, {1, 3, 8, 1, 1},   {3, 9, 4, 2, 1},
                                                  {3, 4, 9, 1, 2},    {7, 4, 24, 3, 2},  {7, 24, 6, 2, 3}};
    static const double rates[] = {0.001, 0.05, 0.2, 0.4, 0.77, 0.99}, alphas[] = {0, 0.3, 0.5, 1};
    static float first[MAX_TOKENS], last[MAX_TILES * (MAX_TOKENS + 3)];
    static int32_t source[MAX_TILES * MAX_TOKENS];
    uint64_t random = 1;
    for (size_t i = 0; i < SAC_COUNT(pictures); i++)
        for (size_t k = 0; k < SAC_COUNT(rates) * SAC_COUNT(alphas); k++)
            for (int strips = 0; strips < 2; strips++) {
                const sac_reduce_picture *p = &pictures[i];
                double rate = rates[k % SAC_COUNT(rates)], alpha = alphas[k / SAC_COUNT(rates)];
                int per = p->rows * p->columns, stride = per + 3, of_tile[MAX_TILES];
                char line[100], text[100];
                sac_reduce r;
                sac_error err;
                snprintf(line, sizeof line, "hired:rate=%g,alpha=%g,compat=%s", rate, alpha,
                         strips ? "strip" : "grid");
                assert_ok(sac_reduce_parse(&r, line, &err), err);
                sac_reduce_print(&r, text, sizeof text);
                assert_string_equal(text, line);
                for (int t = 0; t < per; t++) /* content at one side, and ties */
                    first[t] =
                        (t % p->columns < p->columns / 3 ? 2 : 0) + (float)test_rand_int(&random, 0, 50) / 50;
                for (int t = 0; t < p->n_tiles * stride; t++) last[t] = (float)test_rand_int(&random, 0, 99);
                int64_t n = sac_reduce_count(&r, p);
                assert_true(n == (int64_t)fmax(1, floor(p->n_tiles * per * rate)));
                sac_reduce_choose(&r, p, first, last, stride, source);
                count_chosen(p, last, stride, source, n, of_tile);
                int sum = 0;
                for (int t = 0; t < p->n_tiles; t++) sum += of_tile[t];
                assert_int_equal(sum, n);
                if (p->n_tiles > 1) expect_shares(p, &r, first, strips, alpha, of_tile);
            }
}

static void lines_are_read(void **state) {
    (void)state;
    sac_reduce r;
    sac_error err;
    char text[40];
    assert_ok(sac_reduce_parse(&r, "none", &err), err);
    assert_false(r.is_on);
    assert_ok(sac_reduce_parse(&r, "hired:rate=1", &err), err);
    assert_false(r.is_on);
    sac_reduce_print(&r, text, sizeof text);
    assert_string_equal(text, "none");
    assert_int_equal(sac_reduce_parse(&r, "hire", &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_reduce_parse(&r, "none:x=1", &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_reduce_parse(&r, "hired:rate=0", &err), SAC_BAD_ARGUMENT);
}

/* ---------------------------------------------------------------- the class token */

static double weight_at(const sac_weight *w, int64_t i) {
    if (w->tensor.dtype == SAC_DTYPE_F32) return (double)((const float *)w->tensor.data)[i];
    uint16_t half = ((const uint16_t *)w->tensor.data)[i];
    return (double)(w->tensor.dtype == SAC_DTYPE_F16 ? sac_f16_to_f32(half) : sac_bf16_to_f32(half));
}

/* One output of a projection of the normalised token x. */
static double project(const sac_weight *w, const float *bias, const double *x, int n, int out) {
    double sum = bias ? (double)bias[out] : 0;
    for (int i = 0; i < n; i++) sum += weight_at(w, (int64_t)out * n + i) * x[i];
    return sum;
}

static void normalise(const float *x, const sac_clip_layer *w, int n, double eps, double *y) {
    double mean = 0, var = 0;
    for (int i = 0; i < n; i++) mean += (double)x[i] / n;
    for (int i = 0; i < n; i++) var += ((double)x[i] - mean) * ((double)x[i] - mean) / n;
    for (int i = 0; i < n; i++)
        y[i] = ((double)x[i] - mean) / sqrt(var + eps) * (double)w->ln1_w[i] + (double)w->ln1_b[i];
}

/* What the class token looks at in a layer whose input is h [tokens][hidden]. */
static void class_attention(const sac_tower_config *c, const sac_clip_layer *w, const float *h, int tokens,
                            double *out) {
    int n = c->hidden, d = n / c->n_heads;
    double x[64], q[64], *s = malloc((size_t)tokens * sizeof *s);
    memset(out, 0, (size_t)tokens * sizeof *out);
    normalise(h, w, n, (double)c->norm_eps, x);
    for (int i = 0; i < n; i++) q[i] = project(&w->q, w->q_bias, x, n, i);
    for (int head = 0; head < c->n_heads; head++) {
        double sum = 0;
        for (int t = 0; t < tokens; t++) {
            normalise(h + t * n, w, n, (double)c->norm_eps, x);
            double dot = 0;
            for (int i = head * d; i < (head + 1) * d; i++) dot += q[i] * project(&w->k, w->k_bias, x, n, i);
            sum += s[t] = exp(dot / sqrt(d));
        }
        for (int t = 0; t < tokens; t++) out[t] += s[t] / sum;
    }
    free(s);
}

static void the_tower_tells_what_its_class_token_sees(void **state) {
    (void)state;
    enum { TILES = 3, MAX_ROWS = 64 };
    static sac_loaded_model m;
    sac_error err;
    assert_ok(sac_loaded_model_open(&m, "tests/golden/models/llava_next", NULL, NULL, &err), err);
    sac_tower tower = m.tower;
    int tokens = sac_clip_tokens(&tower.config);
    int last = tower.config.feature_layer[0], n = tower.config.hidden;
    assert_true(last > 1 && tower.config.n_feature_layers == 1 && n <= 64 && tokens <= MAX_ROWS);
    sac_pool *pool;
    sac_arena arena;
    sac_stream stream;
    sac_tower_state vit;
    sac_ops ops;
    assert_ok(sac_pool_create(&pool, 2, &err), err);
    assert_ok(sac_arena_open(&arena, (size_t)1 << 26, &err), err);
    assert_ok(sac_stream_init(&stream, pool, &arena, 1 << 20, &err), err);
    assert_ok(sac_tower_state_take(&vit, &tower.config, TILES, &arena, &err), err);
    sac_ops_init_ref(&ops);
    int32_t starts[TILES + 1];
    size_t n_pixels = (size_t)(TILES * (tokens - 1) * tower.config.patch_size * tower.config.patch_size * 3);
    uint8_t *pixels = malloc(n_pixels);
    uint64_t random = 3;
    for (size_t i = 0; i < n_pixels; i++) pixels[i] = (uint8_t)test_rand(&random);
    sac_patch_rows rows = {.pixels = pixels, .segment_start = starts, .n_segments = TILES};
    memcpy(rows.mean, m.processor.mean, sizeof rows.mean);
    memcpy(rows.std, m.processor.std, sizeof rows.std);
    sac_grid_segments((sac_grid){1, 1, tokens - 1}, TILES, starts);
    sac_tower_run run = {&tower, &vit, &ops, &stream};
    static float first_seen[TILES * MAX_ROWS], last_seen[TILES * MAX_ROWS], h[TILES * MAX_ROWS * 64];
    vit.class_first = first_seen;
    vit.class_last = last_seen;
    sac_mat features = sac_mat_f32(h, TILES * (tokens - 1), n);
    assert_int_equal(sac_tower_encode(&run, &rows, features), SAC_OK);
    vit.class_first = vit.class_last = NULL;
    tower.config.keep_class = true;
    features = sac_mat_f32(h, TILES * tokens, n);
    for (int layer = 0; layer < last; layer += last - 1) { /* inputs of the first and of the last layer run */
        double want[MAX_ROWS];
        tower.config.feature_layer[0] = layer;
        assert_int_equal(sac_tower_encode(&run, &rows, features), SAC_OK);
        for (int t = 0; t < TILES; t++) {
            class_attention(&tower.config, sac_clip_layer_of(&tower, layer), h + t * tokens * n, tokens,
                            want);
            for (int i = 0; i < tokens; i++)
                assert_true(fabs((double)(layer ? last_seen : first_seen)[t * tokens + i] - want[i]) < 1e-5);
        }
    }
    free(pixels);
    sac_arena_free(&arena);
    sac_pool_free(pool);
    sac_loaded_model_free(&m);
}

/* ---------------------------------------------------------------- sessions */

static sac_model *open_model(const char *path) {
    sac_model *m;
    sac_error err;
    assert_ok(sac_model_open(&m, path, NULL, &err), err);
    return m;
}

/* Runs a prompt with one picture; its visual tokens. */
static int64_t look(const sac_model *m, const char *reduce, const char *picture, float *logits,
                    bool *from_cache) {
    sac_session_config c = told_config(NULL, NULL, "f32");
    sac_session_method_lines lines;
    sac_model_info info;
    sac_error err;
    sac_session *s;
    sac_result r;
    sac_sampling o;
    sac_part parts[] = {{.kind = SAC_PART_IMAGE, .path = picture}, {.kind = SAC_PART_TEXT, .text = "What?"}};
    sac_message message = {"user", parts, 2, NULL};
    c.n_ctx = 512;
    c.reduce = reduce;
    sac_sampling_default(&o);
    o.max_tokens = 1;
    sac_model_get_info(m, &info);
    assert_ok(sac_session_create(&s, m, &c, &err), err);
    assert_ok(sac_session_generate(s, &message, 1, &o, NULL, &r, &err), err);
    memset(logits, 0, 1024 * sizeof *logits);
    memcpy(logits, sac_session_logits(s), (size_t)info.vocab * sizeof *logits);
    *from_cache = r.media[0].from_cache;
    int64_t n = r.n_visual_tokens;
    assert_int_equal(r.media[0].n_tokens, n);
    sac_session_methods(s, &lines);
    assert_string_equal(lines.reduce, reduce ? reduce : "none");
    sac_session_free(s);
    return n;
}

static void pictures_cost_what_the_rate_says(void **state) {
    (void)state;
    static const char *const models[] = {"models/demo", "tests/golden/models/llava_next"};
    static float whole[1024], part[1024], again[1024];
    for (int i = 0; i < 2; i++) {
        sac_model *m = open_model(models[i]);
        bool cached;
        const char *picture = "samples/picture0003.png";
        int64_t n_whole = look(m, NULL, picture, whole, &cached);
        int64_t n_half = look(m, "hired:rate=0.5,alpha=0.5,compat=grid", picture, part, &cached);
        assert_false(cached); /* another key than the whole picture's */
        if (i == 0) assert_true(n_whole == 64 && n_half == 32);
        if (i == 1) assert_true(n_half % 8 == 0 && n_half >= 16); /* half of each tile's 16 */
        assert_true(memcmp(whole, part, sizeof whole) != 0);
        assert_int_equal(look(m, "hired:rate=0.5,alpha=0.5,compat=grid", picture, again, &cached), n_half);
        assert_true(cached);
        assert_memory_equal(part, again, sizeof part);
        assert_int_equal(look(m, "hired:rate=0.25,alpha=0.5,compat=grid", picture, again, &cached),
                         n_half / 2);
        assert_false(cached);
        sac_model_free(m);
    }
}

static void frames_are_left_alone(void **state) {
    (void)state;
    static told dense, t;
    sac_model *m = told_model(2);
    sac_session_config c = told_config(NULL, NULL, NULL), d = c;
    d.reduce = "hired:rate=0.2";
    tell(m, &c, &dense);
    tell(m, &d, &t);
    told_equal(&dense, &t);
    sac_model_free(m);
}

static void refused_where_it_makes_no_sense(void **state) {
    (void)state;
    static const char *const models[] = {"tests/golden/models/longva", "tests/golden/models/llama_f32",
                                         "tests/golden/models/llava_full"};
    for (int i = 0; i < 3; i++) {
        sac_model *m = open_model(models[i]);
        sac_session_config c;
        sac_session *s;
        sac_memory_report plan;
        sac_error err;
        sac_session_config_default(&c);
        c.reduce = "hired";
        assert_int_equal(sac_session_create(&s, m, &c, &err), SAC_UNSUPPORTED);
        assert_int_equal(sac_session_plan(m, &c, &plan, &err), SAC_UNSUPPORTED);
        sac_model_free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_follow_the_content),
        cmocka_unit_test(lines_are_read),
        cmocka_unit_test(the_tower_tells_what_its_class_token_sees),
        cmocka_unit_test(pictures_cost_what_the_rate_says),
        cmocka_unit_test(frames_are_left_alone),
        cmocka_unit_test(refused_where_it_makes_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
