/* F1 of words and of characters, and the ratio of matching blocks: score_overlap.h. */
#include "score_overlap.h"
#include "score_words.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- normalising */

static const char ascii_marks[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

/* Those of Chinese texts that LongBench leaves out, besides ASCII's. */
static const char other_marks[] = "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、"
                                  "〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟"
                                  "〰〾〿–—‘’‛“”„‟…‧﹏";

static bool is_mark(const char *s, size_t n, bool chinese) {
    if (n == 1) return *s && strchr(ascii_marks, *s);
    for (const char *m = other_marks; chinese && *m;) {
        size_t k;
        text_next(m, &k);
        if (k == n && !memcmp(m, s, n)) return true;
        m += k;
    }
    return false;
}

static char *without_marks(text_pool *p, const char *s, bool chinese) {
    char *out = text_copy(p, s, strlen(s)), *to = out;
    for (size_t n; *s && !p->failed; s += n) {
        text_next(s, &n);
        if (is_mark(s, n, chinese)) continue;
        memcpy(to, s, n);
        to += n;
    }
    if (!p->failed) *to = 0;
    return out;
}

/* Articles that are whole words become blanks. */
static void blank_articles(char *s) {
    for (char *at = s; *at;) {
        size_t n, length = 0;
        while (at[length] && text_is_word(text_next(at + length, &n))) length += n;
        if ((length == 1 && *at == 'a') || (length == 2 && !memcmp(at, "an", 2)) ||
            (length == 3 && !memcmp(at, "the", 3)))
            memset(at, ' ', length);
        at += length;
        if (length) continue;
        text_next(at, &n);
        at += n;
    }
}

static char *normalise(text_pool *p, const char *s) {
    char *plain = without_marks(p, text_lower(p, s), false);
    if (!p->failed) blank_articles(plain);
    return text_words(p, plain);
}

/* ---------------------------------------------------------------- F1 */

static double f1(text_pool *p, const char *said, const char *right, bool letters) {
    word_book book = {0};
    word_list a, b;
    double same = 0;
    if (!*said || !*right || !word_list_begin(p, &a, OVERLAP_MAX) || !word_list_begin(p, &b, OVERLAP_MAX))
        return 0;
    word_list_split(p, &book, &a, said, strlen(said), letters);
    word_list_split(p, &book, &b, right, strlen(right), letters);
    uint32_t *left = (uint32_t *)(void *)text_take(p, book.n * sizeof *left);
    for (size_t i = 0; left && i < a.n; i++) left[a.ids[i]]++;
    for (size_t i = 0; left && i < b.n; i++) {
        if (!left[b.ids[i]]) continue;
        left[b.ids[i]]--;
        same++;
    }
    word_book_free(&book);
    if (same < 1) return 0;
    double precision = same / (double)a.n, recall = same / (double)b.n;
    return 2 * precision * recall / (precision + recall);
}

double overlap_f1(text_pool *p, const char *said, const char *right) {
    return f1(p, normalise(p, said), normalise(p, right), false);
}

double overlap_f1_letters(text_pool *p, const char *said, const char *right) {
    return f1(p, without_marks(p, text_lower(p, said), true), without_marks(p, text_lower(p, right), true),
              true);
}

/* ---------------------------------------------------------------- matching blocks */

typedef struct matcher {
    const uint32_t *a, *b; /* characters, numbered */
    size_t n_a, n_b;
    uint32_t *first;      /* [numbers] where in b a character stands first, from 1; 0: nowhere, or too often for a match to begin */
    uint32_t *next;       /* [n_b + 1] where the one there stands again */
    size_t *runs[2];      /* [n_b + 1] each; zeroed */
} matcher;

/* Runs that end at a's character i are none again. */
static void clear_runs(const matcher *m, size_t i, size_t *runs) {
    for (uint32_t j = m->first[m->a[i]]; j; j = m->next[j]) runs[j] = 0;
}

/* The longest block that is the same in a[a0, a1) and b[b0, b1), the first of them in a, then in b; stretched by what is the same beside
 * it. */
static size_t longest(const matcher *m, const size_t r[4], size_t *at_a, size_t *at_b) {
    size_t best = 0;
    *at_a = r[0];
    *at_b = r[2];
    for (size_t i = r[0]; i < r[1]; i++) {
        const size_t *before = m->runs[i % 2];
        size_t *now = m->runs[(i + 1) % 2];
        for (size_t j = m->first[m->a[i]]; j && j <= r[3]; j = m->next[j]) {
            if (j <= r[2]) continue;
            now[j] = before[j - 1] + 1;
            if (now[j] <= best) continue;
            best = now[j];
            *at_a = i + 1 - best;
            *at_b = j - best;
        }
        if (i > r[0]) clear_runs(m, i - 1, m->runs[i % 2]);
    }
    if (r[1] > r[0]) clear_runs(m, r[1] - 1, m->runs[r[1] % 2]);
    while (*at_a > r[0] && *at_b > r[2] && m->a[*at_a - 1] == m->b[*at_b - 1]) --*at_a, --*at_b, ++best;
    while (*at_a + best < r[1] && *at_b + best < r[3] && m->a[*at_a + best] == m->b[*at_b + best]) best++;
    return best;
}

/* What lies left and right of a block is matched likewise; a list instead of calls. */
static size_t matching(const matcher *m, size_t (*todo)[4]) {
    size_t n = 1, sum = 0, a, b;
    memcpy(todo[0], (size_t[4]){0, m->n_a, 0, m->n_b}, sizeof todo[0]);
    while (n) {
        size_t r[4];
        memcpy(r, todo[--n], sizeof r);
        size_t length = longest(m, r, &a, &b);
        sum += length;
        if (length && a > r[0] && b > r[2]) memcpy(todo[n++], (size_t[4]){r[0], a, r[2], b}, sizeof r);
        if (length && a + length < r[1] && b + length < r[3])
            memcpy(todo[n++], (size_t[4]){a + length, r[1], b + length, r[3]}, sizeof r);
    }
    return sum;
}

/* Characters of a text, white space too. */
static void read_letters(text_pool *p, word_book *book, word_list *l, const char *s) {
    for (size_t n; *s && l->n < l->room; s += n) {
        text_next(s, &n);
        word_list_add(p, book, l, s, n);
    }
}

/* Places of b by character: so a pair of texts in which everything differs costs no product of their lengths. */
static bool list_places(matcher *m, text_pool *p, const word_list *b, size_t n_numbers) {
    uint32_t *counts = (uint32_t *)(void *)text_take(p, n_numbers * sizeof *counts);
    m->first = (uint32_t *)(void *)text_take(p, n_numbers * sizeof *m->first);
    m->next = (uint32_t *)(void *)text_take(p, (b->n + 1) * sizeof *m->next);
    if (!counts || !m->first || !m->next) return false;
    for (size_t i = 0; i < b->n; i++) counts[b->ids[i]]++;
    for (size_t i = b->n; i-- > 0;) {
        const uint32_t c = b->ids[i];
        if (b->n >= 200 && counts[c] > b->n / 100 + 1) continue;
        m->next[i + 1] = m->first[c];
        m->first[c] = (uint32_t)i + 1;
    }
    return true;
}

double overlap_ratio(text_pool *p, const char *said, const char *right) {
    word_book book = {0};
    word_list a, b;
    if (!strcmp(said, right)) return 1;
    if (!*said || !*right || !word_list_begin(p, &a, OVERLAP_RATIO_MAX) ||
        !word_list_begin(p, &b, OVERLAP_RATIO_MAX))
        return 0;
    read_letters(p, &book, &a, said);
    read_letters(p, &book, &b, right);
    matcher m = {.a = a.ids, .b = b.ids, .n_a = a.n, .n_b = b.n};
    const bool listed = list_places(&m, p, &b, book.n);
    for (int i = 0; i < 2; i++) m.runs[i] = (size_t *)(void *)text_take(p, (b.n + 1) * sizeof(size_t));
    size_t(*todo)[4] = (size_t(*)[4])(void *)text_take(p, (a.n + 2) * sizeof *todo);
    word_book_free(&book);
    if (!listed || !m.runs[0] || !m.runs[1] || !todo) return 0;
    double same = (double)matching(&m, todo);
    return rint(100 * (2 * same / (double)(a.n + b.n))) / 100;
}
