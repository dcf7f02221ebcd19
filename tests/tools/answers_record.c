#define _GNU_SOURCE
#include "answers_record.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define HASH_PRIME 0x100000001b3u

uint64_t answer_hash(uint64_t seed, const void *data, size_t n_bytes) {
    const uint8_t *bytes = data;
    uint64_t h = seed ^ 0xcbf29ce484222325u;
    size_t i = 0;
    for (uint32_t word; i + sizeof word <= n_bytes; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        h = (h ^ word) * HASH_PRIME;
        h ^= h >> 29;
    }
    for (; i < n_bytes; i++) h = (h ^ bytes[i]) * HASH_PRIME;
    return h ^ h >> 32;
}

void answer_open(answer *a, const char *format, ...) {
    va_list args;
    memset(a, 0, sizeof *a);
    va_start(args, format);
    vsnprintf(a->name, sizeof a->name, format, args);
    va_end(args);
}

void answer_hear(answer *a, const sac_session *s, int vocab) {
    const float *logits = sac_session_logits(s);
    if (a->status != SAC_OK || a->n_steps == ANSWER_STEPS) return;
    a->step[a->n_steps++] = logits ? answer_hash(0, logits, (size_t)vocab * sizeof *logits) : 0;
}

void answer_token(answer *a, int32_t token) {
    if (a->n_tokens < ANSWER_STEPS) a->token[a->n_tokens++] = token;
}

static void append(char *text, const char *format, va_list args) {
    size_t n = strlen(text);
    if (n && n + 1 < ANSWER_TEXT) text[n++] = ' ';
    vsnprintf(text + n, ANSWER_TEXT - n, format, args);
    for (char *c = text + n; *c; c++)
        if (*c == '\n' || *c == '\t') *c = ' ';
}

void answer_fact(answer *a, const char *format, ...) {
    va_list args;
    va_start(args, format);
    append(a->facts, format, args);
    va_end(args);
}

static void add_other(answer *a, const char *format, ...) {
    va_list args;
    va_start(args, format);
    append(a->other, format, args);
    va_end(args);
}

void answer_other(answer *a, const char *name, uint64_t hash) {
    add_other(a, "%s=%016" PRIx64, name, hash);
}

void answer_fail(answer *a, sac_status st, const sac_error *err) {
    if (st == SAC_OK || a->status != SAC_OK) return;
    a->status = st;
    add_other(a, "failed=%s", sac_status_name(st));
    answer_fact(a, "error=\"%s\"", err->text);
}

/* Shares and counts of a layer, without its seconds. */
static uint64_t hash_layer(uint64_t seed, const sac_layer_report *r) {
    double figures[] = {r->prefill_kept, r->prefill_work,       r->decode_read,
                        r->decode_rows,  r->decode_budget,      r->prefill_mass,
                        r->decode_mass,  (double)r->selections, (double)r->selection_cache_hits};
    return answer_hash(seed, figures, sizeof figures);
}

void answer_statistics(answer *a, const sac_session *s) {
    sac_layer_report r;
    sac_session_method_lines lines;
    double work = 0, read = 0;
    uint64_t hash = 0;
    int n = 0;
    for (; sac_session_layer_stats(s, n, &r); n++) {
        work += r.prefill_work, read += r.decode_read;
        hash = hash_layer(hash, &r);
    }
    sac_session_methods(s, &lines);
    answer_fact(a, "work=%.4g read=%.4g layers=%016" PRIx64 " kv_bytes=%zu n_tokens=%lld", work / n, read / n,
                hash, sac_session_kv_bytes(s), (long long)sac_session_n_tokens(s));
    answer_fact(a, "runs=%s;%s;%s;%s;%s", lines.prefill, lines.decode, lines.kv, lines.rope, lines.reduce);
}

void answer_result(answer *a, const sac_result *r) {
    answer_other(a, "text", answer_hash(0, r->text, r->n_text_bytes));
    answer_fact(a, "finish=%s prompt=%lld visual=%lld reused=%lld short=%d", r->finish_reason,
                (long long)r->n_prompt_tokens, (long long)r->n_visual_tokens, (long long)r->n_reused_tokens,
                r->prefill_is_short);
}

uint64_t answer_sum(const answer *a) {
    return answer_hash(answer_hash((uint64_t)a->status, a->step, a->n_steps * sizeof *a->step), a->token,
                       a->n_tokens * sizeof *a->token);
}

void answer_print(const answer *a) {
    printf("%s\t", a->name);
    for (size_t i = 0; i < a->n_steps; i++) printf("%s%016" PRIx64, i ? "," : "", a->step[i]);
    printf("\t");
    for (size_t i = 0; i < a->n_tokens; i++) printf("%s%d", i ? "," : "", a->token[i]);
    printf("\t%s\t%s\n", a->other, a->facts);
    fflush(stdout);
}
