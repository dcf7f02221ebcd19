/* Renderings against what jinja2 makes of the models' own templates (tools/make_tokenizer_goldens.py). */
#include "chat.h"
#include "json.h"
#include "test.h"

#define IMAGE   (-200) /* LongVA's: outside any vocabulary */
#define MAX     64
#define GOLDENS "tests/golden/tokenizer/chat.json"

typedef struct conversation {
    sac_chat_message messages[MAX];
    sac_chat_part parts[MAX];
    size_t n_messages, n_parts;
    int64_t n_placeholders;
    bool has_system;
} conversation;

static json_t *load(void) {
    sac_error err = {0};
    json_t *golden;
    assert_ok(sac_json_parse_file(&golden, GOLDENS, &err), err);
    return golden;
}

static void read_conversation(conversation *c, const json_t *json) {
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < json_array_size(json); i++) {
        const json_t *m = json_array_get(json, i), *parts = json_object_get(m, "parts");
        sac_chat_message *to = &c->messages[c->n_messages++];
        *to = (sac_chat_message){.role = json_string_value(json_object_get(m, "role")),
                                 .parts = c->parts + c->n_parts,
                                 .n_parts = json_array_size(parts)};
        if (strcmp(to->role, "system") == 0) c->has_system = true;
        for (size_t k = 0; k < to->n_parts; k++) {
            const json_t *p = json_array_get(parts, k), *text = json_object_get(p, "text");
            sac_chat_part *part = &c->parts[c->n_parts++];
            if (text)
                *part = (sac_chat_part){.text = json_string_value(text), .n_bytes = json_string_length(text)};
            else
                part->n_placeholders = json_integer_value(json_object_get(p, "images"));
            c->n_placeholders += part->n_placeholders;
        }
    }
}

/* The segments as one text; also: nothing a user or system wrote may hold control tokens. */
static void join(const sac_text_segment *segments, size_t n, const conversation *c, char *out,
                 size_t out_bytes) {
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const char *text = segments[i].is_token ? "<image>" : segments[i].text;
        size_t n_bytes = segments[i].is_token ? 7 : segments[i].n_bytes;
        if (segments[i].is_token) assert_int_equal(segments[i].token_id, IMAGE);
        assert_true(used + n_bytes < out_bytes);
        memcpy(out + used, text, n_bytes);
        used += n_bytes;
        for (size_t k = 0; k < c->n_parts; k++) {
            bool inside = !segments[i].is_token && c->parts[k].text && text >= c->parts[k].text &&
                          text < c->parts[k].text + c->parts[k].n_bytes;
            if (inside) assert_false(segments[i].parse_special);
        }
    }
    out[used] = 0;
}

static void test_templates(void **state) {
    (void)state;
    json_t *golden = load();
    const json_t *cases = json_object_get(golden, "cases");
    assert_true(json_array_size(cases) > 400);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *t = json_array_get(cases, i), *text = json_object_get(t, "text");
        const char *name = json_string_value(json_object_get(t, "format"));
        const char *which = json_string_value(json_object_get(t, "conversation"));
        const sac_chat_format *f = sac_chat_find(name);
        assert_non_null(f);
        conversation c;
        read_conversation(&c, json_object_get(json_object_get(golden, "conversations"), which));
        sac_text_segment segments[4 * MAX];
        size_t n, capacity = sac_chat_max_segments(c.n_messages, c.n_parts, c.n_placeholders);
        assert_true(capacity <= SAC_COUNT(segments));
        sac_error err = {0};
        sac_status st =
            sac_chat_render(f, c.messages, c.n_messages, json_is_true(json_object_get(t, "generation")),
                            IMAGE, segments, capacity, &n, &err);
        /* where the template raises an exception; the demo's would write a system message as an answer */
        bool refused = json_is_null(text) || (f->system == SAC_SYSTEM_NONE && c.has_system);
        if (refused) {
            assert_int_equal(st, SAC_BAD_ARGUMENT);
            assert_true(err.text[0]);
            continue;
        }
        assert_ok(st, err);
        char got[4096];
        join(segments, n, &c, got, sizeof got);
        if (strcmp(got, json_string_value(text)) != 0)
            fail_msg("%s, %s: got \"%s\", want \"%s\"", name, which, got, json_string_value(text));
    }
    json_decref(golden);
}

static void test_detection(void **state) {
    (void)state;
    json_t *golden = load();
    const char *name;
    json_t *template;
    json_object_foreach(json_object_get(golden, "templates"), name, template) {
        const sac_chat_format *f = sac_chat_detect(json_string_value(template));
        if (strcmp(name, "plain") == 0)
            assert_null(f);
        else
            assert_string_equal(f ? f->name : "none", name);
    }
    assert_null(sac_chat_detect(""));
    assert_null(sac_chat_detect("{{ bos_token }}{% for m in messages %}<|User|>{{ m.content }}{% endfor %}"));
    json_decref(golden);
}

static void test_names(void **state) {
    (void)state;
    size_t n = 0;
    for (const char *const *name = sac_chat_names(); *name; name++, n++) {
        const sac_chat_format *f = sac_chat_find(*name);
        assert_non_null(f);
        assert_string_equal(f->name, *name);
        assert_non_null(f->source);
        for (const char *const *s = sac_chat_stops(f); s && *s; s++) assert_true(**s);
    }
    assert_true(n >= 7);
    assert_null(sac_chat_find("no such format"));
}

static void test_refusals(void **state) {
    (void)state;
    const sac_chat_format *f = sac_chat_find("chatml");
    sac_chat_part hello = {.text = "hello", .n_bytes = 5};
    sac_chat_message messages[2] = {{"user", &hello, 1, NULL}, {"system", &hello, 1, NULL}};
    sac_text_segment segments[32];
    size_t n;
    sac_error err = {0};
    assert_int_equal(sac_chat_render(f, messages, 2, true, IMAGE, segments, 32, &n, &err), SAC_BAD_ARGUMENT);
    messages[1].role = "tool";
    assert_int_equal(sac_chat_render(f, messages, 2, true, IMAGE, segments, 32, &n, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "tool"));
    assert_int_equal(sac_chat_render(f, messages, 1, true, IMAGE, segments, 3, &n, &err), SAC_INTERNAL);
    assert_true(n > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_templates),
        cmocka_unit_test(test_detection),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
