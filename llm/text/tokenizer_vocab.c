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

#define ID_BITS 22
#define ID_MASK ((1u << ID_BITS) - 1)
_Static_assert(SAC_MAX_TOKENS_OF_VOCAB <= (int32_t)ID_MASK, "a slot holds id + 1");

static uint32_t tag_of(uint64_t hash) { /* bits that the place in the table does not already tell */
    return (uint32_t)(hash >> 54) << ID_BITS;
}

/* Slots for n tokens at 3/4 full. */
static size_t slots_for(size_t n) {
    size_t n_slots = 64;
    while (n_slots / 4 * 3 < n) n_slots *= 2;
    return n_slots;
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

uint64_t sac_vocab_ask(const sac_vocab *v, const char *text, size_t n_bytes) {
    uint64_t hash = hash_bytes(text, n_bytes);
    if (v->slot) __builtin_prefetch(&v->slot[(uint32_t)hash & v->slot_mask]);
    return hash;
}

int32_t sac_vocab_answer(const sac_vocab *v, uint64_t hash, const char *text, size_t n_bytes) {
    if (!v->slot || n_bytes > SAC_MAX_TOKEN_BYTES) return -1;
    uint32_t tag = tag_of(hash);
    for (uint32_t i = (uint32_t)hash & v->slot_mask; v->slot[i]; i = (i + 1) & v->slot_mask) {
        int32_t id = (int32_t)(v->slot[i] & ID_MASK) - 1;
        if ((v->slot[i] & ~ID_MASK) == tag && same_text(v, id, text, n_bytes)) return id;
    }
    return -1;
}

int32_t sac_vocab_find(const sac_vocab *v, const char *text, size_t n_bytes) {
    return sac_vocab_answer(v, hash_bytes(text, n_bytes), text, n_bytes);
}

sac_status sac_vocab_add(sac_vocab *v, int64_t id, const char *text, size_t n_bytes, unsigned flags,
                         sac_error *err) {
    if (id < 0 || id >= SAC_MAX_TOKENS_OF_VOCAB)
        return sac_fail(err, SAC_BAD_FILE, "token id %lld is not between 0 and %d", (long long)id,
                        (int)SAC_MAX_TOKENS_OF_VOCAB - 1);
    if (n_bytes == 0 || n_bytes > SAC_MAX_TOKEN_BYTES)
        return sac_fail(err, SAC_BAD_FILE, "token %lld has a text of %zu bytes, must be 1 to %d",
                        (long long)id, n_bytes, SAC_MAX_TOKEN_BYTES);
    if (v->text_bytes + n_bytes > UINT32_MAX)
        return sac_fail(err, SAC_BAD_FILE, "the token texts together are longer than 4 GiB");
    SAC_TRY(grow_tokens(v, (size_t)id + 1, err));
    SAC_TRY(grow_text(v, v->text_bytes + n_bytes, err));
    sac_vocab_token *t = &v->token[id];
    if (t->flags)
        return sac_fail(err, SAC_BAD_FILE, "id %lld stands for two tokens, \"%.*s\" and \"%.*s\"",
                        (long long)id, t->n_bytes < 60 ? t->n_bytes : 60, v->text + t->offset,
                        (int)(n_bytes < 60 ? n_bytes : 60), text);
    memcpy(v->text + v->text_bytes, text, n_bytes);
    *t = (sac_vocab_token){(uint32_t)v->text_bytes, (uint16_t)n_bytes, (uint16_t)(flags | SAC_VOCAB_PRESENT)};
    v->text_bytes += n_bytes;
    if (n_bytes > v->longest_bytes) v->longest_bytes = n_bytes;
    if (id >= v->n_ids) v->n_ids = (int32_t)id + 1;
    v->n_tokens++;
    return SAC_OK;
}

/* Puts a token (its text is in place) into the table. */
static sac_status insert(sac_vocab *v, int32_t id, uint64_t hash, sac_error *err) {
    const char *text = sac_vocab_text(v, id);
    size_t n_bytes = v->token[id].n_bytes;
    uint32_t tag = tag_of(hash), i = (uint32_t)hash & v->slot_mask;
    for (int probes = 0; v->slot[i]; i = (i + 1) & v->slot_mask) {
        int32_t other = (int32_t)(v->slot[i] & ID_MASK) - 1;
        if ((v->slot[i] & ~ID_MASK) == tag && same_text(v, other, text, n_bytes))
            return sac_fail(err, SAC_BAD_FILE, "token \"%.*s\" has two ids, %d and %d",
                            (int)(n_bytes < 80 ? n_bytes : 80), text, (int)other, (int)id);
        if (++probes == MAX_PROBES)
            return sac_fail(err, SAC_BAD_FILE, "the vocabulary's texts collide, as if made to");
    }
    v->slot[i] = tag | (uint32_t)(id + 1);
    return SAC_OK;
}

/* The table is far larger than the cache's first levels and the places are random: they are asked for some
 * tokens ahead of their use. */
sac_status sac_vocab_index(sac_vocab *v, sac_error *err) {
    enum { AHEAD = 16 };
    uint64_t hash[AHEAD] = {0};
    size_t n_slots = slots_for((size_t)v->n_tokens + 1024);
    free(v->slot);
    v->slot = calloc(n_slots, sizeof *v->slot);
    if (!v->slot) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu vocabulary slots", n_slots);
    v->slot_mask = (uint32_t)(n_slots - 1);
    for (int32_t id = 0; id < v->n_ids + AHEAD; id++) {
        int32_t due = id - AHEAD;
        if (due >= 0 && v->token[due].flags) SAC_TRY(insert(v, due, hash[due % AHEAD], err));
        if (id >= v->n_ids || !v->token[id].flags) continue;
        hash[id % AHEAD] = hash_bytes(sac_vocab_text(v, id), v->token[id].n_bytes);
        __builtin_prefetch(&v->slot[(uint32_t)hash[id % AHEAD] & v->slot_mask], 1);
    }
    return SAC_OK;
}

sac_status sac_vocab_add_indexed(sac_vocab *v, int64_t id, const char *text, size_t n_bytes, unsigned flags,
                                 sac_error *err) {
    SAC_TRY(sac_vocab_add(v, id, text, n_bytes, flags, err));
    if (!v->slot || slots_for((size_t)v->n_tokens) > (size_t)v->slot_mask + 1) return sac_vocab_index(v, err);
    return insert(v, (int32_t)id, hash_bytes(text, n_bytes), err);
}
