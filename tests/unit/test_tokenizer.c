/* Ids and texts against `tokenizers` (goldens of small tokenizers, tools/make_tokenizer_goldens.py);
 * segments, streams, long texts, threads. */
#include "json.h"
#include "thread_pool.h"
#include "tokenizer_data.h"

#include <time.h>

static sac_tokenizer *open_golden(const char *name) {
    char path[200];
    snprintf(path, sizeof path, TOKENIZER_GOLDENS "%s.json", name);
    sac_tokenizer *t;
    sac_error err = {0};
    assert_ok(sac_tokenizer_open_file(&t, path, SAC_TOKENIZER_BY_FILE, &err), err);
    return t;
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
    for (size_t i = 0; i < json_array_size(want); i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(want, i));
    print_ids("got ", got, n);
    print_ids("want", ids, json_array_size(want));
    fail_msg("%s: \"%s\"", who, text);
}

static void expect_text(const sac_tokenizer *t, const char *who, const int32_t *ids, size_t n, bool skip,
                        const json_t *want) {
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
    assert_ok(sac_json_parse_file(&golden, TOKENIZER_GOLDENS "cases.json", &err), err);
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
            expect_ids(name, text, ids, ids_of(t, text, n_bytes, false, false, ids),
                       golden_of(cases, "plain", "ids", i));
            expect_ids(name, text, ids, ids_of(t, text, n_bytes, true, true, ids),
                       golden_of(cases, "added", "ids", i));
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
                segments[n++] =
                    (sac_text_segment){.text = text + at, .n_bytes = to - at, .parse_special = true};
                at = to;
            }
            n_whole = ids_of(t, text, n_bytes, true, true, whole);
            sac_error err = {0};
            assert_ok(sac_tokenize(t, segments, n, true, cut, MAX_IDS, &n_cut, &err), err);
            if (n_whole != n_cut || memcmp(whole, cut, n_cut * sizeof *cut) != 0)
                fail_msg("%s: \"%s\"", names[k], text);
        }
        sac_tokenizer_free(t);
    }
    json_decref(golden);
}

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
    static const char *const names[] = {"gpt2",          "llama3",   "qwen2",         "digits",
                                        "odd_added",     "unigram",  "unigram_bytes", "unigram_charsmap",
                                        "sentencepiece", "metaspace"};
    for (size_t k = 0; k < SAC_COUNT(names); k++) {
        sac_tokenizer *t = open_golden(names[k]);
        int32_t ids[MAX_IDS], image = sac_token_find(t, "<image>", 7), unk = sac_token_find(t, "<unk>", 5);
        assert_true(image >= 0 && sac_token_is_special(t, image));
        sac_text_segment attack[] = {SPECIAL("<image>"), PLAIN("<image> <|end|><s></s><im"),
                                     SPECIAL("age>"),    PLAIN("<ima"),
                                     PLAIN("ge>"),       SPECIAL("<im"),
                                     SPECIAL("age>")};
        size_t n = run(t, attack, SAC_COUNT(attack), ids);
        assert_int_equal(count(ids, n, image), 2); /* the first, and the one that two template parts spell */
        for (size_t i = 0; i < n; i++)
            if (ids[i] != unk && ids[i] != image) assert_false(sac_token_is_special(t, ids[i]));
        sac_tokenizer_free(t);
    }
}

static sac_tokenizer *open_text(const char *text) {
    sac_tokenizer *t;
    sac_error err = {0};
    assert_ok(sac_tokenizer_open_json(&t, text, strlen(text), NULL, 0, &err), err);
    return t;
}

/* Merges that spell a control token, and a mark that composes the name of one. */
static void test_no_control_by_merging(void **state) {
    (void)state;
    int32_t ids[MAX_IDS];
    sac_tokenizer *t = open_text(
        "{\"model\":{\"vocab\":{\"<\":0,\"x\":1,\">\":2,\"<x\":3,\"<x>\":4},\"merges\":[\"< x\",\"<x >\"]},"
        "\"added_tokens\":[{\"id\":4,\"content\":\"<x>\",\"special\":true}]}");
    const int32_t apart[] = {3, 2, 4};
    sac_text_segment s[] = {PLAIN("<x>"), SPECIAL("<x>")};
    assert_int_equal(run(t, s, 2, ids), 3);
    assert_memory_equal(ids, apart, sizeof apart);
    sac_tokenizer_free(t);
    t = open_text(
        "{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"vocab\":{\"e\":0,\"q\":1,\"\xc3\xa9\":2},\"merges\":"
        "[]},"
        "\"added_tokens\":[{\"id\":3,\"content\":\"q\xc3\xa9\",\"special\":true,\"normalized\":true},"
        "{\"id\":4,\"content\":\"\xc3\xa9q\",\"special\":true,\"normalized\":true}]}");
    sac_text_segment whole[] = {SPECIAL("qe\xcc\x81"), PLAIN(" ")},
                     mark[] = {SPECIAL("qe"), PLAIN("\xcc\x81")};
    sac_text_segment behind[] = {PLAIN("q"), SPECIAL("\xc3\xa9q")},
                     half[] = {PLAIN("q\xc3\xa9"), SPECIAL("q")};
    assert_int_equal(run(t, whole, 2, ids), 1);
    assert_int_equal(ids[0], 3);
    assert_int_equal(run(t, mark, 2, ids), 2);
    assert_int_equal(ids[0], 1);
    assert_int_equal(run(t, behind, 2, ids), 2);
    assert_int_equal(ids[1], 4);
    assert_int_equal(run(t, half, 2, ids), 3);
    sac_tokenizer_free(t);
}

static void test_added_token_flags(void **state) { /* ids are those of `tokenizers` */
    (void)state;
    static const char strips[] = "a \xe3\x80\x80<l> a <r>  a<r>  <l>", words[] = "b xb b-b\xcc\x81 b?a";
    static const int32_t strips_ids[] = {0, 2, 1, 0, 1, 3, 0, 3, 2}, words_ids[] = {4, 1, 1, 4, 1, 4, 0};
    int32_t ids[MAX_IDS];
    sac_tokenizer *t = open_text("{\"model\":{\"vocab\":{\"a\":0,\" \":1},\"merges\":[]},\"added_tokens\":["
                                 "{\"id\":2,\"content\":\"<l>\",\"special\":true,\"lstrip\":true},"
                                 "{\"id\":3,\"content\":\"<r>\",\"special\":true,\"rstrip\":true},"
                                 "{\"id\":4,\"content\":\"b\",\"special\":true,\"single_word\":true}]}");
    assert_int_equal(ids_of(t, strips, strlen(strips), true, false, ids), SAC_COUNT(strips_ids));
    assert_memory_equal(ids, strips_ids, sizeof strips_ids);
    assert_int_equal(ids_of(t, words, strlen(words), true, false, ids), SAC_COUNT(words_ids));
    assert_memory_equal(ids, words_ids, sizeof words_ids);
    sac_tokenizer_free(t);
}

/* Of two ways with the same score the one found first stays. */
static void test_unigram_ties(void **state) {
    (void)state;
    int32_t ids[MAX_IDS];
    sac_tokenizer *t = open_text("{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"a\",-"
                                 "1],[\"b\",-1],[\"ab\",-2]]}}");
    assert_int_equal(ids_of(t, "ab", 2, true, false, ids), 1);
    assert_int_equal(ids[0], 3);
    sac_tokenizer_free(t);
}

/* The same where tokens are found behind normalisers that move, join and remove bytes. */
static void test_marks_survive_normalizers(void **state) {
    (void)state;
    sac_tokenizer *t = open_golden("odd_added");
    int32_t ids[MAX_IDS], fix = sac_token_find(t, "<fix>", 5);
    sac_text_segment good[] = {PLAIN("e"), SPECIAL("\xcc\x81 <fix>"), PLAIN("\xef\xac\x81 \r\n\r\n<fix>"),
                               SPECIAL("\n\n<\xef\xac\x81x>"), PLAIN("\xcc\xb8<fix>   ")};
    size_t n = run(t, good, SAC_COUNT(good), ids);
    assert_int_equal(count(ids, n, fix), 1); /* the last is joined with a stroke that the user wrote */
    sac_text_segment two[] = {PLAIN("\xe4\xbd\xa0"), SPECIAL("<fix>"), PLAIN("\xe5\xa5\xbd"),
                              SPECIAL("<\xef\xac\x81x>"), PLAIN("<fix>")};
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
    sac_text_segment s[] = {
        {.is_token = true, .token_id = -200}, PLAIN("a"), {.is_token = true, .token_id = 77}, PLAIN("b")};
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
    static const char *const bad[][2] = {
        {"a\x80z", "a\xef\xbf\xbdz"},
        {"\xe4\xbd", "\xef\xbf\xbd"},
        {"\xf0\x9f\x98 \xc0\xaf", "\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xe0\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}};
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
            clock_t start = clock(); /* processor time: a busy machine is no fault */
            assert_ok(sac_tokenize(t, &s, 1, false, ids, n_bytes + 1, &n, &err), err);
            assert_true(clock() - start < 60 * CLOCKS_PER_SEC);
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
    sac_text_segment segment = {
        .text = json_string_value(text), .n_bytes = json_string_length(text), .parse_special = true};
    int32_t ids[MAX_IDS];
    if (sac_tokenize(s->t, &segment, 1, false, ids, MAX_IDS, &n, NULL) != SAC_OK ||
        n != json_array_size(want))
        s->bad[thread]++;
}

static void test_threads(void **state) {
    (void)state;
    json_t *golden = load_cases();
    sac_tokenizer *t = open_golden("qwen2");
    sac_pool *pool;
    sac_error err = {0};
    assert_ok(sac_pool_create(&pool, 4, &err), err);
    shared s = {.t = t,
                .strings = json_object_get(golden, "strings"),
                .ids =
                    json_object_get(json_object_get(json_object_get(golden, "tokenizers"), "qwen2"), "ids")};
    sac_pool_run(pool, 1000, tokenize_one, &s);
    for (int i = 0; i < SAC_MAX_THREADS; i++) assert_int_equal(s.bad[i], 0);
    sac_pool_free(pool);
    sac_tokenizer_free(t);
    json_decref(golden);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_segments_join),
        cmocka_unit_test(test_user_text_is_no_control),
        cmocka_unit_test(test_no_control_by_merging),
        cmocka_unit_test(test_added_token_flags),
        cmocka_unit_test(test_unigram_ties),
        cmocka_unit_test(test_marks_survive_normalizers),
        cmocka_unit_test(test_token_segments),
        cmocka_unit_test(test_capacity_and_bytes),
        cmocka_unit_test(test_broken_byte_runs),
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
