/* caption_input.h - what a job is about: sources (a folder, a file of lines, tar shards) and their items.
 *
 * An item is known by its source and its place there, and has an id that is unique within the source. What
 * cannot be an item (a broken line, a tar that ends too early, a name given twice) is one all the same, with
 * its error, so that it becomes a line of the result and every run counts the same items. */
#ifndef APP_CAPTION_INPUT_H
#define APP_CAPTION_INPUT_H

#include "saccade/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAPTION_ID_MAX_BYTES   ((size_t)1024)
#define CAPTION_ITEMS_MAX      ((size_t)1 << 28) /* of a source */
#define CAPTION_LINE_MAX_BYTES ((size_t)256 << 20)
#define CAPTION_SKIPPED_MAX    ((size_t)1000)

typedef enum caption_kind {
    CAPTION_FOLDER,   /* pictures and videos by their endings, in order of path */
    CAPTION_MANIFEST, /* {"image": FILE} or {"video": FILE} a line */
    CAPTION_REQUESTS, /* OpenAI batch file: {"custom_id", "body"} a line */
    CAPTION_TAR,      /* WebDataset shards: members that share a name up to its first dot are one item */
    CAPTION_FILES,    /* pictures and videos by their names, and those that patterns (*, ?, [..]) meet */
    CAPTION_CSV,      /* RFC 4180; a column of the header names the files (caption_table.h) */
    CAPTION_LIST,     /* a name of a file a line */
} caption_kind;

typedef struct caption_item {
    char *id;         /* UTF-8: path below the folder, the line's own id, the tar's key */
    int64_t at;       /* offset of the line; number of the tar's member that is looked at */
    int64_t n_bytes;  /* of the line, the member, the file */
    char *error;      /* why it is none, or NULL */
    char *path;       /* of its file, where that is not the id below the source's path */
    uint64_t seen;    /* hash of what was seen of it: id, n_bytes, text of the line */
    int64_t mtime_ns; /* of a file of a folder, when it was listed; 0 = not a file of its own */
} caption_item;

/* One that was named, or that a pattern met. */
typedef struct caption_file {
    char *path;
    bool is_met;
} caption_file;

typedef struct caption_source {
    char *path;
    const char *name; /* the last part of path */
    bool listed;      /* items have been looked for */
    bool broken;      /* a tar that is not there, or ends too early: items behind that place are not known */
    bool any_name;    /* ids are not names of files: custom_id of a batch */
    caption_item *items;
    size_t n_items;
    json_t *skipped;       /* of a folder: files that are no items, {"tiff": 2} by ending; NULL = none */
    json_t *skipped_files; /* their paths below the folder, of the first CAPTION_SKIPPED_MAX */
    caption_file *files;   /* of CAPTION_FILES */
    size_t n_files;
    const char
        *column;     /* of CAPTION_CSV: the one that names the files, or NULL for the usual ones; borrowed */
    char separator;  /* ',' or a tab */
    json_t *columns; /* the header's texts */
    uint64_t ids_hash, content_hash; /* of the ids in order; of what was seen of the contents as well */
} caption_source;

typedef struct caption_input {
    caption_kind kind;
    caption_source *sources;
    size_t n_sources;
    bool by_source; /* shards take whole sources, see caption_is_mine */
} caption_input;

/* The part of a job that this run does: shard `index` of `count`. */
typedef struct caption_shard {
    int64_t index, count;
    char origin[60]; /* "--shard", "SLURM_ARRAY_TASK_ID" */
} caption_shard;

/* Names the sources: one folder, one file with an item a line (.jsonl, .ndjson, .csv, .tsv, .txt), tars (.tar, .tar.gz,
 * .tgz, .tar.zst; a name may hold {000..146}), or pictures and videos. A word that is no file's name and holds *, ? or [
 * is a pattern. column: of --column, for CSV only, or NULL; borrowed. Nothing is listed yet (caption_open.c). On failure,
 * too, caption_input_free frees what there is. */
sac_status caption_input_open(caption_input *in, char **paths, int n_paths, const char *column,
                              sac_error *err);

void caption_input_free(caption_input *in);

const char *caption_kind_name(caption_kind kind); /* "folder" */

/* Tars are dealt out whole when there are enough of them (by_source), otherwise items by a hash of their id:
 * what a shard does depends on nothing but the input and the number of shards. */
bool caption_is_mine(const caption_shard *shard, bool by_source, size_t source, const char *id);

/* [{"name", "items", "ids", "content"}] with null for what is not listed. NULL = out of memory. */
json_t *caption_input_json(const caption_input *in);

/* Where an item of a folder, or a file of its own, lies; to free. NULL = out of memory. */
char *caption_item_path(const caption_source *s, const caption_item *item);

/* ---- for the files that list one kind (caption_list.h) */

/* Adds an item. name: any bytes; what is not UTF-8 or a control character is written as \xNN in the id. A
 * name that is too long, or leads out of a folder, makes it an error. */
sac_status caption_add(caption_source *s, const char *name, size_t n_name, int64_t at, int64_t n_bytes,
                       sac_error *err);

/* Makes the last item an error; id: in place of its own, or NULL. */
sac_status caption_spoil(caption_source *s, const char *id, sac_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Is this the name of a picture, of a video? By its ending. */
typedef enum caption_media { CAPTION_NO_MEDIA, CAPTION_IMAGE, CAPTION_VIDEO } caption_media;
caption_media caption_media_of(const char *ending);    /* without its dot */
caption_media caption_media_of_path(const char *path); /* names that begin with a dot are none */

#endif
