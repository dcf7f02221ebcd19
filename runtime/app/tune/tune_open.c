#define _GNU_SOURCE
#include "tune_open.h"
#include "eval_split.h"
#include "hash.h"
#include "needle_set.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- the two parts */

static sac_status cut_in_two(tune_search *t, sac_error *err) {
    eval_set *set = &t->tuning.set;
    bool *is_test = calloc(set->n_questions, sizeof *is_test);
    if (!is_test) return sac_fail_no_memory(err);
    sac_status st = eval_split(set, t->s->seed, t->s->test_share, is_test, err);
    if (st == SAC_OK) st = eval_set_part(set, is_test, &t->test.set, err);
    free(is_test);
    return st;
}

sac_status tune_open_parts(tune_search *t, sac_error *err) {
    comparison *parts[] = {&t->tuning, &t->test};
    const char *path = t->tuning.set_path;
    if (needle_set_is(path))
        return sac_fail(err, SAC_BAD_ARGUMENT, "%s: a set of needles is for eval and compare, not for tune",
                        path);
    SAC_TRY(eval_bench_read(&t->tuning.set, path, t->s->benchmark, err));
    eval_set_cut(&t->tuning.set, (size_t)t->s->limit);
    SAC_TRY(cut_in_two(t, err));
    for (int i = 0; i < 2; i++) {
        SAC_TRY(eval_task_open(&parts[i]->task, t->s, &parts[i]->set, path, err));
        parts[i]->task.title = NULL;
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- the header */

static uint64_t hash_lines(const method_list *list) {
    uint64_t h = 0;
    for (size_t i = 0; i < list->n; i++) {
        char *text = method_line_text(list->lines[i].part);
        if (text) h = sac_hash_quick(h, text, strlen(text) + 1);
        free(text);
    }
    return h;
}

json_t *tune_make_header(const tune_search *t) {
    char lines[17], set[17], seed[24];
    snprintf(lines, sizeof lines, "%016" PRIx64, hash_lines(&t->tuning.list));
    snprintf(set, sizeof set, "%016" PRIx64, t->tuning.set.fingerprint);
    snprintf(seed, sizeof seed, "%" PRIu64, t->s->seed);
    return json_pack("{s:i, s:s, s:s, s:f, s:s, s:f, s:I, s:I, s:f, s:s, s:s}", "saccade_tune", 4, "set", set,
                     "want", tune_want_names[t->aim.want], "lose", t->s->lose, "by",
                     t->aim.by_time ? "time" : "work", "minutes", t->s->minutes, "tries",
                     (json_int_t)t->s->tries, "limit", (json_int_t)t->s->limit, "test_share",
                     t->s->test_share, "seed", seed, "own_lines", lines);
}
