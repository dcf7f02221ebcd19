#define _GNU_SOURCE
#include "settings.h"
#include "status.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define AT(field) offsetof(settings, field)
#define A         COMMAND_ASK
#define AB        (COMMAND_ASK | COMMAND_BENCH)
#define AI        (COMMAND_ASK | COMMAND_INSPECT)
#define I         COMMAND_INSPECT
#define B         COMMAND_BENCH
#define E         COMMAND_EVAL
#define C         COMMAND_COMPARE
#define K         COMMAND_CAPTION
#define S         COMMAND_SERVE
#define KS        (COMMAND_CAPTION | COMMAND_SERVE)
#define EC        (COMMAND_EVAL | COMMAND_COMPARE)
#define ECK       (EC | COMMAND_CAPTION)
#define AECK      (COMMAND_ASK | COMMAND_EVAL | COMMAND_COMPARE | COMMAND_CAPTION)
#define AECKS     (AECK | COMMAND_SERVE)
#define BEC       (COMMAND_BENCH | COMMAND_EVAL | COMMAND_COMPARE)
#define ABI       (COMMAND_ASK | COMMAND_BENCH | COMMAND_INSPECT)
#define ABEIKS    (ABI | COMMAND_EVAL | KS)
#define ALL       COMMAND_ALL
#define TOP       NULL

/* name, letter, group, command line only, kind, field, commands, min, max, value, help */
const setting settings_table[] = {
    {"image", 0, TOP, true, SETTING_MEDIA, MEDIA_IMAGE, ABI, 0, 0, "FILE",
     "a picture to look at; repeat for more"},
    {"video", 0, TOP, true, SETTING_MEDIA, MEDIA_VIDEO, ABI, 0, 0, "FILE",
     "a video to look at; repeat for more"},
    {"frames", 0, TOP, true, SETTING_MEDIA, MEDIA_FRAMES, ABI, 0, 0, "DIR|LIST",
     "pictures as the frames of a video: a folder (in order of name, one second apart) or a text file of "
     "lines 'FILE SECONDS'"},

    {"model", 'm', TOP, false, SETTING_TEXT, AT(model), ALL, 0, 0, "MODEL",
     "a Hugging Face folder or a .gguf file (otherwise $SACCADE_MODEL, otherwise the demo model)"},
    {"chat", 0, TOP, false, SETTING_TEXT, AT(chat), ALL, 0, 0, "FORMAT",
     "chat format, otherwise the model's own"},
    {"system", 0, TOP, false, SETTING_TEXT, AT(system), AECK, 0, 0, "TEXT", "system message"},
    {"threads", 't', TOP, false, SETTING_INT, AT(threads), ALL, 0, 1024, "N",
     "threads; 0 = one for each processor"},
    {"device", 0, TOP, false, SETTING_TEXT, AT(device), ALL, 0, 0, "DEVICE",
     "where the model runs: cpu, cuda, cuda:N, or auto: on a card if there is one for it (cpu)"},
    {"fast", 0, TOP, false, SETTING_FLAG, AT(fast), ALL, 0, 0, NULL,
     "allow bf16 products: faster, logits differ in the third digit"},
    {"vision-cache", 0, TOP, false, SETTING_INT, AT(vision_cache_mib), AECKS, 0, 1 << 20, "MIB",
     "memory for pictures already encoded; 0 = none (256)"},
    {"config", 0, TOP, true, SETTING_TEXT, AT(config), ALL, 0, 0, "FILE.yaml",
     "read run settings from a file; options given here win"},
    {"json", 0, TOP, false, SETTING_FLAG, AT(json), ALL, 0, 0, NULL, "write one JSON object"},
    {"quiet", 'q', TOP, false, SETTING_FLAG, AT(quiet), ALL, 0, 0, NULL, "no progress on the terminal"},
    {"help", 'h', TOP, true, SETTING_FLAG, AT(help), ALL, 0, 0, NULL, "this text"},
    {"plan", 0, TOP, true, SETTING_FLAG, AT(plan), B, 0, 0, NULL, "print the memory plan and stop"},
    {"attention", 0, TOP, true, SETTING_TEXT, AT(attention), I, 0, 0, "FILE.svg",
     "draw which visual tokens each layer keeps while the model reads the question about --image, --video or "
     "--frames; --prefill says by which method"},
    {"tensors", 0, TOP, true, SETTING_FLAG, AT(tensors), I, 0, 0, NULL, "list the tensors"},

    {"fps", 0, "video", false, SETTING_REAL, AT(fps), ALL, 0.001, 1000, "F",
     "frames for each second of the video"},
    {"num-frames", 0, "video", false, SETTING_INT, AT(num_frames), ALL, 1, 1000000, "N",
     "frames spread evenly over the video"},
    {"max-frames", 0, "video", false, SETTING_INT, AT(max_frames), ALL, 1, 1000000, "N",
     "never more frames than this (otherwise what the context holds)"},
    {"max-pixels", 0, "video", false, SETTING_INT, AT(max_pixels), ALL, 1, 1e12, "N",
     "of all frames together, as the model sees them"},
    {"no-rotate", 0, "video", false, SETTING_FLAG, AT(no_rotate), ALL, 0, 0, NULL,
     "ignore the rotation that the video's metadata asks for"},

    {"max-tokens", 'n', "sampling", false, SETTING_INT, AT(max_tokens), AECKS, 0, INT_MAX, "N",
     "length of the answer at most; 0 = to the end of the context (512)"},
    {"temperature", 0, "sampling", false, SETTING_REAL, AT(temperature), AECKS, 0, 100, "T",
     "0 = always the likeliest token (otherwise the model's own setting)"},
    {"top-k", 0, "sampling", false, SETTING_INT, AT(top_k), AECKS, 0, INT_MAX, "K",
     "choose among the K likeliest; 0 = all"},
    {"top-p", 0, "sampling", false, SETTING_REAL, AT(top_p), AECKS, 0, 1, "P",
     "choose among the likeliest that together have P; 1 = all"},
    {"min-p", 0, "sampling", false, SETTING_REAL, AT(min_p), AECKS, 0, 1, "P",
     "drop tokens below P times the likeliest; 0 = none"},
    {"repetition-penalty", 0, "sampling", false, SETTING_REAL, AT(repetition_penalty), AECKS, 0.01, 100, "R",
     "make tokens seen before less likely; 1 = off"},
    {"seed", 0, "sampling", false, SETTING_SEED, AT(seed), AECKS, 0, 0, "N", "same seed, same answer"},
    {"stop", 0, "sampling", false, SETTING_TEXTS, AT(stop), AECK, 0, 0, "TEXT",
     "end the answer before this text; repeat for more"},

    {"ctx", 'c', "session", false, SETTING_INT, AT(ctx), ALL, 0, INT_MAX, "N",
     "tokens of prompt and answer together; 0 = the model's length, at most 32768"},
    {"kv", 0, "session", false, SETTING_TEXT, AT(kv), ABEIKS, 0, 0, "FORMAT",
     "storage of keys and values, f16 if not given"},
    {"prefill", 0, "session", false, SETTING_TEXT, AT(prefill), ABEIKS, 0, 0, "POLICY",
     "attention over the prompt (dense)"},
    {"decode", 0, "session", false, SETTING_TEXT, AT(decode), ABEIKS, 0, 0, "POLICY",
     "attention while answering (dense)"},
    {"rope", 0, "session", false, SETTING_TEXT, AT(rope), ABEIKS, 0, 0, "SCHEME",
     "positions: model, or ntk:factor=F to reach further than trained (model)"},
    {"reduce", 0, "session", false, SETTING_TEXT, AT(reduce), ABEIKS, 0, 0, "REDUCER",
     "visual tokens of pictures left out: none, or hired:rate=R (none)"},
    {"measure-mass", 0, "session", false, SETTING_FLAG, AT(measure_mass), BEC, 0, 0, NULL,
     "compare what the decode policy reads with dense attention: slow, for tables"},
    {"prefill-chunk", 0, "session", false, SETTING_INT, AT(prefill_chunk), ALL, 0, 1 << 20, "N",
     "tokens that pass a linear layer together; 0 = 256"},

    {"prompt-tokens", 'p', "bench", false, SETTING_INT, AT(prompt_tokens), B, 1, INT_MAX, "N",
     "length of the prompt without media (512)"},
    {"gen-tokens", 'n', "bench", false, SETTING_INT, AT(gen_tokens), B, 1, INT_MAX, "N",
     "tokens generated (128)"},
    {"repeat", 'r', "bench", false, SETTING_INT, AT(repeat), B, 1, 1000, "R",
     "repeats; the median is reported (3)"},

    {"videos", 0, "eval", false, SETTING_TEXT, AT(videos), EC, 0, 0, "DIR",
     "where the videos are, named by videoID (.mp4, .mkv, .webm); otherwise beside the set"},
    {"subtitles", 0, "eval", false, SETTING_TEXT, AT(subtitles), EC, 0, 0, "DIR",
     "subtitles of the same names (.srt): those at the times of the frames go into the prompt"},
    {"prompt", 0, "eval", false, SETTING_TEXT, AT(prompt), EC, 0, 0, "NAME",
     "official (Video-MME's, the default), lmms-eval, bare (question and options), or open (the question "
     "alone; "
     "the answer's text is looked up among the options, which is not Video-MME's protocol)"},
    {"out", 0, "eval", false, SETTING_TEXT, AT(out), ECK, 0, 0, "DIR",
     "keep what is answered there while asking, then the results; a run cut short goes on there"},
    {"limit", 0, "eval", false, SETTING_INT, AT(limit), ECK, 0, INT_MAX, "N",
     "only the first N questions or items; 0 = all"},
    {"text", 0, "eval", true, SETTING_TEXT, AT(text), E, 0, 0, "TASK",
     "in place of a set: passkey or kv (is a needle found in a long text?), or a text file (perplexity)"},
    {"length", 0, "eval", false, SETTING_INT, AT(length), E, 16, INT_MAX, "N",
     "of --text: tokens of each prompt (2048)"},
    {"samples", 0, "eval", false, SETTING_INT, AT(samples), E, 1, INT_MAX, "N",
     "of --text: prompts (20), with the needle at as many depths"},
    {"pairs", 0, "eval", false, SETTING_INT, AT(pairs), E, 0, INT_MAX, "N",
     "of --text kv: keys and values, somewhere in filler; 0 = as many as fill the length (0)"},
    {"tail", 0, "eval", false, SETTING_INT, AT(tail), E, 1, INT_MAX, "N",
     "of --text FILE: tokens measured at the end of each window, one decode step each (256)"},
    {"reuse", 0, "eval", false, SETTING_FLAG, AT(reuse), EC, 0, 0, NULL,
     "keep keys and values of the video from question to question: faster, but a question is then no longer "
     "answered as it is alone"},
    {"retry", 0, "eval", true, SETTING_FLAG, AT(retry), ECK, 0, 0, NULL,
     "ask again what the run in --out could not ask"},
    {"score", 0, "eval", true, SETTING_FLAG, AT(score), E, 0, 0, NULL,
     "SET is a result file: score the responses in it, ask nothing"},

    {"ask", 0, "caption", false, SETTING_TEXT, AT(ask), K, 0, 0, "TEXT",
     "what is asked about each item that brings no question of its own (Describe the image. or Describe the "
     "video.)"},
    {"format", 0, "caption", false, SETTING_TEXTS, AT(format), K, 0, 0, "NAME",
     "of the result: jsonl, coco, text (a file beside each name), tar (parallel to the shards), batch "
     "(OpenAI's); repeat for more (jsonl; batch for a batch file)"},
    {"batch", 'b', "caption", false, SETTING_INT, AT(batch), K, 1, 256, "B",
     "captions written at the same time; a session's memory each (8)"},
    {"shard", 0, "caption", true, SETTING_TEXT, AT(shard), K, 0, 0, "I/N",
     "do the I-th part of N, counted from 0 (otherwise what Slurm, Kubernetes or MPI say; 0/1 = all)"},
    {"shards", 0, "caption", false, SETTING_INT, AT(shards), K, 1, 100000, "N",
     "parts in all, where the environment tells only which one this is"},
    {"trust-media", 0, "caption", false, SETTING_FLAG, AT(trust_media), K, 0, 0, NULL,
     "decode in this process, video frame by frame, instead of in a child that may do nothing else: for "
     "files of "
     "one's own"},

    {"method", 0, "compare", false, SETTING_TEXTS, AT(method), C, 0, 0, "LINE",
     "a method line, \"prefill=zipvl:tau=0.975 kv=mixed decode=dense\"; repeat for more; dense is always "
     "there"},
    {"methods", 0, "compare", false, SETTING_TEXT, AT(methods), C, 0, 0, "FILE.yaml",
     "method lines and sweeps from a file"},

    {"host", 0, "serve", false, SETTING_TEXT, AT(host), S, 0, 0, "ADDRESS",
     "address to listen on (127.0.0.1); 0.0.0.0 = everywhere"},
    {"port", 0, "serve", false, SETTING_INT, AT(port), S, 0, 65535, "N",
     "port to listen on; 0 = any free one (8000)"},
    {"model-name", 0, "serve", false, SETTING_TEXT, AT(model_name), S, 0, 0, "NAME",
     "name of the model for clients (its folder's)"},
    {"api-key", 0, "serve", false, SETTING_TEXTS, AT(api_key), S, 0, 0, "KEY",
     "only who sends this key may ask; repeat for more. A config file keeps it off the process list"},
    {"cors-origin", 0, "serve", false, SETTING_TEXT, AT(cors_origin), S, 0, 0, "ORIGIN",
     "pages of this origin may ask, * = of any (none)"},
    {"media-root", 0, "serve", false, SETTING_TEXT, AT(media_root), KS, 0, 0, "DIR",
     "file:// URLs may name files below this folder (serve: none; caption: the batch file's own)"},
    {"upload-dir", 0, "serve", false, SETTING_TEXT, AT(upload_dir), S, 0, 0, "DIR",
     "keep what /v1/files takes there (uploads are off)"},
    {"fetch-domain", 0, "serve", false, SETTING_TEXTS, AT(fetch_domain), S, 0, 0, "HOST",
     "media may be fetched from this host, *.example.org, or * for any; repeat for more (fetching is off)"},
    {"slots", 0, "serve", false, SETTING_INT, AT(slots), S, 1, 256, "N",
     "answers made side by side; each takes a context's memory (4)"},
    {"request-methods", 0, "serve", false, SETTING_FLAG, AT(request_methods), S, 0, 0, NULL,
     "a request may choose attention methods; a slot then takes a quarter more memory"},
    {"queue", 0, "serve", false, SETTING_INT, AT(queue), S, 0, 100000, "N",
     "requests that may wait; more are refused with 429 (256)"},
    {"connections", 0, "serve", false, SETTING_INT, AT(connections), S, 1, 1000000, "N",
     "open connections (1024)"},
    {"body-mib", 0, "serve", false, SETTING_INT, AT(body_mib), S, 1, 1 << 20, "MIB", "longest request (256)"},
    {"bodies-mib", 0, "serve", false, SETTING_INT, AT(bodies_mib), S, 1, 1 << 20, "MIB",
     "all requests being received together (1024)"},
    {"uploads-mib", 0, "serve", false, SETTING_INT, AT(uploads_mib), S, 1, 1 << 30, "MIB",
     "all uploads together (16384)"},
    {"media-mib", 0, "serve", false, SETTING_INT, AT(media_mib), S, 1, 1 << 20, "MIB",
     "longest picture or video file (2048)"},
    {"decoded-mib", 0, "serve", false, SETTING_INT, AT(decoded_mib), S, 1, 1 << 20, "MIB",
     "decoded pictures and frames in memory; those not in use are kept as a cache (1024)"},
    {"picture-pixels", 0, "serve", false, SETTING_INT, AT(picture_pixels), S, 1, 1e9, "N",
     "width times height of a picture or a frame (64000000)"},
    {"media-items", 0, "serve", false, SETTING_INT, AT(media_items), S, 1, 100000, "N",
     "pictures and videos of a request (64)"},
    {"video-seconds", 0, "serve", false, SETTING_REAL, AT(video_seconds), S, 0.001, 1e9, "S",
     "longest video (86400)"},
    {"decode-seconds", 0, "serve", false, SETTING_REAL, AT(decode_seconds), S, 0.1, 86400, "S",
     "time for fetching, and for decoding, one picture or video (60)"},
    {"request-seconds", 0, "serve", false, SETTING_REAL, AT(request_seconds), S, 0.1, 1e6, "S",
     "time for a request from arrival to the end of its answer (600)"},
    {"receive-seconds", 0, "serve", false, SETTING_REAL, AT(receive_seconds), S, 1, 86400, "S",
     "time for a client to send its request, and to take what is sent (30)"},
    {"heartbeat-seconds", 0, "serve", false, SETTING_REAL, AT(heartbeat_seconds), S, 0.1, 3600, "S",
     "silence on a stream before a comment is sent (10)"},
    {"drain-seconds", 0, "serve", false, SETTING_REAL, AT(drain_seconds), S, 0, 86400, "S",
     "time for running answers when the server is asked to end (60)"},
};
const size_t settings_n = SAC_COUNT(settings_table);
_Static_assert(SAC_COUNT(settings_table) <= SETTINGS_MAX, "settings.origin is too short");

void settings_init(settings *s) {
    memset(s, 0, sizeof *s);
    s->vision_cache_mib = 256;
    s->prompt_tokens = 512;
    s->gen_tokens = 128;
    s->length = 2048;
    s->samples = 20;
    s->tail = 256;
    s->repeat = 3;
    s->batch = 8;
    s->port = 8000;
    s->slots = 4;
    s->queue = 256;
    s->connections = 1024;
    s->body_mib = 256;
    s->bodies_mib = 1024;
    s->uploads_mib = 16384;
    s->media_mib = 2048;
    s->decoded_mib = 1024;
    s->picture_pixels = 64000000;
    s->media_items = 64;
    s->video_seconds = 86400;
    s->decode_seconds = 60;
    s->request_seconds = 600;
    s->receive_seconds = 30;
    s->heartbeat_seconds = 10;
    s->drain_seconds = 60;
}

static void text_list_clear(text_list *list) {
    for (size_t i = 0; i < list->n; i++) free(list->items[i]);
    free(list->items);
    *list = (text_list){0};
}

void media_list_clear(media_list *list) {
    for (size_t i = 0; i < list->n; i++) free(list->items[i].path);
    free(list->items);
    *list = (media_list){0};
}

void settings_free(settings *s) {
    for (size_t i = 0; i < settings_n; i++) {
        void *field = (char *)s + settings_table[i].offset;
        if (settings_table[i].kind == SETTING_TEXT) free(*(char **)field);
        if (settings_table[i].kind == SETTING_TEXTS) text_list_clear(field);
    }
    media_list_clear(&s->media);
    memset(s, 0, sizeof *s);
}

const setting *settings_find(const char *name) {
    for (size_t i = 0; i < settings_n; i++) {
        const char *a = settings_table[i].name, *b = name;
        while (*a && (*a == *b || (*a == '-' && *b == '_'))) a++, b++;
        if (!*a && !*b) return &settings_table[i];
    }
    return NULL;
}

sac_status settings_check_folder(const char *option, const char *path, sac_error *err) {
    struct stat st;
    if (stat(path, &st)) return sac_fail(err, SAC_NOT_FOUND, "%s %s: %s", option, path, strerror(errno));
    return S_ISDIR(st.st_mode) ? SAC_OK
                               : sac_fail(err, SAC_BAD_ARGUMENT, "%s %s: not a folder", option, path);
}

bool settings_given(const settings *s, size_t offset) {
    for (size_t i = 0; i < settings_n; i++)
        if (settings_table[i].kind != SETTING_MEDIA && settings_table[i].offset == offset)
            return s->origin[i] != ORIGIN_DEFAULT;
    return false;
}

sac_status media_list_add(media_list *list, media_kind kind, const char *path, sac_error *err) {
    if (!*path) return sac_fail(err, SAC_BAD_ARGUMENT, "expected the name of a file, found nothing");
    media_item *items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (!items) return sac_fail_no_memory(err);
    list->items = items;
    char *copy = strdup(path);
    if (!copy) return sac_fail_no_memory(err);
    items[list->n++] = (media_item){.kind = kind, .path = copy};
    return SAC_OK;
}

static sac_status text_list_add(text_list *list, const char *text, sac_error *err) {
    char **items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (!items) return sac_fail_no_memory(err);
    list->items = items;
    char *copy = strdup(text);
    if (!copy) return sac_fail_no_memory(err);
    items[list->n++] = copy;
    return SAC_OK;
}

/* strto* accept leading space, "0x10", "nan" and a sign where none belongs; settings do not. */
static bool looks_like_number(const char *text, const char *allowed) {
    return *text && strspn(text, allowed) == strlen(text);
}

static sac_status parse_int(const setting *row, const char *text, int64_t *value, sac_error *err) {
    char *end = NULL;
    errno = 0;
    long long v = looks_like_number(text, "+-0123456789") ? strtoll(text, &end, 10) : 0;
    if (!end || *end) return sac_fail(err, SAC_BAD_ARGUMENT, "expected a whole number, found '%.60s'", text);
    if (errno || (double)v < row->min || (double)v > row->max)
        return sac_fail(err, SAC_BAD_ARGUMENT, "expected a number from %.0f to %.0f, found %.60s", row->min,
                        row->max, text);
    *value = v;
    return SAC_OK;
}

static sac_status parse_seed(const char *text, uint64_t *value, sac_error *err) {
    char *end = NULL;
    errno = 0;
    unsigned long long v = looks_like_number(text, "0123456789") ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno)
        return sac_fail(err, SAC_BAD_ARGUMENT, "expected a whole number from 0 to %llu, found '%.60s'",
                        (unsigned long long)UINT64_MAX, text);
    *value = v;
    return SAC_OK;
}

static sac_status parse_real(const setting *row, const char *text, double *value, sac_error *err) {
    char *end = NULL;
    double v = looks_like_number(text, "+-.eE0123456789") ? strtod(text, &end) : 0;
    if (!end || *end) return sac_fail(err, SAC_BAD_ARGUMENT, "expected a number, found '%.60s'", text);
    if (!(v >= row->min && v <= row->max))
        return sac_fail(err, SAC_BAD_ARGUMENT, "expected a number from %g to %g, found %.60s", row->min,
                        row->max, text);
    *value = v;
    return SAC_OK;
}

static sac_status store_text(char **field, const char *text, sac_error *err) {
    char *copy = strdup(text);
    if (!copy) return sac_fail_no_memory(err);
    free(*field);
    *field = copy;
    return SAC_OK;
}

sac_status settings_set(settings *s, const setting *row, const char *text, setting_origin origin,
                        sac_error *err) {
    setting_origin *had = &s->origin[row - settings_table];
    bool store = *had <= origin, first = *had < origin;
    void *field = (char *)s + row->offset;
    int64_t i = 0;
    uint64_t u = 0;
    double d = 0;
    switch (row->kind) {
    case SETTING_FLAG:
        if (strcmp(text, "true") && strcmp(text, "false"))
            return sac_fail(err, SAC_BAD_ARGUMENT, "expected true or false, found '%.60s'", text);
        if (store) *(bool *)field = text[0] == 't';
        break;
    case SETTING_INT:
        SAC_TRY(parse_int(row, text, &i, err));
        if (store) *(int64_t *)field = i;
        break;
    case SETTING_SEED:
        SAC_TRY(parse_seed(text, &u, err));
        if (store) *(uint64_t *)field = u;
        break;
    case SETTING_REAL:
        SAC_TRY(parse_real(row, text, &d, err));
        if (store) *(double *)field = d;
        break;
    case SETTING_TEXT:
        if (!*text && (!strncmp(row->value, "DIR", 3) || !strncmp(row->value, "FILE", 4)))
            return sac_fail(err, SAC_BAD_ARGUMENT, "expected the name of a %s, found nothing",
                            row->value[0] == 'D' ? "folder" : "file");
        if (store) SAC_TRY(store_text(field, text, err));
        break;
    case SETTING_TEXTS:
        if (!*text) return sac_fail(err, SAC_BAD_ARGUMENT, "expected a text, found an empty one");
        if (store && first) text_list_clear(field);
        if (store) SAC_TRY(text_list_add(field, text, err));
        break;
    case SETTING_MEDIA: SAC_TRY(media_list_add(&s->media, (media_kind)row->offset, text, err)); break;
    }
    if (store) *had = origin;
    return SAC_OK;
}
