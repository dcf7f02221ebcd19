#include "chat.h"

#include "unicode.h"
#include "utf8.h"

#include <string.h>

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

#define CHATML_TURNS                                                                                         \
    .system_before = "<|im_start|>system\n", .system_after = "<|im_end|>\n",                                 \
    .user_before = "<|im_start|>user\n", .user_after = "<|im_end|>\n",                                       \
    .assistant_before = "<|im_start|>assistant\n", .assistant_after = "<|im_end|>\n",                        \
    .generation = "<|im_start|>assistant\n", .stops = LIST("<|im_end|>", "<|endoftext|>")
#define CHATML         CHATML_TURNS, .media_after = "\n"

#define QWEN25_SYSTEM  "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
#define SMOLLM2_SYSTEM "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
#define INTERNVL_SYSTEM                                                                                      \
    "你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家合作单位联合开发的多模态大语言模型。"
#define QWEN2_SYSTEM   "You are a helpful assistant."
#define VICUNA_SYSTEM                                                                                        \
    "A chat between a curious user and an artificial intelligence assistant. "                               \
    "The assistant gives helpful, detailed, and polite answers to the user's questions."

/* Order matters for sac_chat_detect: a format whose markers include another's stands first. */
static const sac_chat_format formats[] = {
    {.name = "saccade",
     .source = "the demo model",
     .user_before = "<|user|>",
     .assistant_before = "<|assistant|>",
     .assistant_after = "<|end|>",
     .generation = "<|assistant|>",
     .media_after = "\n",
     .system = SAC_SYSTEM_NONE,
     .stops = LIST("<|end|>"),
     .markers = LIST("<|user|>", "<|assistant|>", "<|end|>", "<image>")},
    {.name = "chatml-qwen2.5",
     .source = "Qwen2.5-Instruct",
     CHATML,
     .default_system = QWEN25_SYSTEM,
     .markers = LIST("<|im_start|>", QWEN25_SYSTEM)},
    {.name = "chatml-smollm2",
     .source = "SmolLM2-Instruct",
     CHATML,
     .default_system = SMOLLM2_SYSTEM,
     .markers = LIST("<|im_start|>", SMOLLM2_SYSTEM)},
    {.name = "qwen2-vl",
     .source = "Qwen2-VL-Instruct, Qwen2.5-VL-Instruct",
     CHATML_TURNS,
     .media_before = "<|vision_start|>",
     .media_after = "<|vision_end|>",
     .media_in_place = true,
     .default_system = QWEN2_SYSTEM,
     .markers = LIST("<|im_start|>", "<|vision_start|>", "<|image_pad|>", QWEN2_SYSTEM)},
    {.name = "qwen3-vl",
     .source = "Qwen3-VL-Instruct",
     CHATML_TURNS,
     .media_before = "<|vision_start|>",
     .media_after = "<|vision_end|>",
     .media_in_place = true},
    {.name = "internvl2_5",
     .source = "InternVL 2.5, 3 and 3.5 in their authors' code (conversation.py)",
     CHATML,
     .media_in_place = true,
     .default_system = INTERNVL_SYSTEM},
    {.name = "chatml",
     .source = "Qwen2-Instruct, LongVA (qwen_1_5)",
     CHATML,
     .default_system = QWEN2_SYSTEM,
     .markers = LIST("<|im_start|>", QWEN2_SYSTEM)},
    {.name = "chatml-plain",
     .source = "ChatML without a system text of its own: Yi-Chat, LLaVA-NeXT-34B",
     CHATML,
     .markers = LIST("<|im_start|>", "<|im_end|>"),
     .unless = "<|im_sep|>"},
    {.name = "llama-3",
     .source = "Llama-3-Instruct",
     .begin = "<|begin_of_text|>",
     .system_before = "<|start_header_id|>system<|end_header_id|>\n\n",
     .system_after = "<|eot_id|>",
     .user_before = "<|start_header_id|>user<|end_header_id|>\n\n",
     .user_after = "<|eot_id|>",
     .assistant_before = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .assistant_after = "<|eot_id|>",
     .generation = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .media_after = "\n",
     .trim = SAC_TRIM_SYSTEM | SAC_TRIM_USER | SAC_TRIM_ASSISTANT,
     .stops = LIST("<|eot_id|>", "<|end_of_text|>"),
     .markers = LIST("<|start_header_id|>", "<|eot_id|>")},
    {.name = "llava-mistral",
     .source = "LLaVA-NeXT on Mistral",
     .system_before = "<<SYS>>\n",
     .system_after = "\n<</SYS>>\n\n",
     .user_before = "[INST] ",
     .user_after = " [/INST]",
     .assistant_before = " ",
     .assistant_after = "</s> ",
     .media_after = "\n",
     .markers = LIST("[INST]", "<<SYS>>", "<image>")},
    {.name = "llama-2",
     .source = "Llama-2-chat",
     .system_before = "<<SYS>>\n",
     .system_after = "\n<</SYS>>\n\n",
     .user_before = "<s>[INST] ",
     .user_after = " [/INST]",
     .assistant_before = " ",
     .assistant_after = " </s>",
     .media_after = "\n",
     .system = SAC_SYSTEM_FIRST,
     .trim = SAC_TRIM_USER | SAC_TRIM_ASSISTANT,
     .alternates = true,
     .markers = LIST("[INST]", "<<SYS>>")},
    {.name = "mistral-v3",
     .source = "Mistral-7B-Instruct-v0.3",
     .begin = "<s>",
     .system_after = "\n\n",
     .user_before = "[INST] ",
     .user_after = "[/INST]",
     .assistant_before = " ",
     .assistant_after = "</s>",
     .media_after = "\n",
     .system = SAC_SYSTEM_LAST,
     .trim = SAC_TRIM_ASSISTANT,
     .alternates = true,
     .markers = LIST("\"[INST] \"", "\"[/INST]\"")},
    {.name = "mistral-v1",
     .source = "Mistral-7B-Instruct-v0.1 and v0.2, the template with a system message",
     .begin = "<s>",
     .system_after = "\n\n",
     .user_before = " [INST] ",
     .user_after = " [/INST]",
     .assistant_before = " ",
     .assistant_after = "</s>",
     .media_after = "\n",
     .system = SAC_SYSTEM_FIRST,
     .alternates = true,
     .markers = LIST("' [INST] '", "' [/INST]'")},
    {.name = "mistral",
     .source = "Mistral-7B-Instruct-v0.2, the first template",
     .begin = "<s>",
     .user_before = "[INST] ",
     .user_after = " [/INST]",
     .assistant_after = "</s>",
     .media_after = "\n",
     .system = SAC_SYSTEM_NONE,
     .alternates = true,
     .markers = LIST("[INST]", "[/INST]"),
     .unless = "[SYSTEM_PROMPT]"},
    {.name = "vicuna-v1.1",
     .source = "Vicuna 1.5, the authors' LLaVA (vicuna_v1)",
     .system_after = " ",
     .user_before = "USER: ",
     .user_after = " ",
     .assistant_before = "ASSISTANT: ",
     .assistant_after = "</s>",
     .generation = "ASSISTANT:",
     .media_after = "\n",
     .default_system = VICUNA_SYSTEM,
     .markers = LIST("ASSISTANT:", "A chat between a curious user")},
    {.name = "vicuna",
     .source = "LLaVA-1.5, LLaVA-NeXT on Vicuna",
     .user_before = "USER: ",
     .assistant_before = "ASSISTANT: ",
     .generation = "ASSISTANT:",
     .text_after = " ",
     .media_after = "\n",
     .markers = LIST("ASSISTANT:")},
    {.name = "gemma",
     .source = "Gemma 2 and 3 instruct",
     .begin = "<bos>",
     .system_after = "\n\n",
     .user_before = "<start_of_turn>user\n",
     .user_after = "<end_of_turn>\n",
     .assistant_before = "<start_of_turn>model\n",
     .assistant_after = "<end_of_turn>\n",
     .generation = "<start_of_turn>model\n",
     .system = SAC_SYSTEM_FIRST,
     .trim = SAC_TRIM_USER | SAC_TRIM_ASSISTANT,
     .alternates = true,
     .media_in_place = true,
     .stops = LIST("<end_of_turn>"),
     .markers = LIST("<start_of_turn>", "<end_of_turn>")},
    {.name = "plain", .source = "base models: text as it is", .media_after = "\n", .media_in_place = true},
};

static const char *const names[] = {
    "saccade",    "chatml",  "chatml-plain",  "chatml-qwen2.5", "chatml-smollm2",
    "llama-2",    "llama-3", "llava-mistral", "mistral",        "mistral-v1",
    "mistral-v3", "vicuna",  "vicuna-v1.1",   "plain",          "qwen2-vl",
    "qwen3-vl",   "gemma",   "internvl2_5",   NULL};
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
        if (!m || (formats[i].unless && strstr(template_text, formats[i].unless))) continue;
        while (*m && strstr(template_text, *m)) m++;
        if (!*m) return &formats[i];
    }
    return NULL;
}

/* ---- rendering ---- */

typedef struct writer {
    const sac_chat_format *format;
    sac_text_segment *segments;
    size_t n, capacity; /* n counts on beyond the capacity */
    int32_t image_token;
} writer;

static void put_segment(writer *w, sac_text_segment s) {
    if (w->n < w->capacity) w->segments[w->n] = s;
    w->n++;
}

static void put(writer *w, const char *text, size_t n_bytes, bool parse_special) {
    if (text && n_bytes)
        put_segment(w, (sac_text_segment){.text = text, .n_bytes = n_bytes, .parse_special = parse_special});
}

static void put_template(writer *w, const char *text) {
    if (text) put(w, text, strlen(text), true);
}

static void put_media(writer *w, const sac_chat_part *p) {
    for (int64_t i = 0; i < p->n_placeholders; i++) {
        put_template(w, w->format->media_before);
        put_segment(w, (sac_text_segment){.is_token = true, .token_id = w->image_token});
        put_template(w, w->format->media_after);
    }
}

static void put_parts(writer *w, const sac_chat_message *m) {
    bool in_place = w->format->media_in_place;
    for (size_t i = 0; !in_place && i < m->n_parts; i++) put_media(w, &m->parts[i]);
    for (size_t i = 0; i < m->n_parts; i++) {
        if (m->parts[i].n_placeholders == 0) {
            put(w, m->parts[i].text, m->parts[i].n_bytes, false);
            put_template(w, w->format->text_after);
        } else if (in_place) {
            put_media(w, &m->parts[i]);
        }
    }
}

static bool is_python_space(uint32_t c) { /* what str.strip takes away */
    return sac_is_space(c) || (c >= 0x1c && c <= 0x1f);
}

static void trim_left(sac_text_segment *s) {
    const char *end = s->text + s->n_bytes;
    size_t n;
    while (s->text < end && sac_utf8_next(s->text, end, &n, NULL) &&
           is_python_space(sac_utf8_decode(s->text)))
        s->text += n;
    s->n_bytes = (size_t)(end - s->text);
}

static void trim_right(sac_text_segment *s) {
    while (s->n_bytes) {
        const char *end = s->text + s->n_bytes, *last = end - 1;
        size_t n;
        while (last > s->text && sac_utf8_continues(*last)) last--;
        if (!sac_utf8_next(last, end, &n, NULL) || last + n != end || !is_python_space(sac_utf8_decode(last)))
            return;
        s->n_bytes = (size_t)(last - s->text);
    }
}

/* Segments from `first` on are one content, trimmed as a whole. */
static void trim(writer *w, size_t first) {
    if (w->n > w->capacity) return;
    for (size_t i = first; i < w->n && !w->segments[i].is_token; i++) {
        trim_left(&w->segments[i]);
        if (w->segments[i].n_bytes) break;
    }
    for (size_t i = w->n; i > first && !w->segments[i - 1].is_token; i--) {
        trim_right(&w->segments[i - 1]);
        if (w->segments[i - 1].n_bytes) break;
    }
}

static void put_system(writer *w, const sac_chat_message *system) {
    const sac_chat_format *f = w->format;
    if (!system && !f->default_system) return;
    put_template(w, f->system_before);
    size_t first = w->n;
    if (system)
        put_parts(w, system);
    else
        put_template(w, f->default_system);
    if (f->trim & SAC_TRIM_SYSTEM) trim(w, first);
    put_template(w, f->system_after);
}

/* system: to stand inside this message, or NULL. */
static void put_user(writer *w, const sac_chat_message *m, const sac_chat_message *system) {
    put_template(w, w->format->user_before);
    size_t first = w->n;
    if (system) put_system(w, system);
    put_parts(w, m);
    if (w->format->trim & SAC_TRIM_USER) trim(w, first);
    put_template(w, w->format->user_after);
}

static void put_assistant(writer *w, const sac_chat_message *m) {
    put_template(w, w->format->assistant_before);
    size_t first = w->n;
    put_parts(w, m);
    if (w->format->trim & SAC_TRIM_ASSISTANT) trim(w, first);
    put_template(w, w->format->assistant_after);
}

static bool is_role(const sac_chat_message *m, const char *role) {
    return strcmp(m->role, role) == 0;
}

static sac_status check_roles(const sac_chat_format *f, const sac_chat_message *messages, size_t n,
                              bool has_system, sac_error *err) {
    if (has_system && f->system == SAC_SYSTEM_NONE)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "chat format \"%s\" has no system message: put it into the question", f->name);
    for (size_t i = has_system; i < n; i++) {
        bool user = is_role(&messages[i], "user"), assistant = is_role(&messages[i], "assistant");
        if (is_role(&messages[i], "system"))
            return sac_fail(err, SAC_BAD_ARGUMENT, "message %zu: a system message must be the first", i);
        if (!user && !assistant)
            return sac_fail(err, SAC_BAD_ARGUMENT,
                            "message %zu: role \"%.40s\" is none of system, user, assistant", i,
                            messages[i].role);
        if (f->alternates && user != ((i - has_system) % 2 == 0))
            return sac_fail(err, SAC_BAD_ARGUMENT,
                            "message %zu: in chat format \"%s\" user and assistant must take turns", i,
                            f->name);
    }
    return SAC_OK;
}

size_t sac_chat_max_segments(size_t n_messages, size_t n_parts, int64_t n_placeholders) {
    return 8 + 4 * n_messages + 2 * n_parts + 2 * (size_t)n_placeholders;
}

sac_status sac_chat_render(const sac_chat_format *f, const sac_chat_message *messages, size_t n_messages,
                           bool add_generation_prompt, int32_t image_token, sac_text_segment *segments,
                           size_t capacity, size_t *n_segments, sac_error *err) {
    writer w = {.format = f, .segments = segments, .capacity = capacity, .image_token = image_token};
    const sac_chat_message *system = n_messages > 0 && is_role(&messages[0], "system") ? &messages[0] : NULL;
    size_t first = system ? 1 : 0, host = f->system == SAC_SYSTEM_FIRST ? first : n_messages - 1;
    SAC_TRY(check_roles(f, messages, n_messages, system != NULL, err));
    if (system && f->system != SAC_SYSTEM_MESSAGE &&
        (host >= n_messages || !is_role(&messages[host], "user")))
        return sac_fail(
            err, SAC_BAD_ARGUMENT,
            "chat format \"%s\" puts the system message into a question, and there is none to hold it",
            f->name);
    put_template(&w, f->begin);
    if (f->system == SAC_SYSTEM_MESSAGE) put_system(&w, system);
    for (size_t i = first; i < n_messages; i++) {
        if (is_role(&messages[i], "user"))
            put_user(&w, &messages[i], i == host && f->system != SAC_SYSTEM_MESSAGE ? system : NULL);
        else
            put_assistant(&w, &messages[i]);
    }
    if (add_generation_prompt) put_template(&w, f->generation);
    *n_segments = w.n;
    if (w.n > capacity)
        return sac_fail(err, SAC_INTERNAL, "a conversation of %zu segments, there is room for %zu", w.n,
                        capacity);
    return SAC_OK;
}
