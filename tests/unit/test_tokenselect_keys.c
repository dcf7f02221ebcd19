/* TokenSelect's vote over the copy of the keys in 4 bits: what it finds of what the vote over the keys
 * themselves chooses, and that the copy follows the sequence. */
#include "method_session.h"
#include "method_test.h"

static const int GROUPS[][3] = {{4, 4, 16}, {7, 1, 16}, {6, 2, 64}, {8, 2, 80}, {28, 4, 128}};

enum { MOST_LISTED = 300 };
#define LINE       "tokenselect:init=4,k=64,local=12,theta=2"
#define ALL_LISTED (4 + 64 + 12)

typedef struct listed {
    int32_t rows[MOST_LISTED];
    int64_t n;
} listed;

static listed select_step(layer_case *c) {
    sac_choice choice = case_choose(c);
    listed l = {.n = 0};
    if (sac_choice_is_all(&choice)) return l;
    l.n = case_starts(&choice)[1];
    assert_true(l.n <= MOST_LISTED);
    memcpy(l.rows, choice.lists.rows, (size_t)l.n * sizeof *l.rows);
    return l;
}

static void expect_equal(const listed *a, const listed *b) {
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->rows, b->rows, (size_t)a->n * sizeof *a->rows);
}

static int64_t n_common(const listed *a, const listed *b) {
    int64_t n = 0;
    for (int64_t i = 0, j = 0; i < a->n && j < b->n;) {
        n += a->rows[i] == b->rows[j];
        int32_t x = a->rows[i], y = b->rows[j];
        i += x <= y;
        j += y <= x;
    }
    return n;
}

/* ---------------------------------------------------------------- how much is found */

/* Keys that are not turned back; and a copy whose rows are one off. */
static sac_ops real;
static sac_status gather_as_stored(const sac_stream *s, const sac_kv_gather_args *a) {
    sac_kv_gather_args b = *a;
    if (a->keys_only) b.turn_back = NULL;
    return real.kv_gather(s, &b);
}
static sac_status pack_next_row(const sac_stream *s, const sac_pack_rows_args *a) {
    sac_pack_rows_args b = *a;
    if (b.rows.n > 1) {
        b.rows.n--;
        b.rows.first++;
        b.p.n--;
    }
    return real.pack_rows(s, &b);
}

/* The share of the k best by the keys themselves that the copy's vote chooses too, over ten steps after a
 * prompt. */
static double recall(const int *group, const char *settings, int fault, bool as_device, int n_prompt) {
    layer_case c;
    char line[2][160];
    listed l[2][10];
    int64_t found = 0;
    snprintf(line[0], sizeof line[0], LINE "%s", settings);
    snprintf(line[1], sizeof line[1], LINE "%s,keys=4", settings);
    for (int bits = 0; bits < 2; bits++) {
        case_open(&c,
                  &(case_shape){group[0], group[1], group[2], .n_ctx = 5000, .use_cpu = !as_device,
                                .as_device = as_device},
                  7);
        real = c.ops;
        if (bits && fault == 1) c.ops.kv_gather = gather_as_stored;
        if (bits && fault == 2) c.ops.pack_rows = pack_next_row;
        case_method(&c, "dense", line[bits]);
        case_prompt(&c, n_prompt);
        for (int i = 0; i < 10; i++) l[bits][i] = select_step(&c);
        case_close(&c);
    }
    for (int i = 0; i < 10; i++) {
        assert_int_equal(l[0][i].n, ALL_LISTED);
        assert_int_equal(l[1][i].n, ALL_LISTED);
        found += n_common(&l[0][i], &l[1][i]) - (ALL_LISTED - 64);
    }
    return (double)found / 640;
}

static void most_of_the_best_are_found(void **state) {
    (void)state;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++) {
        double plain = recall(GROUPS[g], "", 0, false, 600),
               scaled = recall(GROUPS[g], ",scale=rsqrt_d", 0, false, 600);
        if (plain < 0.8 || scaled < 0.8)
            fail_msg("group %d: %.3f, %.3f of the best are found", (int)g, plain, scaled);
        if (g > 0) continue;
        for (int fault = 1; fault <= 2; fault++) assert_true(recall(GROUPS[g], "", fault, false, 600) < 0.5);
    }
    assert_true(recall(GROUPS[0], ",gqa=mod", 0, false, 600) > 0.8);
    assert_true(recall(GROUPS[2], ",select=topk", 0, false, 600) > 0.8);
    assert_true(recall(GROUPS[2], ",pos=orig,vote=true", 0, false, 600) > 0.8);
    assert_true(recall(GROUPS[2], "", 0, true, 600) > 0.8);
    assert_true(recall(GROUPS[0], "", 0, false, 4500) > 0.8); /* more rows than are packed at once */
}

/* ---------------------------------------------------------------- the copy follows the sequence */

static void open_small(layer_case *c, bool as_device, uint64_t seed) {
    case_open(c,
              &(case_shape){6, 2, 16, .n_ctx = 900, .n_layers = 3, .layer = 1, .use_cpu = seed % 2 == 0,
                            .as_device = as_device},
              seed);
}

/* Rows come with a prompt, with several, or with steps: the choice is the same, as in a second run. */
static void it_does_not_matter_when_rows_come(void **state) {
    (void)state;
    for (int as_device = 0; as_device < 2; as_device++) {
        listed whole, again[2], parts, steps;
        layer_case c;
        open_small(&c, as_device, 4);
        for (int i = 0; i < 2; i++) {
            case_method(&c, "dense", LINE ",keys=4");
            case_prompt(&c, 400);
            again[i] = whole = select_step(&c);
        }
        expect_equal(&again[0], &again[1]);
        case_method(&c, "dense", LINE ",keys=4");
        case_prompt(&c, 130);
        case_prompt(&c, 1);
        case_prompt(&c, 269);
        parts = select_step(&c);
        case_method(&c, "dense", LINE ",keys=4");
        case_prompt(&c, 77);
        for (int i = 77; i < 400; i++) case_step(&c);
        steps = select_step(&c);
        expect_equal(&whole, &parts);
        expect_equal(&whole, &steps);
        assert_int_equal(whole.n, ALL_LISTED);
        case_close(&c);
    }
}

/* Other tokens after a cut: as if what was cut off had never been. */
static void what_is_cut_off_is_forgotten(void **state) {
    (void)state;
    static const int64_t cuts[] = {397, 301, 80, 16};
    for (size_t i = 0; i < SAC_COUNT(cuts); i++) {
        listed cut, fresh;
        layer_case c;
        open_small(&c, i % 2, i);
        case_method(&c, "dense", LINE ",keys=4");
        case_prompt(&c, 390);
        for (int j = 0; j < 10; j++) case_step(&c);
        sac_decode_cut(&c.decode, cuts[i], false);
        c.n = c.n_rows = cuts[i];
        for (int64_t j = cuts[i] * 32; j < 900 * 32; j++) c.raw_k[j] = 2 * test_rand_float(&c.random);
        case_prompt(&c, 403 - cuts[i]);
        cut = select_step(&c);
        case_method(&c, "dense", LINE ",keys=4");
        case_prompt(&c, 403);
        fresh = select_step(&c);
        expect_equal(&cut, &fresh);
        assert_int_equal(cut.n, ALL_LISTED);
        case_close(&c);
    }
}

/* Up to init + k + local tokens nobody votes; beyond, by one token, all but one candidate are chosen. */
static void while_k_covers_all_nothing_differs(void **state) {
    (void)state;
    static float out[2][84 * 96];
    for (int bits = 0; bits < 2; bits++) {
        layer_case c;
        open_small(&c, false, 5);
        case_method(&c, "dense", bits ? LINE ",keys=4" : LINE);
        case_prompt(&c, 50);
        for (int i = 50; i < ALL_LISTED; i++) {
            case_step(&c);
            memcpy(out[bits] + (i - 50) * 96, c.out, 96 * sizeof(float));
        }
        assert_int_equal(c.stats.n_selections, 0);
        assert_int_equal(select_step(&c).n, ALL_LISTED);
        assert_int_equal(c.stats.n_selections, 1);
        case_close(&c);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
}

/* The bits of the line that does not say it, and no memory. */
static void sixteen_bits_are_the_keys_themselves(void **state) {
    (void)state;
    static const char *const lines[] = {LINE, LINE ",keys=16", LINE ",keys=4"};
    static float out[3][40 * 96];
    size_t bytes[3];
    for (int l = 0; l < 3; l++) {
        layer_case c;
        open_small(&c, false, 8);
        case_method(&c, "dense", lines[l]);
        bytes[l] = c.method_arena.used_bytes;
        case_prompt(&c, 300);
        for (int i = 0; i < 40; i++) {
            case_step(&c);
            memcpy(out[l] + i * 96, c.out, 96 * sizeof(float));
        }
        case_close(&c);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    assert_int_equal(bytes[0], bytes[1]);
    size_t codes = 3 * 2 * 900 * (16 / 2 + 2 * sizeof(uint16_t));
    assert_true(bytes[2] >= bytes[0] + codes && bytes[2] < bytes[0] + 10 * codes);
}

static void prompts_refuse_it(void **state) {
    (void)state;
    layer_case c;
    sac_prefill m;
    sac_error err = {0};
    open_small(&c, false, 1);
    assert_int_equal(sac_prefill_open(&m, "tokenselect:init=4,k=64,local=12,chunk=8,keys=4", &c.shape, &err),
                     SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "keys=4 is a setting of the decode policy"));
    assert_int_equal(sac_prefill_open(&m, "tokenselect:keys=8", &c.shape, &err), SAC_BAD_ARGUMENT);
    case_close(&c);
}

static void the_demo_model_answers_alike(void **state) {
    (void)state;
    static told t;
    told_again("dense", "tokenselect:init=4,k=100,local=64,keys=4", &t);
    assert_true(t.layer.decode_read < 1 && t.layer.selections > 0);
    told_again("dense", "twilight:p=0.9,base=tokenselect,base.init=4,base.k=100,base.local=64,base.keys=4",
               &t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(most_of_the_best_are_found),
        cmocka_unit_test(it_does_not_matter_when_rows_come),
        cmocka_unit_test(what_is_cut_off_is_forgotten),
        cmocka_unit_test(while_k_covers_all_nothing_differs),
        cmocka_unit_test(sixteen_bits_are_the_keys_themselves),
        cmocka_unit_test(prompts_refuse_it),
        cmocka_unit_test(the_demo_model_answers_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
