/* The mixed cache of ZipVL: rounding, steps over packed rows, packing of the answer's tokens, bytes. */
#include "blocks.h"
#include "format_test.h"
#include "method_session.h"

enum { N_CTX = 700, MAX_COLS = 16 * 128 };

static const struct {
    int n_heads, n_kv_heads, d;
} SHAPES[] = {{4, 4, 64}, {6, 2, 64}, {4, 1, 64}, {7, 1, 80}, {8, 1, 128}, {3, 3, 16}, {2, 1, 24}};

static case_shape shape_of(size_t i, bool use_cpu) {
    return (case_shape){.n_heads = SHAPES[i].n_heads,
                        .n_kv_heads = SHAPES[i].n_kv_heads,
                        .head_dim = SHAPES[i].d,
                        .n_ctx = N_CTX,
                        .use_cpu = use_cpu};
}

/* The state begins with its blocks in both formats that have them. */
static sac_kv_blocks *blocks_of(const format_case *f) {
    return f->cache.packing;
}
static const sac_kv_block_layer *layer_of(const format_case *f) {
    return &blocks_of(f)->layer[f->c.layer];
}

/* What a step reads, in the order that it lies, not rounded to halves: [n_kv_heads][N_CTX][d]. */
static int64_t exact_rows(format_case *f, float *k, float *v) {
    const sac_kv_block_layer *l = layer_of(f);
    int d = f->c.shape.head_dim;
    int64_t n = 0;
    for (int i = 0; i < l->n_parts; n += l->part[i++].n)
        for (int head = 0; head < f->c.shape.n_kv_heads; head++)
            for (int64_t row = 0; row < l->part[i].n; row++) {
                sac_packed_get_key(&l->part[i], head, row, k + (head * N_CTX + n + row) * d);
                sac_packed_get_value(&l->part[i], head, row, v + (head * N_CTX + n + row) * d);
            }
    int64_t n_tail;
    sac_kv_view tail = sac_kv_cache_begin_step(&f->cache, f->c.layer, 0, &n_tail);
    for (int head = 0; head < f->c.shape.n_kv_heads; head++)
        for (int64_t row = 0; row < n_tail; row++) {
            sac_kv_load(&tail, tail.k, head, row, k + (head * N_CTX + n + row) * d);
            sac_kv_load(&tail, tail.v, head, row, v + (head * N_CTX + n + row) * d);
        }
    return n + n_tail;
}

static float rows_k[8 * N_CTX * 128], rows_v[8 * N_CTX * 128];

/* A step's output over what was stored before it and its own token's half-rounded row. */
static void step_as_oracle(format_case *f, double tolerance) {
    double want[MAX_COLS];
    const sac_attention_shape *s = &f->c.shape;
    int64_t n = exact_rows(f, rows_k, rows_v), token = f->c.n;
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

/* Every number within half a step of its range (times the channel's factor), whatever the numbers. */
static void rounding_is_within_half_a_step(void **state) {
    (void)state;
    static const int bits[][2] = {{4, 2}, {8, 8}, {2, 4}};
    float k[128], v[128];
    for (size_t i = 0; i < SAC_COUNT(SHAPES); i++)
        for (size_t b = 0; b < SAC_COUNT(bits); b++) {
            case_shape s = shape_of(i, false);
            char line[60];
            format_case f;
            snprintf(line, sizeof line, "mixed:high=%d,low=%d", bits[b][0], bits[b][1]);
            format_open(&f, &s, i, "zipvl:min=0,tau=0.8", line);
            int64_t kv_cols = (int64_t)s.n_kv_heads * s.head_dim;
            for (int64_t t = 0; t < N_CTX; t++) {
                f.c.raw_v[t * kv_cols] = 0;         /* a channel of zeros */
                f.c.raw_v[t * kv_cols + 1] = -3.7f; /* a constant */
                f.c.raw_v[t * kv_cols + 2] *= 1000;
            }
            format_prompt(&f, 150);
            const sac_kv_block_layer *l = layer_of(&f);
            assert_int_equal(l->n_parts, 2);
            for (int head = 0; head < s.n_kv_heads; head++)
                for (int64_t t = 0, at[2] = {0}; t < 150; t++) {
                    int tier = !(l->block[0].high[t / 8] >> t % 8 & 1);
                    const sac_packed_rows *p = &l->part[tier];
                    int64_t row = at[tier]++;
                    assert_int_equal(p->bits, bits[b][tier]);
                    sac_packed_get_key(p, head, row, k);
                    sac_packed_get_value(p, head, row, v);
                    for (int c = 0; c < s.head_dim; c++) {
                        int64_t from = (head * N_CTX + t) * s.head_dim + c;
                        float true_k = sac_f16_to_f32(sac_f32_to_f16(format_true_keys(&f)[from]));
                        float true_v = sac_f16_to_f32(sac_f32_to_f16(format_true_values(&f)[from]));
                        double step =
                            (double)sac_f16_to_f32(p->k_scale[sac_packed_key_param(p, head, row, c)]);
                        assert_true(fabs((double)(true_k - k[c])) <= step / 2 * 1.0001 + 1e-6);
                        step = (double)sac_f16_to_f32(p->v_scale[sac_packed_value_param(p, head, row, c)]) *
                               (double)sac_f16_to_f32(p->v_channel[head * s.head_dim + c]);
                        assert_true(fabs((double)(true_v - v[c])) <= step / 2 * 1.0001 + 1e-6);
                    }
                }
            format_close(&f);
        }
}

/* A part's rows are in groups of k_group, the last one shorter; the range of each group and channel is that of its own
 * keys in fp64, and not of all of them. */
static void keys_of_a_group_have_their_own_range(void **state) {
    (void)state;
    for (int k_group = 16; k_group <= 80; k_group += 32) {
        case_shape s = shape_of(1, k_group == 48);
        char line[60];
        format_case f;
        int n_narrower = 0;
        snprintf(line, sizeof line, "mixed:k_group=%d", k_group);
        format_open(&f, &s, 5, "zipvl:min=0,tau=0.8", line);
        format_prompt(&f, 300);
        const sac_kv_block_layer *l = layer_of(&f);
        assert_true(l->n_parts == 2 && l->part[0].n > 150 && l->part[1].n > 32);
        for (int tier = 0; tier < 2; tier++) {
            const sac_packed_rows *p = &l->part[tier];
            int64_t token[300], n = 0;
            for (int64_t t = 0; t < 300; t++)
                if ((l->block[0].high[t / 8] >> t % 8 & 1) != tier) token[n++] = t;
            assert_int_equal(n, p->n);
            assert_int_equal(p->k_group, n < k_group ? n : k_group);
            for (int head = 0; head < s.n_kv_heads; head++)
                for (int c = 0; c < s.head_dim; c++)
                    for (int64_t first = 0; first < n; first += p->k_group) {
                        double min = INFINITY, max = -INFINITY, all[2] = {INFINITY, -INFINITY};
                        for (int64_t i = 0; i < n; i++) {
                            int64_t from = (head * N_CTX + token[i]) * s.head_dim + c;
                            double x = (double)sac_f16_to_f32(sac_f32_to_f16(format_true_keys(&f)[from]));
                            all[0] = fmin(all[0], x), all[1] = fmax(all[1], x);
                            if (i < first || i >= first + p->k_group) continue;
                            min = fmin(min, x), max = fmax(max, x);
                        }
                        int64_t at = sac_packed_key_param(p, head, first, c);
                        double low = (double)sac_f16_to_f32(p->k_min[at]),
                               span = (double)sac_f16_to_f32(p->k_scale[at]) * ((1 << p->bits) - 1);
                        assert_true(low <= min && low + span >= max - 1e-7 && fabs(low - min) < 2e-3);
                        assert_true(span <= (max - low) * 1.002 + 2e-5);
                        n_narrower += max - min < 0.99 * (all[1] - all[0]);
                    }
        }
        assert_true(n_narrower > 100);
        format_close(&f);
    }
}

/* A group as long as the block is no group. */
static void a_group_of_all_rows_gives_the_same_bits(void **state) {
    (void)state;
    static const char *const lines[] = {"mixed:gap=40", "mixed:gap=40,k_group=0,plain=0",
                                        "mixed:gap=40,k_group=208"};
    enum { STEPS = 90, COLS = 6 * 64 };
    static float first[STEPS * COLS];
    for (int i = 0; i < 3; i++) {
        case_shape s = shape_of(1, true);
        format_case f;
        format_open(&f, &s, 3, "zipvl:min=0,tau=0.8", lines[i]);
        format_prompt(&f, 200);
        for (int step = 0; step < STEPS; step++) {
            format_step(&f);
            if (i == 0) memcpy(first + step * COLS, f.c.out, COLS * sizeof(float));
            assert_memory_equal(first + step * COLS, f.c.out, COLS * sizeof(float));
        }
        format_close(&f);
    }
}

/* The range's ends: no number lies outside of what the codes reach. */
static void ranges_reach_over_all_numbers(void **state) {
    (void)state;
    uint64_t random = 3;
    for (int i = 0; i < 20000; i++) {
        float a = test_rand_float(&random) * powf(10, (float)test_rand_int(&random, -6, 4)), b = a;
        if (i % 5) b = test_rand_float(&random) * powf(10, (float)test_rand_int(&random, -6, 4));
        int bits = 2 << i % 3;
        float min = a < b ? a : b, max = a < b ? b : a;
        sac_packed_range r = sac_packed_range_of(min, max, bits);
        double low = (double)sac_f16_to_f32(r.min), step = (double)sac_f16_to_f32(r.scale);
        assert_true(low <= (double)min &&
                    low + step * ((1 << bits) - 1) >= (double)max - 1e-7 * ((double)max - low));
        assert_true(step * ((1 << bits) - 1) <= ((double)max - low) * 1.002 + 2e-5);
    }
}

static void eight_bits_are_nearly_exact(void **state) {
    (void)state;
    double want[MAX_COLS];
    case_shape s = shape_of(1, true);
    format_case f;
    format_open(&f, &s, 3, "zipvl:min=0,tau=0.8", "mixed:high=8,low=8,gap=40");
    format_prompt(&f, 200);
    for (int i = 0; i < 90; i++) {
        format_step(&f);
        format_oracle(&f, f.c.n - 1, format_true_keys(&f), format_true_values(&f), f.c.n, want);
        case_expect(&f.c, 0, want, 0.01);
    }
    format_close(&f);
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

static int64_t round_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

/* The closed form: codes of keys are exact, a word of values holds 8 or 16 rows, a line 8 halves. */
static size_t block_bytes(int64_t n_high, int64_t n_low, int64_t channels, int64_t k_group) {
    int64_t key_codes = channels * (n_high * 4 + n_low * 2) / 8;
    int64_t value_codes = channels * (round_up(n_high, 8) * 4 + round_up(n_low, 16) * 2) / 8;
    int64_t n_groups = k_group ? round_up(n_high, k_group) / k_group + round_up(n_low, k_group) / k_group
                               : (n_high > 0) + (n_low > 0);
    int64_t key_ranges = 4 * round_up(channels, 8) * n_groups;
    int64_t value_ranges = 4 * (round_up(n_high, 8) + round_up(n_low, 8)), factors = 2 * channels;
    int64_t bits = n_high && n_low ? (n_high + n_low + 7) / 8 : 0;
    return (size_t)(key_codes + value_codes + key_ranges + value_ranges + factors + bits);
}

static void bytes_equal_the_closed_form(void **state) {
    (void)state;
    for (size_t i = 0; i < 4; i++)
        for (int64_t n = 63; n < 350; n += 97) {
            case_shape s = shape_of(i, true);
            int64_t k_group = i % 2 ? 16 * (int64_t)i : 0;
            char line[60];
            int64_t channels = (int64_t)s.n_kv_heads * s.head_dim;
            format_case f;
            snprintf(line, sizeof line, "mixed:gap=50,tau=0.6,k_group=%d", (int)k_group);
            format_open(&f, &s, i, "zipvl:min=0,tau=0.8", line);
            format_prompt(&f, n);
            size_t packed = block_bytes(f.n_important, n - f.n_important, channels, k_group);
            assert_int_equal(sac_kv_cache_bytes_used(&f.cache), packed);
            for (int64_t t = 1; t < 50; t++) {
                format_step(&f);
                assert_int_equal(sac_kv_cache_bytes_used(&f.cache), packed + (size_t)(4 * channels * t));
            }
            format_step(&f);
            const sac_kv_block_layer *l = layer_of(&f);
            int64_t n_high = l->part[l->block[1].part[0]].n;
            assert_true(n_high < 50);
            assert_int_equal(sac_kv_cache_bytes_used(&f.cache),
                             packed + block_bytes(n_high, 50 - n_high, channels, k_group));
            format_close(&f);
        }
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

/* As many blocks as a conversation can make of a context fit the memory that was planned. */
static void smallest_blocks_fit(void **state) {
    (void)state;
    for (int run = 0; run < 4; run++) {
        const bool tail = run % 2;
        case_shape s = shape_of(2, true);
        format_case f;
        format_open(&f, &s, 3, "zipvl:min=0,tau=0.5",
                    run < 2 ? "mixed:gap=32,tau=0.3" : "mixed:gap=32,tau=0.3,k_group=16");
        while (f.c.n + 32 <= N_CTX) {
            if (tail)
                for (int i = 0; i < 32; i++) format_step(&f);
            else
                format_prompt(&f, 32);
        }
        const sac_kv_block_layer *l = layer_of(&f);
        assert_int_equal(l->n_blocks, N_CTX / 32);
        assert_true(l->used_bytes <= blocks_of(&f)->memory_bytes);
        format_close(&f);
    }
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
        cmocka_unit_test(rounding_is_within_half_a_step),
        cmocka_unit_test(ranges_reach_over_all_numbers),
        cmocka_unit_test(eight_bits_are_nearly_exact),
        cmocka_unit_test(short_sequences_are_plain),
        cmocka_unit_test(keys_of_a_group_have_their_own_range),
        cmocka_unit_test(a_group_of_all_rows_gives_the_same_bits),
        cmocka_unit_test(newest_tokens_stay_plain),
        cmocka_unit_test(bytes_equal_the_closed_form),
        cmocka_unit_test(later_blocks_leave_earlier_bytes_alone),
        cmocka_unit_test(slice_is_split_by_the_last_query),
        cmocka_unit_test(rows_come_back_in_order),
        cmocka_unit_test(evicting_stores_important_rows_only),
        cmocka_unit_test(all_or_one_important),
        cmocka_unit_test(smallest_blocks_fit),
        cmocka_unit_test(top_p_mixes_the_rows_that_hold_p),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(evicting_is_not_for_methods_that_turn_keys),
        cmocka_unit_test(session_sixteen_bits_are_dense),
        cmocka_unit_test(session_repeats_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
