/* engine.h - what stands behind the opaque types of saccade.h; private to runtime/engine. */
#ifndef SAC_ENGINE_H
#define SAC_ENGINE_H

#include "ahead_gain.h"
#include "detokenizer.h"
#include "device_weights.h"
#include "draft.h"
#include "eagle.h"
#include "media_memo.h"
#include "model.h"
#include "reduce.h"
#include "reply.h"
#include "saccade/saccade.h"
#include "sampler.h"
#include "store_index.h"
#include "vision_cache.h"

#include <stdatomic.h>

struct sac_model {
    sac_loaded_model loaded;
    sac_ops ops; /* on the host: the tower, and everything on the CPU */
    sac_pool *pool;
    sac_device device;                 /* where the decoder runs */
    sac_dtype activations;             /* of its sessions there */
    sac_stream load_stream;            /* of a device that is not the CPU, for the weights */
    sac_device_decoder device_decoder; /* where that is not the CPU; block NULL: loaded.decoder runs */
    sac_device_tower device_tower;     /* on the device; block NULL: it runs on the host */
    sac_vision_cache *vision_cache;    /* locked inside, so usable from a const model */
    sac_media_memo *memo;              /* likewise */
    struct sac_workspaces *workspaces; /* likewise (workspace.h) */
    bool fast;
    char cpu_text[96];
    struct sac_draft_models *draft_models; /* locked inside (draft_model.h) */
    struct sac_draft_heads *draft_heads;   /* likewise (draft_head.h) */
};

/* Buffers between the tower and the prompt; empty for a text-only model. A tile is one picture that the tower
 * takes: a whole picture, a part of one, a frame. A session always has its limits and layout, and the buffers while
 * a prompt of it runs. */
typedef struct sac_vision_state {
    int batch_tiles;       /* tiles encoded at a time, where so many go into */
    int64_t batch_patches; /* patches */
    int64_t joined_patches; /* of several pictures, that go together at most; on the host the same whatever the batch, which bounds them too (media_join.c) */
    int max_tiles;         /* of one picture */
    sac_tower_state tower;
    uint8_t *patches;       /* patch rows of max_tiles tiles, or a batch if that is more */
    int32_t *segment_start; /* [batch_tiles * segments of a tile + 1] first rows of a batch's segments */
    uint8_t *tile;          /* pixels of one, for who wants to see it */
    uint8_t *frame;         /* patch rows of one frame, where several share a tile's patches */
    float *features;        /* [rows of a batch][cols] */
    float *mid;             /* [rows of a batch][merger's hidden] */
    float *raw;             /* [rows of a batch][hidden], before pooling */
    float *pooled; /* [tokens of max_tiles tiles, or of a batch][hidden]; then what is added to them later */
    int64_t pooled_rows;   /* room of it, and of a device's rows */
    int32_t *layout;       /* [max_tokens of one picture] */
    sac_token_blend blend; /* tables of as many, where the processor blends; n is not used */
    int64_t max_tokens;
    float *class_attention; /* [2][max_tiles][1 + patches], for the reducer: first layer, last layer */
} sac_vision_state;

/* Sizes of the vision buffers in bytes, in one place for the plan and for the taking. */
typedef struct sac_vision_sizes {
    int batch_tiles, max_tiles, batch_segments;
    int64_t batch_n_patches,
        batch_inside; /* patches of a batch, and rows that the tower's layers make of them */
    int64_t pooled_rows;
    size_t patches, segment_start, tile, frame, features, mid, raw, pooled, layout, blend, class_attention;
    size_t batch_patches; /* patch rows of one batch; raw is what comes of them */
    bool pools;           /* tokens of pictures or of frames are pooled */
} sac_vision_sizes;
sac_vision_sizes sac_vision_measure(const sac_model *model);

/* Patch rows on their way through a device; see device_tower.h. The first slot's stand behind the session's
 * patches, so it holds a picture of any size. */
enum { SAC_TOWER_SLOTS = 2 };
typedef struct sac_tower_slot {
    uint8_t *patches; /* pinned */
    sac_event done;   /* the rows of the slot's batch are written, and its patches may be */
} sac_tower_slot;

/* The tower's buffers on a device, where it runs there; is_open false elsewhere. */
typedef struct sac_device_vision {
    bool is_open;
    sac_dtype tower_dtype;
    sac_tower_state tower;
    uint8_t *patches;      /* of a batch */
    void *features, *mid;  /* as above, in the tower's type */
    void *raw;             /* the merger's, where anything is pooled */
    void *rows;            /* [tokens of a picture's tiles, or of a batch][hidden] in the decoder's type */
    int32_t *layout;       /* [max_tokens of one picture] */
    sac_token_blend blend; /* as above */
    float *wide;           /* [rows of a batch][hidden] from the merger, where the decoder has another type */
    int32_t *every_row;    /* 0, 1, 2 ... of wide; both NULL where the types are one */
    sac_tower_slot slot[SAC_TOWER_SLOTS];
} sac_device_vision;

/* Where one picture or video stands: its report, its key, its embeddings' place in the prompt. */
typedef struct sac_media sac_media;

/* What sac_session_set_chat was given, read. */
typedef struct sac_chat_settings {
    json_t *tools, *documents, *variables; /* owned, or NULL */
    bool no_generation_prompt, continue_final_message, parse_special, keep_video_marks;
} sac_chat_settings;

/* Of a device's memory (workspace.h). */
typedef struct sac_session_block {
    void *memory;
    size_t n_bytes; /* at least those asked for */
} sac_session_block;

/* Drafted tokens of the last pass (ahead.h). */
typedef struct sac_ahead {
    sac_draft draft;
    int n, at; /* drafted ones that were run; the row whose logits are the decoder's, 0: the pass's own */
    int credit;
    bool has_failed; /* in this answer: a draft model or head has failed, and is not asked any more */
    int32_t ids[1 + SAC_DRAFT_MOST]; /* the pass's own token, and the drafted ones */
    int64_t n_taken[SAC_DRAFT_MOST]; /* by the answer, of those at each place of a pass */
    sac_ahead_gain gain;             /* where making them takes time */
    sac_session *drafter;            /* of the model that makes them, or NULL */
    sac_eagle_state head;            /* that makes them; .head NULL: there is none */
} sac_ahead;

/* What a row of a sequence was made from: a token id, or part of the SHA-256 key of a picture or video and the row's
 * number in it; and the adapter. Rows are the same where these are, and all those before them. */
typedef struct sac_identity {
    uint64_t a, b;
} sac_identity;

/* What the store of beginnings (store.h) knows of a session; under its lock. */
typedef struct sac_stored {
    sac_store_key beginning; /* before the first block: of the settings */
    sac_store_key key;       /* of the last block that was saved */
    int64_t n_saved;         /* rows of those offered that are saved, or will not be */
    int64_t n_first, n_found; /* of the last prompt: rows that it had before; rows that came out of the store */
} sac_stored;

/* Rows of a session on the host that gave their pages to others. */
typedef struct sac_parked_block sac_parked_block; /* parked.h */
typedef struct sac_parked {
    sac_parked_block *block; /* whose first n rows they are; NULL: there are none */
    int64_t first, n;
} sac_parked;

/* Keys and values in pages, where these run out (pages.h). */
typedef struct sac_paging {
    bool waits;          /* what finds too few is tried again */
    int64_t wanted_rows; /* that there was no memory for; 0: it was not asked for more than there is */
    sac_parked parked[2]; /* rows behind those whose pages others have too; and, where it came to that, these */
} sac_paging;

struct sac_session {
    const sac_model *model;
    sac_session_config config;
    sac_chat_settings chat;
    sac_reduce reduce;
    sac_memory_report memory;
    sac_arena arena;
    sac_session_block device_block; /* behind device_arena */
    sac_arena device_arena;
    sac_decoder_state decoder;
    float *kept_hidden; /* [hidden] of the caller's: what a prompt leaves of its last token; NULL = nothing */
    sac_paging paging;
    bool has_entered; /* among those that the model has workspaces for */

    /* Borrowed while the model runs (workspace.h), zeroed in between but for what vision knows of a model. */
    struct sac_workspace *workspace;
    sac_stream stream;        /* of the host */
    sac_stream device_stream; /* of another device */
    sac_ops device_ops;
    sac_vision_state vision;
    sac_device_vision device_vision;

    sac_session *guide; /* the second sequence of guidance (guide.h), or NULL */
    sac_sampler sampler;
    sac_ahead ahead;
    sac_detokenizer *detokenizer;
    int32_t *ids; /* [n_ctx] the sequence, placeholder ids for visual tokens */
    sac_identity *identity; /* [n_ctx] of the cached rows, and of the prompt that is run */
    int64_t n_prompted;     /* leading rows of the cache that prompts have made, not steps of an answer */
    bool begins_few;        /* the first rows were made by a prompt of few rows: those of a longer prompt have other bits */
    int64_t n_exact;        /* leading rows of the cache that are those of a prompt run from its first token */
    sac_beginnings *beginnings; /* that it shares, or NULL */
    sac_session *next_sharer;   /* of these; under their lock, as is n_shared */
    int64_t n_shared;           /* leading rows that others may take */
    sac_stored stored;
    int held_adapter; /* that the cached rows were made with */
    int32_t *prompt;  /* [n_ctx] tokens of the prompt being prepared, before placeholders are widened */
    int32_t *answer;  /* [n_ctx] */
    sac_reply reply;
    sac_visual_span *visual; /* [n_ctx] of the prompt, more than enough */
    sac_prompt_span *spans;  /* [n_spans] the same with what each shows; of the last call, as media are */
    int n_spans;
    int32_t *positions;    /* [SAC_POSITION_AXES][n_ctx] room for the prompt's, which are [axes][n] */
    int64_t next_position; /* of the first token after the prompt */
    char *text;            /* the answer */
    size_t text_capacity;
    struct sac_work *work; /* of the call that runs a prompt (work.h) */
    bool has_logits;
    bool leaves_logits; /* sac_session_leave_logits */
    atomic_bool cancel;
    const sac_events *events; /* of the call that is running, or NULL */
    sac_media *media;         /* of the last call; freed by the next */
    size_t n_media;
    sac_media_report *reports;
};

/* UNSUPPORTED for a model that reads text only. */
sac_status sac_model_check_vision(const sac_model *m, sac_error *err);

/* CANCELLED once sac_session_cancel was called, until the next call begins. */
sac_status sac_session_check_cancel(sac_session *s, sac_error *err);

/* Gives up the answer between begin and end. */
void sac_reply_drop(sac_session *s);

static inline bool sac_model_on_device(const sac_model *m) {
    return m->device.kind != SAC_DEVICE_CPU;
}
/* The decoder where it runs. */
static inline const sac_decoder *sac_model_decoder(const sac_model *m) {
    return sac_model_on_device(m) ? &m->device_decoder.decoder : &m->loaded.decoder;
}
/* What its ops run with. */
static inline const sac_stream *sac_decoder_stream(const sac_session *s) {
    return sac_model_on_device(s->model) ? &s->device_stream : &s->stream;
}
static inline const sac_ops *sac_decoder_ops(const sac_session *s) {
    return sac_model_on_device(s->model) ? &s->device_ops : &s->model->ops;
}

/* Of a row of a picture or video that is run with the session's adapter: rows of different ones are never taken for each
 * other. */
static inline sac_identity sac_row_identity(const sac_session *s, sac_identity source) {
    source.b ^= (uint64_t)s->decoder.adapter * 0x9e3779b97f4a7c15u;
    return source;
}
static inline sac_identity sac_token_identity(const sac_session *s, int32_t id) {
    return sac_row_identity(s, (sac_identity){(uint32_t)id, 0});
}
static inline bool sac_identity_equal(sac_identity x, sac_identity y) {
    return x.a == y.a && x.b == y.b;
}

/* Closes what the last call opened. */
void sac_media_release(sac_session *s);

#endif
