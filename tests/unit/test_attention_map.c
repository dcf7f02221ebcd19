/* The map of what layers and heads kept: shares against counts by hand, and what a step's observer is told against the session's own
 * figures; answers do not change when somebody looks on. */
#define _GNU_SOURCE
#include "attention_map.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 20, MAX_LAYERS = 16 };

static sac_error err;

typedef struct heard {
    double rows[MAX_LAYERS]; /* over lists and steps, a list's mean a layer */
    int n_lists, steps[MAX_LAYERS];
} heard;

static void hear(void *ctx, int layer, int list, int n_lists, const int32_t *tokens, int64_t n,
                 int64_t n_tokens) {
    heard *h = ctx;
    assert_true(list < n_lists && n <= n_tokens && layer < MAX_LAYERS);
    for (int64_t i = 0; tokens && i < n; i++) assert_true(tokens[i] >= 0 && tokens[i] < n_tokens);
    h->steps[layer] += list == 0;
    h->rows[layer] += (double)n / n_lists;
    if (n_lists > h->n_lists) h->n_lists = n_lists;
}

static sac_session *open_session(sac_model *m, const char *prefill, const char *decode) {
    sac_session *s;
    const sac_session_config c = {.n_ctx = 1024, .prefill = prefill, .decode = decode};
    assert_ok(sac_session_create(&s, m, &c, &err), err);
    return s;
}

static sac_result ask(sac_session *s, char text[256]) {
    sac_part parts[] = {{.kind = SAC_PART_IMAGE, .path = "samples/picture0003.png"},
                        {.kind = SAC_PART_IMAGE, .path = "samples/picture0000.png"},
                        {.kind = SAC_PART_TEXT, .text = "What shape is at the bottom of the first picture?"}};
    sac_message message = {"user", parts, 3, NULL};
    sac_result result;
    const sac_sampling sampling = {.top_p = 1, .repetition_penalty = 1, .max_tokens = 6};
    assert_ok(sac_session_generate(s, &message, 1, &sampling, NULL, &result, &err), err);
    snprintf(text, 256, "%.*s", (int)result.n_text_bytes, result.text);
    return result;
}

static void what_is_told_is_what_was_read(void **state) {
    (void)state;
    static const char *const methods[] = {"twilight:p=0.8",
                                          "quest:budget=64,page=8",
                                          "tokenselect:init=16,local=16,k=32",
                                          "tokenselect:init=16,local=16,k=32,pos=orig",
                                          "adore:m=64",
                                          "dense"};
    sac_model *m;
    assert_ok(sac_model_open(&m, "models/demo", NULL, &err), err);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        char alone[256], watched[256];
        sac_session *s = open_session(m, NULL, methods[i]);
        ask(s, alone);
        sac_session_free(s);
        heard h = {0};
        s = open_session(m, NULL, methods[i]);
        sac_session_observe_read(s, hear, &h);
        ask(s, watched);
        assert_string_equal(alone, watched);
        sac_layer_report report;
        for (int layer = 0; sac_session_layer_stats(s, layer, &report); layer++)
            assert_true(fabs(h.rows[layer] / h.steps[layer] - report.decode_rows) <
                        1e-6 * report.decode_rows);
        assert_true(h.rows[8] > 0);
        sac_session_free(s);
    }
    sac_model_free(m);
}

static bool says(const char *path, const char *what) {
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, MAX_BYTES);
    assert_true(f && text && fread(text, 1, MAX_BYTES - 1, f) > 0);
    fclose(f);
    bool found = strstr(text, what) != NULL;
    free(text);
    return found;
}

/* Prompt of two pictures: a layer reads half of the first with one head, all with the other. */
static void shares_are_drawn(void **state) {
    (void)state;
    char path[] = "/tmp/map_XXXXXX", text[256];
    int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    sac_model *m;
    attention_map map;
    assert_ok(sac_model_open(&m, "models/demo", NULL, &err), err);
    sac_session *s = open_session(m, NULL, NULL);
    sac_result r = ask(s, text);
    assert_ok(attention_map_open(&map, 2, &err), err);
    int64_t n = r.n_prompt_tokens;
    int32_t *even = malloc((size_t)n * sizeof *even), none[1] = {0};
    for (int64_t i = 0; i < n / 2; i++) even[i] = (int32_t)(2 * i);
    attention_map_read(&map.steps, 0, 0, 2, even, n / 2, n);
    attention_map_read(&map.steps, 0, 1, 2, NULL, n, n);
    attention_map_read(&map.steps, 1, 0, 1, none, 0, n + 1);     /* nothing */
    attention_map_read(&map.steps, 5, 0, 1, none, 1, n);         /* no such layer */
    attention_map_read(&map.steps, 0, 0, 2, even, n / 2, n + 1); /* a second step */
    attention_map_read(&map.steps, 0, 1, 2, NULL, n + 1, n + 1);
    assert_ok(attention_map_write(&map, s, n, 6, "title & <more>", "--decode x", path, &err), err);
    FILE *f = fopen(path, "rb");
    char *svg = calloc(1, MAX_BYTES);
    assert_true(f && svg && fread(svg, 1, MAX_BYTES - 1, f) > 0);
    fclose(f);
    char share[64];
    snprintf(share, sizeof share, ": %.1f %% of the prompt",
             100 * (0.5 + 0.5 * (double)(n / 2) / (double)n) / 2);
    assert_non_null(strstr(svg, share));
    assert_non_null(strstr(svg, "title &amp; &lt;more&gt;"));
    assert_non_null(strstr(svg, "its 2 key-value heads"));
    assert_non_null(
        strstr(svg, "<title>") && strstr(svg, "<desc>") && strstr(svg, "prefers-color-scheme:dark") ? svg
                                                                                                    : NULL);
    assert_non_null(strstr(svg, ">0 %</text>"));
    attention_map_free(&map);
    assert_ok(attention_map_open(&map, 2, &err), err);
    attention_map_kept(&map.prompt, 0, even, n / 2, n);
    assert_ok(attention_map_write(&map, s, n, 6, "t", "l", path, &err), err);
    assert_true(says(path, "what was read not known while answering"));
    attention_map_read(&map.steps, 1, 0, 1, NULL, n, n);
    attention_map_read(&map.steps, 1, 0, 2, even, n / 2, n); /* lists were one before */
    attention_map_read(&map.steps, 1, 1, 2, NULL, n, n);
    snprintf(share, sizeof share, "%.1f %% read while answering",
             100 * (1 + (1.0 + (1 + (double)(n / 2) / (double)n) / 2) / 2) / 2);
    assert_ok(attention_map_write(&map, s, n, 6, "t", "l", path, &err), err);
    assert_true(says(path, share));
    assert_ok(attention_map_write(&map, s, n, 6, "t", "l", path, &err), err);
    attention_map_free(&map);
    assert_ok(attention_map_open(&map, 2, &err), err);
    assert_int_equal(attention_map_write(&map, s, n, 6, "t", "l", path, &err), SAC_BAD_ARGUMENT);
    attention_map_free(&map);
    free(even);
    free(svg);
    remove(path);
    sac_session_free(s);
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_told_is_what_was_read),
                                       cmocka_unit_test(shares_are_drawn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
