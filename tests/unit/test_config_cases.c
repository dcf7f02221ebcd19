/* Whole models under changed config files against transformers: tests/golden/config_cases.json, made by
 * tools/make_config_golden.py, whose head says what it holds. $SACCADE_CONFIG_CASES names another file of that kind. */
#define _DEFAULT_SOURCE
#include "json.h"
#include "saccade/saccade.h"
#include "test.h"

#include <math.h>
#include <unistd.h>

#define MODELS    "tests/golden/models"
#define TEXT      "Three owls sat on the wire; two of them saw 47 mice."
#define TOLERANCE 3e-4 /* of the largest logit */
#define STEP      18

static sac_error err;

static json_t *load(const char *path) {
    json_t *v;
    assert_ok(sac_json_parse_file(&v, path, &err), err);
    return v;
}

static const char *text_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

/* "-" takes a key away, objects are merged. */
static void merge(json_t *into, const json_t *changes) {
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)changes, key, v) {
        json_t *old = json_object_get(into, key);
        if (json_is_string(v) && strcmp(json_string_value(v), "-") == 0)
            json_object_del(into, key);
        else if (json_is_object(v) && json_is_object(old))
            merge(old, v);
        else
            json_object_set(into, key, v);
    }
}

static void shell(const char *format, const char *a, const char *b) {
    char line[512];
    snprintf(line, sizeof line, format, a, b);
    assert_int_equal(system(line), 0);
}

/* The base's files, by links, and its changed ones. */
static void make_folder(const json_t *c, char *folder) {
    strcpy(folder, "/tmp/sac_config_XXXXXX");
    assert_non_null(mkdtemp(folder));
    shell("ln -s \"$PWD\"/" MODELS "/%s/* %s", text_of(c, "base"), folder);
    const char *name;
    json_t *changes;
    json_object_foreach(json_object_get(c, "files"), name, changes) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder, name);
        json_t *content = load(path);
        merge(content, changes);
        unlink(path);
        assert_int_equal(json_dump_file(content, path, 0), 0);
        json_decref(content);
    }
}

/* The largest difference as a share of the largest logit. */
static double run(const json_t *c, const sac_model *m) {
    sac_session_config config;
    sac_session *s;
    static int32_t ids[512];
    size_t n;
    sac_session_config_default(&config);
    config.n_ctx = sizeof ids / sizeof *ids;
    config.kv = "f32";
    assert_ok(sac_session_create(&s, m, &config, &err), err);
    if (text_of(c, "image")) {
        char path[256];
        snprintf(path, sizeof path, MODELS "/%s", text_of(c, "image"));
        sac_part parts[] = {{.kind = SAC_PART_IMAGE, .path = path},
                            {.kind = SAC_PART_TEXT, .text = "What do you see in it?"}};
        sac_message message = {.role = "user", .parts = parts, .n_parts = 2};
        assert_ok(sac_session_prefill(s, &message, 1, NULL, &err), err);
        n = (size_t)sac_session_n_tokens(s);
    } else {
        assert_ok(sac_tokenize_text(m, TEXT, strlen(TEXT), true, true, ids, 512, &n, &err), err);
        assert_ok(sac_session_append(s, ids, n, NULL, &err), err);
    }
    assert_int_equal(n, json_integer_value(json_object_get(c, "n")));
    const float *logits = sac_session_logits(s);
    const json_t *want = json_object_get(c, "logits");
    double worst = 0;
    for (size_t i = 0; i < json_array_size(want); i++) {
        double d = fabs((double)logits[i * STEP] - json_number_value(json_array_get(want, i)));
        if (!(d <= worst)) worst = d;
    }
    sac_session_free(s);
    return worst / json_number_value(json_object_get(c, "largest"));
}

/* NULL, or why the case fails. */
static const char *check(const json_t *c, double *share) {
    static char why[600];
    char folder[64];
    const char *refused = text_of(c, "refused");
    make_folder(c, folder);
    sac_model_options o;
    sac_model *m = NULL;
    sac_model_options_default(&o);
    o.chat_format = "plain";
    sac_status st = sac_model_open(&m, folder, &o, &err);
    *share = 0;
    why[0] = 0;
    if (refused && (st != SAC_UNSUPPORTED || !strstr(err.text, refused)))
        snprintf(why, sizeof why, "not refused by the name %s: %s", refused, st == SAC_OK ? "" : err.text);
    else if (!refused && st != SAC_OK)
        snprintf(why, sizeof why, "%s", err.text);
    else if (!refused)
        *share = run(c, m);
    if (!(*share <= TOLERANCE)) snprintf(why, sizeof why, "logits are %.3g of the largest apart", *share);
    sac_model_free(m);
    shell("rm -r %s%s", folder, "");
    return why[0] ? why : NULL;
}

static void configurations_as_transformers_reads_them(void **state) {
    (void)state;
    const char *path = getenv("SACCADE_CONFIG_CASES");
    json_t *all = load(path ? path : "tests/golden/config_cases.json"), *c;
    size_t i, n_failed = 0;
    double worst = 0, share;
    json_array_foreach(all, i, c) {
        const char *why = check(c, &share);
        if (share > worst) worst = share;
        if (!why) continue;
        char *files = json_dumps(json_object_get(c, "files"), JSON_COMPACT);
        print_error("case %zu, %s, %s: %s\n", i, text_of(c, "base"), files, why);
        free(files);
        n_failed++;
    }
    print_message("%zu cases, %zu fail; largest difference %.2g of the largest logit\n", json_array_size(all),
                  n_failed, worst);
    assert_true(path || json_array_size(all) >= 290);
    assert_int_equal(n_failed, 0);
    json_decref(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(configurations_as_transformers_reads_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
