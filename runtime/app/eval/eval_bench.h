/* eval_bench.h - the benchmarks that `eval` reads. One is a file in sets/ (reader and official prompt), the name of its
 * scorer (scores/), and a line here. Video-MME, whose result file other programs read, has its own schema in eval_set.h. */
#ifndef APP_EVAL_BENCH_H
#define APP_EVAL_BENCH_H

#include "eval_set.h"
#include "scores/score.h"

#define SAC_EVAL_SETS(X)                                                                                     \
    X(mvbench)                                                                                               \
    X(mlvu)                                                                                                  \
    X(longvideobench)                                                                                        \
    X(egoschema)                                                                                             \
    X(nextqa)                                                                                                \
    X(tempcompass)                                                                                           \
    X(streamingbench)                                                                                        \
    X(mmmu)                                                                                                  \
    X(mmbench)                                                                                               \
    X(textvqa)                                                                                               \
    X(docvqa)                                                                                                \
    X(chartqa)                                                                                               \
    X(pope)                                                                                                  \
    X(scienceqa)                                                                                             \
    X(coco)                                                                                                  \
    X(vqav2)                                                                                                 \
    X(gqa)                                                                                                   \
    X(mme)                                                                                                   \
    X(gsm8k)                                                                                                 \
    X(gsm8k_cot)                                                                                             \
    X(longbench)                                                                                             \
    X(infinitebench)

typedef struct eval_reader eval_reader;

typedef struct eval_bench {
    const char *name, *title;
    /* Fields that every row has and by which the format is known, with commas; '!' behind them: and no others; '|' between
     * several formats of the same benchmark. */
    const char *fields;
    /* Where the rows are besides in a list: "data" = in that member ('|' between several), "*" = members of the object
     * itself, by id, "**" = lists within these. NULL = in a list only. */
    const char *within;
    const eval_scorer *scorer;
    int max_tokens; /* of an answer, unless told otherwise */
    sac_status (*read)(eval_reader *r, const json_t *row);
    sac_status (*read_all)(eval_reader *r, const json_t *root); /* instead, where rows need one another */
    /* Whether the benchmark's own figure is the mean over a dimension's values instead of over questions (MLVU's
     * M-avg): the dimension. NULL = over questions. */
    const char *mean_over;
    const char *figure; /* what the benchmark calls its main figure */
    const char *main;   /* which of the scorer's figures is the main one; NULL = the mean score */
    int64_t
        circle; /* of rotations that are scored together: item.group is the same but for multiples of this; 0 = none */
    const char *note; /* what differs from the official scoring, said with the scores; NULL = nothing */
} eval_bench;

/* Video-MME's fields, for the same recognition; it has no reader here. */
extern const eval_bench eval_bench_videomme;

/* By name; NULL = there is none. */
const eval_bench *eval_bench_find(const char *name);

/* Which benchmark a value is of, by its fields; NULL = none fits. nearest (may be NULL): the one that fits best then, and
 * a field that it lacks. */
const eval_bench *eval_bench_recognise(const json_t *root, const eval_bench **nearest, char lacks[64]);

/* Reads a file, or all files of a folder (.json, .jsonl, .csv, .tsv, in order of name, all of one benchmark). name: the
 * benchmark, NULL = by its fields. Video-MME's come as eval_set_read gives them; others as one eval_video whose questions
 * have an `item`, and set->bench says which it is. On failure, too, eval_set_free frees what there is. */
sac_status eval_bench_read(eval_set *set, const char *path, const char *name, sac_error *err);

/* The same of one file in memory. folder: where other files of the benchmark lie (answers of EgoSchema); may be NULL. */
sac_status eval_bench_parse(eval_set *set, const char *text, size_t n_bytes, const char *file,
                            const char *folder, const char *name, sac_error *err);

#endif
