#define _GNU_SOURCE
#include "beginnings.h"
#include "dialect.h"
#include "draft_head.h"
#include "draft_model.h"
#include "guide.h"
#include "pages.h"
#include "parked.h"
#include "prompt_chat.h"
#include "vision_memory.h"
#include "work.h"
#include "workspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_DEFAULT_CTX 32768
#define DEFAULT_CHUNK   256
#define DEVICE_CHUNK    16384 /* rows that fill a card: the last wave of a product's tiles counts */

void sac_session_config_default(sac_session_config *c) {
    *c = (sac_session_config){.prefill = "dense", .decode = "dense"};
}

/* ---------------------------------------------------------------- the plan */

/* A head runs on the host. */
static sac_status check_draft(const sac_model *m, const sac_draft *draft, sac_error *err) {
    const sac_draft_method *d = draft->method;
    if (!d || !sac_model_on_device(m) || d->from != SAC_DRAFT_OF_HEAD) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "draft %s on %s: it drafts on the CPU only so far; use lookup, sparse or model there",
                    d->name, m->device.name);
}

/* The configuration with every default filled in. */
static sac_status resolve(const sac_model *m, const sac_session_config *c, bool in_pages, sac_draft *draft,
                          sac_decoder_options *out, sac_error *err) {
    const sac_decoder_config *d = &m->loaded.decoder.config;
    SAC_TRY(sac_draft_parse(draft, c->draft, err));
    SAC_TRY(check_draft(m, draft, err));
    int64_t default_ctx = d->max_position < MAX_DEFAULT_CTX ? d->max_position : MAX_DEFAULT_CTX;
    *out = (sac_decoder_options){.n_ctx = c->n_ctx ? c->n_ctx : default_ctx,
                                 .chunk = c->prefill_chunk         ? c->prefill_chunk
                                          : sac_model_on_device(m) ? DEVICE_CHUNK
                                                                   : DEFAULT_CHUNK,
                                 .prefill = c->prefill,
                                 .decode = c->decode,
                                 .kv = c->kv,
                                 .rope = c->rope,
                                 .fast = m->fast,
                                 .measure_mass = c->measure_mass,
                                 .own_numbers = m->loaded.positions != sac_positions_plain,
                                 .n_ahead = draft->most,
                                 .drafting = draft->method && draft->method->from == SAC_DRAFT_OF_SPARSE ? draft->rest : NULL,
                                 .device = &m->device,
                                 .pages = in_pages ? sac_workspaces_pages(m) : NULL,
                                 .activations = m->activations};
    if (out->n_ctx < 1 || out->n_ctx > INT32_MAX / 2)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a context of %lld tokens: give 1 to %d",
                        (long long)out->n_ctx, INT32_MAX / 2);
    if (out->chunk < 1 || out->chunk > 65536)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a prefill chunk of %lld tokens: give 1 to 65536",
                        (long long)out->chunk);
    if (out->chunk > out->n_ctx) out->chunk = out->n_ctx;
    return SAC_OK;
}

/* The reducer, where this model's pictures can be reduced: by the attention of a class token to tokens that
 * reach the language model one by one. Those of videos look at rows that reach it, which any model has. */
static sac_status resolve_reduce(const sac_model *m, const char *line, sac_reduce *r, sac_error *err) {
    const sac_processor_config *p = &m->loaded.processor;
    const sac_tower_config *v = &m->loaded.tower.config;
    SAC_TRY(sac_reduce_parse(r, line ? line : "none", err));
    if (!r->is_on) return SAC_OK;
    if (!m->loaded.has_vision)
        return sac_fail(err, SAC_UNSUPPORTED, "reducer \"%s\": this model reads text only", line);
    if (!sac_reduce_sees_pictures(r)) return SAC_OK;
    bool one_by_one = !p->dialect->pools && !v->keep_class && v->kind->has_class &&
                      sac_merger_joins(&m->loaded.merger) == 1;
    if (one_by_one && (v->n_feature_layers > 1 || v->feature_layer[0] > 0)) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "reducer \"%s\": the visual tokens of this model's pictures are pooled or merged, or its "
                    "tower keeps the class token or has none",
                    line);
}

static size_t text_capacity(int64_t n_ctx) {
    return (size_t)n_ctx * 64 + 4096;
}

static size_t sequence_bytes(int64_t n_ctx) {
    return 3 * sac_arena_block_bytes((size_t)n_ctx * sizeof(int32_t)) +
           sac_arena_block_bytes((size_t)n_ctx * sizeof(sac_identity)) +
           sac_arena_block_bytes((size_t)n_ctx * sizeof(sac_visual_span)) +
           sac_arena_block_bytes(SAC_POSITION_AXES * (size_t)n_ctx * sizeof(int32_t)) +
           sac_arena_block_bytes(text_capacity(n_ctx)) + sac_arena_block_bytes(sizeof(sac_work));
}

static void add_part(sac_memory_report *r, const char *tag, size_t n_bytes) {
    if (n_bytes == 0) return;
    r->parts[r->n_parts++] = (sac_memory_part){tag, n_bytes, false};
    r->total_bytes += n_bytes;
}

static void add_shared(sac_memory_report *r, const char *tag, size_t n_bytes) {
    if (n_bytes == 0) return;
    r->parts[r->n_parts++] = (sac_memory_part){tag, n_bytes, true};
    r->workspace_bytes += n_bytes;
}

/* On a device the decoder's memory is not of the process; what it keeps on the host is one part. */
static void add_decoder(sac_memory_report *r, const sac_decoder_state *s, const sac_decoder *d, const sac_decoder_plan *p,
                        const sac_decoder_plan *host) {
    const struct {
        const char *tag;
        size_t n_bytes, on_host;
    } parts[] = {
        {"kv cache", p->kv_bytes, host->kv_bytes},
        {"states of linear attention", p->state_bytes, host->state_bytes},
        {"attention methods", p->method_bytes, host->method_bytes},
        {"rotary table", p->rope_bytes, host->rope_bytes},
        {"logits", p->logits_bytes, host->logits_bytes},
    };
    size_t on_host = 0, on_device = 0;
    for (size_t i = 0; i < SAC_COUNT(parts); i++) {
        if (!s->device) add_part(r, parts[i].tag, parts[i].n_bytes);
        on_host += parts[i].on_host;
        on_device += parts[i].n_bytes;
    }
    if (!s->device) return;
    add_part(r, "decoder, on the host", on_host);
    add_part(r, "logits, pinned", sac_decoder_pinned_bytes(s, d));
    r->device_bytes = on_device;
}

/* What the session borrows: a workspace that is made for it alone has so much. */
static void add_workspace(sac_memory_report *r, const sac_model *m, const sac_decoder_state *s,
                          const sac_reduce *reduce) {
    sac_workspace_need need = sac_session_need(m, s, reduce, SAC_FOR_PROMPT);
    sac_decoder_loan loan = sac_decoder_loan_plan(s, sac_model_decoder(m), SAC_FOR_PROMPT);
    if (s->device) loan = (sac_decoder_loan){0}; /* not of the process */
    add_shared(r, "staging of a layer", loan.staging_bytes);
    add_shared(r, "hidden states and queries", loan.hidden_bytes);
    add_shared(r, "activations of a chunk", loan.activation_bytes);
    add_shared(r, "vision", sac_workspace_vision_bytes(m, &need));
    add_shared(r, "op scratch", sac_stream_bytes(sac_pool_n_threads(m->pool), need.scratch_bytes - need.spare_bytes));
    r->workspace_device_bytes = sac_workspace_device_bytes(m, &need);
    r->device_vision_bytes = sac_workspace_device_vision_bytes(m, &need);
}

/* A picture's layout is asked for between calls, too (sac_session_places). */
static size_t layout_bytes(const sac_model *m) {
    return m->loaded.has_vision ? sac_vision_measure(m).layout : 0;
}

/* Where they are read: on a device as they lie there, otherwise the files and what is copied out of them. */
static size_t weight_bytes(const sac_model *m) {
    if (!sac_model_on_device(m)) return m->loaded.weight_bytes + m->loaded.arena.capacity_bytes;
    return m->device_decoder.n_bytes + (m->device_tower.block ? m->device_tower.n_bytes : 0);
}

static void plan(const sac_model *m, sac_decoder_state *decoder, const sac_reduce *reduce,
                 sac_memory_report *r) {
    const sac_decoder_config *d = &m->loaded.decoder.config;
    int64_t n_ctx = decoder->n_ctx;
    sac_decoder_plan p, host;
    sac_decoder_state_plan(decoder, sac_model_decoder(m), &p, &host);
    *r = (sac_memory_report){.n_ctx = n_ctx, .weight_bytes = weight_bytes(m)};
    const sac_kv_cache *c = &decoder->cache;
    const bool plain_pages = c->pool && !sac_kv_cache_is_packed(c);
    r->kv_bytes_per_token = (plain_pages ? c->layer_bytes * (size_t)c->shape->n_layers : p.kv_bytes + sac_kv_cache_paged_bytes(c, n_ctx)) / (size_t)n_ctx;
    add_decoder(r, decoder, sac_model_decoder(m), &p, &host);
    if (sac_model_on_device(m)) r->device_cache_bytes = m->vision_cache->capacity_bytes;
    add_part(r, "sampler", sac_sampler_bytes(d->vocab));
    if (m->loaded.has_vision) add_part(r, "picture layout", sac_arena_block_bytes(layout_bytes(m)));
    add_part(r, "tokens and text", sequence_bytes(n_ctx));
    add_workspace(r, m, decoder, reduce);
}

static bool drafts_by_model(const sac_draft *d) {
    return d->method && d->method->from == SAC_DRAFT_OF_MODEL;
}

static sac_status plan_one(const sac_model *m, const sac_session_config *config, bool in_pages, sac_memory_report *report,
                           sac_error *err);

/* Of the sequence in which another model drafts. */
static sac_status plan_drafter(const sac_model *m, const sac_draft *draft, sac_memory_report *report, sac_error *err) {
    sac_model *other;
    sac_memory_report its;
    SAC_TRY(sac_draft_model_find(&other, m, draft, err));
    const sac_session_config c = sac_draft_model_config(other, report->n_ctx);
    const sac_status st = plan_one(other, &c, false, &its, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "draft model");
    sac_draft_model_add_memory(report, &its);
    return SAC_OK;
}

/* Of one sequence, and of one that drafts for it. */
static sac_status plan_one(const sac_model *m, const sac_session_config *config, bool in_pages, sac_memory_report *report,
                           sac_error *err) {
    sac_decoder_options o;
    sac_decoder_state decoder;
    sac_reduce reduce;
    sac_draft draft;
    SAC_TRY(resolve(m, config, in_pages, &draft, &o, err));
    SAC_TRY(resolve_reduce(m, config->reduce, &reduce, err));
    SAC_TRY(sac_decoder_state_open(&decoder, sac_model_decoder(m), &o, err));
    plan(m, &decoder, &reduce, report);
    const sac_status st = sac_draft_head_plan(m, &draft, &decoder, report, err);
    sac_decoder_state_free(&decoder);
    SAC_TRY(st);
    return drafts_by_model(&draft) ? plan_drafter(m, &draft, report, err) : SAC_OK;
}

sac_status sac_session_plan(const sac_model *m, const sac_session_config *config, sac_memory_report *report,
                            sac_error *err) {
    sac_session_config defaults;
    sac_session_config_default(&defaults);
    if (!config) config = &defaults;
    SAC_TRY(plan_one(m, config, true, report, err));
    if (!sac_guide_wanted(m, config)) return SAC_OK;
    sac_memory_report second;
    sac_session_config guide = sac_guide_config(config);
    SAC_TRY(plan_one(m, &guide, false, &second, err));
    sac_guide_add_memory(report, &second);
    return SAC_OK;
}

/* ---------------------------------------------------------------- create and free */

static sac_status take_sequence(sac_session *s, int64_t n_ctx, sac_error *err) {
    s->ids = sac_arena_take(&s->arena, (size_t)n_ctx * sizeof *s->ids);
    s->prompt = sac_arena_take(&s->arena, (size_t)n_ctx * sizeof *s->prompt);
    s->answer = sac_arena_take(&s->arena, (size_t)n_ctx * sizeof *s->answer);
    s->identity = sac_arena_take(&s->arena, (size_t)n_ctx * sizeof *s->identity);
    s->visual = sac_arena_take(&s->arena, (size_t)n_ctx * sizeof *s->visual);
    s->positions = sac_arena_take(&s->arena, SAC_POSITION_AXES * (size_t)n_ctx * sizeof *s->positions);
    s->text_capacity = text_capacity(n_ctx);
    s->text = sac_arena_take(&s->arena, s->text_capacity);
    s->work = sac_arena_take(&s->arena, sizeof *s->work);
    if (!s->ids || !s->work || !s->prompt || !s->answer || !s->identity || !s->visual || !s->positions ||
        !s->text)
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for the sequence");
    return SAC_OK;
}

/* The arena is mapped lazily, so a plan beyond all memory would only be noticed by the kernel's killer, half
 * way. */
static sac_status check_memory(const sac_memory_report *r, sac_error *err) {
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    size_t machine = pages > 0 && page_bytes > 0 ? (size_t)pages * (size_t)page_bytes : SIZE_MAX;
    size_t wanted = r->total_bytes + r->workspace_bytes;
    if (wanted <= machine) return SAC_OK;
    return sac_fail(err, SAC_NO_MEMORY,
                    "a context of %lld tokens takes %.1f GiB, this machine has %.1f: give a smaller context",
                    (long long)r->n_ctx, (double)wanted / (1 << 30), (double)machine / (1 << 30));
}

static sac_status enter_workspaces(sac_session *s, sac_error *err) {
    sac_workspace_need need[SAC_N_USES];
    for (int use = 0; use < SAC_N_USES; use++)
        need[use] = sac_session_need(s->model, &s->decoder, &s->reduce, (sac_decoder_use)use);
    SAC_TRY(sac_workspaces_enter(s->model, need, s->memory.device_bytes, err));
    s->has_entered = true;
    return SAC_OK;
}

/* Attention may multiply rows that nobody has written yet by 0. */
static sac_status clear_device(sac_session *s, sac_error *err) {
    const sac_model *m = s->model;
    const sac_device *d = &m->device;
    sac_workspace *w;
    SAC_TRY(sac_workspace_borrow(m, &(sac_workspace_need){0}, SAC_FOR_STEP, &w, err));
    sac_status st = d->use(d);
    if (st == SAC_OK) st = d->zero(&w->device_stream, s->device_block.memory, s->memory.device_bytes);
    sac_workspace_give_back(m, w);
    return st == SAC_OK ? st : sac_fail(err, SAC_DEVICE, "%s: clearing a session's memory failed", d->name);
}

/* The decoder's memory; on a device a block of its own. */
static sac_status take_decoder(sac_session *s, sac_error *err) {
    const sac_model *m = s->model;
    if (!sac_model_on_device(m))
        return sac_decoder_state_take(&s->decoder, sac_model_decoder(m), &s->arena, &s->arena, err);
    SAC_TRY(sac_session_block_take(m, s->memory.device_bytes, &s->device_block, err));
    SAC_TRY(clear_device(s, err));
    s->device_arena = sac_arena_over(s->device_block.memory, s->memory.device_bytes);
    return sac_decoder_state_take(&s->decoder, sac_model_decoder(m), &s->device_arena, &s->arena, err);
}

static sac_status take_layout(sac_session *s, sac_error *err) {
    s->vision = sac_vision_limits(s->model);
    if (!s->model->loaded.has_vision) return SAC_OK;
    s->vision.layout = sac_arena_take(&s->arena, layout_bytes(s->model));
    return s->vision.layout
               ? SAC_OK
               : sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for a picture's layout");
}

static sac_status create_one(sac_session **out, const sac_model *m, const sac_session_config *config, bool in_pages,
                             sac_error *err);

static sac_status create_drafter(sac_session *s, sac_error *err) {
    sac_model *other;
    SAC_TRY(sac_draft_model_find(&other, s->model, &s->ahead.draft, err));
    const sac_session_config c = sac_draft_model_config(other, s->memory.n_ctx);
    const sac_status st = create_one(&s->ahead.drafter, other, &c, false, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "draft model");
    sac_draft_model_add_memory(&s->memory, &s->ahead.drafter->memory);
    return SAC_OK;
}

static sac_status create_one(sac_session **out, const sac_model *m, const sac_session_config *config, bool in_pages,
                             sac_error *err) {
    sac_decoder_options o;
    sac_draft draft;
    SAC_TRY(resolve(m, config, in_pages, &draft, &o, err));
    sac_session *s = calloc(1, sizeof *s);
    if (!s) return sac_fail(err, SAC_NO_MEMORY, "no memory for a session");
    s->model = m;
    atomic_init(&s->cancel, false);
    sac_status st;
    SAC_TRY_GOTO(st, resolve_reduce(m, config->reduce, &s->reduce, err), fail);
    s->ahead.draft = draft;
    SAC_TRY_GOTO(st, sac_decoder_state_open(&s->decoder, sac_model_decoder(m), &o, err), fail);
    plan(m, &s->decoder, &s->reduce, &s->memory);
    SAC_TRY_GOTO(st, sac_draft_head_plan(m, &draft, &s->decoder, &s->memory, err), fail);
    SAC_TRY_GOTO(st, check_memory(&s->memory, err), fail);
    const size_t pinned = sac_decoder_pinned_bytes(&s->decoder, sac_model_decoder(m));
    SAC_TRY_GOTO(st, sac_session_check_pages(s, err), fail);
    SAC_TRY_GOTO(st, sac_arena_open(&s->arena, s->memory.total_bytes - pinned, err), fail);
    SAC_TRY_GOTO(st, enter_workspaces(s, err), fail);
    SAC_TRY_GOTO(st, take_decoder(s, err), fail);
    SAC_TRY_GOTO(st, sac_draft_head_take(s, err), fail);
    SAC_TRY_GOTO(st, sac_sampler_init(&s->sampler, m->loaded.decoder.config.vocab, &s->arena, err), fail);
    SAC_TRY_GOTO(st, sac_detokenizer_open(&s->detokenizer, m->loaded.tokenizer, true, err), fail);
    SAC_TRY_GOTO(st, take_layout(s, err), fail);
    SAC_TRY_GOTO(st, take_sequence(s, o.n_ctx, err), fail);
    s->decoder.adapter = s->held_adapter = m->loaded.own_adapter;
    *s->work = (sac_work){0};
    sac_reply_drop(s);
    if (drafts_by_model(&draft)) SAC_TRY_GOTO(st, create_drafter(s, err), fail);
    *out = s;
    return SAC_OK;
fail:
    sac_session_free(s);
    return st;
}

sac_status sac_session_create(sac_session **out, const sac_model *m, const sac_session_config *config,
                              sac_error *err) {
    sac_session_config defaults;
    sac_session_config_default(&defaults);
    if (!config) config = &defaults;
    *out = NULL;
    if (!sac_guide_wanted(m, config)) return create_one(out, m, config, true, err);
    sac_memory_report both;
    SAC_TRY(sac_session_plan(m, config, &both, err));
    SAC_TRY(check_memory(&both, err));
    sac_session *s;
    sac_session_config guide = sac_guide_config(config);
    SAC_TRY(create_one(&s, m, config, true, err));
    sac_status st = create_one(&s->guide, m, &guide, false, err);
    if (st != SAC_OK) {
        sac_session_free(s);
        return st;
    }
    sac_guide_add_memory(&s->memory, &s->guide->memory);
    *out = s;
    return SAC_OK;
}

void sac_session_free(sac_session *s) {
    if (!s) return;
    sac_beginnings_leave(s);
    if (s->work) sac_work_drop(s->work); /* waits for what is on its way */
    sac_session_give_back(s);
    sac_session_free(s->guide);
    sac_session_free(s->ahead.drafter);
    free(s->reply.owned);
    sac_chat_settings_clear(&s->chat);
    sac_media_release(s);
    sac_detokenizer_free(s->detokenizer);
    sac_session_drop_parked(s);
    sac_decoder_state_free(&s->decoder);
    sac_session_block_give_back(s->model, &s->device_block);
    if (s->has_entered) sac_workspaces_leave(s->model);
    sac_arena_free(&s->arena);
    free(s);
}

void sac_session_memory(const sac_session *s, sac_memory_report *report) {
    *report = s->memory;
}

/* ---------------------------------------------------------------- state */

sac_status sac_session_set_adapter(sac_session *s, const char *name, sac_error *err) {
    int number;
    if (s->reply.busy || s->reply.running)
        return sac_fail(err, SAC_BAD_ARGUMENT, "this session is answering: end that first");
    SAC_TRY(sac_loaded_model_find_adapter(&s->model->loaded, name, &number, err));
    s->decoder.adapter = number;
    if (s->guide) s->guide->decoder.adapter = number;
    return SAC_OK;
}

void sac_session_cancel(sac_session *s) {
    atomic_store(&s->cancel, true);
    if (s->ahead.drafter) atomic_store(&s->ahead.drafter->cancel, true);
}

void sac_session_reset(sac_session *s) {
    if (s->work->inside) return;
    sac_work_drop(s->work);
    sac_reply_drop(s);
    sac_media_release(s);
    sac_beginnings_withdraw(s);
    sac_decoder_rewind(&s->decoder, 0);
    sac_session_give_pages(s);
    s->n_prompted = s->n_exact = 0;
    s->begins_few = false;
    s->has_logits = false;
}
