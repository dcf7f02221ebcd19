/* Conversations through chat templates against what transformers makes of them (tools/make_chat_golden.py): texts,
 * ids, and what is refused. */
#include "chat_template.h"
#include "json.h"
#include "test.h"

#include <inttypes.h>

#define MAX      64
#define MAX_IDS  16384
#define MAX_TEXT 65536

static const char *folder = "tests/golden/chat"; /* or another of the same kind, $SAC_CHAT_GOLDEN */

typedef struct conversation {
    sac_chat_message messages[MAX];
    sac_chat_part parts[MAX];
    size_t n_messages, n_parts;
} conversation;

static const char *text_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static void read_conversation(conversation *c, const json_t *json) {
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < json_array_size(json); i++) {
        const json_t *m = json_array_get(json, i), *parts = json_object_get(m, "parts");
        c->messages[c->n_messages++] = (sac_chat_message){.role = text_of(m, "role"),
                                                          .parts = c->parts + c->n_parts,
                                                          .n_parts = json_array_size(parts),
                                                          .fields = json_object_get(m, "fields")};
        for (size_t k = 0; k < json_array_size(parts); k++) {
            const json_t *p = json_array_get(parts, k), *text = json_object_get(p, "text");
            const char *media = text_of(p, "media");
            sac_chat_part part = {.n_placeholders = 1, .is_video = media && !strcmp(media, "video")};
            if (text)
                part = (sac_chat_part){.text = json_string_value(text), .n_bytes = json_string_length(text)};
            c->parts[c->n_parts++] = part;
        }
    }
}

static sac_chat_templates *read_templates(const json_t *t) {
    const json_t *v = json_object_get(t, "template");
    sac_chat_templates *all;
    sac_error err;
    const char *name;
    json_t *text;
    assert_ok(sac_chat_templates_create(&all, &err), err);
    if (json_is_string(v))
        assert_ok(sac_chat_templates_add(all, "default", "template", json_string_value(v),
                                         json_string_length(v), &err),
                  err);
    else
        json_object_foreach((json_t *)(uintptr_t)v, name, text) assert_ok(
            sac_chat_templates_add(all, name, name, json_string_value(text), json_string_length(text), &err),
            err);
    json_object_foreach(json_object_get(t, "tokens"), name, text)
        assert_ok(sac_chat_templates_set_token(all, name, json_string_value(text), &err), err);
    assert_ok(sac_chat_templates_set_placeholders(all, text_of(t, "image"), text_of(t, "video"), &err), err);
    return all;
}

static sac_tokenizer *open_tokenizer(const char *name) {
    char path[200];
    sac_error err;
    sac_tokenizer *t;
    snprintf(path, sizeof path, "%.150s/%s.json", folder, name);
    assert_ok(sac_tokenizer_open_file(&t, path, SAC_TOKENIZER_BY_FILE, &err), err);
    return t;
}

static int32_t token_of(const sac_tokenizer *t, const char *text) {
    return text ? sac_token_find(t, text, strlen(text)) : -1;
}

static uint64_t hash_step(uint64_t h, uint64_t v) {
    return (h ^ v) * 0x100000001b3u;
}

static uint64_t hash_ids(const int32_t *ids, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = hash_step(h, (uint64_t)ids[i]);
    return h;
}

static uint64_t hash_text(const char *text, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = hash_step(h, (unsigned char)text[i]);
    return h;
}

static bool is_hash(const json_t *hex, uint64_t h) {
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, h);
    return strcmp(text, json_string_value(hex)) == 0;
}

/* One template at work. */
typedef struct bench {
    const json_t *t;
    sac_chat_templates *all;
    const sac_chat_template *plain, *with_tools;
    const sac_tokenizer *tokenizer;
} bench;

static sac_status render(const bench *b, const json_t *conversation_json, const json_t *with,
                         bool parse_special, sac_chat_text *out, sac_error *err) {
    static conversation c;
    read_conversation(&c, conversation_json);
    sac_chat_request request = {
        .messages = c.messages,
        .n_messages = c.n_messages,
        .tools = json_object_get(with, "tools"),
        .documents = json_object_get(with, "documents"),
        .variables = json_object_get(with, "variables"),
        .add_generation_prompt = !json_is_true(json_object_get(with, "no_generation_prompt")),
        .continue_final_message = json_is_true(json_object_get(with, "continue_final_message")),
        .parse_special = parse_special,
        .image_token = token_of(b->tokenizer, text_of(b->t, "image")),
        .video_token = token_of(b->tokenizer, text_of(b->t, "video")),
    };
    return sac_chat_template_render(request.tools ? b->with_tools : b->plain, &request, out, err);
}

/* The segments as one text again. */
static size_t join(const bench *b, const sac_chat_text *r, char *text) {
    size_t n = 0;
    for (size_t i = 0; i < r->n_segments; i++) {
        sac_text_span s = {r->segments[i].text, r->segments[i].n_bytes};
        if (r->segments[i].is_token) s = sac_token_text(b->tokenizer, r->segments[i].token_id);
        assert_true(n + s.n_bytes < MAX_TEXT);
        memcpy(text + n, s.text, s.n_bytes);
        n += s.n_bytes;
    }
    text[n] = 0;
    return n;
}

static size_t encode(const bench *b, const sac_chat_text *r, int32_t *ids) {
    sac_error err;
    size_t n;
    bool adds = json_is_true(json_object_get(b->t, "adds_special")) && !r->has_begin;
    assert_ok(sac_tokenize(b->tokenizer, r->segments, r->n_segments, adds, ids, MAX_IDS, &n, &err), err);
    return n;
}

static const char *name_of(const json_t *c) {
    static char name[300];
    snprintf(name, sizeof name, "%s, %s, settings %d", text_of(c, "template"), text_of(c, "conversation"),
             (int)json_integer_value(json_object_get(c, "with")));
    return name;
}

static bool check_text(const bench *b, const json_t *c, const sac_chat_text *r) {
    static char got[MAX_TEXT];
    size_t n = join(b, r, got);
    const char *text = text_of(c, "text");
    bool same = text ? !strcmp(got, text)
                     : n == (size_t)json_integer_value(json_object_get(c, "bytes")) &&
                           is_hash(json_object_get(c, "text_hash"), hash_text(got, n));
    if (!same) print_error("%s: text is\n%s\n--- not\n%s\n", name_of(c), got, text ? text : "(a hash)");
    return same;
}

static bool check_ids(const bench *b, const json_t *c, const sac_chat_text *r, const json_t *n_wanted,
                      const json_t *hash, const char *how) {
    static int32_t ids[MAX_IDS];
    size_t n = encode(b, r, ids);
    bool same = n == (size_t)json_integer_value(n_wanted) && is_hash(hash, hash_ids(ids, n));
    if (!same)
        print_error("%s: %zu ids %s, not the %lld wanted\n", name_of(c), n, how,
                    (long long)json_integer_value(n_wanted));
    return same;
}

/* Two renderings: control tokens in the user's text as such, as transformers has them, and as text. */
static bool check_case(const bench *b, const json_t *conversation_json, const json_t *with, const json_t *c) {
    const json_t *sanitized = json_object_get(c, "sanitized");
    sac_chat_text r;
    sac_error err = {0};
    sac_status st = render(b, conversation_json, with, true, &r, &err);
    if (json_object_get(c, "refused")) {
        sac_chat_text_free(&r);
        if (st == SAC_BAD_ARGUMENT) return err.text[0] && !strchr(err.text, '\n');
        print_error("%s: is taken\n", name_of(c));
        return false;
    }
    if (st != SAC_OK) {
        print_error("%s: %s\n", name_of(c), err.text);
        return false;
    }
    const json_t *n = json_object_get(c, "n"), *hash = json_object_get(c, "hash");
    bool ok = check_text(b, c, &r) && check_ids(b, c, &r, n, hash, "with control tokens");
    sac_chat_text_free(&r);
    if (!ok || json_is_null(sanitized)) return ok;
    assert_ok(render(b, conversation_json, with, false, &r, &err), err);
    if (sanitized) n = json_array_get(sanitized, 0), hash = json_array_get(sanitized, 1);
    ok = check_ids(b, c, &r, n, hash, "without control tokens");
    sac_chat_text_free(&r);
    return ok;
}

static void check_template(const json_t *golden, const char *name, const json_t *t, size_t *n_cases,
                           size_t *n_bad) {
    const json_t *cases = json_object_get(golden, "cases"),
                 *conversations = json_object_get(golden, "conversations");
    const json_t *settings = json_object_get(golden, "settings");
    sac_tokenizer *tokenizer = open_tokenizer(text_of(t, "tokenizer"));
    bench b = {.t = t, .all = read_templates(t), .tokenizer = tokenizer};
    sac_error err;
    if (sac_chat_templates_open(b.all, "default", &b.plain, &err) != SAC_OK ||
        sac_chat_templates_open(b.all, "tool_use", &b.with_tools, &err) != SAC_OK)
        fail_msg("%s: %s", name, err.text);
    if (!b.with_tools) b.with_tools = b.plain;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        if (strcmp(text_of(c, "template"), name) != 0) continue;
        const json_t *conversation_json = json_object_get(conversations, text_of(c, "conversation"));
        ++*n_cases;
        const json_t *with = json_array_get(settings, (size_t)json_integer_value(json_object_get(c, "with")));
        *n_bad += !check_case(&b, conversation_json, with, c);
    }
    sac_chat_templates_free(b.all);
    sac_tokenizer_free(tokenizer);
}

static void conversations_are_those_of_transformers(void **state) {
    (void)state;
    json_t *golden, *t;
    sac_error err;
    const char *name, *other = getenv("SAC_CHAT_GOLDEN");
    char path[200];
    size_t n_cases = 0, n_bad = 0;
    if (other) folder = other;
    snprintf(path, sizeof path, "%.150s/cases.json", folder);
    assert_ok(sac_json_parse_file(&golden, path, &err), err);
    json_object_foreach(json_object_get(golden, "templates"), name, t)
        check_template(golden, name, t, &n_cases, &n_bad);
    print_message("%zu cases, %zu differ\n", n_cases, n_bad);
    assert_int_equal(n_bad, 0);
    assert_true(n_cases == json_array_size(json_object_get(golden, "cases")));
    json_decref(golden);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations_are_those_of_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
