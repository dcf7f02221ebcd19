#include "prompt_chat.h"
#include "picture.h"

#include "json.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- settings */

void sac_chat_settings_clear(sac_chat_settings *c) {
    json_decref(c->tools);
    json_decref(c->documents);
    json_decref(c->variables);
    *c = (sac_chat_settings){0};
}

static sac_status read_json(json_t **out, const char *what, const char *text, bool is_array, sac_error *err) {
    if (!text) return SAC_OK;
    sac_status st = sac_json_parse(out, text, strlen(text), err);
    if (st != SAC_OK) return sac_fail_prefix(err, st == SAC_NO_MEMORY ? st : SAC_BAD_ARGUMENT, "%s", what);
    if (is_array ? json_is_array(*out) : json_is_object(*out)) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "%s must be a JSON %s", what, is_array ? "array" : "object");
}

/* A built-in format has places for messages and nothing else. */
static sac_status check_format(const sac_model *m, const sac_chat_options *o, sac_error *err) {
    const sac_chat_format *f = m->loaded.chat.format;
    const char *what = o->tools                    ? "tools"
                       : o->documents              ? "documents"
                       : o->variables              ? "chat template variables"
                       : o->continue_final_message ? "continue_final_message"
                                                   : NULL;
    if (!f || !what) return SAC_OK;
    return sac_fail(
        err, SAC_UNSUPPORTED,
        "%s: conversations are written in the built-in chat format %s, which has no place for them; give "
        "the model's template with --chat FILE",
        what, f->name);
}

sac_status sac_chat_settings_read(sac_chat_settings *c, const sac_model *m, const sac_chat_options *o,
                                  sac_error *err) {
    sac_chat_settings made = {0};
    sac_chat_options none = {0};
    if (!o) o = &none;
    sac_status st = check_format(m, o, err);
    if (st == SAC_OK && o->keep_video_marks && m->loaded.frame_layout != SAC_FRAMES_TIMED)
        st = sac_fail(err, SAC_UNSUPPORTED,
                      "keep_video_marks: this model does not read frames behind their times");
    if (st == SAC_OK) st = read_json(&made.tools, "tools", o->tools, true, err);
    if (st == SAC_OK) st = read_json(&made.documents, "documents", o->documents, true, err);
    if (st == SAC_OK) st = read_json(&made.variables, "chat template variables", o->variables, false, err);
    if (st == SAC_OK && o->continue_final_message && !o->no_generation_prompt)
        st = sac_fail(
            err, SAC_BAD_ARGUMENT,
            "continue_final_message needs add_generation_prompt to be false: a message is continued, or a "
            "new one begun");
    if (st != SAC_OK) {
        sac_chat_settings_clear(&made);
        return st;
    }
    made.no_generation_prompt = o->no_generation_prompt;
    made.continue_final_message = o->continue_final_message;
    made.parse_special = o->parse_special;
    made.keep_video_marks = o->keep_video_marks;
    sac_chat_settings_clear(c);
    *c = made;
    return SAC_OK;
}

/* ---------------------------------------------------------------- the conversation */

static size_t count_parts(const sac_message *messages, size_t n_messages) {
    size_t n = 0;
    for (size_t i = 0; i < n_messages; i++) n += messages[i].n_parts;
    return n;
}

static sac_status convert_part(const sac_part *p, size_t j, size_t i, const int64_t **n_blocks,
                               sac_chat_part *to, sac_error *err) {
    if (p->kind == SAC_PART_TEXT) {
        if (!p->text) return sac_fail(err, SAC_BAD_ARGUMENT, "part %zu of message %zu has no text", j, i);
        *to = (sac_chat_part){.text = p->text, .n_bytes = strlen(p->text)};
        return SAC_OK;
    }
    *to = (sac_chat_part){.n_placeholders = *n_blocks ? *(*n_blocks)++ : 1,
                          .is_video = sac_part_content(p) != SAC_PART_IMAGE};
    return SAC_OK;
}

static sac_status read_fields(const sac_model *m, const char *text, size_t i, const json_t **out,
                              sac_error *err) {
    json_t *fields = NULL;
    char what[60];
    snprintf(what, sizeof what, "fields of message %zu", i);
    sac_status st = read_json(&fields, what, text, false, err);
    *out = fields;
    if (st != SAC_OK || !m->loaded.chat.format || !json_is_array(json_object_get(fields, "tool_calls")))
        return st;
    return sac_fail(
        err, SAC_UNSUPPORTED,
        "message %zu: tool_calls have no place in the built-in chat format %s; give the model's template "
        "with --chat FILE",
        i, m->loaded.chat.format->name);
}

static sac_status convert(const sac_model *m, const sac_message *messages, size_t n_messages,
                          const int64_t *n_blocks, sac_prompt_text *r, sac_error *err) {
    size_t n_parts = 0;
    for (size_t i = 0; i < n_messages; i++) {
        const sac_message *from = &messages[i];
        if (!from->role) return sac_fail(err, SAC_BAD_ARGUMENT, "message %zu has no role", i);
        sac_chat_message *to = &r->messages[i];
        *to = (sac_chat_message){.role = from->role, .parts = r->parts + n_parts, .n_parts = from->n_parts};
        r->n_messages = i + 1;
        if (from->fields) SAC_TRY(read_fields(m, from->fields, i, &to->fields, err));
        for (size_t j = 0; j < from->n_parts; j++)
            SAC_TRY(convert_part(&from->parts[j], j, i, &n_blocks, &r->parts[n_parts++], err));
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- rendering */

static sac_status render_format(const sac_model *m, const sac_chat_settings *chat, sac_prompt_text *r,
                                size_t n_parts, sac_error *err) {
    int64_t n_placeholders = 0;
    for (size_t i = 0; i < n_parts; i++) n_placeholders += r->parts[i].n_placeholders;
    size_t capacity = sac_chat_max_segments(r->n_messages, n_parts, n_placeholders);
    r->segments = r->made = calloc(capacity, sizeof *r->segments);
    if (!r->segments) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu pieces of text", capacity);
    SAC_TRY(sac_chat_render(m->loaded.chat.format, r->messages, r->n_messages, !chat->no_generation_prompt,
                            SAC_PROMPT_MARK, r->segments, capacity, &r->n_segments, err));
    for (size_t i = 0; chat->parse_special && i < r->n_segments; i++) r->segments[i].parse_special = true;
    return SAC_OK;
}

static const sac_chat_template *template_for(const sac_model_chat *c, const sac_chat_settings *chat,
                                             const sac_prompt_text *r) {
    for (size_t i = 0; c->with_videos && i < r->n_messages; i++)
        for (size_t j = 0; j < r->messages[i].n_parts; j++)
            if (r->messages[i].parts[j].is_video) return c->with_videos;
    return chat->tools ? c->with_tools : c->plain;
}

static sac_status render_template(const sac_model *m, const sac_chat_settings *chat, sac_prompt_text *r,
                                  sac_error *err) {
    const sac_chat_template *template = template_for(&m->loaded.chat, chat, r);
    sac_chat_request request = {.messages = r->messages,
                                .n_messages = r->n_messages,
                                .tools = chat->tools,
                                .documents = chat->documents,
                                .variables = chat->variables,
                                .add_generation_prompt = !chat->no_generation_prompt,
                                .continue_final_message = chat->continue_final_message,
                                .parse_special = chat->parse_special,
                                .image_token = SAC_PROMPT_MARK,
                                .video_token = SAC_PROMPT_MARK};
    SAC_TRY(sac_chat_template_render(template, &request, &r->rendered, err));
    r->segments = r->rendered.segments;
    r->n_segments = r->rendered.n_segments;
    return SAC_OK;
}

sac_status sac_prompt_render(const sac_model *m, const sac_chat_settings *chat, const sac_message *messages,
                             size_t n_messages, const int64_t *n_blocks, sac_prompt_text *out,
                             sac_error *err) {
    size_t n_parts = count_parts(messages, n_messages);
    *out = (sac_prompt_text){.messages = calloc(n_messages + 1, sizeof *out->messages),
                             .parts = calloc(n_parts + 1, sizeof *out->parts)};
    sac_status st = SAC_OK;
    if (!out->messages || !out->parts)
        st = sac_fail(err, SAC_NO_MEMORY, "no memory for %zu messages", n_messages);
    if (st == SAC_OK) st = convert(m, messages, n_messages, n_blocks, out, err);
    if (st == SAC_OK)
        st = m->loaded.chat.format ? render_format(m, chat, out, n_parts, err)
                                   : render_template(m, chat, out, err);
    if (st != SAC_OK) sac_prompt_text_free(out);
    return st;
}

void sac_prompt_text_free(sac_prompt_text *t) {
    for (size_t i = 0; i < t->n_messages; i++) json_decref((json_t *)(uintptr_t)t->messages[i].fields);
    free(t->made);
    free(t->timed);
    free(t->times);
    sac_chat_text_free(&t->rendered);
    free(t->messages);
    free(t->parts);
    *t = (sac_prompt_text){0};
}

/* ---------------------------------------------------------------- the public calls */

sac_status sac_chat_options_check(const sac_model *m, const sac_chat_options *o, sac_error *err) {
    sac_chat_settings unused = {0};
    sac_status st = sac_chat_settings_read(&unused, m, o, err);
    sac_chat_settings_clear(&unused);
    return st;
}

sac_status sac_session_set_chat(sac_session *s, const sac_chat_options *o, sac_error *err) {
    if (s->reply.busy) return sac_fail(err, SAC_BAD_ARGUMENT, "this session is at work: end that first");
    return sac_chat_settings_read(&s->chat, s->model, o, err);
}

static void write(const char *bytes, size_t n, char *text, size_t capacity, size_t *n_bytes) {
    for (size_t i = 0; i < n; i++, ++*n_bytes)
        if (*n_bytes + 1 < capacity) text[*n_bytes] = bytes[i];
}

sac_status sac_chat_preview(const sac_model *m, const sac_message *messages, size_t n_messages,
                            const sac_chat_options *o, char *text, size_t capacity, size_t *n_bytes,
                            sac_error *err) {
    sac_chat_settings chat = {0};
    sac_prompt_text r = {0};
    sac_status st = sac_chat_settings_read(&chat, m, o, err);
    *n_bytes = 0;
    if (st == SAC_OK) st = sac_prompt_render(m, &chat, messages, n_messages, NULL, &r, err);
    for (size_t i = 0; i < r.n_segments; i++) {
        const sac_text_segment *s = &r.segments[i];
        sac_text_span token = sac_token_text(m->loaded.tokenizer, m->loaded.image_token);
        if (!token.text) token = (sac_text_span){"<image>", strlen("<image>")};
        write(s->is_token ? token.text : s->text, s->is_token ? token.n_bytes : s->n_bytes, text, capacity,
              n_bytes);
    }
    if (capacity) text[*n_bytes < capacity - 1 ? *n_bytes : capacity - 1] = 0;
    sac_prompt_text_free(&r);
    sac_chat_settings_clear(&chat);
    return st;
}

const char *const *sac_chat_format_names(void) {
    return sac_chat_names();
}
