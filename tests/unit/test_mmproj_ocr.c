/* Models that read documents as two GGUF files that are damaged: LightOnOCR, GLM-OCR and PaddleOCR-VL; and scans of a page, counted.
 * What whole ones answer: test_mmproj.c. Their folder is the argument, or $SACCADE_GGUF_PAIRS. */
#define _DEFAULT_SOURCE
#include "gguf_pairs.h"

/* The language model with one key changed, without its half. */
static void damaged_language(const char *pair, const char *key, uint32_t value, const char *word) {
    bytes b;
    b.data = get(pair, "model.gguf", &b.n);
    if (value)
        set_u32(&b, key, value);
    else
        rename_it(&b, key);
    put("model.gguf", b.data, b.n);
    REFUSED("none", "model.gguf", word);
    free(b.data);
}

/* LightOnOCR, which is Mistral 3's over another language model. */
static void damaged_lighton(void **state) {
    (void)state;
    static const char pair[] = "lighton_ocr";
    bytes b = begin(pair);
    set_u32(&b, "clip.vision.spatial_merge_size", 3);
    DAMAGED("mm.patch_merger.weight has shape");
    set_u32(&b, "clip.vision.spatial_merge_size", 0);
    DAMAGED("spatial_merge_size");
    rename_it(&b, "clip.vision.image_size");
    DAMAGED("clip.vision.image_size is missing");
    rename_it(&b, "mm.input_norm.weight");
    DAMAGED("mm.input_norm.weight is missing");
    set_dim(&b, "mm.2.weight", 0, 15);
    DAMAGED("mm.2.weight has shape");
    free(b.data);
    char path[PATH_BYTES];
    copy("llava", "model.gguf", "model.gguf");
    REFUSED(path_of(path, "lighton_ocr", "mmproj.gguf"), "stands on qwen3");
}

/* GLM-OCR, told from GLM-4.1V by norms of heads; a layer behind the last is in its file. */
static void damaged_glm_ocr(void **state) {
    (void)state;
    static const char pair[] = "glm_ocr";
    static const char *const tensors[] = {"v.blk.0.attn_k_norm.weight", "v.blk.1.attn_q_norm.weight", "v.patch_embd.bias", "v.post_ln.weight",
                                          "v.blk.1.ffn_gate.bias",      "v.blk.0.attn_out.bias",      "mm.patch_merger.weight", "mm.gate.weight"};
    bytes b = begin(pair);
    for (size_t i = 0; i < SAC_COUNT(tensors); i++) {
        rename_it(&b, tensors[i]);
        DAMAGED(tensors[i], "is missing");
        set_dim(&b, tensors[i], 0, UINT64_MAX);
        DAMAGED(tensors[i]);
    }
    rename_it(&b, "v.blk.0.attn_q_norm.weight"); /* then it is GLM-4.1V's */
    DAMAGED("v.blk.0.attn_k_norm.weight: norms of heads of keys alone");
    memcpy(behind(&b, "v.blk.1.ln2.weight") - 18, "v.norm_embd.weight", 18);
    DAMAGED("v.norm_embd.weight is not supported beside norms of heads");
    set_dim(&b, "mm.up.weight", 1, 47);
    DAMAGED("mm.up.weight has shape");
    set_dim(&b, "v.blk.0.ffn_up.weight", 1, 28);
    DAMAGED("has shape");
    set_u32(&b, "clip.vision.spatial_merge_size", 3);
    DAMAGED("mm.patch_merger.weight has shape");
    free(b.data);
    copy("glm4v", "model.gguf", "model.gguf");
    REFUSED(path_of((char[PATH_BYTES]){0}, pair, "mmproj.gguf"), "\"out_hidden_size\" 16 is not the language model's 24");
    copy("glm4v_moe", "model.gguf", "model.gguf");
    REFUSED(path_of((char[PATH_BYTES]){0}, pair, "mmproj.gguf"), "of glm_ocr, which stands on glm4", "is glm4moe");
    damaged_language(pair, "glm4.nextn_predict_layers", 3, "\"nextn_predict_layers\" is 3 of 3 layers");
    damaged_language(pair, "glm4.nextn_predict_layers", 0x80000000u, "nextn_predict_layers");
    damaged_language(pair, "glm4.block_count", 5, "blk.3.");
}

enum { MOST_IDS = 40000, SCAN_WIDTH = 2480, SCAN_HEIGHT = 3508 }; /* A4 at 300 dots an inch */

/* A picture of one bit a pixel, all of it one color. */
static void put_scan(const char *name) {
    enum { ROW = (SCAN_WIDTH + 31) / 32 * 4, HEAD = 62 };
    const uint32_t size[] = {40, SCAN_WIDTH, SCAN_HEIGHT, 1 | 1 << 16, 0, 0, 0, 0, 2, 0, 0, 0xffffff}, file[] = {HEAD + ROW * SCAN_HEIGHT, 0, HEAD};
    uint8_t *b = calloc(HEAD + ROW, SCAN_HEIGHT);
    assert_non_null(b);
    memcpy(b, "BM", 2);
    memcpy(b + 2, file, sizeof file);
    memcpy(b + 14, size, sizeof size);
    put(name, b, file[0]);
    free(b);
}

/* Tokens of a prompt with the scan. */
static size_t count_scan(const char *path, int32_t *ids) {
    char scan[PATH_BYTES];
    snprintf(scan, sizeof scan, "%s/scan.bmp", folder);
    const sac_part picture = {.kind = SAC_PART_IMAGE, .path = scan};
    const sac_message message = {.role = "user", .parts = &picture, .n_parts = 1};
    sac_error err;
    size_t n;
    side s;
    sac_session_config config;
    assert_ok(sac_model_open(&s.model, path, NULL, &err), err);
    sac_session_config_default(&config);
    config.n_ctx = MOST_IDS;
    assert_ok(sac_session_create(&s.session, s.model, &config, &err), err);
    assert_ok(sac_session_prompt(s.session, &message, 1, ids, MOST_IDS, &n, &err), err);
    close_side(&s);
    return n;
}

/* A file without bounds of pixels has those of the published folders: a scan is as many tokens as in one. */
static void large_pictures(void **state) {
    (void)state;
    int32_t *ids = malloc(2 * MOST_IDS * sizeof *ids);
    char path[PATH_BYTES];
    assert_non_null(ids);
    put_scan("scan.bmp");
    const size_t n = count_scan(path_of(path, "glm_ocr_bare", "model.gguf"), ids),
                 want = count_scan(path_of(path, "glm_ocr_bare", "twin"), ids + MOST_IDS);
    assert_int_equal(n, want);
    assert_in_range(n, 33100, 33450); /* squares of 12 x 12 in 9,633,792 / 2 pixels, as two frames of a picture are counted */
    assert_memory_equal(ids, ids + MOST_IDS, n * sizeof *ids);
    free(ids);
}

/* PaddleOCR-VL: positions of a square, and an architecture that numbers rows on three axes. */
static void damaged_paddle(void **state) {
    (void)state;
    static const char pair[] = "paddleocr_vl";
    static const char *const tensors[] = {"v.patch_embd.bias", "v.post_ln.bias",      "v.blk.1.attn_q.weight", "v.blk.0.attn_v.bias", "v.blk.0.ln2.bias",
                                          "v.blk.0.ffn_up.bias", "mm.input_norm.bias", "mm.1.bias",             "mm.2.weight"};
    bytes b = begin(pair);
    for (size_t i = 0; i < SAC_COUNT(tensors); i++) {
        rename_it(&b, tensors[i]);
        DAMAGED(tensors[i], "is missing");
        set_dim(&b, tensors[i], 0, UINT64_MAX);
        DAMAGED(tensors[i]);
    }
    set_dim(&b, "v.position_embd.weight", 1, 24);
    DAMAGED("v.position_embd.weight has 24 rows, which are no square");
    rename_it(&b, "v.position_embd.weight");
    DAMAGED("v.position_embd.weight has 0 rows");
    set_dim(&b, "mm.1.weight", 0, 95);
    DAMAGED("mm.1.weight has shape");
    set_u32(&b, "clip.vision.attention.head_count", 12);
    DAMAGED("multiple of 4");
    set_u32(&b, "clip.vision.image_min_pixels", 0);
    DAMAGED("min_pixels");
    set_u32(&b, "clip.vision.image_max_pixels", 5);
    DAMAGED("max_pixels");
    free(b.data);
    copy("llava", "model.gguf", "model.gguf");
    REFUSED(path_of((char[PATH_BYTES]){0}, pair, "mmproj.gguf"), "stands on paddleocr", "is llama");
    damaged_language(pair, "paddleocr.rope.dimension_sections", 0, "paddleocr.rope.dimension_sections is missing");
    damaged_language(pair, "paddleocr.rope.dimension_count", 10, "paddleocr.rope.dimension_sections must be three numbers");
}

int main(int argc, char **argv) {
    int code;
    json_t *index = open_pairs(argc, argv, &code);
    if (!index) return code;
    json_decref(index);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(damaged_lighton, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_glm_ocr, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_paddle, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(large_pictures, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
