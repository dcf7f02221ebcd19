/* faults_packed.c - faults of ops over packed keys and values. */
#include "even_tiles.h"
#include "faults.h"

#include <string.h>

/* Forgets the channels' factors of values. */
static sac_status packed_no_channel(const sac_stream *s, const sac_packed_attention_args *a) {
    sac_packed_attention_args b = *a;
    sac_packed_rows parts[CHECK_MAX_PARTS];
    for (int i = 0; i < a->n_parts; i++) {
        parts[i] = a->parts[i];
        parts[i].v_channel = NULL;
    }
    b.parts = parts;
    return ref().packed_attention(s, &b);
}

static sac_status pack_no_channel(const sac_stream *s, const sac_pack_rows_args *a) {
    sac_pack_rows_args b = *a;
    b.p.v_channel = NULL;
    return ref().pack_rows(s, &b);
}

/* The first rows in place of the chosen ones. */
static sac_status pack_channels_no_list(const sac_stream *s, const sac_pack_channels_args *a) {
    sac_pack_channels_args b = *a;
    b.rows.rows = NULL;
    return ref().pack_channels(s, &b);
}

static sac_status packed_step_no_last_row(const sac_stream *s, const sac_packed_step_args *a) {
    sac_packed_step_args b = *a;
    if (b.tail.n_rows > 1) b.tail.n_rows--;
    return ref().packed_step(s, &b);
}

/* Every row of the parts counts, however little it weighs. */
static sac_status packed_step_all_weights(const sac_stream *s, const sac_packed_step_args *a) {
    const float none[64] = {0};
    sac_packed_step_args b = *a;
    if (b.weights) b.least = none;
    return ref().packed_step(s, &b);
}

/* Every sequence has as much of a tail as the first one. */
static sac_status packed_step_many_one_tail(const sac_stream *s, const sac_packed_step_many_args *a) {
    sac_packed_step_args each[CHECK_MAX_MANY];
    for (int i = 0; i < a->n; i++) {
        each[i] = a->each[i];
        each[i].tail.n_rows = a->each[0].tail.n_rows;
    }
    return ref().packed_step_many(s, &(sac_packed_step_many_args){each, a->n});
}

/* Every row begins the copy anew. */
static sac_status pack_always_to_0(const sac_stream *s, const sac_pack_rows_args *a) {
    sac_pack_rows_args b = *a;
    b.to = 0;
    b.p.n = a->rows.n;
    return ref().pack_rows(s, &b);
}

/* What a word of values held is lost. */
static sac_status pack_clears_words(const sac_stream *s, const sac_pack_rows_args *a) {
    sac_packed_rows p = a->p;
    int64_t per_word = sac_packed_per_word(p.bits), n_words = (p.capacity + per_word - 1) / per_word;
    for (int head = 0; p.v && a->to % per_word && head < p.n_heads; head++)
        memset(p.v + (head * n_words + a->to / per_word) * p.head_dim, 0, (size_t)p.head_dim * sizeof *p.v);
    return ref().pack_rows(s, a);
}

/* The first rows of the part in place of those from `from` on. */
static sac_status unpack_from_0(const sac_stream *s, const sac_unpack_rows_args *a) {
    sac_unpack_rows_args b = *a;
    b.from = 0;
    return ref().unpack_rows(s, &b);
}

/* Values are left out. */
static sac_status unpack_keys(const sac_stream *s, const sac_unpack_rows_args *a) {
    sac_unpack_rows_args b = *a;
    if (a->p.k) b.p.v = NULL;
    return ref().unpack_rows(s, &b);
}

static sac_status packed_scores_as_packed(const sac_stream *s, const sac_packed_scores_args *a) {
    sac_packed_scores_args b = *a;
    b.turn_back = NULL;
    return ref().packed_scores(s, &b);
}

/* Every head reads the first list. */
static sac_status packed_scores_first_list(const sac_stream *s, const sac_packed_scores_args *a) {
    sac_packed_scores_args b = *a;
    b.n_lists = 1;
    return ref().packed_scores(s, &b);
}

/* Keys for values. */
static sac_status factors_exchanged(const sac_stream *s, const sac_even_factors_args *a) {
    sac_even_factors_args b = *a;
    b.kv.k = a->kv.v, b.kv.v = a->kv.k;
    return ref().even_factors(s, &b);
}

/* The first tile's rows for all tiles. */
static sac_status pack_even_first_rows(const sac_stream *s, const sac_pack_even_args *a) {
    const size_t bytes = sac_even_tile_bytes(a->tiles.n_heads, a->tiles.head_dim, a->tiles.k_bits, a->tiles.v_bits);
    sac_pack_even_args b = *a;
    b.tiles.n = 1;
    for (int64_t i = 0; i < a->tiles.n; i++, b.tiles.at += bytes) SAC_TRY(ref().pack_even(s, &b));
    return SAC_OK;
}

static sac_status unpack_even_no_last(const sac_stream *s, const sac_unpack_even_args *a) {
    sac_unpack_even_args b = *a;
    b.tiles.n--;
    return ref().unpack_even(s, &b);
}

static sac_status even_step_no_first(const sac_stream *s, const sac_even_step_args *a) {
    sac_even_step_args b = *a;
    if (b.tiles[1].n + b.tail.n_rows) b.tiles[0].n = 0;
    return ref().even_step(s, &b);
}

static sac_status even_step_no_last_row(const sac_stream *s, const sac_even_step_args *a) {
    sac_even_step_args b = *a;
    if (b.tail.n_rows > 1) b.tail.n_rows--;
    return ref().even_step(s, &b);
}

#define FAULTS(X)                                                                                            \
    X("no_channel", packed_attention, packed_no_channel)                                                     \
    X("no_channel", pack_rows, pack_no_channel)                                                              \
    X("no_list", pack_channels, pack_channels_no_list)                                                       \
    X("no_last_row", packed_step, packed_step_no_last_row)                                                   \
    X("all_weights", packed_step, packed_step_all_weights)                                                   \
    X("one_tail", packed_step_many, packed_step_many_one_tail)                                               \
    X("always_to_0", pack_rows, pack_always_to_0)                                                            \
    X("clears_words", pack_rows, pack_clears_words)                                                          \
    X("from_0", unpack_rows, unpack_from_0)                                                                  \
    X("keys", unpack_rows, unpack_keys)                                                                      \
    X("exchanged", even_factors, factors_exchanged)                                                          \
    X("first_rows", pack_even, pack_even_first_rows)                                                         \
    X("no_last", unpack_even, unpack_even_no_last)                                                           \
    X("no_first", even_step, even_step_no_first)                                                             \
    X("no_last_row", even_step, even_step_no_last_row)                                                       \
    X("not_turned", packed_scores, packed_scores_as_packed)                                                  \
    X("first_list", packed_scores, packed_scores_first_list)

FAULT_LIST(check_faults_packed, FAULTS)
