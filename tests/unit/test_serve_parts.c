/* Parts of the server that need no server: the JSON machine against jansson, base64, URLs, addresses,
 * domains, hosts, the fair queue, the memory of methods that a request chooses. */
#include "base64.h"
#include "byte_buffer.h"
#include "client.h"
#include "clock.h"
#include "constraint.h"
#include "fetch.h"
#include "kv_queue.h"
#include "machine.h"
#include "msgpack.h"
#include "origin.h"
#include "queue.h"
#include "schema.h"
#include "slot_methods.h"
#include "trace_context.h"
#include "url.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- the machine */

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

/* ---------------------------------------------------------------- masks */

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

/* ---------------------------------------------------------------- small parts */

static bool decodes(const char *text, const char *wanted) {
    uint8_t out[64];
    size_t n;
    return sac_base64_decode(text, strlen(text), out, &n) && n == strlen(wanted) &&
           !memcmp(out, wanted, n);
}

static void base64(void **state) {
    (void)state;
    assert_true(decodes("", ""));
    assert_true(decodes("Zm9vYg==", "foob") && decodes("Zm9vYg", "foob") &&
                decodes("Zm9v\r\nYmFy", "foobar"));
    assert_true(decodes("-_-_", "\xfb\xff\xbf") && decodes("+/+/", "\xfb\xff\xbf"));
    assert_false(decodes("Z", "") || decodes("Zm9v*", "foo") || decodes("Zg=a", "f") ||
                 decodes("Zg===", "f"));
}

static bool path_is(const char *url, const char *wanted) {
    char path[32];
    return intake_file_path(url, path, sizeof path) && !strcmp(path, wanted);
}

static void urls(void **state) {
    (void)state;
    const char *text = intake_data_text("data:image/png;base64,Zm9v");
    assert_true(text && !strcmp(text, "Zm9v"));
    assert_non_null(intake_data_text("DATA:;Base64,"));
    assert_null(intake_data_text("data:image/png,Zm9v"));
    assert_null(intake_data_text("data;base64,Zm9v"));
    assert_null(intake_data_text("data:image/png;base64"));
    assert_true(path_is("file:///a/b%20c.png", "/a/b c.png") && path_is("FILE://localhost/a", "/a"));
    assert_true(path_is("file:///%2e%2E/x", "/../x"));
    assert_false(path_is("file://a/b", "/b") || path_is("file:///a%0", "/a") ||
                 path_is("file:///a%00b", "/a"));
    assert_false(path_is("file:///a%zz", "/a") || path_is("/a", "/a"));
    char small[4];
    assert_true(intake_file_path("file:///ab", small, sizeof small));
    assert_false(intake_file_path("file:///abc", small, sizeof small));
}

static bool is_public(const char *text) {
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) return serve_address_is_public((struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return serve_address_is_public((struct sockaddr *)&v6);
}

static void addresses(void **state) {
    (void)state;
    static const char *const open[] = {"8.8.8.8",     "1.1.1.1",         "172.32.0.1",
                                       "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8"};
    static const char *const closed[] = {"127.0.0.1",
                                         "10.1.2.3",
                                         "172.16.0.1",
                                         "172.31.255.255",
                                         "192.168.0.1",
                                         "169.254.169.254",
                                         "100.64.0.1",
                                         "0.0.0.0",
                                         "224.0.0.1",
                                         "255.255.255.255",
                                         "192.0.2.1",
                                         "::1",
                                         "::",
                                         "fe80::1",
                                         "fd00::1",
                                         "ff02::1",
                                         "::ffff:127.0.0.1",
                                         "::127.0.0.1",
                                         "64:ff9b::7f00:1",
                                         "2002:7f00:1::",
                                         "2001::1",
                                         "2001:db8::1"};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) assert_true(is_public(open[i]));
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) assert_false(is_public(closed[i]));
}

static void domains(void **state) {
    (void)state;
    const char *const items[] = {"example.org", "*.example.net"};
    serve_texts d = {items, 2};
    assert_true(serve_domain_allowed(&d, "EXAMPLE.org") && serve_domain_allowed(&d, "a.b.example.net"));
    assert_false(serve_domain_allowed(&d, "a.example.org") || serve_domain_allowed(&d, "example.net") ||
                 serve_domain_allowed(&d, "badexample.net") || serve_domain_allowed(&d, "example.org.evil"));
    const char *const any[] = {"*"};
    assert_true(serve_domain_allowed(&(serve_texts){any, 1}, "x"));
}

static void hosts_of_a_loopback_server(void **state) {
    (void)state;
    static const char *const bound[] = {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"};
    static const char *const ours[] = {"localhost", "Localhost:8000", "127.0.0.1", "127.0.0.1:80",
                                       "[::1]:8000"};
    static const char *const others[] = {
        "evil.com", "evil.com:8000", "localhost.evil.com", "127.0.0.1.evil.com",
        "",         "[evil.com]",    "[127.0.0.1",         "::1"};
    for (size_t i = 0; i < sizeof bound / sizeof *bound; i++) {
        serve_config c = {.host = bound[i]};
        assert_true(serve_host_allowed(&c, NULL));
        for (size_t k = 0; k < sizeof ours / sizeof *ours; k++) assert_true(serve_host_allowed(&c, ours[k]));
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            assert_false(serve_host_allowed(&c, others[k]));
        c.cors_origin = "https://Evil.com";
        assert_true(serve_host_allowed(&c, "evil.com"));
        assert_false(serve_host_allowed(&c, "evil.com.example"));
        c.cors_origin = "*";
        assert_true(serve_host_allowed(&c, "example.com"));
    }
    assert_true(serve_host_allowed(&(serve_config){.host = "0.0.0.0"}, "example.com"));
    assert_true(serve_host_allowed(&(serve_config){.host = "::"}, "example.com"));
}

static void queue_is_fair(void **state) {
    (void)state;
    serve_queue *q = calloc(1, sizeof *q);
    serve_job jobs[6] = {{.client = 1}, {.client = 1}, {.client = 1},
                         {.client = 2}, {.client = 3}, {.client = 1}};
    const int wanted[] = {0, 3, 4, 1, 2, 5};
    assert_null(serve_queue_take(q));
    for (int i = 0; i < 6; i++) serve_queue_add(q, &jobs[i]);
    for (int i = 0; i < 6; i++) assert_ptr_equal(serve_queue_take(q), &jobs[wanted[i]]);
    assert_true(q->n == 0 && !q->first && !q->last);
    free(q);
}

/* What a job weighs is where it stands in this list. */
static double weights[12];
static const serve_job *weighed;
static double weigh(serve_job *j, void *ctx) {
    (void)ctx;
    return weights[j - weighed];
}

static int take_weighed(serve_queue *q) {
    const serve_judge judge = {.weigh = weigh};
    serve_job *j = serve_queue_next(q, &judge);
    if (!j) return -1;
    serve_queue_serve(q, &judge, j, weights[j - weighed]);
    return (int)(j - weighed);
}

/* Of one client the light ones first, and in their order where they are alike. */
static void the_lightest_is_taken_first(void **state) {
    (void)state;
    serve_queue *q = calloc(1, sizeof *q);
    serve_job jobs[4] = {{.client = 1}, {.client = 1}, {.client = 1}, {.client = 2}};
    const double w[] = {1000, 20, 20, 300};
    const int wanted[] = {1, 2, 3, 0};
    weighed = jobs;
    memcpy(weights, w, sizeof w);
    for (int i = 0; i < 4; i++) serve_queue_add(q, &jobs[i]);
    for (int i = 0; i < 4; i++) assert_int_equal(take_weighed(q), wanted[i]);
    assert_int_equal(take_weighed(q), -1);
    free(q);
}

enum { FOUND = 3 };

static double weigh_first_ones(serve_job *j, void *ctx) {
    (void)ctx;
    return j - weighed <= FOUND ? 1e6 : 1;
}

/* However many light ones come, of its own client or each of another: a job is taken after SERVE_OLDEST_TURN times as many as
 * it found waiting, itself counted. */
static void a_heavy_one_is_not_put_off_for_ever(void **state) {
    enum { MOST = SERVE_OLDEST_TURN * (FOUND + 1), N = FOUND + 1 + 2 * MOST };
    const serve_judge judge = {.weigh = weigh_first_ones}, between = {.weigh = weigh_first_ones, .between = true};
    (void)state;
    for (int others = 0; others < 2; others++) {
        serve_queue *q = calloc(1, sizeof *q);
        serve_job jobs[N] = {{0}}, *j;
        int n = 0, n_taken = 0;
        weighed = jobs;
        for (; n <= FOUND; n++) serve_queue_add(q, &jobs[n]);
        do {
            for (int i = 0; i < 2; i++, n++) { /* two come for each that goes */
                jobs[n].client = others ? (uint64_t)n : 0;
                serve_queue_add(q, &jobs[n]);
            }
            if (n_taken < MOST - 1) assert_true(serve_queue_next(q, &between) - jobs > FOUND);
            j = serve_queue_next(q, &judge);
            serve_queue_serve(q, &judge, j, weigh_first_ones(j, NULL));
        } while (++n_taken < MOST && j != &jobs[FOUND]);
        assert_ptr_equal(j, &jobs[FOUND]);
        assert_int_equal(n_taken, MOST);
        free(q);
    }
}

/* A client with many jobs takes turns with one that has a few as heavy ones, by what they weigh. */
static void clients_share_by_weight(void **state) {
    (void)state;
    serve_queue *q = calloc(1, sizeof *q);
    serve_job jobs[12] = {{0}};
    int n_of[2] = {0};
    weighed = jobs;
    for (int i = 0; i < 12; i++) {
        jobs[i].client = i < 8 ? 1 : 2;
        weights[i] = i < 8 ? 100 : 200;
        serve_queue_add(q, &jobs[i]);
    }
    for (int i = 0; i < 6; i++) n_of[take_weighed(q) >= 8]++;
    assert_true(n_of[1] == 2 && n_of[0] == 4); /* as much of each */
    free(q);
}

/* Lower ones first: of the client that gives them, or of all where they are shared. */
static void priorities(void **state) {
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        serve_queue *q = calloc(1, sizeof *q);
        serve_job jobs[4] = {{.client = 1, .priority = 5}, {.client = 1, .priority = -5}, {.client = 2}, {.client = 2, .priority = 3}};
        const double w[] = {1, 500, 20, 10};
        const int wanted[2][4] = {{2, 3, 1, 0}, {1, 2, 3, 0}};
        weighed = jobs;
        memcpy(weights, w, sizeof w);
        q->shared_priorities = shared;
        for (int i = 0; i < 4; i++) serve_queue_add(q, &jobs[i]);
        for (int i = 0; i < 4; i++) assert_int_equal(take_weighed(q), wanted[shared][i]);
        free(q);
    }
    serve_queue *q = calloc(1, sizeof *q); /* a client that shares the bucket is another one */
    serve_job strangers[2] = {{.client = 1}, {.client = 1 + SERVE_CLIENT_BUCKETS, .priority = -5}};
    weighed = strangers;
    weights[0] = 1;
    weights[1] = 2;
    for (int i = 0; i < 2; i++) serve_queue_add(q, &strangers[i]);
    for (int i = 0; i < 2; i++) assert_int_equal(take_weighed(q), i);
    free(q);
    assert_true(serve_precedes(false, 1, -1, 1, 0) && !serve_precedes(false, 1, -1, 2, 0));
    assert_true(serve_precedes(true, 1, -1, 2, 0) && !serve_precedes(true, 1, 0, 2, 0));
}

/* When to come again: as the ends of jobs have followed one another, not as a rule of thumb. */
static void when_to_come_again(void **state) {
    (void)state;
    serve_server *s = calloc(1, sizeof *s);
    s->n_jobs = 8;
    s->ended_ns = sac_now_ns();
    assert_int_equal(serve_server_retry_after(s, 8), 1); /* nothing has ended, nothing is known: soon */
    s->end_gap_s = 2.5;
    assert_int_equal(serve_server_retry_after(s, 8), 3);
    assert_int_equal(serve_server_retry_after(s, 2), 10); /* only every fourth end is this client's */
    s->ended_ns -= 7500000000;
    assert_int_equal(serve_server_retry_after(s, 8), 8); /* it takes longer than it did */
    s->end_gap_s = 1e6;
    assert_int_equal(serve_server_retry_after(s, 8), 600);
    free(s);
}

/* Against the vectors of the paper's own implementation; with another key another number. */
static void numbers_of_clients(void **state) {
    (void)state;
    uint8_t key[SERVE_SEED_BYTES], other[SERVE_SEED_BYTES], text[64];
    for (int i = 0; i < 64; i++) text[i] = (uint8_t)i;
    memcpy(key, text, sizeof key);
    assert_true(serve_client_hash(key, text, 0) == 0x726fdb47dd0e0e31u);
    assert_true(serve_client_hash(key, text, 1) == 0x74f839c593dc67fdu);
    assert_true(serve_client_hash(key, text, 15) == 0xa129ca6149be45e5u);
    serve_client_seed(key);
    serve_client_seed(other);
    assert_memory_not_equal(key, other, sizeof key);
    assert_true(serve_client_hash(key, text, 4) != serve_client_hash(other, text, 4));
}

/* W3C's examples, and what is none. */
static void traces_that_go_on(void **state) {
    (void)state;
#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"
    static const struct {
        const char *header;
        bool has_parent, recorded;
    } cases[] = {{"00-" TRACE "-" PARENT "-01", true, true},
                 {"00-" TRACE "-" PARENT "-00", true, false},
                 {"00-" TRACE "-" PARENT "-fe", true, false},
                 {"cc-" TRACE "-" PARENT "-01-what-comes", true, true},
                 {"00-" TRACE "-" PARENT "-01-what-comes", false, true},
                 {"cc-" TRACE "-" PARENT "-01x", false, true},
                 {"ff-" TRACE "-" PARENT "-01", false, true},
                 {"00-" TRACE "-" PARENT "-1", false, true},
                 {"00-" TRACE "-0000000000000000-01", false, true},
                 {"00-00000000000000000000000000000000-" PARENT "-01", false, true},
                 {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01", false, true},
                 {"", false, true},
                 {NULL, false, true}};
    char longest[258];
    memset(longest, 'a', sizeof longest);
    longest[257] = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        serve_trace_context c;
        serve_trace_context_read(&c, cases[i].header, "a=b");
        assert_int_equal(c.has_parent, cases[i].has_parent);
        assert_int_equal(c.recorded, cases[i].recorded);
        assert_string_equal(c.state, c.has_parent ? "a=b" : "");
        if (c.has_parent) assert_int_equal(c.trace[0], 0x4b);
        if (c.has_parent) assert_int_equal(c.parent[7], 0xb7);
        serve_trace_context_read(&c, cases[i].header, longest);
        assert_string_equal(c.state, "");
        serve_trace_context_read(&c, cases[i].header, "a=\n");
        assert_string_equal(c.state, "");
    }
}

/* Events of blocks in order; where too many wait, one that says that all is cleared stands for all of them. */
static void events_that_wait(void **state) {
    (void)state;
    serve_kv_queue q;
    int32_t ids[SERVE_KV_BLOCK] = {7};
    const uint64_t media[] = {1, UINT64_MAX};
    serve_kv_queue_init(&q, 3);
    for (int round = 0; round < 2; round++) {
        for (uint8_t i = 1; i <= 3; i++) {
            sac_block_event e = {.key = {[31] = i}, .ids = ids, .media = media, .n_media = 2, .is_removed = i == 2};
            assert_int_equal(serve_kv_queue_add(&q, serve_kv_event_of(&e)), 0);
        }
        size_t n = 2;
        serve_kv_event *first = serve_kv_queue_take(&q, &n);
        assert_int_equal(n, 2);
        assert_true(first->hash == 1 && first->kind == SERVE_KV_STORED && first->media[1] == UINT64_MAX && first->ids[0] == 7);
        assert_true(first->next->hash == 2 && first->next->kind == SERVE_KV_REMOVED && !first->next->next);
        serve_kv_events_free(first);
        assert_int_equal(q.n, 1);
        for (uint8_t i = 4; i <= 5; i++)
            serve_kv_queue_add(&q, serve_kv_event_of(&(sac_block_event){.key = {[31] = i}, .is_removed = true}));
        assert_int_equal(serve_kv_queue_add(&q, serve_kv_event_of(&(sac_block_event){.is_removed = true})), 4);
        assert_int_equal(serve_kv_queue_add(&q, serve_kv_event_of(&(sac_block_event){.key = {[24] = 1}, .is_removed = true})), 0);
        n = 64;
        first = serve_kv_queue_take(&q, &n);
        assert_int_equal(n, 2);
        assert_int_equal(first->kind, SERVE_KV_CLEARED);
        assert_true(first->next->hash == (uint64_t)1 << 56);
        serve_kv_events_free(first);
        assert_int_equal(serve_kv_queue_add(&q, NULL), 1); /* there was no memory for it */
        n = 64;
        first = serve_kv_queue_take(&q, &n);
        assert_true(n == 1 && first->kind == SERVE_KV_CLEARED);
        serve_kv_events_free(first);
        n = 64;
        assert_null(serve_kv_queue_take(&q, &n));
        assert_int_equal(n, 0);
    }
    serve_kv_queue_free(&q);
}

/* The specification's forms, each number and text at the borders between them. */
static void values_as_messagepack(void **state) {
    (void)state;
    static const struct {
        uint64_t n;
        const char *bytes;
        size_t n_bytes;
    } numbers[] = {{0, "\0", 1},
                   {127, "\x7f", 1},
                   {128, "\xcc\x80", 2},
                   {255, "\xcc\xff", 2},
                   {256, "\xcd\x01\x00", 3},
                   {65536, "\xce\x00\x01\x00\x00", 5},
                   {UINT64_MAX, "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9}};
    char text[70000];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        serve_buffer b = {0};
        msgpack_unsigned(&b, numbers[i].n);
        assert_int_equal(b.n, numbers[i].n_bytes);
        assert_memory_equal(b.data, numbers[i].bytes, b.n);
        serve_buffer_free(&b);
    }
    static const struct {
        size_t n;
        const char *head;
        size_t n_head;
    } texts[] = {{0, "\xa0", 1}, {31, "\xbf", 1}, {32, "\xd9\x20", 2}, {255, "\xd9\xff", 2}, {256, "\xda\x01\x00", 3}, {65536, "\xdb\x00\x01\x00\x00", 5}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        serve_buffer b = {0};
        memset(text, 'a', texts[i].n);
        text[texts[i].n] = 0;
        msgpack_text(&b, text);
        assert_int_equal(b.n, texts[i].n + texts[i].n_head);
        assert_memory_equal(b.data, texts[i].head, texts[i].n_head);
        serve_buffer_free(&b);
    }
    serve_buffer b = {0};
    msgpack_array(&b, 15);
    msgpack_array(&b, 16);
    msgpack_array(&b, 65536);
    msgpack_map(&b, 15);
    msgpack_map(&b, 16);
    msgpack_integer(&b, -1);
    msgpack_integer(&b, -32);
    msgpack_integer(&b, -33);
    msgpack_integer(&b, 5);
    msgpack_nil(&b);
    msgpack_real(&b, 1.5);
    static const char wanted[] = "\x9f\xdc\x00\x10\xdd\x00\x01\x00\x00\x8f\xde\x00\x10\xff\xe0\xd3\xff\xff\xff\xff\xff\xff\xff\xdf\x05\xc0"
                                 "\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00";
    assert_int_equal(b.n, sizeof wanted - 1);
    assert_memory_equal(b.data, wanted, b.n);
    serve_buffer_free(&b);
}

/* Bytes that go in at one end and out at the other, as a stream's: in order, and without the block growing for what is gone. */
static void bytes_that_pass_through(void **state) {
    (void)state;
    serve_buffer b = {0};
    uint32_t seed = 3;
    size_t n_in = 0, n_out = 0;
    for (int i = 0; i < 200000; i++) {
        char bytes[64];
        const size_t n = next_random(&seed) % 64, drop = next_random(&seed) % 80;
        for (size_t k = 0; k < n; k++) bytes[k] = (char)((n_in + k) % 251);
        serve_buffer_add(&b, bytes, n);
        n_in += n;
        const size_t gone = drop < b.n ? drop : b.n;
        for (size_t k = 0; k < gone; k++) assert_int_equal(b.data[k], (char)((n_out + k) % 251));
        serve_buffer_drop(&b, gone);
        n_out += gone;
        assert_int_equal(b.n, n_in - n_out);
    }
    assert_true(!b.failed && b.room + b.skipped <= 1 << 16);
    serve_buffer_free(&b);
    assert_null(b.data);
}

/* A slot holds a quarter more than planned where requests may choose, here and on a device. */
static void methods_that_fit_a_slot(void **state) {
    (void)state;
    serve_config config = {.request_methods = true};
    serve_server *s = calloc(1, sizeof *s);
    serve_problem p = {0};
    s->config = &config;
    serve_methods_room(s, &(sac_memory_report){.total_bytes = 1000, .device_bytes = 4000});
    assert_true(serve_methods_fit(s, &(sac_memory_report){.total_bytes = 1250, .device_bytes = 5000}, &p));
    assert_int_equal(p.status, 0);
    assert_false(serve_methods_fit(s, &(sac_memory_report){.total_bytes = 1251}, &p));
    assert_int_equal(p.status, 413);
    assert_null(strstr(p.message, "device"));
    assert_false(serve_methods_fit(s, &(sac_memory_report){.total_bytes = 900, .device_bytes = 5001}, &p));
    assert_int_equal(p.status, 413);
    assert_string_equal(p.code, "methods_too_large");
    assert_non_null(strstr(p.message, "5001 bytes of the device's memory, a slot has 5000"));
    config.request_methods = false;
    serve_methods_room(s, &(sac_memory_report){.total_bytes = 1000, .device_bytes = 4000});
    assert_false(serve_methods_fit(s, &(sac_memory_report){.total_bytes = 1000, .device_bytes = 4001}, &p));
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_walk_is_json_that_matches),
        cmocka_unit_test(texts_that_match_and_do_not),
        cmocka_unit_test(masks),
        cmocka_unit_test(base64),
        cmocka_unit_test(urls),
        cmocka_unit_test(addresses),
        cmocka_unit_test(domains),
        cmocka_unit_test(hosts_of_a_loopback_server),
        cmocka_unit_test(queue_is_fair),
        cmocka_unit_test(the_lightest_is_taken_first),
        cmocka_unit_test(a_heavy_one_is_not_put_off_for_ever),
        cmocka_unit_test(clients_share_by_weight),
        cmocka_unit_test(priorities),
        cmocka_unit_test(when_to_come_again),
        cmocka_unit_test(numbers_of_clients),
        cmocka_unit_test(traces_that_go_on),
        cmocka_unit_test(events_that_wait),
        cmocka_unit_test(values_as_messagepack),
        cmocka_unit_test(bytes_that_pass_through),
        cmocka_unit_test(methods_that_fit_a_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
