/* media.h - pictures and videos of a conversation, from parts to embeddings in the prompt's rows. */
#ifndef SAC_ENGINE_MEDIA_H
#define SAC_ENGINE_MEDIA_H

#include "engine.h"
#include "video.h"

struct sac_media {
    const sac_part *part;   /* borrowed for the call */
    sac_part_kind content;  /* IMAGE, VIDEO or FRAMES */
    const uint8_t *patches; /* a picture's patch rows, until it is encoded: own_patches, or prepared ones */
    uint8_t *own_patches;
    sac_video *video; /* a video, until it is encoded */
    sac_frame_plan frames;
    sac_visual_plan plan;   /* of the picture, or of each frame */
    sac_tower_plan tower;   /* of each of its tiles */
    int64_t
        n_blocks; /* placeholders in the prompt: one a picture, a tile of it or a row of tokens, one a frame or one for all */
    int64_t block_tokens;   /* visual tokens behind each; 0: of a tile's parts, which differ */
    sac_prompt_span *spans; /* [n_blocks] of the session's; .first is set when the prompt is placed */
    sac_vision_key digest;  /* of the bytes, when has_digest */
    sac_vision_key stamp;   /* of the files when they were hashed */
    bool has_digest;
    sac_vision_key key; /* of the embeddings */
    sac_media_report report; /* n_tiles: a frame and what it is cut into are one */
    /* Of a video that a reducer leaves cells out of. Which is known once the tower has seen it all, or remembered; then a span has
     * those of its cells that stay, and until then an even share. block_tokens is what the spans had with all of them. */
    int64_t n_kept;  /* cells that stay; 0: it is left whole */
    int64_t n_cells; /* of all its tiles */
    int32_t *kept;   /* [n_kept] ascending; NULL: not known */
    struct sac_reduction *reduction; /* its rows between the tower and the prompt (media_reduce.h), or NULL */
};

/* Opens, samples and measures every picture and video of the conversation: after this all token counts are
 * known. */
sac_status sac_media_prepare(sac_session *s, const sac_message *messages, size_t n_messages, sac_error *err);

/* Lets go of what a call borrowed and opened (pixels, files); reports stay until the next sac_media_prepare.
 */
void sac_media_close(sac_session *s);

/* How the merger blends the embeddings of each of the item's tiles: frames by these tables, pictures not at all. */
static inline sac_token_blend sac_media_frame_blend(const sac_media *m, sac_token_blend tables) {
    tables.n = m->plan.is_video_frame && m->plan.blends ? (int)m->plan.n_tokens : 0;
    return tables;
}

/* What callers are told of it: pictures that a frame is cut into count as tiles, as sac_token_place has them. */
static inline sac_media_report sac_media_told(const sac_media *m) {
    sac_media_report told = m->report;
    if (m->plan.crops.n) told.n_tiles *= m->plan.crops.n;
    return told;
}

/* Visual tokens of the item in the prompt. */
static inline int64_t sac_media_n_tokens(const sac_media *m) {
    return m->report.n_tokens;
}

/* Token t of a span of the item, counted from where all of its tokens are counted: a video's cells by their own number, with what
 * stands behind them after the last. */
int64_t sac_media_index(const sac_media *m, const sac_prompt_span *span, int64_t t);

/* Visual tokens of the item before block b, and behind it, all of its cells counted. */
static inline int64_t sac_media_block_first(const sac_media *m, int64_t b) {
    const int parts = sac_visual_parts(&m->plan);
    if (m->block_tokens) return b * m->block_tokens;
    return b / parts * m->plan.n_tokens + sac_visual_part_first(&m->plan, (int)(b % parts));
}
static inline int64_t sac_media_block_tokens(const sac_media *m, int64_t b) {
    return m->block_tokens ? m->block_tokens : sac_visual_part_tokens(&m->plan, (int)(b % sac_visual_parts(&m->plan)));
}

/* The id that stands for the item's rows. */
int32_t sac_media_token(const sac_session *s, const sac_media *m);

/* Of visual token `index` of item i: equal content gives equal ones. */
sac_identity sac_media_identity(const sac_session *s, size_t i, int64_t index);

/* Where the visual tokens of item i come from, into those of places [0, capacity) that they stand at. */
void sac_media_places(sac_session *s, size_t i, sac_token_place *places, int64_t capacity);

/* The patch rows of n of the item's tiles on their way into the tower; segments stand in the session's memory. */
sac_patch_rows sac_media_patch_rows(const sac_session *s, const sac_media *m, const uint8_t *pixels, int n);

#endif
