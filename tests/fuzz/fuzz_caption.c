#define _GNU_SOURCE
/* What a caption job is given by strangers. The first byte chooses what the rest is: 't' a tar, 'm' a
 * manifest, 'b' a batch file, 'c' a CSV file (',' or, for 'C', tabs; its column "x" names the files), 'l' a list, 'j' a
 * journal. What is listed is also read. */
#include "fuzz.h"

#include "caption_list.h"
#include "caption_request.h"
#include "journal.h"

#include <stdlib.h>
#include <string.h>

/* What every list of items promises. */
static void check_items(const caption_source *s) {
    for (size_t i = 0; i < s->n_items; i++) {
        const char *id = s->items[i].id;
        if (!id || (!s->items[i].error && (!*id || strlen(id) > CAPTION_ID_MAX_BYTES))) abort();
        json_t *text = json_string(id); /* UTF-8 */
        if (!text) abort();
        json_decref(text);
        if (!s->any_name && !s->items[i].error &&
            (id[0] == '/' || !strncmp(id, "../", 3) || strstr(id, "/../")))
            abort();
    }
}

static void read_items(caption_input *in, const caption_source *s) {
    settings set;
    settings_init(&set);
    sac_sampling sampling = {.top_p = 1};
    caption_how how = {.s = &set, .sampling = &sampling, .kind = in->kind};
    caption_reader reader;
    caption_reader_init(&reader, in, &how);
    for (size_t i = 0; i < s->n_items && i < 50; i++) {
        caption_request q;
        caption_request_read(&reader, 0, i, &q);
        if ((q.status == SAC_OK) != (q.err.text[0] == 0)) abort();
        caption_request_free(&q);
    }
    caption_reader_close(&reader);
    settings_free(&set);
}

static sac_status on_line(void *ctx, const journal_line *line, sac_error *err) {
    size_t *end = ctx;
    (void)err;
    if (line->at < (int64_t)*end || line->text[line->n_bytes] != '\n') abort();
    *end = (size_t)line->at + line->n_bytes + 1;
    return SAC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sac_error err = {0};
    if (size == 0) return 0;
    const char *path = fuzz_file(data + 1, size - 1);
    if (data[0] == 'j') {
        journal_file j;
        size_t end = 0;
        journal_open(&j, path, JOURNAL_READ, on_line, &end, &err);
        if (end > size - 1) abort();
        journal_close(&j, &err);
        return 0;
    }
    caption_input in = {.kind = data[0] == 'm'                     ? CAPTION_MANIFEST
                                : data[0] == 'b'                   ? CAPTION_REQUESTS
                                : data[0] == 'l'                   ? CAPTION_LIST
                                : data[0] == 'c' || data[0] == 'C' ? CAPTION_CSV
                                                                   : CAPTION_TAR};
    caption_source *s = in.sources = calloc(1, sizeof *s);
    if (!s || !(s->path = strdup(path))) abort();
    s->name = "input";
    s->separator = data[0] == 'C' ? '\t' : ',';
    if (data[0] == 'C') s->column = "x";
    in.n_sources = 1;
    sac_status st = in.kind == CAPTION_TAR ? caption_list_tar(s, &err) : caption_list_lines(s, in.kind, &err);
    if (st == SAC_OK) {
        check_items(s);
        read_items(&in, s);
    }
    caption_input_free(&in);
    return 0;
}
