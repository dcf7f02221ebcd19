#define _GNU_SOURCE
/* ADORE in whole sessions: controllers that come with a model, and answers beside dense attention's. */
#include "adore_test.h"
#include "method_session.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of the folder's controller: the members of its "__metadata__", or NULL for none. */
static const char *metadata;

/* A folder with the demo model's files and a controller of its own. */
static void make_folder(char *folder, const weights *w, const char *header_name) {
    char path[600], target[600], cwd[300];
    strcpy(folder, "/tmp/sac_adore_XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_non_null(getcwd(cwd, sizeof cwd));
    DIR *d = opendir("models/demo");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.' || strcmp(e->d_name, "adore.safetensors") == 0) continue;
        snprintf(path, sizeof path, "%s/%.200s", folder, e->d_name);
        snprintf(target, sizeof target, "%s/models/demo/%.200s", cwd, e->d_name);
        assert_int_equal(symlink(target, path), 0);
    }
    closedir(d);
    int h = w->hidden, n = w->input;
    const struct {
        const char *name;
        const float *data;
        int rows, cols;
    } t[] = {{"gru.weight_ih_l0", w->input_gates, 3 * h, n},
             {"gru.weight_hh_l0", w->state_gates, 3 * h, h},
             {"gru.bias_ih_l0", w->input_bias, 3 * h, 0},
             {"gru.bias_hh_l0", w->state_bias, 3 * h, 0},
             {"position.weight", w->position, h, 1},
             {"position.bias", w->position_bias, h, 0},
             {"inner.weight", w->inner, h, h},
             {"inner.bias", w->inner_bias, h, 0},
             {"outer.weight", w->outer, 1, h},
             {header_name, w->outer_bias, 1, 0}};
    char header[2000];
    size_t used = 1, at = 0;
    header[0] = '{';
    for (size_t i = 0; i < SAC_COUNT(t); i++) {
        size_t n_bytes = (size_t)t[i].rows * (size_t)(t[i].cols ? t[i].cols : 1) * sizeof(float);
        char shape[40];
        snprintf(shape, sizeof shape, t[i].cols ? "[%d,%d]" : "[%d]", t[i].rows, t[i].cols);
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 "%s\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                                 i ? "," : "", t[i].name, shape, at, at + n_bytes);
        at += n_bytes;
    }
    if (metadata)
        used += (size_t)snprintf(header + used, sizeof header - used, ",\"__metadata__\":{%s}", metadata);
    header[used++] = '}';
    snprintf(path, sizeof path, "%s/adore.safetensors", folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    uint64_t length = used;
    fwrite(&length, 1, 8, f);
    fwrite(header, 1, used, f);
    for (size_t i = 0; i < SAC_COUNT(t); i++)
        fwrite(t[i].data, sizeof(float), (size_t)t[i].rows * (size_t)(t[i].cols ? t[i].cols : 1), f);
    fclose(f);
}

static void remove_folder(const char *folder) {
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) {
        char path[600];
        snprintf(path, sizeof path, "%s/%.200s", folder, e->d_name);
        if (e->d_name[0] != '.') unlink(path);
    }
    closedir(d);
    rmdir(folder);
}

static sac_model *open_folder(const char *folder) {
    sac_model *m;
    sac_error err;
    sac_model_options o;
    sac_model_options_default(&o);
    o.n_threads = 2;
    assert_ok(sac_model_open(&m, folder, &o, &err), err);
    return m;
}

static void controllers_come_with_the_model(void **state) {
    (void)state;
    static weights w;
    static told t, again;
    char folder[100];
    sac_error err;
    sac_model *m;
    random_weights(&w, 384, 16, 2);
    make_folder(folder, &w, "outer.bias");
    m = open_folder(folder);
    sac_session_config c = told_config(NULL, "adore:m=100,r=8", NULL);
    tell(m, &c, &t);
    tell(m, &c, &again);
    told_equal(&t, &again);
    assert_string_equal(t.lines.decode, "adore:m=100,r=8,sigma=gru,pos=auto,feature=auto,recent=0,sink=0");
    sac_model_free(m);
    remove_folder(folder);

    make_folder(folder, &w, "outer.other");
    assert_int_equal(sac_model_open(&m, folder, NULL, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "no tensor outer.bias"));
    remove_folder(folder);
    w.input = 100;
    make_folder(folder, &w, "outer.bias");
    assert_int_equal(sac_model_open(&m, folder, NULL, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "tensor gru.weight_ih_l0 has shape [48, 100], not [48, 384]"));
    remove_folder(folder);
}

static void tell_of_folder(const weights *w, const char *said, const char *line, told *t) {
    char folder[100];
    metadata = said;
    make_folder(folder, w, "outer.bias");
    metadata = NULL;
    sac_model *m = open_folder(folder);
    sac_session_config c = told_config(NULL, line, NULL);
    tell(m, &c, t);
    sac_model_free(m);
    remove_folder(folder);
}

static void expect_refused(const weights *w, const char *said, const char *line, sac_status status,
                           const char *text) {
    char folder[100];
    sac_error err = {0};
    sac_model *m = NULL;
    sac_session *s = NULL;
    metadata = said;
    make_folder(folder, w, "outer.bias");
    metadata = NULL;
    sac_status st = sac_model_open(&m, folder, NULL, &err);
    sac_session_config c = told_config(NULL, line, NULL);
    if (st == SAC_OK) st = sac_session_create(&s, m, &c, &err);
    sac_session_free(s);
    sac_model_free(m);
    remove_folder(folder);
    assert_int_equal(st, status);
    if (!strstr(err.text, text)) fail_msg("\"%s\" lacks \"%s\"", err.text, text);
}

/* A controller sees the positions that it was trained with. Units of 1,024 tokens are those of the trained length,
 * 32,768, with weights 32 times as large: the same numbers, to the bit. */
static void a_controllers_file_says_how_positions_go(void **state) {
    (void)state;
    static weights w;
    static told t, want, other;
    random_weights(&w, 384, 16, 2);
    for (int i = 0; i < w.hidden; i++) w.position[i] *= 4;
    tell_of_folder(&w, "\"feature\":\"abs\",\"unit\":\"1024\",\"k\":\"96\"", "adore:m=100,r=8", &t);
    tell_of_folder(&w, NULL, "adore:m=100,r=8", &other);
    for (int i = 0; i < w.hidden; i++) w.position[i] *= 32;
    tell_of_folder(&w, NULL, "adore:m=100,r=8", &want);
    assert_memory_equal(t.logits, want.logits, sizeof want.logits);
    assert_memory_not_equal(t.logits, other.logits, sizeof other.logits);
    tell_of_folder(&w, "\"feature\":\"rel\"", "adore:m=100,r=8", &t);
    tell_of_folder(&w, NULL, "adore:m=100,r=8,feature=rel", &other);
    assert_memory_equal(t.logits, other.logits, sizeof other.logits);
    assert_memory_not_equal(t.logits, want.logits, sizeof want.logits);
    expect_refused(&w, "\"feature\":\"rel\"", "adore:feature=abs", SAC_BAD_ARGUMENT, "trained with rel");
    expect_refused(&w, "\"feature\":\"abs\"", "adore:feature=rel", SAC_BAD_ARGUMENT, "trained with abs");
    expect_refused(&w, "\"feature\":\"age\"", "adore", SAC_BAD_FILE, "\"feature\" is \"age\"");
    expect_refused(&w, "\"unit\":\"0\"", "adore", SAC_BAD_FILE, "\"unit\" is \"0\"");
    expect_refused(&w, "\"unit\":\"nan\"", "adore", SAC_BAD_FILE, "\"unit\" is \"nan\"");
    expect_refused(&w, "\"unit\":1024", "adore", SAC_BAD_FILE, "\"unit\" is not a string");
    expect_refused(&w, "\"feature\":\"abcdefghijklmnopqrst\"", "adore", SAC_BAD_FILE, "less than 16 bytes");
}

static double distance(const told *a, const told *b) {
    double worst = 0;
    for (int i = 0; i < 1024; i++) worst = fmax(worst, fabs((double)(a->logits[i] - b->logits[i])));
    return worst;
}

/* When everything that was released is computed again with each step, nothing is lost: the rebuilt rows go
 * through all layers beside the step's own, and must come out as they were. */
static void rebuilding_all_is_dense(void **state) {
    (void)state;
    static weights w;
    static told dense, t;
    char folder[100];
    random_weights(&w, 384, 16, 3);
    make_folder(folder, &w, "outer.bias");
    sac_model *m = open_folder(folder);
    static const char *const lines[] = {"adore:m=150,r=200", "adore:m=150,r=200,sigma=attention",
                                        "adore:m=150,r=200,pos=compact"};
    for (int i = 0; i < 3; i++) {
        sac_session_config c = told_config(NULL, NULL, "f32"), d = told_config(NULL, lines[i], "f32");
        tell(m, &c, &dense);
        tell(m, &d, &t);
        assert_string_equal(dense.text, t.text);
        assert_true(distance(&dense, &t) < 2e-3);
        assert_true(t.kv_bytes < dense.kv_bytes);
    }
    sac_session_config d = told_config(NULL, "adore:m=150,r=0", "f32");
    tell(m, &d, &t);
    assert_true(distance(&dense, &t) > 0.05);
    sac_model_free(m);
    remove_folder(folder);
}

static void sessions_hold_m_rows_and_repeat(void **state) {
    (void)state;
    static told t;
    sac_model *m = told_model(1);
    sac_model_info info;
    sac_model_get_info(m, &info);
    told_as_dense(NULL, "adore:m=1000,sigma=attention");
    told_as_dense(NULL, "adore:m=600,sigma=attention"); /* longer than the sequence */
    told_again(NULL, "adore:m=100,sigma=attention", &t);
    size_t row_bytes = 2 * (size_t)info.n_kv_heads * (size_t)info.head_dim * 2;
    assert_int_equal(t.kv_bytes, (size_t)info.n_layers * 100 * row_bytes);
    assert_true(t.layer.decode_read < 0.5);
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controllers_come_with_the_model),
        cmocka_unit_test(rebuilding_all_is_dense),
        cmocka_unit_test(sessions_hold_m_rows_and_repeat),
        cmocka_unit_test(a_controllers_file_says_how_positions_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
