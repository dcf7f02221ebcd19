#include "progress.h"
#include "clock.h"
#include "request.h"
#include "voice.h"

#include <string.h>

static bool is_news(const serve_told *had, const serve_told *now) {
    const int64_t a_while_ns = 100000000;
    if (!had->stage || strcmp(had->stage, now->stage) != 0 || had->medium != now->medium) return true;
    if (had->done == now->done && had->total == now->total) return false;
    return now->ns - had->ns >= a_while_ns || now->done == now->total;
}

void serve_progress_tell(serve_job *j, const char *stage, int64_t medium, int64_t done, int64_t total) {
    serve_request *r = j->request;
    if (!r || !r->want_progress) return;
    const serve_told now = {
        .stage = stage, .medium = medium, .done = done, .total = total, .ns = sac_now_ns()};
    if (!is_news(&r->told, &now)) return;
    r->told = now;
    json_t *progress =
        json_pack("{s:s, s:I, s:I}", "stage", stage, "done", (json_int_t)done, "total", (json_int_t)total);
    if (medium >= 0) json_object_set_new(progress, "medium", json_integer((json_int_t)medium));
    json_t *event = json_pack("{s:s, s:s, s:I, s:s, s:[], s:{s:o}}", "id", j->id, "object",
                              "chat.completion.chunk", "created", (json_int_t)j->created, "model", j->model,
                              "choices", "saccade", "progress", progress);
    if (r->include_usage) json_object_set_new(event, "usage", json_null());
    serve_voice_send(j, NULL, event);
}
