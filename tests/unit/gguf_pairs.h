/* gguf_pairs.h - pairs of tools/make_gguf_pair.py beside the twin folders that say the same, and files of theirs that are
 * damaged. */
#ifndef SAC_TESTS_GGUF_PAIRS_H
#define SAC_TESTS_GGUF_PAIRS_H

#include "file_map.h"
#include "golden_conversation.h"

#include <math.h>

enum { N_CTX = 1024, N_STEPS = 8, MAX_PAIRS = 128, PATH_BYTES = 400 };


static const char *pairs;

static inline const char *path_of(char path[PATH_BYTES], const char *pair, const char *file) {
    snprintf(path, PATH_BYTES, "%s/%s/%s", pairs, pair, file);
    return path;
}

static inline json_t *load_json(const char *path) {
    json_t *v;
    sac_error err;
    assert_ok(sac_json_parse_file(&v, path, &err), err);
    return v;
}

/* ---- the same as the folder ---- */

typedef struct side {
    sac_model *model;
    sac_session *session;
    int32_t ids[N_CTX];
    size_t n_ids;
} side;

static inline void open_side(side *s, const char *path, const char *mmproj, const json_t *testcase) {
    sac_error err;
    sac_model_options o;
    sac_session_config config;
    sac_model_options_default(&o);
    o.chat_format = text_of(testcase, "chat_format");
    o.mmproj = mmproj;
    o.n_threads = 1;
    assert_ok(sac_model_open(&s->model, path, &o, &err), err);
    sac_session_config_default(&config);
    config.n_ctx = N_CTX;
    config.kv = "f32";
    const char *positions = text_of(testcase, "positions");
    if (positions && strcmp(positions, "grid") == 0) config.rope = "model:grid=1";
    assert_ok(sac_session_create(&s->session, s->model, &config, &err), err);
    const sac_chat_options chat = {.keep_video_marks =
                                       json_is_true(json_object_get(testcase, "keep_video_marks"))};
    assert_ok(sac_session_set_chat(s->session, &chat, &err), err);
}

static inline void close_side(side *s) {
    sac_session_free(s->session);
    sac_model_free(s->model);
}

static inline void run_prompt(side *s, const json_t *testcase) {
    static conversation c;
    sac_error err;
    const char *text = text_of(testcase, "text");
    if (text) {
        assert_ok(sac_tokenize_text(s->model, text, strlen(text), true, true, s->ids, N_CTX, &s->n_ids, &err),
                  err);
        assert_ok(sac_session_append(s->session, s->ids, s->n_ids, NULL, &err), err);
        return;
    }
    fill_conversation(&c, testcase);
    assert_ok(sac_session_prompt(s->session, c.messages, c.n_messages, s->ids, N_CTX, &s->n_ids, &err), err);
    assert_ok(sac_session_prefill(s->session, c.messages, c.n_messages, NULL, &err), err);
}

static inline int32_t best(const float *logits, int n, double *lead) {
    int32_t b = 0;
    double second = -INFINITY;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[b]) b = i;
    for (int32_t i = 0; i < n; i++)
        if (i != b && (double)logits[i] > second) second = (double)logits[i];
    *lead = (double)logits[b] - second;
    return b;
}

/* As a part of the largest logit. */
static inline double difference(const side *a, const side *b, int vocab) {
    const float *x = sac_session_logits(a->session), *y = sac_session_logits(b->session);
    double largest = 0, most = 0;
    for (int i = 0; i < vocab; i++) {
        largest = fmax(largest, fabs((double)x[i]));
        const double d = fabs((double)x[i] - (double)y[i]);
        if (!(d <= most)) most = d;
    }
    return most / largest;
}

static inline double same_answers(const char *pair, const char *name, side *gguf, side *twin, double tolerance) {
    sac_model_info info;
    double worst = 0;
    sac_model_get_info(twin->model, &info);
    for (int i = 0; i < N_STEPS; i++) {
        double lead, other;
        const double d = difference(gguf, twin, info.vocab);
        if (!(d <= tolerance))
            fail_msg("%s, %s: logits of step %d are %g of the largest apart", pair, name, i, d);
        worst = fmax(worst, d);
        const int32_t want = best(sac_session_logits(twin->session), info.vocab, &lead),
                      got = best(sac_session_logits(gguf->session), info.vocab, &other);
        if (want != got && tolerance < 0.01)
            fail_msg("%s, %s: token %d is %d, not %d", pair, name, i, got, want);
        sac_error err;
        assert_ok(sac_session_append(gguf->session, &want, 1, NULL, &err), err);
        assert_ok(sac_session_append(twin->session, &want, 1, NULL, &err), err);
    }
    return worst;
}

/* tokenless: the rows of pictures have an id that no text can have. */
static inline void same_ids(const char *pair, const char *name, const side *gguf, const side *twin, bool tokenless, int32_t image) {
    assert_int_equal(gguf->n_ids, twin->n_ids);
    for (size_t k = 0; k < gguf->n_ids; k++) {
        const int32_t got = gguf->ids[k], want = twin->ids[k];
        if (tokenless && want == image ? got >= 0 : got != want)
            fail_msg("%s, %s: token %zu is %d, not %d", pair, name, k, got, want);
    }
}

/* The language model in `file`, with the pair's vision half where it has one of its own. */
static inline void compare(const json_t *pair, const char *file, const char *mmproj) {
    const char *name = text_of(pair, "name");
    const double tolerance = json_number_value(json_object_get(pair, "tolerance"));
    const bool tokenless = json_is_true(json_object_get(pair, "tokenless"));
    const int32_t image = (int32_t)json_integer_value(json_object_get(pair, "image"));
    char path[PATH_BYTES];
    double worst = 0;
    json_t *cases = load_json(path_of(path, name, "cases.json"));
    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        static side gguf, twin;
        open_side(&gguf, file, mmproj, c);
        open_side(&twin, path_of(path, name, "twin"), NULL, c);
        run_prompt(&gguf, c);
        run_prompt(&twin, c);
        same_ids(name, text_of(c, "name"), &gguf, &twin, tokenless, image);
        const double d = same_answers(name, text_of(c, "name"), &gguf, &twin, tolerance);
        if (d > worst) worst = d;
        close_side(&gguf);
        close_side(&twin);
    }
    print_message("           %-20s %zu cases, logits at most %.2g of the largest apart\n", name,
                  json_array_size(cases), worst);
    json_decref(cases);
}

static char folder[64];

static inline int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/sac_mmproj_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static inline void put(const char *name, const void *data, size_t n_bytes) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n_bytes, f), n_bytes);
    fclose(f);
}

static inline char *get(const char *pair, const char *file, size_t *n_bytes) {
    char path[PATH_BYTES], *data;
    sac_error err;
    assert_ok(sac_file_read(&data, n_bytes, path_of(path, pair, file), (size_t)1 << 24, &err), err);
    return data;
}

static inline void copy(const char *pair, const char *file, const char *name) {
    size_t n;
    char *data = get(pair, file, &n);
    put(name, data, n);
    free(data);
}

/* Opens <folder>/model.gguf. */
static inline sac_status open_here(sac_model **m, const char *mmproj, sac_error *err) {
    char path[PATH_BYTES];
    sac_model_options o;
    sac_model_options_default(&o);
    o.mmproj = mmproj;
    o.n_threads = 1;
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    return sac_model_open(m, path, &o, err);
}

static inline void refused(const char *mmproj, const char *const *words) {
    sac_error err = {0};
    sac_model *m;
    assert_int_not_equal(open_here(&m, mmproj, &err), SAC_OK);
    if (strchr(err.text, '\n')) fail_msg("more than a line: %s", err.text);
    for (; *words; words++)
        if (!strstr(err.text, *words)) fail_msg("\"%s\" does not say %s", err.text, *words);
}
#define REFUSED(mmproj, ...) refused(mmproj, (const char *const[]){__VA_ARGS__, NULL})


typedef struct bytes {
    char *data;
    size_t n;
} bytes;

/* Behind the text where a file has it with its length in front. */
static inline char *behind(const bytes *b, const char *text) {
    const uint64_t n = strlen(text);
    for (size_t i = 0; i + 8 + n <= b->n; i++) {
        uint64_t length;
        memcpy(&length, b->data + i, 8);
        if (length == n && memcmp(b->data + i + 8, text, n) == 0) return b->data + i + 8 + n;
    }
    fail_msg("no %s in the file", text);
    return NULL;
}

/* The last letter becomes another: what was there is missing, and something unknown is. */
static inline void rename_it(const bytes *b, const char *text) {
    behind(b, text)[-1] ^= 0x20;
}
static inline void set_u32(const bytes *b, const char *key, uint32_t v) {
    memcpy(behind(b, key) + 4, &v, 4);
}
static inline void set_f32(const bytes *b, const char *key, float v) {
    memcpy(behind(b, key) + 4, &v, 4);
}
/* Item i of a list of 4 bytes each. */
static inline void set_item(const bytes *b, const char *key, int i, uint32_t v) {
    memcpy(behind(b, key) + 16 + 4 * i, &v, 4);
}
/* A tensor's i-th dimension, the innermost first; or its type (4), its place (5). */
static inline void set_dim(const bytes *b, const char *tensor, int i, uint64_t v) {
    memcpy(behind(b, tensor) + 4 + 8 * i, &v, 8);
}

/* ---- damaged halves ---- */

static int n_damaged;

/* Opens the changed half and wants a line of words, then puts the half back. */
static inline void damaged(bytes *b, const char *pair, const char *const *words) {
    char path[PATH_BYTES];
    put("half.gguf", b->data, b->n);
    snprintf(path, sizeof path, "%s/half.gguf", folder);
    refused(path, words);
    free(b->data);
    b->data = get(pair, "mmproj.gguf", &b->n);
    n_damaged++;
}
#define DAMAGED(...) damaged(&b, pair, (const char *const[]){"half.gguf", __VA_ARGS__, NULL})

static inline bytes begin(const char *pair) {
    bytes b;
    copy(pair, "model.gguf", "model.gguf");
    b.data = get(pair, "mmproj.gguf", &b.n);
    return b;
}

/* The index of the pairs, whose folder is the argument, or $SACCADE_GGUF_PAIRS; NULL: *code is what main returns. */
static inline json_t *open_pairs(int argc, char **argv, int *code) {
    pairs = argc > 1 ? argv[1] : getenv("SACCADE_GGUF_PAIRS");
    *code = pairs ? 1 : 77;
    if (!pairs) {
        fprintf(stderr, "usage: %s FOLDER (tools/make_gguf_pair.py --set FOLDER)\n", argv[0]);
        return NULL;
    }
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/index.json", pairs);
    json_t *index;
    sac_error err;
    if (sac_json_parse_file(&index, path, &err) != SAC_OK) {
        fprintf(stderr, "%s\n", err.text);
        return NULL;
    }
    if (json_array_size(index) <= MAX_PAIRS) return index;
    fprintf(stderr, "%s: %zu pairs, from %s on more than the %d of MAX_PAIRS in gguf_pairs.h\n", path,
            json_array_size(index), text_of(json_array_get(index, MAX_PAIRS), "name"), MAX_PAIRS);
    json_decref(index);
    return NULL;
}

#endif
