/* An answer's text, divided into reasoning, text and calls: what comes out does not depend on how the text is cut. The input's first
 * byte chooses the formats, the second where it is cut. */
#include "fuzz.h"

#include "byte_buffer.h"
#include "splitter.h"

#include <stdlib.h>
#include <string.h>

static bool knows(const void *tools, const char *name) {
    (void)tools;
    return name[0] != 'x';
}

/* Events as one text; pieces of the same kind that follow each other are one. */
typedef struct record {
    serve_buffer text;
    int kind;
} record;

static void on_event(void *ctx, splitter_kind kind, const char *text, size_t n) {
    record *r = ctx;
    char mark[] = {'\n', (char)('0' + kind)};
    if (r->kind != (int)kind || kind == SPLITTER_CALL) serve_buffer_add(&r->text, mark, sizeof mark);
    r->kind = (int)kind;
    serve_buffer_add(&r->text, text, n);
}

static void split(record *to, splitter_options o, const char *text, size_t n, size_t piece) {
    o.event = on_event;
    o.ctx = to;
    to->kind = -1;
    splitter *s = splitter_open(&o);
    for (size_t at = 0; s && at < n; at += piece)
        splitter_feed(s, text + at, n - at < piece ? n - at : piece);
    if (s) splitter_finish(s);
    splitter_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    size_t n_names = 0, n = size - 2, piece = 1 + data[1] % 16;
    while (call_format_names()[n_names]) n_names++;
    splitter_options o = {.calls = call_format_find(call_format_names()[data[0] % n_names]),
                          .reasoning = data[0] & 64 ? reasoning_format_find("think") : NULL,
                          .begins_inside = data[0] & 128,
                          .knows = knows};
    record whole = {0}, cut = {0};
    split(&whole, o, (const char *)data + 2, n, n ? n : 1);
    split(&cut, o, (const char *)data + 2, n, piece);
    if (whole.text.n != cut.text.n || (cut.text.n && memcmp(whole.text.data, cut.text.data, cut.text.n) != 0))
        abort();
    serve_buffer_free(&whole.text);
    serve_buffer_free(&cut.text);
    return 0;
}
