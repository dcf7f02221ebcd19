/* tokenizer_tiktoken.c - tiktoken.model, the vocabulary of Kimi-VL, Moonlight and their kin: a line a token, its bytes in base64 and its
 * rank, which is its id. Pieces of a text become tokens as in OpenAI's tiktoken: a piece that is a token is that token; in others the
 * two neighbours that make the token of the lowest rank are joined, the leftmost first. How a text is cut into pieces, and which ids
 * behind the last rank are control tokens, stands in the published folders' tokenization_moonshot.py, whose rules these are:
 * tokenizer_config.json names some of 256, the others are reserved. */
#include "tokenizer_impl.h"

#include "base64.h"
#include "file_map.h"
#include "json.h"
#include "utf8.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_FILE = 64 << 20, MAX_BYTES = 512 /* of a token */, MAX_CUTS = 16 << 20 /* of all tokens in two */, N_CONTROL = 256 };

/* Runs of Han characters, words behind a character at most, numbers of three digits at most, signs, white space. A word's classes are there
 * [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]] and the like: here as all that they are not, because PCRE2 has no && and repeats a group
 * with a lookahead at the cost of stack. */
#define LARGE   "[^\\p{Han}\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}]"
#define SMALL   "[^\\p{Han}\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}]"
#define FRONT   "[^\\r\\n\\p{L}\\p{N}]?"
#define ENDING  "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
const char sac_kimi_split[] = "[\\p{Han}]+|" FRONT LARGE "*" SMALL "+" ENDING "|" FRONT LARGE "+" SMALL "*" ENDING
                              "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/* ---- the vocabulary ---- */

/* Bytes as the characters that stand for them. */
static size_t to_chars(const uint8_t *bytes, size_t n, char *out) {
    size_t used = 0;
    for (size_t i = 0; i < n; i++) used += sac_utf8_encode(sac_char_of_byte(bytes[i]), out + used);
    return used;
}

static sac_status bad_line(int64_t line, const char *what, sac_error *err) {
    return sac_fail(err, SAC_BAD_FILE, "line %lld: %s", (long long)line, what);
}

/* "QQ== 32" */
static sac_status read_line(sac_tokenizer *t, const char *text, size_t n, int64_t line, sac_error *err) {
    uint8_t bytes[MAX_BYTES + 4];
    char chars[2 * MAX_BYTES];
    size_t n_bytes = 0;
    const char *space = memchr(text, ' ', n);
    int64_t rank = 0;
    if (!space || space == text + n - 1) return bad_line(line, "not a token and its rank", err);
    const size_t coded = (size_t)(space - text);
    if (coded > (MAX_BYTES + 2) / 3 * 4) return bad_line(line, "a token of more than 512 bytes", err);
    if (!sac_base64_decode(text, coded, bytes, &n_bytes) || n_bytes == 0) return bad_line(line, "the token is not base64", err);
    if (n_bytes > MAX_BYTES) return bad_line(line, "a token of more than 512 bytes", err);
    for (const char *p = space + 1; p < text + n; p++) {
        if (*p < '0' || *p > '9') return bad_line(line, "the rank is not a number", err);
        rank = rank * 10 + (*p - '0');
        if (rank > SAC_MAX_TOKENS_OF_VOCAB) return bad_line(line, "the rank is too large", err);
    }
    sac_status st = sac_vocab_add(&t->vocab, rank, chars, to_chars(bytes, n_bytes, chars), SAC_VOCAB_MODEL, err);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "line %lld", (long long)line);
}

/* Ranks are those from 0 on without a gap, and every byte is a token. */
static sac_status check_ranks(const sac_tokenizer *t, sac_error *err) {
    for (int byte = 0; byte < 256; byte++) {
        const uint8_t one = (uint8_t)byte;
        char chars[4];
        if (sac_vocab_find(&t->vocab, chars, to_chars(&one, 1, chars)) < 0)
            return sac_fail(err, SAC_BAD_FILE, "no token for the byte 0x%02X", byte);
    }
    if (t->vocab.n_tokens == t->vocab.n_ids) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "%d tokens with ranks up to %d", t->vocab.n_tokens, t->vocab.n_ids - 1);
}

static sac_status read_ranks(sac_tokenizer *t, sac_text_span file, sac_error *err) {
    const char *p = file.text, *end = p + file.n_bytes;
    SAC_TRY(sac_vocab_reserve(&t->vocab, file.n_bytes / 20, file.n_bytes / 2, err));
    for (int64_t line = 1; p < end; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);
        const size_t with_end = n;
        if (n && p[n - 1] == '\r') n--;
        if (n) SAC_TRY(read_line(t, p, n, line, err));
        p += with_end + (stop ? 1 : 0);
    }
    SAC_TRY(sac_vocab_index(&t->vocab, err));
    return check_ranks(t, err);
}

/* Each is looked up twice: about two million in published files. */
static sac_status check_cuts(const sac_tokenizer *t, sac_error *err) {
    int64_t n = 0;
    for (int32_t id = 0; id < t->vocab.n_ids; id++) {
        const char *text = sac_vocab_text(&t->vocab, id), *end = text + t->vocab.token[id].n_bytes;
        for (text += sac_utf8_length(*text); text < end; text += sac_utf8_length(*text)) n++;
    }
    if (n <= MAX_CUTS) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "its tokens can be cut in two in %lld ways, at most %d are tried", (long long)n, MAX_CUTS);
}

/* Every way to make a token of two is a merge of its rank. */
static sac_status add_merges(sac_tokenizer *t, sac_error *err) {
    SAC_TRY(check_cuts(t, err));
    SAC_TRY(sac_bpe_reserve(&t->bpe, (size_t)t->vocab.n_ids, err));
    for (int32_t id = 0; id < t->vocab.n_ids; id++) {
        const char *text = sac_vocab_text(&t->vocab, id);
        const size_t n = t->vocab.token[id].n_bytes;
        for (size_t cut = sac_utf8_length(text[0]); cut < n; cut += sac_utf8_length(text[cut])) {
            const int32_t left = sac_vocab_find(&t->vocab, text, cut);
            const int32_t right = left < 0 ? -1 : sac_vocab_find(&t->vocab, text + cut, n - cut);
            if (right >= 0) SAC_TRY(sac_bpe_add(&t->bpe, left, right, (uint32_t)id, id, err));
        }
    }
    t->bpe.unk_id = -1;
    t->bpe.ignore_merges = true;
    return SAC_OK;
}

/* ---- the files beside it ---- */

static sac_status check_class(const json_t *config, sac_error *err) {
    const char *type = NULL;
    SAC_TRY(sac_json_get_string(config, "tokenizer_class", &type, err));
    if (type && strcmp(type, "TikTokenTokenizer") == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "\"tokenizer_class\" is \"%.60s\"; beside tiktoken.model TikTokenTokenizer (Kimi-VL, Moonlight) is supported",
                    type ? type : "not given");
}

/* The name of a control token: that of "added_tokens_decoder", or a reserved one's. */
static sac_status control_name(const json_t *named, int32_t id, char reserved[40], const char **name, sac_error *err) {
    char key[16];
    snprintf(key, sizeof key, "%d", id);
    snprintf(reserved, 40, "<|reserved_token_%d|>", id);
    *name = reserved;
    const json_t *token = json_object_get(named, key);
    if (!token) return SAC_OK;
    if (!json_is_object(token)) return sac_fail(err, SAC_BAD_FILE, "\"added_tokens_decoder\": %s must be an object", key);
    return sac_json_get_string(token, "content", name, err);
}

/* Whether all that have a name are control tokens. */
static sac_status check_named(const json_t *named, int32_t first, sac_error *err) {
    const char *key;
    json_t *token;
    json_object_foreach((json_t *)(uintptr_t)named, key, token) {
        char *end, same[24];
        const long id = strtol(key, &end, 10);
        snprintf(same, sizeof same, "%ld", id);
        if (*end || strcmp(key, same) != 0 || id < first || id >= first + N_CONTROL)
            return sac_fail(err, SAC_BAD_FILE, "\"added_tokens_decoder\": \"%.40s\" is no control token, whose ids are %d to %d", key,
                            first, first + N_CONTROL - 1);
    }
    return SAC_OK;
}

/* All of them, with their ids, as a list of added tokens. */
static sac_status add_controls(sac_tokenizer *t, sac_tokenizer_json *j, sac_error *err) {
    const json_t *named = NULL;
    const int32_t first = t->vocab.n_ids;
    SAC_TRY(sac_json_get_object(j->config, "added_tokens_decoder", &named, err));
    SAC_TRY(check_named(named, first, err));
    j->added_tokens = json_array();
    for (int32_t id = first; id < first + N_CONTROL; id++) {
        char reserved[40];
        const char *name = NULL;
        SAC_TRY(control_name(named, id, reserved, &name, err));
        SAC_TRY(sac_vocab_add_indexed(&t->vocab, id, name, strlen(name), 0, err));
        if (json_array_append_new(j->added_tokens, json_pack("{s:i, s:s, s:b}", "id", (int)id, "content", name, "special", 1)) != 0)
            return sac_fail(err, SAC_NO_MEMORY, "no memory for %d control tokens", N_CONTROL);
    }
    return SAC_OK;
}

/* The package tiktoken knows no flags: a control token is its text, wherever it stands. */
static void clear_flags(sac_added_tokens *a) {
    for (size_t i = 0; i < a->n; i++) a->token[i].single_word = a->token[i].lstrip = a->token[i].rstrip = false;
}

static sac_status load(sac_tokenizer *t, sac_tokenizer_json *j, sac_text_span file, sac_error *err) {
    t->model = SAC_MODEL_BPE;
    t->kind = "tiktoken.model";
    t->decoder.byte_level = true;
    sac_status st = check_class(j->config, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "tokenizer_config.json");
    SAC_TRY(read_ranks(t, file, err));
    SAC_TRY(add_merges(t, err));
    st = add_controls(t, j, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "tokenizer_config.json");
    SAC_TRY(sac_load_added(t, j, err));
    clear_flags(&t->added);
    SAC_TRY(sac_steps_add_split(&t->split, sac_kimi_split, strlen(sac_kimi_split), false, SAC_SPLIT_ISOLATED, false, err));
    SAC_TRY(sac_steps_add_byte_level(&t->split, false, false, err));
    return sac_tokenizer_finish(t, err);
}

sac_status sac_tokenizer_open_tiktoken(sac_tokenizer **out, sac_text_span file, sac_text_span config, sac_error *err) {
    sac_tokenizer_json j = {0};
    *out = NULL;
    if (file.n_bytes > MAX_FILE)
        return sac_fail(err, SAC_BAD_FILE, "%zu bytes are more than the %d read as a tokenizer", file.n_bytes, MAX_FILE);
    sac_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return sac_fail(err, SAC_NO_MEMORY, "no memory for a tokenizer");
    t->bos = t->eos = -1;
    sac_status st = SAC_OK;
    if (config.text) {
        st = sac_json_parse_large(&j.config, config.text, config.n_bytes, err);
        if (st == SAC_OK && !json_is_object(j.config)) st = sac_fail(err, SAC_BAD_FILE, "not a JSON object");
        if (st != SAC_OK) st = sac_fail_prefix(err, st, "tokenizer_config.json");
    }
    if (st == SAC_OK) st = load(t, &j, file, err);
    if (st == SAC_OK && config.text) st = sac_load_tokenizer_config(t, config.text, config.n_bytes, err);
    json_decref(j.config);
    json_decref(j.added_tokens);
    if (st == SAC_OK)
        *out = t;
    else
        sac_tokenizer_free(t);
    return st;
}

sac_status sac_tokenizer_open_tiktoken_file(sac_tokenizer **out, const char *path, const char *config_path, sac_error *err) {
    sac_file_map map;
    char *config = NULL;
    size_t config_bytes = 0;
    *out = NULL;
    SAC_TRY(sac_file_map_open(&map, path, err));
    sac_status st = sac_file_exists(config_path) ? sac_file_read(&config, &config_bytes, config_path, (size_t)16 << 20, err) : SAC_OK;
    if (st == SAC_OK) {
        st = sac_tokenizer_open_tiktoken(out, (sac_text_span){map.data ? (const char *)map.data : "", map.n_bytes},
                                         (sac_text_span){config, config_bytes}, err);
        if (st != SAC_OK) st = sac_fail_prefix(err, st, "%s", path);
    }
    free(config);
    sac_file_unmap(&map);
    return st;
}
