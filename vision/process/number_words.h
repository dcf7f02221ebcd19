/* number_words.h - whole numbers in English words, as num2words writes them: "one thousand, two hundred and thirty-four". */
#ifndef SAC_VISION_NUMBER_WORDS_H
#define SAC_VISION_NUMBER_WORDS_H

#include <stdint.h>

enum { SAC_NUMBER_WORDS_BYTES = 128 };

/* n from 0 to 999,999,999, or as digits what is not among these. Returns buf. */
const char *sac_number_words(char buf[SAC_NUMBER_WORDS_BYTES], int64_t n);

#endif
