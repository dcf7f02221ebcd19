#include "score.h"
#include "hash.h"

#include <string.h>

/* What was cut may end within a character, which goes. */
static void end_whole(char *said, size_t room) {
    size_t n = strlen(said);
    if (n + 1 < room) return;
    while (n && (said[n - 1] & 0xc0) == 0x80) n--;
    if (n && (said[n - 1] & 0x80)) n--;
    said[n] = 0;
}

bool eval_score_all(const eval_scorer *s, const eval_answers *a, eval_mark *marks) {
    bool ok = true;
    memset(marks, 0, a->n * sizeof *marks);
    if (s->all) ok = s->all(a, marks);
    for (size_t i = 0; !s->all && i < a->n && ok; i++)
        if (a->responses[i]) ok = s->one(a->items[i], a->ids[i], a->responses[i], &marks[i]);
    for (size_t i = 0; i < a->n; i++) end_whole(marks[i].said, sizeof marks[i].said);
    return ok;
}

char eval_draw(const char *id, size_t n_options) {
    return (char)('A' + (n_options ? sac_hash_quick(1, id, strlen(id)) % n_options : 0));
}
