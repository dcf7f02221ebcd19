#include "room.h"

#include <string.h>

enum { ANSWER_AND_FORMAT = 256 }; /* tokens kept free, as in the engine */

static int64_t text_tokens(const sac_model *m, const char *text) {
    size_t n = 0;
    if (text) sac_tokenize_text(m, text, strlen(text), false, false, NULL, 0, &n, NULL);
    return (int64_t)n;
}

int64_t intake_room(const sac_model *m, int64_t n_ctx, const sac_message *messages, size_t n_messages,
                    int64_t *n_videos) {
    sac_model_info info;
    sac_model_get_info(m, &info);
    int64_t room = n_ctx - ANSWER_AND_FORMAT;
    *n_videos = 0;
    for (size_t i = 0; i < n_messages; i++)
        for (size_t k = 0; k < messages[i].n_parts; k++) {
            const sac_part *p = &messages[i].parts[k];
            if (p->kind == SAC_PART_TEXT)
                room -= text_tokens(m, p->text);
            else if (p->kind == SAC_PART_IMAGE)
                room -= info.tokens_per_frame;
            else
                ++*n_videos;
        }
    return room;
}

int64_t intake_room_frames(const sac_model_info *info, int64_t n_tokens) {
    int64_t n = n_tokens / ((int64_t)info->tokens_per_frame + 1);
    return n > 0 ? n : 1;
}
