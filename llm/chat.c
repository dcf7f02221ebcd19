#include "chat.h"

#include <assert.h>
#include <string.h>

static const char *const vicuna_stops[] = {"USER:", NULL};
static const char *const chatml_stops[] = {"<|im_end|>", NULL};
static const char *const llama3_stops[] = {"<|eot_id|>", NULL};

#define MARKERS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Order matters for sac_chat_detect: a format whose markers include another's stands first. */
static const sac_chat_format formats[] = {
    {.name = "saccade",
     .source = "the demo model",
     .user_before = "<|user|>",
     .assistant_before = "<|assistant|>",
     .assistant_after = "<|end|>",
     .generation = "<|assistant|>",
     .media_after = "\n",
     .media_first = true,
     .markers = MARKERS("<|user|>", "<|assistant|>", "<|end|>", "<image>")},
    {.name = "chatml",
     .source = "Qwen2, LongVA (qwen_1_5)",
     .system_before = "<|im_start|>system\n",
     .system_after = "<|im_end|>\n",
     .user_before = "<|im_start|>user\n",
     .user_after = "<|im_end|>\n",
     .assistant_before = "<|im_start|>assistant\n",
     .assistant_after = "<|im_end|>\n",
     .generation = "<|im_start|>assistant\n",
     .media_after = "\n",
     .default_system = "You are a helpful assistant.",
     .media_first = true,
     .stops = chatml_stops,
     .markers = MARKERS("<|im_start|>", "<|im_end|>")},
    {.name = "llama-3",
     .source = "Llama-3-Instruct",
     .system_before = "<|start_header_id|>system<|end_header_id|>\n\n",
     .system_after = "<|eot_id|>",
     .user_before = "<|start_header_id|>user<|end_header_id|>\n\n",
     .user_after = "<|eot_id|>",
     .assistant_before = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .assistant_after = "<|eot_id|>",
     .generation = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .media_after = "\n",
     .media_first = true,
     .stops = llama3_stops,
     .markers = MARKERS("<|start_header_id|>", "<|eot_id|>")},
    {.name = "llama-2",
     .source = "Llama-2-chat",
     .system_before = "<<SYS>>\n",
     .system_after = "\n<</SYS>>\n\n",
     .user_before = "[INST] ",
     .user_after = " [/INST]",
     .assistant_before = " ",
     .assistant_after = " </s><s>",
     .media_after = "\n",
     .system_in_user = true,
     .media_first = true,
     .markers = MARKERS("[INST]", "<<SYS>>")},
    {.name = "mistral",
     .source = "Mistral-7B-Instruct, LLaVA-NeXT-Mistral",
     .system_after = "\n\n",
     .user_before = "[INST] ",
     .user_after = " [/INST]",
     .assistant_before = " ",
     .assistant_after = "</s>",
     .media_after = "\n",
     .system_in_user = true,
     .media_first = true,
     .markers = MARKERS("[INST]", "[/INST]")},
    {.name = "vicuna",
     .source = "Vicuna-1.5, LLaVA-1.5",
     .system_after = " ",
     .user_before = "USER: ",
     .user_after = " ",
     .assistant_before = "ASSISTANT: ",
     .assistant_after = " ",
     .generation = "ASSISTANT:",
     .media_after = "\n",
     .media_first = true,
     .stops = vicuna_stops,
     .markers = MARKERS("ASSISTANT:")},
    {.name = "plain",
     .source = "base models: text as it is",
     .media_after = "\n",
     .markers = MARKERS("\x01 never in a template")},
};

static const char *const names[] = {"saccade", "chatml", "llama-3", "llama-2",
                                    "mistral", "vicuna", "plain",   NULL};
_Static_assert(SAC_COUNT(names) == SAC_COUNT(formats) + 1, "every format has its name in the list");

const char *const *sac_chat_names(void) {
    return names;
}

const sac_chat_format *sac_chat_find(const char *name) {
    for (size_t i = 0; i < SAC_COUNT(formats); i++)
        if (strcmp(formats[i].name, name) == 0) return &formats[i];
    return NULL;
}

const sac_chat_format *sac_chat_detect(const char *template_text) {
    for (size_t i = 0; i < SAC_COUNT(formats); i++) {
        const char *const *m = formats[i].markers;
        while (*m && strstr(template_text, *m)) m++;
        if (!*m) return &formats[i];
    }
    return NULL;
}

/* ---------------------------------------------------------------- rendering */

typedef struct writer {
    const sac_chat_format *format;
    sac_text_segment *segments;
    size_t n, capacity;
    int32_t image_token;
} writer;

static void put(writer *w, const char *text, size_t n_bytes, bool parse_special) {
    if (!text || n_bytes == 0) return;
    assert(w->n < w->capacity);
    w->segments[w->n++] =
        (sac_text_segment){.text = text, .n_bytes = n_bytes, .parse_special = parse_special};
}

static void put_template(writer *w, const char *text) {
    if (text) put(w, text, strlen(text), true);
}

static void put_media(writer *w, const sac_chat_part *p) {
    for (int64_t i = 0; i < p->n_placeholders; i++) {
        assert(w->n < w->capacity);
        w->segments[w->n++] = (sac_text_segment){.is_token = true, .token_id = w->image_token};
        put_template(w, w->format->media_after);
    }
}

static void put_parts(writer *w, const sac_chat_message *m) {
    for (size_t i = 0; w->format->media_first && i < m->n_parts; i++) put_media(w, &m->parts[i]);
    for (size_t i = 0; i < m->n_parts; i++) {
        if (m->parts[i].n_placeholders == 0)
            put(w, m->parts[i].text, m->parts[i].n_bytes, false);
        else if (!w->format->media_first)
            put_media(w, &m->parts[i]);
    }
}

static void put_system(writer *w, const sac_chat_message *system) {
    const sac_chat_format *f = w->format;
    if (!system && !f->default_system) return;
    put_template(w, f->system_before);
    if (system)
        put_parts(w, system);
    else
        put_template(w, f->default_system);
    put_template(w, f->system_after);
}

size_t sac_chat_max_segments(size_t n_messages, size_t n_parts, int64_t n_placeholders) {
    return 8 + 4 * n_messages + n_parts + 2 * (size_t)n_placeholders;
}

static bool is_role(const sac_chat_message *m, const char *role) {
    return strcmp(m->role, role) == 0;
}

sac_status sac_chat_render(const sac_chat_format *f, const sac_chat_message *messages, size_t n_messages,
                           bool add_generation_prompt, int32_t image_token, sac_text_segment *segments,
                           size_t capacity, size_t *n_segments, sac_error *err) {
    writer w = {.format = f, .segments = segments, .capacity = capacity, .image_token = image_token};
    const sac_chat_message *system = n_messages > 0 && is_role(&messages[0], "system") ? &messages[0] : NULL;
    bool system_is_due = f->system_in_user; /* inside the first user message */
    if (!system_is_due) put_system(&w, system);
    for (size_t i = system ? 1 : 0; i < n_messages; i++) {
        const sac_chat_message *m = &messages[i];
        if (is_role(m, "user")) {
            put_template(&w, f->user_before);
            if (system_is_due) put_system(&w, system);
            system_is_due = false;
            put_parts(&w, m);
            put_template(&w, f->user_after);
        } else if (is_role(m, "assistant")) {
            put_template(&w, f->assistant_before);
            put_parts(&w, m);
            put_template(&w, f->assistant_after);
        } else if (is_role(m, "system"))
            return sac_fail(err, SAC_BAD_ARGUMENT, "message %zu: a system message must be the first", i);
        else
            return sac_fail(err, SAC_BAD_ARGUMENT,
                            "message %zu: role \"%s\" is none of system, user, assistant", i, m->role);
    }
    if (add_generation_prompt) put_template(&w, f->generation);
    *n_segments = w.n;
    return SAC_OK;
}
