/* saccade/saccade.h - the public API of Saccade, a runtime for vision-language models.
 *
 *   sac_model *model;
 *   sac_session *session;
 *   sac_result result;
 *   sac_error err;
 *   sac_part parts[] = {{.kind = SAC_PART_IMAGE, .path = "cat.jpg"},
 *                       {.kind = SAC_PART_TEXT, .text = "What is this?"}};
 *   sac_message question = {.role = "user", .parts = parts, .n_parts = 2};
 *   if (sac_model_open(&model, "models/demo", NULL, &err) == SAC_OK &&
 *       sac_session_create(&session, model, NULL, &err) == SAC_OK &&
 *       sac_session_generate(session, &question, 1, NULL, NULL, &result, &err) == SAC_OK)
 *       puts(result.text);
 *   else
 *       puts(err.text);
 *
 * Rules that hold everywhere:
 * - A sac_model is read-only once it is open, and sessions in several threads may share it. It must outlive
 *   them. A sac_session is one conversation, used by one thread at a time; only sac_session_cancel may come
 *   from another thread.
 * - Functions return SAC_OK or a negative status. On failure they fill *err (which may be NULL) with one line
 *   that says what was wrong.
 * - A pointer that is passed in is borrowed for the call only. A pointer that is handed out lives as long as
 *   its comment says.
 * - Options are plain structs. The _default function fills one; then change what you need. NULL means the
 *   defaults.
 * - sac_session_create takes all memory of a session: keys, values and what methods keep. What is needed only
 *   while the model runs is a workspace of the model, which its sessions take in turn: a call has one while it
 *   runs, and a prompt that is begun in pieces until its first token can be chosen. The first one is made with
 *   the first session. Where several are needed at once, by threads or by prompts under way together, another is
 *   made then and kept; sac_model_reserve_workspaces makes them beforehand. Otherwise running the model allocates
 *   nothing; decoding pictures and videos and tokenising text do. */
#ifndef SACCADE_SACCADE_H
#define SACCADE_SACCADE_H

#include "saccade/api.h"
#include "saccade/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SAC_VERSION "0.2.0"

typedef struct sac_model sac_model;
typedef struct sac_session sac_session;

/* The version of the library that runs; SAC_VERSION is that of the header. */
SAC_API const char *sac_version(void);

/* How the library that runs was built, and what it finds on this machine. Strings live as long as the process. */
typedef struct sac_build_info {
    const char *version;
    const char *compiler;       /* "gcc 12.2.0" */
    const char *cpu;            /* instruction sets of the kernels that run here, "avx2 avx512 vnni" */
    const char *cuda;           /* "13.0 for sm_80 sm_90a"; NULL: built without */
    int cudnn;                  /* the cuDNN that is found, 91002 for 9.10.2; 0: none that can be used */
    const char *ffmpeg;         /* FFmpeg's version; NULL: built without, reads no video */
    const char *ffmpeg_licence; /* as its libraries say it, "GPL version 2 or later"; NULL as above */
    /* What a binary of Saccade and FFmpeg's libraries may be passed on under: "Apache-2.0", "GPL-3.0-or-later" or
     * "nonfree" (not at all). */
    const char *licence;
} sac_build_info;
SAC_API void sac_get_build_info(sac_build_info *info);

/* ---------------------------------------------------------------- model */

/* Progress of long work. stage: "load", "media", "vision", "prefill", "decode"; total is 0 when unknown. */
typedef void (*sac_progress_fn)(void *ctx, const char *stage, int64_t done, int64_t total);

typedef struct sac_model_options {
    int n_threads; /* 0 = one for each processor */
    /* How conversations are written. NULL = by the chat template of the model's files, or, where they have none, in the
     * built-in format of the family. Otherwise the name of one of the files' templates ("tool_use"), a name of
     * sac_chat_format_names(), or the path of a template (Jinja, as chat_template.jinja). */
    const char *chat_format;
    /* Where a folder's tokenizer class and its tokenizer.json differ, text becomes tokens as the class has it
     * ("class", NULL: transformers 5) or as the file has it ("file": transformers 4). */
    const char *tokenizer;
    /* LoRA adapters, merged into the weights while these are loaded: a folder as peft saves it, "DIR", or "DIR:SCALE"
     * with a factor for what it adds; of a GGUF model a .gguf file. One in the model's own folder comes first by
     * itself. */
    const char *const *adapters;
    size_t n_adapters;
    /* LoRA adapters that are kept apart, beside the weights instead of in them, for sessions to choose from
     * (sac_session_set_adapter): "NAME=DIR" or "NAME=DIR:SCALE", DIR as above. They add to what is merged. Only matrices
     * of the language model's layers may be adapted so, quantised ones too. */
    const char *const *kept_adapters;
    size_t n_kept_adapters;
    /* The vision half of a GGUF language model, a .gguf file of its own; NULL: a file mmproj*.gguf beside the model, where
     * there is one (of several one must be named); "none": the language model alone. */
    const char *mmproj;
    /* To what the matrices of the language model are rounded while it is loaded, from files in 16 or 32 bits: a name of
     * sac_weight_format_names(), "q4_k_m", "w4a16:g=64". The numbers are those of a file that `saccade quantize` writes.
     * NULL: they stay as the files have them. */
    const char *weights;
    /* Cache of visual rows by content, shared by the model's sessions; 0 = off; default 256 MiB. On a device it
     * is one block of its memory, taken when the model is opened, with rows in the activations' type: in 16 bits
     * twice as many as on the CPU, where rows are in f32 and memory is taken as the cache fills. */
    size_t vision_cache_bytes;
    const char *device;      /* where the language model runs: NULL or "cpu"; "cuda", "cuda:1" */
    const char *activations; /* type of activations: NULL = f32 on the CPU; on a card what most weights are
                                stored in, bf16 where that is no floating type. "f32", "f16", "bf16" */
    bool fast;               /* allow bf16 products (faster; logits then differ in the third digit) */
    /* Pixels of a picture, and of each frame of a video, where the model takes pictures of any size: what is smaller is
     * enlarged, what is larger made smaller. 0 = as the checkpoint says. A limit on tokens and on memory. */
    int64_t image_min_pixels, image_max_pixels;
    sac_progress_fn progress;
    void *progress_ctx;
} sac_model_options;

/* Names for sac_model_options.weights, NULL-terminated. */
SAC_API const char *const *sac_weight_format_names(void);

SAC_API void sac_model_options_default(sac_model_options *o);

/* `path`: a Hugging Face folder (config.json, *.safetensors, tokenizer.json ...) or a
 * .gguf language model, with or without its vision half. A folder of the hub's cache (models--org--name) stands for its main snapshot. */
SAC_API sac_status sac_model_open(sac_model **out, const char *path, const sac_model_options *options,
                                  sac_error *err);
SAC_API void sac_model_free(sac_model *m); /* NULL is fine; sessions must be freed before */

typedef struct sac_model_info {
    const char *family;      /* "llava" */
    const char *dtype;       /* type of most weights, "bf16" */
    const char *chat_format; /* "chatml"; "template" when it is one */
    const char *chat_source; /* the template's file; NULL for a built-in format */
    const char
        *tokenizer; /* what makes tokens: a class, "LlamaTokenizer"; "tokenizer.json"; "tiktoken.model"; a GGUF "vocabulary" */
    int64_t n_parameters;
    size_t weight_bytes;
    int n_layers, hidden, n_heads, n_kv_heads, head_dim, intermediate, vocab;
    int64_t max_context; /* trained length */
    double rope_theta;
    bool has_vision;
    int vision_layers, vision_hidden, vision_heads, patch_size;
    int image_size; /* of the tower's pictures, a side; 0: pictures of any size */
    int tokens_per_frame; /* visual tokens of one picture of image_size, or of a video frame; where pictures may be of
                              any size, of a frame as large as most */
    const char *processor; /* "clip", "anyres", "unires" */
    int n_threads;
    const char *cpu; /* instruction sets in use, "avx2 avx512 vnni" */
    const char
        *unknown_tokenizer; /* "tokenizer_class" where it is not known here and tokenizer.json is taken as it
                                      is; or NULL */
    const char
        *unknown_setting; /* the first key of generation_config.json that nothing here knows, or NULL */
    const char *mmproj;   /* the file of a GGUF model's vision half; NULL: there is none */
    int n_experts, n_experts_used,
        expert_intermediate; /* of layers that have experts in the place of their MLP, how many,
                                                           those that see a token, and channels of each; 0: there are none */
    int n_unrounded; /* matrices of layers that sac_model_options.weights leaves as they are, because their rows are no
                        whole groups; 0: none */
    const char *first_unrounded; /* one of them; or NULL */
} sac_model_info;

SAC_API void sac_model_get_info(const sac_model *m,
                                sac_model_info *info); /* strings live as long as the model */

/* The i-th tensor by name; false when i is past the last. dims: outermost first. */
typedef struct sac_tensor_info {
    const char *name, *dtype;
    int n_dims;
    int64_t dim[4];
    size_t n_bytes;
} sac_tensor_info;
SAC_API bool sac_model_get_tensor(const sac_model *m, int64_t i, sac_tensor_info *info);

/* The i-th key of generation_config.json (where there is none: the settings of generation in config.json); false
 * when i is past the last. */
typedef struct sac_setting_info {
    const char *name;
    const char *value; /* as JSON writes it; a long one ends in "..." */
    bool has_effect;   /* on answers here, as the file stands */
    bool is_known;
} sac_setting_info;
SAC_API bool sac_model_get_setting(const sac_model *m, int64_t i, sac_setting_info *info);

/* The i-th key of config.json, preprocessor_config.json, processor_config.json or a GGUF file, those that are null left
 * out, and, of "safetensors", scales of a cache that nothing reads ("*.k_scale (28)"); false when i is past the last. */
typedef enum sac_key_effect {
    SAC_KEY_IS_UNKNOWN,  /* nothing here knows it: it has no effect */
    SAC_KEY_IS_HONOURED, /* or would be refused with another value */
    SAC_KEY_IS_WITHOUT_EFFECT,
} sac_key_effect;
typedef struct sac_key_info {
    const char *file, *name; /* "config.json", "text_config.rope_scaling.factor" */
    sac_key_effect effect;
} sac_key_info;
SAC_API bool sac_model_get_key(const sac_model *m, int64_t i, sac_key_info *info);

/* The i-th adapter, those that are merged into the weights first; false when i is past the last. */
typedef struct sac_adapter_info {
    const char *name;   /* under which it is kept apart; NULL: it is part of the model */
    const char *folder; /* or the .gguf file */
    const char *kind;   /* "lora", "dora" */
    double scale;       /* of what was named with it, 1 otherwise */
    int rank;           /* of most of its matrices: adapter_config.json's "r" */
    int n_tensors;
    size_t n_bytes;
} sac_adapter_info;
SAC_API bool sac_model_get_adapter(const sac_model *m, int64_t i, sac_adapter_info *info);

SAC_API const char *const *sac_chat_format_names(void); /* NULL-terminated */
SAC_API const char *const *sac_kv_names(void); /* storage formats of keys and values, NULL-terminated */

/* Token ids of text without chat format. add_special: begin-of-text as the tokenizer defines it;
 * parse_special: "<|end|>" in the text becomes that token. *n_ids is always the full count; at most capacity
 * ids are written. */
SAC_API sac_status sac_tokenize_text(const sac_model *m, const char *text, size_t n_bytes, bool add_special,
                                     bool parse_special, int32_t *ids, size_t capacity, size_t *n_ids,
                                     sac_error *err);

/* The ids that end an answer unless sac_sampling.ignore_eos is set; they live as long as the model. */
SAC_API size_t sac_model_stop_ids(const sac_model *m, const int32_t **ids);

/* The bytes that a token adds in the middle of a text: " the", or a part of a character. Special tokens give
 * their name. *n_bytes is the full count; at most capacity are written (no NUL). */
SAC_API sac_status sac_token_bytes(const sac_model *m, int32_t id, char *bytes, size_t capacity,
                                   size_t *n_bytes, sac_error *err);

/* UTF-8 of ids, NUL-terminated, into text (at most capacity bytes); *n_bytes is the full length without the
 * NUL. */
SAC_API sac_status sac_detokenize_ids(const sac_model *m, const int32_t *ids, size_t n_ids, bool skip_special,
                                      char *text, size_t capacity, size_t *n_bytes, sac_error *err);

/* ---------------------------------------------------------------- session */

typedef struct sac_session_config {
    int64_t n_ctx;         /* tokens of prompt and answer; 0 = the model's length, at most 32,768 */
    int64_t prefill_chunk; /* rows of a linear layer at a time; 0 = 256 */
    /* Attention methods, "name" or "name:key=value,key=value"; NULL = the default. docs/methods.md has them
     * all. */
    const char *kv;      /* how keys and values are stored, "f16" (default; on a device the weights' type) */
    const char *prefill; /* which queries meet which keys in a prompt, "dense" (default) */
    const char *decode;  /* which stored rows a step reads, "dense" (default) */
    const char *rope;    /* positions: "model" (default), "ntk:factor=4" */
    const char *reduce;  /* visual tokens left out: "none" (default), of pictures "hired:rate=0.2", of videos "evs:prune=0.5", ... */
    /* Keys and values of a second sequence beside the first, which "guidance_scale" needs: the memory twice. So too
     * without it where the checkpoint's generation_config.json asks for guidance. */
    bool guidance;
    bool measure_mass; /* compare what decode methods read with dense attention: slow, for tables */
    /* Tokens guessed and run several in a pass: "none" (default); "lookup:n=3,most=7", as the prompt or the answer went on where
     * the same tokens stood before; "sparse:method=quest,budget=1024", by the model through a decode method; "model:PATH", by another
     * with the same tokens, kept with this one; "eagle3:PATH", by an EAGLE-3 head of the model, likewise. Answers are the same bit for
     * bit, with any sampling; on a device passes of several rows are rounded as those of a batch. With decode "dense" and kv f32, f16
     * or bf16, "eagle3" on the CPU; others are UNSUPPORTED. In a batch on the CPU each drafts in rows to spare, where all sessions of a
     * pass have a draft; on a device one does that is stepped by itself. */
    const char *draft;
} sac_session_config;

SAC_API void sac_session_config_default(sac_session_config *c);

/* What a session takes or would take, by purpose. n sessions of a model, of which k run a prompt at the same time,
 * take its weights + k workspaces + n sessions. Parts that are shared add up to workspace_bytes, the others to
 * total_bytes. A workspace is as large as the largest session of the model asks for. */
typedef struct sac_memory_part {
    const char *tag; /* "kv cache" */
    size_t n_bytes;
    bool is_shared; /* of the workspace */
} sac_memory_part;
typedef struct sac_memory_report {
    int64_t n_ctx;
    size_t weight_bytes; /* the model's, with copies of what is read otherwise than it lies, or as they lie on a device; shared; not
                            in total_bytes */
    size_t kv_bytes_per_token;
    size_t total_bytes;     /* the session's own */
    size_t workspace_bytes; /* the model's, shared */
    /* Of a device's memory, besides; 0 on the CPU. */
    size_t device_bytes, workspace_device_bytes;
    size_t device_vision_bytes; /* the tower's, in workspace_device_bytes; 0: it runs on the host */
    size_t device_cache_bytes;  /* the model's cache of visual rows, shared */
    int n_parts;
    sac_memory_part parts[16];
} sac_memory_report;

/* Memory that sac_session_create would take with this configuration, without taking it. */
SAC_API sac_status sac_session_plan(const sac_model *m, const sac_session_config *config,
                                    sac_memory_report *report, sac_error *err);

/* Workspaces for n prompts under way at the same time, by calls of several threads or in pieces: made now, for the
 * sessions that there are, and with every session that asks for larger ones. Without it there is one. */
SAC_API sac_status sac_model_reserve_workspaces(const sac_model *m, size_t n_prompts, sac_error *err);
/* What the workspaces take that are made, of the host's memory and of a device's (which may be NULL). */
SAC_API size_t sac_model_workspace_bytes(const sac_model *m, size_t *device_bytes);

/* ---- keys and values in pages: sessions share memory for them, and each has as much of it as it has rows, not as its context could
 * have. So there may be many long contexts of which few are long at a time. All formats; the second sequence of guidance and draft
 * models have memory of their own.
 *
 * A prompt gets pages for all its rows before it is run, a step gets some when it comes near to the end of those it has. When there
 * are none left that is NO_MEMORY, and nothing is lost that was there, except, in a session that shares
 * beginnings, rows that the prompt does not begin with. Whoever runs several sessions may have them wait instead
 * (sac_session_wait_for_pages) and give them what others can spare: sac_session_trim, sac_session_reset, sac_session_park. */

/* Before there are sessions, n_bytes for those that come, in whole pages; of a device's memory they are taken now. UNSUPPORTED:
 * the device has no pages; BAD_ARGUMENT: it was asked for before, there are sessions, or n_bytes are less than a page. */
SAC_API sac_status sac_model_page_kv(const sac_model *m, size_t n_bytes, sac_error *err);
typedef struct sac_kv_pages {
    size_t page_bytes, n_pages, n_free;
} sac_kv_pages;
SAC_API void sac_model_kv_pages(const sac_model *m, sac_kv_pages *out); /* from any thread; zeros: there are none */

/* When pages run out, a piece of a prompt (sac_session_work_next) and a step fail no more: the piece is not done and may be tried
 * again; the step is NO_MEMORY and may be made again. sac_session_lacks tells both from others. */
SAC_API void sac_session_wait_for_pages(sac_session *s, bool waits);
/* Bytes of pages that it lacked when it asked last, and lacks still; 0: it has what it asked for. */
SAC_API size_t sac_session_lacks(const sac_session *s);
SAC_API size_t sac_session_paged_bytes(const sac_session *s); /* of the pages that it has, also those that others have too */
/* Bytes of pages that nobody has but these sessions, each page counted once: sessions of one model, none of which is at work in another
 * thread. Sessions that share beginnings have pages in common (sac_session_join). */
SAC_API size_t sac_sessions_hold(const sac_session *const *sessions, size_t n);

/* Gives back pages behind the rows that it holds. Nothing while a prompt of it is being run. */
SAC_API void sac_session_trim(sac_session *s);
/* Gives back the pages that a session between two steps, or that waits with its prompt, has alone. Their rows go to the host's memory and
 * come back with the next step or piece, when there are pages for them: not a bit of its answer changes. Pages that other sessions have too
 * stay with it, and go when it is parked once more, or at once if it has no others. UNSUPPORTED: it has none;
 * BAD_ARGUMENT: it is at work; NO_MEMORY: of all sessions together at most as much is parked as the pages hold; DEVICE. Then its rows
 * are where they were. */
SAC_API sac_status sac_session_park(sac_session *s, sac_error *err);
SAC_API bool sac_session_is_parked(const sac_session *s); /* rows of it wait on the host */

/* Takes all the memory that this session will ever use for itself. */
SAC_API sac_status sac_session_create(sac_session **out, const sac_model *m, const sac_session_config *config,
                                      sac_error *err);
SAC_API void sac_session_free(sac_session *s); /* NULL is fine */
SAC_API void sac_session_memory(const sac_session *s, sac_memory_report *report);

/* What is run next is run with the adapter that is kept apart under this name; NULL: with none of them. NOT_FOUND
 * where there is none of the name, with those that there are; BAD_ARGUMENT between begin and end. What the session
 * holds stays: prompts use the rows of their own adapter again and no others, and sac_session_append goes on only
 * with the adapter of the rows that are there. `name` is borrowed for the call. */
SAC_API sac_status sac_session_set_adapter(sac_session *s, const char *name, sac_error *err);

/* Makes the call that is running in another thread return SAC_CANCELLED at the next layer or token; with none
 * running, nothing. */
SAC_API void sac_session_cancel(sac_session *s);

/* Forgets the conversation. */
SAC_API void sac_session_reset(sac_session *s);

/* ---------------------------------------------------------------- messages */

/* Which frames of a video are looked at. Rules that are given compose by the smallest count; see
 * sac_media_report.rule. */
typedef struct sac_video_options {
    double fps;         /* frames a second of video; 0 = not asked */
    int num_frames;     /* spread evenly over the video; 0 = not asked */
    int max_frames;     /* never more than this; 0 = what the context holds */
    int64_t max_pixels; /* of all frames together, as the tower sees them; 0 = not asked */
    bool no_rotate;     /* ignore rotation metadata */
    bool key_frames; /* each frame chosen gives way to the key frame before it, each taken once: little is decoded */
    double
        skip_s; /* of a video longer than max_frames at fps and twice this, so many seconds at both ends are left
                           out, and fps counts frames to the nearest number (SmolVLM); 0 = none */
    int pace; /* 1: frames at fps stand at whole steps of time (GLM-4.1V), 2: so many as the video's length asks for, whatever
                      fps is, if it is not 0 (GLM-4.6V); 0: they are spread evenly */
    double most_s; /* of pace 1: a longer video gets no more frames than one of so many seconds */
} sac_video_options;

/* `asked`, with what the model's own code samples of a video where neither fps nor num_frames is asked for (Qwen-VL: 2
 * frames a second; SmolVLM2: 1, at most 64, without the first and last second of a long video; GLM-4.1V and GLM-4.6V: at a
 * pace of their own). Whoever decodes a video itself chooses its frames by this. */
SAC_API sac_video_options sac_model_video_options(const sac_model *m, sac_video_options asked);

typedef enum sac_part_kind {
    SAC_PART_TEXT,   /* text */
    SAC_PART_IMAGE,  /* a picture: path; or bytes and n_bytes, a file; or prepared */
    SAC_PART_VIDEO,  /* path, or bytes and n_bytes: a video file; video = sampling */
    SAC_PART_FRAMES, /* frames, n_frames: pictures that are the frames of a video, in order */
    SAC_PART_PIXELS, /* pixels: a picture, or frames of a video, that the caller has decoded */
} sac_part_kind;

/* A picture made ready for the tower, see sac_prepared_create. */
typedef struct sac_prepared sac_prepared;

typedef struct sac_frame {
    const char *path; /* a picture file, or bytes, or prepared as a frame */
    const void *bytes;
    size_t n_bytes;
    double time_s;
    const sac_prepared *prepared;
} sac_frame;

/* Decoded pixels, red, green, blue, one byte each: a picture, or the frames of a video, all of one size.
 *
 *   sac_pixels pixels = {.width = 640, .height = 480, .rgb = rgb};
 *   sac_part parts[] = {{.kind = SAC_PART_PIXELS, .pixels = pixels},
 *                       {.kind = SAC_PART_TEXT, .text = "What is this?"}};
 *   sac_message question = {.role = "user", .parts = parts, .n_parts = 2};
 *   sac_session_generate(s, &question, 1, NULL, NULL, &result, err);
 *
 * The answer is the one that a file of the same pixels gets. As everything passed in, pixels and key are the
 * caller's, and are read during the call only. BAD_ARGUMENT: no pixels, a width, height or row_bytes that
 * cannot be, more than 178,956,970 pixels a picture (the limit for files), or times that do not rise. */
typedef struct sac_pixels {
    int width, height;
    const uint8_t *rgb;   /* row y of frame i begins at rgb + (i * height + y) * row_bytes */
    size_t row_bytes;     /* from a row to the next, 3 * width or more; 0 = 3 * width */
    size_t n_frames;      /* 0 or 1: a picture, or with time_s a video of one frame; more: a video */
    const double *time_s; /* [n_frames] when each frame is shown, rising; NULL: a frame a second */
    /* 32 bytes that stand for the content, such as a hash of the file: of two parts with the same key, size
     * and number of frames, the second is taken for the first, and what the model remembers of that is used
     * without a look at the pixels. NULL: the pixels are hashed. */
    const uint8_t *key;
} sac_pixels;

typedef struct sac_part {
    sac_part_kind kind;
    const char *text; /* UTF-8, NUL-terminated; control tokens in it are plain text (sac_chat_options) */
    const char *path;
    const void *bytes;
    size_t n_bytes;
    const sac_frame *frames;
    size_t n_frames;
    sac_video_options video; /* of VIDEO and FRAMES, and of PIXELS that are a video */
    const sac_prepared *prepared;
    sac_pixels pixels;
} sac_part;

typedef struct sac_message {
    const char *role; /* "system", "user", "assistant"; others when the model's template takes them: "tool" */
    const sac_part *parts;
    size_t n_parts; /* 0: the message has no content, as one with tool_calls may have none */
    /* What else a template may look at: a JSON object, such as {"tool_calls": [...]}, {"reasoning_content": "..."} or
     * {"name": "..."}. NULL = nothing. In a built-in format tool_calls are refused, and the rest has no effect. */
    const char *fields;
} sac_message;

/* What a chat template is given besides the messages, as transformers' apply_chat_template. Texts of JSON, or NULL.
 * With a built-in format tools, documents, variables and continue_final_message are UNSUPPORTED. */
typedef struct sac_chat_options {
    const char *tools;     /* an array of {"type": "function", "function": {...}} */
    const char *documents; /* an array of {"title", "text"} */
    const char
        *variables; /* an object: further variables of the template, such as {"enable_thinking": false} */
    bool
        no_generation_prompt; /* add_generation_prompt is false: the template does not open the model's turn */
    bool continue_final_message; /* the answer goes on with the last message; needs no_generation_prompt */
    /* Control tokens ("<|im_end|>") in the texts of the conversation are such, as transformers reads a rendered
     * conversation; otherwise what a user types stays text. */
    bool parse_special;
    /* Of a model that reads each step of a video behind its time (Qwen3-VL): the tokens that the template wrote around
     * the video's one placeholder stay, before the first time and behind the last step, as in transformers from 5.10
     * on; otherwise they go, as in version 4. */
    bool keep_video_marks;
} sac_chat_options;

/* Whether a session would take them. */
SAC_API sac_status sac_chat_options_check(const sac_model *m, const sac_chat_options *o, sac_error *err);

/* For all messages that the session is given from now on; what `o` points to is copied. NULL: none. BAD_ARGUMENT names
 * what is not JSON or of the wrong type; then nothing has changed. The session must be idle. */
SAC_API sac_status sac_session_set_chat(sac_session *s, const sac_chat_options *o, sac_error *err);

/* The conversation as the model reads it, NUL-terminated, into text (at most capacity bytes), with one placeholder for
 * each picture and video; nothing is opened. *n_bytes is the full length without the NUL. */
SAC_API sac_status sac_chat_preview(const sac_model *m, const sac_message *messages, size_t n_messages,
                                    const sac_chat_options *o, char *text, size_t capacity, size_t *n_bytes,
                                    sac_error *err);

/* ---- pictures prepared on other threads
 *
 * Decoding, resizing and hashing take milliseconds a picture, and need neither a session nor the thread that
 * runs the model:
 *
 *   sac_part cat = {.kind = SAC_PART_IMAGE, .path = "cat.jpg"};
 *   sac_prepared *ready;
 *   sac_prepared_create(&ready, model, &cat, false, err); // on any thread
 *   sac_part parts[] = {{.kind = SAC_PART_IMAGE, .prepared = ready},
 *                       {.kind = SAC_PART_TEXT, .text = "What is this?"}};
 *   sac_message question = {.role = "user", .parts = parts, .n_parts = 2};
 *   sac_session_generate(s, &question, 1, NULL, NULL, &result, err);
 *
 * A video goes frame by frame, so that its pixels need not be in memory at once: each frame's picture is
 * prepared with is_frame, and SAC_PART_FRAMES lists them with their times. */

/* What the vision tower takes of a picture, from any thread. `picture`: an IMAGE, or PIXELS of one picture or
 * frame; nothing of it is kept. is_frame: it is a frame of a video, which some models cut in another way.
 * What is prepared is for this model only, must be freed before it, never changes, and may be a part of many
 * conversations, of several threads at once; sessions look at it during their calls only. Errors are those
 * of the picture's decoding; UNSUPPORTED for a model that reads text only. On failure *out is NULL. */
SAC_API sac_status sac_prepared_create(sac_prepared **out, const sac_model *m, const sac_part *picture,
                                       bool is_frame, sac_error *err);
SAC_API void sac_prepared_free(sac_prepared *p); /* NULL is fine */
SAC_API size_t sac_prepared_bytes(const sac_prepared *p);

/* ---------------------------------------------------------------- generation */

#define SAC_MAX_TOP_LOGPROBS 20

typedef struct sac_logit_bias {
    int32_t id;
    float bias; /* added to the token's logit; -100 in effect bans it, 100 in effect forces it */
} sac_logit_bias;

/* Further settings of generation, each by the name that generation_config.json has for it, and llama.cpp's for
 * DRY, XTC and mirostat; docs/command.md lists them. Newly made all are off. A value is written as JSON writes
 * it: "3", "[1, 2]", "null" = off. BAD_ARGUMENT names what is not known or not in range. */
typedef struct sac_controls sac_controls;
SAC_API sac_status sac_controls_create(sac_controls **out, sac_error *err);
SAC_API sac_status sac_controls_set(sac_controls *c, const char *name, const char *json, sac_error *err);
/* *out: as `from`, which may be NULL; the caller's. */
SAC_API sac_status sac_controls_copy_of(sac_controls **out, const sac_controls *from, sac_error *err);
/* BAD_ARGUMENT where a list names a token that a vocabulary of n_vocab lacks; a session checks it too. */
SAC_API sac_status sac_controls_check_ids(const sac_controls *c, int n_vocab, sac_error *err);
/* Whether guidance_scale is given: then sessions need sac_session_config.guidance. */
SAC_API bool sac_controls_want_guidance(const sac_controls *c);
/* stop_token_ids, tokens that end an answer beside the model's own: how many, and *ids, valid until c changes. NULL has none. */
SAC_API size_t sac_controls_stop_ids(const sac_controls *c, const int32_t **ids);
SAC_API void sac_controls_free(sac_controls *c); /* NULL is fine */

typedef struct sac_sampling {
    int max_tokens;            /* 0 = to the end of the context; default 512 */
    double temperature;        /* 0 = greedy (default) */
    int top_k;                 /* 0 = off */
    double top_p;              /* 1 = off */
    double min_p;              /* 0 = off */
    double repetition_penalty; /* 1 = off; over prompt and answer, as transformers does */
    uint64_t seed;             /* same seed, same answer, whatever the number of threads */
    const char *const *stop;   /* texts that end the answer; not part of it */
    size_t n_stop;
    bool ignore_eos;
    /* OpenAI's: for a token that the answer holds n times its logit falls by presence_penalty +
     * n * frequency_penalty; -2 to 2, 0 = off. */
    double presence_penalty, frequency_penalty;
    const sac_logit_bias *logit_bias;
    size_t n_logit_bias;
    /* Log probabilities for events.token: of each token of the answer, and of the top_logprobs likeliest ones
     * (0 to SAC_MAX_TOP_LOGPROBS) at its place. They are of the distribution that the token was drawn from
     * before top_k, top_p and min_p cut it: logits after events.logits, logit_bias and the penalties, over
     * the temperature (over 1 when greedy), through softmax. */
    bool logprobs;
    int top_logprobs;
    const sac_controls *controls; /* NULL = all off; begin copies them */
} sac_sampling;

SAC_API void sac_sampling_default(sac_sampling *s);
/* The checkpoint's generation_config.json, where it has one. */
SAC_API void sac_sampling_of_model(const sac_model *m, sac_sampling *s);
/* *out: those of the checkpoint, to be changed further; the caller's. */
SAC_API sac_status sac_controls_of_model(sac_controls **out, const sac_model *m, sac_error *err);

typedef struct sac_logprob {
    int32_t id;
    float logprob;
} sac_logprob;

/* A token of the answer. The end token is none, and neither is what stands behind a stop text. */
typedef struct sac_token_event {
    int32_t id;
    float logprob;          /* 0 unless sac_sampling.logprobs */
    const sac_logprob *top; /* [n_top], falling; equal ones by rising id */
    int n_top;
} sac_token_event;

/* Callbacks during generation, from the calling thread; each may be NULL. */
typedef struct sac_events {
    void *ctx;
    /* A piece of the answer, whole UTF-8 characters; false cancels. */
    bool (*text)(void *ctx, const char *utf8, size_t n_bytes);
    sac_progress_fn progress;
    /* Asked often (between layers, tokens, frames, files): true ends this call with SAC_CANCELLED. For
     * deadlines, and for cancelling that belongs to one call whenever it begins. */
    bool (*stopped)(void *ctx);
    /* Pixels as the vision tower takes them: tile `tile` of picture or video `media` (in order of the
     * conversation), RGB [height][width][3]. Not called for what the cache of visual rows holds. */
    void (*tile)(void *ctx, size_t media, int64_t tile, int width, int height, const uint8_t *rgb);
    /* A token was chosen; before the text that it completes. */
    void (*token)(void *ctx, const sac_token_event *token);
    /* Before a token is chosen: may change the logits, and set those of tokens that may not come to
     * -INFINITY. With none left the call fails with BAD_ARGUMENT. Bias, penalties and temperature come after.
     * What sac_session_logits shows stays as it is. */
    void (*logits)(void *ctx, float *logits, int n_vocab);
    /* Before a token is chosen, when those before it are: clears the bits of tokens that may not come; bit id % 32 of
     * allowed[id / 32], (n_vocab + 31) / 32 words, all ones. As `logits` that sets them to -INFINITY, but a GPU's logits need not come
     * to the host for it (sac_session_leave_logits), and it is at work meanwhile: what is called may run no session of the model (BAD_ARGUMENT). In a batch on a GPU those of all sessions are called
     * before any of their tokens is told. */
    void (*mask)(void *ctx, uint32_t *allowed, int n_vocab);
} sac_events;

/* What was seen of one picture or video. */
typedef struct sac_media_report {
    sac_part_kind kind; /* IMAGE, VIDEO or FRAMES; of PIXELS the one of IMAGE and FRAMES that they are */
    int width, height;  /* of the source, upright */
    int n_frames;       /* frames or pictures encoded */
    /* Tower inputs, as sac_events.tile and sac_token_place.tile count them: n_tiles / n_frames of each frame, frame by frame, or one of
     * n_frames / n_tiles frames, rounded up. */
    int n_tiles;
    int64_t n_tokens;   /* visual tokens in the prompt */
    double source_fps, duration_s;
    int64_t source_frames;
    const char *rule;     /* which sampling rule decided: "num_frames=16" */
    const double *time_s; /* [n_frames], NULL for a picture */
    bool from_cache;      /* embeddings came from the cache */
} sac_media_report;

typedef struct sac_result {
    const char
        *text; /* the answer, UTF-8; owned by the session until its next call, like all pointers here */
    size_t n_text_bytes;
    const char *finish_reason; /* "stop" (end token or stop text), "length"; of sac_session_end also
                                  "cancelled", when the answer was not finished */
    const int32_t *tokens;     /* of the answer, the end token not counted */
    int64_t n_tokens;
    int64_t n_prompt_tokens; /* visual ones counted */
    int64_t n_visual_tokens;
    int64_t n_reused_tokens; /* of the prompt, already in the cache from the call before */
    /* With sac_session_config.draft: passes with tokens that were run on a guess, these, and those of them that the answer took: so many
     * passes of the model were saved. */
    int64_t n_drafts, n_drafted_tokens, n_accepted_tokens;
    bool prefill_is_short; /* the prompt was read densely: below the prefill method's break-even length */
    const sac_media_report *media;
    size_t n_media;
    /* seconds; media = decode, sample, resize; vision = the tower, of one on a device what the host spends on
     * submitting and waiting: batches that run there while the host decodes are in media. A rate of pictures
     * is theirs by media + vision. */
    struct {
        double media, vision, prefill, decode, first_token, total;
    } seconds;
} sac_result;

/* Answers a conversation whose last message is the user's. The whole conversation is given each time; what
 * the call before has in the cache is reused. On failure *result is zeroed; what is still valid in the cache
 * stays for the next call. */
SAC_API sac_status sac_session_generate(sac_session *s, const sac_message *messages, size_t n_messages,
                                        const sac_sampling *sampling, const sac_events *events,
                                        sac_result *result, sac_error *err);

/* ---- step by step: what sac_session_generate does, in pieces, for a scheduler of several sessions
 *
 *   sac_status st = sac_session_begin(s, messages, n_messages, sampling, events, err);
 *   int32_t token;
 *   for (bool done = false; st == SAC_OK && !done;) st = sac_session_step(s, events, &token, &done, err);
 *   if (st == SAC_OK) sac_session_end(s, &result);
 *
 * gives sac_session_generate's answer, bit for bit. Between the calls other sessions may run, in this thread
 * or in others. Events are those of the call they are given to; text, token and logits come from steps. */

/* Media, vision and prefill of a conversation, as sac_session_generate does them; the first token is then
 * one step away, without work of the model. What `sampling` points to is copied. Whatever the session was
 * answering before is given up. On failure nothing has begun. sac_session_cancel reaches from here to
 * sac_session_end: it makes the call that runs, or the next step, fail with CANCELLED. */
SAC_API sac_status sac_session_begin(sac_session *s, const sac_message *messages, size_t n_messages,
                                     const sac_sampling *sampling, const sac_events *events, sac_error *err);

/* The same for text as it stands, without chat format (OpenAI's completions), and for token ids. Text gets
 * the begin token as the tokenizer defines it; control tokens in it are plain text. The chat format's own
 * stop texts do not apply. */
SAC_API sac_status sac_session_begin_text(sac_session *s, const char *text, size_t n_bytes,
                                          const sac_sampling *sampling, const sac_events *events,
                                          sac_error *err);
SAC_API sac_status sac_session_begin_tokens(sac_session *s, const int32_t *ids, size_t n_ids,
                                            const sac_sampling *sampling, const sac_events *events,
                                            sac_error *err);

/* ---- sac_session_begin in pieces, for a scheduler that is a loop over the work of several sessions
 *
 *   sac_input input = {.messages = messages, .n_messages = n_messages};
 *   sac_status st = sac_session_begin_work(s, &input, sampling, events, err);
 *   for (bool done = false; st == SAC_OK && !done;) st = sac_session_work_next(s, &done, err);
 *
 * is sac_session_begin, bit for bit. Between the pieces other sessions may begin, work and step; this one may
 * not, until it is done or has failed. sac_session_end and sac_session_reset give the work up, but for callbacks of a call that
 * has it in it (a piece, or a pass with its rows): these may cancel the session only, its end and reset do nothing there and
 * what begins or goes on is a BAD_ARGUMENT. */

/* What is asked: messages, or text, or token ids, as the calls above take them; the others are NULL. */
typedef struct sac_input {
    const sac_message *messages;
    size_t n_messages;
    const char *text;
    size_t n_text_bytes;
    const int32_t *ids;
    size_t n_ids;
} sac_input;

/* Nothing is run yet. What the input and `events` point to must stay until the work is done or has failed. */
SAC_API sac_status sac_session_begin_work(sac_session *s, const sac_input *input,
                                          const sac_sampling *sampling, const sac_events *events,
                                          sac_error *err);

/* The next piece: the media and tokens of the prompt; opening a picture or video, or finding its rows in the
 * cache; a batch of it through the tower; a chunk of a layer's linear parts; or a layer's attention over the whole
 * prompt. *done: the first token is one sac_session_step away. On failure nothing has begun. */
SAC_API sac_status sac_session_work_next(sac_session *s, bool *done, sac_error *err);

/* The same, cut to take about so many seconds at most, so that answers of other sessions are not held up for longer: as
 * pieces of this session before it tell, on the CPU, and as far as pieces can be cut (64 tokens of a layer, one tile of a
 * tower; not a method's attention). On a device any limit cuts dense attention to about half of a chunk's work, and fewer
 * pictures go through the tower together. Answers keep their bits on the CPU, and on a Hopper card with heads of 128 channels
 * where no two pictures of one size follow one another. 0: no limit. */
SAC_API sac_status sac_session_work_within(sac_session *s, double seconds, bool *done, sac_error *err);

/* About how many multiply-adds of the language model the next piece takes; 0 where it is one of media and
 * tokens, or none. */
SAC_API double sac_session_work_cost(const sac_session *s);

/* About how many tokens of the prompt are still to be run: those that the cache does not have, less a share for every
 * layer that is done. Below 0 before the first piece, which counts them; 0 when no work is under way. A scheduler
 * sees by it which of several prompts is the shortest. */
SAC_API double sac_session_work_left(const sac_session *s);

/* One more token. *token is its id, or -1 when the end token was chosen. *done: the answer is finished, all
 * of its text sent, and no further step may be made. After a failure (CANCELLED, DEVICE ...) no further step
 * may be made either; sac_session_end still tells what had come. */
SAC_API sac_status sac_session_step(sac_session *s, const sac_events *events, int32_t *token, bool *done,
                                    sac_error *err);

/* Ends the answer, finished or not, and tells what came. The conversation stays in the session for the next
 * call. result may be NULL. Harmless when nothing has begun (*result is then zeroed). */
SAC_API void sac_session_end(sac_session *s, sac_result *result);

/* How a session shares its context out among pictures and videos, for whoever decodes them before the session sees
 * them. What the texts, an answer and all pictures leave is the videos', in the order of the conversation; lists of
 * frames count as videos. Each may have an equal share of what is left, and what it does not take is the next ones'.
 * First sac_room_picture for every picture; then for each video sac_room_frames, which says how many frames may be
 * decoded, and sac_room_video. */
typedef struct sac_room {
    const sac_model *model;
    const char *reduce; /* as in sac_session_config, borrowed */
    int64_t n_tokens;   /* left for what has not been counted yet; below 0 when it does not fit */
    int n_videos;       /* that have not been counted yet */
} sac_room;

/* n_ctx: of the session, its memory report says it. */
SAC_API sac_status sac_room_open(sac_room *room, const sac_model *m, int64_t n_ctx, const char *reduce,
                                 const sac_message *messages, size_t n_messages, sac_error *err);

/* A picture of this size takes its tokens. */
SAC_API sac_status sac_room_picture(sac_room *room, int width, int height, sac_error *err);

/* Frames that the next video may have; at least 1. */
SAC_API int64_t sac_room_frames(const sac_room *room);

/* The next video has so many; of a list of frames that is longer than its share a session takes the share. */
SAC_API void sac_room_video(sac_room *room, int64_t n_frames);

/* How much of a conversation the session already holds, so that a scheduler can pick the session with the
 * longest shared beginning: *n_prompt tokens in all, of which sac_session_begin would not run *n_reusable.
 * The session must be idle (not between begin and end). Media are measured, not decoded, when this model has
 * met them before. Either may be NULL. */
SAC_API sac_status sac_session_n_reusable(sac_session *s, const sac_message *messages, size_t n_messages,
                                          int64_t *n_prompt, int64_t *n_reusable, sac_error *err);

/* ---- shared beginnings: what prompts of several sessions begin with is run once. Sessions of a model that join a
 * sac_beginnings take leading rows of a prompt over from whichever of them has most (tokens, pictures and videos and where
 * they stand, adapter, methods and formats all alike), instead of running them; sac_result.n_reused_tokens counts them.
 * On the CPU an answer has the bits of a session begun anew; without sharing a conversation that goes on keeps the rows that
 * its own answer's steps made, which have others. Sessions whose methods keep no prefix for another question
 * (sac_session_n_reusable) or whose format packs rows neither give nor take. Sessions may be on several threads. */
typedef struct sac_beginnings sac_beginnings;

typedef struct sac_beginnings_report {
    int64_t n_taken, n_taken_rows; /* prompts that took rows of another session, and how many */
    /* Of what sac_beginnings_keep keeps: rows that were looked for, prompts that found some and how many, those of them that
     * came from disk; blocks of 64 rows that had to make room; bytes kept now. */
    int64_t n_asked_rows, n_found, n_found_rows, n_disk_rows, n_dropped_blocks;
    size_t memory_bytes, disk_bytes;
} sac_beginnings_report;

/* NO_MEMORY. The model outlives it, and it outlives its sessions. */
SAC_API sac_status sac_beginnings_open(sac_beginnings **out, const sac_model *m, sac_error *err);
SAC_API void sac_beginnings_close(sac_beginnings *b); /* NULL is fine; waits for files to be written */
SAC_API void sac_beginnings_get_report(sac_beginnings *b, sac_beginnings_report *report);

/* Where beginnings are kept that no session holds any more. */
typedef struct sac_store_options {
    size_t memory_bytes; /* of the host, at most, beside one block of 64 rows for each thread that copies */
    const char *
        dir; /* NULL: nothing outlives the process. Otherwise a folder for files of rows, made where there is none;
                            several processes may have it. Who can write to it decides what the model answers. */
    size_t disk_bytes; /* of files there, at most (docs/server.md: of several processes about) */
    /* A line about files that are damaged or cannot be written, from any thread; or NULL. */
    void (*say)(void *ctx, const char *line);
    void *say_ctx;
} sac_store_options;

/* From here on rows of prompts are kept, in whole blocks of 64, when sessions lose them: in memory, and in files that a later
 * process with the same model, library, kind of processor or card, adapters and settings finds. A prompt takes them where it
 * has fewer; sac_result.n_reused_tokens counts them. A thread copies and writes. Before any session joins. BAD_ARGUMENT: later,
 * or without memory; IO: the folder cannot be used; NO_MEMORY, DEVICE. What `o` points to may be gone afterwards but for
 * say_ctx. */
SAC_API sac_status sac_beginnings_keep(sac_beginnings *b, const sac_store_options *o, sac_error *err);

/* A block of 64 rows came into the memory that sac_beginnings_keep was given, or made room in it. */
typedef struct sac_block_event {
    bool is_removed; /* otherwise it came, with what follows the key */
    uint8_t key[32]; /* of its rows, all rows before, the model and the settings that rows depend on */
    bool has_parent;
    uint8_t parent[32];    /* key of the block before; a first one has none */
    const int32_t *ids;    /* [64] tokens; rows of pictures and videos have the model's token for such */
    const uint64_t *media; /* [n_media] a number for each picture or video that has rows in it, in their order: alike where they are */
    size_t n_media;
    const char *adapter; /* that the rows were made with; lives as long as the model; NULL = none that is kept apart */
} sac_block_event;

/* `event` is told of each from here on, in their order, from any thread and under a lock: it takes what it needs and returns, and calls
 * nothing of the library. Blocks that are kept on disk alone are not told of. After sac_beginnings_keep and before any session joins;
 * BAD_ARGUMENT otherwise. */
SAC_API sac_status sac_beginnings_watch(sac_beginnings *b, void (*event)(void *ctx, const sac_block_event *e), void *ctx,
                                        sac_error *err);

/* Tokens of the session's last prompt whose rows were found so. From any thread. */
SAC_API int64_t sac_session_n_found(const sac_session *s);

/* Leading rows of the session's prompt that others may take over now; 0 before it has joined, and where its methods or its
 * format let no rows serve others. From any thread. */
SAC_API int64_t sac_session_n_shared(const sac_session *s);

/* For as long as the session lives. BAD_ARGUMENT: it is of another model, or has joined. */
SAC_API sac_status sac_session_join(sac_session *s, sac_beginnings *b, sac_error *err);

/* ---- steps of several sessions together: every linear layer runs once for all of them, which on a machine
 * bound by memory costs little more than for one. Rotation, keys and values, attention and sampling stay each
 * session's own, so sessions may differ in length, methods, formats and sampling. All must be of the batch's
 * model. A step takes one of the max_sessions rows, one that rebuilds tokens (ADORE) as many more as it rebuilds;
 * what does not fit goes in another pass. Answers are those of lone steps: docs/architecture.md says where bit for
 * bit. */
typedef struct sac_batch sac_batch; /* shared rows; used by one thread at a time, for any sessions */

/* Where sessions draft (sac_session_config.draft), rows that none has in a step are for guesses, so make it for more than they are; of
 * draft models that are open (a session has asked for them) those of all sessions are made together, others one after another. On a
 * device only a session that is stepped by itself drafts, in rows of its own. */
SAC_API sac_status sac_batch_create(sac_batch **out, const sac_model *m, size_t max_sessions, sac_error *err);
/* The same with room for prompt_rows rows of prompts beside the steps (sac_batch_step_with). There is none, and none is taken, for
 * models with linear attention, adapters that are kept apart or pictures whose rows see one another. */
SAC_API sac_status sac_batch_create_mixed(sac_batch **out, const sac_model *m, size_t max_sessions, size_t prompt_rows,
                                          sac_error *err);
SAC_API void sac_batch_free(sac_batch *b); /* NULL is fine */
SAC_API size_t sac_batch_bytes(const sac_batch *b);
/* What sac_batch_create would take, of the host's memory and of a device's (which may be NULL). */
SAC_API size_t sac_batch_plan(const sac_model *m, size_t max_sessions, size_t *device_bytes);
SAC_API size_t sac_batch_plan_mixed(const sac_model *m, size_t max_sessions, size_t prompt_rows, size_t *device_bytes);

typedef struct sac_batch_item {
    sac_session *session;     /* has begun and is not done; each session once */
    const sac_events *events; /* or NULL */
    int32_t token;            /* out, as sac_session_step gives them */
    bool done;
    sac_status status; /* out: of this session */
    sac_error error;   /* out, when status is not SAC_OK */
} sac_batch_item;

/* One more token for each of n sessions, at most max_sessions. Fails as a whole only when the batch cannot
 * run (too many sessions, one given twice, another model's, one that has not begun); every item has then the
 * same status and nothing was done. Otherwise what fails in a session's own part (it was cancelled, its
 * callbacks, its logits) does not touch the others. A failure of the model's step (a device, an op that a
 * method needs) is one of all sessions that ran it together; of each stays what it would keep after a
 * failed step of its own. */
SAC_API sac_status sac_batch_step(sac_batch *b, sac_batch_item *items, size_t n, sac_error *err);

/* How many rows of the items the batch's last step ran through the model, tokens run on a guess included, and how many those are
 * (n_guessed may be NULL). Rows of a pass that failed, or whose guesses could not be made, are not counted. 0: no pass came
 * back; tokens, if any, were chosen of logits that were there (a first one, one that was guessed before). Then the time which the call
 * took says nothing of a step's. */
SAC_API size_t sac_batch_ran(const sac_batch *b, size_t *n_guessed);

/* ---- steps and prompts in one pass of the model: weights are read once for both. A prompt whose work is under way
 * (sac_session_begin_work) may go into passes while its next piece is the first of a prefill: then a pass takes its next
 * rows through all layers, and what is left goes on in passes or in pieces, as one likes. On the CPU answers have
 * the same bits, on a device they differ by rounding. */

/* How many of its next rows, at most `most`, a pass could take. 0: none, and sac_session_work_next goes on: the prompt is at
 * something else, its method or format has to see it as a whole, or the model or the session is of a kind that goes apart. */
SAC_API size_t sac_session_pass_rows(const sac_session *s, size_t most);

typedef struct sac_batch_prompt {
    sac_session *session; /* each once, and in no item */
    size_t rows;          /* that a pass may take, as sac_session_pass_rows says; out: that it has taken, 0 unless status is SAC_OK */
    sac_status status;    /* out: of this session; when it is not SAC_OK its work has ended, unless the call itself failed: then
                             nothing was done */
    sac_error error;
} sac_batch_prompt;

enum { SAC_BATCH_MOST_PROMPTS = 8 };

/* sac_batch_step, with the next rows of n_prompts prompts, at most 8 and in all at most prompt_rows, in its first pass. None is
 * taken where no step runs the model (a first token, one that was guessed) or each has to run by itself (it rebuilds more tokens
 * than the batch has rows); then sac_session_work_next goes on. Of a prompt that has ended logits are left to make, by
 * sac_session_work_next. What fails in a prompt's own part (it was cancelled) does not touch the others. A failure of the pass is
 * one of all that are in it. */
SAC_API sac_status sac_batch_step_with(sac_batch *b, sac_batch_item *items, size_t n, sac_batch_prompt *prompts,
                                       size_t n_prompts, sac_error *err);

/* The prompt that sac_session_generate would run: its token ids with each visual token as the model's
 * placeholder id. Media are opened but frames are not decoded. *n_ids is the full count; at most capacity ids
 * are written. */
SAC_API sac_status sac_session_prompt(sac_session *s, const sac_message *messages, size_t n_messages,
                                      int32_t *ids, size_t capacity, size_t *n_ids, sac_error *err);

/* What the session's last call that took messages looked at, as in sac_result.media; after
 * sac_session_prompt, which decodes no frames, too. Returns how many; they live until the session's next
 * call. */
SAC_API size_t sac_session_media(const sac_session *s, const sac_media_report **media);

/* Runs a whole conversation as prompt and leaves the logits of its last token; the first half of
 * sac_session_generate. */
SAC_API sac_status sac_session_prefill(sac_session *s, const sac_message *messages, size_t n_messages,
                                       const sac_events *events, sac_error *err);

/* Evaluation: appends tokens to the sequence. Several run as a prompt does (the prefill policy), one as an
 * answer's tokens do (the decode policy), unless it begins the sequence: then it is the prompt. When
 * all_logits is given it receives [n_ids][vocab]; otherwise only the last token's logits are computed. */
SAC_API sac_status sac_session_append(sac_session *s, const int32_t *ids, size_t n_ids, float *all_logits,
                                      sac_error *err);

/* The same in pieces, bit for bit: sac_session_work_next or _within follow, as after sac_session_begin_work, until *done. No answer
 * follows. all_logits and what `events` points to (which may be NULL) must stay until then; `ids` need not. One token behind others, and a
 * sequence that LongRoPE turns anew, are one piece. */
SAC_API sac_status sac_session_begin_append(sac_session *s, const int32_t *ids, size_t n_ids, float *all_logits,
                                            const sac_events *events, sac_error *err);

/* [vocab] of the last token run, or NULL before any, or where they were left on a GPU (sac_session_leave_logits); overwritten by
 * the next call. */
SAC_API const float *sac_session_logits(const sac_session *s);
SAC_API int64_t sac_session_n_tokens(const sac_session *s); /* in the cache */

/* With sac_session_config.draft: how many guesses of the last answer at this place of a pass, counted from 0, it took; 0 for a place
 * that there is not. Over all places they sum to n_accepted_tokens of its sac_result. */
SAC_API int64_t sac_session_accepted_at(const sac_session *s, int place);

/* From now on (with `leave`; false, as at first: no longer) nobody asks sac_session_logits after a step of an answer. Then a step on
 * a GPU leaves its logits there and brings down what its choice needs. Biases, penalties and events.mask are applied there. Then come
 * some numbers of the token where the choice is greedy or draws from all, and 8 bytes for each of the top_k best (1,024 at most), of
 * 1,024 with top_p or min_p alone, or of the top_logprobs. Where top_p and min_p leave more tokens than that, all logits come behind
 * them, and then in 15 steps at once. They come where events.logits or guidance want them, where another setting of sac_controls
 * changes scores, where one token has two biases, and where biases and penalties are of more than 2,048 tokens. The tokens and log
 * probabilities are the same.
 * Nothing changes on the CPU, where the model divides or caps its logits, and in other calls than sac_session_step,
 * sac_session_generate, sac_batch_step and sac_batch_step_with. */
SAC_API void sac_session_leave_logits(sac_session *s, bool leave);

/* From now on each prompt that is run (sac_session_generate, _begin, _prefill and their pieces) leaves the hidden state of its last token,
 * as the final norm gives it to the head, in `out`: [hidden] of sac_model_info, the caller's, which must live until another call gives
 * NULL = nowhere. An embedding of the prompt, of models that are trained to give one ("last token pooling"). */
SAC_API void sac_session_keep_hidden(sac_session *s, float *out);

/* ---------------------------------------------------------------- measuring */

/* What attention methods did in a layer since the session was made or sac_session_reset_stats. */
typedef struct sac_layer_report {
    double prefill_kept;              /* share of tokens that took part in attention */
    double prefill_work;              /* query-key pairs, of dense attention's */
    double decode_read;               /* rows read, of dense attention's */
    double decode_rows;               /* rows read a step, mean over key-value heads */
    double decode_budget;             /* rows chosen a step, mean over query heads */
    double prefill_mass, decode_mass; /* of dense attention's weight, what the tokens and rows left hold; NAN
                                         where it is not known: not measured, rows dropped, or a method with
                                         an attention of its own */
    double select_seconds, attend_seconds;
    int64_t selections, selection_cache_hits;
} sac_layer_report;
/* Layers are those with keys and values, counted from 0; false where there is none of the number. */
SAC_API bool sac_session_layer_stats(const sac_session *s, int layer,
                                     sac_layer_report *report); /* false past the last */
SAC_API void sac_session_reset_stats(sac_session *s); /* not where a device that has failed cannot be asked */

/* Calibration of DuoAttention: what each key-value head would lose as a streaming head, as the last prompt
 * showed, a share of softmax weight from 0 to 1; negative where the prompt was too short to tell. lost[layer *
 * n_kv_heads + head], of the layers that sac_session_layer_stats tells of, until the session's next call. NULL where the
 * session's decode method does not measure that. */
SAC_API const double *sac_session_head_losses(const sac_session *s);

/* Bytes that keys and values of the tokens now in the cache take, metadata counted. */
SAC_API size_t sac_session_kv_bytes(const sac_session *s);

/* The methods that run, every setting written out. A method whose settings mean dense is "dense" here. */
typedef struct sac_session_method_lines {
    char prefill[400], decode[400], kv[400], rope[100], reduce[100], draft[100];
} sac_session_method_lines;
SAC_API void sac_session_methods(const sac_session *s, sac_session_method_lines *lines);

/* Which tokens (positions, ascending) a layer's prefill kept, called after each layer with keys and values, counted as
 * above. NULL fn = nobody. */
typedef void (*sac_kept_fn)(void *ctx, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens);
SAC_API void sac_session_observe_kept(sac_session *s, sac_kept_fn fn, void *ctx);

/* Which tokens a layer read in a step, on the CPU: list `list` of n_lists, which is 1 where all heads read the same, else the
 * number of key-value heads or of query heads. Positions, in any order; tokens NULL: all n. Called in every step for each layer and list, where the
 * decode method's choice is known as tokens: not where it dropped rows before (but for ADORE, which knows what it kept), nor over packed
 * caches. n_tokens: of the sequence, the step's own included. NULL fn = nobody. */
typedef void (*sac_read_fn)(void *ctx, int layer, int list, int n_lists, const int32_t *tokens, int64_t n, int64_t n_tokens);
SAC_API void sac_session_observe_read(sac_session *s, sac_read_fn fn, void *ctx);

/* Where the tokens of the last prompt come from: a cell of a tile's grid of rows x columns, or tile -1 for text
 * and for embeddings that stand for no pixels. Fills at most capacity places, returns how many tokens the
 * prompt has. Valid until the next call that runs a prompt. */
typedef struct sac_token_place {
    int32_t media, tile, row, column, rows, columns;
} sac_token_place;
SAC_API int64_t sac_session_token_places(sac_session *s, sac_token_place *places, int64_t capacity);

/* Methods by kind, for help texts; NULL-terminated. */
SAC_API const char *const *sac_prefill_names(void);
SAC_API const char *const *sac_decode_names(void);
SAC_API const char *const *sac_reduce_names(void); /* without none */

/* Read bandwidth of this machine with the model's threads, bytes a second: the roof of decode. Takes about
 * 0.3 s. */
SAC_API double sac_measure_read_bandwidth(const sac_model *m);

#ifdef __cplusplus
}
#endif
#endif
