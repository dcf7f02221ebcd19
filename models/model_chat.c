#include "model_load.h"

sac_status sac_load_chat(sac_load_context *l, const char *chat_template) {
    sac_loaded_model *m = l->m;
    if (chat_template) m->chat = sac_chat_detect(chat_template);
    if (!m->chat) m->chat = sac_chat_find(l->config.default_chat);
    if (!m->chat) return sac_fail(l->err, SAC_INTERNAL, "no chat format \"%s\"", l->config.default_chat);
    return SAC_OK;
}
