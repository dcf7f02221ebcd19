#include "kv_batch.h"
#include "msgpack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t shorten(const uint8_t key[32]) {
    uint64_t n = 0;
    for (int i = 24; i < 32; i++) n = n << 8 | key[i];
    return n;
}

serve_kv_event *serve_kv_event_of(const sac_block_event *e) {
    const size_t n = e->is_removed ? 0 : e->n_media;
    serve_kv_event *k = calloc(1, sizeof *k + n * sizeof *k->media);
    if (!k) return NULL;
    k->kind = e->is_removed ? SERVE_KV_REMOVED : SERVE_KV_STORED;
    k->hash = shorten(e->key);
    if (e->is_removed) return k;
    k->has_parent = e->has_parent;
    k->parent = shorten(e->parent);
    k->adapter = e->adapter;
    memcpy(k->ids, e->ids, sizeof k->ids);
    k->n_media = n;
    if (n) memcpy(k->media, e->media, n * sizeof *k->media);
    return k;
}

/* ---------------------------------------------------------------- writing */

/* Of a map the key that comes before a value. */
typedef struct writer {
    serve_buffer *b;
    bool maps;
} writer;

static void begin(const writer *w, uint32_t n) {
    if (w->maps)
        msgpack_map(w->b, n);
    else
        msgpack_array(w->b, n);
}

static void key(const writer *w, const char *name) {
    if (w->maps) msgpack_text(w->b, name);
}

static void write_name(const writer *w, const char *name) {
    key(w, "type");
    msgpack_text(w->b, name);
}

static void write_hashes(const writer *w, uint64_t hash) {
    key(w, "block_hashes");
    msgpack_array(w->b, 1);
    msgpack_unsigned(w->b, hash);
}

/* Where it is: in the host's memory. */
static void write_medium(const writer *w) {
    key(w, "medium");
    msgpack_text(w->b, "CPU");
}

static void write_text_or_nil(const writer *w, const char *text) {
    if (text)
        msgpack_text(w->b, text);
    else
        msgpack_nil(w->b);
}

/* For each block, what it was made of besides tokens. */
static void write_media(const writer *w, const serve_kv_event *e) {
    char text[17];
    key(w, "extra_keys");
    msgpack_array(w->b, 1);
    msgpack_array(w->b, (uint32_t)e->n_media);
    for (size_t i = 0; i < e->n_media; i++) {
        snprintf(text, sizeof text, "%016llx", (unsigned long long)e->media[i]);
        msgpack_text(w->b, text);
    }
}

static void write_stored(const writer *w, const serve_kv_event *e) {
    begin(w, e->n_media ? 9 : 8);
    write_name(w, "BlockStored");
    write_hashes(w, e->hash);
    key(w, "parent_block_hash");
    if (e->has_parent)
        msgpack_unsigned(w->b, e->parent);
    else
        msgpack_nil(w->b);
    key(w, "token_ids");
    msgpack_array(w->b, SERVE_KV_BLOCK);
    for (int i = 0; i < SERVE_KV_BLOCK; i++) msgpack_integer(w->b, e->ids[i]);
    key(w, "block_size");
    msgpack_unsigned(w->b, SERVE_KV_BLOCK);
    key(w, "lora_id");
    if (e->adapter_number)
        msgpack_unsigned(w->b, (uint64_t)e->adapter_number);
    else
        msgpack_nil(w->b);
    write_medium(w);
    key(w, "lora_name");
    write_text_or_nil(w, e->adapter);
    if (e->n_media) write_media(w, e);
}

static void write_event(const writer *w, const serve_kv_event *e) {
    if (e->kind == SERVE_KV_STORED) {
        write_stored(w, e);
    } else if (e->kind == SERVE_KV_REMOVED) {
        begin(w, 3);
        write_name(w, "BlockRemoved");
        write_hashes(w, e->hash);
        write_medium(w);
    } else {
        begin(w, 1);
        write_name(w, "AllBlocksCleared");
    }
}

void serve_kv_batch_write(serve_buffer *b, const serve_kv_event *first, size_t n, double time_s, bool as_maps) {
    const writer w = {b, as_maps};
    begin(&w, 3);
    key(&w, "ts");
    msgpack_real(b, time_s);
    key(&w, "events");
    msgpack_array(b, (uint32_t)n);
    for (size_t i = 0; i < n; i++, first = first->next) write_event(&w, first);
    key(&w, "data_parallel_rank");
    msgpack_unsigned(b, 0);
}
