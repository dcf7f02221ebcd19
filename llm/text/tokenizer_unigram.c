/* tokenizer_unigram.c - the Unigram model: the segmentation with the highest sum of scores (Kudo 2018).
 *
 * Viterbi over byte positions, as SentencePiece's EncodeOptimized and `tokenizers` do it: one node a position
 * with the best way to end there; a character that no one-character piece covers may be unknown at a score 10
 * below the lowest. Neighbouring unknowns are fused. Sums run in double, in the same order. */
#include "tokenizer_impl.h"

#include "utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_PENALTY 10.0

typedef struct sac_lattice_node {
    double score;
    uint32_t starts_at; /* of the piece that ends here */
    uint32_t next;      /* where the piece of the best path that starts here ends */
    int32_t id;         /* of the piece that ends here */
    bool reached;
} node;

void sac_unigram_free(sac_unigram *u) {
    free(u->score);
    sac_prefix_set_free(&u->pieces);
    memset(u, 0, sizeof *u);
}

void sac_unigram_scratch_free(sac_unigram_scratch *s) {
    free(s->node);
    memset(s, 0, sizeof *s);
}

sac_status sac_unigram_index(sac_unigram *u, const sac_vocab *v, sac_error *err) {
    sac_prefix_entry *entry = calloc(u->n ? (size_t)u->n : 1, sizeof *entry);
    if (!entry) return sac_fail(err, SAC_NO_MEMORY, "no memory for %d pieces", (int)u->n);
    size_t n = 0;
    double lowest = 0;
    for (int32_t id = 0; id < u->n; id++) {
        if (id == 0 || u->score[id] < lowest) lowest = u->score[id];
        if (sac_vocab_is_text(v, id))
            entry[n++] = (sac_prefix_entry){sac_vocab_text(v, id), v->token[id].n_bytes, id};
    }
    sac_prefix_set_make(&u->pieces, entry, n);
    u->unk_score = lowest - UNKNOWN_PENALTY;
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        int length = snprintf(text, sizeof text, "<0x%02X>", byte);
        u->byte_id[byte] = sac_vocab_find(v, text, (size_t)length);
    }
    return SAC_OK;
}

static void reach(node *to, double score, size_t starts_at, int32_t id) {
    if (to->reached && !(score > to->score)) return;
    *to = (node){.score = score, .starts_at = (uint32_t)starts_at, .id = id, .reached = true};
}

static void fill_lattice(const sac_unigram *u, node *best, const char *text, size_t n_bytes) {
    memset(best, 0, (n_bytes + 1) * sizeof *best);
    for (size_t at = 0, char_bytes; at < n_bytes; at += char_bytes) {
        char_bytes = sac_utf8_length(text[at]);
        bool covered = false;
        sac_prefix_walk w = sac_prefix_start();
        while (at + w.depth < n_bytes && sac_prefix_step(&u->pieces, &w, text[at + w.depth])) {
            int32_t id = sac_prefix_here(&u->pieces, &w);
            if (id < 0) continue;
            reach(&best[at + w.depth], u->score[id] + best[at].score, at, id);
            covered = covered || w.depth == char_bytes;
        }
        if (!covered) reach(&best[at + char_bytes], u->unk_score + best[at].score, at, u->unk_id);
    }
}

static sac_status emit_unknown(const sac_unigram *u, const sac_vocab *v, const char *text, size_t n_bytes,
                               sac_id_sink *out, sac_error *err) {
    int32_t id = sac_vocab_find(v, text, n_bytes); /* unknown characters may together spell a piece */
    if (id >= 0 && sac_vocab_is_text(v, id)) {
        sac_emit(out, id);
        return SAC_OK;
    }
    bool bytes = u->byte_fallback;
    for (size_t i = 0; bytes && i < n_bytes; i++) bytes = u->byte_id[(unsigned char)text[i]] >= 0;
    for (size_t i = 0; bytes && i < n_bytes; i++) sac_emit(out, u->byte_id[(unsigned char)text[i]]);
    if (bytes) return SAC_OK;
    if (u->unk_id < 0)
        return sac_fail(err, SAC_BAD_FILE, "the tokenizer has no token for \"%.*s\" and no unknown token",
                        (int)(n_bytes < 40 ? n_bytes : 40), text);
    sac_emit(out, u->unk_id);
    return SAC_OK;
}

sac_status sac_unigram_word(const sac_unigram *u, const sac_vocab *v, sac_unigram_scratch *s,
                            const char *text, size_t n_bytes, sac_id_sink *out, sac_error *err) {
    if (s->capacity < n_bytes + 1) {
        size_t capacity = (n_bytes + 1) + (n_bytes + 1) / 2;
        node *p = realloc(s->node, capacity * sizeof *p);
        if (!p) return sac_fail(err, SAC_NO_MEMORY, "no memory for a word of %zu bytes", n_bytes);
        s->node = p;
        s->capacity = capacity;
    }
    node *best = s->node;
    fill_lattice(u, best, text, n_bytes);
    for (uint32_t end = (uint32_t)n_bytes; end > 0; end = best[end].starts_at)
        best[best[end].starts_at].next = end;
    for (uint32_t at = 0, end; at < n_bytes; at = end) {
        end = best[at].next;
        if (best[end].id != u->unk_id) {
            sac_emit(out, best[end].id);
            continue;
        }
        while (end < n_bytes && best[best[end].next].id == u->unk_id) end = best[end].next;
        SAC_TRY(emit_unknown(u, v, text + at, end - at, out, err));
    }
    return SAC_OK;
}
