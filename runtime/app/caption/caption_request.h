/* caption_request.h - an item, read and made a question for the model. */
#ifndef APP_CAPTION_REQUEST_H
#define APP_CAPTION_REQUEST_H

#include "caption_input.h"
#include "caption_tar.h"
#include "conversation.h"

/* How an item is asked. */
typedef struct caption_how {
    const settings *s;
    const sac_sampling *sampling; /* of items that bring none of their own */
    caption_kind kind;
    const char *media_root; /* where file:// may point to, resolved; NULL = nowhere */
} caption_how;

typedef struct caption_decoded caption_decoded; /* caption_decode.h */

typedef struct caption_request {
    size_t source, index;
    conversation c;
    sac_sampling sampling;
    char **stop;              /* owned texts behind sampling.stop, or NULL */
    const char *media;        /* "image", "video", or NULL where the item has none */
    json_t *extra;            /* members that go from the item into its record, or NULL */
    size_t n_bytes;           /* held in memory */
    uint64_t content;         /* of a file of a folder (caption_seen.h) */
    caption_decoded *decoded; /* what parts of c point at, or NULL */
    sac_status status;        /* of reading the item */
    sac_error err;
} caption_request;

/* Reads items, best in the order of the input: a tar is read forward. For one thread. */
typedef struct caption_reader {
    const caption_input *in;
    const caption_how *how;
    caption_tar *tar;
    caption_member member; /* read last */
    size_t tar_source;
    bool tar_ended;
    int lines_fd; /* the file of lines, or -1 */
} caption_reader;

void caption_reader_init(caption_reader *r, const caption_input *in, const caption_how *how);
void caption_reader_close(caption_reader *r);

/* What goes wrong is the request's status, not a failure of the job. */
void caption_request_read(caption_reader *r, size_t source, size_t index, caption_request *q);
void caption_request_free(caption_request *q);

/* What a line or row says, as caption_row_json has it; *line is the caller's. */
sac_status caption_read_line(caption_reader *r, const caption_source *s, const caption_item *item,
                             json_t **line, sac_error *err);

/* Moves r->tar forward to an item's member. */
sac_status caption_find_member(caption_reader *r, size_t source, const caption_item *item, sac_error *err);

/* A file that a line of a manifest names, relative to the manifest's folder; to free. */
char *caption_path_beside(const char *manifest, const char *name);

/* A line of an OpenAI batch file (caption_openai.c). */
sac_status caption_request_openai(caption_request *q, const caption_how *how, const json_t *request,
                                  sac_error *err);

/* A picture's bytes, or a video by its path; checks that it is there (caption_request_file.c). */
sac_status caption_request_add_file(caption_request *q, const caption_how *how, media_kind kind,
                                    const char *path, sac_error *err);

/* At most n_bytes of an open file, in *bytes (to free). */
sac_status caption_read_file(int fd, const char *path, size_t n_bytes, uint8_t **bytes, size_t *n,
                             sac_error *err);

#endif
