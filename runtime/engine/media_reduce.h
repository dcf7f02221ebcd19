/* media_reduce.h - a video's rows between the tower and the prompt, where a reducer (reduce.h) keeps some of them. They wait on
 * the host until it is known which stay: all of them where the reducer needs all, otherwise about a quarter more than those that
 * stay and a few tiles. What stays is remembered by the medium's key, so that a later prompt of the same video is laid out without its tower. */
#ifndef SAC_ENGINE_MEDIA_REDUCE_H
#define SAC_ENGINE_MEDIA_REDUCE_H

#include "visual_rows.h"

/* After the item was measured without it: how many of a video's cells stay. */
sac_status sac_media_reduce_plan(const sac_session *s, sac_media *m, sac_error *err);

/* Which stay, if the model's memo knows; the item has its key. */
void sac_media_recall_kept(const sac_session *s, sac_media *m);

/* It is not known which stay. */
static inline bool sac_media_is_undecided(const sac_media *m) {
    return m->n_kept && !m->kept;
}

/* Lays the item's spans out: each has those of its cells that stay or, as long as these are not known, an even share. */
void sac_media_lay_out_spans(const sac_session *s, sac_media *m);

/* Room for the rows that wait. */
sac_status sac_reduction_begin(const sac_session *s, sac_media *m, sac_error *err);
/* The rows of the next n tiles, which are made: the host's in f32, or a device's in the decoder's type. */
sac_status sac_reduction_add(const sac_session *s, sac_media *m, int64_t n, sac_visual_mat from, bool on_host,
                             sac_error *err);
/* All were added: what stays is known and remembered, and the spans are laid out by it; the others go. */
sac_status sac_reduction_end(sac_session *s, sac_media *m, sac_error *err);
/* What stayed goes where the prompt wants it. */
sac_status sac_reduction_write(const sac_session *s, const sac_media *m, sac_error *err);
/* NULL is fine. */
void sac_reduction_free(struct sac_reduction *r);

#endif
