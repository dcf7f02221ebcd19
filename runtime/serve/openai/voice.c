#include "voice.h"

#include <stdlib.h>
#include <string.h>

json_t *serve_voice_take_probs(serve_answer *a) {
    json_t *entries = a->logprobs;
    if (entries) a->logprobs = json_array();
    return entries;
}

void serve_voice_send(serve_job *j, const char *name, json_t *data) {
    char *text = data ? json_dumps(data, JSON_COMPACT) : NULL;
    json_decref(data);
    serve_buffer b = {0};
    if (name) serve_buffer_format(&b, "event: %s\n", name);
    serve_buffer_text(&b, "data: ");
    serve_buffer_text(&b, text ? text : "{}");
    serve_buffer_text(&b, "\n\n");
    free(text);
    serve_job_output(j, b.data, b.n);
    serve_buffer_free(&b);
}

void serve_voice_reply(serve_job *j, json_t *whole) {
    char *text = whole ? json_dumps(whole, JSON_COMPACT) : NULL;
    json_decref(whole);
    if (text) serve_job_output(j, text, strlen(text));
    free(text);
}
