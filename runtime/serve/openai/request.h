/* request.h - what a client asks for, checked: OpenAI's chat completions with vLLM's extensions, and text
 * completions. No key is dropped in silence (known_fields.h); a known key of a wrong type is refused. */
#ifndef SERVE_REQUEST_H
#define SERVE_REQUEST_H

#include "problem.h"
#include "serve_config.h"

#include <jansson.h>

typedef struct serve_media serve_media;
typedef struct serve_methods serve_methods;
typedef struct serve_request serve_request;

enum { SERVE_MAX_STOP = 16, SERVE_MAX_BIAS = 4096, SERVE_MAX_CHOICES = 16, SERVE_MAX_PROMPTS = 64, SERVE_MAX_INPUTS = 2048 };

/* Of a text completion: text as it stands, or token ids. */
typedef struct serve_prompt {
    const char *text; /* n bytes; NULL = ids; borrowed */
    int32_t *ids;     /* [n], owned */
    size_t n;
} serve_prompt;

typedef enum serve_tool_choice {
    SERVE_TOOLS_NONE, /* calls are text: no tools were given, or none are to be called */
    SERVE_TOOLS_AUTO,
    SERVE_TOOLS_REQUIRED /* one at least; r->tool_name: this one */
} serve_tool_choice;

/* What a stream was told last of how far it is; see progress.h. */
typedef struct serve_told {
    const char *stage; /* NULL = nothing */
    int64_t medium, done, total, ns;
} serve_told;

/* A video as it was before frames of it were chosen. */
typedef struct serve_video_facts {
    double fps, duration_s;
    int64_t n_frames;
    const char *rule; /* by which they were chosen; lives as long as the reference holds its media */
} serve_video_facts;

/* A picture, a video, or pictures that are a video's frames, as the client names it. */
typedef struct serve_media_ref {
    sac_part_kind kind;
    const char **urls; /* one; of FRAMES one a frame. Borrowed from the JSON, as all texts here */
    size_t n_urls;
    json_t *json;        /* the part of the message; borrowed */
    double *times;       /* [n_urls] of FRAMES */
    sac_part *part;      /* which it fills */
    char param[64];      /* "messages[0].content[1]" */
    bool in_one_url;     /* the URLs are pieces of one, see content.c */
    serve_media **media; /* [n_urls] what the URLs brought; of the media store */
    sac_frame *frames;   /* [n_frames] of a video, or of FRAMES */
    size_t n_frames;
    int64_t n_tokens;        /* about how many they take in the prompt */
    uint8_t key[32];         /* SHA-256 of what they brought and how it was sampled */
    serve_video_facts video; /* of a video */
} serve_media_ref;

struct serve_request {
    json_t *json;        /* the body, as OpenAI's completions would say it; "prompt" is an empty list where there are listed_ids */
    int32_t *listed_ids; /* [n_listed_ids] a text completion's prompt, read without a tree (listed_ids.h); NULL = none. Owned until
                            serve_prompts_parse makes it the only one of `prompts` */
    size_t n_listed_ids;
    json_t *said;        /* of another API: what the answer repeats of the request; NULL = nothing */
    json_t *warnings;    /* a list of texts for the answer; NULL = none */
    size_t n_tree;       /* bytes of `json` beside its strings */
    size_t n_call_trees; /* bytes of the trees of arguments of calls that messages carry: texts in `json`, parsed for the template */
    size_t n_room_bytes; /* of the room for bodies, held until the request ends */
    bool is_chat, stream, include_usage, want_places;
    bool continuous_usage; /* vLLM's: each chunk of a stream has the counts so far */
    const char *adapter;   /* that is asked for, of the server's; NULL = the model itself */
    serve_prompt *prompts; /* [n_prompts] of a text completion; owned */
    size_t n_prompts;      /* 1 of a chat, unless each message is alone */
    bool echo;             /* of a text completion: the prompt's text stands before the answer's */
    bool score_prompt;     /* and log probabilities of its tokens before those of the answer's */
    bool embed;            /* of each prompt a vector is wanted, and no answer */
    bool each_alone;       /* of a chat: each message is a prompt of its own, a text alone as it stands */
    bool no_answer;        /* the prompt alone is wanted, as it is echoed */
    sac_chat_options chat; /* its texts are owned, and fields of the messages */
    sac_message *messages;
    size_t n_messages;
    sac_part *parts;
    size_t n_parts;
    serve_media_ref *media;
    size_t n_media;
    sac_video_options video;
    int64_t image_max_pixels; /* pictures above it are refused; 0 = the server's limit alone */
    sac_sampling sampling;    /* of the first choice; see serve_choice_seed */
    int n_choices;            /* answers to each prompt, one prompt after the other */
    const char *stop[SERVE_MAX_STOP];
    int min_tokens;
    bool logprobs;
    sac_logit_bias *logit_bias; /* owned */
    bool *allowed;              /* [n_vocab] tokens that may come; owned; NULL = all */
    int n_vocab;
    sac_controls *controls;     /* owned; NULL = those of the server */
    const json_t *tools;        /* as given, checked; NULL = none */
    serve_tool_choice tool_choice;
    const char *tool_name;   /* the one that is to be called; NULL = any */
    bool parallel_calls;     /* several may be called at once */
    bool include_reasoning;  /* where it is told apart, it is in the answer, too */
    bool begins_inside;      /* the prompt ends within reasoning */
    struct grammar *grammar; /* the answer must be of it; owned; NULL = any text */
    double timeout_s;        /* 0 = the server's */
    int64_t priority;        /* vLLM's: lower is earlier */
    serve_methods *methods;  /* owned */
    bool want_place_layers;  /* with the places, which layers kept each */
    bool want_progress;
    serve_told told;
};

/* What the body will take once it is parsed, beside its strings; false: too much. Of other APIs than OpenAI's completions a second tree
 * is made. */
bool serve_request_size(size_t *n_tree, serve_api api, const char *body, size_t n_bytes, serve_problem *p);

/* Why a body was not parsed: 400, or 503 without memory. False. */
bool serve_refuse_json(const json_error_t *e, serve_problem *p);

/* False: *p says why. r is to be freed in both cases. */
bool serve_request_parse(serve_request *r, const serve_config *c, int n_vocab, serve_api api, const char *body,
                         size_t n_bytes, serve_problem *p);
/* The seed of a request's k-th choice: its own seed for the first, which is thus the answer that the request
 * would get alone. */
uint64_t serve_choice_seed(uint64_t seed, int choice);

void serve_request_free(serve_request *r);

#endif
