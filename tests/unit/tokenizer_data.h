/* tokenizer_data.h - what the tests of tokenizers share. */
#ifndef SAC_TOKENIZER_DATA_H
#define SAC_TOKENIZER_DATA_H

#include "detokenizer.h"
#include "test.h"

#define TOKENIZER_GOLDENS "tests/golden/tokenizer/"
#define MAX_IDS           4096

#define SPECIAL(s)                                                                                           \
    { .text = (s), .n_bytes = strlen(s), .parse_special = true }
#define PLAIN(s)                                                                                             \
    { .text = (s), .n_bytes = strlen(s) }

static inline size_t ids_of(const sac_tokenizer *t, const char *text, size_t n_bytes, bool special, bool add,
                            int32_t *ids) {
    sac_text_segment s = {.text = text, .n_bytes = n_bytes, .parse_special = special};
    size_t n;
    sac_error err = {0};
    assert_ok(sac_tokenize(t, &s, 1, add, ids, MAX_IDS, &n, &err), err);
    return n;
}

/* All that a stream gives, one id at a time. */
static inline size_t stream(const sac_tokenizer *t, const int32_t *ids, size_t n, bool skip, char *out) {
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

/* ---- a megabyte ---- */

static inline size_t put_char(char *out, uint32_t c) {
    if (c < 0x80) return (void)(out[0] = (char)c), (size_t)1;
    if (c < 0x800) return (void)(out[0] = (char)(0xc0 | c >> 6), out[1] = (char)(0x80 | (c & 63))), (size_t)2;
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12), out[1] = (char)(0x80 | (c >> 6 & 63)),
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18), out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63)), out[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* Words of many scripts, digits, spaces, line ends, symbols, emoji; all of it is its own NFC. */
static inline char *mixed_text(size_t n_bytes) {
    static const uint32_t range[][2] = {
        {'a', 'z'},       {'A', 'Z'},        {'0', '9'},       {0xe0, 0xf6},       {0x430, 0x44f},
        {0x3b1, 0x3c1},   {0x5d0, 0x5ea},    {0x627, 0x63a},   {0x915, 0x928},     {0xe01, 0xe2e},
        {0x3041, 0x3046}, {0x4e00, 0x9fa5},  {0xac00, 0xd7a3}, {0x1f600, 0x1f64f}, {0x21, 0x2f},
        {0x2190, 0x21ff}, {0x20000, 0x200ff}};
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

static inline void round_trip(const sac_tokenizer *t, const char *name, const char *text) {
    size_t n_bytes = strlen(text), n_ids, n_back;
    int32_t *ids = malloc((n_bytes + 16) * sizeof *ids);
    char *back = malloc(2 * n_bytes + 16);
    sac_text_segment s = {.text = text, .n_bytes = n_bytes, .parse_special = true};
    sac_error err = {0};
    assert_true(ids && back);
    assert_ok(sac_tokenize(t, &s, 1, false, ids, n_bytes + 16, &n_ids, &err), err);
    assert_ok(sac_detokenize(t, ids, n_ids, false, back, 2 * n_bytes + 16, &n_back, &err), err);
    if (n_back != n_bytes || memcmp(back, text, n_bytes) != 0)
        fail_msg("%s: a megabyte does not come back", name);
    n_back = stream(t, ids, n_ids, false, back);
    if (n_back != n_bytes || memcmp(back, text, n_bytes) != 0)
        fail_msg("%s: a megabyte does not come back by stream", name);
    print_message("%s: %zu bytes, %zu ids, the same bytes back\n", name, n_bytes, n_ids);
    free(ids);
    free(back);
}

#endif
