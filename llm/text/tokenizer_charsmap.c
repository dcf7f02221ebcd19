/* tokenizer_charsmap.c - normaliser "Precompiled": SentencePiece's table of character replacements.
 *
 * The table is base64 of: u32 size of the trie in bytes, the trie (a darts-clone double array of u32 units),
 * then the replacements, each ended by NUL. As in `tokenizers`: a grapheme of fewer than 6 bytes is looked up
 * whole, otherwise or if that fails each of its characters; the shortest key that is a prefix decides. */
#include "tokenizer_impl.h"

#include "utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define MAX_CHARSMAP_BYTES ((size_t)16 << 20)

struct sac_charsmap {
    uint32_t *unit;
    size_t n_units;
    char *text; /* ends in NUL */
    size_t text_bytes;
};

static int sextet(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Number of bytes written, or SIZE_MAX. out: 3 bytes for every 4 of text. */
static size_t decode_base64(const char *text, size_t n, unsigned char *out) {
    size_t n_out = 0;
    if (n % 4) return SIZE_MAX;
    for (size_t i = 0; i < n; i += 4) {
        int pad = i + 4 == n ? (text[i + 3] == '=') + (text[i + 2] == '=' && text[i + 3] == '=') : 0;
        uint32_t w = 0;
        for (size_t k = 0; k < 4; k++) {
            int v = k >= 4 - (size_t)pad ? 0 : sextet(text[i + k]);
            if (v < 0) return SIZE_MAX;
            w = w << 6 | (uint32_t)v;
        }
        out[n_out++] = (unsigned char)(w >> 16);
        if (pad < 2) out[n_out++] = (unsigned char)(w >> 8);
        if (pad < 1) out[n_out++] = (unsigned char)w;
    }
    return n_out;
}

static uint32_t u32_at(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static sac_status unpack(sac_charsmap *m, const unsigned char *bytes, size_t n_bytes, sac_error *err) {
    size_t trie_bytes = n_bytes >= 4 ? u32_at(bytes) : 0;
    if (n_bytes < 4 || trie_bytes > n_bytes - 4 || trie_bytes % 4 || trie_bytes == 0)
        return sac_fail(err, SAC_BAD_FILE, "precompiled_charsmap: a table of %zu bytes cannot hold its trie",
                        n_bytes);
    m->n_units = trie_bytes / 4;
    m->text_bytes = n_bytes - 4 - trie_bytes + 1;
    m->unit = malloc(trie_bytes);
    m->text = malloc(m->text_bytes);
    if (!m->unit || !m->text) return sac_fail(err, SAC_NO_MEMORY, "no memory for precompiled_charsmap");
    for (size_t i = 0; i < m->n_units; i++) m->unit[i] = u32_at(bytes + 4 + 4 * i);
    memcpy(m->text, bytes + 4 + trie_bytes, m->text_bytes - 1);
    m->text[m->text_bytes - 1] = 0;
    if (!sac_utf8_valid(m->text, m->text_bytes - 1))
        return sac_fail(err, SAC_BAD_FILE, "precompiled_charsmap: its replacements are not UTF-8");
    return SAC_OK;
}

sac_status sac_charsmap_open(sac_charsmap **out, const char *base64, size_t n_bytes, sac_error *err) {
    *out = NULL;
    if (n_bytes > MAX_CHARSMAP_BYTES)
        return sac_fail(err, SAC_BAD_FILE, "precompiled_charsmap: %zu bytes are more than %zu", n_bytes,
                        MAX_CHARSMAP_BYTES);
    sac_charsmap *m = calloc(1, sizeof *m);
    unsigned char *bytes = malloc(n_bytes / 4 * 3 + 3);
    sac_status st = SAC_OK;
    if (!m || !bytes) st = sac_fail(err, SAC_NO_MEMORY, "no memory for precompiled_charsmap");
    size_t n = st == SAC_OK ? decode_base64(base64, n_bytes, bytes) : 0;
    if (st == SAC_OK && n == SIZE_MAX) st = sac_fail(err, SAC_BAD_FILE, "precompiled_charsmap: not base64");
    if (st == SAC_OK) st = unpack(m, bytes, n, err);
    free(bytes);
    if (st == SAC_OK)
        *out = m;
    else
        sac_charsmap_free(m);
    return st;
}

void sac_charsmap_free(sac_charsmap *m) {
    if (!m) return;
    free(m->unit);
    free(m->text);
    free(m);
}

static uint32_t unit_offset(uint32_t unit) {
    return unit >> 10 << ((unit & 1u << 9) >> 6);
}

/* The replacement for the shortest key that begins the text, or NULL. A trie that leads out of itself has
 * none. */
static const char *look_up(const sac_charsmap *m, const char *text, size_t n_bytes) {
    uint32_t at = unit_offset(m->unit[0]);
    for (size_t i = 0; i < n_bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        at ^= c;
        if (c == 0 || at >= m->n_units) return NULL;
        uint32_t unit = m->unit[at];
        if ((unit & (1u << 31 | 0xff)) != c) return NULL;
        at ^= unit_offset(unit);
        if (unit >> 8 & 1) {
            uint32_t value = at < m->n_units ? m->unit[at] & ~(1u << 31) : UINT32_MAX;
            bool usable = value < m->text_bytes && !sac_utf8_continues(m->text[value]);
            return usable ? m->text + value : NULL;
        }
    }
    return NULL;
}

static sac_status map_grapheme(const sac_charsmap *m, sac_buffer *out, const char *text, size_t n_bytes,
                               sac_error *err) {
    const char *to = n_bytes < 6 ? look_up(m, text, n_bytes) : NULL;
    if (to) return sac_buffer_add(out, to, strlen(to), err);
    for (size_t i = 0, n; i < n_bytes; i += n) {
        n = sac_utf8_length(text[i]);
        to = look_up(m, text + i, n);
        SAC_TRY(sac_buffer_add(out, to ? to : text + i, to ? strlen(to) : n, err));
    }
    return SAC_OK;
}

sac_status sac_charsmap_apply(const sac_charsmap *m, sac_buffer *out, const char *text, size_t n_bytes,
                              sac_error *err) {
    utf8proc_int32_t state = 0;
    for (size_t from = 0, to; from < n_bytes; from = to) {
        to = from + sac_utf8_length(text[from]);
        utf8proc_int32_t last = (utf8proc_int32_t)sac_utf8_decode(text + from);
        while (to < n_bytes) {
            utf8proc_int32_t next = (utf8proc_int32_t)sac_utf8_decode(text + to);
            if (utf8proc_grapheme_break_stateful(last, next, &state)) break;
            to += sac_utf8_length(text[to]);
            last = next;
        }
        SAC_TRY(map_grapheme(m, out, text + from, to - from, err));
    }
    return SAC_OK;
}
