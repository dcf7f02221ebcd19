#define _GNU_SOURCE
#include "caption_output.h"
#include "caption_each.h"
#include "run_files.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

static sac_status each_of_all(const caption_records *r, caption_each_fn fn, void *ctx, sac_error *err) {
    for (size_t s = 0; s < r->n_sources; s++) SAC_TRY(caption_each(r, s, fn, ctx, err));
    return SAC_OK;
}

/* ---------------------------------------------------------------- jsonl */

static sac_status on_jsonl(void *ctx, size_t source, const json_t *json, const char *text, size_t n,
                           sac_error *err) {
    (void)source;
    (void)json;
    SAC_TRY(caption_file_write(ctx, text, n, err));
    return caption_file_write(ctx, "\n", 1, err);
}

static sac_status write_jsonl(const caption_records *r, const char *folder, sac_error *err) {
    draft f;
    sac_status st = caption_file_open(&f, folder, "captions.jsonl", err);
    if (st == SAC_OK) st = each_of_all(r, on_jsonl, &f, err);
    return caption_file_close(&f, st, err);
}

/* ---------------------------------------------------------------- coco */

typedef struct coco {
    draft f;
    json_t *seen; /* image_id as text -> id of the item */
    size_t n;
} coco;

/* The item's own image_id, or the last number in its name (COCO_val2014_000000123456.jpg), or else its id. */
static json_t *image_id_of(const json_t *record) {
    json_t *own = json_object_get(record, "image_id");
    const char *id = json_string_value(json_object_get(record, "id"));
    if (own) return json_incref(own);
    if (!id) return NULL;
    const char *slash = strrchr(id, '/'), *base = slash ? slash + 1 : id, *dot = strrchr(base, '.');
    const char *end = dot ? dot : base + strlen(base);
    while (end > base && (end[-1] < '0' || end[-1] > '9')) end--;
    const char *start = end;
    while (start > base && start[-1] >= '0' && start[-1] <= '9') start--;
    while (start + 1 < end && *start == '0') start++;
    return end > start && end - start <= 18 ? json_integer(strtoll(start, NULL, 10)) : json_string(id);
}

static sac_status check_image_id(coco *c, const json_t *image_id, const json_t *record, sac_error *err) {
    char *key = json_dumps(image_id, JSON_ENCODE_ANY | JSON_COMPACT);
    if (!key) return sac_fail_no_memory(err);
    const char *other = json_string_value(json_object_get(c->seen, key));
    sac_status st = SAC_OK;
    if (other)
        st = sac_fail(err, SAC_BAD_FILE,
                      "coco: '%.100s' and '%.100s' both have image_id %.40s; give \"image_id\" in a manifest",
                      other, json_string_value(json_object_get(record, "id")), key);
    else if (json_object_set(c->seen, key, json_object_get(record, "id")))
        st = sac_fail_no_memory(err);
    free(key);
    return st;
}

static sac_status on_coco(void *ctx, size_t source, const json_t *json, const char *text, size_t n,
                          sac_error *err) {
    coco *c = ctx;
    json_t *caption = json_object_get(json, "caption");
    (void)source;
    (void)text;
    (void)n;
    if (!caption) return SAC_OK;
    json_t *id = image_id_of(json),
           *row = id ? json_pack("{s:O, s:O}", "image_id", id, "caption", caption) : NULL;
    char *line = row ? json_dumps(row, JSON_COMPACT) : NULL;
    sac_status st = line ? check_image_id(c, id, json, err) : sac_fail_no_memory(err);
    if (st == SAC_OK) st = caption_file_write(&c->f, c->n ? ",\n" : "", c->n ? 2 : 0, err);
    if (st == SAC_OK) st = caption_file_write(&c->f, line, strlen(line), err);
    c->n++;
    free(line);
    json_decref(row);
    json_decref(id);
    return st;
}

static sac_status write_coco(const caption_records *r, const char *folder, sac_error *err) {
    coco c = {.seen = json_object()};
    sac_status st = c.seen ? caption_file_open(&c.f, folder, "captions.json", err) : sac_fail_no_memory(err);
    if (st == SAC_OK) st = caption_file_write(&c.f, "[", 1, err);
    if (st == SAC_OK) st = each_of_all(r, on_coco, &c, err);
    if (st == SAC_OK) st = caption_file_write(&c.f, "]\n", 2, err);
    json_decref(c.seen);
    return caption_file_close(&c.f, st, err);
}

/* ---------------------------------------------------------------- all formats */

typedef struct format {
    const char *name;
    sac_status (*write)(const caption_records *r, const char *folder, sac_error *err);
} format;

static const format formats_known[] = {{"jsonl", write_jsonl},
                                       {"coco", write_coco},
                                       {"text", caption_write_text},
                                       {"tar", caption_write_tars},
                                       {"webdataset", caption_write_samples},
                                       {"batch", caption_write_batch}};

static const format *find_format(const char *name) {
    for (size_t i = 0; i < SAC_COUNT(formats_known); i++)
        if (!strcmp(formats_known[i].name, name)) return &formats_known[i];
    return NULL;
}

sac_status caption_formats_check(const text_list *formats, const char *input, sac_error *err) {
    bool is_batch = input && !strcmp(input, "batch");
    for (size_t i = 0; i < formats->n; i++) {
        const char *name = formats->items[i];
        if (!find_format(name))
            return sac_fail(err, SAC_BAD_ARGUMENT,
                            "--format: expected jsonl, coco, text, tar, webdataset or batch, found '%.40s'",
                            name);
        if (is_batch && (!strcmp(name, "text") || !strcmp(name, "tar") || !strcmp(name, "webdataset")))
            return sac_fail(err, SAC_BAD_ARGUMENT,
                            "--format %s: a batch's custom_id is not the name of a file", name);
    }
    return SAC_OK;
}

sac_status caption_output_write(const caption_records *r, const text_list *formats, const char *folder,
                                sac_error *err) {
    const char *kind = json_string_value(json_object_get(r->header, "input"));
    const char *usual = kind && !strcmp(kind, "batch") ? "batch" : "jsonl";
    SAC_TRY(caption_formats_check(formats, kind, err));
    SAC_TRY(run_files_make_folder(folder, err));
    if (!formats->n) SAC_TRY(find_format(usual)->write(r, folder, err));
    for (size_t i = 0; i < formats->n; i++) SAC_TRY(find_format(formats->items[i])->write(r, folder, err));
    run_files_sync_folder(folder);
    return SAC_OK;
}
