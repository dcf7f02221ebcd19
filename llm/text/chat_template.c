#define _POSIX_C_SOURCE 200809L
#include "chat_template_impl.h"

#include "unicode.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

/* ---- the templates of a checkpoint ---- */

sac_status sac_chat_templates_create(sac_chat_templates **out, sac_error *err) {
    *out = calloc(1, sizeof **out);
    if (*out) (*out)->tokens = json_object();
    if (*out && (*out)->tokens) return SAC_OK;
    free(*out);
    *out = NULL;
    return sac_fail_no_memory(err);
}

static void close_template(sac_chat_template *t) {
    if (t) sac_template_free(t->program);
    free(t);
}

static void clear(struct sac_chat_entry *e) {
    close_template(e->open);
    free(e->name);
    free(e->source);
    free(e->text);
    *e = (struct sac_chat_entry){0};
}

void sac_chat_templates_free(sac_chat_templates *t) {
    if (!t) return;
    for (size_t i = 0; i < t->n; i++) clear(&t->entry[i]);
    free(t->entry);
    json_decref(t->tokens);
    free(t->image);
    free(t->video);
    free(t);
}

static struct sac_chat_entry *entry_of(const sac_chat_templates *t, const char *name) {
    for (size_t i = 0; i < t->n; i++)
        if (!strcmp(t->entry[i].name, name)) return &t->entry[i];
    return NULL;
}

sac_status sac_chat_templates_add(sac_chat_templates *t, const char *name, const char *source,
                                  const char *text, size_t n_bytes, sac_error *err) {
    struct sac_chat_entry *e = entry_of(t, name);
    if (!e) {
        struct sac_chat_entry *more = realloc(t->entry, (t->n + 1) * sizeof *more);
        if (!more) return sac_fail_no_memory(err);
        t->entry = more;
        e = &more[t->n];
        *e = (struct sac_chat_entry){0};
    }
    struct sac_chat_entry new = {.name = strdup(name), .source = strdup(source), .text = malloc(n_bytes + 1)};
    if (!new.name || !new.source || !new.text) {
        clear(&new);
        return sac_fail_no_memory(err);
    }
    memcpy(new.text, text, n_bytes);
    new.n_bytes = n_bytes;
    if (e == &t->entry[t->n])
        t->n++;
    else
        clear(e);
    *e = new;
    return SAC_OK;
}

sac_status sac_chat_templates_set_token(sac_chat_templates *t, const char *name, const char *text,
                                        sac_error *err) {
    if (!text) json_object_del(t->tokens, name);
    if (!text || json_object_set_new(t->tokens, name, json_string(text)) == 0) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"%s\" is no text in UTF-8", name);
}

const char *sac_chat_templates_token(const sac_chat_templates *t, const char *name) {
    return json_string_value(json_object_get(t->tokens, name));
}

static bool replace(char **to, const char *text) {
    free(*to);
    *to = text ? strdup(text) : NULL;
    return !text || *to;
}

sac_status sac_chat_templates_set_placeholders(sac_chat_templates *t, const char *image, const char *video,
                                               sac_error *err) {
    if (replace(&t->image, image) && replace(&t->video, video)) return SAC_OK;
    return sac_fail_no_memory(err);
}

size_t sac_chat_templates_count(const sac_chat_templates *t) {
    return t ? t->n : 0;
}

const char *sac_chat_templates_name(const sac_chat_templates *t, size_t i) {
    return t->entry[i].name;
}

sac_text_span sac_chat_templates_text(const sac_chat_templates *t, size_t i) {
    return (sac_text_span){t->entry[i].text, t->entry[i].n_bytes};
}

sac_status sac_chat_templates_open(sac_chat_templates *t, const char *name, const sac_chat_template **out,
                                   sac_error *err) {
    struct sac_chat_entry *e = entry_of(t, name);
    *out = e ? e->open : NULL;
    if (!e || e->open) return SAC_OK;
    sac_chat_template *made = calloc(1, sizeof *made);
    if (!made) return sac_fail_no_memory(err);
    made->all = t;
    sac_status st = sac_template_open(&made->program, e->source, e->text, e->n_bytes, err);
    if (st == SAC_OK) st = sac_chat_probe(made, err);
    if (st != SAC_OK) {
        close_template(made);
        return st;
    }
    *out = e->open = made;
    return SAC_OK;
}

const char *sac_chat_template_source(const sac_chat_template *t) {
    return sac_template_name(t->program);
}

const char *sac_chat_template_end(const sac_chat_template *t) {
    return t->traits.end;
}

/* ---- the end of a continued message ---- */

/* White space as str.rstrip takes it away. */
static size_t without_space_behind(const char *text, size_t n_bytes) {
    while (n_bytes) {
        const char *last = text + n_bytes - 1;
        while (last > text && sac_utf8_continues(*last)) last--;
        uint32_t c = sac_utf8_decode(last);
        if (!sac_is_space(c) && !(c >= 0x1c && c <= 0x1f)) break;
        n_bytes = (size_t)(last - text);
    }
    return n_bytes;
}

/* The text that the answer continues, less white space around it. */
static sac_text_span continued_text(const sac_chat_request *r) {
    const sac_chat_message *m = &r->messages[r->n_messages - 1];
    for (size_t i = m->n_parts; i > 0; i--) {
        const sac_chat_part *p = &m->parts[i - 1];
        if (p->n_placeholders > 0) continue;
        if (!sac_utf8_valid(p->text, p->n_bytes)) break; /* it is mended on its way */
        const char *from = sac_skip_space(p->text, p->text + p->n_bytes);
        return (sac_text_span){from, without_space_behind(from, (size_t)(p->text + p->n_bytes - from))};
    }
    return (sac_text_span){"", 0};
}

static bool holds(const sac_tmpl_string *text, const char *what, size_t n_bytes, size_t *last) {
    for (size_t at = text->n_bytes + 1; at-- > 0;)
        if (at + n_bytes <= text->n_bytes && memcmp(text->bytes + at, what, n_bytes) == 0) {
            *last = at;
            return true;
        }
    return false;
}

static sac_status cut_behind_last(const sac_chat_template *t, const sac_chat_request *request,
                                  sac_tmpl_string *text, sac_error *err) {
    static const char tag[] = SAC_CHAT_CONTINUE;
    size_t n_tag = sizeof tag - 2, at, unused; /* without its space */
    sac_text_span last = continued_text(request);
    if (!holds(text, tag, n_tag, &at) || !holds(text, last.text, last.n_bytes, &unused))
        return sac_fail(
            err, SAC_BAD_ARGUMENT,
            "%s: continue_final_message: the template does not write the last message's text as it is",
            sac_chat_template_source(t));
    bool is_whole = at + n_tag < text->n_bytes && text->bytes[at + n_tag] == ' ';
    text->n_bytes = is_whole ? at : without_space_behind(text->bytes, at);
    return SAC_OK;
}

/* ---- segments ---- */

typedef struct cutter {
    const sac_chat_template *t;
    const sac_chat_request *request;
    const sac_tmpl_string *text;
    sac_text_segment *segments; /* NULL: only counted */
    size_t n;
    size_t message, part; /* of the medium whose placeholder comes next */
    int64_t n_of_part, n_found;
    sac_error *err;
} cutter;

static void put(cutter *c, sac_text_segment s) {
    if (c->segments) c->segments[c->n] = s;
    c->n++;
}

/* The part that the next placeholder stands for, or NULL. */
static const sac_chat_part *next_medium(cutter *c) {
    for (; c->message < c->request->n_messages; c->message++, c->part = 0)
        for (const sac_chat_message *m = &c->request->messages[c->message]; c->part < m->n_parts; c->part++) {
            const sac_chat_part *p = &m->parts[c->part];
            if (c->n_of_part < p->n_placeholders) return p;
            c->n_of_part = 0;
        }
    return NULL;
}

static sac_status put_placeholder(cutter *c, bool is_video) {
    const sac_chat_part *p = next_medium(c);
    c->n_found++;
    if (!p) return SAC_OK; /* counted below */
    if (is_video != (p->is_video && c->t->all->video))
        return sac_fail(
            c->err, SAC_BAD_ARGUMENT,
            "%s: placeholder %lld is a %s's where the conversation has a %s: the template changes the "
            "order of pictures and videos; put them into messages of their own",
            sac_chat_template_source(c->t), (long long)c->n_found, is_video ? "video" : "picture",
            is_video ? "picture" : "video");
    c->n_of_part++;
    put(c, (sac_text_segment){.is_token = true,
                              .token_id = is_video ? c->request->video_token : c->request->image_token});
    return SAC_OK;
}

static bool stands_at(const cutter *c, size_t at, size_t end, const char *what) {
    size_t n = what ? strlen(what) : 0;
    return n && at + n <= end && memcmp(c->text->bytes + at, what, n) == 0;
}

/* Bytes of the template, in which placeholders count. */
static sac_status cut_own(cutter *c, size_t from, size_t end) {
    const char *image = c->t->all->image, *video = c->t->all->video;
    size_t done = from;
    for (size_t at = from; at <= end; at++) {
        bool is_image = stands_at(c, at, end, image), is_video = !is_image && stands_at(c, at, end, video);
        if (at < end && !is_image && !is_video) continue;
        if (at > done)
            put(c, (sac_text_segment){
                       .text = c->text->bytes + done, .n_bytes = at - done, .parse_special = true});
        if (at == end) break;
        SAC_TRY(put_placeholder(c, is_video));
        done = at + strlen(is_video ? video : image);
        at = done - 1;
    }
    return SAC_OK;
}

static bool is_user(const sac_tmpl_string *s, size_t i) {
    return s->marks ? s->marks[i] != 0 : s->is_user;
}

static sac_status cut(cutter *c) {
    const sac_tmpl_string *s = c->text;
    for (size_t from = 0, end; from < s->n_bytes; from = end) {
        bool user = is_user(s, from);
        for (end = from + 1; end < s->n_bytes && is_user(s, end) == user;) end++;
        if (user)
            put(c, (sac_text_segment){.text = s->bytes + from,
                                      .n_bytes = end - from,
                                      .parse_special = c->request->parse_special});
        else
            SAC_TRY(cut_own(c, from, end));
    }
    return SAC_OK;
}

static int64_t count_media(const sac_chat_request *r) {
    int64_t n = 0;
    for (size_t i = 0; i < r->n_messages; i++)
        for (size_t k = 0; k < r->messages[i].n_parts; k++) n += r->messages[i].parts[k].n_placeholders;
    return n;
}

static sac_status make_segments(const sac_chat_template *t, const sac_chat_request *request,
                                const sac_tmpl_string *text, sac_chat_text *out, sac_error *err) {
    cutter c = {.t = t, .request = request, .text = text, .err = err};
    SAC_TRY(cut(&c));
    int64_t n_media = count_media(request);
    if (c.n_found != n_media)
        return sac_fail(
            err, SAC_BAD_ARGUMENT,
            "%s: the template wrote %lld placeholders \"%.40s\" for %lld pictures and frames: name another "
            "with --chat, or mend image_token_index of config.json where pictures have another token",
            sac_chat_template_source(t), (long long)c.n_found, t->all->image ? t->all->image : "",
            (long long)n_media);
    out->segments = calloc(c.n + 1, sizeof *out->segments);
    if (!out->segments) return sac_fail_no_memory(err);
    c = (cutter){.t = t, .request = request, .text = text, .segments = out->segments, .err = err};
    SAC_TRY(cut(&c));
    out->n_segments = c.n;
    return SAC_OK;
}

static bool is_common(const char *role) {
    return !strcmp(role, "user") || !strcmp(role, "assistant") || !strcmp(role, "system") ||
           !strcmp(role, "tool");
}

/* A template that writes whatever it does not know as the model's has no place for a role of the caller's own. */
static sac_status check_roles(const sac_chat_template *t, const sac_chat_request *r, sac_error *err) {
    for (size_t i = 0; t->traits.else_is_answer && i < r->n_messages; i++) {
        const char *role = r->messages[i].role;
        if (is_common(role) || !sac_chat_is_answer(t, role)) continue;
        return sac_fail(
            err, SAC_BAD_ARGUMENT,
            "message %zu: %s has no place for the role \"%.40s\", it would write the message as an answer", i,
            sac_chat_template_source(t), role);
    }
    return SAC_OK;
}

static bool begins_with_token(const sac_chat_template *t, const sac_tmpl_string *text) {
    const json_t *begin = json_object_get(t->all->tokens, "bos_token");
    size_t n = json_string_length(begin);
    return n && n <= text->n_bytes && memcmp(text->bytes, json_string_value(begin), n) == 0;
}

sac_status sac_chat_template_render(const sac_chat_template *t, const sac_chat_request *request,
                                    sac_chat_text *out, sac_error *err) {
    sac_tmpl_string text = {0};
    *out = (sac_chat_text){0};
    sac_status st = SAC_OK;
    if (request->continue_final_message && request->add_generation_prompt)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "continue_final_message and add_generation_prompt exclude each other: a message is "
                        "continued, or a new one begun");
    if (request->continue_final_message &&
        (request->n_messages == 0 || request->messages[request->n_messages - 1].n_parts == 0))
        return sac_fail(err, SAC_BAD_ARGUMENT, "continue_final_message: the last message has no content");
    SAC_TRY(check_roles(t, request, err));
    st = sac_chat_run(t, request, &out->rendering, &text, err);
    if (st == SAC_OK && request->continue_final_message) st = cut_behind_last(t, request, &text, err);
    if (st == SAC_OK) out->has_begin = begins_with_token(t, &text);
    if (st == SAC_OK) st = make_segments(t, request, &text, out, err);
    if (st == SAC_OK) return SAC_OK;
    sac_chat_text_free(out);
    if (st == SAC_BAD_FILE && err) err->status = SAC_BAD_ARGUMENT; /* other conversations may do */
    return st == SAC_BAD_FILE ? SAC_BAD_ARGUMENT : st;
}

void sac_chat_text_free(sac_chat_text *text) {
    free(text->segments);
    sac_rendering_free(text->rendering);
    *text = (sac_chat_text){0};
}
