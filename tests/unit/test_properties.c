/* What every method owes, whatever it chooses: numbers for keys, values and queries that are all alike,
 * weights that sum to one, no look ahead, no head before another, more for a larger budget.
 *
 * Weights are read off directly: token j's value is one in channel j and zero elsewhere, so a head's output
 * is its row of attention weights, and what is not zero there is the set that the method chose. */
#include "method_test.h"

enum { N = 192, PROMPT = 184, STEPS = 4, HEADS = 4, KV_HEADS = 2, MAX_COLS = HEADS * N, LEVELS = 4 };

/* Whether the query n - 1 reads the key when none is better than another. */
typedef bool (*known_set)(double knob, int64_t n, int64_t key);

enum {
    IN_STEPS = 1,     /* a decode policy; otherwise one of prefill */
    READS_ALL = 2,    /* all that came before, always */
    LEAVES_ROWS = 4,  /* queries that were not chosen get zeros */
    LOOKS_AHEAD = 8,  /* prefill: later tokens of the prompt change what is done for earlier ones */
    COUNTS_TURNS = 16 /* decode: a prompt in two parts is not the same as in one */
};

typedef struct method {
    const char *format;  /* its line; %g is the knob that widens its choice */
    double knob[LEVELS]; /* zeros: it has none */
    known_set known;
    int is;
} method;

static bool all(double knob, int64_t n, int64_t key) {
    (void)knob;
    return key < n;
}
static bool first_4_last_16(double knob, int64_t n, int64_t key) {
    return key < 4 + (int64_t)knob || key >= n - 16;
}
static bool first_4_last_some(double knob, int64_t n, int64_t key) {
    return key < 4 || key >= n - (int64_t)knob;
}
static bool first_some_last_16(double knob, int64_t n, int64_t key) {
    return key < (int64_t)knob || key >= n - 16;
}
static bool first_pages_and_the_last(double knob, int64_t n, int64_t key) {
    return key < (int64_t)knob - 8 || key / 8 == (n - 1) / 8;
}
static bool first_some(double knob, int64_t n, int64_t key) {
    (void)n;
    return key < (int64_t)knob;
}
static bool first_16_and_the_block(double knob, int64_t n, int64_t key) {
    return key < 16 || key > (n - 1) / 64 * 64 - (int64_t)knob;
}

static const method methods[] = {
    {"dense", {0}, all, READS_ALL},
    {"streaming:start=4,recent=%g", {8, 16, 40, 90}, first_4_last_some, 0},
    {"streaming:start=%g,recent=16", {1, 4, 30, 90}, first_some_last_16, 0},
    {"streaming:start=4,recent=%g,pos=orig", {8, 16, 40, 90}, first_4_last_some, 0},
    {"tokenselect:init=4,local=16,chunk=16,k=%g", {4, 8, 20, 60}, first_4_last_16, 0},
    {"tokenselect:init=4,local=16,chunk=16,pos=orig,select=head,k=%g", {4, 8, 20, 60}, NULL, 0},
    {"tokenselect:init=4,local=16,chunk=16,kmin=1,p=%g", {0.1, 0.4, 0.7, 0.9}, NULL, 0},
    {"infllm:init=4,local=16,block=8,chunk=16,topk=%g", {1, 3, 6, 12}, NULL, 0},
    {"selfextend:group=4,window=16", {0}, all, READS_ALL},
    {"minference:s=60,v=%g", {30, 50, 90, 140}, NULL, LOOKS_AHEAD},
    {"minference:v=30,s=%g", {50, 90, 103, 150}, NULL, LOOKS_AHEAD},
    {"minference:pattern=block_sparse,blocks=%g", {1, 2}, NULL, 0},
    {"minference:pattern=a_shape,v=16,s=%g", {8, 24, 60, 90}, first_16_and_the_block, 0},
    {"zipvl:min=0,recent=24,random=24,tau=%g", {0.3, 0.6, 0.9, 0.97}, NULL, LOOKS_AHEAD | LEAVES_ROWS},
    {"zipvl:min=0,recent=24,random=24,side=one,budget=cover,tau=%g", {0.3, 0.6, 0.9}, NULL, LOOKS_AHEAD},
    {"zipcache:salient=%g", {0.2, 0.4, 0.6, 0.9}, all, LOOKS_AHEAD | READS_ALL},
    {"fastv:layer=1,mode=attn,ratio=%g", {1, 0.7, 0.4, 0.1}, NULL, LOOKS_AHEAD | LEAVES_ROWS},
    {"dense", {0}, all, IN_STEPS | READS_ALL},
    {"streaming:start=4,recent=%g", {8, 16, 40, 90}, first_4_last_some, IN_STEPS},
    {"tokenselect:init=4,local=16,theta=2,k=%g", {4, 8, 20, 60}, first_4_last_16, IN_STEPS},
    {"tokenselect:init=4,local=16,theta=2,kmin=1,p=%g", {0.1, 0.4, 0.7, 0.9}, NULL, IN_STEPS},
    {"infllm:init=4,local=16,block=8,chunk=16,topk=%g", {1, 3, 6, 12}, NULL, IN_STEPS},
    {"selfextend:group=4,window=16", {0}, all, IN_STEPS | READS_ALL},
    {"quest:skip=0,page=8,budget=%g", {16, 32, 64, 128}, first_pages_and_the_last, IN_STEPS},
    {"quest:skip=0,page=8,heads=union,budget=%g", {16, 32, 64, 128}, NULL, IN_STEPS},
    {"quest:skip=0,page=8,heads=query,budget=%g", {16, 32, 64, 128}, NULL, IN_STEPS},
    {"doublesparse:skip=0,k=%g", {10, 30, 60, 120}, first_some, IN_STEPS | COUNTS_TURNS},
    {"doublesparse:skip=0,heads=union,bits=4,k=%g", {10, 30, 60, 120}, NULL, IN_STEPS | COUNTS_TURNS},
    {"twilight:skip=0,p=%g", {0.2, 0.5, 0.8, 0.95}, all, IN_STEPS},
    {"twilight:skip=0,union=0,bits=8,p=%g", {0.2, 0.5, 0.8, 0.95}, all, IN_STEPS},
    {"twilight:skip=0,base=quest,base.skip=0,base.page=8,base.budget=96,p=%g",
     {0.2, 0.5, 0.8},
     NULL,
     IN_STEPS},
    {"twilight:skip=0,base=tokenselect,base.init=4,base.local=16,base.k=60,p=%g",
     {0.2, 0.5, 0.8},
     NULL,
     IN_STEPS},
    {"h2o:recent=20,heavy=%g", {10, 30, 60, 120}, NULL, IN_STEPS | COUNTS_TURNS},
    {"h2o:heavy=20,recent=%g", {10, 30, 60, 120}, NULL, IN_STEPS | COUNTS_TURNS},
    {"snapkv:window=16,cap=%g", {20, 40, 80, 140}, NULL, IN_STEPS | COUNTS_TURNS},
    {"snapkv:window=16,pool=max,per_head=1,cap=%g", {20, 40, 80, 140}, NULL, IN_STEPS},
    {"adore:sigma=attention,r=0,pos=orig,m=%g", {20, 40, 80, 140}, NULL, IN_STEPS},
};

/* ---------------------------------------------------------------- runs */

static int n_levels(const method *m) {
    int n = 0;
    while (n < LEVELS && m->knob[n] > 0) n++;
    return n ? n : 1;
}

static bool in_steps(const method *m) {
    return m->is & IN_STEPS;
}

static bool is_named(const method *m, const char *name) {
    return strncmp(m->format, name, strlen(name)) == 0;
}

static void open_long(layer_case *c, const method *m, int n_heads, int head_dim, int64_t n_ctx) {
    case_open(c,
              &(case_shape){.n_heads = n_heads,
                            .n_kv_heads = KV_HEADS,
                            .head_dim = head_dim,
                            .n_ctx = n_ctx,
                            .n_layers = in_steps(m) ? 1 : 2,
                            .layer = in_steps(m) ? 0 : 1,
                            .use_cpu = true},
              5);
    c->n_visual = 2;
    c->visual[0] = (sac_visual_span){10, 50};
    c->visual[1] = (sac_visual_span){90, 80};
}

static void open_for(layer_case *c, const method *m, int n_heads, int head_dim) {
    open_long(c, m, n_heads, head_dim, N);
}

static void set_line(layer_case *c, const method *m, int level) {
    char line[160];
    snprintf(line, sizeof line, m->format, m->knob[level]);
    case_method(c, in_steps(m) ? "dense" : line, in_steps(m) ? line : "dense");
    const char *name = in_steps(m) ? c->decode.policy->name : c->prefill.policy->name;
    if (!is_named(m, name)) fail_msg("%s is off", line);
}

static void see_inputs(layer_case *c, int64_t n) {
    const sac_decode_policy *d = c->decode.policy;
    if (d->inputs)
        assert_int_equal(d->inputs(c->decode.state, &c->ops, &c->stream,
                                   sac_mat_f32(c->raw_q + c->n * c->shape.hidden, n, c->shape.hidden), c->n),
                         SAC_OK);
}

static void run_prompt(layer_case *c, const method *m, int64_t n) {
    see_inputs(c, n);
    if (is_named(m, "fastv")) { /* ranks in the layer before */
        c->layer = 0;
        sac_layer_attention a = case_tokens(c, n);
        assert_int_equal(sac_prefill_attend(&c->prefill, &a), SAC_OK);
        c->layer = 1;
        c->stats = (sac_layer_stats){0};
    }
    case_prompt(c, n);
}

static void run_step(layer_case *c) {
    const sac_decode_policy *d = c->decode.policy;
    if (d->rebuild) {
        float x[1];
        int32_t position[1];
        int64_t n;
        assert_int_equal(d->rebuild(c->decode.state, &c->ops, &c->stream, sac_mat_f32(x, 0, c->shape.hidden),
                                    position, &n),
                         SAC_OK);
        assert_int_equal(n, 0);
    }
    see_inputs(c, 1);
    case_step(c);
}

/* Outputs of a prompt, or of the steps after one. */
typedef struct outputs {
    float o[N * MAX_COLS];
    int64_t n_rows, cols, first; /* the query of the first row */
    sac_layer_stats stats;
    int64_t n_important;
} outputs;

static void keep_outputs(const layer_case *c, int64_t n, outputs *r) {
    memcpy(r->o + r->n_rows * r->cols, c->out, (size_t)(n * r->cols) * sizeof(float));
    r->n_rows += n;
}

static void run_steps(layer_case *c, outputs *r) {
    r->n_rows = 0;
    r->cols = c->shape.hidden;
    r->first = c->n;
    for (int i = 0; i < STEPS; i++) {
        run_step(c);
        keep_outputs(c, 1, r);
    }
}

static void run(layer_case *c, const method *m, int level, outputs *r) {
    set_line(c, m, level);
    int64_t n = in_steps(m) ? PROMPT : c->shape.n_ctx;
    run_prompt(c, m, n);
    if (in_steps(m))
        run_steps(c, r);
    else {
        *r = (outputs){.cols = c->shape.hidden};
        keep_outputs(c, n, r);
    }
    r->stats = c->stats;
    sac_important important = sac_prefill_important(&c->prefill);
    r->n_important = important.rows ? important.n * important.n_lists : 0;
}

static bool is_close(const float *a, const float *b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 2e-6f)) return false;
    return true;
}

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
                  {{"tokenselect:init=4,local=16,chunk=16,k=4", {0}, NULL, 0}, 4, 1},
                  {{"infllm:init=4,local=16,block=8,chunk=16,topk=1", {0}, NULL, 0}, 4, 16},
                  {{"snapkv:window=16,cap=20", {0}, NULL, IN_STEPS}, 0, 16},
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
    static const char *const names[] = {"h2o", "snapkv", "adore"};
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
        assert_true(n_dropped > 0 || is_named(&methods[i], "snapkv"));
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

enum { SIX = 6, SMALL = 16 };

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
                sac_decode_cut(&c.decode, cut);
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

/* ---------------------------------------------------------------- seeds, and the table itself */

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
        cmocka_unit_test(only_some_look_ahead),
        cmocka_unit_test(only_some_choose_at_a_prompts_end),
        cmocka_unit_test(what_is_cut_off_is_forgotten),
        cmocka_unit_test(seeds_move_only_random_probes),
    };
    return cmocka_run_group_tests_name("properties", tests, NULL, NULL);
}
