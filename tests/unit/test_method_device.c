/* Methods on a device, without one (closed_device.h). Outputs must have the bits of the same method on the
 * CPU. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#define CLOSED_LOG2 29       /* XAttention takes as much for long contexts */
#include "closed_device.h"
#include "method_test.h"

static bool picks(const layer_case *c) {
    const sac_prefill_policy *p = c->prefill.policy;
    return p->picks_queries && p->picks_queries(c->prefill.p);
}

/* The case's queries, keys and values, and what its methods, for contexts of `room` tokens, keep for ops, in the
 * region; opened for the test. */
static void to_device(layer_case *c, int64_t room, const char *prefill, const char *decode, bool pick) {
    const sac_attention_shape *s = &c->shape;
    sac_error err = {0};
    closed_let_in(true);
    closed_clear();
    sac_arena there = sac_arena_over(closed_region, CLOSED_BYTES);
    if (!c->shape.device) c->shape.device = &closed_device;
    c->shape.dtype = SAC_DTYPE_F32;
    c->q = sac_arena_take(&there, (size_t)(s->n_ctx * s->hidden) * sizeof(float));
    c->kv = sac_arena_take(&there, 2 * (size_t)(s->n_ctx * s->n_kv_heads * s->head_dim) * sizeof(float));
    sac_attention_shape roomy = *s;
    roomy.n_ctx = room;
    assert_ok(sac_prefill_open(&c->prefill, prefill, &roomy, &err), err);
    assert_ok(sac_decode_open(&c->decode, decode, &roomy, &err), err);
    if (pick) {
        assert_true(picks(c));
        c->made = sac_arena_take(&there, (size_t)(s->n_ctx * s->hidden) * sizeof(float));
    }
    assert_ok(sac_arena_open(&c->method_arena, (size_t)1 << 26, &err), err);
    const sac_memory memory = {&c->method_arena, &there};
    sac_prefill_take(&c->prefill, &roomy, &memory);
    sac_decode_take(&c->decode, &roomy, &memory);
    sac_mass_take(&c->mass, s, &memory);
    assert_true(there.used_bytes < CLOSED_BYTES);
    if (c->prefill.policy->begin) c->prefill.policy->begin(c->prefill.state);
    sac_decode_begin(&c->decode);
}

/* The next n tokens as a prompt or, one of them, as a step. */
static void run_there(layer_case *c, int64_t n, bool step) {
    closed_let_in(true);
    sac_layer_attention a = case_tokens(c, n);
    sac_ops guarded = closed_ops(&c->ops);
    a.ops = c->make_ops = &guarded;
    if (c->made) case_hide_queries(c, &a);
    closed_let_in(false);
    if (!step && c->decode.policy->prompt)
        assert_int_equal(c->decode.policy->prompt(c->decode.state, &a), SAC_OK);
    assert_int_equal(step ? sac_decode_attend(&c->decode, &a, &c->mass) : sac_prefill_attend(&c->prefill, &a),
                     SAC_OK);
    closed_let_in(true);
    if (c->made) case_spread(c, n);
    closed_let_in(false);
    case_finish(c, &a, n);
    closed_let_in(true);
}

static void expect_equal_stats(layer_case *here, layer_case *there) {
    closed_let_in(false);
    case_count(there);
    closed_let_in(true);
    double more = here->stats.decode_rows - there->stats.decode_rows;
    bool gathers = here->decode.base && here->decode.base->policy->turns_keys; /* what any head keeps */
    assert_true(gathers ? more >= 0 : fabs(more) < 1e-6);                      /* means of lists */
    assert_true(here->stats.decode_budget == there->stats.decode_budget);
    assert_true(here->stats.decode_rows_dense == there->stats.decode_rows_dense);
    assert_true(here->stats.n_steps == there->stats.n_steps);
    assert_int_equal(here->stats.n_selections, there->stats.n_selections);
    assert_int_equal(here->stats.n_cache_hits, there->stats.n_cache_hits);
    assert_true(here->stats.prefill_kept == there->stats.prefill_kept);
    assert_true(here->stats.n_decode_mass == there->stats.n_decode_mass);
    assert_true(here->stats.n_prefill_mass == there->stats.n_prefill_mass);
    assert_true(fabs(here->stats.decode_mass - there->stats.decode_mass) < 1e-6);
    assert_true(fabs(here->stats.prefill_mass - there->stats.prefill_mass) < 1e-6);
}

/* Prompts and then steps of two cases that are ready, which are closed. */
static void compare_cases(layer_case *here, layer_case *there, bool same_bits, const int64_t *prompts,
                          int n_steps) {
    for (int i = 0; prompts[i] || n_steps-- > 0; i += prompts[i] != 0) {
        int64_t n = prompts[i] ? prompts[i] : 1;
        if (prompts[i])
            case_prompt(here, n);
        else
            case_step(here);
        run_there(there, n, !prompts[i]);
        if (same_bits)
            assert_memory_equal(here->out, there->out, (size_t)(n * here->shape.hidden) * sizeof(float));
        for (int64_t j = 0; j < n * here->shape.hidden; j++)
            assert_true(fabsf(here->out[j] - there->out[j]) < 1e-6f);
    }
    expect_equal_stats(here, there);
    assert_int_equal(here->n_rows, there->n_rows);
    assert_true(here->stats.prefill_pairs == there->stats.prefill_pairs);
    bool reads_all = !strcmp(here->prefill.policy->name, "selfextend"); /* at other positions */
    assert_true(reads_all || here->stats.n_selections > 0 ||
                here->stats.prefill_pairs < here->stats.prefill_pairs_dense ||
                here->stats.decode_rows < here->stats.decode_rows_dense);
    case_close(here);
    case_close(there);
}

/* Bits are equal where the device takes the CPU's way. */
static void compare_on(const case_shape *shape, const char *prefill, const char *decode, bool pick,
                       bool same_bits, const int64_t *prompts, int n_steps) {
    layer_case here, there;
    case_open(&here, shape, 11);
    case_open(&there, shape, 11);
    case_method(&here, prefill, decode);
    to_device(&there, shape->n_ctx, prefill, decode, pick);
    compare_cases(&here, &there, same_bits, prompts, n_steps);
}

static void compare(const char *prefill, const char *decode, bool pick, bool same_bits,
                    const int64_t *prompts, int n_steps) {
    const case_shape shape = {.n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 4700, .use_cpu = true};
    compare_on(&shape, prefill, decode, pick, same_bits, prompts, n_steps);
}

/* What choices hold of dense attention's weight: lists whose lengths the host knows, lists that only ops have counted,
 * places of a list, and everything. */
static void mass_is_measured(void **state) {
    static const char *const lines[] = {
        "quest:skip=0,page=16,budget=64",
        "quest:skip=0,page=5,budget=20,heads=query",
        "quest:skip=0,page=5,budget=20,every=8",
        "doublesparse:skip=0,k=24",
        "doublesparse:skip=0,k=40,heads=query,channels=16",
        "streaming:start=4,recent=60",
        "tokenselect:init=4,k=24,local=16,theta=2",
        "tokenselect:init=4,k=24,local=16,theta=0.2,max_hits=2",
        "twilight:p=0.8,skip=0",
        "twilight:p=0.9,skip=0,base=tokenselect,base.init=4,base.k=60,base.local=16,base.keys=4",
        "twilight:p=0.8,skip=0,base=quest,base.skip=0,base.page=16,base.budget=64"};
    const case_shape shape = {
        .n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 300, .use_cpu = true, .measure_mass = true};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(lines); i++)
        compare_on(&shape, "dense", lines[i], false, false, (const int64_t[]){170, 75, 0}, 12);
    compare_on(&shape, "zipvl:min=0,recent=8,random=8,tau=0.8", "dense", false, true,
               (const int64_t[]){150, 90, 0}, 3);
}

static void zipvl(void **state) {
    static const char *const lines[] = {"zipvl:min=0,recent=8,random=8,tau=0.8",
                                        "zipvl:min=0,recent=8,random=8,ratio=0.421",
                                        "zipvl:min=0,recent=4,random=20,side=one,tau=0.7",
                                        "zipvl:min=0,tau=0.5,keep_sink=1",
                                        "zipvl:min=0,tau=0.6,budget=cover",
                                        "zipvl:min=0,recent=8,random=8,tau=0.8,side=band,band=5",
                                        "zipvl:min=0,recent=8,random=8,tau=0.8,side=band,band=5,sink=2",
                                        "zipvl:min=0,recent=8,random=8,tau=0.8,side=near,band=5"};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(lines); i++)
        for (int pick = 0; pick < 2; pick++)
            if (!pick || !strstr(lines[i], "side="))
                compare(lines[i], "dense", pick == 1, true, (const int64_t[]){150, 90, 33, 0}, 0);
    /* so many queries that they go in steps, with others behind them: other tiles */
    compare(lines[1], "dense", true, false, (const int64_t[]){2600, 290, 0}, 0);
    compare(lines[1], "dense", false, false, (const int64_t[]){2600, 290, 0}, 0);
    compare("zipvl:min=0,recent=8,random=8,ratio=0.9,side=band", "dense", false, false,
            (const int64_t[]){2600, 290, 0}, 0);
}

static void tokenselect(void **state) {
    static const char *const decodes[] = {"theta=0.9", "theta=-1", "theta=2", "theta=0.2,max_hits=2"};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(decodes); i++) {
        char decode[100];
        snprintf(decode, sizeof decode, "tokenselect:init=4,k=24,local=16,%s", decodes[i]);
        /* chunks of a prompt go together there, and a reused choice keeps its rows in another order */
        compare("tokenselect:init=4,k=32,local=16,chunk=16", decode, false, false,
                (const int64_t[]){170, 75, 0}, 12);
    }
    static const char *const settings[] = {"gqa=mod",      "pos=orig",    "pos=orig,vote=true",
                                           "p=0.6,kmin=5", "select=topk", "select=head"};
    for (size_t i = 0; i < SAC_COUNT(settings); i++) {
        char prefill[100], decode[100];
        snprintf(prefill, sizeof prefill, "tokenselect:init=4,k=32,local=16,chunk=16,%s", settings[i]);
        snprintf(decode, sizeof decode, "tokenselect:init=4,k=24,local=16,%s", settings[i]);
        compare(prefill, decode, false, false, (const int64_t[]){170, 75, 0}, 12);
    }
    /* a window of positions is more than a list's places can tell */
    const case_shape windowed = {.n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 400, .window = 60, .use_cpu = true};
    compare_on(&windowed, "tokenselect:init=4,k=32,local=16,chunk=16,pos=orig", "dense", false, false,
               (const int64_t[]){170, 75, 0}, 12);
    compare_on(&windowed, "tokenselect:init=4,k=32,local=16,chunk=16", "dense", false, false, (const int64_t[]){170, 75, 0},
               12);
}

/* Queries of steps that are alike to many degrees: the device finds the same of them like the cached one as
 * the CPU does, chooses the same, and the host never asks it before somebody wants to see the counts. */
static void a_device_compares_queries_itself(void **state) {
    static const char *const lines[] = {
        "tokenselect:init=4,k=24,local=16,theta=0.9",
        "tokenselect:init=19,k=24,local=16,theta=0.97,keys=4",
        "tokenselect:init=4,k=24,local=16,theta=0.5,max_hits=2,keys=4",
        "tokenselect:init=16,k=24,local=16,theta=1.5,keys=4",
        "tokenselect:init=0,k=24,local=16,theta=-1,max_hits=3,keys=4",
        "twilight:p=0.9,skip=1,base=tokenselect,base.init=4,base.k=24,base.local=16,base.keys=4",
        "twilight:p=0.9,skip=2,base=tokenselect,base.init=4,base.k=24,base.local=16"};
    const case_shape shape = {
        .n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 320, .n_layers = 2, .layer = 1};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        layer_case here, there;
        case_open(&here, &shape, 3);
        case_open(&there, &shape, 3);
        case_method(&here, "dense", lines[i]);
        to_device(&there, shape.n_ctx, "dense", lines[i], false);
        for (int64_t t = 201; t < 320; t++) /* cosines with the one before from 1 to 0.8 */
            for (int64_t j = 0; j < 96; j++)
                here.raw_q[t * 96 + j] =
                    here.raw_q[(t - 1) * 96 + j] + (float)(t % 10) * 0.1f * test_rand_float(&here.random);
        memcpy(there.raw_q, here.raw_q, 320 * 96 * sizeof(float));
        case_prompt(&here, 200);
        run_there(&there, 200, false);
        int64_t n_downloads = closed_n_downloads;
        for (int64_t t = 200; t < 300; t++) {
            if (t == 250) { /* a prompt forgets */
                case_prompt(&here, 20);
                run_there(&there, 20, false);
                t += 20;
            }
            case_step(&here);
            run_there(&there, 1, true);
            for (int64_t j = 0; j < 96; j++) assert_true(fabsf(here.out[j] - there.out[j]) < 1e-6f);
        }
        assert_int_equal(closed_n_downloads, n_downloads);
        assert_true(here.stats.n_selections >= 4 && (here.stats.n_cache_hits >= 10 || i == 3));
        expect_equal_stats(&here, &there);
        sac_layer_stats none[2] = {{0}}; /* asked again it has nothing to add */
        assert_int_equal(sac_decode_counted(&there.decode, &there.shape, &there.stream, none), SAC_OK);
        assert_true(none[1].n_selections == 0 && none[1].n_cache_hits == 0);
        case_close(&here);
        case_close(&there);
    }
}

static void snapkv(void **state) {
    static const char *const lines[] = {"cap=40,window=8", "cap=40,window=8,pool=max,kernel=7",
                                        "cap=50,window=16,per_head=1", "cap=200,window=40"};
    char decode[100];
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        snprintf(decode, sizeof decode, "snapkv:%s", lines[i]);
        compare("dense", decode, false, true, (const int64_t[]){250, 0}, 9);
        compare("dense", decode, false, true, (const int64_t[]){210, 90, 5, 0}, 9);
    }
}

static void pyramidkv(void **state) {
    static const char *const lines[] = {"cap=40,window=8,beta=4", "cap=60,window=16,beta=30",
                                        "cap=50,window=16,beta=3,per_head=1"};
    char decode[100];
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(lines); i++)
        for (int layer = 0; layer < 2; layer++) {
            const case_shape shape = {.n_heads = 6,
                                      .n_kv_heads = 2,
                                      .head_dim = 16,
                                      .n_ctx = 400,
                                      .n_layers = 2,
                                      .layer = layer,
                                      .use_cpu = true};
            snprintf(decode, sizeof decode, "pyramidkv:%s", lines[i]);
            compare_on(&shape, "dense", decode, false, true, (const int64_t[]){250, 0}, 9);
            compare_on(&shape, "dense", decode, false, true, (const int64_t[]){210, 90, 5, 0}, 9);
        }
}

static void h2o(void **state) {
    static const char *const lines[] = {"heavy=0.2,recent=0.1", "heavy=20,recent=30", "heavy=0,recent=0.3",
                                        "heavy=0.5,recent=100"};
    char decode[100];
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        snprintf(decode, sizeof decode, "h2o:%s", lines[i]);
        compare("dense", decode, false, true, (const int64_t[]){150, 0}, 70);
        compare("dense", decode, false, true, (const int64_t[]){90, 60, 3, 0}, 30);
    }
}

static void minference(void **state) {
    (void)state;
    compare("minference:v=40,s=60", "dense", false, true, (const int64_t[]){500, 130, 3, 0}, 0);
    compare("minference:v=100,s=200,last_q=16", "dense", false, true, (const int64_t[]){64, 777, 0}, 0);
    compare("minference:v=50,s=120", "dense", false, true, (const int64_t[]){4500, 0}, 0); /* in parts */
    /* sums in another order */
    compare("minference:pattern=a_shape,v=70,s=130", "dense", false, false, (const int64_t[]){4500, 130, 0},
            0);
    compare("minference:pattern=block_sparse,blocks=3", "dense", false, false, (const int64_t[]){512, 300, 0},
            0);
    compare("minference:pattern=block_sparse,blocks=1", "dense", false, false, (const int64_t[]){333, 0}, 0);
    compare("minference:pattern=block_sparse,blocks=7", "dense", false, false,
            (const int64_t[]){100, 4501, 0}, 0);
}

static void xattn(void **state) {
    (void)state; /* sums in another order */
    compare("xattn:min=0,tau=0.6", "dense", false, false, (const int64_t[]){700, 130, 3, 0}, 0);
    compare("xattn:min=0,tau=0.8,stride=8,sink=0,local=2", "dense", false, false, (const int64_t[]){64, 777, 0}, 0);
    compare("xattn:min=0,tau=0.5", "dense", false, false, (const int64_t[]){4500, 0}, 0); /* in parts */
}

/* A device that chooses for more blocks of queries at a time than have room for lists of rows, as there is for long contexts: for
 * 800,000 tokens 27, and 6. Its attention reads lists of blocks, or refuses them, or nobody asks it. */
static int n_asked, n_listed; /* parts of prompts */
static bool refuses_blocks;
static sac_ops uncounted;
static sac_status count_block_attention(const sac_stream *s, const sac_block_attention_args *a) {
    n_asked++;
    return refuses_blocks ? SAC_UNSUPPORTED : uncounted.block_attention(s, a);
}
static sac_status count_pattern_rows(const sac_stream *s, const sac_pattern_rows_args *a) {
    n_listed++;
    return uncounted.pattern_rows(s, a);
}
static void xattn_reads_blocks(void **state) {
    const case_shape shape = {.n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 4700, .use_cpu = true};
    const int64_t prompts[] = {4500, 130, 0}; /* blocks: 27 and 9; 2 */
    enum { READS, REFUSES, NOBODY_ASKS, WAYS };
    static const int asked[] = {3, 3, 0}, listed[] = {0, 5 + 2 + 1, 6 + 1};
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        layer_case here, there;
        sac_device device = closed_device;
        device.compute = way == NOBODY_ASKS ? 80 : 90;
        assert_true(sac_ops_traits_of(&device)->reads_blocks == (way != NOBODY_ASKS));
        case_open(&here, &shape, 11);
        case_open(&there, &shape, 11);
        case_method(&here, "xattn:min=0,tau=0.2", "dense");
        there.shape.device = &device;
        to_device(&there, 800000, "xattn:min=0,tau=0.2", "dense", false);
        uncounted = there.ops;
        there.ops.block_attention = count_block_attention;
        there.ops.pattern_rows = count_pattern_rows;
        refuses_blocks = way == REFUSES;
        n_asked = n_listed = 0;
        compare_cases(&here, &there, false, prompts, 0);
        assert_int_equal(n_asked, asked[way]);
        assert_int_equal(n_listed, listed[way]);
    }
}

/* Two layers of a prompt of n tokens after `past`, which the tokens enter anew. */
static void compare_layers(layer_case *here, layer_case *there, int64_t past, int64_t n) {
    for (int layer = 0; layer < 3; layer++) {
        int64_t n_here = 0, n_there = 0;
        here->layer = there->layer = layer;
        here->n = here->n_rows = there->n = there->n_rows = past;
        case_prompt(here, n);
        run_there(there, n, false);
        assert_memory_equal(here->out, there->out, (size_t)(n * here->shape.hidden) * sizeof(float));
        sac_layer_attention a = {.layer = layer}; /* what `keep` looks at */
        const int32_t *kept = here->prefill.policy->keep(here->prefill.state, &a, &n_here);
        const int32_t *kept_there = there->prefill.policy->keep(there->prefill.state, &a, &n_there);
        assert_int_equal(n_here, n_there);
        assert_true(!kept == !kept_there);
        if (kept) assert_memory_equal(kept, kept_there, (size_t)n_here * sizeof *kept);
    }
}

static void fastv(void **state) {
    static const char *const lines[] = {"layer=1,mode=attn", "layer=2,mode=attn,query=all,ratio=0.7",
                                        "layer=1,ratio=0.3", "layer=2,query=all"};
    const case_shape shape = {
        .n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 400, .n_layers = 3, .use_cpu = true};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        layer_case here, there;
        char prefill[100];
        snprintf(prefill, sizeof prefill, "fastv:%s", lines[i]);
        case_open(&here, &shape, 5);
        case_open(&there, &shape, 5);
        case_method(&here, prefill, "dense");
        to_device(&there, shape.n_ctx, prefill, "dense", false);
        here.n_visual = there.n_visual = 2;
        here.visual[0] = there.visual[0] = (sac_visual_span){7, 61};
        here.visual[1] = there.visual[1] = (sac_visual_span){120, 130};
        compare_layers(&here, &there, 0, 150);
        compare_layers(&here, &there, 150, 120);
        assert_int_equal(there.stats.n_selections, 2);
        case_close(&here);
        case_close(&there);
    }
}

/* Pages that are whole, pages that are not, and steps that begin new ones. */
static void quest(void **state) {
    static const char *const lines[] = {"page=16,budget=64",
                                        "page=5,budget=20,heads=query",
                                        "page=1,budget=30",
                                        "page=7,budget=7",
                                        "page=16,budget=16,heads=query",
                                        "page=5,budget=20,heads=union",
                                        "page=1,budget=30,heads=union",
                                        "page=16,budget=64,every=8",
                                        "page=5,budget=20,heads=query,every=7",
                                        "page=1,budget=30,every=4096"};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        char decode[100];
        snprintf(decode, sizeof decode, "quest:skip=0,%s", lines[i]);
        compare("dense", decode, false, false, (const int64_t[]){170, 75, 0}, 18);
    }
    /* dense at first */
    compare("dense", "quest:skip=0,page=8,budget=24", false, false, (const int64_t[]){3, 0}, 40);
}

static void doublesparse(void **state) {
    static const char *const lines[] = {
        "k=24",        "k=24,channels=5",        "k=40,heads=query,channels=16",       "k=24,heads=union",
        "k=24,bits=8", "k=24,channels=5,bits=4", "k=40,heads=query,channels=16,bits=2"};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        char decode[100];
        snprintf(decode, sizeof decode, "doublesparse:skip=0,%s", lines[i]);
        compare("dense", decode, false, false, (const int64_t[]){170, 75, 0}, 6);
    }
    compare("dense", "doublesparse:skip=0,k=24", false, false, (const int64_t[]){20, 0}, 12);
    compare("dense", "doublesparse:skip=0,k=24,bits=4", false, false, (const int64_t[]){2100, 50, 0}, 6);
}

/* Heads of one kind, of both, and of none before a prompt is long enough. */
static void duo(void **state) {
    static const char *const lines[] = {"start=4,recent=24,window=16", "start=0,recent=30,window=5",
                                        "start=9,recent=24,window=16,share=1"};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        char decode[100];
        snprintf(decode, sizeof decode, "duo:%s", lines[i]);
        compare("dense", decode, false, true, (const int64_t[]){170, 75, 0}, 9);
        compare("dense", decode, false, true, (const int64_t[]){20, 3, 150, 2, 0}, 9);
    }
}

/* Windows that hold all, few blocks and more of them than are chosen, queries that are asked and that are
 * not; sums of as many rows as no power of two is. */
static void infllm(void **state) {
    static const char *const lines[] = {"init=4,local=40,block=8,topk=3,repr=2,chunk=24",
                                        "init=0,local=30,block=5,topk=4,repr=3,chunk=16,probe=3",
                                        "init=9,local=64,block=16,topk=5,repr=16,chunk=32,probe=40"};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        char line[100];
        snprintf(line, sizeof line, "infllm:%s", lines[i]);
        compare(line, line, false, true, (const int64_t[]){170, 75, 0}, 9);
        compare("dense", line, false, true, (const int64_t[]){20, 3, 150, 2, 0}, 9);
        compare(line, "dense", false, true, (const int64_t[]){30, 300, 0}, 2);
    }
}

/* Prompts in more than one piece there. */
static void streaming(void **state) {
    static const char *const lines[] = {"start=4,recent=50", "start=0,recent=33", "start=9,recent=1",
                                        "start=70,recent=30,pos=orig", "start=0,recent=20,pos=orig"};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        char line[100];
        snprintf(line, sizeof line, "streaming:%s", lines[i]);
        compare(line, line, false, false, (const int64_t[]){170, 75, 0}, 5);
    }
    compare("dense", "streaming:start=4,recent=20", false, false, (const int64_t[]){20, 0}, 12);
    compare("streaming:start=4,recent=50", "dense", false, false, (const int64_t[]){2500, 300, 0}, 2);
}

static void selfextend(void **state) {
    const char *line = "selfextend:group=3,window=40";
    (void)state;
    compare(line, line, false, true, (const int64_t[]){170, 75, 0}, 5);
    compare(line, "dense", false, false, (const int64_t[]){30, 2500, 0}, 2); /* other chunks: other tiles */
}

static void zipcache(void **state) {
    (void)state;
    compare("zipcache:salient=0.3", "streaming:start=4,recent=20", false, true, (const int64_t[]){170, 75, 0},
            3);
}

/* The reference's ops: estimates and sums are then so exact that sets are equal. */
static void twilight(void **state) {
    static const char *const lines[] = {
        "p=0.8",
        "p=0.5,union=0",
        "p=0.9,bits=8,force_last=1",
        "p=0.7,bits=2",
        "p=0.8,base=tokenselect,base.init=4,base.k=24,base.local=16",
        "p=0.8,base=quest,base.page=16,base.budget=64,base.skip=1",
        "p=0.6,force_last=1,base=quest,base.page=5,base.budget=40",
        "p=0.5,union=0,base=quest,base.page=5,base.budget=40,base.heads=query,base.skip=0",
        "p=0.6,base=quest,base.page=5,base.budget=40,base.heads=query,base.skip=0",
        "p=0.6,base=quest,base.page=5,base.budget=40,base.heads=union,base.skip=0",
        "p=0.8,base=quest,base.page=16,base.budget=64,base.every=8,base.skip=0",
        "p=0.5,union=0,base=quest,base.page=5,base.budget=40,base.heads=query,base.every=7,base.skip=0",
        "p=0.5,force_last=1,base=doublesparse,base.k=8,base.skip=0",
        "p=0.8,base=doublesparse,base.k=33,base.skip=1",
        "p=0.5,union=0,base=doublesparse,base.k=24,base.heads=query,base.skip=0",
        "p=0.7,base=streaming,base.start=4,base.recent=50",
        "p=0.7,base=streaming,base.start=4,base.recent=50,base.pos=orig",
        "p=0.6,union=0,force_last=1,base=streaming,base.start=0,base.recent=31",
        "p=0.4,force_last=1,base=streaming,base.start=4,base.recent=50,base.pos=orig",
        "p=0.5,union=0,force_last=1,base=tokenselect,base.init=4,base.k=24,base.local=16,base.theta=-1"};
    const case_shape shape = {
        .n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 301, .n_layers = 2, .layer = 1};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        char decode[200];
        snprintf(decode, sizeof decode, "twilight:skip=1,%s", lines[i]);
        compare_on(&shape, "dense", decode, false, false, (const int64_t[]){170, 75, 0}, 12);
    }
}

static void what_cannot_run_there_is_refused(void **state) {
    const case_shape shape = {.n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 400};
    layer_case c;
    sac_error err;
    (void)state;
    case_open(&c, &shape, 1);
    c.shape.device = &closed_device;
    sac_prefill long_one;
    c.shape.n_ctx = 1400000;
    assert_int_equal(sac_prefill_open(&long_one, "minference", &c.shape, &err), SAC_UNSUPPORTED);
    case_close(&c);
}

int main(void) {
    if (!closed_open()) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mass_is_measured),
        cmocka_unit_test(zipvl),
        cmocka_unit_test(tokenselect),
        cmocka_unit_test(a_device_compares_queries_itself),
        cmocka_unit_test(snapkv),
        cmocka_unit_test(pyramidkv),
        cmocka_unit_test(h2o),
        cmocka_unit_test(minference),
        cmocka_unit_test(xattn),
        cmocka_unit_test(xattn_reads_blocks),
        cmocka_unit_test(fastv),
        cmocka_unit_test(twilight),
        cmocka_unit_test(quest),
        cmocka_unit_test(doublesparse),
        cmocka_unit_test(duo),
        cmocka_unit_test(infllm),
        cmocka_unit_test(streaming),
        cmocka_unit_test(selfextend),
        cmocka_unit_test(zipcache),
        cmocka_unit_test(what_cannot_run_there_is_refused),
    };
    return cmocka_run_group_tests_name("methods on a device", tests, NULL, NULL);
}
