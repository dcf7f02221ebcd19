/* CIDEr-D (Vedantam et al., arXiv:1411.5726) as the COCO caption evaluation computes it: tf-idf of n-grams, n = 1 to 4, with
 * document frequencies from the references at hand, counts clipped at the reference's, a Gaussian penalty (sigma 6) of the
 * difference in length, times 10, the mean over references. Length there is the number of bigrams: kept. Sums in double. */
#include "ptb.h"
#include "score.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_MAX = 4 };

/* Words as numbers from 1; what is behind the n-gram's end is 0. */
typedef struct gram {
    uint32_t word[N_MAX];
} gram;

typedef struct counted {
    gram g;
    double n; /* how often; in the table of documents: in how many */
} counted;

typedef struct grams {
    counted *items;
    size_t n, room;
} grams;

typedef struct corpus {
    text_pool texts;
    const char **words; /* by hash, open addressing */
    uint32_t *numbers;
    size_t n_words, room; /* a power of two */
    grams documents;      /* sorted */
    double log_n;
} corpus;

/* ---------------------------------------------------------------- words */

static size_t hash_of(const char *s, size_t n) {
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 1099511628211u;
    return (size_t)(h ^ h >> 29);
}

static bool grow(corpus *c) {
    size_t room = c->room ? 2 * c->room : 4096;
    const char **words = calloc(room, sizeof *words);
    uint32_t *numbers = calloc(room, sizeof *numbers);
    if (!words || !numbers) {
        free(words);
        free(numbers);
        return false;
    }
    for (size_t i = 0; i < c->room; i++) {
        if (!c->words[i]) continue;
        size_t at = hash_of(c->words[i], strlen(c->words[i])) & (room - 1);
        while (words[at]) at = (at + 1) & (room - 1);
        words[at] = c->words[i];
        numbers[at] = c->numbers[i];
    }
    free(c->words);
    free(c->numbers);
    c->words = words;
    c->numbers = numbers;
    c->room = room;
    return true;
}

/* The word's number; 0 = out of memory. */
static uint32_t number_of(corpus *c, const char *word, size_t n) {
    if (2 * c->n_words >= c->room && !grow(c)) return 0;
    size_t at = hash_of(word, n) & (c->room - 1);
    while (c->words[at] && (strncmp(c->words[at], word, n) || c->words[at][n])) at = (at + 1) & (c->room - 1);
    if (c->words[at]) return c->numbers[at];
    c->words[at] = text_copy(&c->texts, word, n);
    if (c->texts.failed) return 0;
    return c->numbers[at] = (uint32_t)++c->n_words;
}

/* ---------------------------------------------------------------- n-grams */

static int compare(const void *a, const void *b) {
    const counted *x = a, *y = b;
    for (int i = 0; i < N_MAX; i++)
        if (x->g.word[i] != y->g.word[i]) return x->g.word[i] < y->g.word[i] ? -1 : 1;
    return 0;
}

static bool add_gram(grams *v, const gram *g) {
    if (v->n == v->room) {
        size_t room = v->room ? 2 * v->room : 64;
        counted *more = realloc(v->items, room * sizeof *more);
        if (!more) return false;
        v->items = more;
        v->room = room;
    }
    v->items[v->n++] = (counted){.g = *g, .n = 1};
    return true;
}

/* Sorted, each once, counts added up. */
static void sum_up(grams *v) {
    size_t n = 0;
    if (v->n) qsort(v->items, v->n, sizeof *v->items, compare);
    for (size_t i = 0; i < v->n; i++) {
        if (n && !compare(&v->items[n - 1], &v->items[i]))
            v->items[n - 1].n += v->items[i].n;
        else
            v->items[n++] = v->items[i];
    }
    v->n = n;
}

/* Adds the n-grams of a caption. */
static bool add_caption(corpus *c, grams *v, const char *caption) {
    text_pool p = {0};
    const char *words = ptb_words(&p, caption);
    uint32_t last[N_MAX] = {0}; /* the words before, the newest at the end */
    size_t n_before = 0;
    bool ok = true;
    for (const char *at = words; *at && ok;) {
        size_t n = strcspn(at, " ");
        memmove(last, last + 1, sizeof last - sizeof *last);
        ok = (last[N_MAX - 1] = number_of(c, at, n)) != 0;
        if (n_before < N_MAX) n_before++;
        for (size_t k = 1; k <= n_before && ok; k++) {
            gram g = {{0}};
            memcpy(g.word, last + N_MAX - k, k * sizeof *last);
            ok = add_gram(v, &g);
        }
        at += n + (at[n] == ' ');
    }
    ok = ok && !p.failed;
    text_pool_free(&p);
    return ok;
}

static size_t order_of(const gram *g) {
    size_t n = 1;
    while (n < N_MAX && g->word[n]) n++;
    return n;
}

/* ---------------------------------------------------------------- documents */

static const char *reference(const eval_item *item, size_t i) {
    return json_string_value(json_array_get(item->answers, i));
}

static bool add_document(corpus *c, const eval_item *item) {
    grams v = {0};
    bool ok = true;
    for (size_t i = 0; i < json_array_size(item->answers) && ok; i++)
        ok = add_caption(c, &v, reference(item, i));
    sum_up(&v);
    for (size_t i = 0; i < v.n && ok; i++) ok = add_gram(&c->documents, &v.items[i].g);
    free(v.items);
    return ok;
}

/* ---------------------------------------------------------------- similarity */

typedef struct vector {
    grams v; /* n: the weight */
    double norm[N_MAX], length;
} vector;

static bool make_vector(corpus *c, vector *out, const char *caption) {
    *out = (vector){0};
    if (!add_caption(c, &out->v, caption)) return false;
    sum_up(&out->v);
    for (size_t i = 0; i < out->v.n; i++) {
        counted *x = &out->v.items[i];
        size_t order = order_of(&x->g);
        const counted *d =
            c->documents.n ? bsearch(x, c->documents.items, c->documents.n, sizeof *x, compare) : NULL;
        if (order == 2) out->length += x->n;
        x->n *= c->log_n - log(d && d->n > 1 ? d->n : 1);
        out->norm[order - 1] += x->n * x->n;
    }
    for (int i = 0; i < N_MAX; i++) out->norm[i] = sqrt(out->norm[i]);
    return true;
}

static double similarity(const vector *said, const vector *ref) {
    double sum[N_MAX] = {0}, delta = said->length - ref->length, mean = 0;
    for (size_t i = 0; i < said->v.n; i++) {
        const counted *h = &said->v.items[i];
        const counted *r = ref->v.n ? bsearch(h, ref->v.items, ref->v.n, sizeof *h, compare) : NULL;
        if (r) sum[order_of(&h->g) - 1] += fmin(h->n, r->n) * r->n;
    }
    for (int i = 0; i < N_MAX; i++) {
        if (said->norm[i] != 0 && ref->norm[i] != 0) sum[i] /= said->norm[i] * ref->norm[i];
        mean += sum[i] * exp(-delta * delta / (2 * 6.0 * 6.0)) / N_MAX;
    }
    return mean;
}

static bool mark(corpus *c, const eval_item *item, const char *response, eval_mark *out) {
    vector said, ref;
    size_t n = json_array_size(item->answers);
    double sum = 0;
    bool ok = make_vector(c, &said, response);
    for (size_t i = 0; i < n && ok; i++) {
        ok = make_vector(c, &ref, reference(item, i));
        if (ok) sum += similarity(&said, &ref);
        free(ref.v.items);
    }
    free(said.v.items);
    out->score = n ? 10 * sum / (double)n : 0;
    out->answered = *response;
    snprintf(out->said, sizeof out->said, "%s", response);
    return ok;
}

static bool all(const eval_answers *a, eval_mark *marks) {
    corpus c = {.log_n = log(a->n ? (double)a->n : 1)};
    bool ok = true;
    for (size_t i = 0; i < a->n && ok; i++) ok = add_document(&c, a->items[i]);
    sum_up(&c.documents);
    for (size_t i = 0; i < a->n && ok; i++)
        ok = mark(&c, a->items[i], a->responses[i] ? a->responses[i] : "", &marks[i]);
    free(c.documents.items);
    free(c.words);
    free(c.numbers);
    text_pool_free(&c.texts);
    return ok;
}

const eval_scorer eval_scorer_cider = {.name = "cider", .all = all};
