/* GGUF language models with a vision half in a file of its own, through the public API: pairs of tools/make_gguf_pair.py
 * against the twin folders that say the same, and pairs that are none. Their folder is the argument, or
 * $SACCADE_GGUF_PAIRS. */
#define _DEFAULT_SOURCE
#include "file_map.h"
#include "golden_conversation.h"
#include "quantize.h"

#include <math.h>

enum { N_CTX = 1024, N_STEPS = 8, MAX_PAIRS = 64, PATH_BYTES = 400 };

static const char *pairs;

static const char *path_of(char path[PATH_BYTES], const char *pair, const char *file) {
    snprintf(path, PATH_BYTES, "%s/%s/%s", pairs, pair, file);
    return path;
}

static json_t *load_json(const char *path) {
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

static void open_side(side *s, const char *path, const char *mmproj, const json_t *testcase) {
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

static void close_side(side *s) {
    sac_session_free(s->session);
    sac_model_free(s->model);
}

static void run_prompt(side *s, const json_t *testcase) {
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

static int32_t best(const float *logits, int n, double *lead) {
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
static double difference(const side *a, const side *b, int vocab) {
    const float *x = sac_session_logits(a->session), *y = sac_session_logits(b->session);
    double largest = 0, most = 0;
    for (int i = 0; i < vocab; i++) {
        largest = fmax(largest, fabs((double)x[i]));
        const double d = fabs((double)x[i] - (double)y[i]);
        if (!(d <= most)) most = d;
    }
    return most / largest;
}

static double same_answers(const char *pair, const char *name, side *gguf, side *twin, double tolerance) {
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
static void same_ids(const char *pair, const char *name, const side *gguf, const side *twin, bool tokenless, int32_t image) {
    assert_int_equal(gguf->n_ids, twin->n_ids);
    for (size_t k = 0; k < gguf->n_ids; k++) {
        const int32_t got = gguf->ids[k], want = twin->ids[k];
        if (tokenless && want == image ? got >= 0 : got != want)
            fail_msg("%s, %s: token %zu is %d, not %d", pair, name, k, got, want);
    }
}

/* The language model in `file`, with the pair's vision half where it has one of its own. */
static void compare(const json_t *pair, const char *file, const char *mmproj) {
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

static void same_as_twin(void **state) {
    char path[PATH_BYTES];
    compare(*state, path_of(path, text_of(*state, "name"), "model.gguf"), NULL);
}

/* ---- which file it is ---- */

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/sac_mmproj_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void put(const char *name, const void *data, size_t n_bytes) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n_bytes, f), n_bytes);
    fclose(f);
}

static char *get(const char *pair, const char *file, size_t *n_bytes) {
    char path[PATH_BYTES], *data;
    sac_error err;
    assert_ok(sac_file_read(&data, n_bytes, path_of(path, pair, file), (size_t)1 << 24, &err), err);
    return data;
}

static void copy(const char *pair, const char *file, const char *name) {
    size_t n;
    char *data = get(pair, file, &n);
    put(name, data, n);
    free(data);
}

/* Opens <folder>/model.gguf. */
static sac_status open_here(sac_model **m, const char *mmproj, sac_error *err) {
    char path[PATH_BYTES];
    sac_model_options o;
    sac_model_options_default(&o);
    o.mmproj = mmproj;
    o.n_threads = 1;
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    return sac_model_open(m, path, &o, err);
}

static void refused(const char *mmproj, const char *const *words) {
    sac_error err = {0};
    sac_model *m;
    assert_int_not_equal(open_here(&m, mmproj, &err), SAC_OK);
    if (strchr(err.text, '\n')) fail_msg("more than a line: %s", err.text);
    for (; *words; words++)
        if (!strstr(err.text, *words)) fail_msg("\"%s\" does not say %s", err.text, *words);
}
#define REFUSED(mmproj, ...) refused(mmproj, (const char *const[]){__VA_ARGS__, NULL})

static void opens(const char *mmproj, bool has_vision, const char *file) {
    sac_error err;
    sac_model *m;
    sac_model_info info;
    assert_ok(open_here(&m, mmproj, &err), err);
    sac_model_get_info(m, &info);
    assert_int_equal(info.has_vision, has_vision);
    assert_int_equal(info.mmproj != NULL, has_vision);
    if (has_vision && !strstr(info.mmproj, file)) fail_msg("%s, not %s", info.mmproj, file);
    sac_model_free(m);
}

static void is_found_beside(void **state) {
    (void)state;
    char path[PATH_BYTES];
    copy("llava", "model.gguf", "model.gguf");
    opens(NULL, false, NULL);
    opens(path_of(path, "llava", "mmproj.gguf"), true, "llava/mmproj.gguf");
    copy("llava", "mmproj.gguf", "mmproj-tiny-f32.gguf");
    copy("llava", "mmproj.gguf", "other-mmproj.gguf");
    opens(NULL, true, "/mmproj-tiny-f32.gguf");
    opens("none", false, NULL);
    copy("llava", "mmproj.gguf", "mmproj-b.gguf");
    REFUSED(NULL, "2 vision halves", "mmproj-b.gguf, mmproj-tiny-f32.gguf", "--mmproj FILE", "--mmproj none");
    opens("none", false, NULL);
    snprintf(path, sizeof path, "%s/mmproj-b.gguf", folder);
    opens(path, true, "/mmproj-b.gguf");
    REFUSED("/nonexistent.gguf", "--mmproj /nonexistent.gguf: no such file");
}

static void of_other_models(void **state) {
    (void)state;
    char path[PATH_BYTES];
    sac_error err;
    sac_model *m;
    sac_model_options o;
    copy("llava", "model.gguf", "model.gguf");
    REFUSED(path_of(path, "qwen2_5_vl", "mmproj.gguf"), "qwen2_5_vl/mmproj.gguf", "stands on qwen2vl",
            "is llama");
    REFUSED(path_of(path, "llava", "model.gguf"), "not a vision half");
    copy("qwen2_5_vl", "mmproj.gguf", "mmproj.gguf");
    REFUSED(NULL, "mmproj.gguf (found beside the model; --mmproj none goes without it)", "stands on qwen2vl");
    copy("llava_wide", "model.gguf", "model.gguf");
    REFUSED(path_of(path, "internvl", "mmproj.gguf"), "no token <IMG_CONTEXT>");
    sac_model_options_default(&o);
    o.mmproj = path_of(path, "llava", "mmproj.gguf");
    assert_int_equal(sac_model_open(&m, FOLDER "/llava", &o, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "is a folder"));
    assert_int_equal(sac_model_open(&m, path, NULL, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "--mmproj"));
}

static sac_session *read_three(sac_model *m) {
    sac_error err;
    sac_session *s;
    sac_session_config config;
    const int32_t ids[] = {40, 41, 42};
    sac_session_config_default(&config);
    config.n_ctx = 64;
    assert_ok(sac_session_create(&s, m, &config, &err), err);
    assert_ok(sac_session_append(s, ids, SAC_COUNT(ids), NULL, &err), err);
    return s;
}

/* Text is what it is with the vision half; a picture for a language model alone is refused. */
static void text_alone(void **state) {
    (void)state;
    static const sac_part picture = {.kind = SAC_PART_IMAGE, .path = FOLDER "/wide.png"};
    const sac_message message = {.role = "user", .parts = &picture, .n_parts = 1};
    static const char *const halves[] = {"llava", "qwen2_5_vl", "qwen3_vl", "internvl", "smolvlm"};
    for (size_t i = 0; i < SAC_COUNT(halves); i++) {
        sac_error err;
        sac_model *alone, *whole;
        sac_model_info info;
        char path[PATH_BYTES];
        copy(halves[i], "model.gguf", "model.gguf");
        assert_ok(open_here(&alone, "none", &err), err);
        assert_ok(open_here(&whole, path_of(path, halves[i], "mmproj.gguf"), &err), err);
        sac_model_get_info(alone, &info);
        sac_session *a = read_three(alone), *b = read_three(whole);
        assert_memory_equal(sac_session_logits(a), sac_session_logits(b), (size_t)info.vocab * sizeof(float));
        sac_session_reset(a);
        assert_int_not_equal(sac_session_prefill(a, &message, 1, NULL, &err), SAC_OK);
        sac_session_free(a);
        sac_session_free(b);
        sac_model_free(alone);
        sac_model_free(whole);
    }
}

/* Twins of f16 numbers to GGUF of f16, which loses nothing, and beside the vision half of the pair. */
static void written_again(void **state) {
    static const char *const written[] = {"llava_f16",   "gemma3_pan", "gemma3_text", "gemma2_bare", "gemma2_f16",
                                          "granite_f16", "olmo2_f16",  "smollm3_f16", "qwen3_vl_tied"};
    json_t *index = *state;
    char twin[PATH_BYTES], path[PATH_BYTES], mmproj[PATH_BYTES];
    const sac_quantize_options options = {.format = "f16", .n_threads = 1};
    size_t n = 0, i;
    json_t *pair;
    json_array_foreach(index, i, pair) {
        const char *name = text_of(pair, "name");
        sac_error err;
        bool is_chosen = false;
        for (size_t k = 0; k < SAC_COUNT(written); k++) is_chosen |= strcmp(name, written[k]) == 0;
        if (!is_chosen) continue;
        snprintf(path, sizeof path, "%s/%s.gguf", folder, name);
        assert_ok(sac_quantize(path_of(twin, name, "twin"), path, &options, &err), err);
        const bool has_half = sac_file_exists(path_of(mmproj, name, "mmproj.gguf"));
        compare(pair, path, has_half ? mmproj : NULL);
        n++;
    }
    assert_int_equal(n, SAC_COUNT(written));
}

/* ---- damage ---- */

typedef struct bytes {
    char *data;
    size_t n;
} bytes;

/* Behind the text where a file has it with its length in front. */
static char *behind(const bytes *b, const char *text) {
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
static void rename_it(const bytes *b, const char *text) {
    behind(b, text)[-1] ^= 0x20;
}
static void set_u32(const bytes *b, const char *key, uint32_t v) {
    memcpy(behind(b, key) + 4, &v, 4);
}
static void set_f32(const bytes *b, const char *key, float v) {
    memcpy(behind(b, key) + 4, &v, 4);
}
/* Item i of a list of 4 bytes each. */
static void set_item(const bytes *b, const char *key, int i, uint32_t v) {
    memcpy(behind(b, key) + 16 + 4 * i, &v, 4);
}
/* A tensor's i-th dimension, the innermost first; or its type (4), its place (5). */
static void set_dim(const bytes *b, const char *tensor, int i, uint64_t v) {
    memcpy(behind(b, tensor) + 4 + 8 * i, &v, 8);
}

/* Opens the changed half and wants a line of words, then puts the half back. */
static int n_damaged;
static void damaged(bytes *b, const char *pair, const char *const *words) {
    char path[PATH_BYTES];
    put("half.gguf", b->data, b->n);
    snprintf(path, sizeof path, "%s/half.gguf", folder);
    refused(path, words);
    free(b->data);
    b->data = get(pair, "mmproj.gguf", &b->n);
    n_damaged++;
}
#define DAMAGED(...) damaged(&b, pair, (const char *const[]){"half.gguf", __VA_ARGS__, NULL})

static bytes begin(const char *pair) {
    bytes b;
    copy(pair, "model.gguf", "model.gguf");
    b.data = get(pair, "mmproj.gguf", &b.n);
    return b;
}

static void damaged_keys(void **state) {
    (void)state;
    static const char pair[] = "llava";
    static const char *const needed[] = {
        "clip.vision.embedding_length", "clip.vision.attention.head_count",
        "clip.vision.block_count",      "clip.vision.patch_size",
        "clip.vision.image_size",       "clip.vision.attention.layer_norm_epsilon",
        "clip.vision.image_mean",       "clip.vision.image_std",
        "clip.projector_type"};
    static const uint32_t sizes[] = {0, 1u << 31, 0xffffffffu, 1u << 30};
    bytes b = begin(pair);
    for (size_t i = 0; i < SAC_COUNT(needed); i++) {
        rename_it(&b, needed[i]);
        DAMAGED(needed[i], "is missing");
    }
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < SAC_COUNT(sizes); k++) {
            set_u32(&b, needed[i], sizes[k]);
            DAMAGED("");
        }
    set_u32(&b, "clip.vision.block_count", 3);
    DAMAGED("v.blk.2.", "is missing");
    set_u32(&b, "clip.vision.patch_size", 5);
    DAMAGED("v.patch_embd.weight has shape");
    set_u32(&b, "clip.vision.attention.head_count", 5);
    DAMAGED("multiple of 5 heads");
    set_u32(&b, "clip.vision.feed_forward_length", 36);
    DAMAGED("v.blk.0.ffn_up.weight has shape");
    set_f32(&b, "clip.vision.attention.layer_norm_epsilon", NAN);
    DAMAGED("clip.vision.attention.layer_norm_epsilon");
    set_f32(&b, "clip.vision.attention.layer_norm_epsilon", -1);
    DAMAGED("clip.vision.attention.layer_norm_epsilon is -1");
    set_item(&b, "clip.vision.image_std", 1, 0);
    DAMAGED("\"image_std\"");
    behind(&b, "clip.has_vision_encoder")[4] = 0;
    DAMAGED("\"clip.has_vision_encoder\" is false");
    memcpy(behind(&b, "clip.projector_type") + 12, "ldp", 3);
    DAMAGED("projector \"ldp\" is not supported", "mlp", "qwen2.5vl_merger");
    memcpy(behind(&b, "general.architecture") + 12, "clop", 4);
    DAMAGED("general.architecture is clop");
    free(b.data);
}

static void damaged_tensors(void **state) {
    (void)state;
    static const char pair[] = "llava";
    static const char *const names[] = {
        "v.class_embd",       "v.patch_embd.weight", "v.position_embd.weight",  "v.pre_ln.bias",
        "v.blk.1.ln2.weight", "v.blk.0.attn_k.bias", "v.blk.1.attn_out.weight", "v.blk.1.ffn_down.bias",
        "mm.0.bias",          "mm.2.weight"};
    bytes b = begin(pair);
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        rename_it(&b, names[i]);
        DAMAGED(names[i], "is missing");
    }
    for (size_t i = 0; i < SAC_COUNT(names);
         i++) { /* dimensions that are never read before they are checked */
        set_dim(&b, names[i], 0, UINT64_MAX);
        DAMAGED(names[i]);
        set_dim(&b, names[i], 0, 0);
        DAMAGED(names[i]);
    }
    for (size_t k = 1; k <= 16; k++) { /* cut anywhere */
        b.n = b.n * k / 17;
        DAMAGED("");
    }
    set_dim(&b, "mm.2.weight", 1, 31);
    DAMAGED("mm.2.weight makes rows of 31 numbers", "not halves of one model");
    memcpy(behind(&b, "v.blk.0.attn_q.weight") - 6, "x", 1); /* attn_q becomes another */
    DAMAGED("attn_q.weight is missing");
    free(b.data);
}

/* Parts that are put together before they are bound. */
static void damaged_parts(void **state) {
    (void)state;
    static const char pair[] = "qwen2_5_vl";
    bytes b = begin(pair);
    rename_it(&b, "v.patch_embd.weight.1");
    b.data[behind(&b, "v.patch_embd.weight.\x11") - b.data - 1] = '2';
    DAMAGED("v.patch_embd.weight.1 is missing");
    set_dim(&b, "v.patch_embd.weight.1", 0, 3);
    DAMAGED("two convolutions");
    set_dim(&b, "v.patch_embd.weight", 3, 23);
    DAMAGED("v.patch_embd.weight");
    set_dim(&b, "v.blk.1.attn_k.weight", 1, 12);
    DAMAGED("attn_qkv.weight has shape [60, 24]");
    set_dim(&b, "v.blk.1.attn_k.weight", 0, 12);
    DAMAGED("v.blk.1.attn_k.weight are not alike");
    rename_it(&b, "v.blk.2.attn_v.bias");
    DAMAGED("v.blk.2.attn_qkv.bias is missing");
    set_u32(&b, "clip.vision.window_size", 0);
    DAMAGED("\"window_size\"");
    rename_it(&b, "clip.vision.n_wa_pattern");
    DAMAGED("clip.vision.n_wa_pattern is missing");
    set_u32(&b, "clip.vision.n_wa_pattern", 1u << 20);
    DAMAGED("clip.vision.n_wa_pattern");
    set_u32(&b, "clip.vision.spatial_merge_size", 300);
    DAMAGED("\"spatial_merge_size\"");
    set_u32(&b, "clip.vision.image_max_pixels", 5);
    DAMAGED("\"max_pixels\" 5 is below \"min_pixels\"");
    set_u32(&b, "clip.vision.projection_dim", 64);
    DAMAGED("\"out_hidden_size\" 64 is not the language model's 32");
    free(b.data);
}

static void damaged_depths(void **state) {
    (void)state;
    static const char pair[] = "qwen3_vl";
    bytes b = begin(pair);
    behind(&b, "clip.vision.is_deepstack_layers")[16] = 0; /* one layer of two */
    DAMAGED("features of 1 layers", "takes those of 2");
    behind(&b, "clip.vision.is_deepstack_layers")[17] = 1; /* three */
    DAMAGED("features of 3 layers");
    behind(&b, "clip.vision.is_deepstack_layers")[16] = 0; /* another layer: the tensors are of layer 0 */
    behind(&b, "clip.vision.is_deepstack_layers")[17] = 1;
    DAMAGED("v.deepstack.1.norm.weight is missing");
    rename_it(&b, "v.deepstack.2.fc1.weight");
    DAMAGED("v.deepstack.2.fc1.weight is missing");
    set_dim(&b, "v.position_embd.weight", 1, 24);
    DAMAGED("\"num_position_embeddings\" 24 is not the square");
    set_dim(&b, "v.blk.0.attn_qkv.weight", 1, 71);
    DAMAGED("v.blk.0.attn_qkv.weight has shape");
    free(b.data);
    print_message("           %d damaged halves, one line each\n", n_damaged);
    assert_true(n_damaged >= 30);
}

/* ---- damaged language models ---- */

static void damaged_language(bytes *b, const char *pair, const char *const *words) {
    put("model.gguf", b->data, b->n);
    refused("none", words);
    free(b->data);
    b->data = get(pair, "model.gguf", &b->n);
    n_damaged++;
}
#define DAMAGED_LANGUAGE(...) damaged_language(&b, pair, (const char *const[]){"model.gguf", __VA_ARGS__, NULL})

static const char *key_of(char key[100], const char *arch, const char *name) {
    snprintf(key, 100, "%s.%s", arch, name);
    return key;
}

/* What every architecture needs, and of which every size is looked at. */
static void damage_common(const char *pair, const char *arch, const char *first_norm) {
    static const char *const needed[] = {"block_count", "embedding_length", "feed_forward_length", "attention.head_count"};
    static const uint32_t sizes[] = {0, 1u << 31, 0xffffffffu, 1u << 30};
    const char *const tensors[] = {"token_embd.weight", "blk.0.attn_q.weight", "blk.1.attn_k.weight", "output_norm.weight",
                                   first_norm};
    char key[100];
    bytes b;
    b.data = get(pair, "model.gguf", &b.n);
    n_damaged = 0;
    for (size_t i = 0; i < SAC_COUNT(needed); i++) {
        rename_it(&b, key_of(key, arch, needed[i]));
        DAMAGED_LANGUAGE(key, "is missing");
        for (size_t k = 0; k < SAC_COUNT(sizes); k++) {
            set_u32(&b, key, sizes[k]);
            DAMAGED_LANGUAGE("");
        }
    }
    for (size_t i = 0; i < SAC_COUNT(tensors); i++) {
        rename_it(&b, tensors[i]);
        DAMAGED_LANGUAGE(tensors[i], "is missing");
        set_dim(&b, tensors[i], 0, UINT64_MAX);
        DAMAGED_LANGUAGE(tensors[i]);
        set_dim(&b, tensors[i], 0, 0);
        DAMAGED_LANGUAGE(tensors[i]);
    }
    for (size_t k = 1; k <= 8; k++) {
        b.n = b.n * k / 9;
        DAMAGED_LANGUAGE("");
    }
    set_u32(&b, key_of(key, arch, "block_count"), 99);
    DAMAGED_LANGUAGE("is missing");
    set_u32(&b, key_of(key, arch, "attention.key_length"), 6);
    DAMAGED_LANGUAGE("");
    set_u32(&b, key_of(key, arch, "rope.dimension_count"), 3);
    DAMAGED_LANGUAGE("an even number is needed");
    set_f32(&b, key_of(key, arch, "rope.freq_base"), NAN);
    DAMAGED_LANGUAGE("rope.freq_base");
    set_f32(&b, key_of(key, arch, "attention.layer_norm_rms_epsilon"), -1);
    DAMAGED_LANGUAGE("norm epsilon");
    free(b.data);
    print_message("           %s: %d damaged language models, one line each\n", arch, n_damaged);
    assert_true(n_damaged >= 30);
}

/* A number that has to be above 0. */
static void damage_number(const char *pair, const char *arch, const char *name) {
    const float bad[] = {NAN, INFINITY, -1};
    char key[100];
    bytes b;
    b.data = get(pair, "model.gguf", &b.n);
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        set_f32(&b, key_of(key, arch, name), bad[i]);
        DAMAGED_LANGUAGE(name);
    }
    memcpy(behind(&b, key), (uint32_t[]){4}, 4); /* an integer of u32 that many ones make */
    memcpy(behind(&b, key) + 4, (uint32_t[]){0}, 4);
    if (strstr(name, "softcapping")) { /* 0: no cap, which is a model too */
        free(b.data);
        return;
    }
    DAMAGED_LANGUAGE(name);
    free(b.data);
}

static void damaged_languages(void **state) {
    (void)state;
    damage_common("gemma3", "gemma3", "blk.0.attn_norm.weight");
    damage_common("gemma2", "gemma2", "blk.0.post_ffw_norm.weight");
    damage_common("granite", "granite", "blk.0.ffn_norm.weight");
    damage_common("olmo2", "olmo2", "blk.0.post_attention_norm.weight");
    damage_common("smollm3", "smollm3", "blk.0.attn_norm.weight");
    damage_number("gemma3", "gemma3", "attention.scale");
    damage_number("gemma3", "gemma3", "rope.freq_base_swa");
    damage_number("gemma2", "gemma2", "attn_logit_softcapping");
    damage_number("gemma2", "gemma2", "final_logit_softcapping");
    damage_number("granite", "granite", "logit_scale");
    damage_number("granite", "granite", "residual_scale");
    damage_number("granite", "granite", "embedding_scale");
    const char *pair = "gemma3_pan";
    bytes b;
    b.data = get(pair, "model.gguf", &b.n);
    b.data[behind(&b, "gemma3.block_count") - b.data + 4] = 2;
    DAMAGED_LANGUAGE("lists 3 layers of 2");
    rename_it(&b, "general.architecture");
    DAMAGED_LANGUAGE("general.architecture is missing");
    memcpy(behind(&b, "general.architecture") + 12, "llama4", 6);
    DAMAGED_LANGUAGE("\"llama4\" is not supported, the nearest that is: llama; these are: llama, qwen2");
    free(b.data);
}

int main(int argc, char **argv) {
    pairs = argc > 1 ? argv[1] : getenv("SACCADE_GGUF_PAIRS");
    if (!pairs) {
        fprintf(stderr, "usage: test_mmproj FOLDER (tools/make_gguf_pair.py --set FOLDER)\n");
        return 77;
    }
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/index.json", pairs);
    json_t *index;
    sac_error err;
    if (sac_json_parse_file(&index, path, &err) != SAC_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    static struct CMUnitTest tests[MAX_PAIRS];
    size_t n = 0;
    for (; n < json_array_size(index) && n < MAX_PAIRS; n++) {
        json_t *pair = json_array_get(index, n);
        tests[n] = (struct CMUnitTest){
            .name = text_of(pair, "name"), .test_func = same_as_twin, .initial_state = pair};
    }
    const struct CMUnitTest others[] = {
        cmocka_unit_test_setup_teardown(is_found_beside, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(of_other_models, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(text_alone, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_keys, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_tensors, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_parts, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_depths, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_languages, make_folder, remove_folder),
        {"written_again", written_again, make_folder, remove_folder, index},
    };
    int failed = _cmocka_run_group_tests("pairs", tests, n, NULL, NULL);
    failed += cmocka_run_group_tests_name("files", others, NULL, NULL);
    json_decref(index);
    return failed;
}
