/* tokenizer.h - text to token ids and back, equal to the `tokenizers` package for the same tokenizer.json,
 * and to transformers 5 for the files of a folder.
 *
 * A tokenizer is read-only once open and may be shared by threads; calls take their scratch from the heap and
 * keep nothing. What a file asks for and this library does not do is refused when it is opened, by name.
 * Known differences from `tokenizers`: letters, numbers and symbols are those of Unicode 14 (PCRE2) where a
 * text is split, so newer ones fall into other pieces; NFC knows Unicode 15 (utf8proc). */
#ifndef SAC_LLM_TOKENIZER_H
#define SAC_LLM_TOKENIZER_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAC_MAX_TOKENS_OF_VOCAB ((int32_t)1 << 21) /* ids are below this */
#define SAC_MAX_TOKEN_BYTES     65535              /* of one token's text */
#define SAC_MAX_TEXT_BYTES      ((size_t)64 << 20) /* of one sac_tokenize call, normalised */

typedef struct sac_tokenizer sac_tokenizer;

typedef struct sac_text_span {
    const char *text;
    size_t n_bytes;
} sac_text_span;

/* How text becomes tokens where a folder's tokenizer class and its tokenizer.json differ (tokenizer_class.c). */
typedef enum sac_tokenizer_rule {
    SAC_TOKENIZER_BY_CLASS, /* as transformers 5 */
    SAC_TOKENIZER_BY_FILE,  /* as tokenizer.json says: transformers 4, `tokenizers` */
} sac_tokenizer_rule;

/* Reads a Hugging Face tokenizer.json: BPE and Unigram models; and what lies beside it, as transformers does:
 * tokenizer_config.json (begin and end tokens, added tokens, the class and its settings, the chat template),
 * special_tokens_map.json, added_tokens.json, and of config.json which class it is. The error names the file. */
sac_status sac_tokenizer_open_file(sac_tokenizer **out, const char *path, sac_tokenizer_rule rule,
                                   sac_error *err);

/* The same from memory; a text of NULL is a file that is not there. */
typedef struct sac_tokenizer_files {
    sac_text_span tokenizer, tokenizer_config, special_tokens_map, added_tokens, model_config;
    sac_tokenizer_rule rule;
} sac_tokenizer_files;
sac_status sac_tokenizer_open_files(sac_tokenizer **out, const sac_tokenizer_files *files, sac_error *err);

/* tiktoken.model (lines of a token in base64 and its rank) beside a tokenizer_config.json that names moonshotai's TikTokenTokenizer, of
 * Kimi-VL and Moonlight; UNSUPPORTED beside others, whose way to cut a text is in no file. */
sac_status sac_tokenizer_open_tiktoken(sac_tokenizer **out, sac_text_span file, sac_text_span config, sac_error *err);
sac_status sac_tokenizer_open_tiktoken_file(sac_tokenizer **out, const char *path, const char *config_path, sac_error *err);

/* Two of them; config_json may be NULL. */
sac_status sac_tokenizer_open_json(sac_tokenizer **out, const char *text, size_t n_bytes,
                                   const char *config_json, size_t config_bytes, sac_error *err);

typedef enum sac_token_type { /* values of GGUF's tokenizer.ggml.token_type */
                              SAC_TOKEN_NORMAL = 1,
                              SAC_TOKEN_UNKNOWN = 2,
                              SAC_TOKEN_CONTROL = 3,
                              SAC_TOKEN_USER_DEFINED = 4,
                              SAC_TOKEN_UNUSED = 5,
                              SAC_TOKEN_BYTE = 6,
} sac_token_type;

/* A vocabulary as GGUF files carry it; everything is borrowed and only read during the call that opens it. */
typedef struct sac_vocab_source {
    const char
        *model; /* tokenizer.ggml.model: "llama" (SentencePiece BPE by scores) or "gpt2" (byte-level BPE) */
    const char *pre; /* tokenizer.ggml.pre, NULL when absent: which split pattern a gpt2 vocabulary uses */
    size_t n_tokens;
    const sac_text_span *tokens; /* [n_tokens] */
    const float *scores;         /* [n_tokens]; needed by "llama" */
    const int32_t *types;        /* [n_tokens] sac_token_type; NULL = all normal */
    size_t n_merges;
    const sac_text_span *merges;            /* [n_merges] "left right"; needed by "gpt2" */
    int64_t bos_id, eos_id, unk_id;         /* -1 = absent */
    int add_bos, add_eos, add_space_prefix; /* 0, 1, or -1 = absent: the model's usual */
} sac_vocab_source;

sac_status sac_tokenizer_open_vocab(sac_tokenizer **out, const sac_vocab_source *src, sac_error *err);

void sac_tokenizer_free(sac_tokenizer *t); /* NULL is fine */

/* A piece of the text to tokenise. Neighbouring pieces are tokenised as one text, so merges and split
 * patterns cross their borders as they do when a whole rendered chat is tokenised; but added tokens
 * ("<|im_end|>", "<image>") are recognised only where parse_special is set: what a user types must not become
 * a control token. (Added tokens that are white space and not special are recognised everywhere.) */
typedef struct sac_text_segment {
    const char *text; /* need not end in NUL; bytes that are not UTF-8 become U+FFFD as with Python's
                         decode(errors="replace"), in each segment by itself */
    size_t n_bytes;
    bool parse_special;
    bool is_token; /* instead of text: the id token_id itself, which need not be in the vocabulary */
    int32_t token_id;
} sac_text_segment;

/* Writes at most `capacity` ids; *n_ids is their full number, also when that is more (TOO_LONG; ids may be
 * NULL when capacity is 0). add_special: with the tokens that the tokenizer adds before and behind a text,
 * unless the text starts with the first of them already, as transformers' processors do
 * for rendered chats. */
sac_status sac_tokenize(const sac_tokenizer *t, const sac_text_segment *segments, size_t n_segments,
                        bool add_special, int32_t *ids, size_t capacity, size_t *n_ids, sac_error *err);

/* Ids run from 0 to n_vocab - 1; a few in between may have no token. */
int32_t sac_tokenizer_n_vocab(const sac_tokenizer *t);
int32_t sac_tokenizer_bos(const sac_tokenizer *t); /* -1 = none known */
int32_t sac_tokenizer_eos(const sac_tokenizer *t);
bool sac_tokenizer_adds_bos(const sac_tokenizer *t); /* add_special puts the begin token first */

/* What text becomes tokens by: "LlamaTokenizer", "Qwen2Tokenizer", "tiktoken.model", or "tokenizer.json", the file as
 * it is. */
const char *sac_tokenizer_kind(const sac_tokenizer *t);
/* A class that is not known here, for which the file is taken as it is; or NULL. */
const char *sac_tokenizer_unknown_class(const sac_tokenizer *t);

/* "chat_template" of tokenizer_config.json, for sac_chat_detect; NULL = none. (A chat_template.jinja beside
 * the file goes first; reading that is the caller's.) */
const char *sac_tokenizer_chat_template(const sac_tokenizer *t);

int32_t sac_token_find(const sac_tokenizer *t, const char *text, size_t n_bytes); /* -1 = no such token */
/* A token's name as the vocabulary writes it ("Ġthe", "▁the", "<0x0A>"); {NULL, 0} when the id
 * has no token. */
sac_text_span sac_token_text(const sac_tokenizer *t, int32_t id);
bool sac_token_is_special(const sac_tokenizer *t, int32_t id);
bool sac_token_is_added(const sac_tokenizer *t, int32_t id); /* found in a text before it is cut; special ones are */

#endif
