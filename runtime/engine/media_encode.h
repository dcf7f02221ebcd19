/* media_encode.h - a picture or video through the vision tower, a batch of tiles at a time, into the rows of hidden
 * states where the prompt wants them; or out of the cache. Between the pieces the video stays open, its decoder
 * works ahead, and on a device a batch is on its way (device_tower.h) while other work runs. */
#ifndef SAC_ENGINE_MEDIA_ENCODE_H
#define SAC_ENGINE_MEDIA_ENCODE_H

#include "media.h"

/* A zeroed one stands for no work. Not to be moved while under way. */
typedef struct sac_media_work {
    sac_session *s; /* NULL: nothing is under way */
    sac_media *m;
    int64_t n_read;                       /* frames cut into patch rows */
    int64_t n_done;                       /* frames encoded, or tiles of a picture */
    int n_tiles;                          /* waiting for the tower */
    int n_joined;                         /* pictures behind this one that are part of the work */
    int slot;                             /* that they wait in; 0 on the host */
    int in_flight[SAC_TOWER_SLOTS];       /* tiles of each slot that the device has */
    double most_patches; /* the caller's: of the next batch, where the tower runs on the host, and of pictures that go together; 0 = any */
    double media_seconds, vision_seconds; /* so far: all but the tower, and the tower */
    bool only_chooses;                    /* see sac_media_work_begin_choice */
} sac_media_work;

/* Item i of the session's media, of which nothing is done yet. Afterwards its report says whether the cache had
 * it. Pictures behind a picture may be done with it (media_join.c): n_joined, once the work is done. */
sac_status sac_media_work_begin(sac_media_work *w, sac_session *s, size_t i, sac_error *err);

/* The same before the prompt is placed, of a video of which it is not known what a reducer keeps (media_reduce.h): its rows are
 * made, chosen among and held until sac_media_work_begin, which only moves them. */
sac_status sac_media_work_begin_choice(sac_media_work *w, sac_session *s, size_t i, sac_error *err);

/* The next batch. On failure the work is dropped. */
sac_status sac_media_work_next(sac_media_work *w, sac_error *err);

static inline bool sac_media_work_is_done(const sac_media_work *w) {
    return !w->s;
}

/* Gives up; waits until a device has let go of the item's rows. Harmless when nothing is under way. */
void sac_media_work_drop(sac_media_work *w);

#endif
