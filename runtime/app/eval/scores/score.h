/* score.h - from a model's response to a score, by the rule of a benchmark's own script. One rule is a file. */
#ifndef APP_EVAL_SCORE_RULES_H
#define APP_EVAL_SCORE_RULES_H

#include "../eval_item.h"

typedef struct eval_mark {
    double score;  /* 0 to 1; CIDEr 0 to 10 */
    char said[96]; /* what was read out of the response, cut; "" = nothing */
    bool answered; /* the rule found an answer */
    bool drawn;    /* it found none, and drew one of the options as the official script does */
    bool
        apart; /* in no count: a rotation of another question (MMBench), or a task that another model judges */
    double second; /* by the benchmark's other rule, where it has two (GSM8K) */
} eval_mark;

/* Answers to n items; a response is NULL where the question could not be asked. */
typedef struct eval_answers {
    const eval_item *const *items;
    const char *const *ids, *const *responses;
    size_t n;
} eval_answers;

typedef struct eval_figure {
    const char *name;
    double value; /* 0 to 1; CIDEr 0 to 10 */
    bool points;  /* not a share: the value as it is (MME's sums) */
} eval_figure;

enum { EVAL_FIGURES_MAX = 16 };

/* Figures besides the mean score, of some answers; returns how many. */
typedef size_t (*eval_figures_fn)(const eval_answers *a, const eval_mark *marks,
                                  eval_figure out[EVAL_FIGURES_MAX]);

typedef struct eval_scorer {
    const char *name;
    /* One of the two; response is not NULL in the first. False = out of memory. Marks come zeroed. */
    bool (*one)(const eval_item *item, const char *id, const char *response, eval_mark *out);
    bool (*all)(const eval_answers *a, eval_mark *marks);
    eval_figures_fn figures; /* NULL = none */
} eval_scorer;

/* Marks of all answers, [a->n], zeroed before. False = out of memory. */
bool eval_score_all(const eval_scorer *s, const eval_answers *a, eval_mark *marks);

extern const eval_scorer eval_scorer_mvbench, eval_scorer_mlvu, eval_scorer_longvideobench,
    eval_scorer_egoschema, eval_scorer_first_letter, eval_scorer_tempcompass, eval_scorer_mmmu,
    eval_scorer_mmbench, eval_scorer_vqa, eval_scorer_anls, eval_scorer_relaxed, eval_scorer_pope,
    eval_scorer_scienceqa, eval_scorer_cider, eval_scorer_vqav2, eval_scorer_exact, eval_scorer_mme,
    eval_scorer_gsm8k, eval_scorer_longbench, eval_scorer_infinitebench;

bool eval_mme_has_category(const char *name);

/* The option that stands for a draw: by the question's id, so that the same run ends in the same score. Official scripts
 * take Python's random.choice, seeded or not, which depends on all questions before. */
char eval_draw(const char *id, size_t n_options);

#endif
