#include "tokenizer_vocab.h"

#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PROBES 512 /* real vocabularies of up to 256,000 tokens need fewer than 40 */

/* Multiply-and-fold over 8 bytes at a time; the last, short piece is read as two overlapping halves. */
static uint64_t hash_bytes(const char *p, size_t n) {
    const uint64_t k = 0x9e3779b97f4a7c15u;
    uint64_t h = n * k, w = 0;
    for (; n > 8; p += 8, n -= 8) {
        memcpy(&w, p, 8);
        h = (h ^ w) * k;
        h ^= h >> 32;
    }
    if (n >= 4) {
        uint32_t a, b;
        memcpy(&a, p, 4);
        memcpy(&b, p + n - 4, 4);
        w = (uint64_t)a << 32 | b;
    } else if (n > 0) {
        const unsigned char *b = (const unsigned char *)p;
        w = (uint64_t)b[0] << 16 | (uint64_t)b[n / 2] << 8 | b[n - 1];
    }
    h = (h ^ w) * k;
    return h ^ h >> 29;
}

static void place(sac_vocab_slot *slot, uint32_t mask, sac_vocab_slot entry) {
    uint32_t i = entry.hash & mask;
    while (slot[i].id_plus_1) i = (i + 1) & mask;
    slot[i] = entry;
}

static sac_status grow_table(sac_vocab *v, size_t n_slots, sac_error *err) {
    sac_vocab_slot *slot = calloc(n_slots, sizeof *slot);
    if (!slot) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu vocabulary slots", n_slots);
    uint32_t mask = (uint32_t)(n_slots - 1);
    for (size_t i = 0; v->slot && i <= v->slot_mask; i++)
        if (v->slot[i].id_plus_1) place(slot, mask, v->slot[i]);
    free(v->slot);
    v->slot = slot;
    v->slot_mask = mask;
    return SAC_OK;
}

static sac_status grow_tokens(sac_vocab *v, size_t n, sac_error *err) {
    if (n <= (size_t)v->token_capacity) return SAC_OK;
    if (n < (size_t)v->token_capacity * 2) n = (size_t)v->token_capacity * 2;
    if (n > (size_t)SAC_MAX_TOKENS_OF_VOCAB) n = (size_t)SAC_MAX_TOKENS_OF_VOCAB;
    sac_vocab_token *token = realloc(v->token, n * sizeof *token);
    if (!token) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu tokens", n);
    memset(token + v->token_capacity, 0, (n - (size_t)v->token_capacity) * sizeof *token);
    v->token = token;
    v->token_capacity = (int32_t)n;
    return SAC_OK;
}

static sac_status grow_text(sac_vocab *v, size_t n, sac_error *err) {
    if (n <= v->text_capacity) return SAC_OK;
    if (n < v->text_capacity * 2) n = v->text_capacity * 2;
    char *text = realloc(v->text, n);
    if (!text) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu bytes of token texts", n);
    v->text = text;
    v->text_capacity = n;
    return SAC_OK;
}

sac_status sac_vocab_reserve(sac_vocab *v, size_t n_tokens, size_t text_bytes, sac_error *err) {
    if (n_tokens > (size_t)SAC_MAX_TOKENS_OF_VOCAB) n_tokens = (size_t)SAC_MAX_TOKENS_OF_VOCAB;
    size_t n_slots = 64;
    while (n_slots < n_tokens * 2) n_slots *= 2;
    if (!v->slot || n_slots > (size_t)v->slot_mask + 1) SAC_TRY(grow_table(v, n_slots, err));
    SAC_TRY(grow_tokens(v, n_tokens, err));
    return grow_text(v, text_bytes, err);
}

void sac_vocab_free(sac_vocab *v) {
    free(v->text);
    free(v->token);
    free(v->slot);
    memset(v, 0, sizeof *v);
}

static bool same_text(const sac_vocab *v, int32_t id, const char *text, size_t n_bytes) {
    return v->token[id].n_bytes == n_bytes && memcmp(sac_vocab_text(v, id), text, n_bytes) == 0;
}

int32_t sac_vocab_find(const sac_vocab *v, const char *text, size_t n_bytes) {
    if (!v->slot || n_bytes > SAC_MAX_TOKEN_BYTES) return -1;
    uint32_t hash = (uint32_t)hash_bytes(text, n_bytes);
    for (uint32_t i = hash & v->slot_mask; v->slot[i].id_plus_1; i = (i + 1) & v->slot_mask)
        if (v->slot[i].hash == hash && same_text(v, v->slot[i].id_plus_1 - 1, text, n_bytes))
            return v->slot[i].id_plus_1 - 1;
    return -1;
}

/* Puts the new token `id` (its text is in place) into the table. */
static sac_status insert(sac_vocab *v, int32_t id, sac_error *err) {
    const char *text = sac_vocab_text(v, id);
    size_t n_bytes = v->token[id].n_bytes;
    uint32_t hash = (uint32_t)hash_bytes(text, n_bytes), i = hash & v->slot_mask;
    for (int probes = 0; v->slot[i].id_plus_1; i = (i + 1) & v->slot_mask) {
        int32_t other = v->slot[i].id_plus_1 - 1;
        if (v->slot[i].hash == hash && same_text(v, other, text, n_bytes))
            return sac_fail(err, SAC_BAD_FILE, "token \"%.*s\" has two ids, %d and %d", (int)(n_bytes < 80 ? n_bytes : 80),
                            text, (int)other, (int)id);
        if (++probes == MAX_PROBES)
            return sac_fail(err, SAC_BAD_FILE, "the vocabulary's texts collide, as if made to");
    }
    v->slot[i] = (sac_vocab_slot){hash, id + 1};
    return SAC_OK;
}

sac_status sac_vocab_add(sac_vocab *v, int64_t id, const char *text, size_t n_bytes, unsigned flags,
                         sac_error *err) {
    if (id < 0 || id >= SAC_MAX_TOKENS_OF_VOCAB)
        return sac_fail(err, SAC_BAD_FILE, "token id %lld is not between 0 and %d", (long long)id,
                        (int)SAC_MAX_TOKENS_OF_VOCAB - 1);
    if (n_bytes == 0 || n_bytes > SAC_MAX_TOKEN_BYTES)
        return sac_fail(err, SAC_BAD_FILE, "token %lld has a text of %zu bytes, must be 1 to %d", (long long)id, n_bytes,
                        SAC_MAX_TOKEN_BYTES);
    if (v->text_bytes + n_bytes > UINT32_MAX)
        return sac_fail(err, SAC_BAD_FILE, "the token texts together are longer than 4 GiB");
    if (!v->slot || (size_t)v->n_tokens * 2 > v->slot_mask)
        SAC_TRY(grow_table(v, v->slot ? 2 * ((size_t)v->slot_mask + 1) : 64, err));
    SAC_TRY(grow_tokens(v, (size_t)id + 1, err));
    SAC_TRY(grow_text(v, v->text_bytes + n_bytes, err));
    sac_vocab_token *t = &v->token[id];
    if (t->flags)
        return sac_fail(err, SAC_BAD_FILE, "id %lld stands for two tokens, \"%.*s\" and \"%.*s\"", (long long)id,
                        t->n_bytes < 60 ? t->n_bytes : 60, v->text + t->offset, (int)(n_bytes < 60 ? n_bytes : 60), text);
    memcpy(v->text + v->text_bytes, text, n_bytes);
    *t = (sac_vocab_token){(uint32_t)v->text_bytes, (uint16_t)n_bytes, (uint16_t)(flags | SAC_VOCAB_PRESENT)};
    v->text_bytes += n_bytes;
    if (n_bytes > v->longest_bytes) v->longest_bytes = n_bytes;
    if (id >= v->n_ids) v->n_ids = (int32_t)id + 1;
    v->n_tokens++;
    return insert(v, (int32_t)id, err);
}
