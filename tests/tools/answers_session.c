#define _GNU_SOURCE
#include "answers_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool is_demo(const probe *p) {
    return strncmp(p->model_name, "demo", 4) == 0;
}

const prompt *ask_about(question *q, const char *path, int n_frames, const char *text) {
    size_t n = 0;
    memset(q, 0, sizeof *q);
    if (path) q->parts[n++] = (sac_part){.kind = n_frames ? SAC_PART_VIDEO : SAC_PART_IMAGE, .path = path};
    if (path) q->parts[0].video.num_frames = n_frames;
    q->parts[n++] = (sac_part){.kind = SAC_PART_TEXT, .text = text};
    q->message = (sac_message){"user", q->parts, n, NULL};
    q->prompt = (prompt){.messages = &q->message, .n_messages = 1};
    return &q->prompt;
}

void draw_ids(int32_t *ids, int64_t n, int seed) {
    uint32_t x = 2463534242u + 7919u * (uint32_t)seed;
    for (int64_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        ids[i] = 5 + (int32_t)((x >> 12) % 250);
    }
}

bool is_wanted(const probe *p, const answer *a) {
    if (p->has_only && regexec(&p->only, a->name, 0, NULL, 0) != 0) return false;
    if (p->is_list) puts(a->name);
    return !p->is_list;
}

const char *setting_text(const setting *m, char *text, size_t n_bytes) {
    const char *const parts[][2] = {{"prefill", m->prefill},
                                    {"decode", m->decode},
                                    {"kv", m->kv},
                                    {"reduce", m->reduce},
                                    {"rope", m->rope}};
    size_t n = 0;
    snprintf(text, n_bytes, "dense");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i][1] && n < n_bytes)
            n += (size_t)snprintf(text + n, n_bytes - n, "%s%s=%s", n ? " " : "", parts[i][0], parts[i][1]);
    return text;
}

sac_status session_open(sac_session **s, const probe *p, const setting *m, int64_t n_ctx, int64_t chunk,
                        sac_error *err) {
    sac_session_config c;
    sac_session_config_default(&c);
    c.n_ctx = n_ctx;
    if (chunk) c.prefill_chunk = chunk;
    if (m->prefill) c.prefill = m->prefill;
    if (m->decode) c.decode = m->decode;
    if (m->kv) c.kv = m->kv;
    if (m->reduce) c.reduce = m->reduce;
    if (m->rope) c.rope = m->rope;
    *s = NULL;
    return sac_session_create(s, p->model, &c, err);
}

sac_sampling greedy(int n_tokens) {
    sac_sampling o;
    sac_sampling_default(&o);
    o.max_tokens = n_tokens;
    o.ignore_eos = true;
    return o;
}

static sac_status begin(sac_session *s, const prompt *q, const sac_sampling *o, const sac_events *events,
                        sac_error *err) {
    if (q->messages) return sac_session_begin(s, q->messages, q->n_messages, o, events, err);
    if (q->text) return sac_session_begin_text(s, q->text, strlen(q->text), o, events, err);
    int32_t *ids = malloc((size_t)q->n_ids * sizeof *ids);
    if (!ids) abort();
    draw_ids(ids, q->n_ids, q->seed);
    sac_status st = sac_session_begin_tokens(s, ids, (size_t)q->n_ids, o, events, err);
    free(ids);
    return st;
}

bool hear_prompt(const probe *p, answer *a, sac_session *s, const prompt *q, const sac_sampling *o,
                 const sac_events *events) {
    sac_error err = {0};
    answer_fail(a, begin(s, q, o, events, &err), &err);
    answer_hear(a, s, p->info.vocab);
    return a->status == SAC_OK;
}

void hear_steps(const probe *p, answer *a, sac_session *s, const sac_events *events) {
    sac_error err = {0};
    int32_t token = -1;
    for (bool done = false; !done && a->status == SAC_OK;) {
        answer_fail(a, sac_session_step(s, events, &token, &done, &err), &err);
        answer_token(a, token);
        answer_hear(a, s, p->info.vocab);
    }
}

void hear_answer(const probe *p, answer *a, sac_session *s, const prompt *q, const sac_sampling *o,
                 const sac_events *events) {
    sac_result r;
    if (!hear_prompt(p, a, s, q, o, events)) return;
    hear_steps(p, a, s, events);
    sac_session_end(s, &r);
    answer_result(a, &r);
}
