#include "dialect.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

/* A tool and an id that any template takes: Mistral's want nine letters and digits. */
#define TOOL     "saccade_probe"
#define QUESTION "saccade asks"

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"" TOOL
    "\", \"description\": \"A probe.\", \"parameters\": {\"type\": \"object\", \"properties\": "
    "{\"x\": {\"type\": \"string\", \"description\": \"A text.\"}}, \"required\": [\"x\"]}}}]";
static const char call[] =
    "{\"tool_calls\": [{\"id\": \"abcdef012\", \"type\": \"function\", \"function\": {\"name\": \"" TOOL
    "\", \"arguments\": {\"x\": \"y\"}}}]}";
static const char thought[] = "{\"reasoning_content\": \"saccade thinks\"}";

/* The conversation as the template writes it; NULL where it does not take it. Freed by the caller. */
static char *render(const sac_model *m, const sac_message *messages, size_t n, const sac_chat_options *o) {
    size_t n_bytes = 0;
    char *text = NULL;
    sac_status st = sac_chat_preview(m, messages, n, o, NULL, 0, &n_bytes, NULL);
    if (st != SAC_OK && st != SAC_TOO_LONG) return NULL;
    text = calloc(1, n_bytes + 1);
    if (text && sac_chat_preview(m, messages, n, o, text, n_bytes + 1, &n_bytes, NULL) == SAC_OK) return text;
    free(text);
    return NULL;
}

/* A question, and the model's answer with these fields and this text (NULL = none), with tools or variables. */
static char *render_answer(const sac_model *m, const char *fields, const char *text, bool with_tools,
                           const char *variables) {
    sac_part parts[] = {{.kind = SAC_PART_TEXT, .text = QUESTION}, {.kind = SAC_PART_TEXT, .text = text}};
    sac_message messages[] = {
        {.role = "user", .parts = &parts[0], .n_parts = 1},
        {.role = "assistant", .parts = &parts[1], .n_parts = text != NULL, .fields = fields}};
    bool answered = fields || text;
    sac_chat_options o = {
        .tools = with_tools ? tools : NULL, .variables = variables, .no_generation_prompt = answered};
    return render(m, messages, answered ? 2 : 1, &o);
}

static void look_at_calls(serve_dialect *d, const sac_model *m) {
    char *offered = render_answer(m, NULL, NULL, true, NULL),
         *called = render_answer(m, call, NULL, true, NULL);
    if (!called) called = render_answer(m, call, "", true, NULL);
    char *behind = called ? strstr(called, QUESTION) : NULL;
    d->takes_tools = offered && strstr(offered, TOOL);
    if (d->takes_tools) d->calls = call_format_of(behind ? behind : offered);
    free(offered);
    free(called);
}

/* It is written for an answer that has some, or closed in the prompt when it is switched off, or opened there. */
static const reasoning_format *look_at_reasoning(const sac_model *m) {
    char *texts[] = {render_answer(m, thought, "yes", false, NULL),
                     render_answer(m, NULL, NULL, false, "{\"enable_thinking\": false}"),
                     render_answer(m, NULL, NULL, false, NULL)};
    const reasoning_format *found = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i] && !found) found = reasoning_format_of(texts[i]);
        free(texts[i]);
    }
    return found;
}

static bool is_auto(const char *name) {
    return !name || !strcmp(name, "auto");
}

static sac_status choose(serve_dialect *d, const char *tool_parser, const char *reasoning_parser,
                         sac_error *err) {
    if (!is_auto(tool_parser)) {
        d->calls = call_format_find(tool_parser);
        if (!d->calls && strcmp(tool_parser, "none") != 0)
            return sac_fail(err, SAC_BAD_ARGUMENT,
                            "--tool-parser '%.60s' is not known: auto, none, hermes, mistral and llama3 are",
                            tool_parser);
    }
    if (!is_auto(reasoning_parser)) {
        d->reasoning = reasoning_format_find(reasoning_parser);
        if (!d->reasoning && strcmp(reasoning_parser, "none") != 0)
            return sac_fail(
                err, SAC_BAD_ARGUMENT,
                "--reasoning-parser '%.60s' is not known: auto, none, think, magistral and seed are",
                reasoning_parser);
    }
    return SAC_OK;
}

static void add_marks(serve_dialect *d, const char *const *marks) {
    size_t n = 0;
    while (d->marks[n]) n++;
    for (; *marks && n < DIALECT_MAX_MARKS; marks++) d->marks[n++] = *marks;
}

sac_status serve_dialect_find(serve_dialect *d, const sac_model *m, const char *tool_parser,
                              const char *reasoning_parser, sac_error *err) {
    *d = (serve_dialect){.model = m};
    look_at_calls(d, m);
    d->reasoning = is_auto(reasoning_parser) ? look_at_reasoning(m) : NULL;
    SAC_TRY(choose(d, tool_parser, reasoning_parser, err));
    if (d->calls) add_marks(d, d->calls->marks);
    if (d->reasoning) add_marks(d, d->reasoning->marks);
    return SAC_OK;
}

/* Whether the text ends with the mark, white space aside. */
static bool ends_with(const char *text, const char *mark) {
    size_t n = strlen(text), n_mark = strlen(mark);
    while (n && strchr(" \t\r\n", text[n - 1])) n--;
    return n >= n_mark && !memcmp(text + n - n_mark, mark, n_mark);
}

/* A message that is gone on with may have begun to think. */
static bool breaks_off_inside(const reasoning_format *f, const sac_message *last) {
    const char *text = last->n_parts ? last->parts[last->n_parts - 1].text : NULL, *opener = NULL;
    for (const char *at = text; at && (at = strstr(at, f->opener)); at++) opener = at;
    return opener && !strstr(opener, f->closer);
}

bool serve_dialect_ends_inside(const serve_dialect *d, const sac_message *messages, size_t n_messages,
                               const sac_chat_options *o, bool *closed) {
    *closed = false;
    if (!d->reasoning || n_messages == 0) return false;
    if (o->continue_final_message && breaks_off_inside(d->reasoning, &messages[n_messages - 1])) return true;
    char *prompt = render(d->model, messages, n_messages, o);
    bool inside = prompt && ends_with(prompt, d->reasoning->opener);
    *closed = prompt && ends_with(prompt, d->reasoning->closer);
    free(prompt);
    return inside;
}
