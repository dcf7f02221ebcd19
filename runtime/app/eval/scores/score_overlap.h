/* score_overlap.h - how much two texts have in common, by the rules that long-text benchmarks share. Words and characters beyond
 * OVERLAP_MAX of either text do not count: no answer is that long, and the work grows with their product. */
#ifndef APP_EVAL_SCORE_OVERLAP_H
#define APP_EVAL_SCORE_OVERLAP_H

#include "score_text.h"

enum { OVERLAP_MAX = 4096, OVERLAP_RATIO_MAX = 2000 };

/* SQuAD's F1 of words (Rajpurkar et al., arXiv:1606.05250): lower case, without punctuation and articles. */
double overlap_f1(text_pool *p, const char *said, const char *right);
/* Of characters: lower case, without punctuation (Chinese, too) and white space. */
double overlap_f1_letters(text_pool *p, const char *said, const char *right);

/* Rouge-L (Lin 2004) as the package rouge 1.0.1 has it, which LongBench takes: sentences end at full stops; precision and recall count
 * different words. Words are what blanks separate, or single characters (`letters`). */
double overlap_rouge_l(text_pool *p, const char *said, const char *right, bool letters);
/* Rouge-Lsum as rouge_score has it: sentences end at line ends, words are runs of a-z and 0-9, each counts once a place. */
double overlap_rouge_lsum(text_pool *p, const char *said, const char *right);

/* fuzzywuzzy's ratio / 100: twice the characters in the blocks that Ratcliff and Obershelp's method matches, over those of both, in whole
 * percent. Python's difflib, with its rule about characters that are frequent in a `right` of 200 and more. */
double overlap_ratio(text_pool *p, const char *said, const char *right);

#endif
