/* gguf_vocab.h - the tokenizer and the chat template of a Hugging Face folder as GGUF's metadata. */
#ifndef SAC_MODELS_GGUF_VOCAB_H
#define SAC_MODELS_GGUF_VOCAB_H

#include "gguf_write.h"
#include "quantize_job.h"

/* "tokenizer.ggml.*" and the chat templates, "tokenizer.chat_template" and "tokenizer.chat_template.NAME"; where there is
 * none, the plan says which built-in format is lost in a file of the architecture `arch`. The vocabulary that they describe is opened as a reader would, and
 * has to make the same tokens of some texts as the folder's own: UNSUPPORTED where no split pattern of GGUF's does. */
sac_status sac_gguf_put_vocab(sac_gguf_out *out, sac_quantize_job *j, const char *arch);

#endif
