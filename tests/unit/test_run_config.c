/* Run settings from YAML: what a file may say, and that everything else is refused with its line. */
#include "test.h"

#include "run_config.h"

static sac_error err;

static sac_status parse(settings *s, const char *text) {
    settings_init(s);
    err = (sac_error){0};
    return run_config_parse(s, text, strlen(text), "run.yaml", &err);
}

static void values_arrive(void **state) {
    (void)state;
    settings s;
    assert_ok(parse(&s, "# a comment\n"
                        "model: models/demo\n"
                        "threads: 2\n"
                        "fast: true\n"
                        "video: {num-frames: 16, fps: 0.5}\n"
                        "sampling:\n"
                        "  temperature: 0.7\n"
                        "  top_p: 0.9\n"
                        "  seed: 18446744073709551615\n"
                        "  stop: [\"\\n\", 'end']\n"
                        "session:\n"
                        "  ctx: 4096\n"
                        "  kv: bf16\n"),
              err);
    assert_string_equal(s.model, "models/demo");
    assert_int_equal(s.threads, 2);
    assert_true(s.fast);
    assert_int_equal(s.num_frames, 16);
    assert_true(s.fps == 0.5 && s.temperature == 0.7 && s.top_p == 0.9);
    assert_true(s.seed == UINT64_MAX);
    assert_int_equal(s.stop.n, 2);
    assert_string_equal(s.stop.items[0], "\n");
    assert_string_equal(s.stop.items[1], "end");
    assert_int_equal(s.ctx, 4096);
    assert_string_equal(s.kv, "bf16");
    assert_true(settings_given(&s, offsetof(settings, top_p)));
    assert_false(settings_given(&s, offsetof(settings, top_k)));
    settings_free(&s);
}

static void an_empty_file_sets_nothing(void **state) {
    (void)state;
    static const char *const texts[] = {"", "\n\n", "# only a comment\n", "---\n{}\n", "\xef\xbb\xbf{}\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        settings s;
        assert_ok(parse(&s, texts[i]), err);
        for (size_t k = 0; k < settings_n; k++) assert_int_equal(s.origin[k], ORIGIN_DEFAULT);
        settings_free(&s);
    }
}

static void the_command_line_wins_in_any_order(void **state) {
    (void)state;
    const setting *temperature = settings_find("temperature"), *stop = settings_find("stop");
    for (int config_first = 0; config_first < 2; config_first++) {
        static const char text[] = "sampling: {temperature: 0.5, top-k: 7, stop: [a, b]}\n";
        settings s;
        settings_init(&s);
        if (config_first) assert_ok(run_config_parse(&s, text, sizeof text - 1, "run.yaml", &err), err);
        assert_ok(settings_set(&s, temperature, "0.25", ORIGIN_COMMAND_LINE, &err), err);
        assert_ok(settings_set(&s, stop, "x", ORIGIN_COMMAND_LINE, &err), err);
        assert_ok(settings_set(&s, stop, "y", ORIGIN_COMMAND_LINE, &err), err);
        if (!config_first) assert_ok(run_config_parse(&s, text, sizeof text - 1, "run.yaml", &err), err);
        assert_true(s.temperature == 0.25);
        assert_int_equal(s.top_k, 7);
        assert_int_equal(s.stop.n, 2);
        assert_string_equal(s.stop.items[0], "x");
        settings_free(&s);
    }
}

/* Every refusal: the text, and what the one line must hold. */
static const struct {
    const char *text, *want;
} bad[] = {
    {"modell: x\n", "run.yaml:1: unknown key 'modell'"},
    {"threads: 2\n\nsampling:\n  temprature: 1\n", "run.yaml:4: unknown key 'temprature' in sampling"},
    {"threads: two\n", "run.yaml:1: threads: expected a whole number, found 'two'"},
    {"threads: 1.5\n", "run.yaml:1: threads: expected a whole number"},
    {"threads: 0x10\n", "expected a whole number"},
    {"threads: \"2\"\n", "run.yaml:1: threads: expected a whole number, found a quoted text"},
    {"threads: 99999999999999999999\n", "run.yaml:1: threads: expected a number from 0 to 1024"},
    {"threads: -1\n", "expected a number from 0 to 1024, found -1"},
    {"threads:\n", "run.yaml:1: threads: the value is missing"},
    {"threads: ~\n", "the value is missing"},
    {"threads: [2]\n", "threads: expected a whole number, found a list"},
    {"model: {a: b}\n", "model: expected a text, found a mapping"},
    {"model: \"a\\0b\"\n", "run.yaml:1: a text holds a zero byte"},
    {"fast: yes\n", "fast: expected true or false, found 'yes'"},
    {"sampling: {temperature: .nan}\n", "temperature: expected a number, found '.nan'"},
    {"sampling: {temperature: 1e999}\n", "temperature: expected a number from 0 to 100"},
    {"sampling: {seed: -1}\n", "seed: expected a whole number from 0 to 18446744073709551615"},
    {"sampling: {stop: [[a]]}\n", "stop: expected a text, found a list"},
    {"sampling: {stop: ['']}\n", "stop: expected a text, found an empty one"},
    {"sampling: 3\n", "run.yaml:1: sampling: expected settings as 'key: value' below it"},
    {"video: clip.mp4\n", "video: expected settings"},
    {"video: {fps: 0}\n", "fps: expected a number from 0.001 to 1000, found 0"},
    {"temperature: 0.5\n", "run.yaml:1: temperature belongs under 'sampling:'"},
    {"session: {temperature: 0.5}\n", "temperature belongs under 'sampling:'"},
    {"session: {model: x}\n", "model belongs at the top, not under 'session:'"},
    {"image: cat.jpg\n", "image is given on the command line only"},
    {"config: other.yaml\n", "config is given on the command line only"},
    {"threads: 1\nthreads: 2\n", "run.yaml:2: threads is given twice"},
    {"sampling: {seed: 1}\nsampling: {seed: 2}\n", "run.yaml:2: sampling is given twice"},
    {"model: &a x\n", "anchors and aliases are not used"},
    {"model: *a\n", "anchors and aliases are not used"},
    {"threads: !!int 2\n", "run.yaml:1: tags are not used"},
    {"- a\n- b\n", "run.yaml:1: expected settings as 'key: value'"},
    {"just text\n", "run.yaml:1: expected settings as 'key: value'"},
    {"threads: 1\n---\nthreads: 2\n", "a second document starts here"},
    {"sampling: {stop: [b\n", "not YAML: "},
    {"model: b: c\n", "run.yaml:1: not YAML: "},
    {"\tx: 1\n", "not YAML: "},
    {"? [a]\n: b\n", "run.yaml:1: a key must be a text"},
    {"sampling: {[a]: b}\n", "sampling: a key must be a text"},
    {"model: \xff\xfe\n", "not YAML: "},
};

static void what_is_not_expected_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        settings s;
        sac_status st = parse(&s, bad[i].text);
        if (st != SAC_BAD_CONFIG || !strstr(err.text, bad[i].want))
            fail_msg("%s\n  gave status %d, \"%s\"\n  want \"%s\"", bad[i].text, st, err.text, bad[i].want);
        settings_free(&s);
    }
}

static void nesting_of_any_depth_is_refused(void **state) {
    (void)state;
    static char text[RUN_CONFIG_MAX_BYTES];
    static const char open[] = {'[', '{', '-', '\n'};
    for (size_t i = 0; i < sizeof open; i++) {
        settings s;
        memset(text, open[i], sizeof text);
        for (size_t k = 0; open[i] == '-' && k < sizeof text; k += 2) text[k + 1] = ' ';
        settings_init(&s);
        sac_status st = run_config_parse(&s, text, sizeof text, "run.yaml", &err);
        assert_int_equal(st, open[i] == '\n' ? SAC_OK : SAC_BAD_CONFIG);
        settings_free(&s);
    }
}

static void a_large_file_is_refused(void **state) {
    (void)state;
    size_t n = RUN_CONFIG_MAX_BYTES + 1;
    char *text = calloc(n, 1);
    settings s;
    settings_init(&s);
    memset(text, '\n', n);
    assert_int_equal(run_config_parse(&s, text, n, "run.yaml", &err), SAC_BAD_CONFIG);
    assert_non_null(strstr(err.text, "larger than 65536 bytes"));
    settings_free(&s);
    free(text);
}

static void files_that_cannot_be_read(void **state) {
    (void)state;
    settings s;
    settings_init(&s);
    assert_int_equal(run_config_read(&s, "no/such.yaml", &err), SAC_NOT_FOUND);
    assert_string_equal(err.text, "no/such.yaml: No such file or directory");
    assert_int_equal(run_config_read(&s, ".", &err), SAC_BAD_FILE);
    settings_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_arrive),
        cmocka_unit_test(an_empty_file_sets_nothing),
        cmocka_unit_test(the_command_line_wins_in_any_order),
        cmocka_unit_test(what_is_not_expected_is_refused),
        cmocka_unit_test(nesting_of_any_depth_is_refused),
        cmocka_unit_test(a_large_file_is_refused),
        cmocka_unit_test(files_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
