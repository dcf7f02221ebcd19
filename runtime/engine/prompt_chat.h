/* prompt_chat.h - from a conversation to segments of text: by the model's template, or in a built-in format. */
#ifndef SAC_ENGINE_PROMPT_CHAT_H
#define SAC_ENGINE_PROMPT_CHAT_H

#include "chat_template.h"
#include "engine.h"

/* Stands for the visual tokens of the next span. No vocabulary has it, and no text becomes it. */
enum { SAC_PROMPT_MARK = INT32_MIN };

/* Reads and checks what is asked of the model's chat; frees what `c` held before. */
sac_status sac_chat_settings_read(sac_chat_settings *c, const sac_model *m, const sac_chat_options *o,
                                  sac_error *err);
void sac_chat_settings_clear(sac_chat_settings *c);

typedef struct sac_prompt_text {
    sac_text_segment *segments; /* a placeholder is the token SAC_PROMPT_MARK */
    sac_text_segment *made;     /* by a built-in format, or NULL; owned */
    /* With the times or numbers of frames (prompt_times.h, prompt_counts.h), or NULL; owned, as are their texts. */
    sac_text_segment *timed;
    char *times;
    size_t n_segments;
    sac_chat_message *messages;
    sac_chat_part *parts;
    size_t n_messages;
    sac_chat_text rendered; /* by a template; it owns the segments then */
} sac_prompt_text;

/* n_blocks: placeholders of each picture and video, in the order of the conversation; NULL: one each. On failure
 * nothing is left in *out. */
sac_status sac_prompt_render(const sac_model *m, const sac_chat_settings *chat, const sac_message *messages,
                             size_t n_messages, const int64_t *n_blocks, sac_prompt_text *out,
                             sac_error *err);
void sac_prompt_text_free(sac_prompt_text *t);

#endif
