/* method_table.h - every method at several budgets, and runs of it: a prompt, or steps after one. */
#ifndef METHOD_TABLE_H
#define METHOD_TABLE_H

#include "method_test.h"

enum {
    N = 192,
    PROMPT = 184,
    STEPS = 4,
    HEADS = 4,
    KV_HEADS = 2,
    MAX_COLS = HEADS * N,
    LEVELS = 4,
    SMALL = 16
};

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

static inline bool all(double knob, int64_t n, int64_t key) {
    (void)knob;
    return key < n;
}
static inline bool first_4_last_16(double knob, int64_t n, int64_t key) {
    return key < 4 + (int64_t)knob || key >= n - 16;
}
static inline bool first_4_last_some(double knob, int64_t n, int64_t key) {
    return key < 4 || key >= n - (int64_t)knob;
}
static inline bool first_some_last_16(double knob, int64_t n, int64_t key) {
    return key < (int64_t)knob || key >= n - 16;
}
static inline bool first_pages_and_the_last(double knob, int64_t n, int64_t key) {
    return key < (int64_t)knob - 8 || key / 8 == (n - 1) / 8;
}
static inline bool first_some(double knob, int64_t n, int64_t key) {
    (void)n;
    return key < (int64_t)knob;
}
static inline bool first_16_and_the_block(double knob, int64_t n, int64_t key) {
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
    {"xattn:min=0,sink=0,tau=%g", {0.1, 0.95}, NULL, 0},
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
    {"duo:start=4,recent=%g", {8, 16, 40, 90}, NULL, IN_STEPS},
    {"duo:start=4,share=1,recent=%g", {8, 16, 40, 90}, first_4_last_some, IN_STEPS},
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
    {"pyramidkv:window=16,beta=4,cap=%g", {20, 40, 80, 140}, NULL, IN_STEPS | COUNTS_TURNS},
    {"pyramidkv:window=16,beta=4,per_head=1,cap=%g", {20, 40, 80, 140}, NULL, IN_STEPS},
    {"adore:sigma=attention,r=0,pos=orig,m=%g", {20, 40, 80, 140}, NULL, IN_STEPS},
};

/* ---------------------------------------------------------------- runs */

static inline int n_levels(const method *m) {
    int n = 0;
    while (n < LEVELS && m->knob[n] > 0) n++;
    return n ? n : 1;
}

static inline bool in_steps(const method *m) {
    return m->is & IN_STEPS;
}

static inline bool is_named(const method *m, const char *name) {
    return strncmp(m->format, name, strlen(name)) == 0;
}

/* A step method's layer stands alone, but where budgets differ by layer it is the upper of two. */
static inline bool is_one_layer(const method *m) {
    return in_steps(m) && !is_named(m, "pyramidkv");
}

static inline void open_long(layer_case *c, const method *m, int n_heads, int head_dim, int64_t n_ctx) {
    case_open(c,
              &(case_shape){.n_heads = n_heads,
                            .n_kv_heads = KV_HEADS,
                            .head_dim = head_dim,
                            .n_ctx = n_ctx,
                            .n_layers = is_one_layer(m) ? 1 : 2,
                            .layer = is_one_layer(m) ? 0 : 1,
                            .use_cpu = true},
              5);
    c->n_visual = 2;
    c->visual[0] = (sac_visual_span){10, 50};
    c->visual[1] = (sac_visual_span){90, 80};
}

static inline void open_for(layer_case *c, const method *m, int n_heads, int head_dim) {
    open_long(c, m, n_heads, head_dim, N);
}

static inline void set_line(layer_case *c, const method *m, int level) {
    char line[160];
    snprintf(line, sizeof line, m->format, m->knob[level]);
    case_method(c, in_steps(m) ? "dense" : line, in_steps(m) ? line : "dense");
    const char *name = in_steps(m) ? c->decode.policy->name : c->prefill.policy->name;
    if (!is_named(m, name)) fail_msg("%s is off", line);
}

static inline void see_inputs(layer_case *c, int64_t n) {
    const sac_decode_policy *d = c->decode.policy;
    if (d->inputs)
        assert_int_equal(d->inputs(c->decode.state, &c->ops, &c->stream,
                                   sac_mat_f32(c->raw_q + c->n * c->shape.hidden, n, c->shape.hidden), c->n),
                         SAC_OK);
}

static inline void run_prompt(layer_case *c, const method *m, int64_t n) {
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

static inline void run_step(layer_case *c) {
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

static inline void keep_outputs(const layer_case *c, int64_t n, outputs *r) {
    memcpy(r->o + r->n_rows * r->cols, c->out, (size_t)(n * r->cols) * sizeof(float));
    r->n_rows += n;
}

static inline void run_steps(layer_case *c, outputs *r) {
    r->n_rows = 0;
    r->cols = c->shape.hidden;
    r->first = c->n;
    for (int i = 0; i < STEPS; i++) {
        run_step(c);
        keep_outputs(c, 1, r);
    }
}

static inline void run(layer_case *c, const method *m, int level, outputs *r) {
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

static inline bool is_close(const float *a, const float *b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 2e-6f)) return false;
    return true;
}

#endif
