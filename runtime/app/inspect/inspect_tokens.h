/* inspect_tokens.h - `inspect --count-tokens`: how many tokens texts are, for programs that make prompts of a length. */
#ifndef APP_INSPECT_TOKENS_H
#define APP_INSPECT_TOKENS_H

#include "run.h"

/* Reads lines from standard input, each a text as JSON has it ("a\nb"), and writes the number of tokens of each at once:
 * without those that begin a conversation, and control tokens as plain text. BAD_FILE: a line that is no text. */
sac_status inspect_tokens(const run *r, sac_error *err);

#endif
