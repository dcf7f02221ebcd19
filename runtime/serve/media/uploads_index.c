#include "uploads_index.h"

#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *description, const char *key) {
    const char *text = json_string_value(json_object_get(description, key));
    return text ? text : "";
}

static int compare(const json_t *a, const json_t *b) {
    json_int_t x = json_integer_value(json_object_get(a, "created_at")),
               y = json_integer_value(json_object_get(b, "created_at"));
    if (x != y) return x < y ? -1 : 1;
    return strcmp(text_of(a, "id"), text_of(b, "id"));
}

bool serve_uploads_index_add(serve_uploads_index *x, json_t *description) {
    if (x->n == x->capacity) {
        size_t capacity = x->capacity ? 2 * x->capacity : 64;
        json_t **items = realloc(x->items, capacity * sizeof *items);
        if (!items) return false;
        x->items = items;
        x->capacity = capacity;
    }
    size_t at = x->n++;
    for (; at > 0 && compare(x->items[at - 1], description) > 0; at--) x->items[at] = x->items[at - 1];
    x->items[at] = json_incref(description);
    return true;
}

/* x->n when there is none. */
static size_t find(const serve_uploads_index *x, const char *id) {
    size_t at = 0;
    while (at < x->n && strcmp(text_of(x->items[at], "id"), id) != 0) at++;
    return at;
}

void serve_uploads_index_remove(serve_uploads_index *x, const char *id) {
    size_t at = find(x, id);
    if (at == x->n) return;
    json_decref(x->items[at]);
    memmove(x->items + at, x->items + at + 1, (--x->n - at) * sizeof *x->items);
}

void serve_uploads_index_free(serve_uploads_index *x) {
    for (size_t i = 0; i < x->n; i++) json_decref(x->items[i]);
    free(x->items);
    *x = (serve_uploads_index){0};
}

/* The k-th in the order of the page. */
static json_t *item_at(const serve_uploads_index *x, const serve_uploads_page *page, size_t k) {
    return x->items[page->oldest_first ? k : x->n - 1 - k];
}

static json_t *id_of(const json_t *data, size_t at) {
    json_t *description = json_array_get(data, at);
    return description ? json_incref(json_object_get(description, "id")) : json_null();
}

json_t *serve_uploads_index_list(const serve_uploads_index *x, const serve_uploads_page *page) {
    json_t *data = json_array();
    bool more = false;
    size_t k = 0;
    if (page->after) {
        size_t at = find(x, page->after);
        if (at == x->n) {
            json_decref(data);
            return NULL;
        }
        k = (page->oldest_first ? at : x->n - 1 - at) + 1;
    }
    for (; k < x->n && !more; k++) {
        json_t *d = item_at(x, page, k);
        if (page->purpose && strcmp(text_of(d, "purpose"), page->purpose) != 0) continue;
        more = json_array_size(data) == page->limit;
        if (!more) json_array_append(data, d);
    }
    size_t n = json_array_size(data);
    return json_pack("{s:s, s:o, s:o, s:o, s:b}", "object", "list", "data", data, "first_id", id_of(data, 0),
                     "last_id", id_of(data, n ? n - 1 : 0), "has_more", (int)more);
}
