/* TempCompass (arXiv:2403.00476), the rules of its scripts before they ask ChatGPT: multi-choice (the answer itself, its
 * letter, or a letter with "." or ")" at the start), yes/no (how the response begins), caption matching (the option, its
 * sentence or its name). Where no rule fits, the script with ChatGPT off counts wrong, and so does this. Captions are judged
 * by another model: they are written down and not scored. */
#include "score.h"
#include "score_text.h"

#include <stdio.h>
#include <string.h>

static bool starts(const char *s, const char *with) {
    return !strncmp(s, with, strlen(with));
}

static void mark_choice(const char *said, const char *answer, eval_mark *out) {
    if (!strcmp(said, answer)) {
        out->answered = true;
        out->score = 1;
        return;
    }
    bool letter = said[0] >= 'A' && said[0] <= 'D' && (!said[1] || said[1] == '.' || said[1] == ')');
    out->answered = letter;
    out->score = letter && said[0] == answer[0];
}

static void mark_yes_no(text_pool *p, const char *said, const char *answer, eval_mark *out) {
    char *low = text_lower(p, said);
    const char *read = starts(low, "yes") ? "yes" : starts(low, "no") ? "no" : "";
    out->answered = *read;
    out->score = *read && !strcmp(read, answer);
}

/* An option "Sentence A: ..." taken apart; the sentence up to a further ": ". */
static void take_apart(text_pool *p, const char *option, char **name, char **sentence) {
    const char *colon = strstr(option, ": ");
    *name = text_copy(p, option, colon ? (size_t)(colon - option) : strlen(option));
    const char *rest = colon ? colon + 2 : "", *next = strstr(rest, ": ");
    *sentence = text_copy(p, rest, next ? (size_t)(next - rest) : strlen(rest));
}

static bool is_name(text_pool *p, const char *name, const char *said) {
    return !strcmp(name, said) || !strcmp(name, text_replace(p, said, ".", ""));
}

static void mark_matching(text_pool *p, const eval_item *item, const char *said, eval_mark *out) {
    const char *read = NULL, *after = strstr(said, ") ");
    char *behind = NULL, *name, *sentence;
    if (after) { /* said.split(") ")[1] */
        const char *next = strstr(after + 2, ") ");
        behind = text_copy(p, after + 2, next ? (size_t)(next - after - 2) : strlen(after + 2));
    }
    char *lines = text_copy(p, item->question, strlen(item->question)), *options = strchr(lines, '\n');
    for (int pass = 0; options && pass < 3;
         pass++) { /* whole options, their sentences, their names: the last that fits */
        char *copy = text_copy(p, options + 1, strlen(options + 1));
        for (char *line = copy, *end; line; line = end) {
            if ((end = strchr(line, '\n'))) *end++ = 0;
            take_apart(p, line, &name, &sentence);
            char *bare = text_replace(
                p, text_replace(p, text_replace(p, name, "Sentence ", ""), "Option ", ""), "Caption ", "");
            if (pass == 0 && !strcmp(line, said)) read = line;
            if (pass == 1 && (!strcmp(sentence, said) || (behind && !strcmp(sentence, behind))))
                read = sentence;
            if (pass == 2 && is_name(p, name, said)) read = name;
            if (pass == 2 && is_name(p, bare, said)) read = bare;
        }
    }
    out->answered = read != NULL;
    if (!read) return;
    take_apart(p, item->answer, &name, &sentence);
    char *before = text_copy(p, item->answer, strcspn(item->answer, ":")), *space = strchr(name, ' ');
    out->score = !strcmp(read, item->answer) || !strcmp(read, before) || !strcmp(read, sentence) ||
                 (space && !strcmp(read, text_copy(p, space + 1, strcspn(space + 1, " "))));
}

static bool one(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    text_pool p = {0};
    (void)id;
    snprintf(out->said, sizeof out->said, "%s", response);
    if (!strcmp(item->kind, "multi-choice"))
        mark_choice(response, item->answer, out);
    else if (!strcmp(item->kind, "yes_no"))
        mark_yes_no(&p, response, item->answer, out);
    else if (!strcmp(item->kind, "caption_matching"))
        mark_matching(&p, item, response, out);
    else
        out->apart = true;
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

static bool all(const eval_answers *a, eval_mark *marks) {
    for (size_t i = 0; i < a->n; i++) {
        marks[i].apart = !strcmp(a->items[i]->kind, "captioning");
        if (a->responses[i] && !one(a->items[i], a->ids[i], a->responses[i], &marks[i])) return false;
    }
    return true;
}

const eval_scorer eval_scorer_tempcompass = {.name = "tempcompass", .all = all};
