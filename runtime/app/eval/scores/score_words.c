#include "score_words.h"

#include <stdlib.h>
#include <string.h>

bool word_list_begin(text_pool *p, word_list *l, size_t room) {
    *l = (word_list){.room = room};
    l->ids = (uint32_t *)(void *)text_take(p, room * sizeof *l->ids);
    if (!l->ids) l->room = 0;
    return l->ids != NULL;
}

void word_list_add(text_pool *p, word_book *b, word_list *l, const char *word, size_t n_bytes) {
    if (l->n == l->room) return;
    if (!b->numbers) b->numbers = json_object();
    const char *key = text_copy(p, word, n_bytes);
    const json_t *at = json_object_get(b->numbers, key);
    if (at) {
        l->ids[l->n++] = (uint32_t)json_integer_value(at);
    } else if (!json_object_set_new_nocheck(b->numbers, key, json_integer((json_int_t)b->n))) {
        l->ids[l->n++] = (uint32_t)b->n++;
    } else {
        p->failed = true;
    }
}

static void add_letters(text_pool *p, word_book *b, word_list *l, const char *text, const char *end) {
    for (size_t n; text < end && l->n < l->room; text += n)
        if (!text_is_space(text_next(text, &n))) word_list_add(p, b, l, text, n);
}

void word_list_split(text_pool *p, word_book *b, word_list *l, const char *text, size_t n_bytes,
                     bool letters) {
    const char *end = text + n_bytes;
    if (letters) {
        add_letters(p, b, l, text, end);
        return;
    }
    for (const char *at = text; l->n < l->room;) {
        const char *stop = memchr(at, ' ', (size_t)(end - at));
        if (!stop) stop = end;
        word_list_add(p, b, l, at, (size_t)(stop - at));
        if (stop == end) return;
        at = stop + 1;
    }
}

bool word_list_common(text_pool *p, const word_list *x, const word_list *y, bool y_first, bool *marks) {
    enum { FEW = 256 }; /* many texts are of short sentences */
    size_t width = y->n + 1, n_cells = (x->n + 1) * width;
    uint16_t few[FEW], *t = n_cells <= FEW ? few : calloc(n_cells, sizeof *t); /* lengths fit: lists are bounded */
    memset(marks, 0, x->n * sizeof *marks);
    if (!t) return p->failed = true, false;
    if (t == few) memset(few, 0, n_cells * sizeof *few);
    for (size_t i = 1; i <= x->n; i++)
        for (size_t j = 1; j <= y->n; j++) {
            uint16_t up = t[(i - 1) * width + j], left = t[i * width + j - 1];
            t[i * width + j] = x->ids[i - 1] == y->ids[j - 1] ? (uint16_t)(t[(i - 1) * width + j - 1] + 1)
                               : up > left                    ? up
                                                              : left;
        }
    for (size_t i = x->n, j = y->n; i && j;) {
        uint16_t up = t[(i - 1) * width + j], left = t[i * width + j - 1];
        if (x->ids[i - 1] == y->ids[j - 1])
            marks[i - 1] = true, i--, j--;
        else if (y_first ? up > left : up >= left)
            i--;
        else
            j--;
    }
    if (t != few) free(t);
    return true;
}

void word_book_free(word_book *b) {
    json_decref(b->numbers);
    *b = (word_book){0};
}
