/* chat_values.c - a conversation as the values that a chat template sees, and a run of the template over them. */
#include "chat_template_impl.h"
#include "tokenizer_impl.h"

#include "utf8.h"

#include <string.h>

typedef struct maker {
    sac_tmpl_pool *pool;
    const sac_chat_template *t;
    const sac_chat_request *request;
    bool failed; /* the pool is full */
    sac_error *err;
} maker;

static sac_tmpl_value check(maker *m, sac_tmpl_value v) {
    m->failed |= v.kind == SAC_TMPL_MISSING;
    return v;
}

static void set(maker *m, sac_tmpl_value dict, const char *key, sac_tmpl_value v) {
    check(m, v);
    if (!m->failed) m->failed = !sac_tmpl_dict_set_name(m->pool, dict.dict, key, v);
}

static void append(maker *m, sac_tmpl_value list, sac_tmpl_value v) {
    check(m, v);
    if (!m->failed) m->failed = !sac_tmpl_list_add(m->pool, list.list, v);
}

static sac_tmpl_value dict_new(maker *m, size_t capacity) {
    return check(m, sac_tmpl_dict_new(m->pool, capacity));
}

static sac_tmpl_value list_new(maker *m, size_t capacity) {
    return check(m, sac_tmpl_list_new(m->pool, SAC_TMPL_LIST, capacity));
}

/* ---- texts ---- */

typedef struct draft {
    char *bytes;
    uint8_t *marks;
    size_t n, capacity;
} draft;

static void add_bytes(maker *m, draft *to, const char *bytes, size_t n_bytes, bool is_user) {
    if (to->n + n_bytes > to->capacity) {
        size_t capacity = 2 * to->capacity + n_bytes;
        char *more = sac_tmpl_grow(m->pool, to->bytes, to->n, capacity);
        uint8_t *marks = sac_tmpl_grow(m->pool, to->marks, to->n, capacity);
        m->failed |= !more || !marks;
        if (m->failed) return;
        *to = (draft){more, marks, to->n, capacity};
    }
    if (!n_bytes) return;
    memcpy(to->bytes + to->n, bytes, n_bytes);
    memset(to->marks + to->n, is_user, n_bytes);
    to->n += n_bytes;
}

/* The user's; broken characters become U+FFFD. */
static void add_text(maker *m, draft *to, const char *bytes, size_t n_bytes) {
    static const char replacement[] = SAC_UTF8_REPLACEMENT;
    for (const char *p = bytes, *end = bytes + n_bytes; p < end && !m->failed;) {
        const char *good = p;
        size_t n = 0;
        while (p < end && sac_utf8_next(p, end, &n, NULL)) p += n;
        add_bytes(m, to, good, (size_t)(p - good), true);
        if (p == end) break;
        add_bytes(m, to, replacement, sizeof replacement - 1, true);
        p += n;
    }
}

static sac_tmpl_value finish(maker *m, const draft *t) {
    if (m->failed) return (sac_tmpl_value){0};
    return check(
        m, sac_tmpl_string_value(
               m->pool,
               (sac_tmpl_string){.bytes = t->bytes, .marks = t->marks, .n_bytes = t->n, .is_user = true}));
}

/* `last`: the text that the answer continues. */
static sac_tmpl_value text_value(maker *m, const sac_chat_part *p, bool last) {
    if (!last && sac_utf8_valid(p->text, p->n_bytes))
        return check(m, sac_tmpl_text(m->pool, p->text, p->n_bytes, true));
    draft t = {0};
    add_text(m, &t, p->text, p->n_bytes);
    if (last) add_bytes(m, &t, SAC_CHAT_CONTINUE, sizeof SAC_CHAT_CONTINUE - 1, true);
    return finish(m, &t);
}

/* ---- content ---- */

static bool is_media(const sac_chat_part *p) {
    return p->n_placeholders > 0;
}

static const char *placeholder_of(const maker *m, const sac_chat_part *p) {
    return p->is_video && m->t->all->video ? m->t->all->video : m->t->all->image;
}

/* Placeholders on lines of their own, then the texts. */
static sac_tmpl_value as_string(maker *m, const sac_chat_message *message, const sac_chat_part *last) {
    draft t = {0};
    size_t n_texts = 0, n_media = 0;
    for (size_t i = 0; i < message->n_parts; i++) {
        if (is_media(&message->parts[i]))
            n_media++;
        else
            n_texts++;
    }
    if (n_texts == 1 && n_media == 0) return text_value(m, &message->parts[0], last != NULL);
    for (size_t i = 0; n_media && i < message->n_parts; i++) {
        const sac_chat_part *p = &message->parts[i];
        const char *placeholder = placeholder_of(m, p);
        for (int64_t k = 0; placeholder && k < p->n_placeholders; k++) {
            add_bytes(m, &t, placeholder, strlen(placeholder), false);
            add_bytes(m, &t, "\n", 1, false);
        }
    }
    size_t n = 0;
    for (size_t i = 0; i < message->n_parts; i++) {
        const sac_chat_part *p = &message->parts[i];
        if (is_media(p)) continue;
        if (n++) add_bytes(m, &t, "\n", 1, false);
        add_text(m, &t, p->text, p->n_bytes);
        if (p == last) add_bytes(m, &t, SAC_CHAT_CONTINUE, sizeof SAC_CHAT_CONTINUE - 1, true);
    }
    return finish(m, &t);
}

static sac_tmpl_value as_parts(maker *m, const sac_chat_message *message, const sac_chat_part *last) {
    sac_tmpl_value list = list_new(m, message->n_parts);
    for (size_t i = 0; i < message->n_parts && !m->failed; i++) {
        const sac_chat_part *p = &message->parts[i];
        bool is_video = p->is_video && m->t->all->video;
        int64_t n = is_media(p) ? p->n_placeholders : 1;
        for (int64_t k = 0; k < n && !m->failed; k++) {
            sac_tmpl_value part = dict_new(m, 2);
            set(m, part, "type",
                sac_tmpl_name(m->pool, !is_media(p) ? "text"
                                       : is_video   ? "video"
                                                    : "image"));
            if (!is_media(p)) set(m, part, "text", text_value(m, p, p == last));
            append(m, list, part);
        }
    }
    return list;
}

sac_chat_role sac_chat_role_of(const char *role) {
    return !strcmp(role, "system")      ? SAC_CHAT_SYSTEM
           : !strcmp(role, "assistant") ? SAC_CHAT_ASSISTANT
           : !strcmp(role, "tool")      ? SAC_CHAT_TOOL
                                        : SAC_CHAT_USER;
}

/* The rule of chat_template.h. */
static bool wants_parts(const maker *m, const sac_chat_message *message) {
    const sac_chat_traits *traits = &m->t->traits;
    const sac_chat_role role = sac_chat_role_of(message->role);
    bool image = false, video = false, string = traits->takes_string[role], parts = traits->takes_parts[role];
    for (size_t i = 0; i < message->n_parts; i++) {
        const sac_chat_part *p = &message->parts[i];
        bool is_video = p->is_video && m->t->all->video;
        image |= is_media(p) && !is_video;
        video |= is_media(p) && is_video;
    }
    if (image || video)
        return !string || (parts && (!image || traits->writes_image) && (!video || traits->writes_video));
    return parts && (!string || message->n_parts > 1 || m->t->all->image);
}

static const sac_chat_part *last_text(const sac_chat_message *message) {
    for (size_t i = message->n_parts; i > 0; i--)
        if (!is_media(&message->parts[i - 1])) return &message->parts[i - 1];
    return NULL;
}

/* ---- messages ---- */

/* A role that is a plain word may become part of a control token, as in '<|' + message.role + '|>'. */
static bool is_word(const char *role) {
    size_t n = strspn(role, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return n > 0 && n <= 64 && !role[n];
}

/* A call's arguments come as a text, as OpenAI writes them; most templates want the object that it holds. */
static sac_tmpl_value call_value(maker *m, const json_t *call) {
    const json_t *function = json_object_get(call, "function");
    const char *arguments = json_string_value(json_object_get(function, "arguments"));
    json_t *object =
        arguments && !m->t->traits.text_arguments ? json_loads(arguments, JSON_DECODE_ANY, NULL) : NULL;
    sac_tmpl_value v = check(m, sac_tmpl_from_json(m->pool, call, true));
    if (object && !m->failed) {
        sac_tmpl_value *f = sac_tmpl_dict_find_name(v.dict, "function", strlen("function"));
        if (f && f->kind == SAC_TMPL_DICT) set(m, *f, "arguments", sac_tmpl_from_json(m->pool, object, true));
    }
    json_decref(object);
    return v;
}

static sac_tmpl_value calls_value(maker *m, const json_t *calls) {
    sac_tmpl_value list = list_new(m, json_array_size(calls));
    for (size_t i = 0; i < json_array_size(calls) && !m->failed; i++)
        append(m, list, call_value(m, json_array_get(calls, i)));
    return list;
}

/* The names under which reasoning is passed; transformers gives a template all that are read. */
static const json_t *reasoning_of(const json_t *fields) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        const json_t *v = json_object_get(fields, names[i]);
        if (v && !json_is_null(v)) return v;
    }
    return NULL;
}

static sac_tmpl_value message_value(maker *m, const sac_chat_message *message, bool is_continued) {
    sac_tmpl_value dict = dict_new(m, 4);
    const json_t *reasoning = reasoning_of(message->fields);
    const char *role = message->role;
    if (m->failed) return dict;
    if (reasoning) set(m, dict, "thinking", sac_tmpl_from_json(m->pool, reasoning, true));
    draft name = {0};
    if (is_word(role))
        add_bytes(m, &name, role, strlen(role), false);
    else
        add_text(m, &name, role, strlen(role));
    set(m, dict, "role", finish(m, &name));
    const sac_chat_part *last = is_continued ? last_text(message) : NULL;
    if (message->n_parts)
        set(m, dict, "content",
            wants_parts(m, message) ? as_parts(m, message, last) : as_string(m, message, last));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)message->fields, key, value) {
        if (json_is_null(value) || m->failed) continue; /* transformers leaves out what is null */
        bool calls = !strcmp(key, "tool_calls") && json_is_array(value);
        set(m, dict, key, calls ? calls_value(m, value) : sac_tmpl_from_json(m->pool, value, true));
    }
    if (reasoning) set(m, dict, "reasoning_content", sac_tmpl_from_json(m->pool, reasoning, true));
    return dict;
}

static sac_tmpl_value messages_value(maker *m) {
    const sac_chat_request *r = m->request;
    sac_tmpl_value list = list_new(m, r->n_messages);
    for (size_t i = 0; i < r->n_messages && !m->failed; i++)
        append(m, list,
               message_value(m, &r->messages[i], r->continue_final_message && i + 1 == r->n_messages));
    return list;
}

/* ---- all variables ---- */

static sac_tmpl_value json_or_none(maker *m, const json_t *json) {
    return json ? sac_tmpl_from_json(m->pool, json, true) : SAC_TMPL_VALUE_NONE;
}

static sac_status add_variables(maker *m, sac_tmpl_value dict, const json_t *object, bool is_user) {
    static const char *const own[] = {"messages", "tools", "documents", "add_generation_prompt"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        for (size_t i = 0; i < SAC_COUNT(own); i++)
            if (!strcmp(key, own[i]))
                return sac_fail(m->err, SAC_BAD_ARGUMENT,
                                "chat template variables: \"%s\" has a setting of its own, remove it there",
                                key);
        if (!m->failed) set(m, dict, key, sac_tmpl_from_json(m->pool, value, is_user));
    }
    return SAC_OK;
}

sac_status sac_chat_values(sac_tmpl_pool *pool, const sac_chat_template *t, const sac_chat_request *request,
                           sac_tmpl_value *variables, sac_error *err) {
    maker m = {.pool = pool, .t = t, .request = request, .err = err};
    sac_tmpl_value dict = dict_new(&m, 16);
    if (!m.failed) {
        SAC_TRY(add_variables(&m, dict, t->all->tokens, false));
        SAC_TRY(add_variables(&m, dict, request->variables, true));
        set(&m, dict, "messages", messages_value(&m));
        set(&m, dict, "tools", json_or_none(&m, request->tools));
        set(&m, dict, "documents", json_or_none(&m, request->documents));
        set(&m, dict, "add_generation_prompt", sac_tmpl_bool(request->add_generation_prompt));
    }
    *variables = dict;
    if (!m.failed) return SAC_OK;
    return sac_fail(err, SAC_TOO_LONG, "%s: the conversation is larger than a chat template may take",
                    sac_template_name(t->program));
}

/* ---- running ---- */

static size_t json_bytes(const json_t *json) {
    return json ? json_dumpb(json, NULL, 0, JSON_ENCODE_ANY) : 0;
}

static size_t input_bytes(const sac_chat_request *r) {
    size_t n = json_bytes(r->tools) + json_bytes(r->documents) + json_bytes(r->variables);
    for (size_t i = 0; i < r->n_messages; i++) {
        n += strlen(r->messages[i].role) + json_bytes(r->messages[i].fields);
        for (size_t k = 0; k < r->messages[i].n_parts; k++) {
            const sac_chat_part *p = &r->messages[i].parts[k];
            n += p->n_placeholders > 0 ? 64 * (size_t)p->n_placeholders : p->n_bytes;
        }
    }
    return n;
}

sac_status sac_chat_run(const sac_chat_template *t, const sac_chat_request *request,
                        struct sac_rendering **rendering, sac_tmpl_string *text, sac_error *err) {
    sac_tmpl_value variables;
    SAC_TRY(sac_rendering_open(rendering, t->program, sac_template_limits_for(input_bytes(request)), err));
    SAC_TRY(sac_chat_values(sac_rendering_values(*rendering), t, request, &variables, err));
    return sac_rendering_run(*rendering, variables, text, err);
}
