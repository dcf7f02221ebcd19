/* Real vocabularies: llama.cpp's vectors and a round trip, where the assets are.
 *
 *   test_tokenizer_vectors --time tokenizer.json    prints what loading and tokenising take */
#include "clock.h"
#include "file_map.h"
#include "gguf.h"
#include "json.h"
#include "json_stream.h"
#include "tokenizer_data.h"

static sac_tokenizer *open_gguf(const char *path) {
    sac_file_map map;
    sac_gguf g = {0};
    sac_checkpoint c = {0};
    sac_vocab_source src = {
        .bos_id = -1, .eos_id = -1, .unk_id = -1, .add_bos = -1, .add_eos = -1, .add_space_prefix = -1};
    sac_text_span *tokens, *merges, model = {0}, pre = {0};
    float *scores;
    int32_t *types;
    size_t header_bytes, n;
    sac_error err = {0};
    char model_name[32] = {0}, pre_name[32] = {0};
    assert_ok(sac_file_map_open(&map, path, &err), err);
    assert_ok(sac_gguf_parse(&g, &c, 0, map.data, map.n_bytes, &header_bytes, &err), err);
    assert_ok(sac_gguf_get_strings(&g, "tokenizer.ggml.tokens", &tokens, &src.n_tokens, &err), err);
    assert_ok(sac_gguf_get_strings(&g, "tokenizer.ggml.merges", &merges, &src.n_merges, &err), err);
    assert_ok(sac_gguf_get_floats(&g, "tokenizer.ggml.scores", &scores, &n, &err), err);
    assert_ok(sac_gguf_get_ints(&g, "tokenizer.ggml.token_type", &types, &n, &err), err);
    assert_ok(sac_gguf_get_string(&g, "tokenizer.ggml.model", &model, &err), err);
    assert_ok(sac_gguf_get_string(&g, "tokenizer.ggml.pre", &pre, &err), err);
    assert_ok(sac_gguf_get_int(&g, "tokenizer.ggml.bos_token_id", 0, INT32_MAX, &src.bos_id, &err), err);
    assert_ok(sac_gguf_get_int(&g, "tokenizer.ggml.eos_token_id", 0, INT32_MAX, &src.eos_id, &err), err);
    assert_ok(sac_gguf_get_int(&g, "tokenizer.ggml.unknown_token_id", 0, INT32_MAX, &src.unk_id, &err), err);
    assert_true(model.n_bytes < sizeof model_name && pre.n_bytes < sizeof pre_name);
    if (model.text) memcpy(model_name, model.text, model.n_bytes);
    if (pre.text) memcpy(pre_name, pre.text, pre.n_bytes);
    src.model = model_name;
    src.pre = pre.text ? pre_name : NULL;
    src.tokens = tokens;
    src.merges = merges;
    src.scores = scores;
    src.types = types;
    sac_tokenizer *t;
    assert_ok(sac_tokenizer_open_vocab(&t, &src, &err), err);
    free(tokens);
    free(merges);
    free(scores);
    free(types);
    sac_gguf_free(&g);
    sac_checkpoint_free(&c);
    sac_file_unmap(&map);
    return t;
}

static char *read_asset(const char *folder, const char *name, const char *end) {
    char path[400], *text;
    size_t n_bytes;
    sac_error err = {0};
    snprintf(path, sizeof path, "%s/vectors/ggml-vocab-%s.gguf%s", folder, name, end);
    assert_ok(sac_file_read(&text, &n_bytes, path, 1 << 20, &err), err);
    return text;
}

static int compare_vectors(const sac_tokenizer *t, const char *folder, const char *name, int *n_all) {
    static const char line[] = "\n__ggml_vocab_test__\n";
    char *inputs = read_asset(folder, name, ".inp"), *outputs = read_asset(folder, name, ".out"),
         *out = outputs;
    int good = 0;
    *n_all = 0;
    for (char *text = inputs, *next; text; text = next, ++*n_all) {
        char *end = strstr(text, line);
        next = end ? end + strlen(line) : NULL;
        int32_t ids[MAX_IDS];
        size_t n = ids_of(t, text, end ? (size_t)(end - text) : strlen(text), false, false, ids), k = 0;
        bool same = true;
        char *eol = strchr(out, '\n');
        if (eol) *eol = 0;
        for (char *after;; k++, out = after) {
            long id = strtol(out, &after, 10);
            if (after == out) break;
            same = same && k < n && ids[k] == id;
        }
        if (same && k == n)
            good++;
        else
            print_message("%s: case %d differs\n", name, *n_all);
        out = eol ? eol + 1 : out + strlen(out);
    }
    free(inputs);
    free(outputs);
    return good;
}

static void test_vectors(void **state) {
    (void)state;
    static const struct {
        const char *name, *file;
    } all[] = {{"qwen2", "tokenizers/qwen2_5/tokenizer.json"},
               {"llama-bpe", "tokenizers/llama3/tokenizer.json"},
               {"llama-spm", "vectors/ggml-vocab-llama-spm.gguf"},
               {"gpt-2", "vectors/ggml-vocab-gpt-2.gguf"}};
    const char *folder = test_assets();
    if (!folder) {
        print_message("no assets: set SACCADE_ASSETS for llama.cpp's vectors\n");
        skip();
    }
    char *text = mixed_text(1 << 20);
    for (size_t i = 0; i < SAC_COUNT(all); i++) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, all[i].file);
        sac_tokenizer *t;
        sac_error err = {0};
        int64_t start = sac_now_ns();
        if (strstr(path, ".gguf"))
            t = open_gguf(path);
        else
            assert_ok(sac_tokenizer_open_file(&t, path, SAC_TOKENIZER_BY_FILE, &err), err);
        double seconds = sac_seconds_since(start);
        int n_all, good = compare_vectors(t, folder, all[i].name, &n_all);
        print_message("%s: %d of %d vectors, loaded in %.0f ms\n", all[i].name, good, n_all, seconds * 1e3);
        assert_int_equal(good, n_all);
        assert_int_equal(n_all, 47);
        round_trip(t, all[i].name, text);
        sac_tokenizer_free(t);
    }
    free(text);
}

/* ---- timing by hand ---- */

static int time_file(const char *path) {
    sac_error err = {0};
    double best = 1e9, skim = 1e9;
    for (int i = 0; i < 10; i++) {
        sac_tokenizer *t;
        sac_file_map map;
        int64_t start = sac_now_ns();
        if (sac_tokenizer_open_file(&t, path, SAC_TOKENIZER_BY_FILE, &err) != SAC_OK) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        double s = sac_seconds_since(start);
        if (s < best) best = s;
        sac_tokenizer_free(t);
        sac_json_stream stream_;
        start = sac_now_ns();
        if (sac_file_map_open(&map, path, &err) != SAC_OK) return 1;
        sac_json_stream_open(&stream_, (const char *)map.data, map.n_bytes);
        sac_json_stream_skip(&stream_, NULL, NULL, &err);
        sac_json_stream_close(&stream_);
        sac_file_unmap(&map);
        s = sac_seconds_since(start);
        if (s < skim) skim = s;
    }
    json_t *tree;
    int64_t start = sac_now_ns();
    if (sac_json_parse_file(&tree, path, &err) == SAC_OK) json_decref(tree);
    printf("load %.1f ms (reading over the JSON alone %.1f ms; jansson's tree %.0f ms)\n", best * 1e3,
           skim * 1e3, sac_seconds_since(start) * 1e3);
    static const char english[] =
        "The quick brown fox doesn't jump over the lazy dog; it reads a book about 12 blue "
        "squares and 345 green triangles instead, and then it goes home.\n";
    size_t n_bytes = 0, n;
    char *text = malloc(4 << 20);
    int32_t *ids = malloc(sizeof(int32_t) << 22);
    sac_tokenizer *t;
    if (!text || !ids || sac_tokenizer_open_file(&t, path, SAC_TOKENIZER_BY_FILE, &err) != SAC_OK) return 1;
    while (n_bytes + sizeof english < 4 << 20) {
        memcpy(text + n_bytes, english, sizeof english - 1);
        n_bytes += sizeof english - 1;
    }
    for (int kind = 0; kind < 3; kind++) {
        if (kind == 1) memset(text, 'a', n_bytes = 1 << 20);
        if (kind == 2) {
            free(text);
            text = mixed_text(1 << 20);
            n_bytes = strlen(text);
        }
        sac_text_segment s = {.text = text, .n_bytes = n_bytes};
        start = sac_now_ns();
        if (sac_tokenize(t, &s, 1, false, ids, (size_t)1 << 22, &n, &err) != SAC_OK) return 1;
        static const char *const what[] = {"plain English", "a megabyte of 'a'", "mixed scripts"};
        double seconds = sac_seconds_since(start);
        printf("%s: %.1f MB/s (%zu ids)\n", what[kind], (double)n_bytes / seconds / 1e6, n);
    }
    sac_tokenizer_free(t);
    free(text);
    free(ids);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--time") == 0) return time_file(argv[2]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
