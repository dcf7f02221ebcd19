/* intake_media.h - what a file became: its frames as the vision tower takes them, prepared one by one while
 * children decode the next. */
#ifndef INTAKE_MEDIA_H
#define INTAKE_MEDIA_H

#include "intake_decoder.h"

/* A zeroed one is empty and may be freed. */
typedef struct intake_media {
    intake_info info;
    sac_prepared **frames; /* [info.n_frames]; of a picture one */
    double *times;         /* [info.n_frames], seconds */
    int64_t capacity;      /* of both */
    size_t n_bytes;        /* of what is prepared */
    double prepare_s;      /* spent on resizing and hashing, beside the decoding */
} intake_media;

/* Does the child read pictures of this format ("TIFF", "HEIC", ...; image.h)? */
bool intake_can_read(const char *format);

/* What becomes of the decoded frames. */
typedef struct intake_use {
    const sac_model *model;
    bool is_frame;      /* a picture is a frame of a video; a video's are */
    uint64_t max_bytes; /* of all that is prepared */
    void (*progress)(void *ctx, int64_t n_done,
                     int64_t n_chosen); /* a frame is prepared; n_chosen 0 = not known. NULL = nobody asks */
    void *ctx;
    /* Children that may still be started, for all calls that name it: a call takes one for its own, whether there is one or not,
     * and of a video as many more as are left and as its groups of pictures allow. NULL = one child a call. */
    atomic_int *n_spare;
    /* Bytes that all calls which name it have prepared, at most max_in_flight: beyond, a call fails with IO. Those of a call that
     * succeeds stay counted until the caller takes them back. NULL = they are not counted. */
    atomic_size_t *in_flight;
    size_t max_in_flight;
} intake_use;

/* intake_decode with every frame prepared for the model; parts of a video side by side where use->n_spare lets them, with the same
 * frames (a video with damaged ones is read in one go, in the time that is left). TOO_LONG also when that takes more than max_bytes. On
 * failure *out is empty. */
sac_status intake_media_open(intake_media *out, intake_decoder *d, const intake_task *task,
                             const intake_use *use, int input, const atomic_bool *cancelled, bool *crashed,
                             sac_error *err);
void intake_media_free(intake_media *m);

#endif
