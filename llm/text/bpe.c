#include "bpe.h"

#include "utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PROBES 512

typedef struct sac_bpe_symbol {
    int32_t id;
    int32_t previous, next; /* -1 = none */
    bool alive;
} symbol;

typedef struct sac_bpe_candidate {
    uint32_t rank;
    int32_t position; /* of the left symbol */
    int32_t merged;
} candidate;

void sac_bpe_free(sac_bpe *b) {
    free(b->merge);
    free(b->slot);
    memset(b, 0, sizeof *b);
}

void sac_bpe_scratch_free(sac_bpe_scratch *s) {
    free(s->symbol);
    free(s->heap);
    memset(s, 0, sizeof *s);
}

/* ---- the pair table ---- */

#define INDEX_BITS 22
#define INDEX_MASK ((1u << INDEX_BITS) - 1)

static inline uint64_t pair_hash(int32_t left, int32_t right) {
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

static inline uint32_t tag_of(uint64_t hash) {
    return (uint32_t)(hash >> 54) << INDEX_BITS;
}

static sac_status grow_table(sac_bpe *b, size_t n_slots, sac_error *err) {
    uint32_t *slot = calloc(n_slots, sizeof *slot), mask = (uint32_t)(n_slots - 1);
    if (!slot) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu merge slots", n_slots);
    for (size_t k = 0; k < b->n_merges; k++) {
        uint64_t hash = pair_hash(b->merge[k].left, b->merge[k].right);
        uint32_t i = (uint32_t)hash & mask;
        while (slot[i]) i = (i + 1) & mask;
        slot[i] = tag_of(hash) | (uint32_t)(k + 1);
    }
    free(b->slot);
    b->slot = slot;
    b->slot_mask = mask;
    return SAC_OK;
}

sac_status sac_bpe_reserve(sac_bpe *b, size_t n_merges, sac_error *err) {
    if (n_merges > SAC_BPE_MAX_MERGES)
        return sac_fail(err, SAC_BAD_FILE, "more than %zu merges", SAC_BPE_MAX_MERGES);
    size_t n_slots = 64;
    while (n_slots / 4 * 3 < n_merges) n_slots *= 2;
    if (!b->slot || n_slots > (size_t)b->slot_mask + 1) SAC_TRY(grow_table(b, n_slots, err));
    if (n_merges <= b->merge_capacity) return SAC_OK;
    size_t capacity = n_merges < 2 * b->merge_capacity ? 2 * b->merge_capacity : n_merges;
    sac_bpe_merge *p = realloc(b->merge, capacity * sizeof *p);
    if (!p) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu merges", capacity);
    b->merge = p;
    b->merge_capacity = capacity;
    return SAC_OK;
}

sac_status sac_bpe_add(sac_bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t merged,
                       sac_error *err) {
    SAC_TRY(sac_bpe_reserve(b, b->n_merges + 1, err));
    sac_bpe_merge new = {left, right, rank, merged};
    uint64_t hash = pair_hash(left, right);
    uint32_t i = (uint32_t)hash & b->slot_mask;
    for (int probes = 0; b->slot[i]; i = (i + 1) & b->slot_mask) {
        sac_bpe_merge *old = &b->merge[(b->slot[i] & INDEX_MASK) - 1];
        if ((b->slot[i] & ~INDEX_MASK) == tag_of(hash) && old->left == left && old->right == right) {
            *old = new;
            return SAC_OK;
        }
        if (++probes == MAX_PROBES) return sac_fail(err, SAC_BAD_FILE, "the merges collide, as if made to");
    }
    b->merge[b->n_merges++] = new;
    b->slot[i] = tag_of(hash) | (uint32_t)b->n_merges;
    return SAC_OK;
}

static inline const sac_bpe_merge *find_pair(const sac_bpe *b, int32_t left, int32_t right) {
    if (!b->slot) return NULL;
    uint64_t hash = pair_hash(left, right);
    uint32_t tag = tag_of(hash);
    for (uint32_t i = (uint32_t)hash & b->slot_mask; b->slot[i]; i = (i + 1) & b->slot_mask) {
        const sac_bpe_merge *m = &b->merge[(b->slot[i] & INDEX_MASK) - 1];
        if ((b->slot[i] & ~INDEX_MASK) == tag && m->left == left && m->right == right) return m;
    }
    return NULL;
}

static int32_t find_text(const sac_vocab *v, const char *text, size_t n_bytes) {
    int32_t id = sac_vocab_find(v, text, n_bytes);
    return id >= 0 && sac_vocab_is_text(v, id) ? id : -1;
}

void sac_bpe_index_chars(sac_bpe *b, const sac_vocab *v) {
    for (uint32_t c = 0; c < SAC_BPE_LOW_CHARS; c++) {
        char text[4];
        b->char_id[c] = find_text(v, text, sac_utf8_encode(c, text));
    }
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        int n = snprintf(text, sizeof text, "<0x%02X>", byte);
        b->byte_id[byte] = sac_vocab_find(v, text, (size_t)n);
    }
}

/* ---- symbols ---- */

static void push_symbol(sac_bpe_scratch *s, size_t *n, int32_t id) {
    s->symbol[*n] = (symbol){id, (int32_t)*n - 1, (int32_t)*n + 1, true};
    ++*n;
}

/* Unknown characters wait in `unk` so that neighbours can be fused into one token. */
static sac_status push_unknown(const sac_bpe *b, sac_bpe_scratch *s, size_t *n, bool *unk, const char *text,
                               size_t n_bytes, sac_error *err) {
    if (!b->wants_unk) return SAC_OK;
    if (b->unk_id < 0)
        return sac_fail(
            err, SAC_BAD_FILE,
            "the tokenizer has no token for \"%.*s\" and its unknown token is not in its vocabulary",
            (int)n_bytes, text);
    if (*unk && !b->fuse_unk) push_symbol(s, n, b->unk_id);
    *unk = true;
    return SAC_OK;
}

static bool push_bytes(const sac_bpe *b, sac_bpe_scratch *s, size_t *n, const char *text, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes; i++)
        if (b->byte_id[(unsigned char)text[i]] < 0) return false;
    for (size_t i = 0; i < n_bytes; i++) push_symbol(s, n, b->byte_id[(unsigned char)text[i]]);
    return true;
}

/* One symbol a character; `tokenizers` puts pending unknowns before the next known character only, hence
 * behind byte tokens, and so does this. */
static sac_status split_chars(const sac_bpe *b, const sac_vocab *v, sac_bpe_scratch *s, const char *text,
                              size_t n_bytes, size_t *n, sac_error *err) {
    bool unk = false;
    *n = 0;
    for (const char *p = text, *end = text + n_bytes; p < end;) {
        size_t len = sac_utf8_length(*p);
        uint32_t c = sac_utf8_decode(p);
        int32_t id = c < SAC_BPE_LOW_CHARS ? b->char_id[c] : find_text(v, p, len);
        if (id >= 0) {
            if (unk) push_symbol(s, n, b->unk_id);
            unk = false;
            push_symbol(s, n, id);
        } else if (!b->byte_fallback || !push_bytes(b, s, n, p, len)) {
            SAC_TRY(push_unknown(b, s, n, &unk, p, len, err));
        }
        p += len;
    }
    if (unk) push_symbol(s, n, b->unk_id);
    if (*n) s->symbol[*n - 1].next = -1;
    return SAC_OK;
}

/* ---- the heap ---- */

static inline bool before(candidate a, candidate b) {
    return a.rank != b.rank ? a.rank < b.rank : a.position < b.position;
}

static void heap_push(sac_bpe_scratch *s, candidate c) {
    size_t i = s->n_heap++;
    while (i > 0 && before(c, s->heap[(i - 1) / 2])) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = c;
}

static candidate heap_pop(sac_bpe_scratch *s) {
    candidate top = s->heap[0], last = s->heap[--s->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < s->n_heap; i = child) {
        if (child + 1 < s->n_heap && before(s->heap[child + 1], s->heap[child])) child++;
        if (!before(s->heap[child], last)) break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return top;
}

static void offer(const sac_bpe *b, sac_bpe_scratch *s, int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const sac_bpe_merge *p = find_pair(b, s->symbol[left].id, s->symbol[right].id);
    if (p && p->merged >= 0) heap_push(s, (candidate){p->rank, left, p->merged});
}

static void merge_all(const sac_bpe *b, sac_bpe_scratch *s, size_t n) {
    s->n_heap = 0;
    for (size_t i = 0; i + 1 < n; i++) offer(b, s, (int32_t)i, (int32_t)i + 1);
    while (s->n_heap) {
        candidate c = heap_pop(s);
        symbol *left = &s->symbol[c.position];
        if (!left->alive || left->next < 0) continue;
        symbol *right = &s->symbol[left->next];
        const sac_bpe_merge *p = find_pair(b, left->id, right->id);
        if (!p || p->merged != c.merged) continue; /* one of the two has been merged elsewhere since */
        left->id = c.merged;
        left->next = right->next;
        right->alive = false;
        if (left->next >= 0) s->symbol[left->next].previous = c.position;
        offer(b, s, left->previous, c.position);
        offer(b, s, c.position, left->next);
    }
}

/* A merge ends one candidate and offers at most two, so n symbols never have more than 2n waiting. */
static sac_status make_room(sac_bpe_scratch *s, size_t n, sac_error *err) {
    if (n > s->symbol_capacity) {
        size_t capacity = n < 256 ? 256 : n + n / 2;
        symbol *p = realloc(s->symbol, capacity * sizeof *p);
        if (!p) return sac_fail(err, SAC_NO_MEMORY, "no memory for a word of %zu symbols", n);
        s->symbol = p;
        s->symbol_capacity = capacity;
    }
    if (2 * n > s->heap_capacity) {
        size_t capacity = n < 256 ? 512 : 3 * n;
        candidate *p = realloc(s->heap, capacity * sizeof *p);
        if (!p) return sac_fail(err, SAC_NO_MEMORY, "no memory for a word of %zu symbols", n);
        s->heap = p;
        s->heap_capacity = capacity;
    }
    return SAC_OK;
}

sac_status sac_bpe_word(const sac_bpe *b, const sac_vocab *v, sac_bpe_scratch *s, const char *text,
                        size_t n_bytes, sac_id_sink *out, sac_error *err) {
    if (b->ignore_merges) {
        int32_t id = find_text(v, text, n_bytes);
        if (id >= 0) {
            sac_emit(out, id);
            return SAC_OK;
        }
    }
    size_t n;
    SAC_TRY(make_room(s, n_bytes, err));
    SAC_TRY(split_chars(b, v, s, text, n_bytes, &n, err));
    if (n == 0) return SAC_OK;
    merge_all(b, s, n);
    for (int32_t i = 0; i >= 0; i = s->symbol[i].next) sac_emit(out, s->symbol[i].id);
    return SAC_OK;
}
