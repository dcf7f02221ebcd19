/* A vision half of a stranger, from its metadata to tensors in the shapes that a tower looks for, beside small language
 * models of every architecture that one goes with. */
#include "fuzz.h"

#include "family.h"
#include "model_load.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {"a",
                                    "<image>",
                                    "<|image_pad|>",
                                    "<|video_pad|>",
                                    "<|vision_start|>",
                                    "<|vision_end|>",
                                    "<IMG_CONTEXT>",
                                    "<img>",
                                    "</img>",
                                    "<start_of_image>",
                                    "<end_of_image>",
                                    "[IMG]",
                                    "<|image|>",
                                    "<|IMAGE_PLACEHOLDER|>"};

static sac_tokenizer *open_tokenizer(void) {
    static sac_text_span tokens[SAC_COUNT(names)], merge = {"a a", 3};
    static int32_t types[SAC_COUNT(names)];
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        tokens[i] = (sac_text_span){names[i], strlen(names[i])};
        types[i] = i ? 3 : 1; /* control tokens */
    }
    const sac_vocab_source src = {.model = "gpt2",
                                  .n_tokens = SAC_COUNT(names),
                                  .tokens = tokens,
                                  .types = types,
                                  .merges = &merge,
                                  .n_merges = 0,
                                  .bos_id = -1,
                                  .eos_id = -1,
                                  .unk_id = -1,
                                  .add_bos = -1,
                                  .add_eos = -1,
                                  .add_space_prefix = -1};
    sac_tokenizer *t;
    sac_error err;
    if (sac_tokenizer_open_vocab(&t, &src, &err) == SAC_OK) return t;
    fprintf(stderr, "%s\n", err.text);
    abort();
}

/* The language model of that architecture: 8 channels, 2 heads of 4. */
static void begin(sac_load_context *l, const sac_family *family) {
    if (sac_model_config_default(&l->config, family, l->err) != SAC_OK ||
        sac_sha256_open(&l->hash, l->err) != SAC_OK)
        abort();
    sac_decoder_config *d = &l->config.decoder;
    d->n_layers = 2;
    d->hidden = 8;
    d->n_heads = d->n_kv_heads = 2;
    d->head_dim = 4;
    d->intermediate = 8;
    d->vocab = (int)SAC_COUNT(names);
    sac_rope_config_default(&d->rope, d->head_dim);
}

static void run(const sac_gguf_language *language, const sac_family *family, sac_tokenizer *tokenizer,
                const char *path) {
    static sac_loaded_model m;
    static sac_model_files files;
    sac_error err = {0};
    const sac_load_options options = {.mmproj = path};
    sac_load_context *l = calloc(1, sizeof *l);
    if (!l) abort();
    memset(&m, 0, sizeof m);
    memset(&files, 0, sizeof files);
    m.tokenizer = tokenizer;
    *l = (sac_load_context){.m = &m, .files = &files, .path = "model.gguf", .options = &options, .err = &err};
    begin(l, family);
    err.text[0] = 0;
    sac_status st = sac_load_mmproj(l, language);
    if ((st == SAC_OK) != (err.text[0] == 0)) abort();
    sac_processor_free(&m.processor);
    sac_config_keys_free(&m.keys);
    sac_checkpoint_free(&files.tower);
    uint8_t unused[32];
    sac_sha256_finish(l->hash, unused);
    free(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static sac_tokenizer *tokenizer;
    if (!tokenizer) tokenizer = open_tokenizer();
    const char *path = fuzz_file(data, size);
    const struct {
        sac_gguf_language language;
        const sac_family *family;
    } sides[] = {
        {{.architecture = "llama", .n_deep = -1}, &sac_family_llama},
        {{.architecture = "qwen2", .n_deep = -1}, &sac_family_qwen2},
        {{.architecture = "qwen2vl", .n_deep = -1, .sections = {1, 1, 0}, .has_sections = true},
         &sac_family_qwen2},
        {{.architecture = "qwen3vl", .n_deep = 1, .sections = {1, 1, 0}, .has_sections = true},
         &sac_family_qwen3},
        {{.architecture = "qwen3vlmoe", .n_deep = 1, .sections = {1, 1, 0}, .has_sections = true},
         &sac_family_qwen3_moe},
        {{.architecture = "gemma3", .n_deep = -1}, &sac_family_gemma3_text},
        {{.architecture = "glm4", .n_deep = -1, .sections = {1, 1, 0}, .has_sections = true}, &sac_family_glm4},
        {{.architecture = "paddleocr", .n_deep = -1, .sections = {1, 1, 0}, .has_sections = true}, &sac_family_paddleocr},
        {{.architecture = "glm4moe", .n_deep = -1, .sections = {1, 1, 0}, .has_sections = true}, &sac_family_glm4_moe},
    };
    for (size_t i = 0; i < SAC_COUNT(sides); i++) run(&sides[i].language, sides[i].family, tokenizer, path);
    return 0;
}
