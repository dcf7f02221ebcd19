/* An EAGLE-3 head of a stranger: config.json, a NUL byte and model.safetensors. What is taken of it can be run. */
#include "fuzz.h"

#include "cpu_flags.h"
#include "eagle_head.h"
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { VOCAB = 24, HIDDEN = 8, N_LAYERS = 6, N_CTX = 16, MOST_FLOATS = 4096 };

/* Of numbers that are all alike, but for what the head draws: small ones only. */
static void run(const sac_eagle *e, const sac_weight *embed) {
    static const int32_t ids[N_CTX + 1] = {3, 1, -5, VOCAB, 2, 9, 11};
    static float x[4 * HIDDEN];
    const sac_decoder_config *c = &e->config.layer;
    sac_eagle_state s;
    sac_arena measure = sac_arena_measure(), arena;
    sac_pool *pool;
    sac_stream stream;
    sac_ops ops;
    int32_t out[3];
    int n;
    if (c->intermediate > MOST_FLOATS || c->n_heads * c->head_dim > MOST_FLOATS) return;
    sac_ops_init_cpu(&ops, sac_cpu_flags());
    sac_eagle_take(&s, e, N_CTX, 3, &ops, &measure);
    if (sac_pool_create(&pool, 1, NULL) != SAC_OK) abort();
    const size_t more = sac_stream_bytes(1, 1 << 16);
    if (sac_arena_open(&arena, measure.used_bytes + more, NULL) != SAC_OK) abort();
    sac_eagle_take(&s, e, N_CTX, 3, &ops, &arena);
    if (!s.ids || sac_stream_init(&stream, pool, &arena, 1 << 16, NULL) != SAC_OK) abort();
    for (int i = 0; i < 4 * HIDDEN; i++) x[i] = (float)i;
    for (int layer = 0; layer < N_LAYERS; layer++)
        sac_layer_rows_keep(&s.rows, layer, 0, sac_mat_f32(x, 4, HIDDEN));
    if (sac_eagle_guess(&(sac_eagle_run){&s, embed, &ops, &stream}, ids, 4, 3, out, &n) != SAC_OK || n != 3)
        abort();
    for (int i = 0; i < n; i++)
        if (out[i] < 0 || out[i] >= VOCAB) abort();
    sac_pool_free(pool);
    sac_arena_free(&arena);
}

static sac_status open_head(sac_eagle_head *h, const json_t *config, const uint8_t *tensors, size_t n,
                            const sac_decoder *of, sac_error *err) {
    SAC_TRY(sac_eagle_read_config(&h->eagle.config, config, &of->config, err));
    SAC_TRY(sac_safetensors_parse(&h->files, 0, tensors, n, NULL, err));
    SAC_TRY(sac_checkpoint_seal(&h->files, err));
    return sac_eagle_bind(h, of, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static float table[VOCAB * HIDDEN];
    const sac_decoder of = {.config = {.n_layers = N_LAYERS, .hidden = HIDDEN, .vocab = VOCAB}};
    const sac_weight embed = sac_weight_of((sac_tensor){table, SAC_DTYPE_F32, 2, {VOCAB, HIDDEN}});
    sac_error err = {0};
    sac_eagle_head h = {0};
    json_t *config = NULL;
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    if (!end) return 0;
    const size_t n_config = (size_t)(end - data), n_tensors = size - n_config - 1;
    uint8_t *tensors = malloc(n_tensors + 1); /* so that reads past its end are seen */
    if (!tensors) abort();
    memcpy(tensors, end + 1, n_tensors);
    sac_status st = sac_json_parse(&config, (const char *)data, n_config, &err);
    if (st == SAC_OK) st = open_head(&h, config, tensors, n_tensors, &of, &err);
    if ((st == SAC_OK) != (err.text[0] == 0)) abort();
    if (st == SAC_OK) run(&h.eagle, &embed);
    sac_eagle_head_free(&h);
    json_decref(config);
    free(tensors);
    return 0;
}
