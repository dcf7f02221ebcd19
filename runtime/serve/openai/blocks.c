#include "blocks.h"

size_t serve_blocks_index(const serve_blocks *b) {
    return json_array_size(b->list) - b->open;
}

void serve_blocks_open(serve_blocks *b, splitter_kind kind, json_t *block) {
    if (!b->list) b->list = json_array();
    b->open = json_array_append_new(b->list, block) == 0;
    b->kind = kind;
}

json_t *serve_blocks_last(const serve_blocks *b) {
    size_t n = json_array_size(b->list);
    return n ? json_array_get(b->list, n - 1) : NULL;
}

json_t *serve_blocks_text(const serve_blocks *b) {
    return json_stringn(b->text.n ? b->text.data : "", b->text.n);
}

json_t *serve_blocks_value(const serve_blocks *b) {
    return b->text.n ? json_loadb(b->text.data, b->text.n, 0, NULL) : json_object();
}

void serve_blocks_close(serve_blocks *b) {
    b->open = false;
    if (b->text.n) serve_buffer_drop(&b->text, b->text.n);
}

void serve_blocks_free(serve_blocks *b) {
    json_decref(b->list);
    serve_buffer_free(&b->text);
    *b = (serve_blocks){0};
}
