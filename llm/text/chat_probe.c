/* chat_probe.c - what a chat template makes of content, seen by what it makes of small conversations. */
#include "chat_template_impl.h"

#include "hash.h"

#include <string.h>

#define NEEDLE "needle7"
#define CALLED "knot7"
#define CALL   "{\"" CALLED "\": \"\u00fc\"}" /* whether letters beyond ASCII are escaped shows, too */
#define LISTS                                                                                                \
    "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"look\", \"description\": \"Looks.\", " \
    "\"parameters\": {\"type\": \"object\", \"properties\": {}, \"required\": []}}}], "                      \
    "\"documents\": [{\"title\": \"a\", \"text\": \"b\"}]}"

enum { MAX_PROBE = 3 };

/* A conversation in which the text of one message is NEEDLE. */
typedef struct probe {
    const char *roles[MAX_PROBE + 1]; /* NULL-terminated */
    size_t looked_at;
    sac_chat_role role;  /* of that message */
    bool as_parts;       /* its content is a list, otherwise a string */
    const json_t *lists; /* {"tools", "documents"}, or NULL */
    sac_chat_part media; /* a part before the last message's text, with n_placeholders above 0 */
    const json_t *fields;
    const json_t *call; /* of the message before the last one, that `fields` answer; or NULL */
    bool as_object;     /* arguments of a call, otherwise as the text that they come as */
} probe;

typedef struct outcome {
    sac_status status;
    bool shown;              /* the text is there, and nothing of the list around it */
    bool has_needle, listed; /* the text is there; as a list's */
    char end[64];
    uint64_t hash; /* of the text */
    bool has_call, has_names, has_image,
        has_video; /* the arguments as a text; their names, as no Python text of a dict */
    sac_error err;
} outcome;

static bool is_space(char c) {
    return strchr(" \t\r\n", c) != NULL;
}

static const char *find(const char *text, size_t n_bytes, const char *what) {
    size_t n = strlen(what);
    for (size_t i = 0; i + n <= n_bytes; i++)
        if (memcmp(text + i, what, n) == 0) return text + i;
    return NULL;
}

/* What stands behind the last needle. */
static void read_end(outcome *o, const char *text, size_t n_bytes) {
    const char *at = text, *stop = text + n_bytes, *behind = NULL;
    while ((at = find(at, (size_t)(stop - at), NEEDLE))) behind = at += strlen(NEEDLE);
    if (!behind) return;
    while (behind < stop && is_space(*behind)) behind++;
    while (stop > behind && is_space(stop[-1])) stop--;
    size_t n = (size_t)(stop - behind);
    if (n >= sizeof o->end) return;
    memcpy(o->end, behind, n);
    o->end[n] = 0;
}

static void read_outcome(outcome *o, const sac_chat_template *t, const sac_tmpl_string *s) {
    bool list = find(s->bytes, s->n_bytes, "'type'") || find(s->bytes, s->n_bytes, "\"type\"");
    o->has_needle = find(s->bytes, s->n_bytes, NEEDLE);
    o->listed =
        find(s->bytes, s->n_bytes, "'text': '" NEEDLE) || find(s->bytes, s->n_bytes, "\"text\": \"" NEEDLE);
    o->shown = find(s->bytes, s->n_bytes, NEEDLE) && !list;
    o->has_call = find(s->bytes, s->n_bytes, CALL);
    o->has_names = find(s->bytes, s->n_bytes, CALLED) && !find(s->bytes, s->n_bytes, "'" CALLED "'");
    o->has_image = t->all->image && find(s->bytes, s->n_bytes, t->all->image);
    o->has_video = t->all->video && find(s->bytes, s->n_bytes, t->all->video);
    o->hash = sac_hash_quick(0, s->bytes, s->n_bytes);
    read_end(o, s->bytes, s->n_bytes);
}

static outcome try(const sac_chat_template *with, const probe *p) {
    static const sac_chat_part needle = {.text = NEEDLE, .n_bytes = sizeof NEEDLE - 1},
                               other = {.text = "Hello", .n_bytes = 5};
    outcome o = {0};
    sac_chat_part parts[2] = {p->media, needle};
    sac_chat_message messages[MAX_PROBE];
    sac_chat_template copy = *with, *t = &copy;
    size_t n = 0;
    for (; p->roles[n]; n++)
        messages[n] = (sac_chat_message){
            .role = p->roles[n], .parts = n == p->looked_at ? &needle : &other, .n_parts = 1};
    if (p->media.n_placeholders) {
        messages[n - 1].parts = parts;
        messages[n - 1].n_parts = 2;
    }
    messages[n - 1].fields = p->fields;
    if (p->call) messages[n - 2].fields = p->call;
    t->traits.takes_parts[p->role] = p->as_parts;
    t->traits.takes_string[p->role] = !p->as_parts;
    t->traits.writes_image = t->traits.writes_video = true;
    t->traits.text_arguments = !p->as_object;
    sac_chat_request request = {.messages = messages,
                                .n_messages = n,
                                .tools = json_object_get(p->lists, "tools"),
                                .documents = json_object_get(p->lists, "documents")};
    struct sac_rendering *rendering = NULL;
    sac_tmpl_string text;
    o.status = sac_chat_run(t, &request, &rendering, &text, &o.err);
    if (o.status == SAC_OK) read_outcome(&o, t, &text);
    sac_rendering_free(rendering);
    return o;
}

static void probe_roles(sac_chat_template *t, const json_t *lists, outcome user[2]) {
    const probe probes[SAC_CHAT_TOOL] = {
        {.roles = {"user"}, .role = SAC_CHAT_USER}, /* first: the others stand beside its content */
        {.roles = {"system", "user"}, .role = SAC_CHAT_SYSTEM},
        {.roles = {"user", "assistant"}, .role = SAC_CHAT_ASSISTANT, .looked_at = 1},
    };
    for (int i = 0; i < SAC_CHAT_TOOL; i++) { /* a tool's message stands behind a call: probe_tool */
        probe p = probes[i];
        p.lists = lists;
        outcome string = try(t, &p);
        p.as_parts = true;
        outcome parts = try(t, &p);
        t->traits.takes_string[p.role] = string.shown;
        t->traits.takes_parts[p.role] = parts.shown;
        if (p.role == SAC_CHAT_USER) user[0] = string, user[1] = parts;
        if (p.role == SAC_CHAT_ASSISTANT && (string.shown || parts.shown))
            memcpy(t->traits.end, string.shown ? string.end : parts.end, sizeof t->traits.end);
    }
}

static void probe_media(sac_chat_template *t) {
    probe p = {.roles = {"user"}, .role = SAC_CHAT_USER, .as_parts = true, .media = {.n_placeholders = 1}};
    if (t->all->image) t->traits.writes_image = try(t, &p).has_image;
    p.media.is_video = true;
    if (t->all->video) t->traits.writes_video = try(t, &p).has_video;
}

/* What a tool's message is, behind a call; where the template shows it in no form it is written as the user's. */
static sac_status probe_tool(sac_chat_template *t, const json_t *call, sac_error *err) {
    json_t *fields = json_pack("{s:s, s:s}", "tool_call_id", "call00001", "name", "look");
    if (!fields) return sac_fail_no_memory(err);
    probe p = {.roles = {"user", "assistant", "tool"},
               .role = SAC_CHAT_TOOL,
               .looked_at = 2,
               .fields = fields,
               .call = call,
               .as_object = !t->traits.text_arguments};
    bool *takes_string = t->traits.takes_string, *takes_parts = t->traits.takes_parts;
    const outcome string = try(t, &p);
    p.as_parts = true;
    const outcome parts = try(t, &p);
    takes_string[SAC_CHAT_TOOL] = string.has_needle && !string.listed;
    takes_parts[SAC_CHAT_TOOL] = parts.has_needle && !parts.listed;
    if (!takes_string[SAC_CHAT_TOOL] && !takes_parts[SAC_CHAT_TOOL]) {
        takes_string[SAC_CHAT_TOOL] = takes_string[SAC_CHAT_USER];
        takes_parts[SAC_CHAT_TOOL] = takes_parts[SAC_CHAT_USER];
    }
    json_decref(fields);
    return SAC_OK;
}

static sac_status probe_calls(sac_chat_template *t, sac_error *err) {
    json_t *fields = json_pack("{s:[{s:s, s:s, s:{s:s, s:s}}]}", "tool_calls", "id", "call00001", "type",
                               "function", "function", "name", "look", "arguments", CALL);
    if (!fields) return sac_fail_no_memory(err);
    probe p = {.roles = {"user", "assistant"},
               .role = SAC_CHAT_USER,
               .as_parts = !t->traits.takes_string[SAC_CHAT_USER],
               .fields = fields};
    const outcome text = try(t, &p);
    p.as_object = true;
    const outcome object = try(t, &p);
    /* Where both come to the same the text is taken as it was written. Where they do not, the object is: callers of
     * transformers give one, and a template may take a text only for want of it. */
    const bool object_differs = object.status == SAC_OK && object.has_names && object.hash != text.hash;
    t->traits.text_arguments = text.has_call && !object_differs;
    sac_status st = probe_tool(t, fields, err);
    json_decref(fields);
    return st;
}

bool sac_chat_is_answer(const sac_chat_template *t, const char *role) {
    probe p = {.roles = {"user", "assistant"}, .role = SAC_CHAT_ASSISTANT, .looked_at = 1};
    p.as_parts = !t->traits.takes_string[SAC_CHAT_ASSISTANT];
    outcome answer = try(t, &p);
    p.roles[1] = role;
    p.role = sac_chat_role_of(role);
    outcome other = try(t, &p);
    return answer.status == SAC_OK && other.status == SAC_OK && answer.hash == other.hash;
}

sac_status sac_chat_probe(sac_chat_template *t, sac_error *err) {
    outcome user[2];
    probe_roles(t, NULL, user);
    if (user[0].status == SAC_BAD_FILE &&
        user[1].status == SAC_BAD_FILE) { /* it may want tools or documents */
        json_t *lists = json_loads(LISTS, 0, NULL);
        probe_roles(t, lists, user);
        json_decref(lists);
    }
    if (user[0].status == SAC_BAD_FILE && user[1].status == SAC_BAD_FILE)
        return sac_fail(err, SAC_BAD_FILE, "%s", user[0].err.text);
    probe_media(t);
    SAC_TRY(probe_calls(t, err));
    t->traits.else_is_answer = sac_chat_is_answer(t, "nobody");
    return SAC_OK;
}
