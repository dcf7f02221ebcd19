/* The numbers of the mixed cache: how they are rounded, ranges of groups, and bytes. */
#include "mixed_test.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding_is_within_half_a_step),
        cmocka_unit_test(ranges_reach_over_all_numbers),
        cmocka_unit_test(eight_bits_are_nearly_exact),
        cmocka_unit_test(keys_of_a_group_have_their_own_range),
        cmocka_unit_test(a_group_of_all_rows_gives_the_same_bits),
        cmocka_unit_test(bytes_equal_the_closed_form),
        cmocka_unit_test(smallest_blocks_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
