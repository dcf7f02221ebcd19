/* inspect.c - `saccade inspect`: what a model is and what it takes. */
#include "attention_map.h"
#include "commands.h"
#include "draft.h"
#include "inspect_tokens.h"
#include "output.h"
#include "report.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_tensors(const sac_model *m) {
    puts("tensors");
    sac_tensor_info t;
    for (int64_t i = 0; sac_model_get_tensor(m, i, &t); i++) {
        char shape[100] = "";
        size_t n = 0;
        for (int d = 0; d < t.n_dims && n < sizeof shape; d++)
            n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%" PRId64, d ? " x " : "", t.dim[d]);
        printf("  %-70s %-6s %16s %10s\n", t.name, t.dtype, shape, report_bytes((double)t.n_bytes));
    }
}

static const char *effect_name(sac_key_effect e) {
    return e == SAC_KEY_IS_HONOURED ? "honoured" : e == SAC_KEY_IS_UNKNOWN ? "unknown" : "no effect";
}

static void print_keys(const sac_model *m) {
    puts("keys");
    sac_key_info k;
    for (int64_t i = 0; sac_model_get_key(m, i, &k); i++)
        printf("  %-26s %-50s %s\n", k.file, k.name, effect_name(k.effect));
}

/* NULL when out of memory. */
static json_t *keys_as_json(const sac_model *m, bool all) {
    json_t *list = json_array();
    sac_key_info k;
    for (int64_t i = 0; list && sac_model_get_key(m, i, &k); i++) {
        if (!all && k.effect != SAC_KEY_IS_UNKNOWN) continue;
        json_t *row = json_pack("{s:s, s:o, s:s}", "file", k.file, "key", report_text(k.name), "effect",
                                effect_name(k.effect));
        if (!json_array_append_new(list, row)) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

static void print_row(const char *name, const char *value) {
    printf("%-20s %s\n", name, value);
}

/* A small conversation as the model reads it; with a picture where it sees any. NULL: *err says why not. */
static char *preview(const run *r, sac_error *err) {
    enum { ROOM = 1 << 16 };
    static const sac_part picture[] = {{.kind = SAC_PART_IMAGE, .path = ""},
                                       {.kind = SAC_PART_TEXT, .text = "What is this?"}};
    static const sac_part said = {.kind = SAC_PART_TEXT, .text = "A cat."},
                          question = {.kind = SAC_PART_TEXT, .text = "Which colour?"};
    size_t from = r->info.has_vision ? 0 : 1, n_bytes;
    const sac_message messages[] = {{.role = "user", .parts = picture + from, .n_parts = 2 - from},
                                    {.role = "assistant", .parts = &said, .n_parts = 1},
                                    {.role = "user", .parts = &question, .n_parts = 1}};
    char *text = malloc(ROOM);
    if (!text) {
        sac_fail_no_memory(err);
        return NULL;
    }
    if (sac_chat_preview(r->model, messages, 3, &r->chat, text, ROOM, &n_bytes, err) == SAC_OK) return text;
    free(text);
    return NULL;
}

/* Lines of the rendering, each behind the column of values; of other control characters nothing reaches a terminal. */
static void print_preview(const run *r) {
    sac_error err;
    char *text = preview(r, &err);
    print_row("chat, for example", text ? "" : err.text);
    for (char *line = text, *end; line; line = end ? end + 1 : NULL) {
        end = strchr(line, '\n');
        if (end) *end = 0;
        for (char *c = line; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
        printf("%-20s |%s%s\n", "", line, end ? "" : "|");
    }
    free(text);
}

static void print_adapters(const sac_model *m) {
    sac_adapter_info a;
    char text[400];
    for (int64_t i = 0; sac_model_get_adapter(m, i, &a); i++) {
        snprintf(text, sizeof text, "%.100s%s%.200s (%s of rank %d, %d tensors, %s, scale %g)",
                 a.name ? a.name : "", a.name ? " = " : "", a.folder, a.kind, a.rank, a.n_tensors,
                 report_bytes((double)a.n_bytes), a.scale);
        print_row(i ? "" : "adapters", text);
    }
}

/* "7,241,732,096 (7.2 B)", "19,518,976 (19.5 M)", "51,033" */
static void print_in_millions(char *text, size_t room, int64_t n) {
    int used = snprintf(text, room, "%s", report_count(n));
    double millions = (double)n / 1e6;
    if (n >= 1000000)
        snprintf(text + used, room - (size_t)used, millions < 1e3 ? " (%.1f M)" : " (%.1f B)",
                 millions < 1e3 ? millions : millions / 1e3);
}

/* Of tensors in several types: what each has of the bytes, from a hundredth on, the most first. */
static void append_types(const sac_model *m, char *text, size_t room) {
    enum { MOST = 24 };
    struct {
        const char *name;
        double n_bytes;
    } types[MOST], next;
    int n = 0;
    double all = 0;
    sac_tensor_info t;
    for (int64_t i = 0; sac_model_get_tensor(m, i, &t); i++) {
        int k = 0;
        while (k < n && strcmp(types[k].name, t.dtype)) k++;
        if (k == MOST) continue;
        if (k == n) types[n].name = t.dtype, types[n++].n_bytes = 0;
        types[k].n_bytes += (double)t.n_bytes;
        all += (double)t.n_bytes;
        for (; k && types[k].n_bytes > types[k - 1].n_bytes; k--)
            next = types[k], types[k] = types[k - 1], types[k - 1] = next;
    }
    const char *before = " (";
    for (int k = 0; k < n && n > 1 && types[1].n_bytes >= 0.01 * all; k++, before = ", ") {
        if (types[k].n_bytes < 0.01 * all) break;
        size_t used = strlen(text);
        snprintf(text + used, room - used, "%s%s %.0f %%", before, types[k].name,
                 100 * types[k].n_bytes / all);
    }
    size_t used = strlen(text);
    if (before[0] == ',') snprintf(text + used, room - used, ")");
}

static void print_model(const run *r) {
    const sac_model_info *m = &r->info;
    char text[200];
    print_row("model", r->model_path);
    if (m->mmproj) print_row("vision half", m->mmproj);
    print_row("family", m->family);
    print_in_millions(text, sizeof text, m->n_parameters);
    print_row("parameters", text);
    snprintf(text, sizeof text, "%s, %s", m->dtype, report_bytes((double)m->weight_bytes));
    append_types(r->model, text, sizeof text);
    print_row("weights", text);
    print_adapters(r->model);
    snprintf(text, sizeof text, "%s%s%.150s", m->chat_format, m->chat_source ? " " : "",
             m->chat_source ? m->chat_source : "");
    print_row("chat format", text);
    print_preview(r);
    print_row("tokenizer", m->tokenizer);
    char experts[60] = "";
    if (m->n_experts)
        snprintf(experts, sizeof experts, ", %d of %d experts of %d", m->n_experts_used, m->n_experts,
                 m->expert_intermediate);
    snprintf(text, sizeof text,
             "%d layers x %d, %d query heads and %d key-value heads of %d, feed-forward %d%s, vocabulary %s",
             m->n_layers, m->hidden, m->n_heads, m->n_kv_heads, m->head_dim, m->intermediate, experts,
             report_count(m->vocab));
    print_row("language model", text);
    snprintf(text, sizeof text, "%s, rope theta %g", report_counted(m->max_context, "token"), m->rope_theta);
    print_row("context", text);
    char size[40];
    snprintf(size, sizeof size, m->image_size ? "%dx%d pixels" : "pictures of any size", m->image_size,
             m->image_size);
    if (m->has_vision)
        snprintf(text, sizeof text,
                 "%d layers x %d, %d heads, %s in patches of %d; %d tokens a %s; processor %s",
                 m->vision_layers, m->vision_hidden, m->vision_heads, size, m->patch_size,
                 m->tokens_per_frame, m->image_size ? "picture" : "frame of a video at most", m->processor);
    print_row("vision", m->has_vision ? text : "none");
    snprintf(text, sizeof text, "%s, %s", m->cpu, report_counted(m->n_threads, "thread"));
    print_row("processor", text);
    putchar('\n');
}

static void print_settings(const sac_model *m) {
    sac_setting_info s;
    if (sac_model_get_setting(m, 0, &s)) puts("settings of generation");
    int64_t i = 0;
    for (; sac_model_get_setting(m, i, &s); i++)
        printf("  %-34s %s%s\n", s.name, s.value,
               s.has_effect ? ""
               : s.is_known ? "  (without effect)"
                            : "  (not known, without effect)");
    if (i) putchar('\n');
}

/* NULL when out of memory. */
static json_t *settings_as_json(const sac_model *m) {
    json_t *list = json_array();
    sac_setting_info s;
    for (int64_t i = 0; list && sac_model_get_setting(m, i, &s); i++) {
        json_t *row = json_pack("{s:o, s:o, s:b, s:b}", "name", report_text(s.name), "value",
                                report_text(s.value), "has_effect", s.has_effect, "is_known", s.is_known);
        if (!json_array_append_new(list, row)) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

/* NULL when out of memory. */
static json_t *tensors_as_json(const sac_model *m) {
    json_t *list = json_array();
    sac_tensor_info t;
    for (int64_t i = 0; list && sac_model_get_tensor(m, i, &t); i++) {
        json_t *dims = json_array();
        for (int d = 0; d < t.n_dims; d++) json_array_append_new(dims, json_integer(t.dim[d]));
        json_t *row = json_pack("{s:o, s:s, s:o, s:I}", "name", report_text(t.name), "dtype", t.dtype,
                                "shape", dims, "bytes", (json_int_t)t.n_bytes);
        if (!json_array_append_new(list, row)) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

static json_t *language_as_json(const sac_model_info *m) {
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:o}", "layers", m->n_layers,
                     "hidden", m->hidden, "heads", m->n_heads, "kv_heads", m->n_kv_heads, "head_dim",
                     m->head_dim, "intermediate", m->intermediate, "experts", m->n_experts, "experts_used",
                     m->n_experts_used, "expert_intermediate", m->expert_intermediate, "vocab", m->vocab,
                     "max_context", (json_int_t)m->max_context, "rope_theta", report_real(m->rope_theta));
}

static json_t *vision_as_json(const sac_model_info *m) {
    if (!m->has_vision) return json_null();
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:s?}", "layers", m->vision_layers, "hidden",
                     m->vision_hidden, "heads", m->vision_heads, "image_size", m->image_size, "patch_size",
                     m->patch_size, "tokens_per_frame", m->tokens_per_frame, "processor", m->processor);
}

static sac_status print_json(const run *r, const sac_memory_report *memory, sac_error *err) {
    json_t *object = json_pack("{s:o, s:o, s:o, s:o, s:o, s:i, s:s?}", "model", report_model(r),
                               "language_model", language_as_json(&r->info), "vision",
                               vision_as_json(&r->info), "generation", settings_as_json(r->model), "memory",
                               report_memory(memory), "threads", r->info.n_threads, "cpu", r->info.cpu);
    char *text = preview(r, NULL);
    if (object && text) json_object_set_new(object, "chat_example", report_text(text));
    free(text);
    if (object && r->s->tensors && json_object_set_new(object, "tensors", tensors_as_json(r->model))) {
        json_decref(object);
        object = NULL;
    }
    if (object && json_object_set_new(object, r->s->keys ? "keys" : "unknown_keys",
                                      keys_as_json(r->model, r->s->keys))) {
        json_decref(object);
        object = NULL;
    }
    return report_print(object, err);
}

static sac_status inspect_model(run *r, sac_error *err) {
    sac_memory_report memory;
    SAC_TRY(sac_session_plan(r->model, &r->session_config, &memory, err));
    if (r->s->json) return print_json(r, &memory, err);
    print_model(r);
    print_settings(r->model);
    report_print_memory(&memory);
    if (r->s->tensors) {
        putchar('\n');
        print_tensors(r->model);
    }
    if (r->s->keys) {
        putchar('\n');
        print_keys(r->model);
    }
    return output_finish(err);
}

/* The title line of a drawing: question and methods. */
static void describe(const run *r, const char *question, const sac_result *result, char *title, char *line,
                     size_t room) {
    sac_session_method_lines methods;
    sac_session_methods(r->session, &methods);
    snprintf(title, room, "%s", question);
    snprintf(line, room, "answer: %.*s - prefill %s - %" PRId64 " tokens, %" PRId64 " of them visual",
             (int)(result->n_text_bytes < 100 ? result->n_text_bytes : 100), result->text, methods.prefill,
             result->n_prompt_tokens, result->n_visual_tokens);
}

static sac_status draw_attention(run *r, const char *question, sac_error *err) {
    attention_view view;
    conversation c = {0};
    answer a = {.quiet = true};
    sac_result result;
    char title[600], line[900];
    sac_status st = attention_view_open(&view, r->info.n_layers, err);
    r->view = &view;
    if (st == SAC_OK) st = conversation_ask(&c, r->s, &r->s->media, question, err);
    if (st == SAC_OK) st = run_create_session(r, err);
    if (st == SAC_OK) {
        sac_session_observe_kept(r->session, attention_view_kept, &view);
        st = run_answer(r, &c, &a, &result, err);
    }
    if (st == SAC_OK) {
        describe(r, question, &result, title, line, sizeof title);
        st = attention_view_write(&view, r->session, title, line, r->s->attention, err);
    }
    answer_free(&a);
    conversation_free(&c);
    attention_view_free(&view);
    r->view = NULL;
    return st;
}

static sac_status draw_map(run *r, const char *question, sac_error *err) {
    attention_map map;
    conversation c = {0};
    answer a = {.quiet = true};
    sac_result result;
    char title[600], line[900];
    sac_status st = attention_map_open(&map, r->info.n_layers, err);
    if (st == SAC_OK) st = conversation_ask(&c, r->s, &r->s->media, question, err);
    if (st == SAC_OK) st = run_create_session(r, err);
    if (st == SAC_OK) {
        sac_session_observe_kept(r->session, attention_map_kept, &map.prompt);
        sac_session_observe_read(r->session, attention_map_read, &map.steps);
        st = run_answer(r, &c, &a, &result, err);
    }
    if (st == SAC_OK) {
        snprintf(title, sizeof title, "%.400s %.100s", question, a.text ? a.text : "");
        snprintf(line, sizeof line, "%s%.400s%s%s%.400s", r->s->prefill ? "--prefill " : "",
                 r->s->prefill ? r->s->prefill : "", r->s->prefill && r->s->decode ? " " : "",
                 r->s->decode ? "--decode " : "", r->s->decode ? r->s->decode : "");
        st = attention_map_write(&map, r->session, result.n_prompt_tokens, r->info.n_heads, title, line,
                                 r->s->attention, err);
    }
    answer_free(&a);
    conversation_free(&c);
    attention_map_free(&map);
    return st;
}

static sac_status inspect_attention(const settings *s, char **words, int n_words, sac_error *err) {
    if (n_words != 1 || s->media.n == 0)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "--attention wants one question and --image, --video or --frames");
    run r = {0};
    sac_status st = media_list_check(&s->media, err);
    if (st == SAC_OK) st = draft_check(s->attention, err);
    if (st == SAC_OK) st = run_open(&r, s, 0, err);
    if (st == SAC_OK) st = s->map ? draw_map(&r, words[0], err) : draw_attention(&r, words[0], err);
    run_close(&r);
    return st;
}

static sac_status inspect(const settings *s, char **words, int n_words, sac_error *err) {
    if (s->map && !s->attention) return sac_fail(err, SAC_BAD_ARGUMENT, "--map wants --attention FILE.svg");
    if (s->attention) return inspect_attention(s, words, n_words, err);
    if (n_words > 1 || (n_words == 1 && settings_given(s, offsetof(settings, model))))
        return sac_fail(err, SAC_BAD_ARGUMENT, "one model is expected, found also '%.80s'",
                        words[n_words - 1]);
    settings with_model = *s;
    if (n_words) with_model.model = words[0];
    run r = {0};
    sac_status st = run_open(&r, &with_model, (size_t)s->vision_cache_mib << 20, err); /* it is in the plan */
    if (st == SAC_OK) st = s->count_tokens ? inspect_tokens(&r, err) : inspect_model(&r, err);
    run_close(&r);
    return st;
}

const command command_inspect = {
    .name = "inspect",
    .mask = COMMAND_INSPECT,
    .brief = "tell what a model is and the memory it takes",
    .synopsis = "[options] [MODEL | question]",
    .summary =
        "Tells what a model is (family, shapes, parameters, chat format) and the memory that a session of\n"
        "a given context takes; or draws what a prefill method keeps of a picture.",
    .examples = "  saccade inspect MODEL\n"
                "  saccade inspect MODEL --ctx 32768 --kv bf16\n"
                "  saccade inspect model.gguf --tensors\n"
                "  saccade inspect MODEL --json\n"
                "  saccade inspect --attention kept.svg --image cat.jpg \\\n"
                "    --prefill zipvl:min=0 \"What is this?\"\n"
                "  saccade inspect --attention map.svg --map --video clip.mp4 \\\n"
                "    --decode twilight \"What happens?\"\n",
    .run = inspect,
};
