/* ZipVL in whole sessions: its off-value, repeats, several media, chunks. */
#include "method_session.h"
#include "status.h"

#include <math.h>

static void session_off_value_is_dense(void **state) {
    (void)state;
    told_as_dense("zipvl:min=0,tau=1", NULL);
    told_as_dense("zipvl:tau=0.5", NULL);
    told_as_dense("zipvl:min=0,tau=0.5,side=band,skip=1000", NULL);
}

static void session_repeats_itself(void **state) {
    (void)state;
    static told t;
    told_again("zipvl:min=0,tau=0.9,seed=5", NULL, &t);
    assert_true(t.layer.prefill_kept > 0.02 && t.layer.prefill_kept < 0.999);
    assert_true(t.layer.prefill_work < t.layer.prefill_kept);
    told_again("zipvl:min=0,tau=0.9,side=one,budget=cover", NULL, &t);
    assert_true(t.layer.prefill_kept < 0.999);
    told_again("zipvl:min=0,tau=0.9,side=band,skip=1", NULL, &t);
    assert_true(t.layer.prefill_work < 0.999);
    told_again("zipvl:min=0,tau=0.9,side=near,skip=1", NULL, &t);
    assert_true(t.layer.prefill_kept < 0.999);
}

enum { MAX_LAYERS = 16, MAX_PROMPT = 1000 };

typedef struct mixed_media {
    int32_t kept[MAX_LAYERS][MAX_PROMPT];
    int64_t n_kept[MAX_LAYERS], n_tokens;
    char text[512];
    float logits[1024];
    size_t kv_bytes;
    size_t n_media;
    int64_t visual_tokens[3];
} mixed_media;

static void keep(void *ctx, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens) {
    mixed_media *m = ctx;
    assert_true(layer < MAX_LAYERS && n_kept <= MAX_PROMPT && m->n_kept[layer] == 0);
    memcpy(m->kept[layer], kept, (size_t)n_kept * sizeof *kept);
    m->n_kept[layer] = n_kept;
    m->n_tokens = n_tokens;
}

/* Two pictures and a video between texts; linear layers see `chunk` rows at a time. */
static void ask_of_three(const sac_model *model, int64_t chunk, const char *prefill, const char *kv,
                         mixed_media *m) {
    sac_part parts[] = {{.kind = SAC_PART_TEXT, .text = "First "},
                        {.kind = SAC_PART_IMAGE, .path = "samples/picture0000.png"},
                        {.kind = SAC_PART_VIDEO, .path = "samples/video0000_16.mp4"},
                        {.kind = SAC_PART_TEXT, .text = " and then "},
                        {.kind = SAC_PART_IMAGE, .path = "samples/picture0001.jpg"},
                        {.kind = SAC_PART_TEXT, .text = "How many numbers appear?"}};
    parts[2].video.num_frames = 3;
    sac_message message = {"user", parts, SAC_COUNT(parts), NULL};
    sac_session_config config = told_config(prefill, NULL, kv);
    config.prefill_chunk = (int)chunk;
    sac_session *s;
    sac_result r;
    sac_error err;
    sac_sampling o;
    sac_model_info info;
    memset(m, 0, sizeof *m);
    sac_sampling_default(&o);
    o.max_tokens = 12;
    o.ignore_eos = true;
    assert_ok(sac_session_create(&s, model, &config, &err), err);
    sac_session_observe_kept(s, keep, m);
    assert_ok(sac_session_generate(s, &message, 1, &o, NULL, &r, &err), err);
    sac_model_get_info(model, &info);
    assert_true(info.vocab <= 1024 && info.n_layers <= MAX_LAYERS && r.n_prompt_tokens <= MAX_PROMPT);
    m->n_media = r.n_media;
    for (size_t i = 0; i < r.n_media && i < 3; i++) m->visual_tokens[i] = r.media[i].n_tokens;
    snprintf(m->text, sizeof m->text, "%s", r.text);
    memcpy(m->logits, sac_session_logits(s), (size_t)info.vocab * sizeof(float));
    m->kv_bytes = sac_session_kv_bytes(s);
    sac_session_free(s);
}

/* Linear layers may see a prompt in chunks, attention sees it whole: the same tokens are kept, of several
 * media too. The last chunk of 37 leaves so few rows that a float kernel may sum them in another order. */
static void session_of_pictures_and_a_video(void **state) {
    (void)state;
    static const char *const PREFILL[] = {"zipvl:min=0,tau=0.9", "zipvl:min=0,tau=0.8,side=one"};
    static const char *const KV[] = {"f32", "mixed"};
    static mixed_media whole, chunks, dense;
    sac_model *model = told_model(2);
    ask_of_three(model, 1000, NULL, "f32", &dense);
    for (size_t i = 0; i < SAC_COUNT(PREFILL); i++) {
        ask_of_three(model, 1000, PREFILL[i], KV[i], &whole);
        assert_int_equal(whole.n_media, 3);
        assert_true(whole.visual_tokens[0] == 64 && whole.visual_tokens[1] == 3 * 64 &&
                    whole.visual_tokens[2] == 64);
        assert_true(memcmp(whole.logits, dense.logits, sizeof dense.logits) != 0);
        int64_t fewest = whole.n_tokens;
        for (int layer = 0; whole.n_kept[layer] > 0; layer++) {
            int64_t n = whole.n_kept[layer];
            if (n < fewest) fewest = n;
            assert_int_equal(whole.kept[layer][n - 1], whole.n_tokens - 1);
            for (int64_t k = 1; k < n; k++) assert_true(whole.kept[layer][k] > whole.kept[layer][k - 1]);
        }
        assert_true(fewest < whole.n_tokens * 3 / 4);
        static const int64_t sizes[] = {64, 128, 37};
        for (size_t c = 0; c < SAC_COUNT(sizes); c++) {
            ask_of_three(model, sizes[c], PREFILL[i], KV[i], &chunks);
            assert_int_equal(chunks.n_tokens, whole.n_tokens);
            assert_memory_equal(chunks.n_kept, whole.n_kept, sizeof whole.n_kept);
            assert_memory_equal(chunks.kept, whole.kept, sizeof whole.kept);
            assert_string_equal(chunks.text, whole.text);
            assert_int_equal(chunks.kv_bytes, whole.kv_bytes);
            for (size_t j = 0; j < SAC_COUNT(whole.logits); j++)
                assert_true(fabsf(chunks.logits[j] - whole.logits[j]) < 1e-3f);
            if (sizes[c] != 37) assert_memory_equal(chunks.logits, whole.logits, sizeof whole.logits);
        }
    }
    sac_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_off_value_is_dense),
        cmocka_unit_test(session_repeats_itself),
        cmocka_unit_test(session_of_pictures_and_a_video),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
