/* settings.h - everything a run can be told, in one table.
 *
 * A row of the table is at once a long option, a key of a config file and a line of --help, so the three
 * cannot drift apart. Values come from a config file or from the command line; the command line wins,
 * whatever the order. */
#ifndef APP_SETTINGS_H
#define APP_SETTINGS_H

#include "saccade/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    COMMAND_ASK = 1,
    COMMAND_INSPECT = 2,
    COMMAND_BENCH = 4,
    COMMAND_EVAL = 8,
    COMMAND_COMPARE = 16,
    COMMAND_CAPTION = 32,
    COMMAND_SERVE = 64,
    COMMAND_CALIBRATE = 128,
    COMMAND_QUANTIZE = 256,
    COMMAND_TUNE = 512,
    COMMAND_REPRODUCE = 1024,
    COMMAND_ALL = 255 | COMMAND_TUNE | COMMAND_REPRODUCE /* that load a model to run it */
};

typedef enum setting_kind {
    SETTING_FLAG,  /* bool */
    SETTING_INT,   /* int64_t, min..max */
    SETTING_SEED,  /* uint64_t */
    SETTING_REAL,  /* double, min..max */
    SETTING_TEXT,  /* char *, owned */
    SETTING_TEXTS, /* text_list, each giving adds one */
    SETTING_MEDIA, /* media_list, kept in the order given */
} setting_kind;

typedef struct setting {
    const char *name;  /* long option, without "--" */
    char letter;       /* short option, or 0 */
    const char *group; /* key of a config file under which it lies; NULL = at the top */
    bool command_line_only;
    setting_kind kind;
    size_t offset;     /* of its field in struct settings; of SETTING_MEDIA, which has none, the media_kind */
    unsigned commands; /* COMMAND_*, which take it */
    double min, max;
    const char *value; /* placeholder in --help */
    const char *help;
} setting;

typedef struct text_list {
    char **items;
    size_t n;
} text_list;

typedef enum media_kind { MEDIA_IMAGE, MEDIA_VIDEO, MEDIA_FRAMES } media_kind;

typedef struct media_item {
    media_kind kind;
    char *path;
    void *bytes; /* [n_bytes] of what came through a pipe, whose path is only a name; otherwise NULL */
    size_t n_bytes;
} media_item;

typedef struct media_list {
    media_item *items;
    size_t n;
} media_list;

typedef enum setting_origin { ORIGIN_DEFAULT, ORIGIN_CONFIG, ORIGIN_COMMAND_LINE } setting_origin;

#define SETTINGS_MAX 160

typedef struct settings {
    media_list media;
    char *model, *mmproj, *weights, *quantize_format, *calibrate_list, *chat, *chat_template_kwargs, *tools, *tokenizer, *system, *config, *device,
        *activations;
    int64_t threads, vision_cache_mib;
    bool fast, json, quiet, help, no_pictures, parse_special, keep_video_marks;
    double fps;
    int64_t num_frames, max_frames, max_pixels;
    int64_t image_min_pixels, image_max_pixels;
    bool no_rotate;
    bool key_frames;
    int64_t max_tokens, top_k;
    double temperature, top_p, min_p, repetition_penalty;
    uint64_t seed;
    text_list stop, set, adapter;
    int64_t ctx, prefill_chunk;
    char *kv, *prefill, *decode, *rope, *reduce, *draft;
    int64_t prompt_tokens, gen_tokens, repeat;
    bool plan, tensors, keys, count_tokens;
    char *videos, *subtitles, *prompt, *out;
    int64_t limit;
    bool reuse, retry, score;
    char *benchmark, *answers, *html;
    bool list; /* of reproduce */
    char *text, *attention;
    bool map;
    int64_t length, samples, pairs, tail;
    bool measure_mass;
    text_list method;
    char *methods;
    char *want, *by, *data;
    double lose, minutes, test_share;
    int64_t tries;
    char *ask, *column, *shard;
    text_list format;
    int64_t shards, batch;
    bool trust_media;
    char *host, *model_name, *cors_origin, *media_root, *upload_dir;
    text_list api_key, fetch_domain;
    int64_t port, slots, queue, connections, body_mib, bodies_mib, uploads_mib, media_mib, decoded_mib;
    int64_t picture_pixels, media_items;
    bool request_methods;
    bool no_sharing;
    char *cache_dir;
    int64_t cache_memory_mib, cache_disk_mib, kv_memory_mib;
    bool lenient_fields;
    char *request_log, *otlp_traces_endpoint, *kv_events_config, *tool_parser, *reasoning_parser;
    int64_t client_slots, client_requests;
    double target_itl_ms;
    int64_t pass_rows; /* -1: not set */
    bool shared_priorities;
    double video_seconds, decode_seconds, request_seconds, receive_seconds, heartbeat_seconds, drain_seconds;
    setting_origin origin[SETTINGS_MAX]; /* by row of the table */
} settings;

extern const setting settings_table[];
extern const size_t settings_n;

void settings_init(settings *s);
void settings_free(settings *s);

/* All but the media; to be freed, on failure too. */
sac_status settings_copy(settings *to, const settings *from, sac_error *err);

/* The row's value and origin as they are in `from`. */
sac_status settings_copy_row(settings *to, const settings *from, const setting *row, sac_error *err);

/* The row of a name, '_' counting as '-'; NULL when there is none. */
const setting *settings_find(const char *name);

/* Parses `text` and stores it, unless a stronger origin has set the row before (the text is checked all the
 * same). A flag takes "true" or "false". The error names neither the setting nor its place: callers put that
 * in front. */
sac_status settings_set(settings *s, const setting *row, const char *text, setting_origin origin,
                        sac_error *err);

/* Is there a folder of this name, the value of `option` ("--videos")? */
sac_status settings_check_folder(const char *option, const char *path, sac_error *err);

/* Was the row of the field at this offset set by anyone? settings_given(s, offsetof(settings, fps)) */
bool settings_given(const settings *s, size_t offset);

/* "--NAME WHY", of the first of these n options that the command line has. A settings file may hold options for more than
 * one use of a command: there they are without effect. */
sac_status settings_refuse_given(const settings *s, const size_t *offsets, size_t n, const char *why, sac_error *err);

sac_status media_list_add(media_list *list, media_kind kind, const char *path, sac_error *err);
sac_status media_list_add_copy(media_list *list, const media_item *item, sac_error *err);
void media_list_drop(media_list *list, size_t i);
void media_list_clear(media_list *list);

#endif
