#define _GNU_SOURCE
/* Every method and format side by side in one batch: each answers as it does alone. */
#include "step_test.h"

/* Each after a prompt of tokens, or about a picture. */
static const struct {
    const char *prefill, *decode, *kv, *reduce;
    bool has_picture;
} methods[] = {
    {NULL, NULL, "f16", NULL, false},
    {"tokenselect:init=4,k=20,local=16,chunk=16", "tokenselect:init=4,k=20,local=16", NULL, NULL, false},
    {"streaming:start=4,recent=40", "streaming:start=4,recent=40", NULL, NULL, false},
    {"infllm:init=4,local=32,block=8,topk=2,chunk=32", "infllm:init=4,local=32,block=8,topk=2", NULL, NULL,
     false},
    {"selfextend:group=4,window=32", "selfextend:group=4,window=32", NULL, NULL, false},
    {"minference:v=30,s=50", "twilight:skip=0,p=0.6", NULL, NULL, false},
    {"minference:pattern=block_sparse,blocks=1", "twilight:base=quest,base.budget=64,union=0,p=0.6", NULL,
     NULL, false},
    {NULL, "quest:skip=0,budget=48", "f32", NULL, false},
    {NULL, "doublesparse:skip=0,k=20,bits=4", NULL, NULL, false},
    {NULL, "snapkv:cap=40,window=16", NULL, NULL, false},
    {NULL, "snapkv:cap=40,window=16,per_head=1", NULL, NULL, false},
    {NULL, "h2o:heavy=16,recent=16", NULL, NULL, false},
    {NULL, "adore:m=48,r=3", NULL, NULL, false},
    {"zipvl:min=0,recent=16,random=16,tau=0.7", NULL, "mixed:gap=32", NULL, false},
    {"zipvl:min=0,recent=16,random=16,tau=0.7,seed=7", NULL, "mixed:gap=32", NULL, false},
    {NULL, NULL, "mixed:gap=32,top_p=0.8", NULL, false},
    {"zipcache:salient=0.4", NULL, "zipcache:gap=32", NULL, false},
    {NULL, NULL, "kivi:group=16,residual=16", NULL, false},
    {NULL, NULL, "int4", NULL, false},
    {"fastv:layer=2,ratio=0.7", NULL, NULL, NULL, true},
    {"fastv:layer=2,ratio=0.7,mode=attn", NULL, NULL, NULL, true},
    {NULL, NULL, NULL, "hired:rate=0.3", true},
};

enum { METHODS = sizeof methods / sizeof *methods, METHOD_TOKENS = 6, METHOD_PROMPT = 110 };

static sac_session *begin_method(size_t i, const sac_sampling *o) {
    sac_session *s;
    sac_session_config c;
    sac_error err;
    asked q;
    int32_t ids[METHOD_PROMPT];
    sac_session_config_default(&c);
    c.n_ctx = 256;
    if (methods[i].prefill) c.prefill = methods[i].prefill;
    if (methods[i].decode) c.decode = methods[i].decode;
    if (methods[i].kv) c.kv = methods[i].kv;
    if (methods[i].reduce) c.reduce = methods[i].reduce;
    assert_ok(sac_session_create(&s, model, &c, &err), err);
    for (int k = 0; k < METHOD_PROMPT; k++) ids[k] = 5 + (k * k * 7 + k) % 300;
    if (methods[i].has_picture)
        assert_ok(sac_session_begin(s, ask_about(&q, STEP_PICTURE, 0, "Describe it."), 1, o, NULL, &err),
                  err);
    else
        assert_ok(sac_session_begin_tokens(s, ids, METHOD_PROMPT, o, NULL, &err), err);
    return s;
}

static void every_method_answers_as_if_alone(void **state) {
    (void)state;
    static float logits[METHODS][STEP_VOCAB];
    int32_t tokens[METHODS][METHOD_TOKENS];
    sac_session *s[METHODS];
    sac_batch_item items[METHODS];
    sac_error err;
    sac_model_info info;
    sac_sampling o = step_sampling(METHOD_TOKENS);
    o.ignore_eos = true;
    sac_model_get_info(model, &info);
    size_t n_bytes = (size_t)info.vocab * sizeof(float);
    for (size_t i = 0; i < METHODS; i++) {
        s[i] = begin_method(i, &o);
        bool done = false;
        for (int k = 0; !done; k++) assert_ok(sac_session_step(s[i], NULL, &tokens[i][k], &done, &err), err);
        memcpy(logits[i], sac_session_logits(s[i]), n_bytes);
        for (size_t k = 0; k < i; k++) /* each is another */
            if (memcmp(logits[i], logits[k], n_bytes) == 0) fail_msg("methods %zu and %zu are one", k, i);
        sac_session_free(s[i]);
    }
    sac_batch *b;
    assert_ok(sac_batch_create(&b, model, METHODS, &err), err);
    for (size_t i = 0; i < METHODS; i++) items[i] = (sac_batch_item){.session = s[i] = begin_method(i, &o)};
    for (int k = 0; k < METHOD_TOKENS; k++) {
        assert_ok(sac_batch_step(b, items, METHODS, &err), err);
        for (size_t i = 0; i < METHODS; i++) {
            assert_ok(items[i].status, items[i].error);
            assert_int_equal(items[i].token, tokens[i][k]);
        }
    }
    for (size_t i = 0; i < METHODS; i++) {
        if (memcmp(logits[i], sac_session_logits(s[i]), n_bytes) != 0)
            fail_msg("method %zu answers otherwise in a batch", i);
        sac_session_free(s[i]);
    }
    sac_batch_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_method_answers_as_if_alone)};
    return cmocka_run_group_tests_name("batch_methods", tests, open_model, close_model);
}
