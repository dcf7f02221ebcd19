#define _GNU_SOURCE
/* Folders of EAGLE-3 heads: what their files say, and what is refused. */
#include "eagle_test.h"

static const broken cases[] = {
    {.drops = "fc.weight", .says = "no tensor fc.weight"},
    {.drops = "lm_head.weight", .says = "no tensor lm_head.weight"},
    {.drops = "midlayer.self_attn.k_proj.weight", .says = "no tensor midlayer.self_attn.k_proj.weight"},
    {.drops = "midlayer.input_layernorm.weight", .says = "no tensor midlayer.input_layernorm.weight"},
    {.drops = "norm.weight", .says = "no tensor norm.weight"},
    {.drops = "d2t", .says = "no tensor d2t, and the head drafts 4 of the model's 288"},
    {.shapes = "fc.weight", .says = "tensor fc.weight has shape"},
    {.shapes = "midlayer.mlp.down_proj.weight", .says = "tensor midlayer.mlp.down_proj.weight has shape"},
    {.shapes = "norm.weight", .says = "tensor norm.weight has shape"},
    {.shapes = "d2t", .says = "tensor d2t has shape"},
    {.shapes = "t2d", .says = "tensor t2d has shape"},
    {.adds = "midlayer.self_attn.q_norm.weight", .says = "which a head of this config.json has not"},
    {.adds = "layers.1.mlp.up_proj.weight", .says = "tensor layers.1.mlp.up_proj.weight is no part"},
    {.d2t = 286, .says = "tensor d2t: element 2 is 286"},
    {.d2t = -3, .says = "tensor d2t: element 2 is -3"},
    {.d2t = INT64_MIN, .says = "tensor d2t: element 2"},
    {.d2t = INT64_MAX, .says = "tensor d2t: element 2"},
    {.config = "\"vocab_size\": 300", .says = "\"vocab_size\" is 300, and the model has 288"},
    {.config = "\"draft_vocab_size\": 289", .says = "draft_vocab_size"},
    {.config = "\"draft_vocab_size\": 5",
     .says = "tensor t2d has shape|tensor d2t has shape|lm_head.weight has shape"},
    {.config = "\"target_hidden_size\": 32",
     .says = "rows of 32 channels, and the model's hidden size is 16"},
    {.config = "\"hidden_size\": 8", .says = "rows of 8 channels"},
    {.config = "\"num_hidden_layers\": 2", .says = "\"num_hidden_layers\" is 2"},
    {.config = "\"eagle_aux_hidden_state_layer_ids\": [1, 2, 7]", .says = "by the model's 7 layers"},
    {.config = "\"eagle_aux_hidden_state_layer_ids\": [9223372036854775807, 1, 2]", .says = "by the model's 7 layers"},
    {.config = "\"eagle_config\": {\"eagle_aux_hidden_state_layer_ids\": [9223372036854775807, 1, 2]}",
     .says = "must list numbers of -1 to 5"},
    {.config = "\"eagle_config\": {\"eagle_aux_hidden_state_layer_ids\": [-9223372036854775808, 1, 2]}",
     .says = "must list numbers of -1 to 5"},
    {.config = "\"hidden_size\": 131073, \"target_hidden_size\": 16", .says = "\"hidden_size\" is 131073, at most 131072"},
    {.config = "\"target_hidden_size\": 87382", .says = "3 rows of 87382 channels, at most 87381"},
    {.config = "\"eagle_aux_hidden_state_layer_ids\": [1, 2]", .says = "lists 2 layers"},
    {.config = "\"eagle_config\": {\"eagle_aux_hidden_state_layer_ids\": [1, 2, 6]}",
     .says = "must list numbers of -1 to 5"},
    {.config = "\"eagle_config\": {\"use_aux_hidden_state\": false}",
     .says = "\"use_aux_hidden_state\" is false"},
    {.config = "\"architectures\": [\"LlamaForCausalLM\"]", .says = "no EAGLE-3 head"},
    {.config = "\"model_type\": \"gemma\"", .says = "\"model_type\" is \"gemma\""},
    {.config = "\"speculators_model_type\": \"dflash\"", .says = "only eagle3 is supported"},
    {.config = "\"speculators_model_type\": \"eagle3\"", .says = "\"transformer_layer_config\" is missing"},
    {.config = "\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}",
     .says = "depends on the length"},
    {.config = "\"norm_before_fc\": true", .says = "no tensor input_norm.weight"},
    {.config = "\"fc_norm\": true", .says = "no tensor fc_norm.0.weight"},
    {.config = "\"quantization_config\": {}", .says = "\"quantization_config\""},
};

/* Which layers a head reads: what is usual, as vLLM writes it, as SGLang does. */
static void layers_are_those_of_the_file(void **state) {
    (void)state;
    static const struct {
        const char *key;
        int at[SAC_LAYER_ROWS];
    } files[] = {{"\"bos_token_id\": 1", {2, 3, 4}},
                 {"\"eagle_aux_hidden_state_layer_ids\": [6, 0, 2]", {0, 2, 6}},
                 {"\"eagle_config\": {\"eagle_aux_hidden_state_layer_ids\": [-1, 2, 5]}", {0, 3, 6}}};
    char folder[] = "/tmp/saccade_eagle_XXXXXX", path[200];
    sac_decoder_config of = {.n_layers = 7, .hidden = 16, .vocab = 288};
    sac_eagle_config e;
    sac_error err;
    json_t *config;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/config.json", folder);
    for (size_t i = 0; i < SAC_COUNT(files); i++) {
        write_config(folder, 16, files[i].key);
        assert_ok(sac_json_parse_file(&config, path, &err), err);
        assert_ok(sac_eagle_read_config(&e, config, &of, &err), err);
        assert_memory_equal(e.at, files[i].at, sizeof e.at);
        of.n_layers = 4;
        if (i == 0)
            assert_true(sac_eagle_read_config(&e, config, &of, &err) == SAC_BAD_FILE &&
                        strstr(err.text, "has 4 layers"));
        of.n_layers = 7;
        json_decref(config);
    }
    remove(path);
    remove(folder);
}

/* One of several, between bars. */
static bool has_said(const char *text, const char *says) {
    for (size_t n; *says; says += n + (says[n] == '|')) {
        char one[100];
        n = strcspn(says, "|");
        snprintf(one, sizeof one, "%.*s", (int)n, says);
        if (strstr(text, one)) return true;
    }
    return false;
}

static void broken_heads_are_refused_in_a_line(void **state) {
    (void)state;
    char folder[] = "/tmp/saccade_eagle_XXXXXX", line[200];
    sac_session_config c;
    sac_error err;
    sac_session *s;
    assert_non_null(mkdtemp(folder));
    sac_model *m = open_path(GOLDEN "target");
    snprintf(line, sizeof line, "eagle3:%s", folder);
    sac_session_config_default(&c);
    c.n_ctx = 64, c.draft = line;
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        write_head(folder, &cases[i]);
        const sac_status st = sac_session_create(&s, m, &c, &err);
        if (st == SAC_OK || !has_said(err.text, cases[i].says) || strchr(err.text, '\n') ||
            !strstr(err.text, folder))
            fail_msg("case %zu (%s): %s", i, cases[i].says, st == SAC_OK ? "taken" : err.text);
    }
    write_head(folder, &(broken){0}); /* and this one is whole */
    assert_ok(sac_session_create(&s, m, &c, &err), err);
    sac_session_free(s);
    c.prefill = "fastv";
    assert_true(sac_session_create(&s, m, &c, &err) == SAC_UNSUPPORTED && strstr(err.text, "drops tokens"));
    c.prefill = "dense", c.draft = "eagle3:/nowhere";
    assert_true(sac_session_create(&s, m, &c, &err) == SAC_NOT_FOUND && strstr(err.text, "config.json"));
    c.draft = "eagle3";
    assert_true(sac_session_create(&s, m, &c, &err) == SAC_BAD_ARGUMENT && strstr(err.text, "eagle3:PATH"));
    sac_model_free(m);
    remove_head(folder);
}

static void write_text(const char *folder, const char *name, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A pickled file is in the way only where nothing else is there. */
static void heads_in_shards_are_read(void **state) {
    (void)state;
    static const char *const files[] = {"part.safetensors", "pytorch_model.bin", "model.safetensors.index.json"};
    const sac_decoder of = {.config = {.n_layers = 7, .hidden = 16, .vocab = 288}};
    char folder[] = "/tmp/saccade_eagle_XXXXXX", from[200], to[200];
    sac_eagle_head h;
    sac_error err;
    assert_non_null(mkdtemp(folder));
    write_head(folder, &(broken){0});
    snprintf(from, sizeof from, "%s/model.safetensors", folder);
    snprintf(to, sizeof to, "%s/part.safetensors", folder);
    assert_int_equal(rename(from, to), 0);
    write_text(folder, files[1], "");
    assert_true(sac_eagle_head_open(&h, folder, &of, &err) == SAC_NOT_FOUND && strstr(err.text, "convert it"));
    write_text(folder, files[2], "{\"weight_map\": {\"fc.weight\": \"part.safetensors\"}}");
    assert_ok(sac_eagle_head_open(&h, folder, &of, &err), err);
    sac_eagle_head_free(&h);
    for (size_t i = 0; i < SAC_COUNT(files); i++) {
        snprintf(to, sizeof to, "%s/%s", folder, files[i]);
        remove(to);
    }
    remove_head(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_are_those_of_the_file),
                                       cmocka_unit_test(heads_in_shards_are_read),
                                       cmocka_unit_test(broken_heads_are_refused_in_a_line)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
