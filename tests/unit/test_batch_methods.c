#define _GNU_SOURCE
/* Every method and format side by side in one batch: each answers as it does alone. */
#include "step_test.h"

/* Each after a prompt of tokens, or about a picture. */
typedef struct attending {
    const char *prefill, *decode, *kv, *reduce;
    bool has_picture;
    const char *rope;
} attending;

static const attending methods[] = {
    {.kv = "f16"},
    {.prefill = "tokenselect:init=4,k=20,local=16,chunk=16", .decode = "tokenselect:init=4,k=20,local=16"},
    {.prefill = "streaming:start=4,recent=40", .decode = "streaming:start=4,recent=40"},
    {.prefill = "infllm:init=4,local=32,block=8,topk=2,chunk=32",
     .decode = "infllm:init=4,local=32,block=8,topk=2"},
    {.prefill = "selfextend:group=4,window=32", .decode = "selfextend:group=4,window=32"},
    {.prefill = "minference:v=30,s=50", .decode = "twilight:skip=0,p=0.6"},
    {.prefill = "minference:pattern=block_sparse,blocks=1",
     .decode = "twilight:base=quest,base.budget=64,base.every=3,union=0,p=0.6"},
    {.prefill = "xattn:min=0,sink=0,tau=0.1", .decode = "twilight:skip=0,p=0.6"},
    {.decode = "quest:skip=0,budget=48,every=4", .kv = "f32"},
    {.decode = "doublesparse:skip=0,k=20,bits=4"},
    {.decode = "duo:start=4,recent=20,window=16"},
    {.decode = "duo:start=4,recent=20,window=16,share=1"},
    {.decode = "snapkv:cap=40,window=16"},
    {.decode = "snapkv:cap=40,window=16,per_head=1"},
    {.decode = "pyramidkv:cap=40,window=16,beta=4"},
    {.decode = "pyramidkv:cap=40,window=16,beta=4,per_head=1"},
    {.decode = "h2o:heavy=16,recent=16"},
    {.decode = "adore:m=48,r=3"},
    {.decode = "adore:m=40,r=11"},
    {.decode = "adore:m=48,r=0"},
    {.prefill = "zipvl:min=0,recent=16,random=16,tau=0.7", .kv = "mixed:gap=32"},
    {.prefill = "zipvl:min=0,recent=16,random=16,tau=0.7,seed=7", .kv = "mixed:gap=32"},
    {.kv = "mixed:gap=32,top_p=0.8"},
    {.prefill = "zipvl:min=0,recent=16,random=16,tau=0.7", .kv = "mixed:gap=32,k_group=32,rope=before"},
    {.decode = "tokenselect:init=4,k=20,local=16,pos=orig,vote=true"},
    {.prefill = "zipcache:salient=0.4", .kv = "zipcache:gap=32"},
    {.kv = "kivi:group=16,residual=16"},
    {.kv = "kvarn:first=2"},
    {.kv = "int4"},
    {.prefill = "fastv:layer=2,ratio=0.7", .has_picture = true},
    {.prefill = "fastv:layer=2,ratio=0.7,mode=attn", .has_picture = true},
    {.reduce = "hired:rate=0.3", .has_picture = true},
};

enum { METHODS = sizeof methods / sizeof *methods, METHOD_TOKENS = 6, METHOD_PROMPT = 170 };

static sac_session *begin_method(const attending *m, int chunk, const sac_sampling *o) {
    sac_session *s;
    sac_session_config c;
    sac_error err;
    asked q;
    int32_t ids[METHOD_PROMPT];
    sac_session_config_default(&c);
    c.n_ctx = 256;
    if (chunk) c.prefill_chunk = chunk;
    if (m->prefill) c.prefill = m->prefill;
    if (m->decode) c.decode = m->decode;
    if (m->kv) c.kv = m->kv;
    if (m->reduce) c.reduce = m->reduce;
    if (m->rope) c.rope = m->rope;
    assert_ok(sac_session_create(&s, model, &c, &err), err);
    for (int k = 0; k < METHOD_PROMPT; k++) ids[k] = 5 + (k * k * 7 + k) % 300;
    if (m->has_picture)
        assert_ok(sac_session_begin(s, ask_about(&q, STEP_PICTURE, 0, "Describe it."), 1, o, NULL, &err),
                  err);
    else
        assert_ok(sac_session_begin_tokens(s, ids, METHOD_PROMPT, o, NULL, &err), err);
    return s;
}

/* What a session of its own says. */
typedef struct said {
    int32_t tokens[METHOD_TOKENS];
    float logits[STEP_VOCAB];
} said;

static void say_alone(const attending *m, int chunk, const sac_sampling *o, said *x) {
    sac_error err;
    sac_model_info info;
    sac_session *s = begin_method(m, chunk, o);
    bool done = false;
    memset(x, 0, sizeof *x);
    for (int k = 0; !done; k++) assert_ok(sac_session_step(s, NULL, &x->tokens[k], &done, &err), err);
    sac_model_get_info(model, &info);
    memcpy(x->logits, sac_session_logits(s), (size_t)info.vocab * sizeof(float));
    sac_session_free(s);
}

static sac_sampling method_sampling(void) {
    sac_sampling o = step_sampling(METHOD_TOKENS);
    o.ignore_eos = true;
    return o;
}

static said alone[METHODS];

static int hear_all_alone(void **state) {
    open_model(state);
    sac_sampling o = method_sampling();
    for (size_t i = 0; i < METHODS; i++) say_alone(&methods[i], 0, &o, &alone[i]);
    return 0;
}

static void every_method_answers_as_if_alone(void **state) {
    (void)state;
    sac_session *s[METHODS];
    sac_batch_item items[METHODS];
    sac_batch *b;
    sac_error err;
    sac_model_info info;
    sac_sampling o = method_sampling();
    for (size_t i = 0; i < METHODS; i++)
        for (size_t k = 0; k < i; k++) /* each is another */
            if (memcmp(&alone[i], &alone[k], sizeof *alone) == 0)
                fail_msg("methods %zu and %zu are one", k, i);
    assert_ok(sac_batch_create(&b, model, METHODS, &err), err);
    for (size_t i = 0; i < METHODS; i++)
        items[i] = (sac_batch_item){.session = s[i] = begin_method(&methods[i], 0, &o)};
    for (int k = 0; k < METHOD_TOKENS; k++) {
        assert_ok(sac_batch_step(b, items, METHODS, &err), err);
        for (size_t i = 0; i < METHODS; i++) {
            assert_ok(items[i].status, items[i].error);
            assert_int_equal(items[i].token, alone[i].tokens[k]);
        }
    }
    sac_model_get_info(model, &info);
    for (size_t i = 0; i < METHODS; i++) {
        if (memcmp(alone[i].logits, sac_session_logits(s[i]), (size_t)info.vocab * sizeof(float)) != 0)
            fail_msg("method %zu answers otherwise in a batch", i);
        sac_session_free(s[i]);
    }
    sac_batch_free(b);
}

/* Linear layers may take a prompt in parts: what a method chooses at its end, it chooses once. */
static void parts_of_linear_layers_change_nothing(void **state) {
    (void)state;
    static said parts;
    sac_sampling o = method_sampling();
    for (size_t i = 0; i < METHODS; i++) {
        say_alone(&methods[i], 37, &o, &parts);
        if (memcmp(&alone[i], &parts, sizeof parts) != 0) fail_msg("method %zu depends on the parts", i);
    }
}

static void off_values_of_position_and_picture_change_nothing(void **state) {
    (void)state;
    static said plain, off, on;
    sac_sampling o = method_sampling();
    say_alone(&(attending){.rope = "model"}, 0, &o, &plain);
    say_alone(&(attending){.rope = "ntk:factor=1"}, 0, &o, &off);
    say_alone(&(attending){.rope = "ntk:factor=4"}, 0, &o, &on);
    assert_memory_equal(&plain, &off, sizeof off);
    assert_memory_not_equal(&plain, &on, sizeof on);
    say_alone(&(attending){.has_picture = true}, 0, &o, &plain);
    say_alone(&(attending){.has_picture = true, .reduce = "hired:rate=1"}, 0, &o, &off);
    say_alone(&(attending){.has_picture = true, .reduce = "hired:rate=0.9"}, 0, &o, &on);
    assert_memory_equal(&plain, &off, sizeof off);
    assert_memory_not_equal(&plain, &on, sizeof on);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_answers_as_if_alone),
        cmocka_unit_test(parts_of_linear_layers_change_nothing),
        cmocka_unit_test(off_values_of_position_and_picture_change_nothing),
    };
    return cmocka_run_group_tests_name("batch_methods", tests, hear_all_alone, close_model);
}
