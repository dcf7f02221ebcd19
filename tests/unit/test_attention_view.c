/* What the drawing of kept tokens collects from the prompts of a session. */
#define _GNU_SOURCE
#include "attention_view.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 20 };

static void later_prompts_may_be_longer(void **state) {
    (void)state;
    enum { LONG = 1 << 24 };
    static const int32_t first[] = {0, 3, 9}, last[] = {1, LONG - 1}, outside[] = {-1, 2, 5};
    attention_view v;
    sac_error err;
    assert_ok(attention_view_open(&v, 3, &err), err);
    attention_view_kept(&v, 0, first, 3, 10);
    attention_view_kept(&v, 1, last, 2, LONG);
    attention_view_kept(&v, 0, last, 2, LONG);
    attention_view_kept(&v, 1, outside, 3, 5); /* a shorter one; rows that are not there */
    attention_view_kept(&v, 3, first, 3, 10);  /* nor is this layer */
    assert_false(v.no_memory);
    assert_int_equal(v.n_tokens, LONG);
    assert_null(v.kept[2]);
    int64_t n[2] = {0};
    for (int64_t i = 0; i < LONG; i++)
        for (int l = 0; l < 2; l++) n[l] += v.kept[l][i];
    assert_int_equal(n[0], 5);
    assert_int_equal(n[1], 3);
    assert_true(v.kept[0][0] && v.kept[0][1] && v.kept[0][3] && v.kept[0][9] && v.kept[0][LONG - 1]);
    assert_true(v.kept[1][1] && v.kept[1][2] && v.kept[1][LONG - 1]);
    attention_view_free(&v);
}

/* A file's text. To be freed. */
static char *text_of(const char *path) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = calloc(1, MAX_BYTES);
    assert_non_null(text);
    assert_true(fread(text, 1, MAX_BYTES - 1, f) > 0);
    fclose(f);
    return text;
}

/* A tile of twice the width, of which a layer kept nothing: as wide as the sheet has room, half as high, and its
 * cells dimmed. */
static void oblong_tiles_keep_their_shape(void **state) {
    (void)state;
    char path[] = "/tmp/view_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    static const uint8_t pixels[32 * 16 * 3];
    sac_error err;
    sac_model *m;
    sac_session *s;
    attention_view v;
    sac_part parts[] = {{.kind = SAC_PART_IMAGE, .path = "samples/picture0003.png"},
                        {.kind = SAC_PART_TEXT, .text = "What?"}};
    sac_message message = {"user", parts, 2, NULL};
    assert_ok(sac_model_open(&m, "models/demo", NULL, &err), err);
    assert_ok(sac_session_create(&s, m, &(sac_session_config){.n_ctx = 512}, &err), err);
    assert_ok(sac_session_prefill(s, &message, 1, NULL, &err), err);
    assert_ok(attention_view_open(&v, 1, &err), err);
    attention_view_kept(&v, 0, NULL, 0, sac_session_n_tokens(s));
    attention_view_tile(&v, 0, 0, 32, 16, pixels);
    assert_ok(attention_view_write(&v, s, "title", "answer", path, &err), err);
    char *svg = text_of(path);
    assert_non_null(strstr(svg, "scale(224.0 112.0)"));
    assert_non_null(strstr(svg, "<rect x=\"196.00\" y=\"98.00\" width=\"28.00\" height=\"14.00\""));
    free(svg);
    remove(path);
    attention_view_free(&v);
    sac_session_free(s);
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(later_prompts_may_be_longer),
                                       cmocka_unit_test(oblong_tiles_keep_their_shape)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
