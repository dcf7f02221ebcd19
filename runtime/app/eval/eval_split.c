#include "eval_split.h"
#include "hash.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

typedef struct place {
    uint64_t hash;
    const char *file;
    size_t video;
} place;

static int by_hash(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    int order = strcmp(x->file, y->file);
    return order ? order : (x->video > y->video) - (x->video < y->video);
}

/* FNV's last letters barely move its high bits: mixed once more (the finaliser of MurmurHash3, public domain). */
static uint64_t mix(uint64_t h) {
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdull;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53ull;
    return h ^ h >> 33;
}

static void mark(bool *marks, const eval_video *v, bool value) {
    for (size_t i = 0; i < v->n_questions; i++) marks[v->first + i] = value;
}

static uint64_t hash_text(uint64_t seed, const char *text) {
    return mix(sac_hash_quick(sac_hash_quick(0, &seed, sizeof seed), text, strlen(text)));
}

sac_status eval_split(const eval_set *set, uint64_t seed, double test_share, bool *is_test, sac_error *err) {
    place *order = calloc(set->n_videos, sizeof *order);
    if (!order) return sac_fail_no_memory(err);
    for (size_t i = 0; i < set->n_videos; i++) {
        const char *file = set->videos[i].file;
        order[i] = (place){hash_text(seed, file), file, i};
    }
    qsort(order, set->n_videos, sizeof *order, by_hash);
    double want = test_share * (double)set->n_questions;
    size_t n_test = 0;
    for (size_t i = 0, next; i < set->n_videos; i = next) {
        size_t n = 0;
        for (next = i; next < set->n_videos && !strcmp(order[next].file, order[i].file); next++)
            n += set->videos[order[next].video].n_questions;
        bool last = next == set->n_videos, first = i == 0; /* each part has one at least */
        bool takes = first || (!last && (double)n_test + 0.5 * (double)n <= want);
        for (size_t k = i; k < next; k++) mark(is_test, &set->videos[order[k].video], takes);
        n_test += takes ? n : 0;
    }
    bool one_file = set->n_videos && !strcmp(order[0].file, order[set->n_videos - 1].file);
    free(order);
    return n_test && !one_file ? SAC_OK
                               : sac_fail(err, SAC_BAD_ARGUMENT,
                                          "the set asks about one video only; tuning and test need one each");
}

/* ---------------------------------------------------------------- an order */

typedef struct turn {
    uint64_t hash, video; /* of the question, of its video's file */
    size_t round, at;
} turn;

static int by_question(const void *a, const void *b) {
    const turn *x = a, *y = b;
    return x->hash != y->hash ? (x->hash < y->hash ? -1 : 1) : (x->at > y->at) - (x->at < y->at);
}

static int by_round(const void *a, const void *b) {
    const turn *x = a, *y = b;
    if (x->round != y->round) return x->round < y->round ? -1 : 1;
    return x->video != y->video ? (x->video < y->video ? -1 : 1) : by_question(a, b);
}

sac_status eval_spread(const eval_set *set, uint64_t seed, size_t *order, sac_error *err) {
    turn *turns = calloc(set->n_questions, sizeof *turns);
    if (!turns) return sac_fail_no_memory(err);
    for (size_t i = 0; i < set->n_videos; i++) {
        const eval_video *v = &set->videos[i];
        for (size_t k = 0; k < v->n_questions; k++)
            turns[v->first + k] = (turn){.hash = hash_text(seed, v->questions[k].id),
                                         .video = hash_text(seed, v->file),
                                         .at = v->first + k};
        qsort(turns + v->first, v->n_questions, sizeof *turns, by_question);
        for (size_t k = 0; k < v->n_questions; k++) turns[v->first + k].round = k;
    }
    qsort(turns, set->n_questions, sizeof *turns, by_round);
    for (size_t i = 0; i < set->n_questions; i++) order[i] = turns[i].at;
    free(turns);
    return SAC_OK;
}

/* ---------------------------------------------------------------- a part */

/* Before anything moves, so that a failure leaves a set that can be freed. */
static sac_status number_kept(eval_set *set, const bool *keep, sac_error *err) {
    json_int_t n = 0;
    for (size_t i = 0; i < set->n_videos; i++) {
        const eval_video *v = &set->videos[i];
        for (size_t k = 0; k < v->n_questions; k++)
            if (json_object_set_new(set->question_index, v->questions[k].id,
                                    json_integer(keep[v->first + k] ? n++ : -1)))
                return sac_fail_no_memory(err);
    }
    return SAC_OK;
}

sac_status eval_set_keep(eval_set *set, const bool *keep, sac_error *err) {
    SAC_TRY(number_kept(set, keep, err));
    size_t n = 0, n_questions = 0;
    for (size_t i = 0; i < set->n_videos; i++) {
        eval_video v = set->videos[i];
        size_t kept = 0;
        for (size_t k = 0; k < v.n_questions; k++)
            if (keep[v.first + k])
                v.questions[kept++] = v.questions[k];
            else
                free(v.questions[k].item);
        if (!kept) {
            free(v.questions);
            continue;
        }
        v.first = n_questions;
        v.n_questions = kept;
        n_questions += kept;
        set->videos[n++] = v;
    }
    set->n_videos = n;
    set->n_questions = n_questions;
    return SAC_OK;
}
