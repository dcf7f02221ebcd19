/* model_chat.c - how a model's conversations are written, and what ends a turn. */
#include "file_map.h"
#include "model_load.h"

#include <stdio.h>
#include <stdlib.h>

void sac_load_stop_id(sac_loaded_model *m, int32_t id) {
    for (int i = 0; i < m->n_stop_ids; i++)
        if (m->stop_ids[i] == id) return;
    if (id >= 0 && m->n_stop_ids < (int)SAC_COUNT(m->stop_ids)) m->stop_ids[m->n_stop_ids++] = id;
}

/* Special tokens that every template may name, where the files do not say them. */
static sac_status set_token(sac_load_context *l, const char *name, int32_t id) {
    sac_text_span s = sac_token_text(l->m->tokenizer, id);
    char text[256];
    if (id < 0 || !s.text || s.n_bytes >= sizeof text) return SAC_OK;
    snprintf(text, sizeof text, "%.*s", (int)s.n_bytes, s.text);
    return sac_chat_templates_set_token(l->m->templates, name, text, l->err);
}

static void placeholder_text(const sac_loaded_model *m, int32_t token, char text[256]) {
    sac_text_span s = sac_token_text(m->tokenizer, token);
    if (s.text && s.n_bytes < 256) snprintf(text, 256, "%.*s", (int)s.n_bytes, s.text);
}

/* The texts of the placeholders. LongVA's id is no token; its texts say "<image>" all the same. A family without one of
 * its own for videos writes a picture's, or a text that tokenizer_config.json may name. */
sac_status sac_load_placeholders(sac_load_context *l) {
    const sac_loaded_model *m = l->m;
    char image[256] = "<image>", video[256] = "";
    placeholder_text(m, m->image_token, image);
    if (l->config.begin_is_mark) snprintf(image, sizeof image, "%s", l->config.media_begin);
    if (m->video_token != m->image_token) placeholder_text(m, m->video_token, video);
    if (l->config.video_mark) {
        const char *named = sac_chat_templates_token(m->templates, "video_token");
        snprintf(video, sizeof video, "%s", named ? named : l->config.video_mark);
    }
    return sac_chat_templates_set_placeholders(m->templates, m->has_vision ? image : NULL,
                                               video[0] ? video : NULL, l->err);
}

sac_status sac_load_chat(sac_load_context *l) {
    sac_loaded_model *m = l->m;
    m->chat = (sac_model_chat){.format = sac_chat_find(l->config.default_chat), .adds_special = true};
    m->template_adds_special = m->has_vision;
    if (!m->chat.format)
        return sac_fail(l->err, SAC_INTERNAL, "no chat format \"%s\"", l->config.default_chat);
    SAC_TRY(sac_chat_templates_create(&m->templates, l->err));
    SAC_TRY(set_token(l, "bos_token", sac_tokenizer_bos(m->tokenizer)));
    SAC_TRY(set_token(l, "eos_token", sac_tokenizer_eos(m->tokenizer)));
    return sac_load_placeholders(l);
}

/* ---- choosing ---- */

static void use_format(sac_loaded_model *m, const sac_chat_format *format) {
    const char *const *stops = sac_chat_stops(format);
    m->chat = (sac_model_chat){.format = format, .adds_special = true};
    for (int i = 0; stops && stops[i]; i++)
        sac_load_stop_id(m, sac_token_find(m->tokenizer, stops[i], strlen(stops[i])));
}

/* The control token that `text` begins with, or -1. */
static int32_t leading_token(const sac_tokenizer *t, const char *text) {
    for (size_t n = strlen(text); n > 0; n--) {
        int32_t id = sac_token_find(t, text, n);
        if (id >= 0 && sac_token_is_special(t, id)) return id;
    }
    return -1;
}

/* What the template writes behind an answer ends one: a token, or a mark such as "<end>" that a model without this
 * token spells. */
static void use_template(sac_loaded_model *m, const sac_chat_template *plain,
                         const sac_chat_template *with_tools) {
    const char *end = sac_chat_template_end(plain);
    int32_t id = leading_token(m->tokenizer, end);
    m->chat =
        (sac_model_chat){.plain = plain, .with_tools = with_tools, .adds_special = m->template_adds_special};
    sac_load_stop_id(m, id);
    if (id < 0 && end[0] == '<' && end[strlen(end) - 1] == '>') m->chat.stops[0] = end;
}

static sac_status use_default(sac_loaded_model *m, sac_error *err) {
    const sac_chat_template *plain, *with_tools;
    size_t n = sac_chat_templates_count(m->templates);
    if (n == 0) {
        use_format(m, m->chat.format);
        return SAC_OK;
    }
    SAC_TRY(sac_chat_templates_open(m->templates, "default", &plain, err));
    if (!plain) {
        char names[200];
        size_t used = 0;
        for (size_t i = 0; i < n && used < sizeof names; i++)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%.40s", i ? ", " : "",
                                     sac_chat_templates_name(m->templates, i));
        return sac_fail(err, SAC_BAD_FILE,
                        "the model has several chat templates and none is the default: choose one "
                        "with --chat: %s",
                        names);
    }
    SAC_TRY(sac_chat_templates_open(m->templates, "tool_use", &with_tools, err));
    use_template(m, plain, with_tools ? with_tools : plain);
    return sac_chat_templates_open(m->templates, SAC_VIDEO_CHAT, &m->chat.with_videos, err);
}

static sac_status use_named(sac_loaded_model *m, const char *name, bool *found, sac_error *err) {
    const sac_chat_template *t;
    SAC_TRY(sac_chat_templates_open(m->templates, name, &t, err));
    *found = t != NULL;
    if (t) use_template(m, t, t);
    return SAC_OK;
}

sac_status sac_loaded_model_set_chat(sac_loaded_model *m, const char *choice, sac_error *err) {
    bool found;
    if (!choice) return use_default(m, err);
    SAC_TRY(use_named(m, choice, &found, err));
    if (found) return SAC_OK;
    const sac_chat_format *format = sac_chat_find(choice);
    if (format) {
        use_format(m, format);
        return SAC_OK;
    }
    if (!sac_file_exists(choice))
        return sac_fail(
            err, SAC_BAD_ARGUMENT,
            "chat format \"%.100s\" is not known, and no such file is there; saccade ask --help lists "
            "the formats",
            choice);
    char *text;
    size_t n_bytes;
    SAC_TRY(sac_file_read(&text, &n_bytes, choice, SAC_CHAT_TEMPLATE_MAX_BYTES, err));
    sac_status st = sac_chat_templates_add(m->templates, choice, choice, text, n_bytes, err);
    free(text);
    if (st == SAC_OK) st = use_named(m, choice, &found, err);
    return st;
}
