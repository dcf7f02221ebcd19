#include "tune_cost.h"

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

/* How far the answer has moved from dense's, 0 to 1: another one, or the same that is less sure. Squared, for answers change where most
 * of the margin is gone, not where a little is gone everywhere. */
static double moved_by(const json_t *mine, const json_t *dense) {
    const char *a = eval_record_response(mine), *b = eval_record_response(dense);
    if (!a || !b || strcmp(a, b) != 0) return 1;
    double was = number(dense, NULL, "margin"), gone = 1 - number(mine, NULL, "margin") / was;
    if (isnan(gone) || was <= 0) return 0;
    gone = fmin(1, fmax(0, gone));
    return gone * gone;
}

tune_point tune_cost(const comparison *c, size_t at, const bool *questions, tune_aim aim) {
    const compare_row *dense = &c->rows[0], *row = &c->rows[at];
    double mine = 0, theirs = 0;
    tune_point p = {0};
    for (size_t i = 0; i < c->set.n_videos; i++) {
        const eval_video *v = &c->set.videos[i];
        for (size_t k = 0; k < v->n_questions; k++) {
            size_t q = v->first + k;
            if ((questions && !questions[q]) || !row->records[q] || !dense->records[q]) continue;
            if (eval_record_error(row->records[q]) || eval_record_error(dense->records[q])) continue;
            if (!isnan(dense->score.of[q]) && !isnan(row->score.of[q]))
                p.lost += dense->score.of[q] - row->score.of[q];
            p.moved += moved_by(row->records[q], dense->records[q]);
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
