#include "tune_cost.h"
#include "eval_bench.h"
#include "eval_score.h"
#include "eval_split.h"

#include <math.h>
#include <string.h>

static double number(const json_t *record, const char *object, const char *key) {
    const json_t *from = object ? json_object_get(record, object) : record;
    const json_t *v = json_object_get(from, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

/* Does the line drop rows of the cache, so that its bytes are less because there are fewer? A step reads what is left. */
static bool drops_rows(const method_line *line) {
    static const char *const policies[] = {"snapkv", "pyramidkv", "h2o", "adore", "fastv"};
    const char *kv = line->part[METHOD_KV];
    if (kv && strstr(kv, "low=0")) return true;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        size_t n = strlen(policies[i]);
        const char *prefill = line->part[METHOD_PREFILL], *decode = line->part[METHOD_DECODE];
        if (prefill && !strncmp(prefill, policies[i], n)) return true;
        if (decode && !strncmp(decode, policies[i], n)) return true;
    }
    return false;
}

static double cost_of(const method_line *line, const json_t *record, tune_aim aim) {
    double prompt = number(record, NULL, "prompt_tokens");
    double bytes = number(record, "methods", "kv_bytes_per_token"),
           read = number(record, "methods", "decode_rows_read");
    switch (aim.want) {
    case TUNE_PREFILL:
        return aim.by_time ? number(record, "seconds", "prefill")
                           : prompt * prompt * (1 - number(record, "methods", "attention_pairs_saved"));
    case TUNE_MEMORY: return prompt * bytes;
    default:
        if (aim.by_time) /* the first token of an answer is the prompt's work; without a second nothing was measured */
            return isnan(read) ? read : number(record, "seconds", "decode");
        return prompt * bytes * (drops_rows(line) ? read / read : read);
    }
}

/* What a benchmark's scorer read out of both responses, where it read all of it and drew nothing. */
static bool read_out(const compare_row *row, size_t q, const char **said) {
    const eval_mark *mark = row->score.marks.marks ? &row->score.marks.marks[q] : NULL;
    if (!mark || !mark->answered || mark->drawn || strlen(mark->said) + 1 >= sizeof mark->said) return false;
    *said = mark->said;
    return *mark->said != 0;
}

/* The same answer to the set's scorer: "B" and "B. The cat" are. */
static bool is_same_answer(const comparison *c, const compare_row *mine, const compare_row *dense, const eval_question *question,
                           size_t q) {
    const char *a = eval_record_response(mine->records[q]), *b = eval_record_response(dense->records[q]), *x, *y;
    if (!a || !b) return false;
    if (!question->item) {
        char letter = eval_prompt_letter(c->task.prompt, question, b);
        if (letter) return letter == eval_prompt_letter(c->task.prompt, question, a);
    } else if (read_out(mine, q, &x) && read_out(dense, q, &y)) {
        return !strcmp(x, y);
    }
    return !strcmp(a, b) || eval_same_text(a, b);
}

/* How far the answer has moved from dense's, 0 to 1: another one, or the same that is less sure. Squared, for answers change where most
 * of the margin is gone, not where a little is gone everywhere. */
static double moved_by(const comparison *c, const compare_row *mine, const compare_row *dense, const eval_question *question,
                       size_t q) {
    if (!is_same_answer(c, mine, dense, question, q)) return 1;
    double was = number(dense->records[q], NULL, "margin"), gone = 1 - number(mine->records[q], NULL, "margin") / was;
    if (isnan(gone) || was <= 0) return 0;
    gone = fmin(1, fmax(0, gone));
    return gone * gone;
}

static bool both_answered(const compare_row *mine, const compare_row *dense, size_t q) {
    return mine->records[q] && dense->records[q] && !eval_record_error(mine->records[q]) &&
           !eval_record_error(dense->records[q]);
}

/* The same of a question that is in the figure, where it stands for several rotations: mean over these. */
static double moved_of(const comparison *c, const compare_row *mine, const compare_row *dense, const eval_video *v, size_t k) {
    if (!c->set.bench || !c->set.bench->circle) return moved_by(c, mine, dense, &v->questions[k], v->first + k);
    double sum = 0, n = 0;
    for (size_t i = 0; i < v->n_questions; i++) {
        size_t q = v->first + i;
        if (!eval_set_is_rotation(&c->set, v->first + k, q) || !both_answered(mine, dense, q)) continue;
        sum += moved_by(c, mine, dense, &v->questions[i], q);
        n++;
    }
    return sum / n;
}

tune_point tune_cost(const comparison *c, size_t at, const bool *questions, tune_aim aim) {
    const compare_row *dense = &c->rows[0], *row = &c->rows[at];
    double mine = 0, theirs = 0;
    tune_point p = {0};
    for (size_t i = 0; i < c->set.n_videos; i++) {
        const eval_video *v = &c->set.videos[i];
        for (size_t k = 0; k < v->n_questions; k++) {
            size_t q = v->first + k;
            if ((questions && !questions[q]) || !both_answered(row, dense, q)) continue;
            double was = dense->score.of[q], is = row->score.of[q];
            if (!isnan(was) && !isnan(is)) p.lost += was - is;
            if (was > 0 && !isnan(is)) p.moved += was * moved_of(c, row, dense, v, k);
            double a = cost_of(row->line, row->records[q], aim),
                   b = cost_of(dense->line, dense->records[q], aim);
            if (isnan(a) || isnan(b)) continue;
            mine += a;
            theirs += b;
        }
    }
    p.lost = round(1e9 * p.lost) / 1e9;
    p.moved = round(1e9 * p.moved) / 1e9;
    p.cost = theirs > 0 ? round(1e9 * mine / theirs) / 1e9 : (double)NAN;
    return p;
}

double tune_cache_bytes(const comparison *c, size_t at) {
    double sum = 0, n = 0;
    for (size_t i = 0; i < c->set.n_questions; i++) {
        const json_t *record = c->rows[at].records[i];
        double bytes =
            number(record, NULL, "prompt_tokens") * number(record, "methods", "kv_bytes_per_token");
        if (!isnan(bytes)) sum += bytes, n++;
    }
    return n > 0 ? sum / n : (double)NAN;
}
