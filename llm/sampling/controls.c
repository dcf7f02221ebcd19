#include "controls.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum control_kind {
    CONTROL_INT,       /* int64_t */
    CONTROL_REAL,      /* double */
    CONTROL_FLAG,      /* bool */
    CONTROL_IDS,       /* an id or a list of them */
    CONTROL_SEQUENCES, /* [[id, id], ...] */
    CONTROL_BIASES,    /* [[[id, id], bias], ...] */
    CONTROL_LOGITS,    /* {"id": bias} or [[id, bias], ...] */
    CONTROL_TEXTS,     /* a text or a list of them */
    CONTROL_DECAY,     /* [start, factor] */
    CONTROL_SCALE,     /* guidance */
} control_kind;

typedef struct control {
    const char *name;
    control_kind kind;
    size_t offset;
    double min, max;
} control;

#define AT(field) offsetof(sac_controls, field)

static const control controls[] = {
    {"max_length", CONTROL_INT, AT(max_length), 0, INT32_MAX},
    {"min_length", CONTROL_INT, AT(min_length), 0, INT32_MAX},
    {"min_new_tokens", CONTROL_INT, AT(min_new_tokens), 0, INT32_MAX},
    {"no_repeat_ngram_size", CONTROL_INT, AT(no_repeat_ngram_size), 0, INT32_MAX},
    {"encoder_no_repeat_ngram_size", CONTROL_INT, AT(encoder_no_repeat_ngram_size), 0, INT32_MAX},
    {"encoder_repetition_penalty", CONTROL_REAL, AT(encoder_repetition_penalty), 0.01, 100},
    {"typical_p", CONTROL_REAL, AT(typical_p), 1e-9, 1},
    {"epsilon_cutoff", CONTROL_REAL, AT(epsilon_cutoff), 0, 1},
    {"eta_cutoff", CONTROL_REAL, AT(eta_cutoff), 0, 1},
    {"top_h", CONTROL_REAL, AT(top_h), 1e-9, 1},
    {"max_time", CONTROL_REAL, AT(max_time), 0, 1e9},
    {"exponential_decay_length_penalty", CONTROL_DECAY, AT(decay_start), 0, INT32_MAX},
    {"remove_invalid_values", CONTROL_FLAG, AT(remove_invalid_values), 0, 1},
    {"suppress_tokens", CONTROL_IDS, AT(suppress_tokens), 0, 0},
    {"begin_suppress_tokens", CONTROL_IDS, AT(begin_suppress_tokens), 0, 0},
    {"forced_bos_token_id", CONTROL_IDS, AT(forced_bos_token_id), 0, 0},
    {"forced_eos_token_id", CONTROL_IDS, AT(forced_eos_token_id), 0, 0},
    {"stop_token_ids", CONTROL_IDS, AT(stop_token_ids), 0, 0},
    {"bad_words_ids", CONTROL_SEQUENCES, AT(bad_words_ids), 0, 0},
    {"sequence_bias", CONTROL_BIASES, AT(sequence_bias), 0, 0},
    {"logit_bias", CONTROL_LOGITS, AT(logit_bias), 0, 0},
    {"presence_penalty", CONTROL_REAL, AT(presence_penalty), -2, 2},
    {"frequency_penalty", CONTROL_REAL, AT(frequency_penalty), -2, 2},
    {"stop_strings", CONTROL_TEXTS, AT(stop_strings), 0, 0},
    {"guidance_scale", CONTROL_SCALE, AT(guidance_scale), -1000, 1000},
    {"negative_prompt_ids", CONTROL_IDS, AT(negative_prompt_ids), 0, 0},
    {"dry_multiplier", CONTROL_REAL, AT(dry_multiplier), 0, 100},
    {"dry_base", CONTROL_REAL, AT(dry_base), 1, 100},
    {"dry_allowed_length", CONTROL_INT, AT(dry_allowed_length), 1, 1000},
    {"dry_penalty_last_n", CONTROL_INT, AT(dry_penalty_last_n), -1, INT32_MAX},
    {"dry_breaker_ids", CONTROL_IDS, AT(dry_breaker_ids), 0, 0},
    {"xtc_probability", CONTROL_REAL, AT(xtc_probability), 0, 1},
    {"xtc_threshold", CONTROL_REAL, AT(xtc_threshold), 1e-9, 1},
    {"mirostat", CONTROL_INT, AT(mirostat), 0, 2},
    {"mirostat_tau", CONTROL_REAL, AT(mirostat_tau), 1e-6, 100},
    {"mirostat_eta", CONTROL_REAL, AT(mirostat_eta), 1e-6, 10},
};

static const control *find(const char *name) {
    for (size_t i = 0; i < SAC_COUNT(controls); i++)
        if (!strcmp(controls[i].name, name)) return &controls[i];
    return NULL;
}

bool sac_controls_knows(const char *name) {
    return find(name) != NULL;
}

sac_status sac_controls_create(sac_controls **out, sac_error *err) {
    *out = calloc(1, sizeof **out);
    return *out ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "no memory for settings of generation");
}

bool sac_controls_want_guidance(const sac_controls *c) {
    return c->has_guidance;
}

size_t sac_controls_stop_ids(const sac_controls *c, const int32_t **ids) {
    const size_t n = c ? (size_t)c->stop_token_ids.n : 0;
    *ids = n ? c->pool + c->stop_token_ids.at : NULL;
    return n;
}

void sac_controls_clear(sac_controls *c) {
    free(c->pool);
    *c = (sac_controls){0};
}

void sac_controls_free(sac_controls *c) {
    if (!c) return;
    sac_controls_clear(c);
    free(c);
}

sac_status sac_controls_copy(sac_controls *to, const sac_controls *from, sac_error *err) {
    int32_t *pool = NULL;
    size_t n_bytes = (size_t)from->n_pool * sizeof *pool;
    if (n_bytes) {
        pool = malloc(n_bytes);
        if (!pool) return sac_fail(err, SAC_NO_MEMORY, "no memory for settings of generation");
        memcpy(pool, from->pool, n_bytes);
    }
    *to = *from;
    to->pool = pool;
    return SAC_OK;
}

sac_status sac_controls_copy_of(sac_controls **out, const sac_controls *from, sac_error *err) {
    SAC_TRY(sac_controls_create(out, err));
    if (!from) return SAC_OK;
    sac_status st = sac_controls_copy(*out, from, err);
    if (st == SAC_OK) return SAC_OK;
    sac_controls_free(*out);
    *out = NULL;
    return st;
}

/* ---------------------------------------------------------------- lists */

static sac_status put(sac_controls *c, int32_t value, sac_error *err) {
    if (c->n_pool >= SAC_MAX_CONTROL_IDS)
        return sac_fail(err, SAC_BAD_ARGUMENT, "more than %d ids in settings of generation",
                        SAC_MAX_CONTROL_IDS);
    if ((c->n_pool & (c->n_pool - 1)) == 0) { /* full at powers of two */
        size_t room = c->n_pool ? 2 * (size_t)c->n_pool : 1;
        int32_t *pool = realloc(c->pool, room * sizeof *pool);
        if (!pool) return sac_fail(err, SAC_NO_MEMORY, "no memory for settings of generation");
        c->pool = pool;
    }
    c->pool[c->n_pool++] = value;
    return SAC_OK;
}

static sac_status put_id(sac_controls *c, const json_t *v, sac_error *err) {
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= INT32_MAX)
        return sac_fail(err, SAC_BAD_ARGUMENT, "must hold token ids");
    return put(c, (int32_t)json_integer_value(v), err);
}

static sac_status put_ids(sac_controls *c, const json_t *v, sac_error *err) {
    if (!json_is_array(v)) return put_id(c, v, err);
    for (size_t i = 0; i < json_array_size(v); i++) SAC_TRY(put_id(c, json_array_get(v, i), err));
    return SAC_OK;
}

static sac_status put_sequence(sac_controls *c, const json_t *ids, float bias, sac_error *err) {
    int32_t bits;
    memcpy(&bits, &bias, sizeof bits);
    if (!json_is_array(ids) || json_array_size(ids) == 0 || json_array_size(ids) > SAC_MAX_CONTROL_IDS)
        return sac_fail(err, SAC_BAD_ARGUMENT, "must hold lists of token ids, none empty");
    SAC_TRY(put(c, (int32_t)json_array_size(ids), err));
    SAC_TRY(put(c, bits, err));
    return put_ids(c, ids, err);
}

static sac_status put_sequences(sac_controls *c, const json_t *v, bool biased, sac_error *err) {
    if (!json_is_array(v) || json_array_size(v) == 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "must be a list that is not empty");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *item = json_array_get(v, i), *bias = json_array_get(item, 1);
        if (biased && (json_array_size(item) != 2 || !json_is_number(bias)))
            return sac_fail(err, SAC_BAD_ARGUMENT, "must hold pairs of a list of token ids and a number");
        float b = biased ? (float)json_number_value(bias) : -INFINITY;
        SAC_TRY(put_sequence(c, biased ? json_array_get(item, 0) : item, b, err));
    }
    return SAC_OK;
}

static sac_status put_logit(sac_controls *c, int64_t id, const json_t *bias, sac_error *err) {
    float b = (float)json_number_value(bias);
    int32_t bits;
    if (id < 0 || id >= INT32_MAX || !json_is_number(bias) || !(fabsf(b) <= 1000))
        return sac_fail(err, SAC_BAD_ARGUMENT, "must map token ids to numbers from -1000 to 1000");
    memcpy(&bits, &b, sizeof bits);
    SAC_TRY(put(c, 1, err));
    SAC_TRY(put(c, bits, err));
    return put(c, (int32_t)id, err);
}

/* As OpenAI writes it, or llama.cpp. */
static sac_status put_logits(sac_controls *c, const json_t *v, sac_error *err) {
    const char *key;
    json_t *bias;
    if (!json_is_object(v) && !json_is_array(v))
        return sac_fail(err, SAC_BAD_ARGUMENT, "must map token ids to numbers from -1000 to 1000");
    json_object_foreach((json_t *)(uintptr_t)v, key, bias) {
        char *end;
        long long id = strtoll(key, &end, 10);
        SAC_TRY(put_logit(c, *key && !*end ? id : -1, bias, err));
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *pair = json_array_get(v, i), *id = json_array_get(pair, 0);
        bool whole = json_array_size(pair) == 2 && json_is_integer(id);
        SAC_TRY(put_logit(c, whole ? json_integer_value(id) : -1, json_array_get(pair, 1), err));
    }
    return SAC_OK;
}

static sac_status put_text(sac_controls *c, const json_t *v, sac_error *err) {
    size_t n = json_string_length(v);
    const char *text = json_string_value(v);
    if (n == 0 || n > SAC_MAX_STOP_STRING)
        return sac_fail(err, SAC_BAD_ARGUMENT, "must be a text or a list of texts, of 1 to %d bytes each",
                        SAC_MAX_STOP_STRING);
    SAC_TRY(put(c, (int32_t)n, err));
    for (size_t at = 0; at < n; at += sizeof(int32_t)) {
        int32_t word = 0;
        memcpy(&word, text + at, n - at < sizeof word ? n - at : sizeof word);
        SAC_TRY(put(c, word, err));
    }
    return SAC_OK;
}

static sac_status put_texts(sac_controls *c, const json_t *v, sac_error *err) {
    if (!json_is_array(v)) return put_text(c, v, err);
    for (size_t i = 0; i < json_array_size(v); i++) SAC_TRY(put_text(c, json_array_get(v, i), err));
    return SAC_OK;
}

const char *sac_controls_text(const sac_controls *c, int32_t at, size_t *n_bytes, int32_t *next) {
    *n_bytes = (size_t)c->pool[at];
    *next = at + 1 + (c->pool[at] + (int32_t)sizeof(int32_t) - 1) / (int32_t)sizeof(int32_t);
    return (const char *)&c->pool[at + 1];
}

/* ---------------------------------------------------------------- a value */

static sac_status check_number(const control *row, const json_t *v, bool whole, sac_error *err) {
    double x = json_number_value(v);
    if ((whole ? json_is_integer(v) : json_is_number(v)) && x >= row->min && x <= row->max) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "must be %s from %g to %g", whole ? "an integer" : "a number",
                    row->min, row->max);
}

static sac_status set_decay(sac_controls *c, const json_t *v, sac_error *err) {
    const json_t *start = json_array_get(v, 0), *factor = json_array_get(v, 1);
    double f = json_number_value(factor);
    if (json_array_size(v) != 2 || !json_is_integer(start) || json_integer_value(start) < 0 ||
        json_integer_value(start) > INT32_MAX || !(f > 0 && f <= 1000))
        return sac_fail(err, SAC_BAD_ARGUMENT, "must be [start, factor], factor above 0, up to 1000");
    c->decay_start = json_integer_value(start);
    c->decay_factor = f;
    return SAC_OK;
}

static sac_status set(sac_controls *c, const control *row, const json_t *v, sac_error *err) {
    char *field = (char *)c + row->offset;
    int32_t from = c->n_pool;
    bool off = !v || json_is_null(v);
    switch (row->kind) {
    case CONTROL_INT:
        if (!off) SAC_TRY(check_number(row, v, true, err));
        *(int64_t *)(void *)field = off ? 0 : json_integer_value(v);
        return SAC_OK;
    case CONTROL_REAL:
        if (!off) SAC_TRY(check_number(row, v, false, err));
        *(double *)(void *)field = off ? 0 : json_number_value(v);
        return SAC_OK;
    case CONTROL_FLAG:
        if (!off && !json_is_boolean(v)) return sac_fail(err, SAC_BAD_ARGUMENT, "must be true or false");
        *(bool *)(void *)field = !off && json_is_true(v);
        return SAC_OK;
    case CONTROL_DECAY:
        if (!off) return set_decay(c, v, err);
        c->decay_factor = 0;
        return SAC_OK;
    case CONTROL_SCALE:
        if (!off) SAC_TRY(check_number(row, v, false, err));
        c->guidance_scale = off ? 1 : json_number_value(v);
        c->has_guidance = !off;
        return SAC_OK;
    case CONTROL_LOGITS:
        if (!off) SAC_TRY(put_logits(c, v, err));
        break;
    case CONTROL_TEXTS:
        if (!off) SAC_TRY(put_texts(c, v, err));
        break;
    case CONTROL_IDS:
        if (!off) SAC_TRY(put_ids(c, v, err));
        break;
    case CONTROL_SEQUENCES:
    case CONTROL_BIASES:
        if (!off) SAC_TRY(put_sequences(c, v, row->kind == CONTROL_BIASES, err));
        break;
    }
    *(sac_id_span *)(void *)field = (sac_id_span){from, c->n_pool - from};
    return SAC_OK;
}

sac_status sac_controls_set_value(sac_controls *c, const char *name, const json_t *value, sac_error *err) {
    const control *row = find(name);
    if (!row)
        return sac_fail(err, SAC_BAD_ARGUMENT, "\"%.80s\" is no setting of generation that is known here",
                        name);
    sac_status st = set(c, row, value, err);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "\"%s\"", name);
}

sac_status sac_controls_set(sac_controls *c, const char *name, const char *json, sac_error *err) {
    json_t *v = json_loads(json, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (!v) return sac_fail(err, SAC_BAD_ARGUMENT, "\"%.80s\": give its value as JSON writes it", name);
    sac_status st = sac_controls_set_value(c, name, v, err);
    json_decref(v);
    return st;
}

/* ---------------------------------------------------------------- ids */

static sac_status check_ids(const char *name, const int32_t *ids, int32_t n, int vocab, sac_error *err) {
    for (int32_t i = 0; i < n; i++)
        if (ids[i] >= vocab)
            return sac_fail(err, SAC_BAD_ARGUMENT, "\"%s\": token %d is not in the vocabulary of %d", name,
                            ids[i], vocab);
    return SAC_OK;
}

sac_status sac_controls_check(const sac_controls *c, int vocab, sac_error *err) {
    for (size_t i = 0; i < SAC_COUNT(controls); i++) {
        const control *row = &controls[i];
        if (row->kind < CONTROL_IDS || row->kind > CONTROL_LOGITS) continue;
        sac_id_span span = *(const sac_id_span *)(const void *)((const char *)c + row->offset);
        const int32_t *at = c->pool + span.at, *end = at + span.n;
        /* transformers masks with isin: what is not in the vocabulary suppresses nothing */
        if (row->offset == AT(suppress_tokens) || row->offset == AT(begin_suppress_tokens)) continue;
        if (row->kind == CONTROL_IDS)
            SAC_TRY(check_ids(row->name, at, span.n, vocab, err));
        else
            for (; at < end; at += 2 + at[0]) SAC_TRY(check_ids(row->name, at + 2, at[0], vocab, err));
    }
    return SAC_OK;
}

sac_status sac_controls_check_ids(const sac_controls *c, int n_vocab, sac_error *err) {
    return sac_controls_check(c, n_vocab, err);
}
