/* tokenizer_impl.h - what a tokenizer is made of. Inside llm/text/tokenizer*.c and detokenizer.c only.
 *
 *   text -> added tokens cut out -> normalise -> normalised added tokens cut out -> split -> model -> ids
 *
 * Between the steps a text is a buffer and a list of pieces: ranges of it that are still text, or tokens. */
#ifndef SAC_LLM_TOKENIZER_IMPL_H
#define SAC_LLM_TOKENIZER_IMPL_H

#include "bpe.h"
#include "tokenizer.h"
#include "tokenizer_buffer.h"
#include "tokenizer_prefix.h"
#include "tokenizer_regex.h"
#include "tokenizer_vocab.h"
#include "unicode.h"

#include <string.h>

#define SAC_MAX_STEPS      32 /* of one kind; real files have at most 6 */
#define SAC_MAX_CLASS_NAME 64
#define SAC_MAX_TEMPLATE   16 /* tokens put before or behind a text */

/* ---- steps ---- */

typedef enum sac_step_kind {
    /* normalisers */
    SAC_STEP_UNICODE,     /* form */
    SAC_STEP_PREPEND,     /* text, unless there is nothing to put it before */
    SAC_STEP_REPLACE,     /* every match of regex by text */
    SAC_STEP_STRIP,       /* white space at the left, at the right */
    SAC_STEP_PRECOMPILED, /* charsmap: SentencePiece's table of replacements */
    /* pre-tokenizers */
    SAC_STEP_SPLIT,      /* at the matches of regex; behavior, invert */
    SAC_STEP_PREFIX,     /* text in front of each piece that does not start with it */
    SAC_STEP_BYTE_CHARS, /* every byte becomes the character that stands for it in byte-level vocabularies */
    SAC_STEP_METASPACE,  /* " " becomes text, which is also put in front: scheme */
} sac_step_kind;

typedef enum sac_split_behavior {
    SAC_SPLIT_REMOVED,
    SAC_SPLIT_ISOLATED,
    SAC_SPLIT_MERGED_WITH_PREVIOUS,
    SAC_SPLIT_MERGED_WITH_NEXT,
    SAC_SPLIT_CONTIGUOUS,
} sac_split_behavior;

typedef enum sac_prepend_scheme {
    SAC_PREPEND_NEVER,
    SAC_PREPEND_FIRST,
    SAC_PREPEND_ALWAYS
} sac_prepend_scheme;

typedef struct sac_step {
    sac_step_kind kind;
    sac_regex regex; /* owned */
    char *text;      /* owned */
    size_t text_bytes;
    sac_unicode_form form;
    sac_split_behavior behavior;
    bool invert;
    bool left, right;
    sac_prepend_scheme scheme;
    struct sac_charsmap *charsmap; /* owned */
} sac_step;

typedef struct sac_steps {
    sac_step step[SAC_MAX_STEPS];
    int n;
} sac_steps;

/* A zeroed new step at the end of the list, for the caller to fill. */
sac_status sac_steps_new(sac_steps *steps, sac_step **out, sac_error *err);
sac_status sac_step_set_text(sac_step *step, const char *text, size_t n_bytes, sac_error *err);
void sac_steps_free(sac_steps *steps);

/* Pre-tokenizer ByteLevel, as three small steps. */
sac_status sac_steps_add_byte_level(sac_steps *steps, bool prefix_space, bool use_regex, sac_error *err);
sac_status sac_steps_add_split(sac_steps *steps, const char *pattern, size_t n_bytes, bool literal,
                               sac_split_behavior behavior, bool invert, sac_error *err);

/* ---- SentencePiece's normalisation table (tokenizer_charsmap.c) ---- */

typedef struct sac_charsmap sac_charsmap;
sac_status sac_charsmap_open(sac_charsmap **out, const char *base64, size_t n_bytes, sac_error *err);
void sac_charsmap_free(sac_charsmap *m);
sac_status sac_charsmap_apply(const sac_charsmap *m, sac_buffer *out, const char *text, size_t n_bytes,
                              sac_error *err);

/* ---- added tokens ---- */

typedef struct sac_added_token {
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
    bool was_normalized; /* once: `tokenizers` goes on to decode it as the normalised name */
    bool is_text;        /* white space, not special: recognised in what a user types as well */
} sac_added_token;

typedef struct sac_added_tokens {
    sac_added_token *token; /* owned */
    size_t n, capacity;
    sac_prefix_set plain;      /* matched in the text as it came; values are indices into token */
    sac_prefix_set normalized; /* matched behind the normalisers */
    sac_buffer names;          /* texts of the latter */
    size_t *name_offset;       /* owned */
} sac_added_tokens;

/* ---- Unigram ---- */

typedef struct sac_unigram {
    double *score; /* [n] by id, owned */
    int32_t n;
    int32_t unk_id; /* -1 = none */
    bool byte_fallback;
    double unk_score;
    sac_prefix_set pieces;
    int32_t byte_id[256];
} sac_unigram;

typedef struct sac_unigram_scratch {
    struct sac_lattice_node *node;
    size_t capacity;
} sac_unigram_scratch;

void sac_unigram_free(sac_unigram *u);
void sac_unigram_scratch_free(sac_unigram_scratch *s);
/* Once the vocabulary and its special tokens are known. */
sac_status sac_unigram_index(sac_unigram *u, const sac_vocab *v, sac_error *err);
sac_status sac_unigram_word(const sac_unigram *u, const sac_vocab *v, sac_unigram_scratch *s,
                            const char *text, size_t n_bytes, sac_id_sink *out, sac_error *err);

/* ---- decoding ---- */

#define SAC_MAX_DECODER_REPLACES 4
#define SAC_MAX_DECODER_TEXT     64

typedef struct sac_decoder_replace {
    char from[SAC_MAX_DECODER_TEXT], to[SAC_MAX_DECODER_TEXT];
    size_t from_bytes, to_bytes;
    bool drop_in_first; /* Metaspace: nothing instead, in the first token */
} sac_decoder_replace;

/* The decoders of tokenizer.json in the only order in which files use them: per token replace and strip, then
 * bytes, then (joined) strip at the very start. */
typedef struct sac_decoder {
    bool byte_level;  /* characters stand for bytes */
    bool join_spaces; /* no decoder at all: tokens are joined by spaces */
    sac_decoder_replace replace[SAC_MAX_DECODER_REPLACES];
    int n_replaces;
    bool byte_fallback;
    bool strip_tokens; /* strip each token, not the joined text */
    uint32_t strip_char;
    int strip_left, strip_right; /* how many of them at most; right only with strip_tokens */
} sac_decoder;

/* ---- the whole ---- */

typedef enum sac_model_kind { SAC_MODEL_BPE, SAC_MODEL_UNIGRAM } sac_model_kind;

struct sac_tokenizer {
    sac_vocab vocab;
    sac_model_kind model;
    sac_bpe bpe;
    sac_unigram unigram;
    sac_added_tokens added;
    sac_steps normalize, split;
    int32_t before[SAC_MAX_TEMPLATE], behind[SAC_MAX_TEMPLATE]; /* add_special */
    int n_before, n_behind;
    sac_decoder decoder;
    int32_t bos, eos;    /* -1 = unknown */
    bool splits_special; /* control tokens in a text are cut like other text */
    const char *kind;    /* how its class is called in messages */
    char unknown_class[SAC_MAX_CLASS_NAME];
    char *chat_template; /* owned; NULL = none */
};

typedef struct sac_piece {
    uint32_t begin, n_bytes;
    int32_t id; /* of a token; any number, a caller's placeholder need not be in the vocabulary */
    bool is_token;
    bool at_start; /* begins where the whole input begins */
} sac_piece;

typedef struct sac_pieces {
    sac_piece *piece;
    size_t n, capacity;
} sac_pieces;

sac_status sac_pieces_add(sac_pieces *p, sac_piece piece, sac_error *err);

/* A text on its way: `may` holds for each byte whether added tokens are recognised there; all bytes alike:
 * may is empty and may_all says it. */
typedef struct sac_passage {
    sac_buffer text, may;
    bool may_all;
} sac_passage;

typedef struct sac_run {
    const sac_tokenizer *t;
    sac_passage passage, next_passage;
    sac_pieces pieces, next_pieces;
    sac_regex_scratch regex;
    sac_bpe_scratch bpe;
    sac_unigram_scratch unigram;
    sac_id_sink out;
} sac_run;

/* Each turns run->pieces (and run->passage) into new ones. */
sac_status sac_run_added(sac_run *run, bool normalized, sac_error *err);
sac_status sac_run_normalize(sac_run *run, sac_error *err);
sac_status sac_run_split(sac_run *run, const sac_step *step, sac_error *err);

/* Normalises one text by all steps, e.g. the name of an added token. */
sac_status sac_normalize_text(const sac_steps *steps, sac_regex_scratch *regex, sac_passage *text,
                              sac_passage *spare, sac_error *err);

/* ---- building, shared by tokenizer.json and GGUF ---- */

/* The normalised name of a renamed added token, which is what it decodes to. */
sac_text_span sac_added_name(const sac_added_tokens *a, int32_t id);

/* token.id is in the vocabulary and not added yet. */
sac_status sac_added_tokens_add(sac_tokenizer *t, sac_added_token token, sac_error *err);
/* Of a token in t->added, when its flags have changed: what follows from them. */
void sac_added_token_flag(sac_tokenizer *t, sac_added_token *token);
/* When all is read: indexes, flags; merges must have been added already. */
sac_status sac_tokenizer_finish(sac_tokenizer *t, sac_error *err);

/* Characters that stand for bytes in byte-level vocabularies (GPT-2's table). */
uint32_t sac_char_of_byte(unsigned char byte);
int sac_byte_of_char(uint32_t code_point); /* -1 = stands for no byte */

static inline bool sac_is_name(const char *text, size_t n_bytes, const char *name) {
    return strlen(name) == n_bytes && memcmp(text, name, n_bytes) == 0;
}

/* ---- the small files of a folder, each NULL when there is none (tokenizer_class.c, tokenizer_load_added.c) ---- */

/* transformers 5 makes anew what tokenizer.json says of normalising, splitting and decoding, for these classes. */
typedef enum sac_tokenizer_class {
    SAC_CLASS_FILE,
    SAC_CLASS_LLAMA,
    SAC_CLASS_QWEN2,
    SAC_CLASS_QWEN3_5,
    SAC_CLASS_GEMMA,
    SAC_CLASS_GPT2,
    SAC_CLASS_GPT_NEOX
} sac_tokenizer_class;

typedef struct sac_tokenizer_json {
    struct json_t *added_tokens; /* of tokenizer.json, a list */
    struct json_t *config;       /* tokenizer_config.json */
    struct json_t *map;          /* special_tokens_map.json */
    struct json_t *added_file;   /* added_tokens.json */
    struct json_t *model;        /* config.json */
    sac_tokenizer_class kind;
} sac_tokenizer_json;

/* The class that AutoTokenizer takes; `unknown` is its name where it may make things anew and is not known here, and
 * is left alone otherwise. has_byte_level: "ByteLevel" stands in tokenizer.json. */
sac_status sac_tokenizer_class_find(sac_tokenizer_class *out, char unknown[SAC_MAX_CLASS_NAME],
                                    const sac_tokenizer_json *files, bool has_byte_level, sac_error *err);
/* Normaliser, splits, decoder and the model's rules as that class has them. */
sac_status sac_tokenizer_class_apply(sac_tokenizer *t, const sac_tokenizer_json *files, sac_error *err);
sac_status sac_load_added(sac_tokenizer *t, const sac_tokenizer_json *files, sac_error *err);

/* Parts of tokenizer.json: the large ones from a stream, ... */
struct sac_json_stream;
sac_status sac_load_vocab(sac_tokenizer *t, struct sac_json_stream *s, sac_error *err);
sac_status sac_load_merges(sac_tokenizer *t, struct sac_json_stream *s, sac_error *err);
sac_status sac_load_tokenizer_config(sac_tokenizer *t, const char *text, size_t n_bytes, sac_error *err);
/* ... the small ones from jansson's trees. */
struct json_t;
sac_status sac_load_normalizer(sac_steps *steps, const struct json_t *json, int depth, sac_error *err);
sac_status sac_load_pre_tokenizer(sac_steps *steps, const struct json_t *json, int depth, sac_error *err);
sac_status sac_load_post_processor(sac_tokenizer *t, const struct json_t *json, int depth, sac_error *err);
sac_status sac_load_decoder(sac_decoder *d, const struct json_t *json, sac_error *err);

/* How Kimi's texts are cut into pieces (tokenizer_tiktoken.c). */
extern const char sac_kimi_split[];

#endif
