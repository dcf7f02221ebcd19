/* bpe.h - byte-pair encoding of one word. Inside the tokenizer only.
 *
 * Merges lie in a list, 16 bytes each; a pair (left id, right id) is found through an open-addressing table,
 * at most 3/4 full, of 32-bit words: 10 bits of the hash, 22 bits of index + 1. A word's symbols form a
 * linked list; candidate pairs wait in a binary heap ordered by (rank, position), so a word of n symbols
 * costs O(n log n), also when it is a megabyte of one letter. */
#ifndef SAC_LLM_BPE_H
#define SAC_LLM_BPE_H

#include "tokenizer_buffer.h"
#include "tokenizer_vocab.h"

#include <stdbool.h>

#define SAC_BPE_LOW_CHARS  0x180 /* covers ASCII, Latin-1 and the characters that stand for bytes */

#define SAC_BPE_MAX_MERGES ((size_t)(1 << 22) - 2)

typedef struct sac_bpe_merge {
    int32_t left, right;
    uint32_t rank;
    int32_t merged; /* -1 = never merged */
} sac_bpe_merge;

typedef struct sac_bpe {
    sac_bpe_merge *merge; /* [n_merges] */
    size_t n_merges, merge_capacity;
    uint32_t *slot; /* 0 = empty */
    uint32_t slot_mask;
    int32_t char_id[SAC_BPE_LOW_CHARS]; /* by code point, -1 = no token */
    int32_t byte_id[256];               /* "<0x00>".. for byte fallback, -1 = no token */
    bool byte_fallback, fuse_unk, ignore_merges;
    bool wants_unk; /* an unknown token is named */
    int32_t unk_id; /* -1 = none: unknown characters are dropped, or an error when one is named */
} sac_bpe;

void sac_bpe_free(sac_bpe *b);
sac_status sac_bpe_reserve(sac_bpe *b, size_t n_merges, sac_error *err);
/* A pair given twice keeps the later rank. */
sac_status sac_bpe_add(sac_bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t merged,
                       sac_error *err);
/* Once the vocabulary is whole: the tables of single characters and bytes. */
void sac_bpe_index_chars(sac_bpe *b, const sac_vocab *v);

typedef struct sac_bpe_scratch {
    struct sac_bpe_symbol *symbol;
    size_t symbol_capacity;
    struct sac_bpe_candidate *heap;
    size_t heap_capacity, n_heap;
} sac_bpe_scratch;

void sac_bpe_scratch_free(sac_bpe_scratch *s);

/* text: valid UTF-8, less than 2^31 bytes. */
sac_status sac_bpe_word(const sac_bpe *b, const sac_vocab *v, sac_bpe_scratch *s, const char *text,
                        size_t n_bytes, sac_id_sink *out, sac_error *err);

#endif
