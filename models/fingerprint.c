/* fingerprint.c - one hash for all that the embeddings of a picture depend on: the configuration files, and
 * name, type, shape and bytes of every tensor of tower, projector and newline.
 *
 * Up to 64 MB of such weights are hashed whole (a few ms per 10 MB). Of larger ones, 4 KB out of every 64 KB
 * of each tensor, together with size and time stamp of the files: 25 ms instead of half a second for a CLIP-L
 * tower. A fine-tune changes nearly every page of what it trains; to collide, two models would have to differ
 * only between the samples, in files of the same size and nanosecond.
 *
 * sac_loaded_model_rows_fingerprint hashes the language half besides, in the same way, but of large weights only 4 KB out
 * of each MB: 15 GB take 60 MB of reading. */
#define _POSIX_C_SOURCE 200809L
#include "model_load.h"

#include <stdlib.h>
#include <sys/stat.h>

#define WHOLE_BYTES  ((size_t)64 << 20)
#define SAMPLE_BYTES 4096
#define SAMPLE_STEP  ((size_t)64 << 10)
#define ROWS_STEP    ((size_t)1 << 20)

static bool hash_json(sac_sha256 *h, const json_t *v) {
    char *text = json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    if (!text) return false;
    sac_sha256_update(h, text, strlen(text) + 1);
    free(text);
    return true;
}

sac_status sac_load_hash_json(sac_load_context *l, const json_t *v) {
    if (hash_json(l->hash, v)) return SAC_OK;
    return sac_fail(l->err, SAC_NO_MEMORY, "%s: no memory for its configuration", l->path);
}

static bool has_prefix(const char *s, const char *prefix) {
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Everything that is not the language model's: names differ by family, these parts do not. */
static bool is_visual(const sac_checkpoint_tensor *t) {
    static const char *const text[] = {"language_model.", "model.language_model.", "lm_head.",
                                       "model.layers.",   "model.embed_tokens.",   "model.norm.",
                                       /* GGUF's */
                                       "blk.", "token_embd.", "output", "rope_freqs."};
    for (size_t i = 0; i < SAC_COUNT(text); i++)
        if (has_prefix(t->name, text[i])) return has_prefix(t->name, "language_model.model.image_newline");
    return true;
}

/* step 0: all of its bytes. */
static void hash_tensor(sac_sha256 *h, const sac_checkpoint_tensor *t, size_t step) {
    sac_sha256_update(h, t->name, strlen(t->name) + 1);
    sac_sha256_update(h, t->dtype_name, strlen(t->dtype_name) + 1);
    sac_sha256_update(h, t->dim, (size_t)t->n_dims * sizeof t->dim[0]);
    if (!step) {
        sac_sha256_update(h, t->data, t->n_bytes);
        return;
    }
    for (size_t at = 0; at < t->n_bytes; at += step)
        sac_sha256_update(h, t->data + at, t->n_bytes - at < SAMPLE_BYTES ? t->n_bytes - at : SAMPLE_BYTES);
}

static void hash_stamps(sac_sha256 *h, const sac_checkpoint *c) {
    for (int i = 0; i < c->n_files; i++) {
        struct stat st;
        if (stat(c->files[i].path, &st) != 0) continue;
        int64_t stamp[3] = {(int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec, (int64_t)st.st_mtim.tv_nsec};
        sac_sha256_update(h, stamp, sizeof stamp);
    }
}

static size_t visual_bytes(const sac_checkpoint *c) {
    size_t n = 0;
    for (int i = 0; i < c->n_tensors; i++)
        if (is_visual(&c->tensors[i])) n += c->tensors[i].n_bytes;
    return n;
}

static void hash_all(sac_sha256 *h, const sac_checkpoint *c, size_t step) {
    size_t n_bytes = 0;
    for (int k = 0; k < c->n_tensors; k++) n_bytes += c->tensors[k].n_bytes;
    for (int k = 0; k < c->n_tensors; k++) hash_tensor(h, &c->tensors[k], n_bytes <= WHOLE_BYTES ? 0 : step);
    if (n_bytes > WHOLE_BYTES) hash_stamps(h, c);
}

static void hash_adapter(sac_sha256 *h, const sac_adapter *a) {
    sac_sha256_update(h, &a->scale, sizeof a->scale);
    hash_all(h, &a->tensors, SAMPLE_STEP);
}

/* Whatever they touch: the products are added to weights that are hashed as the files have them. */
static void hash_adapters(sac_load_context *l) {
    const sac_adapters *list = &l->files->adapters;
    for (int i = 0; i < list->n; i++) hash_adapter(l->hash, &list->item[i]);
}

sac_status sac_load_fingerprint(sac_load_context *l) {
    const sac_checkpoint *parts[] = {&l->files->weights, &l->files->tower};
    bool whole = visual_bytes(parts[0]) + visual_bytes(parts[1]) <= WHOLE_BYTES;
    for (int k = 0; k < 2 && l->m->has_vision; k++) {
        for (int i = 0; i < parts[k]->n_tensors; i++)
            if (is_visual(&parts[k]->tensors[i])) hash_tensor(l->hash, &parts[k]->tensors[i], whole ? 0 : SAMPLE_STEP);
        if (!whole) hash_stamps(l->hash, parts[k]);
    }
    hash_adapters(l);
    sac_sha256_finish(l->hash, l->m->fingerprint);
    l->hash = NULL;
    return SAC_OK;
}

/* Sequences know it by its number. */
static bool hash_kept_adapter(sac_sha256 *h, const sac_kept_adapter *k) {
    sac_sha256_update(h, &k->number, sizeof k->number);
    sac_sha256_update(h, &k->adapter.alpha, sizeof k->adapter.alpha);
    hash_adapter(h, &k->adapter);
    return !k->adapter.config || hash_json(h, k->adapter.config);
}

sac_status sac_loaded_model_rows_fingerprint(const sac_loaded_model *m, uint8_t hash[32], sac_error *err) {
    const sac_model_files *files = m->checkpoint;
    bool ok = true;
    sac_sha256 *h;
    SAC_TRY(sac_sha256_open(&h, err));
    sac_sha256_update(h, m->fingerprint, sizeof m->fingerprint);
    hash_all(h, &files->weights, ROWS_STEP);
    for (int i = 0; i < files->kept.n; i++) ok = hash_kept_adapter(h, &files->kept.item[i]) && ok;
    sac_sha256_finish(h, hash);
    return ok ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "no memory for the configuration of an adapter");
}
