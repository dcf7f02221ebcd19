#include "draft_model.h"
#include "tokenizer.h"

#include <stdio.h>
#include <string.h>

/* Where both have a token with an id it must be the same one. Ids that only one of them knows never come to the other. */
static sac_status compare_tokens(const sac_model *of, const sac_model *draft, const char *path, sac_error *err) {
    const sac_tokenizer *a = of->loaded.tokenizer, *b = draft->loaded.tokenizer;
    int32_t n = sac_tokenizer_n_vocab(a), n_same = 0;
    if (n > sac_tokenizer_n_vocab(b)) n = sac_tokenizer_n_vocab(b);
    for (int32_t id = 0; id < n; id++) {
        const sac_text_span x = sac_token_text(a, id), y = sac_token_text(b, id);
        if (!x.text || !y.text) continue;
        if (x.n_bytes != y.n_bytes || memcmp(x.text, y.text, x.n_bytes) != 0)
            return sac_fail(err, SAC_BAD_ARGUMENT,
                            "draft model %s: its token %d is \"%.*s\", the model's is \"%.*s\": give one with the same tokens", path,
                            id, (int)(y.n_bytes < 60 ? y.n_bytes : 60), y.text, (int)(x.n_bytes < 60 ? x.n_bytes : 60), x.text);
        n_same++;
    }
    if (n_same > n / 2) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "draft model %s: of %d tokens it has %d of the model's: give one with the same tokens",
                    path, n, n_same);
}

/* Where the other runs, in its type of activations. */
static sac_status open_model(sac_model **out, const sac_model *of, const char *path, sac_error *err) {
    sac_model_options o;
    char card[32];
    sac_model_options_default(&o);
    o.n_threads = 1, o.vision_cache_bytes = 0, o.mmproj = "none", o.fast = of->fast;
    if (sac_model_on_device(of)) {
        snprintf(card, sizeof card, "cuda:%d", of->device.index);
        o.device = card, o.activations = sac_dtype_name(of->activations);
    }
    sac_status st = sac_model_open(out, path, &o, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "draft model");
    if ((*out)->loaded.has_vision)
        st = sac_fail(err, SAC_UNSUPPORTED,
                      "draft model %s has a vision half, and a draft sees no pictures: give its language model alone (saccade "
                      "quantize writes one as .gguf)",
                      path);
    else if (sac_decoder_attending(&(*out)->loaded.decoder.config, (*out)->loaded.decoder.config.n_layers) !=
             (*out)->loaded.decoder.config.n_layers)
        st = sac_fail(err, SAC_UNSUPPORTED, "draft model %s has layers of linear attention, whose states cannot be taken back", path);
    else
        st = compare_tokens(of, *out, path, err);
    if (st != SAC_OK) {
        sac_model_free(*out);
        return st;
    }
    sac_pool_free((*out)->pool);
    (*out)->pool = of->pool; /* it runs while the other waits */
    return SAC_OK;
}

sac_status sac_draft_model_find(sac_model **out, const sac_model *of, const sac_draft *draft, sac_error *err) {
    return sac_draft_models_find(of, draft->rest, open_model, out, err);
}
