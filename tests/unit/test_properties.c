/* What every method owes, whatever it chooses: numbers for keys, values and queries that are all alike,
 * weights that sum to one, no head before another, more for a larger budget.
 *
 * Weights are read off directly: token j's value is one in channel j and zero elsewhere, so a head's output
 * is its row of attention weights, and what is not zero there is the set that the method chose. */
#include "method_table.h"

/* ---------------------------------------------------------------- weights */

static void values_name_tokens(layer_case *c) {
    int64_t d = c->shape.head_dim;
    for (int64_t j = 0; j < N; j++)
        for (int64_t i = 0; i < KV_HEADS * d; i++) c->raw_v[j * KV_HEADS * d + i] = i % d == j ? 1.0f : 0;
}

static void no_rotation(layer_case *c) {
    for (int64_t i = 0; i < N * c->shape.head_dim; i++) c->cos_sin[i] = i % 2 ? 0 : 1.0f;
}

static int64_t n_read(const float *w) {
    int64_t n = 0;
    for (int64_t j = 0; j < N; j++) n += w[j] > 0;
    return n;
}

/* Rows sum to one, or are zeros where a method leaves queries out; nothing later than the query. */
static void expect_weights(const method *m, const outputs *r, bool even) {
    bool some_rows = false;
    for (int64_t row = 0; row < r->n_rows; row++)
        for (int h = 0; h < HEADS; h++) {
            const float *w = r->o + row * r->cols + h * N;
            int64_t n = n_read(w);
            double sum = 0;
            for (int64_t j = 0; j < N; j++) {
                assert_true(w[j] >= 0 && (j <= r->first + row || w[j] == 0));
                if (even && w[j] > 0 && fabs((double)w[j] * (double)n - 1) > 1e-5)
                    fail_msg("%s: query %lld gives key %lld %g, one of %lld", m->format,
                             (long long)(r->first + row), (long long)j, (double)w[j], (long long)n);
                sum += (double)w[j];
            }
            if (n == 0 && (m->is & LEAVES_ROWS) && row < r->n_rows - 1) continue;
            some_rows = true;
            if (!(fabs(sum - 1) < 1e-5))
                fail_msg("%s: weights of query %lld sum to %g", m->format, (long long)(r->first + row), sum);
        }
    assert_true(some_rows);
}

static void expect_known(const method *m, int level, const outputs *r) {
    if (!m->known) return;
    for (int h = 0; h < HEADS; h++) {
        const float *w = r->o + (r->n_rows - 1) * r->cols + h * N;
        int64_t n = r->first + r->n_rows;
        for (int64_t j = 0; j < n; j++)
            if ((w[j] > 0) != m->known(m->knob[level], n, j))
                fail_msg("%s: level %d, head %d %s key %lld of %lld", m->format, level, h,
                         w[j] > 0 ? "reads" : "leaves out", (long long)j, (long long)n);
    }
}

static void weights_are_weights(void **state) {
    (void)state;
    static outputs r;
    for (size_t i = 0; i < SAC_COUNT(methods); i++) {
        layer_case c;
        open_for(&c, &methods[i], HEADS, N);
        values_name_tokens(&c);
        for (int level = 0; level < n_levels(&methods[i]); level += 2) {
            run(&c, &methods[i], level, &r);
            expect_weights(&methods[i], &r, false);
        }
        case_close(&c);
    }
}

/* Keys, or queries, that tell nothing apart: each query gives the mean of the values that it reads. */
static void alike_keys_give_the_mean_of_what_is_read(void **state) {
    (void)state;
    static outputs r;
    enum { CONSTANT_K, ZERO_K, ZERO_Q, KINDS };
    for (size_t i = 0; i < SAC_COUNT(methods); i++)
        for (int kind = 0; kind < KINDS; kind++) {
            layer_case c;
            open_for(&c, &methods[i], HEADS, N);
            values_name_tokens(&c);
            int64_t n_k = N * KV_HEADS * N;
            if (kind == CONSTANT_K) {
                no_rotation(&c);
                for (int64_t k = KV_HEADS * N; k < n_k; k++) c.raw_k[k] = c.raw_k[k % (KV_HEADS * N)];
            } else if (kind == ZERO_K)
                memset(c.raw_k, 0, (size_t)n_k * sizeof(float));
            else
                memset(c.raw_q, 0, (size_t)(N * HEADS * N) * sizeof(float));
            int level = n_levels(&methods[i]) > 1;
            run(&c, &methods[i], level, &r);
            expect_weights(&methods[i], &r, true);
            expect_known(&methods[i], level, &r);
            case_close(&c);
        }
}

static void values_of_zeros_give_zeros(void **state) {
    (void)state;
    static outputs r;
    for (size_t i = 0; i < SAC_COUNT(methods); i++) {
        layer_case c;
        open_for(&c, &methods[i], HEADS, 16);
        memset(c.raw_v, 0, N * KV_HEADS * 16 * sizeof(float));
        run(&c, &methods[i], 0, &r);
        for (int64_t k = 0; k < r.n_rows * r.cols; k++) assert_true(r.o[k] == 0);
        case_close(&c);
    }
}

/* What a setting says is always read is read, whatever the numbers. */
static void forced_keys_are_read(void **state) {
    (void)state;
    static outputs r;
    static const struct {
        method m;
        int64_t first, near;
    } forced[] = {{{"minference:v=35,s=110", {0}, NULL, 0}, 30, 1},
                  {{"minference:v=30,s=50", {0}, NULL, 0}, 30, 50},
                  {{"minference:pattern=block_sparse,blocks=1", {0}, NULL, 0}, 0, 1},
                  {{"xattn:min=0,sink=0,tau=0", {0}, NULL, 0}, 0, 1},
                  {{"tokenselect:init=4,local=16,chunk=16,k=4", {0}, NULL, 0}, 4, 1},
                  {{"infllm:init=4,local=16,block=8,chunk=16,topk=1", {0}, NULL, 0}, 4, 16},
                  {{"snapkv:window=16,cap=20", {0}, NULL, IN_STEPS}, 0, 16},
                  {{"pyramidkv:window=16,beta=4,cap=20", {0}, NULL, IN_STEPS}, 0, 16},
                  {{"h2o:heavy=10,recent=20", {0}, NULL, IN_STEPS}, 0, 20},
                  {{"quest:skip=0,page=8,budget=16", {0}, NULL, IN_STEPS}, 0, 1},
                  {{"twilight:skip=0,force_last=1,p=0.01", {0}, NULL, IN_STEPS}, 0, 1}};
    for (size_t i = 0; i < SAC_COUNT(forced); i++) {
        const method *m = &forced[i].m;
        layer_case c;
        open_for(&c, m, HEADS, N);
        values_name_tokens(&c);
        run(&c, m, 0, &r);
        for (int64_t row = 0; row < r.n_rows; row++)
            for (int64_t k = 0; k < HEADS * N; k++) {
                int64_t key = k % N, query = r.first + row;
                bool must = key < forced[i].first || key > query - forced[i].near;
                if (must && key <= query && !(r.o[row * r.cols + k] > 0))
                    fail_msg("%s: query %lld leaves out %lld", m->format, (long long)query, (long long)key);
            }
        case_close(&c);
    }
}

/* A row that was dropped never comes back. */
static void what_is_dropped_stays_away(void **state) {
    (void)state;
    static outputs r;
    static const char *const names[] = {"h2o", "snapkv", "pyramidkv", "adore"};
    for (size_t i = 0; i < SAC_COUNT(methods); i++) {
        bool drops = false;
        for (size_t k = 0; k < SAC_COUNT(names); k++) drops = drops || is_named(&methods[i], names[k]);
        if (!drops) continue;
        layer_case c;
        int64_t n_dropped = 0;
        open_for(&c, &methods[i], HEADS, N);
        values_name_tokens(&c);
        run(&c, &methods[i], 0, &r);
        for (int64_t row = 1; row < r.n_rows; row++)
            for (int64_t k = 0; k < HEADS * N; k++) {
                bool was = r.o[(row - 1) * r.cols + k] > 0, is = r.o[row * r.cols + k] > 0;
                if (is && !was && k % N < r.first + row)
                    fail_msg("%s: key %lld is back", methods[i].format, (long long)(k % N));
                n_dropped += was && !is;
            }
        bool drops_in_prompts = is_named(&methods[i], "snapkv") || is_named(&methods[i], "pyramidkv");
        assert_true(n_dropped > 0 || drops_in_prompts);
        case_close(&c);
    }
}

/* ---------------------------------------------------------------- budgets */

/* Keys read by the rows that count, and what share of dense attention they hold. */
static int64_t budget_of(const outputs *r, const outputs *dense, int64_t n_rows, double *mass) {
    int64_t n = 0;
    *mass = 0;
    for (int64_t row = 0; row < n_rows; row++)
        for (int64_t k = 0; k < HEADS * N; k++)
            if (r->o[row * r->cols + k] > 0) {
                n++;
                *mass += (double)dense->o[(r->first + row) * dense->cols + k];
            }
    return n;
}

static void more_budget_reads_and_holds_more(void **state) {
    (void)state;
    static outputs dense, r;
    for (size_t i = 0; i < SAC_COUNT(methods); i++) {
        const method *m = &methods[i];
        layer_case c;
        double mass = 0, last_mass = 0;
        int64_t n = 0, last_n = 0, first_n = 0, last_important = 0;
        open_for(&c, m, HEADS, N);
        values_name_tokens(&c);
        run(&c, &methods[0], 0, &dense);
        for (int level = 0; level < n_levels(m); level++) {
            run(&c, m, level, &r);
            n = budget_of(&r, &dense, in_steps(m) ? 1 : N, &mass);
            if (level == 0) first_n = n;
            if (n < last_n || mass < last_mass - 1e-6 || r.n_important < last_important)
                fail_msg("%s: knob %g reads %lld and holds %g, after %lld and %g", m->format, m->knob[level],
                         (long long)n, mass, (long long)last_n, last_mass);
            last_n = n;
            last_mass = mass;
            last_important = r.n_important;
            /* What it says it met is what it met. */
            if (!in_steps(m)) assert_int_equal((int64_t)r.stats.prefill_pairs, n);
        }
        bool reads_all = m->is & READS_ALL;
        assert_true(reads_all ? n == first_n : n > first_n);
        if (reads_all) assert_true(fabs(mass - (in_steps(m) ? 1 : N) * HEADS) < 1e-3);
        case_close(&c);
    }
}

/* ---------------------------------------------------------------- heads */

enum { SIX = 6 };

/* Heads of each group one place on; or the two groups exchanged, keys and values with them. */
static int moved(int h, bool groups) {
    return groups ? (h + 3) % 6 : h / 3 * 3 + (h + 1) % 3;
}

static void move_heads(float *x, int n_heads, bool groups) {
    for (int64_t t = 0; t < N; t++) {
        float old[SIX * SMALL];
        float *row = x + t * n_heads * SMALL;
        memcpy(old, row, (size_t)(n_heads * SMALL) * sizeof(float));
        for (int h = 0; h < n_heads; h++) {
            int to = n_heads == SIX ? moved(h, groups) : 1 - h;
            for (int i = 0; i < SMALL; i++) row[to * SMALL + i] = old[h * SMALL + i];
        }
    }
}

static void order_of_heads_is_immaterial(void **state) {
    (void)state;
    static outputs r, again;
    for (size_t i = 0; i < SAC_COUNT(methods); i++) {
        layer_case c;
        open_for(&c, &methods[i], SIX, SMALL);
        run(&c, &methods[i], 0, &r);
        for (int groups = 0; groups < 2; groups++) {
            move_heads(c.raw_q, SIX, groups);
            if (groups) {
                move_heads(c.raw_k, KV_HEADS, true);
                move_heads(c.raw_v, KV_HEADS, true);
            }
            run(&c, &methods[i], 0, &again);
            for (int64_t row = 0; row < r.n_rows; row++)
                for (int h = 0; h < SIX; h++) {
                    int to = groups ? moved(moved(h, false), true) : moved(h, false);
                    if (!is_close(r.o + row * r.cols + h * SMALL, again.o + row * r.cols + to * SMALL, SMALL))
                        fail_msg("%s: head %d in place %d, row %lld", methods[i].format, h, to,
                                 (long long)row);
                }
        }
        case_close(&c);
    }
}

/* ---------------------------------------------------------------- the table itself */

static bool is_listed(const char *name, bool steps) {
    for (size_t i = 0; i < SAC_COUNT(methods); i++)
        if (in_steps(&methods[i]) == steps && is_named(&methods[i], name)) return true;
    return false;
}

static void every_policy_is_in_the_table(void **state) {
    (void)state;
    for (const char *const *name = sac_prefill_policy_names(); *name; name++)
        if (!is_listed(*name, false)) fail_msg("prefill policy %s is not tested here", *name);
    for (const char *const *name = sac_decode_policy_names(); *name; name++)
        if (!is_listed(*name, true)) fail_msg("decode policy %s is not tested here", *name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_is_in_the_table),
        cmocka_unit_test(weights_are_weights),
        cmocka_unit_test(alike_keys_give_the_mean_of_what_is_read),
        cmocka_unit_test(values_of_zeros_give_zeros),
        cmocka_unit_test(forced_keys_are_read),
        cmocka_unit_test(what_is_dropped_stays_away),
        cmocka_unit_test(more_budget_reads_and_holds_more),
        cmocka_unit_test(order_of_heads_is_immaterial),
    };
    return cmocka_run_group_tests_name("properties", tests, NULL, NULL);
}
