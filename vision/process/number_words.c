#include "number_words.h"

#include <inttypes.h>
#include <stdio.h>

enum { MOST = 999999999 };

static const char *const small[] = {"zero",    "one",     "two",       "three",    "four",
                                    "five",    "six",     "seven",     "eight",    "nine",
                                    "ten",     "eleven",  "twelve",    "thirteen", "fourteen",
                                    "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
static const char *const tens[] = {"",      "",      "twenty",  "thirty", "forty",
                                   "fifty", "sixty", "seventy", "eighty", "ninety"};

typedef struct writer {
    char *at;
    int n;
} writer;

static void put(writer *w, const char *text) {
    int n = snprintf(w->at + w->n, (size_t)(SAC_NUMBER_WORDS_BYTES - w->n), "%s", text);
    w->n += n < SAC_NUMBER_WORDS_BYTES - w->n ? n : SAC_NUMBER_WORDS_BYTES - 1 - w->n;
}

/* 1 to 999 */
static void put_hundreds(writer *w, int n) {
    if (n >= 100) {
        put(w, small[n / 100]);
        put(w, n % 100 ? " hundred and " : " hundred");
        n %= 100;
    }
    if (n >= 20) {
        put(w, tens[n / 10]);
        if (n % 10) put(w, "-");
        n %= 10;
    }
    if (n) put(w, small[n]);
}

const char *sac_number_words(char buf[SAC_NUMBER_WORDS_BYTES], int64_t n) {
    static const struct {
        int64_t of;
        const char *name;
    } groups[] = {{1000000, " million"}, {1000, " thousand"}, {1, ""}};
    writer w = {buf, 0};
    buf[0] = 0;
    if (n == 0) put(&w, small[0]);
    if (n < 0 || n > MOST) snprintf(buf, SAC_NUMBER_WORDS_BYTES, "%" PRId64, n);
    for (int i = 0; n > 0 && n <= MOST && i < (int)(sizeof groups / sizeof *groups); i++) {
        int part = (int)(n / groups[i].of % 1000);
        if (!part) continue;
        if (w.n) put(&w, groups[i].of == 1 && part < 100 ? " and " : ", ");
        put_hundreds(&w, part);
        put(&w, groups[i].name);
    }
    return buf;
}
