/* caption_output_tar.c - results that are members of tars: captions alone, or with the pictures (WebDataset samples). */
#define _GNU_SOURCE
#include "caption_bytes.h"
#include "caption_each.h"
#include "caption_output.h"
#include "caption_seen.h"
#include "run_files.h"
#include "status.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct tar {
    draft f;
    const caption_records *r;
    caption_reader *reader; /* of the input, or NULL: captions alone */
    json_t *taken;          /* keys of samples, where there is a reader */
    struct archive *a;
    sac_error *err;
    bool failed; /* by a write, which filled err */
    bool given_up;
} tar;

static la_ssize_t on_bytes(struct archive *a, void *ctx, const void *bytes, size_t n) {
    tar *t = ctx;
    (void)a;
    if (t->given_up) return (la_ssize_t)n;
    if (caption_file_write(&t->f, bytes, n, t->err) == SAC_OK) return (la_ssize_t)n;
    t->failed = true;
    return -1;
}

static sac_status add_member(tar *t, const char *key, const char *ending, const char *text, size_t n,
                             sac_error *err) {
    char *name;
    if (asprintf(&name, "%s.%s", key, ending) < 0) return sac_fail_no_memory(err);
    struct archive_entry *e = archive_entry_new();
    bool ok = e != NULL;
    if (ok) {
        archive_entry_set_pathname(e, name);
        archive_entry_set_size(e, (la_int64_t)n);
        archive_entry_set_filetype(e, AE_IFREG);
        archive_entry_set_perm(e, 0644);
        archive_entry_set_mtime(e, 0, 0); /* the same records, the same bytes */
        ok =
            archive_write_header(t->a, e) == ARCHIVE_OK && archive_write_data(t->a, text, n) == (la_ssize_t)n;
    }
    archive_entry_free(e);
    free(name);
    if (ok) return SAC_OK;
    return t->failed
               ? err->status
               : sac_fail(err, SAC_IO, "%s: cannot be written: %s", t->f.part, archive_error_string(t->a));
}

/* Without the ending of its file, and with no dot behind the last slash: a sample's key ends at the first. Two files that
 * differ in their endings alone get keys that differ. */
static char *sample_key(tar *t, const char *id, bool is_key) {
    const char *slash = strrchr(id, '/'), *dot = strrchr(slash ? slash + 1 : id, '.');
    bool has_ending = !is_key && dot && caption_media_of(dot + 1) != CAPTION_NO_MEDIA;
    char *key = strndup(id, has_ending ? (size_t)(dot - id) : strlen(id));
    if (!key) return NULL;
    for (char *p = key + (slash ? slash + 1 - id : 0); *p; p++)
        if (*p == '.') *p = '_';
    size_t n = strlen(key);
    for (int k = 2; json_object_get(t->taken, key); k++) {
        char *longer;
        if (asprintf(&longer, "%.*s_%d", (int)n, key, k) < 0) longer = NULL;
        free(key);
        if (!(key = longer)) return NULL;
    }
    if (!json_object_set_new(t->taken, key, json_true())) return key;
    free(key);
    return NULL;
}

/* Whether the input has now what the caption is of. */
static sac_status check_same(const tar *t, size_t source, size_t index, sac_error *err) {
    const caption_source *s = &t->r->input->sources[source];
    char *text;
    size_t n;
    SAC_TRY(caption_records_read(t->r, source, index, &text, &n, err));
    json_t *record = json_loadb(text, n, 0, NULL);
    free(text);
    bool is_known = json_object_get(record, CAPTION_SEEN_KEY) != NULL;
    bool same = !is_known || caption_looks_the_same(s, &s->items[index], record);
    json_decref(record);
    return same ? SAC_OK
                : sac_fail(err, SAC_BAD_CONFIG,
                           "webdataset: '%.200s' has changed since it was described; run the job again",
                           s->items[index].id);
}

/* A sample to train on: the picture or video as it was in the input, the caption, the record. */
static sac_status on_sample(void *ctx, size_t source, const json_t *json, const char *text, size_t n,
                            sac_error *err) {
    tar *t = ctx;
    const json_t *caption = json_object_get(json, "caption");
    if (!caption) return SAC_OK;
    const caption_input *in = t->r->input;
    size_t index = (size_t)json_integer_value(json_object_get(json, "index"));
    const char *id = json_string_value(json_object_get(json, "id"));
    if (index >= in->sources[source].n_items || strcmp(in->sources[source].items[index].id, id))
        return sac_fail(err, SAC_BAD_CONFIG,
                        "webdataset: '%.200s' is not where it was in the input; run the job again", id);
    SAC_TRY(check_same(t, source, index, err));
    caption_bytes media;
    SAC_TRY(caption_read_media(t->reader, source, index, &media, err));
    char *key = sample_key(t, id, in->kind == CAPTION_TAR);
    sac_status st = key ? SAC_OK : sac_fail_no_memory(err);
    if (st == SAC_OK && media.data)
        st = add_member(t, key, media.ending, (const char *)media.data, media.n_bytes, err);
    if (st == SAC_OK)
        st = add_member(t, key, "txt", json_string_value(caption), json_string_length(caption), err);
    if (st == SAC_OK) st = add_member(t, key, "json", text, n, err);
    free(key);
    free(media.data);
    return st;
}

static sac_status on_tar(void *ctx, size_t source, const json_t *json, const char *text, size_t n,
                         sac_error *err) {
    tar *t = ctx;
    const json_t *caption = json_object_get(json, "caption");
    const char *id = json_string_value(json_object_get(json, "id"));
    (void)source;
    if (caption)
        SAC_TRY(add_member(t, id, "txt", json_string_value(caption), json_string_length(caption), err));
    return add_member(t, id, "json", text, n, err);
}

/* Every member of a tar with hdrcharset has a header that GNU tar warns about, so it is there for names that
 * need it: without it libarchive would translate them to the locale's characters and back. */
static sac_status on_name(void *ctx, size_t source, const json_t *json, const char *text, size_t n,
                          sac_error *err) {
    bool *ascii = ctx;
    (void)source;
    (void)text;
    (void)n;
    (void)err;
    for (const char *p = json_string_value(json_object_get(json, "id")); *p; p++)
        if ((unsigned char)*p >= 0x80) *ascii = false;
    return SAC_OK;
}

/* x.tar.gz gives x.tar: captions are small. */
static char *tar_name(const caption_records *r, size_t source) {
    const char *kind = json_string_value(json_object_get(r->header, "input")),
               *name = caption_source_name(r, source);
    char *out;
    if (!kind || strcmp(kind, "webdataset")) return strdup("captions.tar");
    size_t n = strlen(name);
    static const char *const endings[] = {".tar", ".tar.gz", ".tgz", ".tar.zst"};
    for (size_t i = 0; i < SAC_COUNT(endings); i++) {
        size_t m = strlen(endings[i]);
        if (n > m && !strcasecmp(name + n - m, endings[i]))
            return asprintf(&out, "%.*s.tar", (int)(n - m), name) < 0 ? NULL : out;
    }
    return asprintf(&out, "%s.tar", name) < 0 ? NULL : out;
}

static sac_status write_tar(const caption_records *r, size_t source, const char *folder,
                            caption_reader *reader, sac_error *err) {
    char *name = tar_name(r, source);
    tar t = {.err = err, .r = r, .reader = reader, .taken = json_object()};
    sac_status st = name ? caption_file_open(&t.f, folder, name, err) : sac_fail_no_memory(err);
    free(name);
    bool ascii = true;
    if (st == SAC_OK) st = caption_each(r, source, on_name, &ascii, err);
    if (st == SAC_OK && !(t.a = archive_write_new())) st = sac_fail_no_memory(err);
    if (st == SAC_OK) {
        archive_write_set_format_pax_restricted(t.a);
        if (!ascii) archive_write_set_option(t.a, "pax", "hdrcharset", "BINARY");
        if (archive_write_open(t.a, &t, NULL, on_bytes, NULL) != ARCHIVE_OK) st = sac_fail_no_memory(err);
    }
    if (st == SAC_OK && !t.taken) st = sac_fail_no_memory(err);
    if (st == SAC_OK) st = caption_each(r, source, reader ? on_sample : on_tar, &t, err);
    if (st == SAC_OK && archive_write_close(t.a) != ARCHIVE_OK)
        st = t.failed ? err->status : sac_fail(err, SAC_IO, "%s: %s", t.f.part, archive_error_string(t.a));
    t.given_up = st != SAC_OK; /* libarchive ends its file all the same: after archive_write_fail it would leak its buffer */
    archive_write_free(t.a);
    json_decref(t.taken);
    return caption_file_close(&t.f, st, err);
}

static sac_status write_tars(const caption_records *r, const char *folder, const char *name,
                             caption_reader *reader, sac_error *err) {
    char *below = run_files_path(folder, name);
    sac_status st = below ? run_files_make_folder(below, err) : sac_fail_no_memory(err);
    for (size_t s = 0; st == SAC_OK && s < r->n_sources; s++)
        if (r->places[s]) st = write_tar(r, s, below, reader, err);
    if (st == SAC_OK) run_files_sync_folder(below);
    free(below);
    return st;
}

sac_status caption_write_tars(const caption_records *r, const char *folder, sac_error *err) {
    return write_tars(r, folder, "tar", NULL, err);
}

sac_status caption_write_samples(const caption_records *r, const char *folder, sac_error *err) {
    if (!r->input)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "webdataset: pictures are read from the input; give it behind the folder: "
                        "caption merge DIR INPUT");
    caption_reader reader;
    caption_reader_init(&reader, r->input, NULL);
    sac_status st = write_tars(r, folder, "webdataset", &reader, err);
    caption_reader_close(&reader);
    return st;
}
