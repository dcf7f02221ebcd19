/* chat_template_impl.h - what the files of chat_template.h share. */
#ifndef SAC_LLM_CHAT_TEMPLATE_IMPL_H
#define SAC_LLM_CHAT_TEMPLATE_IMPL_H

#include "chat_template.h"
#include "template.h"

typedef enum sac_chat_role {
    SAC_CHAT_SYSTEM,
    SAC_CHAT_USER,
    SAC_CHAT_ASSISTANT,
    SAC_CHAT_TOOL,
    SAC_CHAT_N_ROLES
} sac_chat_role;

sac_chat_role sac_chat_role_of(const char *role); /* any other is written as the user's */

/* What a template makes of content; chat_probe.c finds it out. */
typedef struct sac_chat_traits {
    bool takes_string[SAC_CHAT_N_ROLES], takes_parts[SAC_CHAT_N_ROLES];
    bool writes_image, writes_video; /* a placeholder for a part of that type */
    bool text_arguments;             /* of tool calls: written as they stand when they are a text */
    bool else_is_answer;             /* a role that it does not know is written as the model's */
    char end[64];                    /* sac_chat_template_end */
} sac_chat_traits;

struct sac_chat_template {
    const sac_chat_templates *all; /* special tokens and placeholders */
    sac_template *program;
    sac_chat_traits traits;
};

struct sac_chat_templates {
    struct sac_chat_entry {
        char *name, *source, *text;
        size_t n_bytes;
        sac_chat_template *open; /* NULL until it is asked for */
    } * entry;
    size_t n;
    json_t *tokens;
    char *image, *video; /* placeholders, or NULL */
};

/* Fills in t->traits. BAD_FILE when no conversation at all can be rendered. */
sac_status sac_chat_probe(sac_chat_template *t, sac_error *err);

/* Does the template write a message of this role as it writes an answer? */
bool sac_chat_is_answer(const sac_chat_template *t, const char *role);

/* All variables of a rendering, as a dict. */
sac_status sac_chat_values(sac_tmpl_pool *pool, const sac_chat_template *t, const sac_chat_request *request,
                           sac_tmpl_value *variables, sac_error *err);

/* Stands behind the last text while it is rendered for continue_final_message, as transformers does it. */
#define SAC_CHAT_CONTINUE "CONTINUE_FINAL_MESSAGE_TAG "

/* Runs the template; the caller frees the rendering. */
sac_status sac_chat_run(const sac_chat_template *t, const sac_chat_request *request,
                        struct sac_rendering **rendering, sac_tmpl_string *text, sac_error *err);

#endif
