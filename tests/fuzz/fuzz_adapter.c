/* An adapter of a stranger: a GGUF file, or adapter_config.json, a NUL byte and adapter_model.safetensors. What is
 * taken of it is merged, and kept apart. */
#include "fuzz.h"

#include "adapter.h"
#include "safetensors.h"

#include <stdlib.h>

enum { ROWS = 6, COLUMNS = 4 };

static void stack(const sac_lora *l) {
    const size_t rank = (size_t)l->rank;
    float *a = malloc(rank * COLUMNS * sizeof *a), *b = malloc(rank * ROWS * sizeof *b);
    if (!a || !b) abort();
    sac_lora_stack(l, 1, ROWS, COLUMNS, a, b);
    free(a);
    free(b);
}

static sac_status merge(const sac_lora *l, sac_error *err) {
    static float base[ROWS * COLUMNS], out[ROWS * COLUMNS];
    const sac_tensor t = {base, SAC_DTYPE_F32, 2, {ROWS, COLUMNS}};
    for (int i = 0; i < ROWS * COLUMNS; i++) base[i] = (float)(i % 5) - 1.5f;
    SAC_TRY(sac_lora_check(l, 1, &t, err));
    if (!l->is_embedding && !l->magnitude) stack(l);
    return sac_lora_merge(l, 1, &t, SAC_DTYPE_F32, out, NULL, err);
}

static sac_status look(const sac_adapter *a, sac_error *err) {
    static const char *const names[] = {"model.layers.0.self_attn.q_proj.weight",
                                        "model.layers.1.mlp.up_proj.weight",
                                        "model.embed_tokens.weight",
                                        "lm_head.weight",
                                        "model.norm.bias",
                                        "image_newline",
                                        "blk.0.attn_q.weight",
                                        "token_embd.weight"};
    char name[512];
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        sac_lora l;
        bool is_own;
        SAC_TRY(sac_adapter_find_lora(a, names[i], &l, err));
        (void)sac_adapter_replacement(a, names[i], &is_own);
        if (l.a) SAC_TRY(merge(&l, err));
    }
    for (int i = 0; i < a->tensors.n_tensors; i++) (void)sac_adapter_base_name(a, i, name, sizeof name);
    return SAC_OK;
}

static int open_gguf(const uint8_t *data, size_t size) {
    sac_error err = {0};
    sac_adapter a = {.folder = (char *)(uintptr_t)fuzz_file(data, size), .scale = 1};
    sac_status st = sac_adapter_open_gguf(&a, &err);
    if (st == SAC_OK) st = look(&a, &err);
    if ((st == SAC_OK) != (err.text[0] == 0)) abort();
    a.folder = NULL;
    sac_adapter_close(&a);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 4 && memcmp(data, "GGUF", 4) == 0) return open_gguf(data, size);
    sac_error err = {0};
    sac_adapter a = {.folder = (char[]){"f"}, .scale = 1};
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    if (!end) return 0;
    size_t n_config = (size_t)(end - data), n_tensors = size - n_config - 1;
    uint8_t *tensors = malloc(n_tensors + 1); /* so that reads past its end are seen */
    if (!tensors) abort();
    memcpy(tensors, end + 1, n_tensors);
    sac_status st = sac_json_parse(&a.config, (const char *)data, n_config, &err);
    if (st == SAC_OK) st = sac_adapter_check_config(a.config, &err);
    if (st == SAC_OK) st = sac_safetensors_parse(&a.tensors, 0, tensors, n_tensors, NULL, &err);
    if (st == SAC_OK) st = sac_checkpoint_seal(&a.tensors, &err);
    a.used = calloc((size_t)a.tensors.n_tensors + 1, sizeof *a.used);
    if (!a.used) abort();
    if (st == SAC_OK) st = look(&a, &err);
    if ((st == SAC_OK) != (err.text[0] == 0)) abort();
    a.folder = NULL;
    sac_adapter_close(&a);
    free(tensors);
    return 0;
}
