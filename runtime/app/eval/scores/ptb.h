/* ptb.h - captions to words as the COCO evaluation cuts them: Stanford's PTBTokenizer in lower case, less the punctuation
 * that the evaluation drops. Written from what that program does with captions, not from its grammar: a golden file of
 * captions holds the two equal (tests/golden/eval_scores.json); rare abbreviations, addresses and smileys may differ. */
#ifndef APP_EVAL_PTB_H
#define APP_EVAL_PTB_H

#include "score_text.h"

/* The words, one blank between. */
char *ptb_words(text_pool *p, const char *caption);

#endif
