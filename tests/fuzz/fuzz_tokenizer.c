/* tokenizer.json or tiktoken.model of strangers: open it, tokenise an odd text in every way, and turn the ids back. What
 * follows bytes 0xFF (which no JSON text contains) are tokenizer_config.json, config.json, special_tokens_map.json and
 * added_tokens.json. Run it with
 * -dict=tests/fuzz/tokenizer.dict. */
#include "fuzz.h"

#include "chat.h"
#include "detokenizer.h"

#include <stdlib.h>
#include <string.h>

#define MAX_IDS 4096

static void check_status(sac_status st, const sac_error *err) {
    if (st != SAC_OK && (!err->text[0] || strchr(err->text, '\n') || st == SAC_INTERNAL)) abort();
}

static void decode(const sac_tokenizer *t, const int32_t *ids, size_t n, bool skip) {
    static char text[1 << 16];
    size_t n_bytes, streamed = 0;
    sac_error err = {0};
    sac_status st = sac_detokenize(t, ids, n, skip, text, sizeof text, &n_bytes, &err);
    check_status(st, &err);
    sac_detokenizer *d;
    if (st != SAC_OK || sac_detokenizer_open(&d, t, skip, &err) != SAC_OK) return;
    for (size_t i = 0; i < n; i++) streamed += sac_detokenizer_feed(d, ids[i]).n_bytes;
    streamed += sac_detokenizer_flush(d).n_bytes;
    (void)streamed; /* may be less than n_bytes only in broken runs of byte tokens */
    sac_detokenizer_free(d);
}

static void use(const sac_tokenizer *t) {
    static const char odd[] = "ab c<x>A\xcc\x8a \xe4\xbd\xa0\xe5\xa5\xbd\t12 34\r\n\n  "
                              "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb aaaaaaaaaaaaaaaaaaaaaaaaa"
                              "\xe2\x96\x81the \xff\xc3 <x><s></s> it's ab\xef\xac\x81";
    const size_t n_bytes = sizeof odd - 1;
    const sac_text_segment segments[] = {{.text = odd, .n_bytes = n_bytes, .parse_special = true},
                                         {.is_token = true, .token_id = -200},
                                         {.text = odd, .n_bytes = 20},
                                         {.text = odd + 3, .n_bytes = 9, .parse_special = true}};
    static int32_t ids[MAX_IDS];
    for (size_t n_segments = 0; n_segments <= 4; n_segments++) {
        size_t n, again;
        sac_error err = {0};
        sac_status st = sac_tokenize(t, segments, n_segments, n_segments & 1, ids, MAX_IDS, &n, &err);
        check_status(st, &err);
        if (st != SAC_OK) continue;
        for (size_t i = 0; i < n; i++)
            if (ids[i] != -200 && !sac_token_text(t, ids[i]).text) abort();
        sac_tokenize(t, segments, n_segments, n_segments & 1, NULL, 0, &again, &err);
        if (again != n) abort();
        decode(t, ids, n, true);
        decode(t, ids, n, false);
    }
    for (int32_t i = 0; i < MAX_IDS; i++) ids[i] = i % (sac_tokenizer_n_vocab(t) + 1);
    decode(t, ids, 600, false);
    if (sac_tokenizer_chat_template(t)) sac_chat_detect(sac_tokenizer_chat_template(t));
}

/* Up to the next 0xFF; NULL when there is nothing more. */
static sac_text_span next_file(const uint8_t **at, const uint8_t *end) {
    if (!*at) return (sac_text_span){NULL, 0};
    const uint8_t *from = *at, *mark = from < end ? memchr(from, 0xff, (size_t)(end - from)) : NULL;
    *at = mark ? mark + 1 : NULL;
    return (sac_text_span){(const char *)from, (size_t)((mark ? mark : end) - from)};
}

/* What is no JSON object is a tiktoken.model. */
static void use_tiktoken(sac_text_span file, sac_text_span config) {
    sac_tokenizer *t = NULL;
    sac_error err = {0};
    sac_status st = sac_tokenizer_open_tiktoken(&t, file, config, &err);
    check_status(st, &err);
    if ((st == SAC_OK) != (t != NULL)) abort();
    if (t) use(t);
    sac_tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *at = data, *end = data + size;
    sac_tokenizer_files files = {0};
    sac_text_span *all[] = {&files.tokenizer, &files.tokenizer_config, &files.model_config,
                            &files.special_tokens_map, &files.added_tokens};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = next_file(&at, end);
    if (size && *data != '{') return use_tiktoken(files.tokenizer, files.tokenizer_config), 0;
    for (int rule = 0; rule < 2; rule++) {
        sac_tokenizer *t = NULL;
        sac_error err = {0};
        files.rule = rule ? SAC_TOKENIZER_BY_FILE : SAC_TOKENIZER_BY_CLASS;
        sac_status st = sac_tokenizer_open_files(&t, &files, &err);
        check_status(st, &err);
        if ((st == SAC_OK) != (t != NULL)) abort();
        if (t) use(t);
        sac_tokenizer_free(t);
    }
    return 0;
}
