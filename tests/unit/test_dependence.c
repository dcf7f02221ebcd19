/* What a method chose may depend on: on later tokens, on a prompt's end, on what was cut off, on a seed; each
 * only where the table says so. */
#include "method_table.h"

/* ---------------------------------------------------------------- later tokens */

/* Important tokens before `end`, one set after the other. */
static int64_t important_before(const sac_important *x, int64_t end, int32_t *rows) {
    int64_t n = 0;
    for (int64_t i = 0; x->rows && i < x->n * x->n_lists; i++)
        if (x->rows[i] < end) rows[n++] = x->rows[i];
    return n;
}

/* Tokens after row 256, a boundary of every chunk and block here, change nothing before it; and who looks at
 * the whole prompt first are these, and no other. */
static void only_some_look_ahead(void **state) {
    (void)state;
    enum { LONG = 320, CUT = 256 };
    static outputs whole, part;
    static int32_t rows[KV_HEADS * LONG], fewer[KV_HEADS * LONG];
    for (size_t i = 0; i < SAC_COUNT(methods); i++) {
        const method *m = &methods[i];
        if (in_steps(m)) continue;
        layer_case c;
        int level = n_levels(m) > 2 ? 2 : n_levels(m) - 1;
        open_long(&c, m, HEADS, SMALL, LONG);
        run(&c, m, level, &whole);
        sac_important important = sac_prefill_important(&c.prefill);
        int64_t n = important_before(&important, CUT, rows);
        set_line(&c, m, level);
        run_prompt(&c, m, CUT);
        part = (outputs){.cols = c.shape.hidden};
        keep_outputs(&c, CUT, &part);
        important = sac_prefill_important(&c.prefill);
        bool same = is_close(whole.o, part.o, CUT * part.cols) &&
                    important_before(&important, CUT, fewer) == n &&
                    memcmp(rows, fewer, (size_t)n * sizeof *rows) == 0;
        if (same == !!(m->is & LOOKS_AHEAD))
            fail_msg("%s: later tokens %s earlier outputs", m->format, same ? "leave" : "change");
        assert_true(same || !c.prefill.policy->keeps_prefix);
        bool may = is_named(m, "zip") || is_named(m, "fastv") || is_named(m, "minference");
        assert_true(may || !(m->is & LOOKS_AHEAD));
        case_close(&c);
    }
}

/* A prompt in two parts leaves what the whole leaves; but for those that choose at its end. */
static void only_some_choose_at_a_prompts_end(void **state) {
    (void)state;
    static outputs whole, parts;
    for (size_t i = 0; i < SAC_COUNT(methods); i++) {
        const method *m = &methods[i];
        if (!in_steps(m)) continue;
        layer_case c;
        open_for(&c, m, HEADS, SMALL);
        run(&c, m, 1, &whole);
        set_line(&c, m, 1);
        run_prompt(&c, m, 123);
        run_prompt(&c, m, PROMPT - 123);
        run_steps(&c, &parts);
        bool same = is_close(whole.o, parts.o, STEPS * parts.cols);
        if (same == !!(m->is & COUNTS_TURNS))
            fail_msg("%s: a second prompt %s", m->format, same ? "changes nothing" : "changes steps");
        assert_true(same || !sac_decode_keeps_prefix(&c.decode));
        case_close(&c);
    }
}

/* After a cut, steps are those of a sequence that never was longer. */
static void what_is_cut_off_is_forgotten(void **state) {
    (void)state;
    static outputs fresh, again;
    int n_cut = 0;
    for (size_t i = 0; i < SAC_COUNT(methods); i++) {
        const method *m = &methods[i];
        if (!in_steps(m)) continue;
        layer_case c;
        open_for(&c, m, HEADS, SMALL);
        set_line(&c, m, 1);
        if (sac_decode_keeps_prefix(&c.decode)) {
            for (int64_t cut = 123; cut <= 128; cut += 5) {
                set_line(&c, m, 1);
                run_prompt(&c, m, PROMPT);
                run_steps(&c, &again);
                sac_decode_cut(&c.decode, cut, false);
                c.n = c.n_rows = cut;
                int64_t kv_cols = KV_HEADS * SMALL, q_cols = HEADS * SMALL;
                for (int64_t k = cut * kv_cols; k < N * kv_cols; k++)
                    c.raw_k[k] = 3 * test_rand_float(&c.random);
                for (int64_t k = cut * q_cols; k < N * q_cols; k++)
                    c.raw_q[k] = 3 * test_rand_float(&c.random);
                run_prompt(&c, m, PROMPT - cut);
                run_steps(&c, &again);
                run(&c, m, 1, &fresh);
                if (!is_close(fresh.o, again.o, STEPS * again.cols))
                    fail_msg("%s remembers what came after token %lld", m->format, (long long)cut);
                n_cut++;
            }
        }
        case_close(&c);
    }
    assert_true(n_cut > 10);
}

/* ---------------------------------------------------------------- seeds */

static bool has_seed(const sac_method_param *p) {
    while (p->name && strcmp(p->name, "seed") != 0) p++;
    return p->name;
}

/* Only ZipVL and ZipCache draw: nobody else has a seed, and theirs moves their choice. */
static void seeds_move_only_random_probes(void **state) {
    (void)state;
#define X(id) assert_int_equal(has_seed(sac_prefill_##id.params), !strncmp(sac_prefill_##id.name, "zip", 3));
    SAC_PREFILL_POLICIES(X)
#undef X
#define X(id) assert_false(has_seed(sac_decode_##id.params));
    SAC_DECODE_POLICIES(X)
#undef X
    static const struct {
        const char *format;
        bool moves;
    } lines[] = {{"zipvl:min=0,recent=24,random=24,tau=0.7,seed=%g", true},
                 {"zipvl:min=0,recent=100,random=100,tau=0.7,seed=%g", false}, /* every query is a probe */
                 {"zipvl:min=0,recent=48,random=0,tau=0.7,seed=%g", false},
                 {"zipcache:salient=0.5,seed=%g", true},
                 {"zipcache:salient=0.5,recent=0.1,random=0,seed=%g", false}};
    static outputs first, second;
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        const method m = {.format = lines[i].format, .knob = {1, 2}};
        int32_t rows[2][KV_HEADS * N];
        int64_t n[2];
        layer_case c;
        open_for(&c, &m, HEADS, SMALL);
        for (int level = 0; level < 2; level++) {
            run(&c, &m, level, level ? &second : &first);
            sac_important important = sac_prefill_important(&c.prefill);
            n[level] = important_before(&important, N, rows[level]);
        }
        bool moved_set = n[0] != n[1] || memcmp(rows[0], rows[1], (size_t)n[0] * sizeof(int32_t)) != 0;
        assert_int_equal(moved_set, lines[i].moves);
        if (!moved_set || is_named(&m, "zipcache")) assert_memory_equal(first.o, second.o, sizeof first.o);
        case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_some_look_ahead),
        cmocka_unit_test(only_some_choose_at_a_prompts_end),
        cmocka_unit_test(what_is_cut_off_is_forgotten),
        cmocka_unit_test(seeds_move_only_random_probes),
    };
    return cmocka_run_group_tests_name("what choices depend on", tests, NULL, NULL);
}
