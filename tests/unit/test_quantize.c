/* What `saccade quantize` writes: the numbers that rounding at load makes, and what goes with them. */
#define _GNU_SOURCE
#include "quantize_test.h"

#include "out_file.h"
#include "scheme.h"

static void same_part(const sac_tensor *a, const sac_tensor *b, const char *what, int layer) {
    if (!a->data != !b->data || (a->data && (a->dtype != b->dtype || sac_weight_part_bytes(a) != sac_weight_part_bytes(b) ||
                                             memcmp(a->data, b->data, sac_weight_part_bytes(a)))))
        fail_msg("%s of layer %d differs", what, layer);
}

static void same_weight(const sac_weight *a, const sac_weight *b, const char *what, int layer) {
    if (a->format != b->format || a->group != b->group || a->x_rounding != b->x_rounding)
        fail_msg("%s of layer %d is of another format", what, layer);
    same_part(&a->tensor, &b->tensor, what, layer);
    same_part(&a->scales, &b->scales, what, layer);
}

/* All that the decoder computes with. */
static void same_decoder(const sac_decoder *a, const sac_decoder *b) {
    const size_t hidden = (size_t)a->config.hidden * sizeof(float);
    assert_int_equal(a->config.n_layers, b->config.n_layers);
    assert_memory_equal(a->final_norm, b->final_norm, hidden);
    same_weight(&a->embed, &b->embed, "embed", -1);
    same_weight(&a->head, &b->head, "head", -1);
    for (int i = 0; i < a->config.n_layers; i++) {
        const sac_decoder_layer *x = &a->layers[i], *y = &b->layers[i];
        same_weight(&x->q, &y->q, "q", i);
        same_weight(&x->k, &y->k, "k", i);
        same_weight(&x->v, &y->v, "v", i);
        same_weight(&x->o, &y->o, "o", i);
        same_weight(&x->gate, &y->gate, "gate", i);
        same_weight(&x->up, &y->up, "up", i);
        same_weight(&x->down, &y->down, "down", i);
        assert_memory_equal(x->attn_norm, y->attn_norm, hidden);
        assert_memory_equal(x->mlp_norm, y->mlp_norm, hidden);
        assert_memory_equal(x->q_bias, y->q_bias, hidden);
    }
}

/* What is written is read as what rounding at load makes, in the size that was told. */
static void files_hold_what_loading_rounds_to(void **state) {
    (void)state;
    static const char *const formats[] = {"w4a16", "w4a16:g=64", "w8a16", "w8a16:g=32", "int8", "fp8",    "q8_0",   "q4_0",
                                          "q4_1",  "q5_0",       "q5_1",  "q4_k_s",     "q4_k_m", "q5_k_m", "q6_k", "bf16"};
    for (size_t i = 0; i < SAC_COUNT(formats); i++) {
        sac_scheme s;
        sac_error err;
        watch w;
        sac_loaded_model written, rounded;
        assert_int_equal(sac_scheme_parse(&s, formats[i], NULL), SAC_OK);
        const char *out = at(s.is_gguf ? "model.gguf" : "model");
        assert_ok(quantize(DEMO, out, formats[i], &w, &err), err);
        assert_int_equal(w.n_planned, 1);
        assert_int_equal(w.plan.n_bytes, size_of(out));
        assert_int_equal(w.plan.n_rounded, s.is_gguf ? 64 : 63);
        assert_int_equal(w.plan.drops_vision, s.is_gguf);
        open_model(&written, out, NULL);
        open_model(&rounded, DEMO, formats[i]);
        same_decoder(&written.decoder, &rounded.decoder);
        assert_int_equal(written.has_vision, !s.is_gguf);
        if (!s.is_gguf) assert_int_equal(written.weight_bytes - rounded.weight_bytes,
                                         s.type == SAC_DTYPE_PACKED_4 || s.type == SAC_DTYPE_PACKED_8 ? 63 * 16 : 0);
        sac_loaded_model_free(&written);
        sac_loaded_model_free(&rounded);
        shell("rm -r %s%s", out, "");
    }
}

/* Two steps are one: 16 bits in between lose nothing, and metadata stays. */
static void gguf_files_are_rounded_like_folders(void **state) {
    (void)state;
    sac_error err;
    watch w;
    const char *half = at("half.gguf"), *first = at("first.gguf"), *second = at("second.gguf");
    assert_ok(quantize(DEMO, half, "bf16", &w, &err), err);
    assert_ok(quantize(half, first, "q4_k_m", &w, &err), err);
    assert_int_equal(w.plan.n_bytes, size_of(first));
    assert_ok(quantize(DEMO, second, "q4_k_m", &w, &err), err);
    sac_loaded_model a, b;
    open_model(&a, first, NULL);
    open_model(&b, second, NULL);
    same_decoder(&a.decoder, &b.decoder);
    assert_int_equal(sac_tokenizer_n_vocab(a.tokenizer), sac_tokenizer_n_vocab(b.tokenizer));
    assert_int_equal(a.n_stop_ids, b.n_stop_ids);
    sac_loaded_model_free(&a);
    sac_loaded_model_free(&b);
    assert_int_equal(quantize(first, at("third.gguf"), "q8_0", &w, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "quantised already"));
    assert_int_equal(quantize(half, at("folder"), "w4a16", &w, &err), SAC_UNSUPPORTED);
}

/* Rope's pairs are neighbours in files of the llama architecture: the same logits come of rows in another order, which the
 * reader's interleaved rope undoes, so here rows are looked at. */
static void rows_of_llama_take_turns(void **state) {
    (void)state;
    static const char source[] = "tests/golden/models/llama_f32";
    sac_error err;
    watch w;
    sac_loaded_model file, in;
    assert_ok(quantize(source, at("llama.gguf"), "f16", &w, &err), err);
    open_model(&file, at("llama.gguf"), NULL);
    open_model(&in, source, "f16");
    const sac_decoder_config *d = &in.decoder.config;
    const size_t row = (size_t)d->hidden * 2;
    const uint8_t *a = file.decoder.layers[0].q.tensor.data, *b = in.decoder.layers[0].q.tensor.data;
    assert_true(file.decoder.config.rope.interleaved);
    for (int r = 0; r < d->n_heads * d->head_dim; r++) {
        const int head = r / d->head_dim, i = r % d->head_dim;
        const int from = head * d->head_dim + i % 2 * (d->head_dim / 2) + i / 2;
        assert_memory_equal(a + (size_t)r * row, b + (size_t)from * row, row);
    }
    same_weight(&file.decoder.layers[0].v, &in.decoder.layers[0].v, "v", 0);
    sac_loaded_model_free(&file);
    sac_loaded_model_free(&in);
}

static void tensors_without_elements_are_refused_by_name(void **state) {
    (void)state;
    sac_error err;
    watch w;
    const char *file = at("none.gguf");
    assert_ok(quantize(DEMO, file, "bf16", &w, &err), err);
    FILE *f = fopen(file, "r+b");
    assert_non_null(f);
    static uint8_t head[8 << 20];
    const size_t n = fread(head, 1, sizeof head, f);
    static const char name[] = "output_norm.weight";
    const uint8_t *found = memmem(head, n, name, sizeof name - 1); /* then the count of its dimensions, and the first */
    const uint64_t none = 0;
    assert_non_null(found);
    fseek(f, found - head + (long)sizeof name - 1 + 4, SEEK_SET);
    assert_int_equal(fwrite(&none, 1, sizeof none, f), sizeof none);
    fclose(f);
    assert_int_equal(quantize(file, at("some.gguf"), "q8_0", &w, &err), SAC_BAD_FILE);
    if (!strstr(err.text, name) || !strstr(err.text, "at least")) fail_msg("%s", err.text);
    assert_int_equal(unlink(file), 0);

    sac_out_file out = {0};
    const sac_checkpoint_tensor t = {.dtype = SAC_DTYPE_F32, .n_dims = 2, .dim = {3, 0}, .file = -1};
    sac_rounded r;
    sac_rounded_of(&r, &t);
    assert_ok(sac_out_open(&out, file, NULL, &err), err);
    assert_ok(sac_out_rounded(&out, &r, NULL, &err), err);
    assert_int_equal(out.n_bytes, 0);
    sac_out_abandon(&out);
}

static void bad_sources_are_refused_by_name(void **state) {
    (void)state;
    sac_error err;
    watch w;
    const uint16_t nan = 0x7fc0;
    const char *bad = at("bad");
    damage(bad, "layers.4.mlp.up_proj.weight", &nan, sizeof nan);
    assert_int_equal(quantize(bad, at("out"), "w4a16", &w, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "layers.4.mlp.up_proj.weight"));
    assert_int_equal(quantize(bad, at("out.gguf"), "q4_k_m", &w, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "not finite"));
    assert_int_not_equal(access(at("out"), F_OK), 0);
    sac_loaded_model m;
    const sac_load_options o = {.tokenizer_rule = SAC_TOKENIZER_BY_CLASS, .weights = "q8_0"};
    assert_int_equal(sac_loaded_model_open_with(&m, bad, &o, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "layers.4.mlp.up_proj.weight"));

    static const struct {
        const char *in, *out, *format;
        sac_status want;
        const char *says;
    } cases[] = {
        {DEMO, "x", "q5", SAC_BAD_ARGUMENT, "not known"},
        {DEMO, "x", "q4_k_m", SAC_BAD_ARGUMENT, ".gguf"},
        {DEMO, "x.gguf", "fp8", SAC_BAD_ARGUMENT, "folder"},
        {DEMO, "no/such/folder/x", "fp8", SAC_IO, "written"},
        {"no/such/model/at/all", "x", "fp8", SAC_NOT_FOUND, "no such"},
        {DEMO, "", "fp8", SAC_BAD_ARGUMENT, "there already"},
        {DEMO, "x", "w4a16:g=4096", SAC_UNSUPPORTED, "no matrix"},
    };
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        assert_int_equal(quantize(cases[i].in, at(cases[i].out), cases[i].format, &w, &err), cases[i].want);
        if (!strstr(err.text, cases[i].says)) fail_msg("%s", err.text);
    }
    const char *four = at("four");
    assert_ok(quantize(DEMO, four, "w4a16", &w, &err), err);
    assert_int_equal(quantize(four, at("five"), "w8a16", &w, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "quantised already"));
    assert_int_equal(sac_loaded_model_open_with(&m, four, &o, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "quantised already"));
    assert_int_equal(quantize(DEMO, four, "w4a16", &w, &err), SAC_BAD_ARGUMENT); /* there already */
}

/* Rows of 384 are no whole groups of 256: those stay, and the configuration says so. */
static void matrices_that_do_not_fit_stay(void **state) {
    (void)state;
    sac_error err;
    watch w;
    sac_loaded_model m;
    assert_ok(quantize(DEMO, at("wide"), "w8a16:g=256", &w, &err), err);
    assert_int_equal(w.plan.n_rounded, 9); /* of down_proj */
    assert_int_equal(w.plan.n_kept, 54);
    assert_non_null(strstr(w.plan.first_kept, "layers.0."));
    open_model(&m, at("wide"), NULL);
    assert_int_equal(m.decoder.layers[3].q.format, SAC_WEIGHT_FLOATS);
    assert_int_equal(m.decoder.layers[3].down.format, SAC_WEIGHT_PACKED);
    sac_loaded_model_free(&m);
    shell("grep -q 'layers..*3..*self_attn..*q_proj' %s/config.json%s", at("wide"), "");
    open_model(&m, DEMO, "w8a16:g=256"); /* and a model that is rounded while it is loaded says so too */
    assert_int_equal(m.unrounded.n, 54);
    assert_non_null(strstr(m.unrounded.first, "layers.0."));
    sac_loaded_model_free(&m);
    open_model(&m, DEMO, "w8a16");
    assert_int_equal(m.unrounded.n, 0);
    sac_loaded_model_free(&m);
}

/* A format that no matrix's rows fit is refused, with what would fit, and not silently without effect. */
static void formats_that_fit_nothing_are_refused(void **state) {
    (void)state;
    sac_error err;
    watch w;
    sac_loaded_model m;
    const sac_load_options o = {.tokenizer_rule = SAC_TOKENIZER_BY_CLASS, .weights = "w4a16:g=4096"};
    assert_int_equal(sac_loaded_model_open_with(&m, DEMO, &o, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "--weights w4a16:g=4096"));
    assert_non_null(strstr(err.text, "rows of 384 elements"));
    assert_non_null(strstr(err.text, "w4a16:g=N"));
    assert_int_equal(quantize(DEMO, at("none"), "w4a16:g=4096", &w, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "rows of 384 elements"));
    assert_non_null(strstr(err.text, "w4a16:g=N"));
    assert_int_equal(quantize("tests/golden/models/llama_f32", at("none"), "w8a16:g=16", &w, &err), SAC_UNSUPPORTED);
    const sac_load_options eights = {.tokenizer_rule = SAC_TOKENIZER_BY_CLASS, .weights = "w8a16"};
    assert_ok(sac_loaded_model_open_with(&m, "tests/golden/models/llama_f32", &eights, &err), err);
    assert_int_equal(m.unrounded.n, m.decoder.config.n_layers); /* down_proj, with rows of 51 */
    sac_loaded_model_free(&m);
}

/* An adapter that lies in the folder belongs to the model: a GGUF file of the rest would be another model. */
static void adapters_are_not_lost(void **state) {
    (void)state;
    static const char source[] = "tests/golden/models/llama_f32", adapters[] = "tests/golden/adapters";
    sac_error err;
    watch w;
    const char *both = at("both"), *typo = at("typo.gguf");
    char adapter[200];
    shell("cp -r %s %s", source, both);
    snprintf(adapter, sizeof adapter, "%s/llama_f32/attention", adapters);
    shell("cp %s/adapter_* %s", adapter, both);
    assert_int_equal(quantize(both, at("both.gguf"), "f16", &w, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "both/adapter_config.json"));
    assert_non_null(strstr(err.text, "merge_and_unload"));
    assert_ok(quantize(both, at("both-fp8"), "fp8", &w, &err), err); /* folders keep it */
    assert_int_equal(access(at("both-fp8/adapter_config.json"), F_OK), 0);

    snprintf(adapter, sizeof adapter, "%s/gguf_llama_f32/gguf_attention.gguf", adapters);
    assert_int_equal(quantize(adapter, at("adapter.gguf"), "q8_0", &w, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "an adapter"));
    shell("sed s/general.type/general.typo/ %s > %s", adapter, typo);
    assert_int_equal(quantize(typo, at("adapter.gguf"), "q8_0", &w, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no matrix"));
    assert_int_not_equal(access(at("adapter.gguf"), F_OK), 0);
}

static void write_file(const char *folder_name, const char *name, const char *text) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder_name, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* What a GGUF file of the folder says of conversations is what the folder says. */
static void same_conversations(const char *in, const char *out) {
    sac_error err;
    watch w;
    sac_loaded_model a, b;
    assert_ok(quantize(in, out, "f16", &w, &err), err);
    assert_string_equal(w.plan.chat_lost, "");
    open_model(&a, in, NULL);
    open_model(&b, out, NULL);
    assert_true(sac_chat_templates_count(a.templates) > 0);
    assert_int_equal(sac_chat_templates_count(a.templates), sac_chat_templates_count(b.templates));
    for (size_t i = 0; i < sac_chat_templates_count(a.templates); i++) {
        const sac_text_span x = sac_chat_templates_text(a.templates, i);
        size_t k = 0;
        while (strcmp(sac_chat_templates_name(b.templates, k), sac_chat_templates_name(a.templates, i)))
            assert_true(++k < sac_chat_templates_count(b.templates));
        assert_int_equal(sac_chat_templates_text(b.templates, k).n_bytes, x.n_bytes);
        assert_memory_equal(sac_chat_templates_text(b.templates, k).text, x.text, x.n_bytes);
    }
    assert_int_equal(a.n_stop_ids, b.n_stop_ids);
    for (int i = 0, k; i < a.n_stop_ids; i++) {
        for (k = 0; k < b.n_stop_ids && a.stop_ids[i] != b.stop_ids[k]; k++) continue;
        assert_true(k < b.n_stop_ids);
    }
    sac_loaded_model_free(&a);
    sac_loaded_model_free(&b);
    shell("rm %s%s", out, "");
}

static void gguf_files_keep_how_models_chat(void **state) {
    (void)state;
    sac_error err;
    watch w;
    const char *in = at("talks"), *out = at("talks.gguf");
    shell("cp -r %s %s", "tests/golden/models/qwen3", in);
    write_file(in, "generation_config.json", "{\"eos_token_id\": [7, 280, 7, 11]}");
    write_file(in, "tokenizer_config.json", "{\"chat_template\": \"t {{ messages[0].content }}\"}");
    same_conversations(in, out);
    write_file(in, "processor_config.json",
               "{\"chat_template\": {\"default\": \"p {{ messages[0].content }}\", \"tool_use\": \"u\", \"rag\": \"r\"}}");
    same_conversations(in, out);
    write_file(in, "chat_template.json",
               "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"{{ messages }}\"}]}");
    same_conversations(in, out);
    write_file(in, "chat_template.jinja", "j {{ messages[0].content }}");
    shell("mkdir %s/additional_chat_templates; echo x > %s/additional_chat_templates/two.jinja", in, in);
    same_conversations(in, out);
    shell("cd %s/additional_chat_templates; mv two.jinja %s.jinja", in,
          "a_name_that_is_longer_than_those_that_readers_of_gguf_files_will_take");
    assert_int_equal(quantize(in, out, "f16", &w, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "chat template's name"));

    assert_ok(quantize("tests/golden/models/mistral", out, "f16", &w, &err), err);
    assert_string_equal(w.plan.chat_lost, "mistral");
    assert_string_equal(w.plan.chat_instead, "llama-2");
}

/* A tower in a folder of its own, under a name with a slash, whose sizes only its own config.json says. */
static void towers_go_with_their_models(void **state) {
    (void)state;
    sac_error err;
    watch w;
    sac_loaded_model a, b;
    const char *in = at("parts"), *out = at("parts-fp8");
    shell("cp -r %s %s", "tests/golden/models/longva_tower", in);
    shell("mkdir %s/maker && test -d %s/vision_tower", in, in);
    shell("mv %s/vision_tower %s/maker/eye", in, in);
    shell("sed -i s,openai/clip-vit-large-patch14-336,maker/eye, %s/config.json%s", in, "");
    assert_ok(quantize(in, out, "fp8", &w, &err), err);
    assert_int_equal(w.plan.n_bytes, size_of(out));
    shell("cmp %s/maker/eye/model.safetensors %s/maker/eye/model.safetensors", in, out);
    shell("grep -q vision_config %s/config.json && exit 1 || exit 0%s", out, ""); /* as it stood */
    open_model(&a, in, "fp8");
    open_model(&b, out, NULL);
    same_weight(&a.decoder.layers[1].down, &b.decoder.layers[1].down, "down", 1);
    assert_true(b.has_vision);
    assert_int_equal(a.tower.config.hidden, b.tower.config.hidden);
    sac_loaded_model_free(&a);
    sac_loaded_model_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_hold_what_loading_rounds_to),
        cmocka_unit_test(gguf_files_are_rounded_like_folders),
        cmocka_unit_test(rows_of_llama_take_turns),
        cmocka_unit_test(tensors_without_elements_are_refused_by_name),
        cmocka_unit_test(bad_sources_are_refused_by_name),
        cmocka_unit_test(matrices_that_do_not_fit_stay),
        cmocka_unit_test(formats_that_fit_nothing_are_refused),
        cmocka_unit_test(adapters_are_not_lost),
        cmocka_unit_test(gguf_files_keep_how_models_chat),
        cmocka_unit_test(towers_go_with_their_models),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
