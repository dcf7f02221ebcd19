/* Caches whose keys are packed as they were before rope: steps against fp64 attention over what is stored, turned to its
 * positions; rows that come back; what it is good for. */
#include "blocks.h"
#include "format_test.h"
#include "method_session.h"

enum { N_CTX = 1400, MAX_COLS = 8 * 128 };

static const struct {
    int n_heads, n_kv_heads, d;
} SHAPES[] = {{4, 4, 64}, {6, 2, 64}, {7, 1, 80}, {8, 1, 128}, {3, 3, 16}, {2, 1, 24}};

static const struct {
    const char *prefill, *kv;
} LINES[] = {{"zipvl:min=0,tau=0.8", "mixed:gap=33,tau=0.7,rope=before"},
             {"zipvl:min=0,tau=0.8", "mixed:gap=33,tau=0.7,rope=before,k_group=32,plain=20"},
             {"zipcache:salient=0.4", "mixed:gap=40,rope=before,k_group=16"},
             {"zipcache:salient=0.4", "zipcache:gap=33,rope=before,requantise=0"},
             {"zipcache:salient=0.4", "zipcache:gap=33,rope=before"},
             {"dense", "mixed:gap=32,high=8,rope=before"}};

static case_shape shape_of(size_t i, bool use_cpu) {
    return (case_shape){.n_heads = SHAPES[i].n_heads,
                        .n_kv_heads = SHAPES[i].n_kv_heads,
                        .head_dim = SHAPES[i].d,
                        .n_ctx = N_CTX,
                        .use_cpu = use_cpu};
}

/* The state begins with its blocks in both formats that have them. */
static const sac_kv_block_layer *layer_of(const format_case *f) {
    const sac_kv_blocks *b = f->cache.packing;
    return &b->layer[f->c.layer];
}

static float rows_k[8 * N_CTX * 128], rows_v[8 * N_CTX * 128];

/* Packed rows in the order that they lie, keys turned to their positions; then the tail. [n_kv_heads][N_CTX][d] */
static int64_t exact_rows(format_case *f) {
    const sac_kv_block_layer *l = layer_of(f);
    int d = f->c.shape.head_dim;
    int64_t n = 0, n_tail;
    float x[SAC_KV_MAX_D];
    double turned[SAC_KV_MAX_D];
    for (int i = 0; i < l->n_parts; n += l->part[i++].n)
        for (int head = 0; head < f->c.shape.n_kv_heads; head++)
            for (int64_t row = 0; row < l->part[i].n; row++) {
                const sac_turned_part *t = &l->turned[i];
                int64_t position = t->query[0] - t->keys[(t->n_lists > 1 ? head * l->part[i].n : 0) + row];
                sac_packed_get_key(&l->part[i], head, row, x);
                case_rotate(&f->c, x, position, turned);
                for (int c = 0; c < d; c++) rows_k[(head * N_CTX + n + row) * d + c] = (float)turned[c];
                sac_packed_get_value(&l->part[i], head, row, rows_v + (head * N_CTX + n + row) * d);
            }
    sac_kv_view tail = sac_kv_cache_begin_step(&f->cache, f->c.layer, 0, &n_tail);
    for (int head = 0; head < f->c.shape.n_kv_heads; head++)
        for (int64_t row = 0; row < n_tail; row++) {
            sac_kv_load(&tail, tail.k, head, row, rows_k + (head * N_CTX + n + row) * d);
            sac_kv_load(&tail, tail.v, head, row, rows_v + (head * N_CTX + n + row) * d);
        }
    return n + n_tail;
}

static void step_as_oracle(format_case *f, double tolerance) {
    double want[MAX_COLS];
    const sac_attention_shape *s = &f->c.shape;
    int64_t n = exact_rows(f), token = f->c.n;
    format_step(f);
    for (int head = 0; head < s->n_kv_heads; head++)
        for (int c = 0; c < s->head_dim; c++) {
            int64_t from = (head * s->n_ctx + token) * s->head_dim + c,
                    to = (head * N_CTX + n) * s->head_dim + c;
            rows_k[to] = sac_f16_to_f32(sac_f32_to_f16(format_true_keys(f)[from]));
            rows_v[to] = sac_f16_to_f32(sac_f32_to_f16(format_true_values(f)[from]));
        }
    format_oracle(f, token, rows_k, rows_v, n + 1, want);
    case_expect(&f->c, 0, want, tolerance);
}

/* Two prompts, of which the second meets what is unpacked, and steps past packings. */
static void steps_equal_attention_over_what_is_stored(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(SHAPES); i++)
        for (size_t j = 0; j < SAC_COUNT(LINES); j++) {
            case_shape s = shape_of(i, (i + j) % 2);
            format_case f;
            format_open(&f, &s, i + 10 * j, LINES[j].prefill, LINES[j].kv);
            format_prompt(&f, 90);
            for (int k = 0; k < 45; k++) step_as_oracle(&f, s.use_cpu ? 6e-4 : 1e-5);
            format_prompt(&f, 70);
            for (int k = 0; k < 45; k++) step_as_oracle(&f, s.use_cpu ? 6e-4 : 1e-5);
            assert_true(layer_of(&f)->n_parts > 0 && layer_of(&f)->turned);
            format_close(&f);
        }
}

/* In 8 bits all rows come back, in order and at their positions: more of them than are turned at once. */
static void rows_come_back_at_their_positions(void **state) {
    (void)state;
    for (int use_cpu = 0; use_cpu < 2; use_cpu++) {
        case_shape s = shape_of(1, use_cpu);
        format_case f;
        format_open(&f, &s, 3, "zipvl:min=0,tau=0.8", "mixed:high=8,low=8,gap=32,rope=before");
        format_prompt(&f, 1130);
        for (int i = 0; i < 50; i++) format_step(&f);
        format_prompt(&f, 60);
        for (int i = 0; i < 7; i++) format_step(&f);
        int64_t n = format_rows(&f, rows_k, rows_v), d = s.head_dim;
        assert_int_equal(n, f.c.n);
        assert_int_equal(layer_of(&f)->n_blocks, 3);
        for (int64_t i = 0; i < s.n_kv_heads * N_CTX * d; i++) {
            if (i / d % N_CTX >= n) continue;
            assert_true(fabsf(rows_k[i] - format_true_keys(&f)[i]) < 0.03f);
            assert_true(fabsf(rows_v[i] - format_true_values(&f)[i]) < 0.02f);
        }
        format_close(&f);
    }
}

/* Mean square of what packing takes off the keys of a prompt of n tokens. */
static double key_error(const char *kv, int64_t n) {
    case_shape s = shape_of(1, 1);
    format_case f;
    double sum = 0;
    const int64_t d = s.head_dim, cols = s.n_kv_heads * d;
    format_open(&f, &s, 3, "zipvl:min=0,ratio=0.5", kv);
    for (int64_t t = 0; t < N_CTX;
         t++) /* channels with a mean of their own, as keys of trained models have */
        for (int64_t c = 0; c < cols; c++) f.c.raw_k[t * cols + c] += (float)(c % 7 == 3) * 12.0f;
    format_prompt(&f, n);
    assert_int_equal(format_rows(&f, rows_k, rows_v), n);
    for (int64_t head = 0; head < s.n_kv_heads; head++)
        for (int64_t i = 0; i < n * d; i++) {
            double e = (double)(rows_k[head * N_CTX * d + i] - format_true_keys(&f)[head * N_CTX * d + i]);
            sum += e * e;
        }
    format_close(&f);
    return sum / (double)(n * cols);
}

/* A channel's mean is turned about by rope: one range for all of a long block is wide. Before rope it is not, and the
 * length of the block does not matter; groups of rows help, but less. */
static void channels_with_means_lose_less_before_rope(void **state) {
    (void)state;
    double after = key_error("mixed", 1200), groups = key_error("mixed:k_group=32", 1200),
           before = key_error("mixed:rope=before", 1200),
           both = key_error("mixed:rope=before,k_group=32", 1200),
           shorter = key_error("mixed:rope=before", 300);
    if (!(before < 0.25 * after && before < groups && both < before && fabs(shorter - before) < 0.1 * before))
        fail_msg("mean squares: after rope %g, in groups %g, before rope %g (300 tokens: %g), in groups %g",
                 after, groups, before, shorter, both);
}

/* What is said by name is what was there before; and rows' positions are counted. */
static void after_rope_is_as_ever(void **state) {
    (void)state;
    static const char *const lines[] = {"mixed:gap=40", "mixed:gap=40,rope=after",
                                        "mixed:gap=40,rope=before"};
    static float out[3][60 * 6 * 64];
    size_t n_bytes[3];
    for (int i = 0; i < 3; i++) {
        case_shape s = shape_of(1, 1);
        format_case f;
        const size_t cols = (size_t)s.n_heads * (size_t)s.head_dim;
        format_open(&f, &s, 3, "zipvl:min=0,tau=0.8", lines[i]);
        format_prompt(&f, 200);
        n_bytes[i] = sac_kv_cache_bytes_used(&f.cache);
        for (size_t step = 0; step < 60; step++) {
            format_step(&f);
            memcpy(out[i] + step * cols, f.c.out, cols * sizeof(float));
        }
        format_close(&f);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    assert_memory_not_equal(out[0], out[2], sizeof out[0]);
    assert_int_equal(n_bytes[0], n_bytes[1]);
    assert_int_equal(n_bytes[2],
                     n_bytes[0] + (200 + 2) * sizeof(int32_t)); /* two parts, a list for all heads */
}

static void what_cannot_be_turned_is_refused(void **state) {
    (void)state;
    sac_attention_shape shape = {.n_layers = 1,
                                 .n_heads = 4,
                                 .n_kv_heads = 2,
                                 .head_dim = 16,
                                 .n_ctx = 100,
                                 .rotation_factor = 1,
                                 .fixed_rotation = true};
    static const char *const lines[] = {"mixed:rope=before", "zipcache:rope=before"};
    sac_kv_choice c;
    sac_error err;
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        assert_ok(sac_kv_choice_parse(&c, lines[i], &shape, &err), err);
        shape.rotation_factor = 1.2f;
        assert_int_equal(sac_kv_choice_parse(&c, lines[i], &shape, &err), SAC_UNSUPPORTED);
        assert_non_null(strstr(err.text, "use rope=after"));
        shape.rotation_factor = 1, shape.fixed_rotation = false;
        assert_int_equal(sac_kv_choice_parse(&c, lines[i], &shape, &err), SAC_UNSUPPORTED);
        shape.fixed_rotation = true;
    }
    assert_int_equal(sac_kv_choice_parse(&c, "mixed:rope=before,low=0", &shape, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_kv_choice_parse(&c, "mixed:rope=none", &shape, &err), SAC_BAD_ARGUMENT);
    sac_model *m = told_model(1);
    sac_session *s;
    sac_session_config config = told_config("fastv", NULL, "mixed:rope=before");
    assert_int_equal(sac_session_create(&s, m, &config, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "fastv drops tokens"));
    sac_model_free(m);
}

static void the_demo_model_repeats_itself(void **state) {
    (void)state;
    static told first, t;
    for (int run = 0; run < 2; run++) {
        sac_model *m = told_model(run + 1);
        sac_session_config c = told_config("zipvl:min=0,tau=0.9", NULL, "mixed:gap=32,rope=before");
        tell(m, &c, &t);
        if (run == 0) first = t;
        told_equal(&first, &t);
        sac_model_free(m);
    }
    assert_string_equal(t.lines.kv,
                        "mixed:high=4,low=2,gap=32,tau=0.975,top_p=1,k_group=0,plain=0,rope=before");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_equal_attention_over_what_is_stored),
        cmocka_unit_test(rows_come_back_at_their_positions),
        cmocka_unit_test(channels_with_means_lose_less_before_rope),
        cmocka_unit_test(after_rope_is_as_ever),
        cmocka_unit_test(what_cannot_be_turned_is_refused),
        cmocka_unit_test(the_demo_model_repeats_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
