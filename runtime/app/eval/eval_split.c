#include "eval_split.h"
#include "eval_bench.h"
#include "hash.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- sources */

static const eval_question *question_of(const eval_set *set, size_t at) {
    return &set->videos[0].questions[at]; /* of a benchmark: one eval_video has them all */
}

const char *eval_set_source(const eval_set *set, const eval_video *v, size_t at) {
    if (!set->bench) return v->file;
    const eval_question *q = question_of(set, at);
    if (!q->item->n_media) return q->id;
    return q->item->media[0].path ? q->item->media[0].path : q->item->media[0].base64;
}

static bool has_media(const eval_set *set, size_t at) {
    return !set->bench || question_of(set, at)->item->n_media > 0;
}

size_t eval_turn_end(const eval_set *set, const eval_video *v, size_t from, size_t most) {
    const size_t end = v->first + v->n_questions;
    size_t at = from + 1;
    if (!set->bench) return end;
    if (has_media(set, from))
        while (at < end && !strcmp(eval_set_source(set, v, at), eval_set_source(set, v, from))) at++;
    else
        while (at < end && at - from < most && !has_media(set, at)) at++;
    return at;
}

bool eval_set_is_rotation(const eval_set *set, size_t a, size_t b) {
    if (!set->bench || !set->bench->circle) return false;
    return question_of(set, a)->item->group % set->bench->circle ==
           question_of(set, b)->item->group % set->bench->circle;
}

/* ---------------------------------------------------------------- two parts */

/* FNV's last letters barely move its high bits: mixed once more (the finaliser of MurmurHash3, public domain). */
static uint64_t mix(uint64_t h) {
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdull;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53ull;
    return h ^ h >> 33;
}

static uint64_t hash_text(uint64_t seed, const char *text) {
    return mix(sac_hash_quick(sac_hash_quick(0, &seed, sizeof seed), text, strlen(text)));
}

typedef struct place {
    uint64_t hash;
    const char *source;
    size_t at;
} place;

static int by_hash(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    int order = strcmp(x->source, y->source);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

/* All questions with their sources, those of one source side by side. */
static place *sort_places(const eval_set *set, uint64_t seed) {
    place *order = calloc(set->n_questions + 1, sizeof *order);
    for (size_t i = 0; order && i < set->n_videos; i++) {
        const eval_video *v = &set->videos[i];
        for (size_t at = v->first; at < v->first + v->n_questions; at++) {
            const char *source = eval_set_source(set, v, at);
            bool again = at > v->first && !strcmp(source, order[at - 1].source); /* pictures are long texts */
            order[at] = (place){again ? order[at - 1].hash : hash_text(seed, source), source, at};
        }
    }
    if (order) qsort(order, set->n_questions, sizeof *order, by_hash);
    return order;
}

static size_t end_of_source(const place *order, size_t n, size_t from) {
    size_t end = from + 1;
    while (end < n && order[end].hash == order[from].hash && !strcmp(order[end].source, order[from].source))
        end++;
    return end;
}

sac_status eval_split(const eval_set *set, uint64_t seed, double test_share, bool *is_test, sac_error *err) {
    place *order = sort_places(set, seed);
    if (!order) return sac_fail_no_memory(err);
    double want = test_share * (double)set->n_questions;
    size_t n_test = 0, n_all = set->n_questions, first_end = n_all ? end_of_source(order, n_all, 0) : 0;
    for (size_t i = 0, next; i < n_all; i = next) {
        next = end_of_source(order, n_all, i);
        bool last = next == n_all, first = i == 0; /* each part has one at least */
        bool takes = first || (!last && (double)n_test + 0.5 * (double)(next - i) <= want);
        for (size_t k = i; k < next; k++) is_test[order[k].at] = takes;
        n_test += takes ? next - i : 0;
    }
    free(order);
    return first_end < n_all
               ? SAC_OK
               : sac_fail(err, SAC_BAD_ARGUMENT,
                          "the set asks about one video only, or one picture; tuning and test need one each");
}

/* ---------------------------------------------------------------- an order */

typedef struct turn {
    uint64_t hash, source; /* of the question, of its source */
    size_t round, at;
} turn;

static int by_question(const void *a, const void *b) {
    const turn *x = a, *y = b;
    return x->hash != y->hash ? (x->hash < y->hash ? -1 : 1) : (x->at > y->at) - (x->at < y->at);
}

static int by_source(const void *a, const void *b) {
    const turn *x = a, *y = b;
    return x->source != y->source ? (x->source < y->source ? -1 : 1) : by_question(a, b);
}

static int by_round(const void *a, const void *b) {
    const turn *x = a, *y = b;
    if (x->round != y->round) return x->round < y->round ? -1 : 1;
    return x->source != y->source ? (x->source < y->source ? -1 : 1) : by_question(a, b);
}

/* Of rotations the same. */
static uint64_t hash_question(const eval_set *set, const eval_video *v, size_t at, uint64_t seed) {
    char circle[32];
    if (!set->bench || !set->bench->circle) return hash_text(seed, v->questions[at - v->first].id);
    snprintf(circle, sizeof circle, "%" PRId64, question_of(set, at)->item->group % set->bench->circle);
    return hash_text(seed, circle);
}

sac_status eval_spread(const eval_set *set, uint64_t seed, size_t block, size_t *order, sac_error *err) {
    place *places = sort_places(set, seed);
    turn *turns = calloc(set->n_questions + 1, sizeof *turns);
    bool ok = places && turns;
    for (size_t i = 0; ok && i < set->n_questions; i++)
        turns[places[i].at] = (turn){.source = places[i].hash, .at = places[i].at};
    for (size_t i = 0; ok && i < set->n_videos; i++) {
        const eval_video *v = &set->videos[i];
        for (size_t at = v->first; at < v->first + v->n_questions; at++)
            turns[at].hash = hash_question(set, v, at, seed);
    }
    if (ok) qsort(turns, set->n_questions, sizeof *turns, by_source);
    for (size_t i = 1; ok && i < set->n_questions; i++) {
        const turn *before = &turns[i - 1];
        if (turns[i].source == before->source)
            turns[i].round = before->round + (turns[i].hash != before->hash);
    }
    for (size_t i = 0; ok && i < set->n_questions; i++) turns[i].round /= block;
    if (ok) qsort(turns, set->n_questions, sizeof *turns, by_round);
    for (size_t i = 0; ok && i < set->n_questions; i++) order[i] = turns[i].at;
    free(places);
    free(turns);
    return ok ? SAC_OK : sac_fail_no_memory(err);
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

/* ---------------------------------------------------------------- both parts */

static sac_status copy_questions(const eval_video *v, const bool *take, eval_video *out, sac_error *err) {
    out->n_questions = 0;
    out->questions = calloc(v->n_questions, sizeof *out->questions);
    if (!out->questions) return sac_fail_no_memory(err);
    for (size_t k = 0; k < v->n_questions; k++) {
        if (!take[v->first + k]) continue;
        eval_question *q = &out->questions[out->n_questions++];
        *q = v->questions[k];
        if (!v->questions[k].item) continue;
        if (!(q->item = malloc(sizeof *q->item))) return sac_fail_no_memory(err);
        *q->item = *v->questions[k].item;
    }
    return SAC_OK;
}

static sac_status copy_videos(const eval_set *set, const bool *take, eval_set *out, sac_error *err) {
    for (size_t i = 0; i < set->n_videos; i++) {
        eval_video *v = &out->videos[out->n_videos];
        *v = set->videos[i];
        sac_status st = copy_questions(&set->videos[i], take, v, err);
        v->first = out->n_questions;
        out->n_questions += v->n_questions;
        if (v->n_questions || st != SAC_OK)
            out->n_videos++;
        else
            free(v->questions);
        if (st != SAC_OK) return st;
    }
    return SAC_OK;
}

/* Places of this part's questions; names of the others stay, for a journal may have them. */
static sac_status index_part(const eval_set *set, const bool *take, eval_set *out, sac_error *err) {
    json_int_t n = 0;
    for (size_t i = 0; i < set->n_videos; i++) {
        const eval_video *v = &set->videos[i];
        for (size_t k = 0; k < v->n_questions; k++)
            if (json_object_set_new(out->question_index, v->questions[k].id,
                                    json_integer(take[v->first + k] ? n++ : -1)))
                return sac_fail_no_memory(err);
    }
    return SAC_OK;
}

static sac_status keep_others(eval_set *set, const bool *take, sac_error *err) {
    bool *keep = malloc(set->n_questions + 1);
    if (!keep) return sac_fail_no_memory(err);
    for (size_t i = 0; i < set->n_questions; i++) keep[i] = !take[i];
    sac_status st = eval_set_keep(set, keep, err);
    free(keep);
    return st;
}

sac_status eval_set_part(eval_set *set, const bool *take, eval_set *out, sac_error *err) {
    *out = (eval_set){.bench = set->bench,
                      .videos = calloc(set->n_videos + 1, sizeof *out->videos),
                      .fingerprint = set->fingerprint,
                      .json = json_incref(set->json),
                      .video_index = json_incref(set->video_index),
                      .question_index = json_copy(set->question_index)};
    if (!out->videos || !out->question_index) return sac_fail_no_memory(err);
    SAC_TRY(copy_videos(set, take, out, err));
    SAC_TRY(index_part(set, take, out, err));
    return keep_others(set, take, err);
}
