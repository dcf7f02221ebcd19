#include "store_events.h"

#include <string.h>

/* Of the adapter that the session's rows were made with. */
static const char *adapter_of(const sac_session *s) {
    const sac_loaded_model *m = &s->model->loaded;
    sac_adapter_entry e;
    int number;
    for (int64_t i = 0; sac_loaded_model_adapter(m, i, &e); i++)
        if (e.name && sac_loaded_model_find_adapter(m, e.name, &number, NULL) == SAC_OK && number == s->held_adapter) return e.name;
    return NULL;
}

/* Rows of pictures and videos have identities of their own (sac_media_identity): half of one is the same in all rows of a medium. */
static size_t list_media(const sac_store_block *b, uint64_t media[SAC_STORE_ROWS]) {
    size_t n = 0;
    for (int i = 0; i < SAC_STORE_ROWS; i++)
        if (b->rows[i].a >> 63 && (n == 0 || media[n - 1] != b->rows[i].b)) media[n++] = b->rows[i].b;
    return n;
}

void sac_store_tell_stored(const sac_store_watch *w, const sac_session *s, int64_t first, const sac_store_block *b) {
    uint64_t media[SAC_STORE_ROWS];
    if (!w->event) return;
    sac_block_event e = {.has_parent = first > 0, .ids = s->ids + first, .media = media, .n_media = list_media(b, media), .adapter = adapter_of(s)};
    memcpy(e.key, b->key.hash, sizeof e.key);
    if (first > 0) memcpy(e.parent, b->before.hash, sizeof e.parent);
    w->event(w->ctx, &e);
}

void sac_store_tell_removed(const sac_store_watch *w, const sac_store_block *b) {
    if (!w->event) return;
    sac_block_event e = {.is_removed = true};
    memcpy(e.key, b->key.hash, sizeof e.key);
    w->event(w->ctx, &e);
}
