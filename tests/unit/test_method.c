/* Lines of methods: every setting of every method takes what its table says and nothing else. */
#include "kvquant.h"
#include "reduce.h"
#include "status.h"
#include "test.h"

static const sac_attention_shape SHAPE = {.n_layers = 4,
                                          .n_heads = 4,
                                          .n_kv_heads = 2,
                                          .head_dim = 16,
                                          .n_ctx = 8192,
                                          .chunk = 64,
                                          .max_position = 1 << 20,
                                          .fixed_rotation = true};
static sac_error err;

static sac_status open_prefill(const char *line) {
    sac_prefill m;
    sac_status st = sac_prefill_open(&m, line, &SHAPE, &err);
    sac_prefill_free(&m);
    return st;
}

static sac_status open_decode(const char *line) {
    sac_decode m;
    sac_status st = sac_decode_open(&m, line, &SHAPE, &err);
    sac_decode_free(&m);
    return st;
}

static sac_status open_format(const char *line) {
    sac_kv_choice c;
    return sac_kv_choice_parse(&c, line, &SHAPE, &err);
}

typedef sac_status (*open_fn)(const char *line);

static const struct {
    const char *name;
    const sac_method_param *const *params;
    open_fn open;
} METHODS[] = {
#define X(name) {#name, &sac_prefill_##name.params, open_prefill},
    SAC_PREFILL_POLICIES(X)
#undef X
#define X(name) {#name, &sac_decode_##name.params, open_decode},
        SAC_DECODE_POLICIES(X)
#undef X
#define X(name) {#name, &sac_kv_##name.params, open_format},
            SAC_KV_FORMATS(X)
#undef X
};

/* The settings that take fractions: shares, cosines. */
static bool takes_fractions(const char *method, const char *setting) {
    static const char *const names[] = {"tau",  "p",     "top_p",  "ratio", "salient", "theta",
                                        "rate", "alpha", "factor", "share", NULL};
    for (size_t i = 0; names[i]; i++)
        if (strcmp(setting, names[i]) == 0) return true;
    if (strcmp(method, "zipcache") == 0 || strcmp(method, "h2o") == 0)
        return strcmp(setting, "recent") == 0 || strcmp(setting, "random") == 0 ||
               strcmp(setting, "heavy") == 0;
    return false;
}

static void assert_refused(sac_status st, const char *line, const char *says) {
    if (st != SAC_BAD_ARGUMENT) fail_msg("\"%s\" is taken", line);
    if (!strstr(err.text, says)) fail_msg("\"%s\": \"%s\" does not say \"%s\"", line, err.text, says);
    assert_null(strchr(err.text, '\n'));
}

static void whole_settings_refuse_fractions(void **state) {
    (void)state;
    int n_whole = 0;
    for (size_t m = 0; m < SAC_COUNT(METHODS); m++)
        for (const sac_method_param *p = *METHODS[m].params; p->name; p++) {
            char line[128], says[128];
            if (p->choices && p->choices != SAC_WHOLE) continue;
            snprintf(line, sizeof line, "%s:%s=%.10g", METHODS[m].name, p->name, p->min + 0.7);
            if (takes_fractions(METHODS[m].name, p->name)) {
                assert_ok(METHODS[m].open(line), err);
                continue;
            }
            n_whole++;
            snprintf(says, sizeof says, "%s=%.10g: give a whole number from %.0f to %.0f (", p->name,
                     p->min + 0.7, p->min, p->max);
            assert_refused(METHODS[m].open(line), line, says);
        }
    assert_true(n_whole > 50);
}

static void settings_come_once(void **state) {
    (void)state;
    for (size_t m = 0; m < SAC_COUNT(METHODS); m++)
        for (const sac_method_param *p = *METHODS[m].params; p->name; p++) {
            char line[200], value[64], says[64];
            if (p->choices && p->choices != SAC_WHOLE)
                snprintf(value, sizeof value, "%s=%s", p->name, p->choices[(size_t)p->value]);
            else
                snprintf(value, sizeof value, "%s=%.10g", p->name, p->value);
            snprintf(line, sizeof line, "%s:%s,%s", METHODS[m].name, value, value);
            snprintf(says, sizeof says, "gives %s twice", p->name);
            assert_refused(METHODS[m].open(line), line, says);
        }
    sac_reduce r;
    assert_refused(sac_reduce_parse(&r, "hired:rate=0.2,rate=0.3", &err), "hired", "gives rate twice");
    assert_refused(open_decode("twilight:base=quest,base.page=8,base.page=8"), "twilight",
                   "gives base.page twice");
    assert_ok(open_decode("twilight:base=doublesparse,p=0.5,base.skip=1,skip=0"), err); /* not the same */
}

/* A policy over another reads the other's settings whether it is off or not. */
static void settings_of_a_base_are_read(void **state) {
    (void)state;
    static const char *const OVER[] = {"twilight:p=1", "twilight:p=0.9", "twilight:skip=4,base=quest",
                                       "twilight:p=1,base=quest"};
    for (size_t i = 0; i < SAC_COUNT(OVER); i++) {
        char line[100];
        snprintf(line, sizeof line, "%s,base.nonsense=3", OVER[i]);
        assert_refused(open_decode(line), line, "no setting \"nonsense\"");
        assert_ok(open_decode(OVER[i]), err);
    }
    assert_refused(open_decode("twilight:skip=4,base=quest,base.page=1.5"), "skip=4",
                   "page=1.5: give a whole");
    assert_refused(open_decode("quest:base.page=3"), "quest", "no setting \"base.page\"");
}

static void budgets_of_h2o_are_shares_or_rows(void **state) {
    (void)state;
    assert_ok(open_decode("h2o:heavy=0.25,recent=7"), err);
    assert_ok(open_decode("h2o:heavy=1,recent=1.0"), err);
    assert_refused(open_decode("h2o:heavy=16.7"), "h2o", "heavy=16.7: give a share up to 1, or");
    assert_refused(open_decode("h2o:recent=1.01"), "h2o", "recent=1.01: give a share up to 1, or");
}

static void values_are_numbers_in_range(void **state) {
    (void)state;
    assert_ok(open_decode("quest:page=16.0,budget=1e3"), err); /* whole all the same */
    assert_refused(open_decode("quest:page=0"), "quest", "page=0: give a whole number from 1 to 4096");
    assert_refused(open_decode("quest:page=4097"), "quest", "page=4097: give a whole number from 1 to 4096");
    assert_refused(open_decode("quest:page="), "quest", "page=: give a whole number");
    assert_refused(open_decode("quest:page"), "quest", "page=: give a whole number");
    assert_refused(open_decode("quest:page=8x"), "quest", "page=8x: give a whole number");
    assert_refused(open_decode("quest:page=nan"), "quest", "page=nan: give a whole number");
    assert_refused(open_decode("quest:page=inf"), "quest", "page=inf: give a whole number");
    assert_refused(open_prefill("zipvl:tau=1.5"), "zipvl", "tau=1.5: give a number from 0 to 1");
    assert_refused(open_prefill("zipvl:side=three"), "zipvl", "side=three: give one of two, one, band");
}

/* What is printed is taken again and says the same. */
static void printed_lines_are_taken(void **state) {
    (void)state;
    static const char *const LINES[] = {"twilight:base=quest,base.budget=4096,p=0.3",
                                        "h2o:heavy=0.3,recent=40", "adore:sigma=attention,m=100",
                                        "tokenselect:theta=0.25,pos=orig,k=77"};
    for (size_t i = 0; i < SAC_COUNT(LINES); i++) {
        char text[700], again[700];
        sac_decode m;
        assert_ok(sac_decode_open(&m, LINES[i], &SHAPE, &err), err);
        sac_decode_print(&m, text, sizeof text);
        sac_decode_free(&m);
        assert_ok(sac_decode_open(&m, text, &SHAPE, &err), err);
        sac_decode_print(&m, again, sizeof again);
        assert_string_equal(text, again);
        sac_decode_free(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_settings_refuse_fractions),
        cmocka_unit_test(settings_come_once),
        cmocka_unit_test(settings_of_a_base_are_read),
        cmocka_unit_test(budgets_of_h2o_are_shares_or_rows),
        cmocka_unit_test(values_are_numbers_in_range),
        cmocka_unit_test(printed_lines_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
