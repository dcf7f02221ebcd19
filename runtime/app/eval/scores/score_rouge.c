/* Rouge-L of two packages, which differ: score_overlap.h says how. */
#include "score_overlap.h"
#include "score_words.h"

#include <string.h>

typedef struct rouge {
    text_pool *p;
    word_book book;
    word_list *said, *right; /* sentences, in one pool */
    size_t n_said, n_right;
} rouge;

/* ---------------------------------------------------------------- sentences */

static size_t count_char(const char *s, char c) {
    size_t n = 0;
    for (; *s; s++) n += *s == c;
    return n;
}

/* Parts between the marks that are not empty. */
static word_list *split(rouge *r, const char *text, char mark, size_t *n,
                        void (*read)(rouge *, word_list *, const char *, size_t, bool), bool letters) {
    size_t room = count_char(text, mark) + 1, left = OVERLAP_MAX;
    word_list *list = (word_list *)(void *)text_take(r->p, room * sizeof *list);
    *n = 0;
    for (const char *at = text; list && left;) {
        size_t length = strcspn(at, (char[]){mark, 0});
        if (length && word_list_begin(r->p, &list[*n], length + 1 < left ? length + 1 : left)) {
            read(r, &list[*n], at, length, letters);
            left -= list[*n].n;
            (*n)++;
        }
        if (!at[length]) break;
        at += length + 1;
    }
    return list;
}

static void read_blanks(rouge *r, word_list *l, const char *text, size_t n, bool letters) {
    const char *plain = text_words(r->p, text_copy(r->p, text, n));
    word_list_split(r->p, &r->book, l, plain, strlen(plain), letters);
}

static void read_alphanumeric(rouge *r, word_list *l, const char *text, size_t n, bool letters) {
    static const char known[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    (void)letters;
    for (const char *at = text_lower(r->p, text_copy(r->p, text, n)); *at;) {
        size_t length = strspn(at, known);
        if (length) word_list_add(r->p, &r->book, l, at, length);
        at += length ? length : strcspn(at, known);
    }
}

/* ---------------------------------------------------------------- figures */

static size_t most_words(const word_list *l, size_t n) {
    size_t most = 0;
    for (size_t i = 0; i < n; i++) most = l[i].n > most ? l[i].n : most;
    return most;
}

/* Marks each word of the sentences in seen[book.n]; returns how many are new. */
static size_t mark_all(const word_list *l, size_t n, bool *seen) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < l[i].n; k++) {
            count += !seen[l[i].ids[k]];
            seen[l[i].ids[k]] = true;
        }
    return count;
}

static double by_sets(rouge *r) {
    bool *seen = (bool *)text_take(r->p, r->book.n),
         *marks = (bool *)text_take(r->p, most_words(r->right, r->n_right));
    if (!seen || !marks) return 0;
    double m = (double)mark_all(r->right, r->n_right, seen), common = 0;
    memset(seen, 0, r->book.n);
    double n = (double)mark_all(r->said, r->n_said, seen);
    memset(seen, 0, r->book.n);
    for (size_t i = 0; i < r->n_right; i++)
        for (size_t k = 0; k < r->n_said; k++) {
            if (!word_list_common(r->p, &r->right[i], &r->said[k], true, marks)) return 0;
            for (size_t w = 0; w < r->right[i].n; w++) {
                common += marks[w] && !seen[r->right[i].ids[w]];
                seen[r->right[i].ids[w]] |= marks[w];
            }
        }
    if (m < 1 || n < 1) return 0;
    double recall = common / m, precision = common / n;
    return 2 * (precision * recall / (precision + recall + 1e-8));
}

static void count_all(const word_list *l, size_t n, uint32_t *counts, double *sum) {
    for (size_t i = 0; i < n; i++) {
        *sum += (double)l[i].n;
        for (size_t k = 0; k < l[i].n; k++) counts[l[i].ids[k]]++;
    }
}

/* Words of a sentence that are in its common subsequence with any sentence of the answer. */
static bool mark_union(rouge *r, const word_list *right, bool *marks, bool *any) {
    memset(any, 0, right->n);
    for (size_t k = 0; k < r->n_said; k++) {
        if (!word_list_common(r->p, right, &r->said[k], false, marks)) return false;
        for (size_t w = 0; w < right->n; w++) any[w] |= marks[w];
    }
    return true;
}

static double by_places(rouge *r) {
    size_t most = most_words(r->right, r->n_right);
    uint32_t *left_right = (uint32_t *)(void *)text_take(r->p, r->book.n * sizeof *left_right);
    uint32_t *left_said = (uint32_t *)(void *)text_take(r->p, r->book.n * sizeof *left_said);
    bool *marks = (bool *)text_take(r->p, most), *any = (bool *)text_take(r->p, most);
    double m = 0, n = 0, hits = 0;
    if (!left_right || !left_said || !marks || !any) return 0;
    count_all(r->right, r->n_right, left_right, &m);
    count_all(r->said, r->n_said, left_said, &n);
    for (size_t i = 0; i < r->n_right; i++) {
        if (!mark_union(r, &r->right[i], marks, any)) return 0;
        for (size_t w = 0; w < r->right[i].n; w++) {
            uint32_t id = r->right[i].ids[w];
            if (!any[w] || !left_right[id] || !left_said[id]) continue;
            hits++;
            left_right[id]--;
            left_said[id]--;
        }
    }
    if (m < 1 || n < 1 || hits < 1) return 0;
    double recall = hits / m, precision = hits / n;
    return 2 * precision * recall / (precision + recall);
}

double overlap_rouge_l(text_pool *p, const char *said, const char *right, bool letters) {
    rouge r = {.p = p};
    r.said = split(&r, said, '.', &r.n_said, read_blanks, letters);
    r.right = split(&r, right, '.', &r.n_right, read_blanks, letters);
    double score = r.n_said && r.n_right ? by_sets(&r) : 0;
    word_book_free(&r.book);
    return score;
}

double overlap_rouge_lsum(text_pool *p, const char *said, const char *right) {
    rouge r = {.p = p};
    r.said = split(&r, said, '\n', &r.n_said, read_alphanumeric, false);
    r.right = split(&r, right, '\n', &r.n_right, read_alphanumeric, false);
    double score = r.n_said && r.n_right ? by_places(&r) : 0;
    word_book_free(&r.book);
    return score;
}
