/* The mixed cache of ZipVL: steps over packed rows, which rows count and in which order they lie; whole sessions. */
#include "method_session.h"
#include "mixed_test.h"

/* Over prompts of every kind of length, steps past two packings. */
static void steps_equal_attention_over_what_is_stored(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 31, 32, 64, 65, 129, 300};
    for (size_t i = 0; i < SAC_COUNT(SHAPES); i++)
        for (size_t j = 0; j < SAC_COUNT(lengths); j++) {
            case_shape s = shape_of(i, j % 2 == 0);
            format_case f;
            static const int groups[] = {0, 16, 32, 48};
            char line[60];
            snprintf(line, sizeof line, "mixed:gap=33,tau=0.7,k_group=%d,plain=%d", groups[(i + j) % 4],
                     j % 3 ? 0 : 7 + (int)(10 * i));
            format_open(&f, &s, i + 10 * j, "zipvl:min=0,tau=0.8", line);
            format_prompt(&f, lengths[j]);
            for (int k = 0; k < (i < 2 ? 70 : 36); k++) step_as_oracle(&f, s.use_cpu ? 6e-4 : 4e-6);
            format_close(&f);
        }
}

/* Prompts and answers below the least block stay plain. */
static void short_sequences_are_plain(void **state) {
    (void)state;
    case_shape s = shape_of(1, true);
    format_case f, plain;
    format_open(&f, &s, 3, "dense", "mixed");
    format_open(&plain, &s, 3, "dense", "f16");
    format_prompt(&f, 20);
    format_prompt(&plain, 20);
    for (int i = 0; i < 79; i++) { /* to one before the tail of 100 is full */
        format_step(&f);
        format_step(&plain);
        assert_memory_equal(f.c.out, plain.c.out, (size_t)(s.n_heads * s.head_dim) * sizeof(float));
        assert_int_equal(sac_kv_cache_bytes_used(&f.cache), sac_kv_cache_bytes_used(&plain.cache));
    }
    format_step(&f);
    format_step(&plain);
    assert_memory_equal(f.c.out, plain.c.out, (size_t)(s.n_heads * s.head_dim) * sizeof(float));
    assert_true(sac_kv_cache_bytes_used(&f.cache) < sac_kv_cache_bytes_used(&plain.cache) / 2);
    format_close(&f);
    format_close(&plain);
    format_open(&f, &s, 3, "dense", "mixed:plain=700"); /* more than there are */
    format_open(&plain, &s, 3, "dense", "f16");
    format_prompt(&f, 300);
    format_prompt(&plain, 300);
    for (int i = 0; i < 110; i++) {
        format_step(&f);
        format_step(&plain);
        assert_memory_equal(f.c.out, plain.c.out, (size_t)(s.n_heads * s.head_dim) * sizeof(float));
    }
    format_close(&f);
    format_close(&plain);
}

static void later_blocks_leave_earlier_bytes_alone(void **state) {
    (void)state;
    case_shape s = shape_of(1, true);
    format_case f;
    format_open(&f, &s, 3, "zipvl:min=0,tau=0.8", "mixed:gap=32");
    format_prompt(&f, 100);
    uint8_t *before = malloc(blocks_of(&f)->memory_bytes);
    for (int block = 1; block < 6; block++) {
        const sac_kv_block_layer *l = layer_of(&f);
        size_t used = l->used_bytes;
        assert_int_equal(l->n_blocks, block);
        memcpy(before, l->memory, used);
        for (int i = 0; i < 32; i++) format_step(&f);
        assert_true(l->used_bytes > used);
        assert_memory_equal(before, l->memory, used);
    }
    free(before);
    format_close(&f);
}

/* Which of the answer's tokens matter: tau of what the last query gives to the slice, by the largest. The slice is
 * what comes before the newest `plain` tokens, which stay; these begin in the prompt. */
static void split_by_the_last_query(int plain) {
    case_shape s = shape_of(1, false);
    char line[60];
    format_case f;
    snprintf(line, sizeof line, "mixed:gap=40,tau=0.7,plain=%d", plain);
    format_open(&f, &s, 9, "zipvl:min=0,tau=0.8", line);
    format_prompt(&f, 90);
    for (int i = 0; i < 39; i++) format_step(&f);
    int64_t n = exact_rows(&f, rows_k, rows_v), token = f.c.n;
    format_step(&f);
    double weight[40] = {0}, total = 0, held = 0;
    int d = s.head_dim, group = s.n_heads / s.n_kv_heads;
    for (int h = 0; h < s.n_heads; h++) {
        double q[128], w[N_CTX], sum = 0;
        case_rotate(&f.c, f.c.raw_q + (token * s.n_heads + h) * d, token, q);
        for (int64_t i = 0; i <= n; i++) {
            const float *key = i < n ? rows_k + (h / group * N_CTX + i) * d
                                     : format_true_keys(&f) + (h / group * N_CTX + token) * d;
            double dot = 0;
            for (int c = 0; c < d; c++) dot += q[c] * (double)key[c];
            sum += w[i] = exp(dot / sqrt(d));
        }
        for (int64_t i = 0; i < 40; i++) weight[i] += w[n + 1 - 40 - plain + i] / sum;
    }
    const sac_kv_block_layer *l = layer_of(&f);
    assert_int_equal(l->n_blocks, 2);
    int64_t n_high = l->part[l->block[1].part[0]].n, p = 0;
    for (int i = 0; i < 40; i++) total += weight[i];
    bool high[40] = {false};
    while (held < 0.7 * total) {
        int best = -1;
        for (int i = 0; i < 40; i++)
            if (!high[i] && (best < 0 || weight[i] > weight[best])) best = i;
        high[best] = true;
        held += weight[best];
        p++;
    }
    assert_int_equal(p, n_high);
    for (int i = 0; i < 40; i++) assert_int_equal(l->block[1].high[i / 8] >> i % 8 & 1, high[i]);
    format_close(&f);
}

static void slice_is_split_by_the_last_query(void **state) {
    (void)state;
    split_by_the_last_query(0);
    split_by_the_last_query(25);
}

/* The tail is the newest tokens as halves, at least `plain` of them, through prompts, steps and packings; what it held
 * before is packed in order. */
static void newest_tokens_stay_plain(void **state) {
    (void)state;
    static const char *const prefills[] = {"zipvl:min=0,tau=0.97", "zipcache:salient=0.3", "dense"};
    for (size_t i = 0; i < SAC_COUNT(prefills); i++) {
        case_shape s = shape_of(1, i % 2 == 0);
        format_case f;
        format_open(&f, &s, 3, prefills[i], "mixed:high=8,low=8,gap=32,tau=0.5,plain=50");
        for (int step = -1; step < 150; step++) {
            if (step < 0 || step == 90)
                format_prompt(&f, step < 0 ? 130 : 60);
            else
                format_step(&f);
            int64_t n = format_rows(&f, rows_k, rows_v), n_packed = layer_of(&f)->n_rows;
            assert_int_equal(n, f.c.n);
            assert_true(n - n_packed >= 50 && n - n_packed < 82);
            if (step < 0 || step == 90) assert_int_equal(n - n_packed, 50);
            for (int head = 0; head < s.n_kv_heads; head++)
                for (int64_t at = 0; at < n * s.head_dim; at++) {
                    int64_t from = (int64_t)head * N_CTX * s.head_dim + at;
                    bool is_plain = at / s.head_dim >= n_packed;
                    float k = format_true_keys(&f)[from], v = format_true_values(&f)[from];
                    assert_true(fabsf(rows_k[from] - k) < (is_plain ? 1e-3f : 0.02f));
                    assert_true(fabsf(rows_v[from] - v) < (is_plain ? 1e-3f : 0.02f));
                }
        }
        assert_int_equal(layer_of(&f)->n_blocks, 5); /* 80 tokens, 32 twice, 86 with the tail, 32 */
        format_close(&f);
    }
}

static void rows_come_back_in_order(void **state) {
    (void)state;
    case_shape s = shape_of(1, true);
    format_case f;
    int64_t d = s.head_dim;
    format_open(&f, &s, 3, "zipvl:min=0,tau=0.8", "mixed:high=8,low=8,gap=32,tau=0.5");
    format_prompt(&f, 77);
    for (int i = 0; i < 50; i++) format_step(&f);
    format_prompt(&f, 60); /* with the tail of 18 that is left */
    for (int i = 0; i < 7; i++) format_step(&f);
    assert_int_equal(format_rows(&f, rows_k, rows_v), 77 + 50 + 60 + 7);
    assert_int_equal(layer_of(&f)->n_blocks, 3);
    assert_int_equal(layer_of(&f)->block[2].n, 78);
    assert_int_equal(layer_of(&f)->part[layer_of(&f)->block[2].part[0]].n, 18 + f.n_important);
    for (int64_t i = 0; i < 2 * N_CTX * d; i++) {
        if (i / d % N_CTX >= f.c.n) continue;
        assert_true(fabsf(rows_k[i] - format_true_keys(&f)[i]) < 0.02f);
        assert_true(fabsf(rows_v[i] - format_true_values(&f)[i]) < 0.02f);
    }
    format_close(&f);
}

static void evicting_stores_important_rows_only(void **state) {
    (void)state;
    case_shape s = shape_of(1, false);
    format_case f;
    format_open(&f, &s, 3, "zipvl:min=0,tau=0.7", "mixed:low=0,gap=32,tau=0.5");
    format_prompt(&f, 150);
    int64_t n_high = f.n_important;
    assert_true(n_high < 140);
    assert_int_equal(layer_of(&f)->n_rows, n_high);
    assert_int_equal(format_rows(&f, rows_k, rows_v), n_high);
    int64_t d = s.head_dim;
    for (int64_t i = 0; i < n_high; i++) /* in order, those of the list */
        for (int c = 0; c < d; c++)
            assert_true(fabsf(rows_k[i * d + c] - format_true_keys(&f)[f.important[i] * d + c]) < 0.3f);
    for (int i = 0; i < 40; i++) step_as_oracle(&f, 4e-6);
    assert_true(f.c.stats.decode_rows < 0.95 * f.c.stats.decode_rows_dense);
    format_close(&f);
}

/* Nobody says what matters: all rows do. One token matters: the rest is in two bits. */
static void all_or_one_important(void **state) {
    (void)state;
    case_shape s = shape_of(1, true);
    format_case f;
    format_open(&f, &s, 3, "dense", "mixed");
    format_prompt(&f, 129);
    assert_int_equal(layer_of(&f)->n_parts, 1);
    assert_int_equal(layer_of(&f)->part[0].bits, 4);
    for (int i = 0; i < 5; i++) step_as_oracle(&f, 6e-4);
    format_close(&f);
    format_open(&f, &s, 3, "zipvl:min=0,tau=0", "mixed");
    format_prompt(&f, 129);
    assert_int_equal(layer_of(&f)->part[0].n, 1);
    assert_int_equal(layer_of(&f)->part[1].n, 128);
    for (int i = 0; i < 5; i++) step_as_oracle(&f, 6e-4);
    format_close(&f);
}

/* Of the packed rows each head reads the smallest set that holds p of its weight; the tail is read whole. */
static void top_p_mixes_the_rows_that_hold_p(void **state) {
    (void)state;
    static const double ps[] = {0.3, 0.8, 0.95};
    double last = 0;
    for (size_t i = 0; i < SAC_COUNT(ps); i++)
        for (int cpu = 0; cpu < 2; cpu++) {
            case_shape s = shape_of(1, cpu);
            s.measure_mass = true;
            char line[40];
            format_case f;
            snprintf(line, sizeof line, "mixed:top_p=%g", ps[i]);
            format_open(&f, &s, 3, "zipvl:min=0,tau=0.8", line);
            format_prompt(&f, 200);
            for (int step = 0; step < 4; step++) {
                int64_t n = exact_rows(&f, rows_k, rows_v), token = f.c.n, n_packed = layer_of(&f)->n_rows;
                f.c.stats = (sac_layer_stats){0};
                format_step(&f);
                int d = s.head_dim, group = s.n_heads / s.n_kv_heads;
                double n_kept = 0, n_read = 0;
                bool read[N_CTX] = {false}; /* by any head of the group */
                for (int h = 0; h < s.n_heads; h++) {
                    double q[128], w[N_CTX], sum = 0, out[128] = {0}, held = 0, used = 0;
                    case_rotate(&f.c, f.c.raw_q + (token * s.n_heads + h) * d, token, q);
                    bool kept[N_CTX] = {false};
                    for (int64_t r = 0; r <= n; r++) {
                        const float *key = r < n ? rows_k + (h / group * N_CTX + r) * d
                                                 : format_true_keys(&f) + (h / group * N_CTX + token) * d;
                        double dot = 0;
                        for (int c = 0; c < d; c++) dot += q[c] * (double)key[c];
                        w[r] = exp(dot / sqrt(d));
                        if (r < n_packed) sum += w[r];
                        kept[r] = r >= n_packed;
                    }
                    while (held < ps[i] * sum) {
                        int64_t best = -1;
                        for (int64_t r = 0; r < n_packed; r++)
                            if (!kept[r] && (best < 0 || w[r] > w[best])) best = r;
                        kept[best] = true;
                        held += w[best];
                        n_kept++;
                        n_read += !read[best];
                        read[best] = true;
                    }
                    if ((h + 1) % group == 0) memset(read, 0, sizeof read);
                    for (int64_t r = 0; r <= n; r++) {
                        if (!kept[r]) continue;
                        const float *value = r < n ? rows_v + (h / group * N_CTX + r) * d
                                                   : format_true_values(&f) + (h / group * N_CTX + token) * d;
                        used += w[r];
                        for (int c = 0; c < d; c++) out[c] += w[r] * (double)value[c];
                    }
                    for (int c = 0; c < d; c++)
                        assert_true(fabs(out[c] / used - (double)f.c.out[h * d + c]) < 1e-3);
                }
                double n_tail = (double)(n - n_packed + 1);
                assert_true(fabs(f.c.stats.decode_budget - n_kept - n_tail * s.n_heads) <= cpu);
                assert_true(fabs(f.c.stats.decode_rows - n_read - n_tail * s.n_kv_heads) <= cpu);
                assert_true(f.c.stats.decode_mass >= ps[i] && f.c.stats.decode_mass <= 1);
            }
            assert_true(f.c.stats.decode_budget >= last);
            last = f.c.stats.decode_budget;
            format_close(&f);
        }
}

static void bad_settings_are_refused(void **state) {
    (void)state;
    sac_attention_shape shape = {.n_layers = 1, .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 100};
    sac_kv_choice c;
    sac_error err;
    assert_int_equal(sac_kv_choice_parse(&c, "mixed:high=3", &shape, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_kv_choice_parse(&c, "mixed:high=16,low=2", &shape, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_kv_choice_parse(&c, "mixed:gap=1", &shape, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_kv_choice_parse(&c, "mixed:k_group=24", &shape, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_kv_choice_parse(&c, "zipcache:k_group=257", &shape, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_kv_choice_parse(&c, "zipcache:k_group=8", &shape, &err), SAC_BAD_ARGUMENT);
    assert_ok(sac_kv_choice_parse(&c, "mixed:high=16,low=16", &shape, &err), err);
    assert_string_equal(c.format->name, "f16");
    shape.window = 50;
    assert_int_equal(sac_kv_choice_parse(&c, "mixed", &shape, &err), SAC_UNSUPPORTED);
    shape.window = 0;
    shape.head_dim = SAC_KV_MAX_D + 16;
    assert_int_equal(sac_kv_choice_parse(&c, "mixed", &shape, &err), SAC_UNSUPPORTED);
}

static void session_sixteen_bits_are_dense(void **state) {
    (void)state;
    static told dense, off;
    sac_model *m = told_model(2);
    sac_session_config c = told_config(NULL, NULL, NULL), d = told_config(NULL, NULL, "mixed:high=16,low=16");
    tell(m, &c, &dense);
    tell(m, &d, &off);
    told_equal(&dense, &off);
    sac_model_free(m);
}

static void session_repeats_itself(void **state) {
    (void)state;
    static told first, t, dense;
    sac_session_config c = told_config("zipvl:min=0,tau=0.9", NULL, "mixed:gap=32");
    for (int run = 0; run < 3; run++) {
        sac_model *m = told_model(run == 2 ? 1 : 2);
        tell(m, &c, &t);
        if (run == 0) first = t;
        told_equal(&first, &t);
        sac_model_free(m);
    }
    sac_model *m = told_model(2);
    sac_session_config d = told_config(NULL, NULL, NULL);
    tell(m, &d, &dense);
    assert_true(t.kv_bytes < dense.kv_bytes / 3);
    assert_string_equal(t.lines.kv, "mixed:high=4,low=2,gap=32,tau=0.975,top_p=1,k_group=0,plain=0,rope=after");
    sac_model_free(m);
}

/* Methods that take row numbers for positions would place later prompts wrongly. */
static void evicting_is_not_for_methods_that_turn_keys(void **state) {
    (void)state;
    static const char *const TURNING[] = {"tokenselect:k=100", "infllm:local=200", "selfextend:window=200",
                                          "streaming:recent=200"};
    sac_model *m = told_model(1);
    sac_session *s;
    sac_error err;
    for (size_t i = 0; i < SAC_COUNT(TURNING); i++) {
        sac_session_config c = told_config(TURNING[i], NULL, "mixed:low=0");
        assert_int_equal(sac_session_create(&s, m, &c, &err), SAC_UNSUPPORTED);
        assert_non_null(strstr(err.text, "KV format mixed drops rows"));
        assert_null(strchr(err.text, '\n'));
        c.kv = "mixed";
        assert_ok(sac_session_create(&s, m, &c, &err), err);
        sac_session_free(s);
    }
    sac_session_config c = told_config("zipvl", NULL, "mixed:low=0");
    assert_ok(sac_session_create(&s, m, &c, &err), err);
    sac_session_free(s);
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_equal_attention_over_what_is_stored),
        cmocka_unit_test(short_sequences_are_plain),
        cmocka_unit_test(newest_tokens_stay_plain),
        cmocka_unit_test(later_blocks_leave_earlier_bytes_alone),
        cmocka_unit_test(slice_is_split_by_the_last_query),
        cmocka_unit_test(rows_come_back_in_order),
        cmocka_unit_test(evicting_stores_important_rows_only),
        cmocka_unit_test(all_or_one_important),
        cmocka_unit_test(top_p_mixes_the_rows_that_hold_p),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(evicting_is_not_for_methods_that_turn_keys),
        cmocka_unit_test(session_sixteen_bits_are_dense),
        cmocka_unit_test(session_repeats_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
