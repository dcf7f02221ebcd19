/* What an answer must be: the machine of a JSON schema against jansson, and the masks of tokens that it makes. */
#include "constraint.h"
#include "machine.h"
#include "schema.h"

#include "test.h"

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Walks through allowed bytes at random until the value is whole; the walk prefers what ends. */
static size_t walk(const grammar *g, uint32_t *seed, char *text, size_t room) {
    machine *m = machine_open(g);
    size_t n = 0;
    bool done = false;
    assert_non_null(m);
    while (n < room && !done) {
        done = machine_is_done(m, 0) || (machine_may_end(m, 0) && next_random(seed) % 4 == 0);
        if (done) break;
        static const char likely[] = "\"\"}]},:ab\xc3\xa9\\u00d19e-.5tfn";
        bool moved = false;
        for (int tries = 0; tries < 4000 && !moved; tries++) {
            unsigned char c = tries < 200 ? (unsigned char)likely[next_random(seed) % (sizeof likely - 1)]
                                          : (unsigned char)next_random(seed);
            if (!machine_step(m, c)) continue;
            text[n++] = (char)c;
            moved = true;
        }
        done = !moved && machine_may_end(m, 0);
        if (!moved && !done) print_error("a dead end after %.*s\n", (int)n, text);
        assert_true(moved || done);
    }
    machine_close(m);
    return done ? n : 0; /* 0: too long */
}

static bool compile(grammar *g, const json_t *text, serve_problem *p) {
    grammar_init(g, GRAMMAR_JSON_DEPTH);
    int root = schema_compile(g, text, "response_format", p);
    return p->status == 0 && grammar_finish(g, root, "the JSON schema", "response_format", p);
}

static const char *const schemas[] = {
    "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\\u00e9\\\"\": {\"type\": "
    "\"string\"}, \"ab\": {\"type\": [\"null\", \"number\"]}}, \"required\": [\"a\", \"ab\"]}",
    "{\"type\": \"array\", \"items\": {\"enum\": [1, 12, \"x\", null, {\"k\": [true]}]}, \"minItems\": 2, "
    "\"maxItems\": 4}",
    "{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 5}",
    "{\"type\": \"number\"}",
    "{\"type\": \"object\", \"additionalProperties\": {\"type\": \"boolean\"}}",
    "{\"type\": \"array\", \"items\": {\"type\": \"array\", \"items\": {\"type\": \"boolean\"}, "
    "\"maxItems\": 2}}",
    "{}",
    "{\"$defs\": {\"Node\": {\"type\": \"object\", \"properties\": {\"name\": {\"anyOf\": [{\"type\": "
    "\"string\"}, {\"type\": \"null\"}]}, \"next\": {\"anyOf\": [{\"$ref\": \"#/$defs/Node\"}, {\"type\": "
    "\"null\"}], \"default\": null}, \"all\": {\"items\": {\"$ref\": \"#/$defs/Node\"}, \"type\": "
    "\"array\"}}, "
    "\"required\": [\"name\", \"next\"]}}, \"$ref\": \"#/$defs/Node\"}",
};

static void check_node(const json_t *v) {
    assert_true(json_is_object(v));
    const json_t *name = json_object_get(v, "name"), *next = json_object_get(v, "next");
    assert_true(json_is_string(name) || json_is_null(name));
    assert_non_null(next);
    if (!json_is_null(next)) check_node(next);
    size_t i;
    const json_t *item;
    json_array_foreach(json_object_get(v, "all"), i, item) check_node(item);
}

static void check_value(size_t which, const json_t *v) {
    size_t i;
    const json_t *item;
    if (which == 0) {
        assert_true(json_is_integer(json_object_get(v, "a")));
        assert_non_null(json_object_get(v, "ab"));
        assert_true(json_object_size(v) <= 3);
    } else if (which == 1) {
        assert_in_range(json_array_size(v), 2, 4);
        json_array_foreach(v, i, item) assert_true(json_is_integer(item) || !json_is_number(item));
    } else if (which == 7) {
        check_node(v);
    } else if (which == 2) {
        assert_true(json_is_string(v));
    } else if (which == 4) {
        void *at = json_object_iter((json_t *)(uintptr_t)v);
        for (; at; at = json_object_iter_next((json_t *)(uintptr_t)v, at))
            assert_true(json_is_boolean(json_object_iter_value(at)));
    }
}

static void every_walk_is_json_that_matches(void **state) {
    (void)state;
    uint32_t seed = 7;
    int n_whole = 0;
    for (size_t k = 0; k < sizeof schemas / sizeof *schemas; k++) {
        json_t *text = json_loads(schemas[k], 0, NULL);
        grammar s;
        serve_problem p = {0};
        if (!compile(&s, text, &p)) print_error("%s\n", p.message);
        assert_int_equal(p.status, 0);
        for (int i = 0; i < 200; i++) {
            char out[4096];
            size_t n = walk(&s, &seed, out, sizeof out);
            if (n == 0) continue;
            json_error_t e;
            json_t *v = json_loadb(out, n, JSON_DECODE_ANY, &e);
            if (!v) print_error("%.*s: %s\n", (int)n, out, e.text);
            assert_non_null(v);
            check_value(k, v);
            json_decref(v);
            n_whole++;
        }
        grammar_free(&s);
        json_decref(text);
    }
    assert_true(n_whole > 1000);
}

static bool accepts(const grammar *g, const char *text) {
    machine *m = machine_open(g);
    assert_non_null(m);
    while (*text && machine_step(m, (unsigned char)*text)) text++;
    bool ok = !*text && machine_may_end(m, 0);
    machine_close(m);
    return ok;
}

static void texts_that_match_and_do_not(void **state) {
    (void)state;
    grammar s;
    serve_problem p = {0};
    json_t *text = json_loads(schemas[0], 0, NULL);
    assert_true(compile(&s, text, &p));
    assert_true(accepts(&s, "{\"a\": 1, \"ab\": null}"));
    assert_true(accepts(&s, "{\n  \"ab\": -1.5e3,\n  \"a\": 0\n}"));
    assert_true(accepts(&s, "{\"b\xc3\xa9\\\"\":\"\\u00e9\xf0\x9f\x98\x80\",\"a\":1,\"ab\":2}"));
    static const char *const wrong[] = {"{\"a\": 1}",
                                        "{\"a\": 1.5, \"ab\": 1}",
                                        "{\"a\": 01, \"ab\": 1}",
                                        "{\"a\": 1, \"ab\": 1, \"c\": 1}",
                                        "{\"a\": 1, \"a\": 1, \"ab\": 1}",
                                        "{\"a\": 1, \"ab\": 1,}",
                                        "[1]",
                                        "{\"a\": 1, \"ab\": 1} ",
                                        "{\"b\xc3\xa9\\\"\":\"\\ud800\",\"a\":1,\"ab\":2}",
                                        "{\"b\xc3\xa9\\\"\":\"\xed\xa0\x80\",\"a\":1,\"ab\":2}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(accepts(&s, wrong[i]));
    grammar_free(&s);
    json_decref(text);
}

enum { N_TOKENS = 3000, STOP = 17, MARK = 23 };

static void make_tokens(serve_tokens *t, char (*bytes)[12]) {
    static const char *const pieces[] = {"a",    "b", "\"", "{", "}",    "\": ", "\\", "\xc3", "\xc3\xa9",
                                         "\xa9", " ", "\n", "1", "true", "fals", "e",  ":",    ","};
    uint32_t seed = 5;
    for (int id = 0; id < N_TOKENS; id++) {
        for (uint32_t k = next_random(&seed) % 4; k-- > 0;) {
            const char *piece = pieces[next_random(&seed) % (sizeof pieces / sizeof *pieces)];
            if (strlen(bytes[id]) + strlen(piece) < sizeof bytes[id]) strcat(bytes[id], piece);
        }
        t->bytes[id] = bytes[id];
        t->length[id] = id == MARK ? 0 : (uint32_t)strlen(bytes[id]);
    }
    t->is_stop[STOP] = true;
    t->marks[0] = (serve_mark){.id = MARK, .n = 4, .name = "true"};
    t->n_marks = 1;
    serve_tokens_put_in_order(t);
}

/* What a token may do when it is read by itself. */
static bool may_come(machine *m, const serve_tokens *t, int id) {
    if (id == STOP) return machine_may_end(m, 0);
    const char *bytes = id == MARK ? t->marks[0].name : t->bytes[id];
    uint32_t n = id == MARK ? t->marks[0].n : t->length[id], i = 0;
    while (i < n && machine_try(m, (int)i, (unsigned char)bytes[i])) i++;
    return n > 0 && i == n;
}

static bool has_bit(const uint32_t *bits, int id) {
    return bits[id / 32] >> (id % 32) & 1;
}

static void check_masks(const serve_tokens *t, const char *schema) {
    static uint32_t bits[(N_TOKENS + 5 + 31) / 32];
    json_t *text = json_loads(schema, 0, NULL);
    grammar g;
    serve_problem p = {0};
    assert_true(compile(&g, text, &p));
    serve_constraint *c = serve_constraint_open(t, &g);
    machine *m = machine_open(&g);
    uint32_t seed = 9;
    int n_masks = 0;
    for (int walk = 0; walk < 40; walk++) {
        serve_constraint_restart(c);
        machine_restart(m);
        for (int step = 0; step < 30; step++, n_masks++) {
            int next = -1, n_may = 0;
            memset(bits, 0xff, sizeof bits);
            serve_constraint_mask(c, bits, N_TOKENS + 5);
            for (int id = 0; id < N_TOKENS; id++) {
                if (id == STOP) continue;
                assert_int_equal(has_bit(bits, id), may_come(m, t, id));
                if (has_bit(bits, id) && next_random(&seed) % (uint32_t)++n_may == 0) next = id;
            }
            assert_int_equal(has_bit(bits, STOP), may_come(m, t, STOP) || n_may == 0);
            assert_false(has_bit(bits, N_TOKENS));
            if (next < 0) break;
            serve_constraint_take(c, next);
            const char *b = next == MARK ? "true" : t->bytes[next];
            while (*b) assert_true(machine_step(m, (unsigned char)*b++));
        }
    }
    assert_true(n_masks > 60);
    machine_close(m);
    serve_constraint_free(c);
    grammar_free(&g);
    json_decref(text);
}

/* Masks look at what tokens share once, and at most within strings not at all: they say of each token what it says by itself. */
static void masks(void **state) {
    static char bytes[N_TOKENS][12];
    static const char *bytes_of[N_TOKENS];
    static uint32_t length[N_TOKENS], shared[N_TOKENS], plain_from[N_TOKENS];
    static int32_t order[N_TOKENS];
    static bool is_stop[N_TOKENS];
    (void)state;
    serve_tokens t = {.n = N_TOKENS,
                      .bytes = bytes_of,
                      .length = length,
                      .is_stop = is_stop,
                      .order = order,
                      .shared = shared,
                      .plain_from = plain_from};
    make_tokens(&t, bytes);
    check_masks(&t, "{\"type\": \"string\", \"maxLength\": 7, \"minLength\": 3}");
    check_masks(&t, "{\"type\": \"string\"}");
    check_masks(&t, "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\", \"pattern\": "
                    "\"^.{2,9}$\"}, \"b\": {}}, "
                    "\"additionalProperties\": {\"type\": [\"string\", \"boolean\"], \"minLength\": 2}}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_walk_is_json_that_matches),
        cmocka_unit_test(texts_that_match_and_do_not),
        cmocka_unit_test(masks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
