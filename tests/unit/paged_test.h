/* For tests of sessions whose keys and values are in pages: a model with so much memory, on a card where there is one. */
#ifndef PAGED_TEST_H
#define PAGED_TEST_H

#include "shared_rows_test.h"

#include "card_test.h"

#include "pages.h"

enum { CTX = 500 };

static inline sac_model *open_there(void) {
    return open_on_card(FOLDER "qwen3");
}

typedef struct choice {
    const char *prefill, *decode, *kv;
    bool anywhere; /* of a model this small on a card, too */
} choice;

static inline sac_session *make(const sac_model *m, const choice *c) {
    return step_session(m, c->prefill, c->decode, c->kv, CTX);
}

/* Of a whole context, in bytes of pages. */
static inline size_t context_bytes(void) {
    sac_model *m = open_there();
    sac_error err;
    assert_ok(sac_model_page_kv(m, (size_t)64 << 20, &err), err);
    sac_session *s = make(m, &(choice){0});
    const size_t n = sac_kv_cache_paged_bytes(&s->decoder.cache, s->decoder.cache.capacity);
    sac_session_free(s);
    sac_model_free(m);
    return n;
}

static inline sac_model *open_paged(double contexts) {
    const size_t n = context_bytes();
    sac_model *m = open_there();
    sac_error err;
    assert_ok(sac_model_page_kv(m, (size_t)(contexts * (double)n), &err), err);
    return m;
}

static inline void all_free(const sac_model *m) {
    sac_kv_pages p;
    sac_model_kv_pages(m, &p);
    assert_int_equal(p.n_free, p.n_pages);
}

static inline sac_sampling sampling(int n) {
    sac_sampling o = step_sampling(n);
    o.ignore_eos = true;
    o.temperature = 0;
    return o;
}

static inline void fill(sac_session *s, int n) {
    sac_error err;
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    for (int i = 0; i < n; i++) ids[i] = 5 + i * 7 % (info.vocab / 2);
    assert_ok(sac_session_append(s, ids, (size_t)n, NULL, &err), err);
    free(ids);
}

#endif
