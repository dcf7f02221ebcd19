/* paddleocr.c - the language model of PaddleOCR-VL in GGUF: ERNIE 4.5's small one, which is llama (llama.c) in transformers' folders.
 * Here it has an architecture of its own, whose rows of queries and keys are not permuted, and rows are numbered on three axes.
 * Chats begin with <|begin_of_sentence|>, never with the vocabulary's <s>. */
#include "family.h"

static void defaults(sac_model_config *c) {
    sac_family_llama.defaults(c);
    c->text_family = &sac_family_paddleocr;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    return sac_family_llama.read(c, config, err);
}

static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    (void)c;
    if (json_object_get(keys, "rope.dimension_sections")) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "metadata key paddleocr.rope.dimension_sections is missing");
}

const sac_family sac_family_paddleocr = {
    .name = "paddleocr", .defaults = defaults, .read = read, .positions = sac_positions_plain, .read_gguf = read_gguf, .gguf_no_begin = true};
