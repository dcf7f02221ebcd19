/* caption_records.h - the journals of a job's shards, and where in them the record of each item lies.
 *
 * A journal begins with a header, {"saccade_caption": 1, ...}: all that captions depend on, the input with
 * hashes of what was listed, the shard. Then a line an item, as it was done:
 *   {"source", "index", "id", "caption", "finish", ...} or {"source", "index", "id", "error": {"status",
 * "text"}} Nothing in a record depends on time, place or order, so that results made from records are the
 * same however often the job was cut short. Records stay on the disk; a place of 24 bytes an item is what
 * memory holds.
 *
 * A line also says what its item was known by (caption_seen.h; no part of results), so that a job goes on when
 * items came, went or changed: the journal is then written anew under the new listing. A caption whose item is away
 * or is another now stays in it, {"source": name of its source, "index": null, "id", ...}: it is no part of
 * results, and counts again when the item is back. */
#ifndef APP_CAPTION_RECORDS_H
#define APP_CAPTION_RECORDS_H

#include "caption_input.h"
#include "journal.h"

#define CAPTION_FORMAT 1

typedef struct caption_place {
    int64_t at;
    uint32_t n_bytes;
    uint16_t state; /* 0 = no record, 1 = caption, 2 = error */
    uint32_t shard; /* whose journal_file */
} caption_place;

typedef struct caption_records {
    const caption_input *input; /* NULL when only journals are read (merge) */
    const caption_shard *shard;
    caption_place **places; /* [n_sources][n_items] */
    size_t n_sources;
    size_t *n_items;
    journal_file *journals; /* [n_journals] */
    size_t n_journals;
    json_t *header; /* of the job */
    bool retry;     /* errors are done again */
    int64_t n_captions, n_errors;
    int64_t n_away; /* captions in the journal whose items are away or others */
} caption_records;

/* Opens (or makes) the journal of this shard in `folder`. header: becomes the records' (owned); what is there
 * must agree with it, but for the items of the input (caption_resume.c). IO = a source that has captions cannot be
 * read now. On failure, too, caption_records_close is due. */
sac_status caption_records_open(caption_records *r, const char *folder, json_t *header,
                                const caption_input *input, const caption_shard *shard, bool retry,
                                sac_error *err);

/* Writes the record of an item and remembers its place. content: of caption_seen_text. */
sac_status caption_records_add(caption_records *r, size_t source, size_t index, const json_t *record,
                               uint64_t content, sac_error *err);

/* Reads the journals of all shards of a finished job and proves it whole: every shard is there, under the
 * same header; every source was listed by its shard, or by all of them alike; every item has one record, from
 * the shard that it belongs to, and the ids give the hash that was taken when the input was listed. */
sac_status caption_records_merge(caption_records *r, const char *folder, sac_error *err);

/* The line of a record, in *text (to free), NUL-terminated. */
sac_status caption_records_read(const caption_records *r, size_t source, size_t index, char **text,
                                size_t *n_bytes, sac_error *err);

/* The same of a place that is no item's. */
sac_status caption_records_read_at(const caption_records *r, const caption_place *p, char **text,
                                   size_t *n_bytes, sac_error *err);

/* IO when the last lines did not reach the disk. */
sac_status caption_records_close(caption_records *r, sac_error *err);

/* ---- for the files that open journals (caption_resume.c, caption_merge.c) */

sac_status caption_take_room(caption_records *r, size_t n_sources, sac_error *err);
sac_status caption_take_places(caption_records *r, size_t source, size_t n_items, sac_error *err);

/* Counts a place as its state says, or takes it off again (by = -1). */
void caption_count(caption_records *r, const caption_place *p, int by);

bool caption_is_whole_number(const json_t *v, size_t below);
uint16_t caption_state_of(const json_t *line); /* of caption_place; 0 = the line is no record */
bool caption_is_away(const json_t *line);      /* a caption whose item is not there now */

/* The place that a record names, or NULL. */
caption_place *caption_find_place(const caption_records *r, const json_t *line, size_t *source,
                                  size_t *index);

#endif
