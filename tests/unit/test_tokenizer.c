/* Token ids and texts against `tokenizers` (goldens of small tokenizers, tools/make_tokenizer_goldens.py) and against
 * llama.cpp's vocabulary vectors where the assets are; segments, streams, hostile files.
 *
 *   test_tokenizer --time tokenizer.json    prints what loading and tokenising take */
#define _POSIX_C_SOURCE 200809L
#include "clock.h"
#include "detokenizer.h"
#include "file_map.h"
#include "gguf.h"
#include "json.h"
#include "json_stream.h"
#include "test.h"
#include "thread_pool.h"
#include "tokenizer.h"

#define FOLDER  "tests/golden/tokenizer/"
#define MAX_IDS 4096

static sac_tokenizer *open_golden(const char *name) {
    char path[200];
    snprintf(path, sizeof path, FOLDER "%s.json", name);
    sac_tokenizer *t;
    sac_error err = {0};
    assert_ok(sac_tokenizer_open_file(&t, path, &err), err);
    return t;
}

static size_t ids_of(const sac_tokenizer *t, const char *text, size_t n_bytes, bool special, bool add, int32_t *ids) {
    sac_text_segment s = {.text = text, .n_bytes = n_bytes, .parse_special = special};
    size_t n;
    sac_error err = {0};
    assert_ok(sac_tokenize(t, &s, 1, add, ids, MAX_IDS, &n, &err), err);
    return n;
}

static void print_ids(const char *what, const int32_t *ids, size_t n) {
    fprintf(stderr, "%s", what);
    for (size_t i = 0; i < n; i++) fprintf(stderr, " %d", (int)ids[i]);
    fprintf(stderr, "\n");
}

static void expect_ids(const char *who, const char *text, const int32_t *got, size_t n, const json_t *want) {
    bool same = json_array_size(want) == n;
    for (size_t i = 0; same && i < n; i++) same = json_integer_value(json_array_get(want, i)) == got[i];
    if (same) return;
    int32_t ids[MAX_IDS];
    for (size_t i = 0; i < json_array_size(want); i++) ids[i] = (int32_t)json_integer_value(json_array_get(want, i));
    print_ids("got ", got, n);
    print_ids("want", ids, json_array_size(want));
    fail_msg("%s: \"%s\"", who, text);
}

/* All that a stream gives, one id at a time. */
static size_t stream(const sac_tokenizer *t, const int32_t *ids, size_t n, bool skip, char *out) {
    sac_detokenizer *d;
    sac_error err = {0};
    size_t used = 0;
    assert_ok(sac_detokenizer_open(&d, t, skip, &err), err);
    for (size_t i = 0; i <= n; i++) {
        sac_text_span s = i < n ? sac_detokenizer_feed(d, ids[i]) : sac_detokenizer_flush(d);
        for (size_t k = 0, len; k < s.n_bytes; k += len) { /* whole characters only */
            unsigned char b = (unsigned char)s.text[k];
            len = b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
            assert_true((b & 0xc0) != 0x80 && k + len <= s.n_bytes);
        }
        memcpy(out + used, s.text, s.n_bytes);
        used += s.n_bytes;
    }
    sac_detokenizer_free(d);
    return used;
}

static void expect_text(const sac_tokenizer *t, const char *who, const int32_t *ids, size_t n, bool skip, const json_t *want) {
    char text[16384];
    size_t n_bytes, want_bytes = json_string_length(want);
    sac_error err = {0};
    assert_ok(sac_detokenize(t, ids, n, skip, text, sizeof text, &n_bytes, &err), err);
    if (n_bytes != want_bytes || memcmp(text, json_string_value(want), n_bytes) != 0)
        fail_msg("%s: got \"%.*s\", want \"%s\"", who, (int)n_bytes, text, json_string_value(want));
    n_bytes = stream(t, ids, n, skip, text);
    if (n_bytes != want_bytes || memcmp(text, json_string_value(want), n_bytes) != 0)
        fail_msg("%s: stream gave \"%.*s\", want \"%s\"", who, (int)n_bytes, text, json_string_value(want));
}

static const json_t *golden_of(const json_t *cases, const char *key, const char *otherwise, size_t i) {
    const json_t *v = json_array_get(json_object_get(cases, key), i);
    return v && !json_is_null(v) ? v : json_array_get(json_object_get(cases, otherwise), i);
}

static json_t *load_cases(void) {
    json_t *golden;
    sac_error err = {0};
    assert_ok(sac_json_parse_file(&golden, FOLDER "cases.json", &err), err);
    return golden;
}

static void test_goldens(void **state) {
    (void)state;
    json_t *golden = load_cases(), *cases;
    const json_t *strings = json_object_get(golden, "strings");
    const char *name;
    size_t n_tokenizers = 0;
    json_object_foreach(json_object_get(golden, "tokenizers"), name, cases) {
        sac_tokenizer *t = open_golden(name);
        for (size_t i = 0; i < json_array_size(strings); i++) {
            const char *text = json_string_value(json_array_get(strings, i));
            size_t n_bytes = json_string_length(json_array_get(strings, i));
            int32_t ids[MAX_IDS];
            expect_ids(name, text, ids, ids_of(t, text, n_bytes, false, false, ids), golden_of(cases, "plain", "ids", i));
            expect_ids(name, text, ids, ids_of(t, text, n_bytes, true, true, ids), golden_of(cases, "added", "ids", i));
            size_t n = ids_of(t, text, n_bytes, true, false, ids);
            expect_ids(name, text, ids, n, json_array_get(json_object_get(cases, "ids"), i));
            expect_text(t, name, ids, n, true, golden_of(cases, "skip", "skip", i));
            expect_text(t, name, ids, n, false, golden_of(cases, "all", "skip", i));
        }
        sac_tokenizer_free(t);
        n_tokenizers++;
    }
    assert_true(n_tokenizers >= 18 && json_array_size(strings) >= 60);
    json_decref(golden);
}

/* ---- segments ---- */

/* However a text is cut into segments, its ids stay. */
static void test_segments_join(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2", "llama3", "qwen2", "sentencepiece", "unigram", "odd_added"};
    json_t *golden = load_cases();
    const json_t *strings = json_object_get(golden, "strings");
    uint64_t seed = 5;
    for (size_t k = 0; k < SAC_COUNT(names); k++) {
        sac_tokenizer *t = open_golden(names[k]);
        for (size_t i = 0; i < json_array_size(strings); i++) {
            const char *text = json_string_value(json_array_get(strings, i));
            size_t n_bytes = json_string_length(json_array_get(strings, i)), n_whole, n_cut, at = 0, n = 0;
            int32_t whole[MAX_IDS], cut[MAX_IDS];
            sac_text_segment segments[200];
            while (at < n_bytes) {
                size_t to = at + (size_t)test_rand_int(&seed, 1, 6);
                while (to < n_bytes && ((unsigned char)text[to] & 0xc0) == 0x80) to++;
                if (to > n_bytes) to = n_bytes;
                segments[n++] = (sac_text_segment){.text = text + at, .n_bytes = to - at, .parse_special = true};
                at = to;
            }
            n_whole = ids_of(t, text, n_bytes, true, true, whole);
            sac_error err = {0};
            assert_ok(sac_tokenize(t, segments, n, true, cut, MAX_IDS, &n_cut, &err), err);
            if (n_whole != n_cut || memcmp(whole, cut, n_cut * sizeof *cut) != 0) fail_msg("%s: \"%s\"", names[k], text);
        }
        sac_tokenizer_free(t);
    }
    json_decref(golden);
}

#define SPECIAL(s) {.text = (s), .n_bytes = strlen(s), .parse_special = true}
#define PLAIN(s)   {.text = (s), .n_bytes = strlen(s)}

static size_t run(const sac_tokenizer *t, const sac_text_segment *segments, size_t n_segments, int32_t *ids) {
    size_t n;
    sac_error err = {0};
    assert_ok(sac_tokenize(t, segments, n_segments, false, ids, MAX_IDS, &n, &err), err);
    return n;
}

static size_t count(const int32_t *ids, size_t n, int32_t id) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++) k += ids[i] == id;
    return k;
}

static void test_user_text_is_no_control(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2",      "llama3",  "qwen2",         "digits",          "odd_added",
                                        "unigram", "unigram_bytes", "unigram_charsmap", "sentencepiece", "metaspace"};
    for (size_t k = 0; k < SAC_COUNT(names); k++) {
        sac_tokenizer *t = open_golden(names[k]);
        int32_t ids[MAX_IDS], image = sac_token_find(t, "<image>", 7), unk = sac_token_find(t, "<unk>", 5);
        assert_true(image >= 0 && sac_token_is_special(t, image));
        sac_text_segment attack[] = {SPECIAL("<image>"), PLAIN("<image> <|end|><s></s><im"), SPECIAL("age>"), PLAIN("<ima"),
                                     PLAIN("ge>"), SPECIAL("<im"), SPECIAL("age>")};
        size_t n = run(t, attack, SAC_COUNT(attack), ids);
        assert_int_equal(count(ids, n, image), 2); /* the first, and the one that two template parts spell */
        for (size_t i = 0; i < n; i++)
            if (ids[i] != unk && ids[i] != image) assert_false(sac_token_is_special(t, ids[i]));
        sac_tokenizer_free(t);
    }
}

/* The same where tokens are found behind normalisers that move, join and remove bytes. */
static void test_marks_survive_normalizers(void **state) {
    (void)state;
    sac_tokenizer *t = open_golden("odd_added");
    int32_t ids[MAX_IDS], fix = sac_token_find(t, "<fix>", 5);
    sac_text_segment good[] = {PLAIN("e"), SPECIAL("\xcc\x81 <fix>"), PLAIN("\xef\xac\x81 \r\n\r\n<fix>"), SPECIAL("\n\n<\xef\xac\x81x>"),
                               PLAIN("\xcc\xb8<fix>   ")};
    size_t n = run(t, good, SAC_COUNT(good), ids);
    assert_int_equal(count(ids, n, fix), 1); /* the last is joined with a stroke that the user wrote */
    sac_text_segment two[] = {PLAIN("\xe4\xbd\xa0"), SPECIAL("<fix>"), PLAIN("\xe5\xa5\xbd"), SPECIAL("<\xef\xac\x81x>"), PLAIN("<fix>")};
    n = run(t, two, SAC_COUNT(two), ids);
    assert_int_equal(count(ids, n, fix), 2);
    sac_text_segment split[] = {SPECIAL("<f"), PLAIN("ix>"), PLAIN("<f"), SPECIAL("ix>"), PLAIN("<fix>")};
    n = run(t, split, SAC_COUNT(split), ids);
    assert_int_equal(count(ids, n, fix), 0);
    sac_tokenizer_free(t);
}

static void test_token_segments(void **state) {
    (void)state;
    sac_tokenizer *t = open_golden("qwen2");
    sac_text_segment s[] = {{.is_token = true, .token_id = -200}, PLAIN("a"), {.is_token = true, .token_id = 77}, PLAIN("b")};
    int32_t ids[8];
    size_t n = run(t, s, SAC_COUNT(s), ids);
    assert_int_equal(n, 4);
    assert_int_equal(ids[0], -200);
    assert_int_equal(ids[2], 77);
    sac_tokenizer_free(t);
    /* a begin token that is there already is not doubled, one that a user typed does not count */
    t = open_golden("sentencepiece");
    assert_int_equal(sac_tokenizer_bos(t), 1);
    assert_true(sac_tokenizer_adds_bos(t));
    assert_int_equal(ids_of(t, "<s>", 3, true, true, ids), 1);
    n = ids_of(t, "<s>", 3, false, true, ids);
    assert_true(n > 2 && ids[0] == 1 && ids[1] != 1);
    sac_tokenizer_free(t);
}

static void test_capacity_and_bytes(void **state) {
    (void)state;
    sac_tokenizer *t = open_golden("gpt2");
    sac_text_segment s = PLAIN("hello world 123");
    int32_t ids[MAX_IDS], few[2];
    sac_error err = {0};
    size_t n = run(t, &s, 1, ids), n_few;
    assert_int_equal(sac_tokenize(t, &s, 1, false, few, 2, &n_few, &err), SAC_TOO_LONG);
    assert_int_equal(n_few, n);
    assert_memory_equal(few, ids, sizeof few);
    assert_int_equal(sac_tokenize(t, &s, 1, false, NULL, 0, &n_few, &err), SAC_TOO_LONG);
    assert_int_equal(n_few, n);
    assert_int_equal(sac_tokenize(t, NULL, 0, true, NULL, 0, &n_few, &err), SAC_OK);
    assert_int_equal(n_few, 0);
    /* what is not UTF-8: U+FFFD for each maximal subpart, as Python's errors="replace" gives */
    static const char *const bad[][2] = {{"a\x80z", "a\xef\xbf\xbdz"},
                                         {"\xe4\xbd", "\xef\xbf\xbd"},
                                         {"\xf0\x9f\x98 \xc0\xaf", "\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd"},
                                         {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}};
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        int32_t want[64];
        n = ids_of(t, bad[i][1], strlen(bad[i][1]), false, false, want);
        assert_int_equal(ids_of(t, bad[i][0], strlen(bad[i][0]), false, false, ids), n);
        assert_memory_equal(ids, want, n * sizeof *ids);
    }
    /* the end of a character that never comes, ids without a token */
    char text[64];
    n = ids_of(t, "\xf0\x9f\x98\x80", 4, false, false, ids);
    if (n > 1) {
        assert_int_equal(stream(t, ids, n - 1, true, text), 3);
        assert_memory_equal(text, "\xef\xbf\xbd", 3);
    }
    assert_int_equal(sac_token_text(t, -1).n_bytes, 0);
    assert_int_equal(sac_token_text(t, sac_tokenizer_n_vocab(t)).n_bytes, 0);
    assert_false(sac_token_is_special(t, 1 << 30));
    assert_int_equal(sac_token_find(t, "no such token", 13), -1);
    ids[0] = -5;
    ids[1] = INT32_MAX;
    size_t n_bytes;
    assert_ok(sac_detokenize(t, ids, 2, true, text, sizeof text, &n_bytes, &err), err);
    assert_int_equal(n_bytes, 0);
    sac_tokenizer_free(t);
}

/* Byte tokens that are no UTF-8: `tokenizers` replaces the whole run, a stream what is broken of it. */
static void test_broken_byte_runs(void **state) {
    (void)state;
    sac_tokenizer *t = open_golden("sentencepiece");
    const int32_t byte0 = sac_token_find(t, "<0x00>", 6);
    int32_t ids[] = {byte0 + 'h', byte0 + 0xe2, byte0 + 0x82, byte0 + 'i'};
    char text[64];
    size_t n;
    sac_error err = {0};
    assert_ok(sac_detokenize(t, ids, 4, true, text, sizeof text, &n, &err), err);
    assert_int_equal(n, 12);
    n = stream(t, ids, 4, true, text);
    assert_int_equal(n, 8);
    assert_memory_equal(text, "h\xef\xbf\xbd\xef\xbf\xbdi", 8);
    sac_tokenizer_free(t);
}

/* ---- a megabyte ---- */

static size_t put_char(char *out, uint32_t c) {
    if (c < 0x80) return (void)(out[0] = (char)c), (size_t)1;
    if (c < 0x800) return (void)(out[0] = (char)(0xc0 | c >> 6), out[1] = (char)(0x80 | (c & 63))), (size_t)2;
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12), out[1] = (char)(0x80 | (c >> 6 & 63)), out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18), out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63)), out[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* Words of many scripts, digits, spaces, line ends, symbols, emoji; all of it is its own NFC. */
static char *mixed_text(size_t n_bytes) {
    static const uint32_t range[][2] = {{'a', 'z'},        {'A', 'Z'},        {'0', '9'},         {0xe0, 0xf6},      {0x430, 0x44f},
                                        {0x3b1, 0x3c1},    {0x5d0, 0x5ea},    {0x627, 0x63a},     {0x915, 0x928},    {0xe01, 0xe2e},
                                        {0x3041, 0x3046},  {0x4e00, 0x9fa5},  {0xac00, 0xd7a3},   {0x1f600, 0x1f64f}, {0x21, 0x2f},
                                        {0x2190, 0x21ff},  {0x20000, 0x200ff}};
    static const char *const gap[] = {" ", " ", " ", " ", "  ", "\n", "\r\n", "\t", "", "    ", "\n\n"};
    char *text = malloc(n_bytes + 64);
    uint64_t seed = 11;
    size_t n = 0;
    assert_non_null(text);
    while (n < n_bytes) {
        size_t r = (size_t)test_rand_int(&seed, 0, (int)SAC_COUNT(range) + 15);
        if (r >= SAC_COUNT(range)) r = 0;
        for (int k = test_rand_int(&seed, 1, 9); k > 0; k--)
            n += put_char(text + n, (uint32_t)test_rand_int(&seed, (int)range[r][0], (int)range[r][1]));
        const char *g = gap[test_rand_int(&seed, 0, (int)SAC_COUNT(gap) - 1)];
        memcpy(text + n, g, strlen(g));
        n += strlen(g);
    }
    text[n] = 0;
    return text;
}

static void round_trip(const sac_tokenizer *t, const char *name, const char *text) {
    size_t n_bytes = strlen(text), n_ids, n_back;
    int32_t *ids = malloc((n_bytes + 16) * sizeof *ids);
    char *back = malloc(2 * n_bytes + 16);
    sac_text_segment s = {.text = text, .n_bytes = n_bytes, .parse_special = true};
    sac_error err = {0};
    assert_true(ids && back);
    assert_ok(sac_tokenize(t, &s, 1, false, ids, n_bytes + 16, &n_ids, &err), err);
    assert_ok(sac_detokenize(t, ids, n_ids, false, back, 2 * n_bytes + 16, &n_back, &err), err);
    if (n_back != n_bytes || memcmp(back, text, n_bytes) != 0) fail_msg("%s: a megabyte does not come back", name);
    n_back = stream(t, ids, n_ids, false, back);
    if (n_back != n_bytes || memcmp(back, text, n_bytes) != 0) fail_msg("%s: a megabyte does not come back by stream", name);
    print_message("%s: %zu bytes, %zu ids, the same bytes back\n", name, n_bytes, n_ids);
    free(ids);
    free(back);
}

static void test_round_trips(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2", "llama3", "qwen2", "digits", "sentencepiece", "metaspace"};
    char *text = mixed_text(1 << 20);
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        sac_tokenizer *t = open_golden(names[i]);
        round_trip(t, names[i], text);
        sac_tokenizer_free(t);
    }
    free(text);
}

/* One word of a megabyte: no quadratic step anywhere. */
static void test_long_words(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2", "llama3", "sentencepiece", "unigram"};
    const size_t n_bytes = 1 << 20;
    char *text = malloc(n_bytes);
    int32_t *ids = malloc((n_bytes + 1) * sizeof *ids); /* SentencePiece's puts a space in front */
    assert_true(text && ids);
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        sac_tokenizer *t = open_golden(names[i]);
        for (const char *c = "a <\n"; *c; c++) {
            memset(text, *c, n_bytes);
            sac_text_segment s = {.text = text, .n_bytes = n_bytes, .parse_special = true};
            size_t n;
            sac_error err = {0};
            int64_t start = sac_now_ns();
            assert_ok(sac_tokenize(t, &s, 1, false, ids, n_bytes + 1, &n, &err), err);
            assert_true(sac_seconds_since(start) < 60);
        }
        sac_tokenizer_free(t);
    }
    free(text);
    free(ids);
}

/* ---- shared between threads ---- */

typedef struct shared {
    const sac_tokenizer *t;
    const json_t *strings, *ids;
    int bad[SAC_MAX_THREADS];
} shared;

static void tokenize_one(void *ctx, int64_t task, int thread) {
    shared *s = ctx;
    size_t i = (size_t)task % json_array_size(s->strings), n;
    const json_t *text = json_array_get(s->strings, i), *want = json_array_get(s->ids, i);
    sac_text_segment segment = {.text = json_string_value(text), .n_bytes = json_string_length(text), .parse_special = true};
    int32_t ids[MAX_IDS];
    if (sac_tokenize(s->t, &segment, 1, false, ids, MAX_IDS, &n, NULL) != SAC_OK || n != json_array_size(want)) s->bad[thread]++;
}

static void test_threads(void **state) {
    (void)state;
    json_t *golden = load_cases();
    sac_tokenizer *t = open_golden("qwen2");
    sac_pool *pool;
    sac_error err = {0};
    assert_ok(sac_pool_create(&pool, 4, &err), err);
    shared s = {.t = t, .strings = json_object_get(golden, "strings"),
                .ids = json_object_get(json_object_get(json_object_get(golden, "tokenizers"), "qwen2"), "ids")};
    sac_pool_run(pool, 1000, tokenize_one, &s);
    for (int i = 0; i < SAC_MAX_THREADS; i++) assert_int_equal(s.bad[i], 0);
    sac_pool_free(pool);
    sac_tokenizer_free(t);
    json_decref(golden);
}

/* ---- files of strangers ---- */

static sac_status open_text(const char *text, size_t n_bytes, sac_error *err) {
    sac_tokenizer *t = NULL;
    char *copy = malloc(n_bytes ? n_bytes : 1); /* exactly as long as it is, so that reading past it is noticed */
    assert_non_null(copy);
    memcpy(copy, text, n_bytes);
    sac_status st = sac_tokenizer_open_json(&t, copy, n_bytes, NULL, 0, err);
    free(copy);
    assert_true((st == SAC_OK) == (t != NULL));
    if (t) {
        int32_t ids[64];
        size_t n;
        sac_text_segment s = SPECIAL("ab c<x>\xf0\x9f\x98\x80 12");
        sac_tokenize(t, &s, 1, true, ids, 64, &n, err);
    }
    sac_tokenizer_free(t);
    return st;
}

static void test_cut_files(void **state) {
    (void)state;
    static const char *const names[] = {"odd_added", "unigram_charsmap", "split_next"};
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        char path[200], *text;
        size_t n_bytes;
        snprintf(path, sizeof path, FOLDER "%s.json", names[i]);
        sac_error err = {0};
        assert_ok(sac_file_read(&text, &n_bytes, path, 1 << 20, &err), err);
        while (text[n_bytes - 1] == '\n') n_bytes--;
        assert_ok(open_text(text, n_bytes, &err), err);
        for (size_t cut = 0; cut < n_bytes; cut++) {
            memset(&err, 0, sizeof err);
            assert_int_equal(open_text(text, cut, &err), SAC_BAD_FILE);
            assert_true(err.text[0] && !strchr(err.text, '\n'));
        }
        free(text);
    }
}

typedef struct bad_file {
    const char *text, *says;
} bad_file;

#define MODEL(more) "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3},\"merges\":[\"a b\"]}" more "}"
#define VOCAB(v, m) "{\"model\":{\"type\":\"BPE\",\"vocab\":" v ",\"merges\":" m "}}"

static void test_bad_files(void **state) {
    (void)state;
    static const bad_file bad[] = {
        {"", "byte 0"},
        {"[]", "expected an object"},
        {"{}", "no \"model\""},
        {"{\"model\":{}}", "no \"model\""},
        {"{\"model\":{\"vocab\":3}}", "expected an object"},
        {"{\"model\":{\"vocab\":{\"a\":0}}}", "merges is missing"},
        {VOCAB("{\"a\":-1}", "[]"), "id -1"},
        {VOCAB("{\"a\":2000000000}", "[]"), "not between"},
        {VOCAB("{\"a\":99999999999999999999}", "[]"), "out of range"},
        {VOCAB("{\"a\":1.5}", "[]"), "integer"},
        {VOCAB("{\"a\":\"0\"}", "[]"), "integer"},
        {VOCAB("{\"\":0}", "[]"), "text of 0 bytes"},
        {VOCAB("{\"a\":0,\"b\":0}", "[]"), "two tokens"},
        {VOCAB("{\"a\":0,\"a\":1}", "[]"), "two ids"},
        {VOCAB("{\"a\":0}", "[\"a b\"]"), "\"b\", which is not in the vocabulary"},
        {VOCAB("{\"a\":0,\"b\":1}", "[\"a b\"]"), "\"ab\", which"},
        {VOCAB("{\"a\":0}", "[\"a\"]"), "space between"},
        {VOCAB("{\"a\":0}", "[\"a a a\"]"), "space between"},
        {VOCAB("{\"a\":0}", "[\" a\"]"), "not two tokens"},
        {VOCAB("{\"a\":0}", "[[\"a\"]]"), "not a pair"},
        {VOCAB("{\"a\":0}", "[[\"a\",\"a\",\"a\"]]"), "not a pair"},
        {VOCAB("{\"a\":0}", "[[\"a\",\"\"]]"), "not two tokens"},
        {VOCAB("{\"a\":0}", "[3]"), "expected a string"},
        {VOCAB("{\"a\":0}", "{}"), "expected an array"},
        {VOCAB("{\"\xff\":0}", "[]"), "UTF-8"},
        {VOCAB("{\"\\ud800\":0}", "[]"), "escape"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0},\"merges\":[]}}", "WordPiece"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":{\"a\":0},\"merges\":[]}}", "Unigram"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":4,\"vocab\":[[\"a\",0]]}}", "unk_id"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",1e999]]}}", "number"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", "no score"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0,0]]}}", "[text, score]"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}}", "dropout"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"end_of_word_suffix\":\"</w>\"}}", "end_of_word_suffix"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"byte_fallback\":1}}", "byte_fallback"},
        {MODEL(",\"model\":{}"), "twice"},
        {MODEL(",\"normalizer\":{\"type\":\"Lowercase\"}"), "Lowercase"},
        {MODEL(",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":3}"), "must be an array"},
        {MODEL(",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{},\"content\":\"x\"}"), "String or a Regex"},
        {MODEL(",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAA\"}"), "base64"},
        {MODEL(",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"////fwAA\"}"), "trie"},
        {MODEL(",\"normalizer\":7"), "must be an object"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}"), "BertPreTokenizer"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}"), "regular expression"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a(?R)\"},\"behavior\":\"Isolated\"}"), "(?R)"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":\"Isolated\"}"), "&&"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\K\"},\"behavior\":\"Isolated\"}"), "\\K"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},\"behavior\":\"Isolated\"}"), "pattern of 0"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Odd\"}"), "Odd"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"ab\"}"), "one character"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"prepend_scheme\":\"odd\"}"), "odd"},
        {MODEL(",\"post_processor\":{\"type\":\"RobertaProcessing\"}"), "RobertaProcessing"},
        {MODEL(",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}"), "leaves the text out"},
        {MODEL(",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"q\"}}]}"), "\"q\""},
        {MODEL(",\"decoder\":{\"type\":\"CTC\"}"), "CTC"},
        {MODEL(",\"decoder\":{\"type\":\"Strip\",\"content\":\"\",\"start\":1,\"stop\":0}"), "one character"},
        {MODEL(",\"added_tokens\":[{\"id\":-1,\"content\":\"x\"}]"), "added_tokens[0]"},
        {MODEL(",\"added_tokens\":[{\"id\":9}]"), "content"},
        {MODEL(",\"added_tokens\":[{\"id\":9,\"content\":\"x\"},{\"id\":10,\"content\":\"x\"}]"), "twice"},
        {MODEL(",\"added_tokens\":{}"), "array"},
        {MODEL("") "x", "after the end"},
    };
    sac_error err = {0};
    assert_ok(open_text(MODEL(""), strlen(MODEL("")), &err), err);
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        memset(&err, 0, sizeof err);
        sac_status st = open_text(bad[i].text, strlen(bad[i].text), &err);
        if (st != SAC_BAD_FILE || !strstr(err.text, bad[i].says))
            fail_msg("%s: %s, \"%s\" does not say \"%s\"", bad[i].text, sac_status_name(st), err.text, bad[i].says);
    }
}

static void test_deep_and_slow(void **state) {
    (void)state;
    static const char *const open[] = {"[", "{\"a\":", "{\"model\":{\"vocab\":{},\"x\":["};
    sac_error err = {0};
    for (size_t i = 0; i < SAC_COUNT(open); i++) { /* nesting without end */
        size_t n = strlen(open[i]), times = 20000;
        char *text = malloc(n * times);
        assert_non_null(text);
        for (size_t k = 0; k < times; k++) memcpy(text + k * n, open[i], n);
        assert_int_equal(open_text(text, n * times, &err), SAC_BAD_FILE);
        free(text);
    }
    /* a pattern that backtracks without end stops with an error */
    static const char slow[] = MODEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?:a+)+[bc]\"},\"behavior\":\"Isolated\"}");
    sac_tokenizer *t;
    assert_ok(sac_tokenizer_open_json(&t, slow, strlen(slow), NULL, 0, &err), err);
    char text[2000];
    memset(text, 'a', sizeof text);
    sac_text_segment s = {.text = text, .n_bytes = sizeof text};
    size_t n;
    assert_int_equal(sac_tokenize(t, &s, 1, false, NULL, 0, &n, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "regular expression"));
    sac_tokenizer_free(t);
}

static void test_config(void **state) {
    (void)state;
    /* model_max_length beyond 2^63 is in real files */
    static const char config[] = "{\"model_max_length\":1000000000000000019884624838656,\"bos_token\":{\"content\":\"a\"},"
                                 "\"eos_token\":\"\\u0061b\",\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"x\"},"
                                 "{\"name\":\"default\",\"template\":\"{{ \\\"hi\\\" }}\"}]}";
    sac_tokenizer *t;
    sac_error err = {0};
    assert_ok(sac_tokenizer_open_json(&t, MODEL(""), strlen(MODEL("")), config, strlen(config), &err), err);
    assert_int_equal(sac_tokenizer_bos(t), 0);
    assert_int_equal(sac_tokenizer_eos(t), 3);
    assert_string_equal(sac_tokenizer_chat_template(t), "{{ \"hi\" }}");
    sac_tokenizer_free(t);
    for (size_t cut = 0; cut < strlen(config); cut++)
        assert_int_equal(sac_tokenizer_open_json(&t, MODEL(""), strlen(MODEL("")), config, cut, &err), SAC_BAD_FILE);
}

/* ---- GGUF's arrays ---- */

static void test_vocab_source(void **state) {
    (void)state;
    sac_text_span tokens[] = {{"<unk>", 5}, {"<s>", 3}, {"<0x41>", 6}, {"a", 1}, {"b", 1}, {"ab", 2}, {"\xe2\x96\x81", 3}, {"abab", 4}};
    float scores[] = {0, 0, 0, -5, -6, -1, -4, -2};
    int32_t types[] = {2, 3, 6, 1, 1, 1, 1, 1}, ids[16];
    sac_vocab_source src = {.model = "llama", .n_tokens = SAC_COUNT(tokens), .tokens = tokens, .scores = scores, .types = types,
                            .bos_id = 1, .eos_id = -1, .unk_id = 0, .add_bos = -1, .add_eos = -1, .add_space_prefix = -1};
    sac_tokenizer *t;
    sac_error err = {0};
    assert_ok(sac_tokenizer_open_vocab(&t, &src, &err), err);
    const int32_t want[] = {1, 6, 7, 2, 0};
    assert_int_equal(ids_of(t, "ababA?", 6, true, true, ids), 5);
    assert_memory_equal(ids, want, sizeof want);
    sac_tokenizer_free(t);
    const struct {
        sac_vocab_source src;
        sac_status status;
    } bad[] = {{{.model = "bert"}, SAC_UNSUPPORTED},
               {{.model = "gpt2", .pre = "no such split"}, SAC_UNSUPPORTED},
               {{.model = "llama", .n_tokens = 8, .tokens = tokens, .types = types, .bos_id = -1}, SAC_BAD_FILE},
               {{.model = "llama", .n_tokens = 8, .tokens = tokens, .scores = scores, .bos_id = 8}, SAC_BAD_FILE},
               {{.model = "gpt2", .n_tokens = 0}, SAC_BAD_FILE},
               {{.model = "gpt2", .n_tokens = 8, .tokens = tokens, .n_merges = 1, .merges = tokens}, SAC_BAD_FILE}};
    for (size_t i = 0; i < SAC_COUNT(bad); i++)
        assert_int_equal(sac_tokenizer_open_vocab(&t, &bad[i].src, &err), bad[i].status);
}

/* ---- llama.cpp's vectors ---- */

static sac_tokenizer *open_gguf(const char *path) {
    sac_file_map map;
    sac_gguf g = {0};
    sac_checkpoint c = {0};
    sac_vocab_source src = {.bos_id = -1, .eos_id = -1, .unk_id = -1, .add_bos = -1, .add_eos = -1, .add_space_prefix = -1};
    sac_text_span *tokens, *merges, model = {0}, pre = {0};
    float *scores;
    int32_t *types;
    size_t header_bytes, n;
    sac_error err = {0};
    char model_name[32] = {0}, pre_name[32] = {0};
    assert_ok(sac_file_map_open(&map, path, &err), err);
    assert_ok(sac_gguf_parse(&g, &c, 0, map.data, map.n_bytes, &header_bytes, &err), err);
    assert_ok(sac_gguf_get_strings(&g, "tokenizer.ggml.tokens", &tokens, &src.n_tokens, &err), err);
    assert_ok(sac_gguf_get_strings(&g, "tokenizer.ggml.merges", &merges, &src.n_merges, &err), err);
    assert_ok(sac_gguf_get_floats(&g, "tokenizer.ggml.scores", &scores, &n, &err), err);
    assert_ok(sac_gguf_get_ints(&g, "tokenizer.ggml.token_type", &types, &n, &err), err);
    assert_ok(sac_gguf_get_string(&g, "tokenizer.ggml.model", &model, &err), err);
    assert_ok(sac_gguf_get_string(&g, "tokenizer.ggml.pre", &pre, &err), err);
    assert_ok(sac_gguf_get_int(&g, "tokenizer.ggml.bos_token_id", 0, INT32_MAX, &src.bos_id, &err), err);
    assert_ok(sac_gguf_get_int(&g, "tokenizer.ggml.eos_token_id", 0, INT32_MAX, &src.eos_id, &err), err);
    assert_ok(sac_gguf_get_int(&g, "tokenizer.ggml.unknown_token_id", 0, INT32_MAX, &src.unk_id, &err), err);
    assert_true(model.n_bytes < sizeof model_name && pre.n_bytes < sizeof pre_name);
    if (model.text) memcpy(model_name, model.text, model.n_bytes);
    if (pre.text) memcpy(pre_name, pre.text, pre.n_bytes);
    src.model = model_name;
    src.pre = pre.text ? pre_name : NULL;
    src.tokens = tokens;
    src.merges = merges;
    src.scores = scores;
    src.types = types;
    sac_tokenizer *t;
    assert_ok(sac_tokenizer_open_vocab(&t, &src, &err), err);
    free(tokens);
    free(merges);
    free(scores);
    free(types);
    sac_gguf_free(&g);
    sac_checkpoint_free(&c);
    sac_file_unmap(&map);
    return t;
}

static char *read_asset(const char *folder, const char *name, const char *end) {
    char path[400], *text;
    size_t n_bytes;
    sac_error err = {0};
    snprintf(path, sizeof path, "%s/vectors/ggml-vocab-%s.gguf%s", folder, name, end);
    assert_ok(sac_file_read(&text, &n_bytes, path, 1 << 20, &err), err);
    return text;
}

static int compare_vectors(const sac_tokenizer *t, const char *folder, const char *name, int *n_all) {
    static const char line[] = "\n__ggml_vocab_test__\n";
    char *inputs = read_asset(folder, name, ".inp"), *outputs = read_asset(folder, name, ".out"), *out = outputs;
    int good = 0;
    *n_all = 0;
    for (char *text = inputs, *next; text; text = next, ++*n_all) {
        char *end = strstr(text, line);
        next = end ? end + strlen(line) : NULL;
        int32_t ids[MAX_IDS];
        size_t n = ids_of(t, text, end ? (size_t)(end - text) : strlen(text), false, false, ids), k = 0;
        bool same = true;
        char *eol = strchr(out, '\n');
        if (eol) *eol = 0;
        for (char *after;; k++, out = after) {
            long id = strtol(out, &after, 10);
            if (after == out) break;
            same = same && k < n && ids[k] == id;
        }
        if (same && k == n)
            good++;
        else
            print_message("%s: case %d differs\n", name, *n_all);
        out = eol ? eol + 1 : out + strlen(out);
    }
    free(inputs);
    free(outputs);
    return good;
}

static void test_vectors(void **state) {
    (void)state;
    static const struct {
        const char *name, *file;
    } all[] = {{"qwen2", "tokenizers/qwen2_5/tokenizer.json"},
               {"llama-bpe", "tokenizers/llama3/tokenizer.json"},
               {"llama-spm", "vectors/ggml-vocab-llama-spm.gguf"},
               {"gpt-2", "vectors/ggml-vocab-gpt-2.gguf"}};
    const char *folder = test_assets();
    if (!folder) {
        print_message("no assets: set SACCADE_ASSETS for llama.cpp's vectors\n");
        skip();
    }
    char *text = mixed_text(1 << 20);
    for (size_t i = 0; i < SAC_COUNT(all); i++) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, all[i].file);
        sac_tokenizer *t;
        sac_error err = {0};
        int64_t start = sac_now_ns();
        if (strstr(path, ".gguf"))
            t = open_gguf(path);
        else
            assert_ok(sac_tokenizer_open_file(&t, path, &err), err);
        double seconds = sac_seconds_since(start);
        int n_all, good = compare_vectors(t, folder, all[i].name, &n_all);
        print_message("%s: %d of %d vectors, loaded in %.0f ms\n", all[i].name, good, n_all, seconds * 1e3);
        assert_int_equal(good, n_all);
        assert_int_equal(n_all, 47);
        round_trip(t, all[i].name, text);
        sac_tokenizer_free(t);
    }
    free(text);
}

/* ---- timing by hand ---- */

static int time_file(const char *path) {
    sac_error err = {0};
    double best = 1e9, skim = 1e9;
    for (int i = 0; i < 10; i++) {
        sac_tokenizer *t;
        sac_file_map map;
        int64_t start = sac_now_ns();
        if (sac_tokenizer_open_file(&t, path, &err) != SAC_OK) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        double s = sac_seconds_since(start);
        if (s < best) best = s;
        sac_tokenizer_free(t);
        sac_json_stream stream_;
        start = sac_now_ns();
        if (sac_file_map_open(&map, path, &err) != SAC_OK) return 1;
        sac_json_stream_open(&stream_, (const char *)map.data, map.n_bytes);
        sac_json_stream_skip(&stream_, NULL, NULL, &err);
        sac_json_stream_close(&stream_);
        sac_file_unmap(&map);
        s = sac_seconds_since(start);
        if (s < skim) skim = s;
    }
    json_t *tree;
    int64_t start = sac_now_ns();
    if (sac_json_parse_file(&tree, path, &err) == SAC_OK) json_decref(tree);
    printf("load %.1f ms (reading over the JSON alone %.1f ms; jansson's tree %.0f ms)\n", best * 1e3, skim * 1e3,
           sac_seconds_since(start) * 1e3);
    static const char english[] = "The quick brown fox doesn't jump over the lazy dog; it reads a book about 12 blue "
                                  "squares and 345 green triangles instead, and then it goes home.\n";
    size_t n_bytes = 0, n;
    char *text = malloc(4 << 20);
    int32_t *ids = malloc(sizeof(int32_t) << 22);
    sac_tokenizer *t;
    if (!text || !ids || sac_tokenizer_open_file(&t, path, &err) != SAC_OK) return 1;
    while (n_bytes + sizeof english < 4 << 20) {
        memcpy(text + n_bytes, english, sizeof english - 1);
        n_bytes += sizeof english - 1;
    }
    for (int kind = 0; kind < 3; kind++) {
        if (kind == 1) memset(text, 'a', n_bytes = 1 << 20);
        if (kind == 2) {
            free(text);
            text = mixed_text(1 << 20);
            n_bytes = strlen(text);
        }
        sac_text_segment s = {.text = text, .n_bytes = n_bytes};
        start = sac_now_ns();
        if (sac_tokenize(t, &s, 1, false, ids, (size_t)1 << 22, &n, &err) != SAC_OK) return 1;
        static const char *const what[] = {"plain English", "a megabyte of 'a'", "mixed scripts"};
        double seconds = sac_seconds_since(start);
        printf("%s: %.1f MB/s (%zu ids)\n", what[kind], (double)n_bytes / seconds / 1e6, n);
    }
    sac_tokenizer_free(t);
    free(text);
    free(ids);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--time") == 0) return time_file(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_segments_join),
        cmocka_unit_test(test_user_text_is_no_control),
        cmocka_unit_test(test_marks_survive_normalizers),
        cmocka_unit_test(test_token_segments),
        cmocka_unit_test(test_capacity_and_bytes),
        cmocka_unit_test(test_broken_byte_runs),
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_cut_files),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_deep_and_slow),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_vocab_source),
        cmocka_unit_test(test_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
