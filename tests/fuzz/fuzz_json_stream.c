/* The stream reader against jansson: what jansson reads, it passes over, to the same end. (Not the other way
 * round: jansson also refuses equal keys and integers beyond 64 bits. And it swallows a NUL byte behind a
 * number.) */
#include "fuzz.h"

#include "json_stream.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A key by its name is the key. */
static sac_status key(sac_json_stream *s, sac_error *err) {
    sac_json_stream by_name = *s;
    const char *text;
    size_t n;
    bool is;
    const sac_status st = sac_json_stream_key(s, &text, &n, err), named = sac_json_stream_key_is(&by_name, "prompt", &is, err);
    if (st != named || by_name.at != s->at || (st == SAC_OK && is != (n == 6 && !memcmp(text, "prompt", n)))) abort();
    return st;
}

/* Reads the value through the calls for its kind, to the same place as skip does. */
static sac_status walk(sac_json_stream *s, sac_error *err) {
    const char *text;
    size_t n;
    double number;
    bool more;
    sac_json_kind kind = sac_json_stream_peek(s);
    if (kind == SAC_JSON_STRING) return sac_json_stream_string(s, &text, &n, err);
    if (kind == SAC_JSON_NUMBER) return sac_json_stream_float(s, &number, err);
    if (kind != SAC_JSON_OBJECT && kind != SAC_JSON_ARRAY) return sac_json_stream_skip(s, &text, &n, err);
    SAC_TRY(sac_json_stream_enter(s, kind == SAC_JSON_OBJECT ? '{' : '[', err));
    for (;;) {
        SAC_TRY(sac_json_stream_next(s, &more, err));
        if (!more) return SAC_OK;
        if (kind == SAC_JSON_OBJECT) SAC_TRY(key(s, err));
        SAC_TRY(walk(s, err));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sac_json_stream skimmed, walked;
    sac_error err = {0}, walk_err = {0};
    const char *text = NULL;
    size_t n = 0;
    sac_json_stream_open(&skimmed, (const char *)data, size);
    sac_json_stream_open(&walked, (const char *)data, size);
    sac_status st = sac_json_stream_skip(&skimmed, &text, &n, &err);
    if (st == SAC_OK) st = sac_json_stream_end(&skimmed, &err);
    sac_status walk_st = walk(&walked, &walk_err);
    if (walk_st == SAC_OK) walk_st = sac_json_stream_end(&walked, &walk_err);
    if (st == SAC_OK && walk_st != SAC_OK && !strstr(walk_err.text, "number")) abort(); /* 1e999 */
    if (st != SAC_OK && (walk_st == SAC_OK || !err.text[0])) abort();
    bool has_nul = size && memchr(data, 0, size);
    json_t *tree =
        has_nul ? NULL : json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (tree && st != SAC_OK && !strstr(err.text, "nested too deeply")) abort();
    json_decref(tree);
    sac_json_stream_close(&skimmed);
    sac_json_stream_close(&walked);
    return 0;
}
