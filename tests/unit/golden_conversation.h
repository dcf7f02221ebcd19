/* golden_conversation.h - the conversation of a case of tools/make_model_goldens.py, with pictures and frames of tests/golden/models. */
#ifndef SAC_TESTS_GOLDEN_CONVERSATION_H
#define SAC_TESTS_GOLDEN_CONVERSATION_H

#include "json.h"
#include "saccade/saccade.h"
#include "test.h"

#define FOLDER     "tests/golden/models"
#define MAX_PARTS  8
#define MAX_FRAMES 16

static const char *text_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

typedef struct conversation {
    sac_message messages[MAX_PARTS];
    size_t n_messages, n_parts;
    sac_part parts[MAX_PARTS];
    char paths[MAX_PARTS][512];
    sac_frame frames[MAX_PARTS][MAX_FRAMES];
    char frame_paths[MAX_PARTS][MAX_FRAMES][512];
} conversation;

static void fill_part(conversation *c, size_t i, const json_t *part) {
    sac_part *p = &c->parts[i];
    const json_t *frames = json_object_get(part, "frames");
    if (text_of(part, "text")) {
        p->kind = SAC_PART_TEXT;
        p->text = text_of(part, "text");
    } else if (frames) {
        p->kind = SAC_PART_FRAMES;
        p->frames = c->frames[i];
        p->n_frames = json_array_size(frames);
        assert_true(p->n_frames <= MAX_FRAMES);
        for (size_t k = 0; k < p->n_frames; k++) {
            snprintf(c->frame_paths[i][k], 512, FOLDER "/%s", json_string_value(json_array_get(frames, k)));
            c->frames[i][k] = (sac_frame){.path = c->frame_paths[i][k], .time_s = (double)k / 2};
        }
    } else {
        snprintf(c->paths[i], 512, FOLDER "/%s", text_of(part, "image"));
        p->kind = SAC_PART_IMAGE;
        p->path = c->paths[i];
    }
}

static void fill_conversation(conversation *c, const json_t *testcase) {
    memset(c, 0, sizeof *c);
    const json_t *messages = json_object_get(testcase, "messages");
    c->n_messages = json_array_size(messages);
    assert_true(c->n_messages >= 1 && c->n_messages <= MAX_PARTS);
    for (size_t k = 0; k < c->n_messages; k++) {
        const json_t *m = json_array_get(messages, k), *parts = json_object_get(m, "parts");
        c->messages[k] =
            (sac_message){text_of(m, "role"), c->parts + c->n_parts, json_array_size(parts), NULL};
        assert_true(c->n_parts + json_array_size(parts) <= MAX_PARTS);
        for (size_t i = 0; i < json_array_size(parts); i++)
            fill_part(c, c->n_parts++, json_array_get(parts, i));
    }
}

#endif
